/* SPDX-License-Identifier: Apache-2.0
 * Several threads of one PE, for rules about threads and contexts. Started and joined by the body of the rule. */
#ifndef CHECK_CREW_H
#define CHECK_CREW_H

#include "rules.h"

#define CREW_MAX 8

struct crew {
    struct pe *pe;
    int index;
    ferry_ctx_t *ctx; /* its own, or the default one */
    void *arg;
};

enum crew_contexts { CREW_SHARED, CREW_PRIVATE };

/* Runs `body` in n threads and joins them; private contexts are made before and destroyed after. */
void crew_run(struct pe *pe, int n, enum crew_contexts contexts, void (*body)(struct crew *crew), void *arg);

#endif
