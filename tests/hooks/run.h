/* SPDX-License-Identifier: Apache-2.0
 * One run of chaos over the transport that writes everything down. One thread. */
#ifndef TESTS_HOOKS_RUN_H
#define TESTS_HOOKS_RUN_H

#include "program.h"

#define BASIC (FERRY_CAP_GET | FERRY_CAP_QUIET_PEER | FERRY_CAP_UNREGISTERED_LOCAL)

struct run {
    struct stub *stub;
    struct above above;
    struct program *program;
};

extern const char *const still[]; /* options: no gaps */
void start(struct run *run, const char *const *options);
void start_over(struct run *run, const char *const *options, uint32_t flags, uint32_t order);
/* Over a transport that moves memory of GPUs, too. */
void start_gpu(struct run *run, const char *const *options);
void finish(struct run *run);

#endif
