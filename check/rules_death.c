/* SPDX-License-Identifier: Apache-2.0
 * Item 53: a PE that is killed in the middle of its work. The rule is in charge of jobs whose PEs are processes; their
 * bodies run in these. */
#include "rules.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>

#define BYTES        3000u
#define PEER_TIMEOUT 20.0 /* seconds, as in `options` */
#define ALLOWANCE    20.0 /* and so much more until everybody has heard */

/* Words of the stage: when it died, in ns; how many have heard; a number of the job, of which all is drawn. */
enum { DIED, HEARD, JOB };

struct room {
    uint64_t *told; /* by PE that puts here */
    uint8_t *data;
};

static void unheard(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static int victim_of(const struct pe *pe)
{
    return (int)(atomic_load(&rule_stage(pe)->words[JOB]) % (uint64_t)pe->n);
}

/* Puts and signals to all, and a wait for the left neighbour: PEs keep step, so that one that is missing stops all. */
static int work(struct pe *pe, const struct room *room, uint64_t step)
{
    static const uint8_t source[BYTES];
    int left = (pe->rank + pe->n - 1) % pe->n, rc = FERRY_OK;

    for (int to = 0; to < pe->n && rc == FERRY_OK; to++) {
        rc = ferry_put_nbi(pe->ctx, room->data + (size_t)pe->rank * BYTES, source, BYTES, to);
        if (rc == FERRY_OK)
            rc = ferry_signal(pe->ctx, room->told + pe->rank, 1, FERRY_SIGNAL_ADD, to);
    }
    if (rc == FERRY_OK)
        rc = ferry_quiet(pe->ctx);
    return rc ? rc : ferry_wait_until(pe->job, room->told + left, FERRY_CMP_GE, step);
}

static uint64_t now_ns(void)
{
    return (uint64_t)(pes_now() * 1e9);
}

/* A moment of its own for each job: so many steps, and within one so many puts. */
static void die(struct pe *pe, const struct room *room)
{
    static const uint8_t source[BYTES];
    uint64_t state = atomic_load(&rule_stage(pe)->words[JOB]) + 1, steps = rule_draw(&state) % 30;
    int puts = (int)(rule_draw(&state) % (uint64_t)pe->n);

    for (uint64_t step = 1; step <= steps; step++)
        EXPECT_OK(pe, work(pe, room, step));
    for (int to = 0; to <= puts; to++)
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, room->data + (size_t)pe->rank * BYTES, source, BYTES, to));
    atomic_store(&rule_stage(pe)->words[DIED], now_ns());
    raise(SIGKILL);
}

/* Whatever call it is in ends in time, and the record names the dead. */
static void outlive(struct pe *pe, const struct room *room)
{
    struct ferry_error record = {.size = sizeof(record)};
    uint64_t died, now;
    double end;
    int rc = FERRY_OK;

    for (uint64_t step = 1; rc == FERRY_OK; step++)
        rc = work(pe, room, step);
    now = now_ns();
    died = atomic_load(&rule_stage(pe)->words[DIED]);
    EXPECT_OK(pe, ferry_last_error(pe->job, &record));
    if (!EXPECT(pe, rc == FERRY_ERR_PEER && record.peer == victim_of(pe)))
        fprintf(stderr, "  %s, pe %d: %s\n", ferry_status_string(rc), record.peer, record.message);
    end = (double)died * 1e-9 + PEER_TIMEOUT + ALLOWANCE;
    EXPECT(pe, died && (double)now * 1e-9 <= end);
    while (ferry_pe_alive(pe->job, victim_of(pe)) && pes_now() < end)
        sched_yield();
    EXPECT(pe, ferry_pe_alive(pe->job, victim_of(pe)) == 0);
    atomic_fetch_add(&rule_stage(pe)->words[HEARD], 1); /* nobody leaves before all have heard of the right one */
    rule_meet(pe, HEARD, (uint64_t)pe->n - 1);
}

static void one_dies(struct pe *pe)
{
    struct room room = {rule_calloc(pe, (size_t)pe->n * 8), rule_calloc(pe, (size_t)pe->n * BYTES)};

    if (!room.told || !room.data)
        return;
    if (pe->rank == victim_of(pe))
        die(pe, &room);
    else
        outlive(pe, &room);
}

/* A transport for threads of one process says so of every peer. */
static bool nobody_reached(const struct run *run)
{
    for (int i = 0; i < run->n; i++)
        if (run->init_status[i] != FERRY_ERR_UNREACHABLE)
            return false;
    return true;
}

static void kills(struct pe *pe)
{
    static const char *const options[] = {"FERRY_PEER_TIMEOUT=20", NULL};
    struct stage *stage = rule_stage(pe);
    unsigned long times = rule_times(pe, "jobs of which one PE is killed", 20);

    for (unsigned long i = 0; i < times; i++) {
        struct run run = {.n = pe->n, .body = one_dies, .arg = stage, .options = options, .log = unheard};
        int victim;

        atomic_store(&stage->words[DIED], 0);
        atomic_store(&stage->words[HEARD], 0);
        atomic_store(&stage->words[JOB], i * 7 + 2);
        victim = victim_of(pe);
        pes_fork(&run); /* counts the ends as bad, which they are */
        if (nobody_reached(&run)) {
            rule_not_applicable(pe, "its PEs cannot be processes");
            return;
        }
        EXPECT(pe, atomic_load(&run.failures) == 0);
        for (int other = 0; other < pe->n; other++) {
            EXPECT(pe, run.init_status[other] == FERRY_OK);
            EXPECT(pe, run.final_status[other] == (other == victim ? FERRY_OK /* none */ : FERRY_ERR_PEER));
        }
    }
}

const struct rule fy_rules_death[] = {
    {"R53.1", "a PE killed at work: each call of the others ends in time and names it", 2, RULE_ALONE, kills, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
