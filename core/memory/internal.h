/* SPDX-License-Identifier: Apache-2.0
 * What the files of core/memory share: the private side of a heap, its allocator, limits, and the exchanges.
 * Included by core/memory and its tests only. Setup thread, unless a function says otherwise.
 * Locks, in order: setup (calls into transports), buffers (the list of user buffers). */
#ifndef FY_MEMORY_INTERNAL_H
#define FY_MEMORY_INTERNAL_H

#include "../base/fate.h"
#include "../base/reserve.h"
#include "memory.h"

#define FY_GRANULE        ((size_t)1 << FY_GRANULE_SHIFT)
#define FY_ALIGN          64u /* least alignment, and unit of every allocation */
#define FY_TRANSPORTS_MAX 16u
#define FY_OFFSET_NONE    UINT64_MAX
#define FY_KINDS          2u             /* enum ferry_memory_kind */
#define FY_CLASSES        (FY_KINDS * 2) /* with and without FERRY_ALLOC_SINGLE_WRITER */

/* The heap as the rest sees it, and behind it what only this folder uses. */
struct fy_heap_state {
    struct fy_heap heap;                         /* first: a struct fy_heap * is also one of these */
    struct fy_allocator *allocators[FY_CLASSES]; /* made when the class is first asked for */
    bool lost; /* a transport gave its chunk back and the place went to somebody else: no more growth */
    bool gpu_reserved; /* the addresses are of the GPU's driver, which can map its memory there; else, if memory of the GPU */
    struct ferry_error gpu_error; /* is wanted, why not */
    size_t allocating[FY_KINDS]; /* index of the transport that allocates chunks of that kind, or FY_NO_TRANSPORT */
    uint32_t reached[FY_KINDS];  /* by bit: transports that can register memory of that kind */
    uint64_t sequence;           /* collective calls so far */
    uint64_t history;            /* digest of the changes so far: equal on PEs whose heaps are equal */
    pthread_mutex_t own_setup;
    pthread_mutex_t *setup;
    pthread_mutex_t keys_lock;                /* over offered[] and what it points to; the control thread reads */
    struct fy_keys *offered[FY_SEGMENTS_MAX]; /* by segment index: what peers may ask for */
    _Atomic(struct fy_segment *) named[FY_SEGMENTS_MAX]; /* by segment index: what peers may name in requests */
    pthread_mutex_t buffers_lock;
    struct ferry_buffer **buffers; /* by address */
    char **reach;                  /* reach[i]: largest end of buffers[0 … i] */
    size_t n_buffers, buffers_capacity;
    _Atomic size_t n_shared; /* of them, symmetric ones */
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
/* Whether the allocation that starts at `offset` can have `size` bytes (a multiple of FY_ALIGN) where it stands. */
bool fy_allocator_fits(const struct fy_allocator *allocator, uint64_t offset, size_t size);
/* Gives it that size; fits has said yes. */
void fy_allocator_resize(struct fy_allocator *allocator, uint64_t offset, size_t size);
void fy_allocator_release(struct fy_allocator *allocator, uint64_t offset);

/* ------------------------------------------------------------------ limits.c */

/* What this machine, container and process allow, in bytes; UINT64_MAX: no limit, or not known. */
struct fy_limits {
    uint64_t available;     /* MemAvailable */
    uint64_t cgroup_limit;  /* of the group, own or above, that leaves least */
    uint64_t cgroup_usage;  /* its usage, less what it could drop at once */
    uint64_t memlock;       /* RLIMIT_MEMLOCK: of concern only where a transport pins memory */
    uint64_t file_size;     /* RLIMIT_FSIZE: growing a memfd past it would raise SIGXFSZ */
    uint64_t address_space; /* RLIMIT_AS: what the reservation and the mappings of peers' memory count against */
};
/* root: "" or a folder that holds proc/ and sys/. */
void fy_limits_read(const char *root, struct fy_limits *limits);
/* FERRY_OK, or FERRY_ERR_NOMEM with the numbers if `pes` PEs of this host cannot each have `length` bytes more. */
int fy_limits_check(const struct fy_limits *limits, size_t length, uint32_t pes, struct ferry_error *error);
/* Reads a small file whole, ended by NUL; false if there is none. */
bool fy_limits_file(const char *path, char *text, size_t size);
/* "16.0 MiB", or "unlimited". */
#define FY_SIZE_TEXT 24
const char *fy_size_text(uint64_t bytes, char text[FY_SIZE_TEXT]);
/* "1.0 GiB available, cgroup limit 2.0 GiB, 1.5 GiB of it in use, memlock 8.0 MiB, address space unlimited" */
#define FY_LIMITS_TEXT 176
const char *fy_limits_text(const struct fy_limits *limits, char text[FY_LIMITS_TEXT]);

/* ------------------------------------------------------------------ pages.c
 * Large pages: the kernel's pool of them, and those that it makes of ordinary memory. */

/* The pool of 2 MiB pages, in pages. */
struct fy_pool {
    uint64_t total, free, reserved;
    uint64_t more; /* by which the kernel may enlarge it */
};
void fy_pool_read(const char *root, struct fy_pool *pool);
/* Before PEs agree on a growth: FERRY_OK, or FERRY_ERR_NOMEM with the numbers, if this host cannot back `length` bytes
 * more for each of its PEs as FERRY_HEAP_PAGES wants. */
int fy_pages_plan(const struct fy_heap_config *config, size_t length, struct ferry_error *error);
/* Makes a file of `length` bytes, all of it backed, and maps it at `address`. *what: the step that failed, or the pages
 * that were got, in words. 0 or errno. */
int fy_pages_map(const struct fy_heap_config *config, void *address, size_t length, int *fd, const char **what);

/* ------------------------------------------------------------------ segment.c */

/* A segment with room for everything, without regions and keys; its index is the lowest that is free. NULL: no memory.
 */
struct fy_segment *fy_segment_new(struct fy_heap_state *state, char *address, size_t length, uint32_t kind,
                                  uint32_t flags);
/* Registers with every transport that can reach such memory and has not made it; on failure some are left to be
 * released. */
int fy_segment_register(struct fy_heap_state *state, struct fy_segment *segment, const struct ferry_memory *memory,
                        struct ferry_error *error);
/* The record of a transport's failure with this segment; returns status. */
int fy_segment_failed(const struct fy_heap_state *state, size_t t, const char *what, const struct fy_segment *segment,
                      int status, struct ferry_error *error);
/* Gives the index to the segment for good: what peers name by it is found here. */
void fy_segment_enter(struct fy_heap *heap, struct fy_segment *segment);
/* Whether an index is left. */
bool fy_segment_room(const struct fy_heap *heap);
/* Releases the regions; memory that a transport made goes back to it. Takes the setup lock. */
void fy_segment_drop(struct fy_heap_state *state, struct fy_segment *segment);
void fy_segment_free(struct fy_segment *segment);
/* Releases imported keys, regions and tables, and frees it and its index. Mappings of ours stay. */
void fy_segment_release(struct fy_heap_state *state, struct fy_segment *segment);

/* ------------------------------------------------------------------ chunk.c */

/* A segment in the making. */
struct fy_chunk {
    struct fy_segment *segment;
    struct ferry_memory memory; /* as registered */
    bool mapped;                /* by us */
    char keys[FY_TRANSPORTS_MAX][FERRY_KEY_MAX];
    uint16_t key_size[FY_TRANSPORTS_MAX];
};
/* Backs and registers [start, +length) for a class, exports the keys. On failure nothing is left. Calls no other PE. */
int fy_chunk_make(struct fy_heap_state *state, uint64_t start, size_t length, uint32_t kind, uint32_t flags,
                  struct fy_chunk *chunk, struct ferry_error *error);
/* The keys of all regions. Under the setup lock. */
int fy_chunk_export(struct fy_heap_state *state, struct fy_chunk *chunk, struct ferry_error *error);
void fy_chunk_undo(struct fy_heap_state *state, struct fy_chunk *chunk);
/* Collective: adds a chunk of `length` bytes for a class on every PE, or on none. */
int fy_heap_grow(struct fy_heap_state *state, size_t length, uint32_t kind, uint32_t flags, struct ferry_error *error);

/* ------------------------------------------------------------------ call.c
 * What every collective call begins with: the PEs tell each other what they were called with, and compare. */

enum { FY_CALL_ALLOC = 1, FY_CALL_FREE, FY_CALL_RESIZE, FY_CALL_SHARE, FY_CALL_UNSHARE };

#define FY_PLACE_NULL    (UINT64_MAX)     /* free of NULL */
#define FY_PLACE_OUTSIDE (UINT64_MAX - 1) /* something that is not in the heap */

/* One PE's call, as the others see it. */
struct fy_call {
    uint32_t kind;
    int32_t status;    /* negative: this PE already knows that it cannot */
    uint64_t size;     /* as asked */
    uint64_t place;    /* alignment, heap offset, or index of a segment */
    uint64_t sequence; /* collective calls before this one */
    uint64_t history;  /* digest of the heap before it */
    uint64_t grow;     /* bytes by which the heap would grow */
    uint32_t memory;   /* enum ferry_memory_kind */
    uint32_t flags;
};

/* What is planned here. */
struct fy_plan {
    struct fy_call call;
    size_t rounded;
    uint64_t offset;
    struct ferry_error error; /* valid if call.status is negative */
};

/* One exchange, unless some PE cannot. After FERRY_OK every PE goes on, with the same plan. */
int fy_call_agree(struct fy_heap_state *state, struct fy_plan *plan, struct ferry_error *error);
/* Adds a change to the digest. */
void fy_call_remember(struct fy_heap_state *state, uint64_t kind, uint64_t offset, uint64_t size);

/* ------------------------------------------------------------------ collective.c */

static inline uint32_t fy_class(uint32_t kind, uint32_t flags)
{
    return kind * 2 + flags; /* FERRY_ALLOC_SINGLE_WRITER is 1, and all there is */
}

/* Finds room for plan->call.size bytes of plan->call.memory and flags, or plans a growth. */
int fy_plan_room(struct fy_heap_state *state, struct fy_plan *plan, size_t alignment);
/* Takes it, after PEs agreed; the heap grows first if that was the plan. */
int fy_plan_take(struct fy_heap_state *state, struct fy_plan *plan, size_t alignment, struct ferry_error *error);
/* The allocation that starts at `address`: its offset goes to plan->call.place, its class into the plan; else
 * FERRY_ERR_ARG with a record that begins with `call`. */
int fy_plan_find(struct fy_heap_state *state, struct fy_plan *plan, const void *address, const char *call);

/* ------------------------------------------------------------------ buffer.c */

/* Adds to, and removes from, the list of buffers that lookups go through. false: no memory, not there. */
bool fy_buffer_add(struct fy_heap_state *state, struct ferry_buffer *buffer);
bool fy_buffer_remove(struct fy_heap_state *state, const struct ferry_buffer *buffer);
/* A symmetric buffer that shares bytes with [address, +length), or NULL. */
const struct ferry_buffer *fy_buffer_shared(struct fy_heap_state *state, const char *address, size_t length);
/* Whether it can be a buffer; the record begins with `call`. */
int fy_buffer_check(const struct fy_heap *heap, const char *address, size_t length, const char *call,
                    struct ferry_error *error);

/* ------------------------------------------------------------------ resolve.c */

/* Releases the key and the description; under the setup lock, when no channel uses it any more. */
void fy_target_release(struct fy_heap_state *state, const struct fy_target *target);

/* ------------------------------------------------------------------ exchange.c */

/* Own keys of one segment: what fy_segment.blobs points to. Peers ask for them one by one, at first contact. */
struct fy_keys {
    struct fy_key {
        uint16_t size;
        char bytes[FERRY_KEY_MAX];
    } * of; /* per transport */
};

bool fy_keys_reserve(const struct fy_heap_state *state, struct fy_keys *keys);
void fy_keys_release(struct fy_keys *keys);
/* Collective: publishes the keys, then tells how making the chunk went (status, error). FERRY_OK on every PE, or on
 * none. */
int fy_exchange_chunk(struct fy_heap_state *state, const struct fy_chunk *chunk, int status, const char *step,
                      const struct ferry_error *mine, struct ferry_error *error);
/* Collective: tells how a step went here. FERRY_OK on every PE, or the record of the first that failed. */
int fy_exchange_outcome(struct fy_heap_state *state, int status, const char *step, const struct ferry_error *mine,
                        struct ferry_error *error);
/* Peers get no more keys of this segment. */
void fy_exchange_withdraw(struct fy_heap_state *state, uint32_t segment);

#endif
