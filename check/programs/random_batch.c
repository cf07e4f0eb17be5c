/* SPDX-License-Identifier: Apache-2.0
 * Runs programs, one after the other, in one job whose PEs are threads. PE 0 makes and judges them; a watchdog ends a
 * job that stands still. */
#include "random_batch.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STANDSTILL 30.0 /* seconds for one program */

struct scene {
    struct random_batch *batch;
    struct random_program program;
    struct random_memory memory[2][RANDOM_PES];
    _Atomic int rounds, over, late;
    _Atomic(ferry_job_t *) job; /* of PE 0 */
    _Atomic bool heard;
    char error[200]; /* the first that was logged */
};

static void next_program(struct scene *scene, int k)
{
    struct random_batch *batch = scene->batch;
    struct random_program *p = &scene->program;

    for (int i = 0; i < RANDOM_PES; i++) {
        p->before[i] = &scene->memory[k % 2][i];
        p->after[i] = &scene->memory[(k + 1) % 2][i];
    }
    random_make(p, batch->first + (batch->same ? 0 : (uint64_t)k));
    batch->n = p->n;
    for (int i = 0; i < p->n; i++) {
        batch->groups[i] = p->op[i].group;
        p->op[i].off = batch->off && batch->off[i];
    }
}

static bool allowed(struct random_program *p, char *why, size_t size)
{
    struct random_order *order = random_order_new(p);
    bool good = false;
    int index;

    if (!order) {
        snprintf(why, size, "no memory for the model");
        return false;
    }
    if (random_words_order(p, order, why, size)) {
        random_data_order(p, order);
        if (!random_order_close(order, &index))
            snprintf(why, size, "what was seen, taken together, contradicts the order promised around operation %d",
                     index);
        else
            good = random_words_allowed(p, order, why, size) && random_data_allowed(p, order, why, size);
    }
    random_order_free(order);
    return good;
}

static void judge(struct scene *scene, struct pe *pe)
{
    struct random_batch *batch = scene->batch;
    struct random_program *p = &scene->program;

    if (atomic_load(&scene->late))
        snprintf(batch->why, sizeof batch->why, "a call did not return within %.0f s", STANDSTILL);
    else if (atomic_load(&pe->run->failures))
        snprintf(batch->why, sizeof batch->why, "a call failed, see above");
    else if (allowed(p, batch->why, sizeof batch->why)) {
        batch->done++;
        batch->operations += (unsigned long)p->n;
        return;
    }
    batch->failed = true;
    batch->seed = p->seed;
    atomic_store(&scene->over, 1);
    if (batch->quiet)
        return;
    fprintf(stderr, "%s\n", batch->why);
    random_print(p, stderr);
    fprintf(stderr, "again: --seed %" PRIu64 "; smaller: --seed %" PRIu64 " --shrink\n", p->seed, p->seed);
}

static void play(struct random_place *place, struct scene *scene, int k)
{
    struct random_program *p = &scene->program;
    int rank = place->pe->rank;

    if (rank == 0)
        next_program(scene, k);
    random_gate(place, p);
    random_run(place, p);
    random_gate(place, p);
    if (rank == 0)
        judge(scene, place->pe);
    random_gate(place, p);
    for (int i = 0; i < p->n; i++)
        if (p->op[i].pe == rank && !p->op[i].off)
            free(p->op[i].buffer);
    random_gate(place, p);
    if (rank == 0)
        atomic_fetch_add(&scene->rounds, 1);
}

static void body(struct pe *pe)
{
    struct scene *scene = pe->arg;
    struct random_place place;

    if (!EXPECT(pe, random_open(&place, pe)))
        return;
    if (pe->rank == 0)
        atomic_store(&scene->job, pe->job);
    for (int k = 0; k < scene->batch->programs && !atomic_load(&scene->over); k++)
        play(&place, scene, k);
    random_gate(&place, &scene->program);
    if (pe->rank == 0)
        atomic_store(&scene->job, NULL);
    if (!atomic_load(&scene->over))
        random_close(&place);
}

static void *watch(void *arg)
{
    struct scene *scene = arg;
    struct timespec rest = {.tv_nsec = 10000000};
    struct pes_limit limit = pes_limit(STANDSTILL);
    int rounds = 0;

    while (atomic_load(&scene->rounds) >= 0) {
        ferry_job_t *job = atomic_load(&scene->job);
        if (!job || atomic_load(&scene->rounds) != rounds) {
            rounds = atomic_load(&scene->rounds);
            limit = pes_limit(STANDSTILL);
        } else if (!pes_in_time(&limit) && !atomic_exchange(&scene->late, 1)) {
            ferry_abort(job, 1);
        }
        nanosleep(&rest, NULL);
    }
    return NULL;
}

/* Nobody reads the log of a program that is right; of one that fails, its first error (level 0). Any thread of the
 * job. */
static void muted(void *arg, int level, const char *line)
{
    struct scene *scene = arg;

    if (level == 0 && !atomic_exchange(&scene->heard, true))
        snprintf(scene->error, sizeof scene->error, "%s", line);
}

/* The job failed; where no program was judged wrong before, it is its start or its end. */
static void blame(struct random_batch *batch, const struct run *run)
{
    const struct scene *scene = run->arg;
    bool judged = batch->failed;

    batch->failed = true;
    for (int i = 0; !judged && i < run->n; i++) {
        if (run->init_status[i] != FERRY_OK)
            snprintf(batch->why, sizeof batch->why, "pe %d: init gave %s: %s", i,
                     ferry_status_string(run->init_status[i]), run->init_error[i].message);
        else if (run->final_status[i] != FERRY_OK)
            snprintf(batch->why, sizeof batch->why, "pe %d: finalize gave %s: %s", i,
                     ferry_status_string(run->final_status[i]), scene->error);
        else
            continue;
        return;
    }
    if (!judged)
        snprintf(batch->why, sizeof batch->why, "%s", run->seen[0] ? run->seen : "a thread could not be made");
}

void random_batch_run(struct random_batch *batch)
{
    const char *hooks = getenv("FERRY_HOOKS");
    char seed[64];
    const char *options[] = {"FERRY_HEAP_CHUNK=2M", hooks && strstr(hooks, "chaos") ? seed : NULL, NULL};
    struct scene *scene = calloc(1, sizeof *scene);
    struct run run = {.n = random_pes_of(batch->first), .body = body, .arg = scene, .options = options, .log = muted};
    pthread_t watchdog;

    snprintf(seed, sizeof seed, "FERRY_CHAOS_SEED=%" PRIu64, batch->first % 100000 + 1);
    batch->failed = true;
    batch->seed = batch->first;
    snprintf(batch->why, sizeof batch->why, "no memory or no thread for it");
    if (!scene)
        return;
    scene->batch = batch;
    if (pthread_create(&watchdog, NULL, watch, scene) == 0) {
        batch->failed = false;
        if (pes_run(&run) != 0)
            blame(batch, &run);
        atomic_store(&scene->rounds, -1);
        pthread_join(watchdog, NULL);
    }
    free(scene);
}
