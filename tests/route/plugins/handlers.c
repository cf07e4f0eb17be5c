/* SPDX-License-Identifier: Apache-2.0
 * A transport that comes with a library whose constructor takes signals for itself. */
#define NAME "handlers"
#include "variant.c"

#include <signal.h>

static void taken(int number)
{
    (void)number;
}

static __attribute__((constructor)) void take(void)
{
    signal(SIGTERM, taken);
    signal(SIGUSR2, taken);
}
