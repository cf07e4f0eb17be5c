/* SPDX-License-Identifier: Apache-2.0
 * What tests tell the stand-in by the environment, read at every call, since tests change it. Any thread. */
#include "fake.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t fake_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

int fake_fails(const char *function)
{
    static _Atomic unsigned calls;
    const char *script = getenv("FAKECUDA_FAIL");
    size_t length = strlen(function);
    char *end;
    int code;

    if (!script || strncmp(script, function, length) != 0 || script[length] != ':')
        return FAKE_OK;
    code = (int)strtol(script + length + 1, &end, 10);
    if (*end != ':')
        return code;
    return atomic_fetch_add(&calls, 1) + 1 == strtoul(end + 1, NULL, 10) ? code : FAKE_OK;
}
