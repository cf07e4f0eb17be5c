/* SPDX-License-Identifier: Apache-2.0
 * Items 52 and 54: a call of the transport that fails, whichever it is; an operation that never completes; descriptors
 * that run out. The hook `fault` has it happen. Called once, without a job; the PEs of the jobs are threads. */
#include "jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define BYTES 3000u

/* What one PE of a job saw. */
struct seen {
    int status;        /* of the call that failed; FERRY_OK: none did */
    char message[320]; /* the reason that it was given */
    bool right;        /* it came to the end, and all data were as they should be */
};

/* One job, with one fault. */
struct fault {
    char call[60], nth[40], pe[40], channel[40], how[40], timeout[40], hooks[300];
    const char *options[8];
    _Atomic int fired, told; /* the hook says that it happened; the library's log has the reason */
    struct seen seen[JOBS_PES];
    struct job job;
};

/* ------------------------------------------------------------------ what the PEs do */

struct room {
    uint8_t *data;
    uint64_t *words; /* 0: a counter, 1: signals, 2: put by words */
    uint8_t local[BYTES], back[BYTES];
};

/* The first negative status ends it: each step is tried only after those before it. */
static int operations(struct pe *pe, struct room *room, ferry_ctx_t *ctx, uint64_t round)
{
    int to = (pe->rank + 1) % pe->n, rc;
    uint64_t old;

    rule_fill(room->local, BYTES, round * 64 + (uint64_t)pe->rank);
    rc = ferry_put_nbi(ctx, room->data, room->local, BYTES, to);
    rc = rc ? rc : ferry_fence(ctx);
    rc = rc ? rc : ferry_put(ctx, room->words + 2, &round, 8, to);
    rc = rc ? rc : ferry_atomic_add(ctx, room->words, 3, to);
    rc = rc ? rc : ferry_atomic_fetch_add(ctx, room->words, 4, &old, to);
    rc = rc ? rc : ferry_quiet(ctx);
    rc = rc ? rc : ferry_get(ctx, room->back, room->data, BYTES, to);
    return rc ? rc : ferry_put_signal(ctx, room->data, room->local, BYTES, room->words + 1, 1, FERRY_SIGNAL_ADD, to);
}

static bool as_it_should_be(const struct pe *pe, const struct room *room, uint64_t round)
{
    uint64_t from = (uint64_t)((pe->rank + pe->n - 1) % pe->n);

    return rule_wrong(room->data, BYTES, round * 64 + from) == 0 &&
           rule_wrong(room->back, BYTES, round * 64 + (uint64_t)pe->rank) == 0 && room->words[0] == 7 * round &&
           room->words[1] == round && room->words[2] == round;
}

static int rounds(struct pe *pe, struct room *room, ferry_ctx_t *own, bool *right)
{
    int rc = FERRY_OK;

    *right = true;
    for (uint64_t round = 1; round <= 4 && rc == FERRY_OK; round++) {
        rc = operations(pe, room, round % 2 ? pe->ctx : own, round);
        rc = rc ? rc : ferry_quiet(own);
        rc = rc ? rc : ferry_wait_until(pe->job, room->words + 1, FERRY_CMP_GE, round);
        rc = rc ? rc : ferry_barrier(pe->job);
        *right &= rc == FERRY_OK && as_it_should_be(pe, room, round);
        rc = rc ? rc : ferry_barrier(pe->job);
    }
    return rc;
}

static int with_memory(struct pe *pe, struct room *room, bool *right)
{
    ferry_buffer_t *buffer = NULL;
    ferry_ctx_t *own = NULL;
    int rc = ferry_ctx_create(pe->job, 0, &own), end;

    if (rc != FERRY_OK)
        return rc;
    rc = ferry_register(pe->job, room, sizeof(*room), &buffer);
    if (rc == FERRY_OK) {
        rc = rounds(pe, room, own, right);
        end = ferry_deregister(buffer);
        rc = rc ? rc : end;
    }
    end = ferry_ctx_destroy(own);
    return rc ? rc : end;
}

static void take_reason(struct pe *pe, struct seen *seen, int status)
{
    struct ferry_error record = {.size = sizeof(record)};

    seen->status = status;
    if (status == FERRY_OK)
        return;
    seen->right = false;
    ferry_last_error(pe->job, &record);
    memcpy(seen->message, record.message, sizeof(seen->message));
    ferry_abort(pe->job, 1); /* or the others would wait for what does not come */
}

static void work(struct pe *pe)
{
    struct fault *fault = pe->arg;
    struct seen *seen = &fault->seen[pe->rank];
    struct room *room = calloc(1, sizeof(*room));
    int rc = FERRY_ERR_NOMEM;

    if (!EXPECT(pe, room != NULL))
        return;
    room->data = ferry_calloc(pe->job, 1, BYTES);
    room->words = room->data ? ferry_calloc(pe->job, 3, 8) : NULL;
    if (room->words)
        rc = with_memory(pe, room, &seen->right);
    take_reason(pe, seen, rc);
    free(room);
}

/* ------------------------------------------------------------------ the job and its verdict */

static void hear(void *arg, int level, const char *line)
{
    struct fault *fault = arg;

    (void)level;
    if (strstr(line, "as it was asked to"))
        atomic_store(&fault->told, 1);
    else if (strstr(line, "fault: call "))
        atomic_store(&fault->fired, 1);
    printf("    %s\n", line);
}

/* Of an operation that is lost the default context's are meant: barriers have a channel of their own, on which nobody
 * asks for completion. */
static void set_options(struct fault *fault, const char *call, unsigned long nth, int pe, const char *how,
                        const char *timeout)
{
    const char *hooks = getenv("FERRY_HOOKS");
    size_t n = 0;

    memset(fault, 0, sizeof(*fault));
    snprintf(fault->call, sizeof(fault->call), "FERRY_FAULT_CALL=%s", call);
    snprintf(fault->nth, sizeof(fault->nth), "FERRY_FAULT_NTH=%lu", nth);
    snprintf(fault->pe, sizeof(fault->pe), "FERRY_FAULT_PE=%d", pe);
    snprintf(fault->channel, sizeof(fault->channel), "FERRY_FAULT_CHANNEL=%d", strcmp(how, "lost") == 0 ? 0 : -1);
    snprintf(fault->how, sizeof(fault->how), "FERRY_FAULT_HOW=%s", how);
    snprintf(fault->timeout, sizeof(fault->timeout), "FERRY_TIMEOUT=%s", timeout);
    snprintf(fault->hooks, sizeof(fault->hooks), "FERRY_HOOKS=fault%s%s", hooks && *hooks ? "," : "",
             hooks ? hooks : "");
    fault->options[n++] = fault->call;
    fault->options[n++] = fault->nth;
    fault->options[n++] = fault->pe;
    fault->options[n++] = fault->channel;
    fault->options[n++] = fault->how;
    fault->options[n++] = fault->timeout;
    fault->options[n++] = fault->hooks;
}

/* A hang is seen by the rule's deadline: what was under way is noted before. So is what it left. */
static void play(struct pe *pe, struct fault *fault)
{
    struct pes_usage before = pes_usage(), after;
    struct stage *stage = rule_stage(pe);

    snprintf(stage->seen, sizeof(stage->seen), "%s %s %s %s", fault->call, fault->nth, fault->pe, fault->how);
    printf("    %s\n", stage->seen);
    fault->job =
        (struct job){.n = pe->n, .body = work, .arg = fault, .options = fault->options, .log = hear, .log_arg = fault};
    job_run(pe, &fault->job);
    after = pes_usage();
    if (after.fds != before.fds || after.threads != before.threads)
        printf("    descriptors %d then %d, threads %d then %d\n", before.fds, after.fds, before.threads,
               after.threads);
}

static bool failed(const struct fault *fault, int i)
{
    return fault->job.pes[i].began < 0 || fault->seen[i].status < 0 || fault->job.pes[i].ended < 0;
}

/* A reason of its own, and not the news that somebody else has given up. */
static bool reason(const char *message)
{
    return message[0] && !strstr(message, "abort");
}

/* Was this PE given a reason; or, where something never completed, that it took too long? */
static bool told_why(const struct fault *fault, int i, bool lost)
{
    if (lost)
        return fault->seen[i].status == FERRY_ERR_TIMEOUT && fault->seen[i].message[0];
    return reason(fault->job.pes[i].error.message) || reason(fault->seen[i].message);
}

static void explain(const struct pe *pe, const struct fault *fault)
{
    fprintf(stderr, "  %s %s %s %s\n", fault->call, fault->nth, fault->pe, fault->how);
    for (int i = 0; i < pe->n; i++)
        fprintf(stderr, "  pe %d: init %s (%s), work %s (%s), %s, finalize %s\n", i,
                ferry_status_string(fault->job.pes[i].began), fault->job.pes[i].error.message,
                ferry_status_string(fault->seen[i].status), fault->seen[i].message,
                fault->seen[i].right ? "data right" : "data not checked or wrong",
                ferry_status_string(fault->job.pes[i].ended));
}

/* Either nobody lost anything, or somebody was told, by a status or by the log. */
static bool judge(struct pe *pe, const struct fault *fault, bool lost, bool must_tell)
{
    bool told = atomic_load(&fault->told), all_right = true, any_failed = false;

    for (int i = 0; i < pe->n; i++) {
        told |= told_why(fault, i, lost);
        all_right &= fault->seen[i].right;
        any_failed |= failed(fault, i);
    }
    if (!atomic_load(&fault->fired))
        return EXPECT(pe, all_right && !any_failed);
    if (must_tell)
        return EXPECT(pe, told);
    return EXPECT(pe, told || all_right);
}

/* ------------------------------------------------------------------ 54: each call in turn */

static const struct {
    const char *name;
    bool must_tell; /* else the library may do without it, or it only ends something */
} calls[] = {
    {"open", true},
    {"export_endpoint", true},
    {"query", false},
    {"reach", true},
    {"open_channel", true},
    {"connect", true},
    {"allocate_memory", true},
    {"register_memory", true},
    {"export_key", true},
    {"import_key", true},
    {"map_key", false},
    {"rma", true},
    {"amo", true},
    {"put_signal", true},
    {"post", true},
    {"fence", true},
    {"quiet", true},
    {"progress", false},
    {"close_channel", false},
    {"disconnect", false},
    {"release_key", false},
    {"deregister_memory", false},
    {"free_memory", false},
    {"close", false},
};

/* Turn after turn, between jobs that are good; nothing is left behind. */
static void take_turns(struct pe *pe, unsigned long times, void (*turn)(struct pe *pe, struct fault *fault, unsigned long nth))
{
    struct fault *fault = malloc(sizeof(*fault));
    struct pes_usage before;

    if (!EXPECT(pe, fault != NULL))
        return;
    job_good(pe, pe->n);
    job_good(pe, pe->n);
    before = pes_usage();
    for (unsigned long nth = 1; nth <= times; nth++)
        turn(pe, fault, nth);
    job_same_usage(pe, &before);
    job_good(pe, pe->n);
    free(fault);
}

static void fail_each(struct pe *pe, struct fault *fault, unsigned long nth)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        set_options(fault, calls[i].name, nth, (int)((nth + i) % (unsigned long)pe->n), "once", "60");
        play(pe, fault);
        if (!judge(pe, fault, false, calls[i].must_tell))
            explain(pe, fault);
    }
}

static void each_call(struct pe *pe)
{
    take_turns(pe, rule_times(pe, "turns of each entry point", 20), fail_each);
}

/* ------------------------------------------------------------------ 52: never complete */

/* The bound is FERRY_TIMEOUT. A machine that is so slow that the job does not even come to the fault gets more of it.
 */
static void one_lost(struct pe *pe, struct fault *fault, const char *call, unsigned long nth)
{
    static const char *const timeouts[] = {"1", "5", "30"};

    for (size_t i = 0; i < sizeof(timeouts) / sizeof(*timeouts); i++) {
        set_options(fault, call, nth, (int)(nth % (unsigned long)pe->n), "lost", timeouts[i]);
        play(pe, fault);
        if (atomic_load(&fault->fired))
            break;
        if (!failed(fault, 0) && !failed(fault, pe->n - 1))
            return; /* the library does without this call here */
    }
    if (!judge(pe, fault, true, false) || !EXPECT(pe, atomic_load(&fault->fired)))
        explain(pe, fault);
}

static void lose_each(struct pe *pe, struct fault *fault, unsigned long nth)
{
    static const char *const lost[] = {"rma", "amo", "put_signal", "post"};

    for (size_t i = 0; i < sizeof(lost) / sizeof(*lost); i++)
        one_lost(pe, fault, lost[i], nth * 2 - 1);
}

static void never_complete(struct pe *pe)
{
    take_turns(pe, rule_times(pe, "turns of each operation", 20), lose_each);
}

/* ------------------------------------------------------------------ 54: no descriptors left */

static void limit_descriptors(rlim_t n, struct rlimit *before)
{
    struct rlimit now;

    getrlimit(RLIMIT_NOFILE, before);
    now = (struct rlimit){n < before->rlim_max ? n : before->rlim_max, before->rlim_max};
    setrlimit(RLIMIT_NOFILE, &now);
}

/* With room for so many more, a job of one PE works, or ends with a reason. */
static bool so_many(struct pe *pe, struct fault *fault, int more)
{
    static const char *const options[] = {"FERRY_TIMEOUT=2", NULL};
    struct stage *stage = rule_stage(pe);
    struct rlimit before;

    memset(fault, 0, sizeof(*fault));
    snprintf(stage->seen, sizeof(stage->seen), "with room for %d descriptors more", more);
    printf("    %s\n", stage->seen);
    fault->job = (struct job){.n = 1, .body = work, .arg = fault, .options = options, .log = hear, .log_arg = fault};
    limit_descriptors((rlim_t)(pes_usage().fds + more), &before);
    job_run(pe, &fault->job);
    setrlimit(RLIMIT_NOFILE, &before);
    if (!failed(fault, 0))
        return EXPECT(pe, fault->seen[0].right);
    return EXPECT(pe, fault->job.pes[0].began == FERRY_OK || fault->job.pes[0].error.message[0]) &&
           EXPECT(pe, fault->seen[0].status == FERRY_OK || fault->seen[0].message[0]);
}

static void few_descriptors(struct pe *pe)
{
    enum { MOST = 400 };
    struct fault *fault = malloc(sizeof(*fault));
    struct pes_usage before;

    if (!EXPECT(pe, fault != NULL))
        return;
    job_good(pe, 1);
    job_good(pe, 1);
    before = pes_usage();
    for (int more = 8; more < MOST; more++) {
        if (!so_many(pe, fault, more))
            fprintf(stderr, "  with room for %d descriptors more\n", more);
        if (!failed(fault, 0))
            break;
    }
    job_same_usage(pe, &before);
    job_good(pe, 1);
    free(fault);
}

const struct rule fy_rules_faults[] = {
    {"R54.2", "each call of the transport that fails is told, and leaves nothing behind", 2,
     RULE_ALONE | RULE_PAIR | RULE_ASKED, each_call, NULL},
    {"R52.2", "an operation that never completes is told in time, and leaves nothing behind", 2,
     RULE_ALONE | RULE_PAIR | RULE_ASKED, never_complete, NULL},
    {"R54.3", "a job without descriptors left ends with a reason, and leaves nothing behind", 1,
     RULE_ALONE | RULE_PAIR | RULE_ASKED, few_descriptors, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
