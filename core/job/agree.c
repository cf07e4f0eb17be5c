/* SPDX-License-Identifier: Apache-2.0
 * Agreement at init: version, transports, heap and channels must be the same on every PE, and every PE must have got here.
 * Setup thread. */
#include "host.h"
#include "job.h"

#include "../base/fate.h"
#include "../base/reserve.h"
#include "boot_wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What must be the same everywhere. Fixed width; strings are terminated, the rest is zero. */
struct terms {
    char version[16];
    char transports[256];
    char hooks[64];
    uint64_t heap_size, heap_chunk, channels;
};

/* The terms of all PEs, as far as it takes to say whether they agree: those of the lowest PE, and of the lowest whose differ. */
struct agreement {
    uint32_t first, odd; /* odd: FY_NOBODY, all are as the first one's */
    uint32_t uid, one_host; /* of the first; 1: all others have its host and uid */
    uint64_t host;
    struct terms first_terms, odd_terms;
    struct fy_fate fate;
};

/* Where a PE is. Each needs to know that of all, once. */
struct spot {
    uint64_t machine; /* fy_machine_number, fy_host_number */
    uint64_t host;
    uint64_t nodes;   /* of struct ferry_place */
    char gpu[16];
};

static void terms_fill(struct ferry_job *job, int status, struct terms *terms)
{
    snprintf(terms->version, sizeof(terms->version), "%s", ferry_version());
    if (status == FERRY_OK)
        fy_route_signature(job->route, terms->transports, sizeof(terms->transports));
    snprintf(terms->hooks, sizeof(terms->hooks), "%s", fy_options_string(&job->options, "hooks"));
    terms->heap_size = (uint64_t)fy_options_number(&job->options, "heap_size");
    terms->heap_chunk = (uint64_t)fy_options_number(&job->options, "heap_chunk");
    terms->channels = (uint64_t)fy_options_number(&job->options, "channels");
}

static void odd_out(struct agreement *into, uint32_t pe, const struct terms *terms)
{
    if (pe >= into->odd || memcmp(terms, &into->first_terms, sizeof(*terms)) == 0)
        return;
    into->odd = pe;
    into->odd_terms = *terms;
}

/* Of the higher part it is enough to look at its first and its odd one: who is between them is as its first. */
static void agreement_combine(void *a, const void *b)
{
    struct agreement *into = a, low;
    const struct agreement *other = b;
    if (other->first < into->first) {
        low = *into;
        *into = *other;
        other = &low;
    }
    odd_out(into, other->first, &other->first_terms);
    if (other->odd != FY_NOBODY)
        odd_out(into, other->odd, &other->odd_terms);
    into->one_host &= other->one_host && other->host == into->host && other->uid == into->uid;
    fy_fate_combine(&into->fate, &other->fate);
}

static int differ_text(uint32_t pe, const char *what, const char *first, const char *other, const char *hint,
                       struct ferry_error *error)
{
    if (strcmp(first, other) == 0)
        return FERRY_OK;
    fy_error_set(error, FERRY_ERR_MISMATCH, hint, "pe 0 and pe %u have different %s: '%.100s' and '%.100s'", pe, what, first,
                 other);
    return FERRY_ERR_MISMATCH;
}

static int differ_number(uint32_t pe, const char *variable, uint64_t first, uint64_t other, struct ferry_error *error)
{
    if (first == other)
        return FERRY_OK;
    fy_error_set(error, FERRY_ERR_MISMATCH, "give every pe the same environment", "pe 0 and pe %u have different %s: %llu and %llu",
                 pe, variable, (unsigned long long)first, (unsigned long long)other);
    return FERRY_ERR_MISMATCH;
}

static int compare(uint32_t pe, const struct terms *first, const struct terms *other, struct ferry_error *error)
{
    int rc = differ_text(pe, "versions of Ferry", first->version, other->version, "install one version on every host", error);
    if (rc == FERRY_OK)
        rc = differ_text(pe, "transports", first->transports, other->transports, "give every pe the same FERRY_TRANSPORT", error);
    if (rc == FERRY_OK)
        rc = differ_text(pe, "hooks", first->hooks, other->hooks, "give every pe the same FERRY_HOOKS", error);
    if (rc == FERRY_OK)
        rc = differ_number(pe, "FERRY_HEAP_SIZE", first->heap_size, other->heap_size, error);
    if (rc == FERRY_OK)
        rc = differ_number(pe, "FERRY_HEAP_CHUNK", first->heap_chunk, other->heap_chunk, error);
    if (rc == FERRY_OK)
        rc = differ_number(pe, "FERRY_CHANNELS", first->channels, other->channels, error);
    return rc;
}

/* Of the host, not of this PE's affinity: a launcher may have bound each PE to a core of its own. */
static uint32_t cores(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

/* Where there are more PEs than cores, waits begin with yielding; where there are many more, almost at once with sleeping, and
 * for longer the more there are: a thousand threads that look every millisecond keep two cores from those that have work. */
#define MANY 8u /* PEs per core, */
#define CROWD 32u /* and so many that sleeps double, and double again with them */
#define FEW_YIELDS 64u
#define DOZE_MOST 6u
static void set_waiting(struct fy_world *world, uint32_t local_pes)
{
    uint32_t per_core = local_pes / cores();
    if (local_pes <= cores())
        return;
    world->crowded = per_core < MANY ? FY_SPIN : FY_SPIN + FY_YIELD - FEW_YIELDS;
    while (world->doze < DOZE_MOST && CROWD << world->doze < per_core)
        world->doze++;
}

/* Before another PE's are read as text. */
static void terms_end(struct terms *terms)
{
    terms->version[sizeof(terms->version) - 1] = '\0';
    terms->transports[sizeof(terms->transports) - 1] = '\0';
    terms->hooks[sizeof(terms->hooks) - 1] = '\0';
}

static int judge(struct ferry_job *job, struct agreement *all, struct ferry_error *error)
{
    int rc = fy_fate_tell(&all->fate, " could not start", error);
    terms_end(&all->first_terms);
    terms_end(&all->odd_terms);
    if (rc == FERRY_OK && all->odd != FY_NOBODY)
        rc = compare(all->odd, &all->first_terms, &all->odd_terms, error);
    job->one_host = all->one_host;
    return rc;
}

/* Where the PEs of this machine run, for transports that share devices among them; they share its memory and cores, too. */
static int keep_places(struct ferry_job *job, const struct spot *spots, struct ferry_error *error)
{
    const struct spot *own = &spots[job->world.my_pe];
    uint32_t n = 0;
    job->local_pes = 0;
    for (uint32_t pe = 0; pe < job->world.n_pes; pe++) {
        job->world.peers[pe].same_host = spots[pe].host == own->host;
        job->local_pes += spots[pe].machine == own->machine;
    }
    set_waiting(&job->world, job->local_pes);
    job->places = calloc(job->local_pes, sizeof(*job->places));
    if (!job->places) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the places of %u pes", job->local_pes);
        return FERRY_ERR_NOMEM;
    }
    for (uint32_t pe = 0; pe < job->world.n_pes; pe++) {
        if (spots[pe].machine != own->machine)
            continue;
        if (pe == job->world.my_pe)
            job->my_place = n;
        job->places[n] = (struct ferry_place){.size = sizeof(*job->places), .pe = pe, .nodes = spots[pe].nodes};
        snprintf(job->places[n].gpu, sizeof(job->places[n].gpu), "%.15s", spots[pe].gpu);
        n++;
    }
    return FERRY_OK;
}

static int exchange_spots(struct ferry_job *job, struct ferry_error *error)
{
    struct ferry_place here;
    size_t bytes = job->world.n_pes * sizeof(struct spot);
    struct spot own, *all = fy_pages_get(bytes);
    if (!all) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the places of %u pes", job->world.n_pes);
        return FERRY_ERR_NOMEM;
    }
    fy_job_here(&here, &job->options);
    own = (struct spot){.machine = fy_machine_number(), .host = fy_host_number_of(job->node), .nodes = here.nodes};
    memcpy(own.gpu, here.gpu, sizeof(own.gpu));
    int rc = fy_boot_allgather(job->boot, &own, all, sizeof(own), "places of the PEs", job->world.timeout, error);
    if (rc == FERRY_OK)
        rc = keep_places(job, all, error);
    fy_pages_put(all, bytes);
    return rc;
}

int fy_job_agree(struct ferry_job *job, int mine, struct ferry_error *error)
{
    struct agreement all = {.first = job->world.my_pe, .odd = FY_NOBODY, .uid = (uint32_t)geteuid(), .one_host = 1,
                            .host = fy_host_number_of(job->node)};
    struct ferry_error other;
    terms_fill(job, mine, &all.first_terms);
    fy_fate_set(&all.fate, job->world.my_pe, mine, error);
    int rc = fy_boot_reduce(job->boot, &all, sizeof(all), agreement_combine, "agreement on transports", job->world.timeout, &other);
    if (rc == FERRY_OK)
        rc = judge(job, &all, &other);
    if (mine != FERRY_OK)
        return mine; /* its own record stays */
    if (rc == FERRY_OK)
        rc = exchange_spots(job, &other);
    if (rc != FERRY_OK)
        *error = other;
    return rc;
}

int fy_job_same_fate(struct ferry_job *job, int mine, const char *step, struct ferry_error *error)
{
    struct fy_fate fate;
    struct ferry_error other;
    fy_fate_set(&fate, job->world.my_pe, mine, error);
    int rc = fy_boot_reduce(job->boot, &fate, sizeof(fate), fy_fate_combine, step, job->world.timeout, &other);
    if (rc == FERRY_OK)
        rc = fy_fate_tell(&fate, " could not start", &other);
    if (mine != FERRY_OK)
        return mine; /* its own record stays */
    if (rc != FERRY_OK)
        *error = other;
    return rc;
}
