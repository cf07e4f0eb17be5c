/* SPDX-License-Identifier: Apache-2.0
 * PEs as processes, of which one is killed at a random moment, again and again: the survivors stay, and begin the next
 * job with a new victim. The supervisor holds no job; every process is made before the first. */
#include "pes.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PES          4
#define SURVIVORS    (PES - 1)
#define ROUNDS       100
#define BYTES        20000u
#define PEER_TIMEOUT 20
#define SLACK        20.0 /* seconds that a call may take beyond it */
#define SETTLED      10  /* rounds after which nothing grows */

/* Maps that the allocators of the sanitizers add as they go. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MORE_MAPS 32
#else
#define MORE_MAPS 0
#endif

/* Shared by all processes. */
struct scene {
    int rounds;
    uint64_t seed;
    ferry_uniqueid_t id;
    int victim; /* rank of this round */
    sem_t start[SURVIVORS], victim_start[ROUNDS], ended;
    _Atomic int busy, met, failures;
    _Atomic double killed; /* when */
    double slowest;        /* of all rounds; the supervisor's */
    _Atomic double took[SURVIVORS];
    struct pes_usage usage[SURVIVORS][ROUNDS];
};

struct memory {
    uint64_t ring, sum, count[PES];
    uint32_t narrow;
    uint8_t bytes[PES][BYTES];
};

/* One PE in one round. */
struct part {
    struct scene *scene;
    struct pe pe;
    struct run run;
    struct memory *memory;
    uint8_t *buffer;
    uint64_t state;
    bool victim;
    double slowest; /* end of a call, after the later of its start and the kill */
};

static uint64_t draw(struct part *part, uint64_t below)
{
    part->state ^= part->state << 13;
    part->state ^= part->state >> 7;
    part->state ^= part->state << 17;
    return part->state * 0x2545f4914f6cdd1du % below;
}

static void swallow(void *arg, int level, const char *line)
{
    (void)arg, (void)level, (void)line;
}

static int one_put(struct part *part, int pe, size_t n)
{
    struct memory *m = part->memory;
    uint8_t *dest = m->bytes[part->pe.rank];

    switch (draw(part, 4)) {
    case 0:
        return ferry_put(part->pe.ctx, dest, part->buffer, n, pe);
    case 1:
        return ferry_put_signal_nbi(part->pe.ctx, dest, part->buffer, n, &m->count[part->pe.rank], 1, FERRY_SIGNAL_ADD,
                                    pe);
    default:
        return ferry_put_nbi(part->pe.ctx, dest, part->buffer, n, pe);
    }
}

/* Anything, to anybody. */
static int one_operation(struct part *part)
{
    struct memory *m = part->memory;
    ferry_ctx_t *ctx = part->pe.ctx;
    int pe = (int)draw(part, PES);
    size_t n = 1 + draw(part, draw(part, 4) ? 64 : BYTES - 1);
    uint64_t old;
    uint32_t old32;

    switch (draw(part, 9)) {
    case 0:
        return ferry_get(ctx, part->buffer + BYTES, m->bytes[pe], n, pe);
    case 1:
        return ferry_atomic_fetch_add(ctx, &m->sum, 1, &old, pe);
    case 2:
        return ferry_atomic_add(ctx, &m->sum, 1, pe);
    case 3:
        return ferry_atomic32_fetch_add(ctx, &m->narrow, 1, &old32, pe);
    case 4:
        return ferry_fence(ctx);
    case 5:
        return ferry_quiet_pe(ctx, pe);
    case 6:
        return ferry_quiet(ctx);
    default:
        return one_put(part, pe, n);
    }
}

/* A round of the ring, in which all wait for all; the kinds of waits differ. */
static int meet(struct part *part, uint64_t round)
{
    int next = (part->pe.rank + 1) % PES, rc;

    if (round % 4 == 1)
        return ferry_barrier(part->pe.job);
    if (round % 4 == 2)
        return ferry_sync(part->pe.job);
    rc = ferry_signal(part->pe.ctx, &part->memory->ring, 1, FERRY_SIGNAL_ADD, next);
    if (rc != FERRY_OK)
        return rc;
    return ferry_wait_until(part->pe.job, &part->memory->ring, FERRY_CMP_GE, 1 + round / 4 * 2 + (round % 4 == 3));
}

static void timed(struct part *part, double start)
{
    double killed = atomic_load(&part->scene->killed), now = pes_now();

    if (killed == 0)
        return;
    if (start < killed)
        start = killed;
    if (now - start > part->slowest)
        part->slowest = now - start;
}

/* Until a call fails. The victim does not get there. */
static int traffic(struct part *part)
{
    atomic_fetch_add(&part->scene->busy, 1);
    for (uint64_t step = 0;; step++) {
        double start = pes_now();
        int rc = step % 32 == 31 ? meet(part, step / 32) : one_operation(part);
        timed(part, start);
        if (rc != FERRY_OK)
            return rc;
    }
}

/* The failure has the victim's name; who knows of it goes on with the living. */
static void check_failure(struct part *part, int rc)
{
    struct ferry_error error = {.size = sizeof error};
    struct pe *pe = &part->pe;
    int victim = part->scene->victim;
    char name[32];
    uint64_t old;

    snprintf(name, sizeof name, "pe %d ", victim);
    EXPECT(pe, rc == FERRY_ERR_PEER);
    EXPECT_OK(pe, ferry_last_error(pe->job, &error));
    if (!EXPECT(pe, error.status == FERRY_ERR_PEER && error.peer == victim && strcasestr(error.message, name)))
        fprintf(stderr, "%s; peer %d, victim %d: %s\n", ferry_status_string(rc), error.peer, victim, error.message);
    double start = pes_now();
    for (double end = start + PEER_TIMEOUT + SLACK; ferry_pe_alive(pe->job, victim) && pes_now() < end;)
        sched_yield();
    EXPECT(pe, ferry_pe_alive(pe->job, victim) == 0);
    EXPECT(pe, ferry_barrier(pe->job) == FERRY_ERR_PEER);
    EXPECT_OK(pe, ferry_acknowledge_failures(pe->job));
    rc = ferry_quiet(pe->ctx);
    EXPECT(pe, rc == FERRY_OK || rc == FERRY_ERR_PEER);
    for (int living = 0; living < PES; living++)
        if (living != victim)
            EXPECT_OK(pe, ferry_atomic_fetch_add(pe->ctx, &part->memory->sum, 1, &old, living));
    timed(part, start);
}

/* The survivors stay until each has reached the others. */
static void part_together(struct part *part)
{
    atomic_fetch_add(&part->scene->met, 1);
    for (double end = pes_now() + 120; atomic_load(&part->scene->met) < SURVIVORS && pes_now() < end;)
        sched_yield();
    EXPECT(&part->pe, atomic_load(&part->scene->met) >= SURVIVORS);
}

static void play(struct part *part)
{
    static const char *const options[] = {"FERRY_PEER_TIMEOUT=20", "FERRY_HEAP_CHUNK=2M", NULL};
    char transport[600];
    const char *all[] = {transport, options[0], options[1], NULL};
    ferry_attr_t attr = {.size = sizeof attr,
                         .bootstrap = FERRY_BOOTSTRAP_UNIQUEID,
                         .rank = part->pe.rank,
                         .n_pes = PES,
                         .id = &part->scene->id,
                         .options = all,
                         .log = swallow};
    struct pe *pe = &part->pe;
    int rc;

    snprintf(transport, sizeof transport, "FERRY_TRANSPORT=%s", pes_transport());
    pe->run = &part->run;
    if (!EXPECT(pe, ferry_init(&attr, &pe->job) == FERRY_OK))
        return;
    pe->ctx = ferry_ctx_default(pe->job);
    part->memory = ferry_calloc(pe->job, 1, sizeof *part->memory);
    if (EXPECT(pe, part->memory)) {
        rc = traffic(part);
        if (!part->victim) {
            check_failure(part, rc);
            part_together(part);
        }
    }
    double start = pes_now();
    EXPECT(pe, ferry_finalize(pe->job) == FERRY_ERR_PEER);
    timed(part, start);
}

/* Survivor i keeps its order among the ranks that are left. */
static void survive(struct scene *scene, int i)
{
    uint8_t *buffer = calloc(2, BYTES);

    for (int round = 0; round < scene->rounds; round++) {
        while (sem_wait(&scene->start[i]) && errno == EINTR)
            ;
        struct part part = {
            .scene = scene, .buffer = buffer, .state = scene->seed * 977 + (uint64_t)(round * PES + i) + 1};
        part.pe.rank = i + (i >= scene->victim);
        part.pe.n = PES;
        play(&part);
        atomic_store(&scene->took[i], part.slowest);
        atomic_fetch_add(&scene->failures, atomic_load(&part.run.failures));
        scene->usage[i][round] = pes_usage();
        sem_post(&scene->ended);
    }
    free(buffer);
}

static void be_victim(struct scene *scene, int round)
{
    while (sem_wait(&scene->victim_start[round]) && errno == EINTR)
        ;
    struct part part = {
        .scene = scene, .buffer = calloc(2, BYTES), .state = scene->seed * 991 + (uint64_t)round + 1, .victim = true};
    part.pe.rank = scene->victim;
    part.pe.n = PES;
    play(&part);
}

static pid_t spawn(struct scene *scene, int survivor, int round)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (survivor >= 0)
        survive(scene, survivor);
    else
        be_victim(scene, round);
    _exit(0);
}

static bool wait_for(sem_t *what, double seconds)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)seconds;
    while (sem_timedwait(what, &end))
        if (errno != EINTR)
            return false;
    return true;
}

/* All are busy; then at any moment of what they do. */
static void kill_at_random(struct scene *scene, pid_t victim, uint64_t moment)
{
    struct timespec rest = {.tv_nsec = (long)(moment % 12000) * 1000};

    for (double end = pes_now() + 30; atomic_load(&scene->busy) < PES && pes_now() < end;)
        sched_yield();
    nanosleep(&rest, NULL);
    atomic_store(&scene->killed, pes_now());
    kill(victim, SIGKILL);
}

static bool play_round(struct scene *scene, int round, pid_t victim)
{
    uint64_t moment = (scene->seed + (uint64_t)round) * 0x9e3779b97f4a7c15u;
    int status = 0;
    bool good = true;

    atomic_store(&scene->busy, 0);
    atomic_store(&scene->met, 0);
    atomic_store(&scene->killed, 0);
    scene->victim = (int)(moment >> 60) % PES;
    if (ferry_uniqueid_create(&scene->id) != FERRY_OK)
        return false;
    for (int i = 0; i < SURVIVORS; i++)
        sem_post(&scene->start[i]);
    sem_post(&scene->victim_start[round]);
    kill_at_random(scene, victim, moment >> 20);
    good &= waitpid(victim, &status, 0) == victim && WIFSIGNALED(status);
    for (int i = 0; i < SURVIVORS && good; i++)
        good &= wait_for(&scene->ended, 60);
    for (int i = 0; i < SURVIVORS; i++)
        if (atomic_load(&scene->took[i]) > scene->slowest)
            scene->slowest = atomic_load(&scene->took[i]);
    if (!good || atomic_load(&scene->failures))
        fprintf(stderr, "round %d of seed %" PRIu64 ": victim %d, victim's status 0x%x, survivors %s\n", round,
                scene->seed, scene->victim, (unsigned)status, good ? "ended" : "did not end");
    return good && !atomic_load(&scene->failures);
}

static bool grew(const char *who, struct pes_usage before, struct pes_usage after)
{
    if (after.fds <= before.fds && after.maps <= before.maps + MORE_MAPS && after.threads <= before.threads)
        return false;
    fprintf(stderr, "%s: descriptors %d, then %d; maps %d, then %d; threads %d, then %d\n", who, before.fds, after.fds,
            before.maps, after.maps, before.threads, after.threads);
    return true;
}

static struct scene *new_scene(int rounds)
{
    const char *seed = getenv("TEST_SEED");
    struct scene *scene = pes_shared(sizeof *scene);

    assert_non_null(scene);
    scene->rounds = rounds;
    scene->seed = seed ? strtoull(seed, NULL, 10) : 1;
    for (int i = 0; i < SURVIVORS; i++)
        assert_int_equal(sem_init(&scene->start[i], 1, 0), 0);
    for (int i = 0; i < ROUNDS; i++)
        assert_int_equal(sem_init(&scene->victim_start[i], 1, 0), 0);
    assert_int_equal(sem_init(&scene->ended, 1, 0), 0);
    return scene;
}

/* Most that each held after the first rounds, against the last. */
static struct pes_usage most(const struct pes_usage *usage, int n)
{
    struct pes_usage most = usage[0];

    for (int i = 1; i < n; i++) {
        most.fds = usage[i].fds > most.fds ? usage[i].fds : most.fds;
        most.maps = usage[i].maps > most.maps ? usage[i].maps : most.maps;
        most.threads = usage[i].threads > most.threads ? usage[i].threads : most.threads;
    }
    return most;
}

static void test_killed_at_random(void **state)
{
    int rounds = (int)pes_scaled(ROUNDS), played = 0, growing = 0;
    struct scene *scene = new_scene(rounds);
    pid_t victims[ROUNDS], survivors[SURVIVORS];
    (void)state;

    fflush(NULL);
    for (int i = 0; i < SURVIVORS; i++)
        survivors[i] = spawn(scene, i, -1);
    for (int i = 0; i < rounds; i++)
        victims[i] = spawn(scene, -1, i);
    while (played < rounds && play_round(scene, played, victims[played]))
        played++;
    for (int i = played; i < rounds; i++) {
        kill(victims[i], SIGKILL);
        waitpid(victims[i], NULL, 0);
    }
    for (int i = 0; i < SURVIVORS; i++) {
        if (played < rounds)
            kill(survivors[i], SIGKILL);
        waitpid(survivors[i], NULL, 0);
        if (played == rounds && rounds > SETTLED)
            growing += grew("a survivor", most(scene->usage[i], SETTLED), scene->usage[i][rounds - 1]);
    }
    printf("%d of %d kills; the longest call ended %.3f s after the later of its start and the kill\n", played, rounds,
           scene->slowest);
    assert_int_equal(played, rounds);
    assert_int_equal(growing, 0);
    assert_true(scene->slowest < PEER_TIMEOUT + SLACK);
    munmap(scene, sizeof *scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed_at_random)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
