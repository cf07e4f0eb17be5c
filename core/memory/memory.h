/* SPDX-License-Identifier: Apache-2.0
 * The symmetric heap: reserved address space, chunks backed and registered on demand, allocator, peers' keys.
 * Collective calls come from one setup thread per PE; the tables it publishes are read by every channel. */
#ifndef FY_MEMORY_MEMORY_H
#define FY_MEMORY_MEMORY_H

#include "../base/log.h"
#include "../gpu/gpu.h"
#include "../route/route.h"
#include <pthread.h>
#include <stdatomic.h>

#define FY_SEGMENTS_MAX 4096u
#define FY_NO_TRANSPORT SIZE_MAX

/* How atomics travel that the transport of the puts has no native form of, or may not use. */
#define FY_WAY_MAIL (-1) /* by mailbox: the owner applies them with its CPU */
struct fy_way {
    int32_t lane;            /* index of the transport whose atomics every PE uses on this memory, or FY_WAY_MAIL */
    const struct ferry_rkey *key; /* of that transport */
};

/* A segment of one peer, ready for use. Found through fy_segment.targets[pe]; a peer that was not contacted shares
 * fy_target_none, whose length 0 sends every operation to the slow path: no pointer is tested. */
struct fy_target {
    size_t length; /* bytes covered */
    uint64_t start; /* offset of the first in the heap */
    const struct ferry_rkey *key;
    void *map;     /* where this process can load and store it, or NULL */
    /* With FERRY_CAP_DIRECT, for core/order/direct.h: an offset `at` of the heap lies at direct_base + at; direct_end is the
     * offset behind the last byte, 0 where the core may not reach the memory itself */
    uint64_t direct_end;
    char *direct_base;
    uint64_t direct_amo_end; /* the same for atomics: 0 where the CPU's would not belong to the memory's domain */
    /* Kinds of atomics (FERRY_AMO_BIT, FERRY_AMO_FETCH_BIT) that the transport of the puts does itself, in that domain. */
    uint32_t amo64, amo32;
    uint32_t segment;        /* index */
    uint32_t mail;           /* 1: only its owner applies atomics, and not with its CPU */
    struct fy_way way[2];    /* the other kinds, [0] 4 bytes, [1] 8 bytes */
};
extern const struct fy_target fy_target_none;

/* One chunk of the heap, or one symmetric buffer of the user, registered with every transport. */
struct fy_segment {
    uint32_t index;
    uint64_t start; /* address - heap base: of a chunk, the offset in the heap; of a buffer, modulo 2^64 */
    uint32_t kind, flags; /* of its class: enum ferry_memory_kind, FERRY_ALLOC_… */
    size_t length;
    char *address;
    size_t maker;                    /* index of the transport that allocated the memory, or FY_NO_TRANSPORT */
    struct ferry_region **regions;   /* per transport of the heap; NULL: it cannot reach memory of this kind */
    void *blobs;                     /* own keys, as exported; layout private to memory/ */
    _Atomic(const struct fy_target *) *targets; /* per peer */
};

/* Calls to the layer above (job): collective exchange among all PEs with a deadline; choice of transport per peer. */
struct fy_memory_up {
    void *arg;
    /* collective: *data of all PEs, combined in any order and grouping, on each */
    int (*reduce)(void *arg, void *data, size_t length, void (*combine)(void *into, const void *other), const char *step,
                  struct ferry_error *error);
    /* index into transports[] of the one that carries puts and gets to `pe`; negative status if none */
    int (*transport_of)(void *arg, uint32_t pe);
    /* index of the transport that carries atomics of `width` to `pe` from every PE, or FY_WAY_MAIL; NULL: FY_WAY_MAIL */
    int (*way_of)(void *arg, uint32_t pe, unsigned width);
    /* the key that `pe` has for transport t of its segment: fy_heap_own_key, carried to here */
    int (*key)(void *arg, uint32_t pe, uint32_t segment, uint32_t t, void *key, size_t capacity, size_t *size,
               struct ferry_error *error);
    /* FERRY_OK, or why it is pointless to wait for `pe` any longer, with the record; NULL: always worth it */
    int (*alive)(void *arg, uint32_t pe, struct ferry_error *error);
};

/* What backs a chunk: values of the option FERRY_HEAP_PAGES, in its order. */
enum fy_pages { FY_PAGES_AUTO = 0, FY_PAGES_SMALL = 1, FY_PAGES_HUGE = 2 };

struct fy_heap_config {
    const struct fy_log *log;
    uint32_t my_pe, n_pes, local_pes; /* local_pes: PEs of this job on this host */
    size_t reserve, chunk;
    struct fy_transport *const *transports;
    size_t n_transports;
    struct fy_memory_up up;
    double timeout; /* seconds, for import_key */
    bool crowded;   /* more PEs than cores: whoever waits for a peer leaves it the core */
    /* Serialises the setup calls into the transports (register, import, …) with those of the layer above. Taken inside the
     * functions below and never held while PEs are waited for: not to be held by the caller. NULL: a lock of the heap's own. */
    pthread_mutex_t *setup;
    bool direct; /* heed FERRY_CAP_DIRECT */
    enum fy_pages pages;
    struct fy_gpu *gpu; /* for fy_heap_device; NULL: none */
    bool gpu_memory;    /* chunks of GPU memory may be made with it */
    bool no_peers;      /* fy_heap_device gives no addresses of peers' memory */
    const char *system_root; /* for tests: read proc/ and sys/ under this folder instead of "/"; NULL otherwise */
};

/* Granules: the heap is divided in pieces of 1 << FY_GRANULE_SHIFT bytes; a segment is a whole number of them. */
#define FY_GRANULE_SHIFT 21

struct fy_heap {
    struct fy_heap_config config;
    char *base;                      /* start of the reservation */
    _Atomic uint64_t backed;         /* bytes from base that are backed: offsets below are valid */
    _Atomic(struct fy_segment *) *granules; /* segment by offset >> FY_GRANULE_SHIFT, for offsets < backed */
    struct fy_segment *segments[FY_SEGMENTS_MAX]; /* by index; NULL: free, as after the end of a symmetric buffer */
    uint32_t n_segments;                          /* all indices in use are below */
    void *allocator;                 /* private to memory/ */
};

/* Reserves. FERRY_ERR_CONFIG with the numbers if the address space cannot be had. */
int fy_heap_create(const struct fy_heap_config *config, struct fy_heap **heap, struct ferry_error *error);
void fy_heap_destroy(struct fy_heap *heap);
/* Collective. All PEs must pass the same kind, size and alignment: FERRY_ERR_MISMATCH names both sides else. Grows the heap when
 * needed: FERRY_ERR_NOMEM with the numbers (asked, MemAvailable, cgroup limit, memlock) on every PE if any PE cannot.
 * *address set on success. */
int fy_heap_alloc(struct fy_heap *heap, size_t size, size_t alignment, void **address, struct ferry_error *error);
/* The same for any class: a chunk holds memory of one kind and one set of flags. FERRY_ERR_UNSUPPORTED where no transport has memory
 * of that kind. Not for the CPU to touch unless the kind is host. */
struct fy_want {
    size_t size, alignment;
    uint32_t kind, flags; /* enum ferry_memory_kind, FERRY_ALLOC_… */
};
int fy_heap_want(struct fy_heap *heap, const struct fy_want *want, void **address, struct ferry_error *error);
/* Collective. Gives the allocation at *address the new size (> 0), in place or elsewhere; each PE's own bytes go along, up to the
 * smaller size, before any PE returns. Alignment: the least there is. On failure *address and the block are as before.
 * copy: for memory that the CPU may not touch, called without locks; 0 or a negative status with its record in `error`. */
typedef int (*fy_copy_fn)(void *arg, void *to, const void *from, size_t length, struct ferry_error *error);
int fy_heap_resize(struct fy_heap *heap, void **address, size_t size, fy_copy_fn copy, void *arg, struct ferry_error *error);
/* Collective. FERRY_ERR_ARG for an address that is no allocation. */
int fy_heap_free(struct fy_heap *heap, void *address, struct ferry_error *error);
/* Slow path of the data path: imports the key of (segment, pe) and publishes the target. Any channel thread; takes a lock. */
int fy_heap_resolve(struct fy_heap *heap, struct fy_segment *segment, uint32_t pe, const struct fy_target **target,
                    struct ferry_error *error);
/* The segment that contains `address` of this PE: a chunk, or a symmetric buffer; NULL: neither. Any thread; no lock for the
 * heap, a short one for buffers. */
struct fy_segment *fy_heap_find(struct fy_heap *heap, const void *address);
/* The segment with that index, from the moment on at which a peer may know of it; NULL: none. Any thread. */
struct fy_segment *fy_heap_segment(struct fy_heap *heap, uint32_t segment);
/* Where kernels of this PE's GPU reach what is for `pe` the counterpart of `address`, which lies in the segment. Any thread. */
int fy_heap_device(struct fy_heap *heap, struct fy_segment *segment, uint32_t pe, const void *address, void **device,
                   struct ferry_error *error);
/* Own key of a segment for transport t; FERRY_ERR_NOT_FOUND if there is none. Any thread: peers ask through the control thread. */
int fy_heap_own_key(struct fy_heap *heap, uint32_t segment, uint32_t t, void *key, size_t capacity, size_t *size);
/* Forgets a dead peer's targets is not done: they stay until destroy, since other threads may be using them. */

/* Buffers of the user. */
struct ferry_buffer {
    struct fy_heap *heap;
    void *owner; /* the job */
    char *address;
    size_t length;
    struct ferry_region **regions; /* per transport */
    struct fy_segment *segment;    /* a symmetric buffer's, else NULL */
    struct ferry_buffer *next;
};
int fy_buffer_register(struct fy_heap *heap, void *address, size_t length, struct ferry_buffer **buffer,
                       struct ferry_error *error);
/* FERRY_ERR_ARG also for a symmetric buffer. */
int fy_buffer_deregister(struct ferry_buffer *buffer);
/* Collective: peers reach it as they reach the heap, each PE's own address names the counterparts. The same length everywhere.
 * Fails on every PE if peers that are tried, one per transport, cannot reach it. */
int fy_buffer_share(struct fy_heap *heap, void *address, size_t length, struct ferry_buffer **buffer, struct ferry_error *error);
/* Collective, for such a buffer; nobody may have operations on it outstanding. On failure it is as before. */
int fy_buffer_unshare(struct ferry_buffer *buffer, struct ferry_error *error);
/* Region of transport `t` that covers [address, +length): heap segment or buffer, symmetric or not; NULL if none does. Any thread; lock-free
 * for the heap, takes a lock for user buffers. */
struct ferry_region *fy_heap_region(struct fy_heap *heap, size_t t, const void *address, size_t length);

#endif
