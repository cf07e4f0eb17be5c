/* SPDX-License-Identifier: Apache-2.0
 * Jobs that a rule starts itself. Called by the body of such a rule, one thread; the PEs are threads of this process.
 */
#include "jobs.h"

#include <pthread.h>
#include <stdio.h>

#define BYTES   3000u
#define OPTIONS 16

static void unheard(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static void *pe_main(void *arg)
{
    struct job_pe *self = arg;
    struct pe *pe = &self->pe;
    ferry_attr_t attr = {.size = sizeof(attr),
                         .bootstrap = FERRY_BOOTSTRAP_UNIQUEID,
                         .rank = pe->rank,
                         .n_pes = pe->n,
                         .id = self->id,
                         .options = self->options,
                         .log = self->log,
                         .log_arg = self->log_arg,
                         .error = &self->error};

    self->error.size = sizeof(self->error);
    self->began = ferry_init(&attr, &pe->job);
    if (self->began != FERRY_OK)
        return NULL;
    pe->ctx = ferry_ctx_default(pe->job);
    self->body(pe);
    self->ended = ferry_finalize(pe->job);
    return NULL;
}

static int copy_options(const char **to, const char *transport, const struct job *job)
{
    int n = 0;

    to[n++] = transport;
    for (int i = 0; job->options && job->options[i] && n < OPTIONS - 2; i++)
        to[n++] = job->options[i];
    to[n] = NULL;
    return n;
}

void job_run(struct pe *pe, struct job *job)
{
    const char *all[OPTIONS], *one[OPTIONS];
    char transport[600];
    ferry_uniqueid_t id;
    ferry_meeting_t *meeting;
    pthread_t threads[JOBS_PES];
    int n, started = 0;

    snprintf(transport, sizeof(transport), "FERRY_TRANSPORT=%s", pes_transport());
    copy_options(all, transport, job);
    n = copy_options(one, transport, job);
    one[n] = job->only_one;
    one[n + 1] = NULL;
    if (!EXPECT_OK(pe, ferry_meeting_open(&id, &meeting)))
        return;
    for (int i = 0; i < job->n; i++) {
        job->pes[i] = (struct job_pe){.pe = {.rank = i, .n = job->n, .arg = job->arg, .run = pe->run},
                                      .body = job->body,
                                      .id = &id,
                                      .options = i == 1 && job->only_one ? one : all,
                                      .log = job->log ? job->log : unheard,
                                      .log_arg = job->log_arg};
        if (!EXPECT(pe, pthread_create(&threads[i], NULL, pe_main, &job->pes[i]) == 0))
            break;
        started++;
    }
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    EXPECT_OK(pe, ferry_meeting_close(meeting));
}

static void some_work(struct pe *pe)
{
    uint64_t *word = ferry_calloc(pe->job, 1, 8);
    uint8_t *data = ferry_calloc(pe->job, (size_t)pe->n, BYTES), *mine;
    static const uint8_t source[BYTES];

    if (!EXPECT(pe, word && data))
        return;
    mine = data + (size_t)pe->rank * BYTES;
    for (int to = 0; to < pe->n; to++) {
        EXPECT_OK(pe, ferry_atomic_inc(pe->ctx, word, to));
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, mine, source, BYTES, to));
    }
    EXPECT_OK(pe, ferry_wait_until(pe->job, word, FERRY_CMP_EQ, (uint64_t)pe->n));
    for (int to = 0; to < pe->n; to++) /* left for finalize */
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, mine, source, BYTES, to));
}

void job_good(struct pe *pe, int n)
{
    struct job job = {.n = n, .body = some_work, .arg = pe->arg};

    job_run(pe, &job);
    for (int i = 0; i < n; i++) {
        if (!EXPECT(pe, job.pes[i].began == FERRY_OK))
            fprintf(stderr, "  pe %d: %s\n", i, job.pes[i].error.message);
        EXPECT(pe, job.pes[i].ended == FERRY_OK);
    }
}

void job_same_usage(struct pe *pe, const struct pes_usage *before)
{
    struct pes_usage after = pes_usage_after(before);
    char what[120];

    snprintf(what, sizeof(what), "descriptors %d, then %d; threads %d, then %d; mappings %d, then %d", before->fds,
             after.fds, before->threads, after.threads, before->maps, after.maps);
    pes_expect(pe,
               after.fds == before->fds && after.threads == before->threads &&
                   after.maps <= before->maps + 16, /* an arena or two of the C library */
               what, __FILE__, __LINE__);
}
