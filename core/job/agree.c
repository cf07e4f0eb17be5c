/* SPDX-License-Identifier: Apache-2.0
 * Agreement at init: version, transports, heap and channels must be the same on every PE, and every PE must have got here.
 * Setup thread. */
#include "host.h"
#include "job.h"

#include "../base/blob.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a PE tells all others. Fixed width; strings are terminated. */
struct card {
    char version[16];
    char transports[256];
    char hooks[64];
    uint64_t heap_size, heap_chunk, channels;
    uint64_t machine; /* fy_machine_number, fy_host_number */
    uint64_t host;
    uint64_t nodes;   /* of struct ferry_place */
    char gpu[16];
    int32_t status;
    uint32_t uid;
    char message[256];
};

struct sealed_card {
    struct fy_blob blob;
    struct card card;
};

static void card_fill(struct ferry_job *job, int status, const struct ferry_error *error, struct card *card)
{
    memset(card, 0, sizeof(*card));
    snprintf(card->version, sizeof(card->version), "%s", ferry_version());
    if (status == FERRY_OK)
        fy_route_signature(job->route, card->transports, sizeof(card->transports));
    snprintf(card->hooks, sizeof(card->hooks), "%s", fy_options_string(&job->options, "hooks"));
    card->heap_size = (uint64_t)fy_options_number(&job->options, "heap_size");
    card->heap_chunk = (uint64_t)fy_options_number(&job->options, "heap_chunk");
    card->channels = (uint64_t)fy_options_number(&job->options, "channels");
    card->machine = fy_machine_number();
    card->host = fy_host_number_of(job->node);
    card->uid = (uint32_t)geteuid();
    struct ferry_place place;
    fy_job_here(&place, &job->options);
    card->nodes = place.nodes;
    memcpy(card->gpu, place.gpu, sizeof(card->gpu));
    card->status = status;
    if (status != FERRY_OK)
        snprintf(card->message, sizeof(card->message), "%.250s", error->message);
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

static int compare(uint32_t pe, const struct card *first, const struct card *other, struct ferry_error *error)
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

static int card_open(const struct sealed_card *cards, uint32_t pe, const struct card **card, struct ferry_error *error)
{
    const void *payload;
    size_t size;
    const char *bad = fy_blob_open(&cards[pe], sizeof(cards[pe]), FY_BLOB_JOB, pe, &payload, &size);
    if (!bad && size != sizeof(struct card))
        bad = "size";
    if (bad) {
        fy_error_set(error, FERRY_ERR_MISMATCH, "install one version of Ferry on every host",
                     "the card of pe %u is damaged, or of another version (%s)", pe, bad);
        error->peer = (int32_t)pe;
        return FERRY_ERR_MISMATCH;
    }
    *card = payload;
    return FERRY_OK;
}

/* Of the host, not of this PE's affinity: a launcher may have bound each PE to a core of its own. */
static uint32_t cores(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

static int judge(struct ferry_job *job, const struct sealed_card *cards, struct ferry_error *error)
{
    const struct card *first = NULL, *card = NULL, *own;
    int rc = card_open(cards, 0, &first, error);
    if (rc == FERRY_OK)
        rc = card_open(cards, job->world.my_pe, &own, error);
    job->local_pes = 0;
    for (uint32_t pe = 0; pe < job->world.n_pes && rc == FERRY_OK; pe++) {
        rc = card_open(cards, pe, &card, error);
        if (rc != FERRY_OK)
            break;
        job->world.peers[pe].same_host = card->host == own->host;
        job->local_pes += card->machine == own->machine; /* they share its memory, cores and devices */
        if (card->status != FERRY_OK) {
            rc = card->status;
            fy_error_set(error, rc, NULL, "pe %u could not start: %.250s", pe, card->message);
            error->peer = (int32_t)pe;
        }
    }
    job->world.crowded = job->local_pes > cores();
    for (uint32_t pe = 1; pe < job->world.n_pes && rc == FERRY_OK; pe++) {
        rc = card_open(cards, pe, &card, error);
        if (rc == FERRY_OK)
            rc = compare(pe, first, card, error);
    }
    return rc;
}

/* Where the PEs of this machine run, for transports that share devices among them. The cards were judged. */
static int keep_places(struct ferry_job *job, const struct sealed_card *cards, struct ferry_error *error)
{
    uint32_t n = 0;
    job->one_host = true;
    for (uint32_t pe = 1; pe < job->world.n_pes; pe++)
        job->one_host = job->one_host && cards[pe].card.host == cards[0].card.host && cards[pe].card.uid == cards[0].card.uid;
    job->places = calloc(job->local_pes, sizeof(*job->places));
    if (!job->places) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the places of %u pes", job->local_pes);
        return FERRY_ERR_NOMEM;
    }
    for (uint32_t pe = 0; pe < job->world.n_pes; pe++) {
        const struct card *card = &cards[pe].card;
        if (card->machine != cards[job->world.my_pe].card.machine)
            continue;
        if (pe == job->world.my_pe)
            job->my_place = n;
        job->places[n] = (struct ferry_place){.size = sizeof(*job->places), .pe = pe, .nodes = card->nodes};
        snprintf(job->places[n].gpu, sizeof(job->places[n].gpu), "%.15s", card->gpu);
        n++;
    }
    return FERRY_OK;
}

int fy_job_agree(struct ferry_job *job, int mine, struct ferry_error *error)
{
    struct sealed_card *cards = calloc((size_t)job->world.n_pes + 1, sizeof(*cards));
    if (!cards) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the cards of %u pes", job->world.n_pes);
        return FERRY_ERR_NOMEM;
    }
    struct sealed_card *own = &cards[job->world.n_pes];
    card_fill(job, mine, error, &own->card);
    fy_blob_seal(&own->blob, FY_BLOB_JOB, job->world.my_pe, sizeof(own->card));
    struct ferry_error exchange;
    int rc = fy_boot_allgather(job->boot, own, cards, sizeof(*own), "agreement on transports", job->world.timeout, &exchange);
    if (mine != FERRY_OK)
        rc = mine; /* its own record stays */
    else if (rc != FERRY_OK)
        *error = exchange;
    else
        rc = judge(job, cards, error);
    if (rc == FERRY_OK)
        rc = keep_places(job, cards, error);
    free(cards);
    return rc;
}

int fy_job_same_fate(struct ferry_job *job, int mine, const char *step, struct ferry_error *error)
{
    struct fate {
        int64_t status;
        char message[256];
    } own = {.status = mine}, *all = calloc(job->world.n_pes, sizeof(*all));
    struct ferry_error other;
    if (!all) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the answers of %u pes", job->world.n_pes);
        return FERRY_ERR_NOMEM;
    }
    if (mine != FERRY_OK)
        snprintf(own.message, sizeof(own.message), "%.250s", error->message);
    int rc = fy_boot_allgather(job->boot, &own, all, sizeof(own), step, job->world.timeout, &other);
    for (uint32_t pe = 0; pe < job->world.n_pes && rc == FERRY_OK; pe++) {
        if (all[pe].status == FERRY_OK)
            continue;
        rc = (int)all[pe].status;
        all[pe].message[sizeof(all[pe].message) - 1] = '\0';
        fy_error_set(&other, rc, NULL, "pe %u could not start: %s", pe, all[pe].message);
        other.peer = (int32_t)pe;
    }
    free(all);
    if (mine != FERRY_OK)
        return mine; /* its own record stays */
    if (rc != FERRY_OK)
        *error = other;
    return rc;
}
