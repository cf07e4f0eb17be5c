/* SPDX-License-Identifier: Apache-2.0
 * PE 1 takes the registration of its heap away behind Ferry's back; PE 0 writes there with the key that it still has,
 * and has to hear of it. The calls of verbs that register pass through here, as the program's symbols come first. Run
 * by tests/vm under ferry-run with two PEs over ibrc, one process per PE, each of one thread, besides Ferry's own. */
#include <dlfcn.h>
#include <ferry/ferry.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#undef ibv_reg_mr
enum { REMEMBERED = 64 };

/* Registrations that were made and not yet taken away; `gone` are those that were taken away here. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_mr *made[REMEMBERED], *gone[REMEMBERED];

static void *real(const char *name)
{
    static void *verbs;
    if (!verbs)
        verbs = dlopen("libibverbs.so.1", RTLD_NOW);
    return verbs ? dlsym(verbs, name) : NULL;
}

static void replace(struct ibv_mr **list, struct ibv_mr *old, struct ibv_mr *new)
{
    for (int i = 0; i < REMEMBERED; i++)
        if (list[i] == old) {
            list[i] = new;
            return;
        }
}

static struct ibv_mr *note(struct ibv_mr *mr)
{
    pthread_mutex_lock(&lock);
    if (mr)
        replace(made, NULL, mr);
    pthread_mutex_unlock(&lock);
    return mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    struct ibv_mr *(*call)(struct ibv_pd *, void *, size_t, int) = real("ibv_reg_mr");
    return note(call(pd, address, length, access));
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned int access)
{
    struct ibv_mr *(*call)(struct ibv_pd *, void *, size_t, uint64_t, unsigned int) = real("ibv_reg_mr_iova2");
    return note(call(pd, address, length, iova, access));
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    int (*call)(struct ibv_mr *) = real("ibv_dereg_mr");
    bool done = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < REMEMBERED; i++)
        done |= gone[i] == mr;
    if (done)
        replace(gone, mr, NULL);
    else
        replace(made, mr, NULL);
    pthread_mutex_unlock(&lock);
    return done ? 0 : call(mr);
}

/* Returns how many registrations of this address there were. */
static int take_away(const void *address)
{
    int (*call)(struct ibv_mr *) = real("ibv_dereg_mr"), count = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < REMEMBERED; i++) {
        struct ibv_mr *mr = made[i];
        if (!mr || (const char *)address < (char *)mr->addr || (const char *)address >= (char *)mr->addr + mr->length)
            continue;
        made[i] = NULL;
        replace(gone, NULL, mr);
        count += call(mr) == 0;
    }
    pthread_mutex_unlock(&lock);
    return count;
}

static bool owner(ferry_job_t *job, uint64_t *words)
{
    int count = take_away(words);
    printf("stale: pe 1 took %d registrations away\n", count);
    return ferry_p(ferry_ctx_default(job), words, 1, 0) == FERRY_OK && count > 0;
}

static bool writer(ferry_job_t *job, uint64_t *words)
{
    struct ferry_error record = {.size = sizeof record};
    ferry_ctx_t *ctx = ferry_ctx_default(job);
    if (ferry_wait_until(job, words, FERRY_CMP_EQ, 1) != FERRY_OK)
        return false;
    int rc = ferry_p(ctx, words + 1, 2, 1);
    if (rc == FERRY_OK)
        rc = ferry_quiet(ctx);
    ferry_last_error(job, &record);
    printf("stale: pe 0: %s: %s (%s) [peer %d, library status %lld]\n", ferry_status_string(rc), record.message,
           record.hint, record.peer, (long long)record.library_status);
    return rc != FERRY_OK && record.peer == 1 && record.library_status == IBV_WC_REM_ACCESS_ERR &&
           (strstr(record.hint, "key") || strstr(record.hint, "bounds"));
}

int main(void)
{
    ferry_job_t *job;
    if (ferry_init(NULL, &job) != FERRY_OK)
        return 1;
    uint64_t *words = ferry_calloc(job, 2, sizeof *words);
    if (!words || ferry_n_pes(job) != 2 ||
        ferry_p(ferry_ctx_default(job), words + 1, 1, 1 - ferry_my_pe(job)) != FERRY_OK ||
        ferry_barrier(job) != FERRY_OK)
        return 1;
    bool good = ferry_my_pe(job) == 1 ? owner(job, words) : writer(job, words);
    fflush(stdout);
    ferry_finalize(job); /* may fail: an operation of this job has */
    return good ? 0 : 1;
}
