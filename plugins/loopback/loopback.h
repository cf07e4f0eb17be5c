/* SPDX-License-Identifier: Apache-2.0
 * What the files of the loopback plugin share: the instance and its parts, and the members of its table.
 * Who may touch a field, and under which lock, is said at the field. */
#ifndef FY_LOOPBACK_LOOPBACK_H
#define FY_LOOPBACK_LOOPBACK_H

#include "../common/common.h"
#include "wire.h"

#include <pthread.h>

struct fy_lb_guise; /* guise.h */
struct fy_lb_page;

#define FY_LB_CONNECTIONS   64  /* served at once; more wait in the backlog */
#define FY_LB_SERVE_SECONDS 2.0 /* a connection that has not made its request by then is dropped */

/* What reach and import compare. Set in open, constant after. */
struct fy_lb_identity {
    struct fy_lb_process process;
    uint64_t net_device;
    uint64_t net_inode;
    uint64_t uid;
    char boot[FY_LB_BOOT_BYTES];
};

/* Registered memory. In the list of its instance, under the lock; the fields are constant. */
struct ferry_region {
    struct ferry_region *next;
    uint64_t number;
    void *address;
    size_t length;
    uint64_t offset; /* in the file */
    int fd;          /* our duplicate, or -1 */
    int remote;
    uint32_t kind; /* enum ferry_memory_kind */
    int mapped;    /* 1: we made the memory, and unmap it */
    char *place;   /* where we read and write it: `address`, but for memory that the CPU may not touch there */
};

/* A peer's memory. `base` is all that the data path reads without a guise; constant after import. List: setup thread.
 */
struct ferry_rkey {
    char *base;
    size_t length;
    uint32_t peer;
    uint32_t kind;           /* enum ferry_memory_kind */
    struct fy_lb_page *page; /* the peer's, where a guise needs it; else NULL */
    void *map;               /* what is to be unmapped, or NULL: the memory is of this process */
    size_t map_length;
    struct ferry_rkey *next;
};

/* An import that waits for the peer's control thread. Setup thread. */
struct fy_lb_pending {
    struct fy_lb_pending *next;
    struct fy_lb_key key;
    uint32_t peer;
    int fd;    /* -1: not connected */
    int asked; /* 1: the request was sent */
    int lost;  /* connections that ended without an answer */
    uint8_t nonce[FY_LB_NONCE_BYTES];
};

struct fy_lb_connection {
    int fd; /* -1: free */
    int pid;
    double deadline;
    uint8_t nonce[FY_LB_NONCE_BYTES];
};

/* The serving side. Control thread from watch_fd to unwatch_fd, setup thread before and after. */
struct fy_lb_server {
    int poll_fd; /* epoll over all below: watch_fd may not be called from the control thread */
    int listen_fd;
    int timer_fd; /* ticks while there are connections, or while accepting is paused */
    int watched;
    int paused;
    int ticking;
    unsigned used;
    struct fy_lb_connection connections[FY_LB_CONNECTIONS];
};

struct ferry_transport {
    struct fy_lb_guise *guise; /* NULL: none. Constant after open */
    size_t nt_threshold;       /* puts of this size and more bypass the cache; SIZE_MAX: none. Constant after open */
    const struct ferry_core *core;
    const struct ferry_gpu_ops *gpu; /* NULL: no GPU memory, or only what a guise pretends to be. Constant after open */
    uint32_t my_pe;
    uint32_t n_pes;
    uint8_t secret[FERRY_SECRET_BYTES];
    uint8_t token[FY_LB_TOKEN_BYTES];
    struct fy_lb_identity self;
    struct ferry_rkey *keys;       /* setup thread */
    struct fy_lb_pending *pending; /* setup thread */
    pthread_mutex_t lock;          /* over the rest of this block; never held while waiting */
    struct ferry_region *regions;
    uint64_t last_region;
    struct ferry_error failure; /* latest failure of a call */
    struct fy_lb_server server;
};

/* data.c: channel threads */
int fy_lb_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int fy_lb_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int fy_lb_put_signal(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int fy_lb_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket);
int fy_lb_progress(struct ferry_transport *t, uint32_t channel);
/* The same without a look at the guise: op->local and the key may be any memory that the CPU can touch. */
int fy_lb_put_any(const struct ferry_transport *t, const struct ferry_op *op);
int fy_lb_get_any(const struct ferry_op *op);
int fy_lb_amo_any(const struct ferry_op *op);
int fy_lb_signal_any(const struct ferry_op *op);

/* gpu.c: setup thread; moves, rma, quiet: channel threads. import fills in where the memory is. */
void fy_lb_gpu_open(struct ferry_transport *t);
void fy_lb_gpu_caps(const struct ferry_caps *host, struct ferry_caps *gpu);
int fy_lb_gpu_moves(const struct ferry_op *op);
int fy_lb_gpu_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int fy_lb_gpu_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket);
int fy_lb_close_channel(struct ferry_transport *t, uint32_t channel);
int fy_lb_gpu_share(struct ferry_transport *t, const struct fy_lb_key *in);
int fy_lb_gpu_import(struct ferry_transport *t, uint32_t peer, int fd, size_t length, struct ferry_rkey *key);

/* report.c: setup thread */
int fy_lb_report(const struct ferry_core *core, const struct ferry_report *ask);

/* identity.c: setup thread. fy_lb_identify: NULL, or the file that could not be read (errno says why). */
const char *fy_lb_identify(struct fy_lb_identity *self);
int fy_lb_same_process(const struct fy_lb_process *a, const struct fy_lb_process *b);
int fy_lb_export_endpoint(struct ferry_transport *t, void *blob, size_t *size);
int fy_lb_reach(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, char *why, size_t why_size);

/* region.c: setup thread */
int fy_lb_register(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region);
int fy_lb_deregister(struct ferry_transport *t, struct ferry_region *region);
int fy_lb_export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size);
/* What register does once the memory was found good. */
int fy_lb_region_add(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region);
void fy_lb_regions_close(struct ferry_transport *t);

/* import.c: setup thread */
int fy_lb_import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key);
int fy_lb_release_key(struct ferry_transport *t, struct ferry_rkey *key);
int fy_lb_map_key(struct ferry_transport *t, const struct ferry_rkey *key, void **address);
int fy_lb_disconnect(struct ferry_transport *t, uint32_t peer);
/* What import_key does once the blob was found good. */
int fy_lb_import_memory(struct ferry_transport *t, const struct fy_lb_key *in, struct ferry_rkey **key);
void fy_lb_imports_close(struct ferry_transport *t);

/* serve.c: setup thread; what it gives to watch_fd: control thread. close undoes init, open and start, in any state */
void fy_lb_server_init(struct fy_lb_server *s);
int fy_lb_server_open(struct ferry_transport *t);
int fy_lb_server_start(struct ferry_transport *t);
void fy_lb_server_close(struct ferry_transport *t);

/* loopback.c: what an instance without a guise can do with host memory. */
void fy_lb_plain_caps(struct ferry_caps *caps);

/* loopback.c: notes a failure for query_error and returns `status`. peer -1: none; error: errno or 0. Any thread. */
int fy_lb_fail(struct ferry_transport *t, int64_t peer, int status, int error, const char *hint, const char *format,
               ...) __attribute__((format(printf, 6, 7)));

#endif
