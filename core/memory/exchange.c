/* SPDX-License-Identifier: Apache-2.0
 * What PEs tell each other about the heap: sealed records, outcomes, failures and keys.
 * Setup thread only, on all PEs alike. No lock is held while PEs wait for each other. */
#include "internal.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEEP_SCRATCH ((size_t)64 << 10) /* a smaller area is not worth giving back */

int fy_exchange(struct fy_heap_state *state, void *record, size_t length, const char *step, struct ferry_error *error)
{
    const struct fy_heap_config *config = &state->heap.config;
    size_t payload = length - sizeof(struct fy_blob);
    int rc;

    fy_blob_seal(record, FY_BLOB_ALLOC, config->my_pe, (uint16_t)payload);
    rc = config->up.allgather(config->up.arg, record, state->scratch, length, step, error);
    if (rc)
        return rc;
    for (uint32_t pe = 0; pe < config->n_pes; pe++) {
        const void *opened;
        size_t size;
        const char *bad = fy_blob_open(state->scratch + pe * length, length, FY_BLOB_ALLOC, pe, &opened, &size);

        if (!bad && size != payload)
            bad = "size";
        if (!bad)
            continue;
        fy_error_set(error, FERRY_ERR_BOOTSTRAP,
                     "the PEs run different builds, or what exchanges their bytes is at fault",
                     "what pe %u sent in the %s cannot be read: wrong %s", (unsigned)pe, step, bad);
        error->peer = (int32_t)pe;
        return FERRY_ERR_BOOTSTRAP;
    }
    return FERRY_OK;
}

void fy_exchange_done(struct fy_heap_state *state)
{
    if (state->scratch_length > KEEP_SCRATCH)
        madvise(state->scratch, state->scratch_length, MADV_DONTNEED);
}

/* ------------------------------------------------------------------ failures */

struct failure {
    struct fy_blob blob;
    int32_t status;
    uint32_t reserved;
    int64_t library_status;
    char message[sizeof(((struct ferry_error *)0)->message)];
    char hint[sizeof(((struct ferry_error *)0)->hint)];
};
_Static_assert(sizeof(struct failure) <= FY_RECORD_MAX, "scratch is too small");

int fy_exchange_failure(struct fy_heap_state *state, int status, const struct ferry_error *mine,
                        struct ferry_error *error)
{
    struct failure record = {.status = status};
    const struct failure *all = (const struct failure *)state->scratch;
    int rc;

    if (status) {
        record.library_status = mine->library_status;
        snprintf(record.message, sizeof(record.message), "%s", mine->message);
        snprintf(record.hint, sizeof(record.hint), "%s", mine->hint);
    }
    rc = fy_exchange(state, &record, sizeof(record), "exchange of the reason why memory cannot be had", error);
    if (rc)
        return rc;
    for (uint32_t pe = 0; pe < state->heap.config.n_pes; pe++) {
        if (all[pe].status >= 0)
            continue;
        fy_error_set(error, all[pe].status, all[pe].hint, "pe %u: %s", (unsigned)pe, all[pe].message);
        error->library_status = all[pe].library_status;
        error->peer = (int32_t)pe;
        return all[pe].status;
    }
    fy_error_set(error, FERRY_ERR_MISMATCH, NULL, "a pe reported a failure and then took it back");
    return FERRY_ERR_MISMATCH;
}

/* ------------------------------------------------------------------ keys */

bool fy_keys_reserve(const struct fy_heap_state *state, struct fy_keys *keys)
{
    size_t slots = (size_t)state->heap.config.n_pes * state->heap.config.n_transports;

    keys->mapped = slots * FY_KEY_SLOT(FERRY_KEY_MAX);
    if (slots == 0)
        return true;
    keys->bytes = fy_pages_get(keys->mapped);
    return keys->bytes != NULL;
}

void fy_keys_release(struct fy_keys *keys)
{
    fy_pages_put(keys->bytes, keys->mapped);
    keys->bytes = NULL;
}

/* Where each transport's key stands in a PE's record: the same on every PE. */
struct layout {
    size_t at[FY_TRANSPORTS_MAX], slot[FY_TRANSPORTS_MAX];
    size_t length;
};

/* Keeps of each PE only the key that its puts will use, at the front, and gives the other pages back: a peer that is
 * never contacted then costs one key. */
static void keep_chosen(const struct fy_heap_state *state, const struct layout *layout, struct fy_keys *keys)
{
    const struct fy_heap_config *config = &state->heap.config;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t used;

    keys->stride = 0;
    for (size_t t = 0; t < config->n_transports; t++)
        if (layout->slot[t] > keys->stride)
            keys->stride = layout->slot[t];
    for (uint32_t pe = 0; pe < config->n_pes; pe++) {
        int t = config->up.transport_of(config->up.arg, pe);
        char *to = keys->bytes + pe * keys->stride;

        /* Forward, and never past what is still to be read: a record is at least as long as the longest slot. */
        if (t >= 0 && (size_t)t < config->n_transports)
            memmove(to, keys->bytes + pe * layout->length + layout->at[t], layout->slot[t]);
        else
            memset(to, 0, sizeof(struct fy_blob));
    }
    used = fy_round_up((size_t)config->n_pes * keys->stride, page);
    if (used < fy_round_up(keys->mapped, page)) {
        munmap(keys->bytes + used, fy_round_up(keys->mapped, page) - used);
        keys->mapped = used;
    }
}

static int exchange_keys(struct fy_heap_state *state, const struct fy_chunk *chunk, const struct layout *layout,
                         struct ferry_error *error)
{
    const struct fy_heap_config *config = &state->heap.config;
    struct fy_keys *keys = chunk->segment->blobs;
    _Alignas(8) char mine[FY_TRANSPORTS_MAX * FY_KEY_SLOT(FERRY_KEY_MAX)] = {0};
    int rc;

    if (layout->length == 0)
        return FERRY_OK;
    for (size_t t = 0; t < config->n_transports; t++) {
        struct fy_blob *blob = (struct fy_blob *)(mine + layout->at[t]);
        struct fy_key_head *head = (struct fy_key_head *)(blob + 1);

        head->transport = (uint32_t)t;
        memcpy(head + 1, chunk->keys[t], chunk->key_size[t]);
        fy_blob_seal(blob, FY_BLOB_KEY, config->my_pe, (uint16_t)(sizeof(*head) + chunk->key_size[t]));
    }
    rc = config->up.allgather(config->up.arg, mine, keys->bytes, layout->length, "exchange of memory keys", error);
    if (rc)
        return rc;
    keep_chosen(state, layout, keys);
    return FERRY_OK;
}

/* ------------------------------------------------------------------ chunks */

struct outcome {
    struct fy_blob blob;
    int32_t status;
    uint16_t key_size[FY_TRANSPORTS_MAX];
    uint32_t reserved;
};
_Static_assert(sizeof(struct outcome) <= FY_RECORD_MAX, "scratch is too small");

/* Every slot takes the longest key of any PE. False: a PE claims a key that cannot be. */
static bool make_layout(const struct fy_heap_state *state, struct layout *layout)
{
    const struct outcome *all = (const struct outcome *)state->scratch;

    layout->length = 0;
    for (size_t t = 0; t < state->heap.config.n_transports; t++) {
        size_t longest = 0;

        for (uint32_t pe = 0; pe < state->heap.config.n_pes; pe++)
            if (all[pe].key_size[t] > longest)
                longest = all[pe].key_size[t];
        if (longest > FERRY_KEY_MAX)
            return false;
        layout->at[t] = layout->length;
        layout->slot[t] = FY_KEY_SLOT(longest);
        layout->length += layout->slot[t];
    }
    return true;
}

int fy_exchange_chunk(struct fy_heap_state *state, const struct fy_chunk *chunk, int status,
                      const struct ferry_error *mine, struct ferry_error *error)
{
    struct outcome record = {.status = status};
    const struct outcome *all = (const struct outcome *)state->scratch;
    struct layout layout;
    int rc;

    memcpy(record.key_size, chunk->key_size, sizeof(record.key_size));
    rc = fy_exchange(state, &record, sizeof(record), "growth of the heap", error);
    if (rc)
        return rc;
    for (uint32_t pe = 0; pe < state->heap.config.n_pes; pe++)
        if (all[pe].status != FERRY_OK)
            return fy_exchange_failure(state, status, mine, error);
    if (!make_layout(state, &layout)) {
        fy_error_set(error, FERRY_ERR_BOOTSTRAP, NULL, "a pe announced a memory key of more than %u bytes",
                     FERRY_KEY_MAX);
        return FERRY_ERR_BOOTSTRAP;
    }
    return exchange_keys(state, chunk, &layout, error);
}
