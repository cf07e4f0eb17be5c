/* SPDX-License-Identifier: Apache-2.0
 * Several threads of one PE. Called by the body of a rule. */
#include "crew.h"

#include <pthread.h>

struct member {
    struct crew crew;
    void (*body)(struct crew *crew);
};

static void *member_main(void *arg)
{
    struct member *member = arg;

    member->body(&member->crew);
    return NULL;
}

void crew_run(struct pe *pe, int n, enum crew_contexts contexts, void (*body)(struct crew *crew), void *arg)
{
    struct member members[CREW_MAX];
    pthread_t threads[CREW_MAX];
    int started = 0;

    for (int i = 0; i < n && i < CREW_MAX; i++) {
        members[i] = (struct member){{pe, i, pe->ctx, arg}, body};
        if (contexts == CREW_PRIVATE && !EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &members[i].crew.ctx)))
            break;
        if (!EXPECT(pe, pthread_create(&threads[i], NULL, member_main, &members[i]) == 0))
            break;
        started++;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        if (contexts == CREW_PRIVATE)
            EXPECT_OK(pe, ferry_ctx_destroy(members[i].crew.ctx));
    }
}
