/* SPDX-License-Identifier: Apache-2.0
 * Waiting with an end for calls of libpmix that have none: in a thread that is left behind, or by a latch that callbacks open.
 * A latch is shared with libpmix's thread; whoever releases it last frees it. */
#include "pmix.h"
#include <errno.h>
#include <stdlib.h>
#include <time.h>

static struct timespec after(double seconds)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)seconds;
    at.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

static bool latch_init(struct latch *latch)
{
    pthread_condattr_t how;
    if (pthread_condattr_init(&how) != 0)
        return false;
    pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
    bool good = pthread_mutex_init(&latch->lock, NULL) == 0;
    if (good && pthread_cond_init(&latch->changed, &how) != 0) {
        pthread_mutex_destroy(&latch->lock);
        good = false;
    }
    pthread_condattr_destroy(&how);
    return good;
}

static void latch_free(struct latch *latch)
{
    free(latch->bytes);
    free(latch->got);
    free(latch->taps);
    free(latch);
}

struct latch *latch_new(uint32_t n_pes, size_t length)
{
    struct latch *latch = calloc(1, sizeof(*latch));
    if (!latch)
        return NULL;
    latch->holders = 1;
    latch->length = length;
    latch->got = calloc(n_pes, 1);
    latch->bytes = calloc(n_pes, length);
    if (latch->got && latch->bytes && latch_init(latch))
        return latch;
    latch_free(latch);
    return NULL;
}

void latch_release(struct latch *latch)
{
    pthread_mutex_lock(&latch->lock);
    bool last = --latch->holders == 0;
    pthread_mutex_unlock(&latch->lock);
    if (!last)
        return;
    pthread_cond_destroy(&latch->changed);
    pthread_mutex_destroy(&latch->lock);
    latch_free(latch);
}

bool latch_wait(struct latch *latch, double seconds)
{
    struct timespec end = after(seconds);
    int rc = 0;
    pthread_mutex_lock(&latch->lock);
    while (latch->pending > 0 && rc != ETIMEDOUT)
        rc = seconds > 0 ? pthread_cond_timedwait(&latch->changed, &latch->lock, &end)
                         : pthread_cond_wait(&latch->changed, &latch->lock);
    bool done = latch->pending == 0;
    pthread_mutex_unlock(&latch->lock);
    return done;
}

/* ------------------------------------------------------------------ a call in a thread */

struct bounded {
    void (*fn)(void *arg), (*done)(void *arg);
    void *arg;
    struct latch *latch;
    bool abandoned; /* under the latch's lock */
};

static void *run(void *arg)
{
    struct bounded *b = arg;
    b->fn(b->arg);
    pthread_mutex_lock(&b->latch->lock);
    bool alone = b->abandoned;
    b->latch->pending = 0;
    pthread_cond_signal(&b->latch->changed);
    pthread_mutex_unlock(&b->latch->lock);
    if (alone)
        b->done(b->arg);
    latch_release(b->latch);
    free(b);
    return NULL;
}

bool pmix_bounded(void (*fn)(void *arg), void (*done)(void *arg), void *arg, double seconds)
{
    struct bounded *b = calloc(1, sizeof(*b));
    struct latch *latch = latch_new(1, 1);
    pthread_t thread;
    if (b && latch) {
        *b = (struct bounded){.fn = fn, .done = done, .arg = arg, .latch = latch};
        latch->pending = 1;
        latch->holders = 2;
    }
    if (!b || !latch || pthread_create(&thread, NULL, run, b) != 0) {
        if (latch)
            latch->holders = 1, latch_release(latch);
        free(b);
        fn(arg); /* without a bound, rather than not at all */
        return true;
    }
    pthread_detach(thread);
    bool good = latch_wait(latch, seconds);
    if (!good) {
        pthread_mutex_lock(&latch->lock);
        good = latch->pending == 0; /* in that moment */
        if (!good)
            b->abandoned = true;
        pthread_mutex_unlock(&latch->lock);
    }
    latch_release(latch);
    return good;
}
