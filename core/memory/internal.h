/* SPDX-License-Identifier: Apache-2.0
 * What the files of core/memory share: the private side of a heap, its allocator, limits, and the exchanges.
 * Included by core/memory and its tests only. Setup thread, unless a function says otherwise.
 * Locks, in order: setup (calls into transports), buffers (the list of user buffers). */
#ifndef FY_MEMORY_INTERNAL_H
#define FY_MEMORY_INTERNAL_H

#include "../base/blob.h"
#include "memory.h"

#define FY_GRANULE        ((size_t)1 << FY_GRANULE_SHIFT)
#define FY_ALIGN          64u /* least alignment, and unit of every allocation */
#define FY_TRANSPORTS_MAX 16u
#define FY_OFFSET_NONE    UINT64_MAX
#define FY_NO_TRANSPORT   SIZE_MAX

/* The heap as the rest sees it, and behind it what only this folder uses. */
struct fy_heap_state {
    struct fy_heap heap; /* first: a struct fy_heap * is also one of these */
    struct fy_allocator *allocator;
    bool lost;         /* a transport gave its chunk back and the place went to somebody else: no more growth */
    size_t allocating; /* index of the transport that allocates chunks, or FY_NO_TRANSPORT */
    uint64_t sequence; /* collective calls so far */
    uint64_t history;  /* digest of the changes so far: equal on PEs whose heaps are equal */
    char *scratch;     /* what the small exchanges receive into; address space until it is used */
    size_t scratch_length;
    pthread_mutex_t own_setup;
    pthread_mutex_t *setup;
    pthread_mutex_t keys_lock; /* over offered[] and what it points to; the control thread reads */
    struct fy_keys *offered[FY_SEGMENTS_MAX]; /* by segment index: what peers may ask for */
    _Atomic(struct fy_segment *) named[FY_SEGMENTS_MAX]; /* by segment index: what peers may name in requests */
    pthread_mutex_t buffers_lock;
    struct ferry_buffer **buffers; /* by address */
    char **reach;                  /* reach[i]: largest end of buffers[0 … i] */
    size_t n_buffers, buffers_capacity;
};

static inline struct fy_heap_state *fy_heap_state(struct fy_heap *heap)
{
    return (struct fy_heap_state *)heap;
}

static inline size_t fy_round_up(size_t n, size_t unit) /* unit: a power of two; n + unit does not overflow */
{
    return (n + unit - 1) & ~(unit - 1);
}

/* ------------------------------------------------------------------ heap.c */

/* Zeroed memory that costs nothing until it is touched; NULL if there is none. */
void *fy_pages_get(size_t length);
void fy_pages_put(void *pages, size_t length);
/* Why a setup call into a transport failed, in words, from the transport if it says. */
void fy_transport_reason(const struct fy_transport *t, int status, char *out, size_t size);

/* ------------------------------------------------------------------ allocator.c
 * Which offsets are in use. Depends on nothing but the calls made, so it is the same on every PE. Lies outside the
 * heap. */

struct fy_allocator;
struct fy_allocator *fy_allocator_create(void);
void fy_allocator_destroy(struct fy_allocator *allocator);
/* Makes sure that the next add, take or release needs no memory. */
bool fy_allocator_prepare(struct fy_allocator *allocator);
/* A new chunk, behind all others. Allocations never straddle chunks. */
void fy_allocator_add(struct fy_allocator *allocator, uint64_t start, size_t length);
/* Lowest suitable place for `size` bytes (a multiple of FY_ALIGN), or FY_OFFSET_NONE. Changes nothing. */
uint64_t fy_allocator_find(const struct fy_allocator *allocator, size_t size, size_t alignment);
/* Takes a place that find has named. */
void fy_allocator_take(struct fy_allocator *allocator, uint64_t offset, size_t size);
/* Size of the allocation that starts at `offset`, 0 if none does. */
size_t fy_allocator_size(const struct fy_allocator *allocator, uint64_t offset);
void fy_allocator_release(struct fy_allocator *allocator, uint64_t offset);

/* ------------------------------------------------------------------ limits.c */

/* What this machine, container and process allow, in bytes; UINT64_MAX: no limit, or not known. */
struct fy_limits {
    uint64_t available;    /* MemAvailable */
    uint64_t cgroup_limit; /* of the group, own or above, that leaves least */
    uint64_t cgroup_usage; /* its usage, less what it could drop at once */
    uint64_t memlock;      /* RLIMIT_MEMLOCK */
    uint64_t file_size;    /* RLIMIT_FSIZE: growing a memfd past it would raise SIGXFSZ */
};
/* root: "" or a folder that holds proc/ and sys/. */
void fy_limits_read(const char *root, struct fy_limits *limits);
/* FERRY_OK, or FERRY_ERR_NOMEM with the numbers if `pes` PEs of this host cannot each have `length` bytes more. */
int fy_limits_check(const struct fy_limits *limits, size_t length, uint32_t pes, struct ferry_error *error);
/* "16.0 MiB", or "unlimited". */
#define FY_SIZE_TEXT 24
const char *fy_size_text(uint64_t bytes, char text[FY_SIZE_TEXT]);

/* ------------------------------------------------------------------ chunk.c */

/* A chunk in the making. */
struct fy_chunk {
    struct fy_segment *segment;
    struct ferry_memory memory; /* as registered */
    bool mapped;                /* by us */
    char keys[FY_TRANSPORTS_MAX][FERRY_KEY_MAX];
    uint16_t key_size[FY_TRANSPORTS_MAX];
};
/* Backs and registers [start, +length), exports the keys. On failure nothing is left. Calls no other PE. */
int fy_chunk_make(struct fy_heap_state *state, uint64_t start, size_t length, struct fy_chunk *chunk,
                  struct ferry_error *error);
void fy_chunk_undo(struct fy_heap_state *state, struct fy_chunk *chunk);
/* Collective: adds a chunk of `length` bytes on every PE, or on none. */
int fy_heap_grow(struct fy_heap_state *state, size_t length, struct ferry_error *error);
/* Releases imported keys, regions and tables; a chunk that a transport allocated goes back to it. Mappings stay. */
void fy_segment_release(struct fy_heap_state *state, struct fy_segment *segment);

/* ------------------------------------------------------------------ resolve.c */

/* Releases the key and the description; under the setup lock, when no channel uses it any more. */
void fy_target_release(struct fy_heap_state *state, const struct fy_target *target);

/* ------------------------------------------------------------------ exchange.c */

/* Own keys of one segment: what fy_segment.blobs points to. Peers ask for them one by one, at first contact. */
struct fy_keys {
    struct fy_key {
        uint16_t size;
        char bytes[FERRY_KEY_MAX];
    } *of; /* per transport */
};

bool fy_keys_reserve(const struct fy_heap_state *state, struct fy_keys *keys);
void fy_keys_release(struct fy_keys *keys);
/* Collective: publishes the keys, then tells how making the chunk went (status, error). FERRY_OK on every PE, or on none. */
int fy_exchange_chunk(struct fy_heap_state *state, const struct fy_chunk *chunk, int status,
                      const struct ferry_error *mine, struct ferry_error *error);
/* Collective: after some PE said that it failed. Puts the record of the first that did, with its number, into `error`.
 */
int fy_exchange_failure(struct fy_heap_state *state, int status, const struct ferry_error *mine,
                        struct ferry_error *error);
/* Receives one sealed FY_BLOB_ALLOC record of `length` bytes (struct fy_blob first) per PE into state->scratch, and
 * opens all. */
int fy_exchange(struct fy_heap_state *state, void *record, size_t length, const char *step, struct ferry_error *error);
/* Peers get no more keys of this segment. */
void fy_exchange_withdraw(struct fy_heap_state *state, uint32_t segment);
/* Gives the pages of a large scratch area back. */
void fy_exchange_done(struct fy_heap_state *state);
/* Bytes per PE of the largest record passed to fy_exchange. */
#define FY_RECORD_MAX 640u

#endif
