/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap by PMIx, the exchange: put, commit, a fence that collects, and gets; and, when the fence ran out of time, gets that say
 * who has come. fence_done and got run on libpmix's thread. */
#include "pmix.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_S 1  /* how long the server is asked who has come */
#define TAKE_S 10 /* what everybody has published is there when the fence is done; what is not, does not come */
#define SLACK_S 2 /* how much later than the server this side gives up */

/* One get under way. */
struct tap {
    struct latch *latch;
    uint32_t pe;
};

static void one_done(struct latch *latch, pmix_status_t status)
{
    if (status != PMIX_SUCCESS)
        latch->status = status;
    latch->pending--;
    pthread_cond_signal(&latch->changed);
}

static void fence_done(pmix_status_t status, void *arg)
{
    struct latch *latch = arg;
    pthread_mutex_lock(&latch->lock);
    one_done(latch, status);
    pthread_mutex_unlock(&latch->lock);
    latch_release(latch);
}

static void got(pmix_status_t status, pmix_value_t *value, void *arg)
{
    struct tap *tap = arg;
    struct latch *latch = tap->latch;
    pthread_mutex_lock(&latch->lock);
    if (status == PMIX_SUCCESS && value && value->type == PMIX_BYTE_OBJECT) {
        size_t size = value->data.bo.size < latch->length ? value->data.bo.size : latch->length;
        memcpy(latch->bytes + tap->pe * latch->length, value->data.bo.bytes, size);
        latch->got[tap->pe] = 1;
    }
    one_done(latch, status);
    pthread_mutex_unlock(&latch->lock);
    latch_release(latch);
}

static int publish(const char *key, const void *mine, size_t length, struct ferry_error *error)
{
    pmix_value_t value;
    char *copy = malloc(length + 1); /* libpmix takes no const */
    if (!copy) {
        pmix_fail(error, FERRY_ERR_NOMEM, NULL, "no memory for %zu bytes to publish", length);
        return FERRY_ERR_NOMEM;
    }
    memcpy(copy, mine, length);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = copy;
    value.data.bo.size = length;
    pmix_status_t rc = PMIx_Put(PMIX_GLOBAL, key, &value);
    if (rc == PMIX_SUCCESS)
        rc = PMIx_Commit();
    free(copy);
    return rc == PMIX_SUCCESS ? FERRY_OK : pmix_failed(error, "publishing this PE's address", rc);
}

/* Whole seconds, at least one; 0: no bound. */
static int whole(double timeout)
{
    return timeout <= 0 ? 0 : timeout < 1 ? 1 : timeout > 1e6 ? 1000000 : (int)timeout;
}

/* FERRY_ERR_TIMEOUT: out of time, says the server, or this side, if the server says nothing. */
static int fence(struct ferry_boot *boot, double timeout, struct ferry_error *error)
{
    struct latch *latch = latch_new(1, 1);
    pmix_proc_t all;
    if (!latch) {
        pmix_fail(error, FERRY_ERR_NOMEM, NULL, "no memory for a fence");
        return FERRY_ERR_NOMEM;
    }
    int seconds = latch->seconds = whole(timeout);
    latch->collects = true;
    PMIX_LOAD_PROCID(&all, boot->me.nspace, PMIX_RANK_WILDCARD);
    latch->all = all;
    PMIX_INFO_LOAD(&latch->info[0], PMIX_COLLECT_DATA, &latch->collects, PMIX_BOOL);
    PMIX_INFO_LOAD(&latch->info[1], PMIX_TIMEOUT, &latch->seconds, PMIX_INT);
    latch->pending = 1;
    latch->holders = 2;
    pmix_status_t rc = PMIx_Fence_nb(&latch->all, 1, latch->info, seconds ? 2 : 1, fence_done, latch);
    if (rc == PMIX_OPERATION_SUCCEEDED)
        fence_done(PMIX_SUCCESS, latch);
    else if (rc != PMIX_SUCCESS)
        fence_done(rc, latch);
    bool done = latch_wait(latch, seconds ? seconds + SLACK_S : 0);
    rc = done ? latch->status : PMIX_ERR_TIMEOUT;
    latch_release(latch);
    /* Partly: somebody has ended, or has read what it wanted and is gone. What there is to read shows which. */
    if (rc == PMIX_SUCCESS || rc == PMIX_ERR_PARTIAL_SUCCESS)
        return FERRY_OK;
    if (rc != PMIX_ERR_TIMEOUT)
        return pmix_failed(error, "PMIx_Fence", rc);
    pmix_fail(error, FERRY_ERR_TIMEOUT, NULL, done ? "PMIx_Fence ran out of time" : "the PMIx server does not answer");
    error->library_status = rc;
    return FERRY_ERR_TIMEOUT;
}

/* Asks for every PE's bytes at once. NULL: no memory. */
static struct latch *collect(struct ferry_boot *boot, const char *key, size_t length, int seconds)
{
    struct latch *latch = latch_new(boot->n_pes, length);
    struct tap *taps = calloc(boot->n_pes, sizeof(*taps));
    if (!latch || !taps) {
        if (latch)
            latch_release(latch);
        free(taps);
        return NULL;
    }
    latch->taps = taps;
    latch->pending = boot->n_pes;
    latch->holders = boot->n_pes + 1;
    latch->seconds = seconds;
    PMIX_INFO_LOAD(&latch->info[0], PMIX_TIMEOUT, &latch->seconds, PMIX_INT);
    for (uint32_t pe = 0; pe < boot->n_pes; pe++) {
        pmix_proc_t proc;
        PMIX_LOAD_PROCID(&proc, boot->me.nspace, pe);
        taps[pe] = (struct tap){latch, pe};
        pmix_status_t rc = PMIx_Get_nb(&proc, key, latch->info, seconds ? 1 : 0, got, &taps[pe]);
        if (rc != PMIX_SUCCESS)
            got(rc, NULL, &taps[pe]);
    }
    return latch;
}

static int take(struct ferry_boot *boot, const char *key, void *all, size_t length, int seconds, struct ferry_error *error)
{
    struct latch *latch = collect(boot, key, length, seconds);
    if (!latch) {
        pmix_fail(error, FERRY_ERR_NOMEM, NULL, "no memory for what %u PEs published", boot->n_pes);
        return FERRY_ERR_NOMEM;
    }
    bool done = latch_wait(latch, seconds ? seconds + SLACK_S : 0);
    pthread_mutex_lock(&latch->lock);
    pmix_status_t rc = done ? latch->status : PMIX_ERR_TIMEOUT;
    uint32_t pe = 0;
    while (pe < boot->n_pes && latch->got[pe])
        pe++;
    if (pe == boot->n_pes)
        memcpy(all, latch->bytes, boot->n_pes * length);
    pthread_mutex_unlock(&latch->lock);
    latch_release(latch);
    if (pe == boot->n_pes)
        return FERRY_OK;
    pmix_fail(error, FERRY_ERR_BOOTSTRAP, "see what the launcher says of it", "PE %u ended, or left PMIx, before all PEs had met: %s", pe,
              PMIx_Error_string(rc));
    error->library_status = rc;
    error->peer = (int32_t)pe;
    return FERRY_ERR_BOOTSTRAP;
}

/* A server waits with the answer until the PE has published, or the time is over. */
static void who_is_here(struct ferry_boot *boot, const char *key, uint8_t *arrived)
{
    struct latch *latch = collect(boot, key, 1, LOOK_S);
    if (!latch)
        return;
    latch_wait(latch, LOOK_S + SLACK_S);
    pthread_mutex_lock(&latch->lock);
    memcpy(arrived, latch->got, boot->n_pes);
    pthread_mutex_unlock(&latch->lock);
    latch_release(latch);
    arrived[boot->me.rank] = 1;
}

int pmix_allgather(struct ferry_boot *boot, const void *mine, void *all, size_t length, double timeout, uint8_t *arrived,
                   struct ferry_error *error)
{
    char key[32];
    snprintf(key, sizeof(key), "ferry.%u", boot->round++);
    int rc = publish(key, mine, length, error);
    if (rc == FERRY_OK)
        rc = fence(boot, timeout, error);
    if (rc == FERRY_ERR_TIMEOUT)
        who_is_here(boot, key, arrived);
    if (rc == FERRY_OK)
        rc = take(boot, key, all, length, timeout > 0 && timeout < TAKE_S ? whole(timeout) : TAKE_S, error);
    return rc;
}
