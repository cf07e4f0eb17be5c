/* SPDX-License-Identifier: Apache-2.0
 * What the files of the libfabric plugin share: the instance, what is known of its provider, channels and peers.
 * Who may touch a field is said at the field; the functions are grouped by file, with the thread that calls them. */
#ifndef FY_LIBFABRIC_LIBFABRIC_H
#define FY_LIBFABRIC_LIBFABRIC_H

#include "../common/common.h"
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <pthread.h>

#define FY_LF_API   FI_VERSION(1, 17)
#define FY_LF_POLL  16  /* completions taken at once */
#define FY_LF_STASH 256 /* bytes of a put that are copied here where it is not left to the provider */
#define FY_LF_NAME  160 /* bytes of an endpoint's address, at most */
#define FY_LF_MAGIC 0x4679466cu
#define FY_LF_HEAR  40000u  /* ns between two looks at the bell: less than the nap of a thread that waits for it */
#define FY_LF_PAUSE 1000u   /* ns between two looks at the service endpoint while peers' operations come one behind the other, */
#define FY_LF_STREAK 2      /* which two looks at the counter in a row say */
#define FY_LF_PUSH  200000u /* the same at a channel of which nothing is awaited, and whose operations were small */

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* How is it known that what was posted has arrived? */
enum fy_lf_quiet {
    FY_LF_QUIET_AUTO = 0,
    FY_LF_QUIET_DC = 1,       /* each operation asks for delivery, and reports */
    FY_LF_QUIET_FENCE_DC = 2, /* a fenced write behind them does */
    FY_LF_QUIET_RAW_READ = 3  /* a read, or a fetching atomic, behind them returns what they wrote */
};

enum fy_lf_virt { FY_LF_VIRT_AUTO = 0, FY_LF_VIRT_NO = 1, FY_LF_VIRT_YES = 2 }; /* the index of the choice */

/* The options, checked. Constant after open. */
struct fy_lf_options {
    const char *provider, *domain, *interface;
    int virt, quiet, inject, depth, unordered, refused;
};

/* What a provider is known, or believed, to do. A row of table.c, and then as it was found at open. */
struct fy_lf_provider {
    const char *name;
    const char *refused; /* why it is not used unless asked for; NULL: it is */
    int virt;            /* which of its engines: enum fy_lf_virt; AUTO: either */
    uint32_t order;      /* FERRY_ORDER_…, as far as the provider's msg_order confirms it, */
    uint32_t seen;       /* or it was measured, and needs no word of the provider */
    int raw_seen;        /* the same of reads behind writes */
    int quiet;           /* enum fy_lf_quiet */
    int fence;           /* has FI_FENCE */
    int more;            /* makes use of FI_MORE */
    int one_host;        /* reaches PEs of one host only */
    int apart;           /* an endpoint takes answers in the order of the questions, so that one to the dead holds up the
                            others: a channel has one for each peer */
    int data_queued;     /* puts with data for the target go the way of atomics, not that of puts */
    uint32_t domain;     /* enum ferry_domain of its atomics */
    size_t inject;       /* puts up to this by fi_inject_write; 0: their errors do not say whose they are */
    int score;           /* of probe */
};

/* An operation under way. What is passed to the provider as context: its first member is the provider's. */
struct fy_lf_slot {
    struct fi_context2 context;
    struct fy_lf_peer *peer;
    uint64_t seq;   /* count of the operation; told ones only */
    uint64_t amos;  /* the peer's, when it was posted */
    uint64_t value[2]; /* operand and compare of an atomic */
    uint64_t result;   /* where a value lands that nobody fetches */
    uint32_t kind;     /* enum ferry_op_kind, or FY_LF_FLUSH */
    uint8_t covers;    /* its completion vouches for what was posted before: FY_LF_COVERS_… */
    uint8_t told;      /* it reports when it is complete; others only when they fail */
};
#define FY_LF_FLUSH 4u
enum { FY_LF_COVERS_NOTHING = 0, FY_LF_COVERS_PUTS = 1, FY_LF_COVERS_ALL = 2 };

/* One (channel, peer). Channel thread, but for status and error (lock of the instance). The slots, and with them this,
 * are registered where local memory has to be. */
struct fy_lf_peer {
    struct fid_ep *ep; /* the channel's, or its own */
    fi_addr_t address;
    uint64_t posted, retired; /* counts of operations */
    uint64_t quick;    /* while `posted` is below, a small put needs no look at slots and flushes */
    uint32_t *epoch;   /* of each operation in flight: the channel's when it was posted; 0: complete */
    uint32_t mask;     /* of epoch and slots */
    uint32_t depth;
    uint64_t flushed;  /* `posted` of the last operation that covers all before it */
    uint64_t amos;     /* `posted` of the last operation that only COVERS_ALL covers */
    uint64_t mark;     /* `posted` when the last ticket for all peers was drawn */
    uint32_t told;     /* operations that will report */
    struct fy_lf_channel *channel;
    struct fy_lf_slot *slots;
    char *stash;       /* depth × FY_LF_STASH, or NULL */
    void *desc;        /* of slots and stash, where the provider wants one */
    struct fid_mr *mr;
    struct fid_ep *own; /* NULL: it goes by the channel's */
    struct fid_av *own_av;
    uint64_t scratch, scratch_key; /* at the peer, for flushes */
    struct fy_lf_peer *next;       /* of the channel's connected ones */
    uint32_t pe;
    int dropped;       /* its address is not the provider's any more */
    _Atomic int leave; /* setup thread asks the channel's to drop it */
    _Atomic int status;
    struct ferry_error error;
};

/* Channel thread; made by the setup thread. */
struct fy_lf_channel {
    struct fid_ep *ep;          /* NULL: each peer has its own */
    size_t inject;              /* a put up to this goes by fi_inject_write; 0: none does */
    uint32_t slow_flags;        /* FERRY_OP_… that the short way leaves */
    _Atomic uint32_t careful;   /* 1: a peer failed, or is to be left; any thread */
    struct fy_lf_peer **peers;  /* by number; NULL: not connected */
    uint64_t outstanding;       /* posted and not retired, over all peers */
    uint32_t epoch;             /* grows with each ticket for all peers */
    uint32_t told;              /* operations that will report */
    uint32_t room;              /* of those, at most */
    uint32_t id;
    uint64_t looked;            /* when the queue was last read with nothing awaited; 0: read it at once */
    int bulky;                  /* something outstanding is larger than what the provider copies: it may need to be pushed */
    struct ferry_transport *t;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_cntr *count; /* of what peers do; service only */
    struct fy_lf_peer *connected; /* list */
    struct fy_lf_peer *more;      /* its doorbell waits for an operation without FI_MORE */
    _Atomic int status;           /* of the first peer that failed; any thread */
};

static inline struct fy_lf_peer *fy_lf_connected(const struct fy_lf_channel *c)
{
    return __atomic_load_n(&c->connected, __ATOMIC_ACQUIRE);
}

struct ferry_region {
    struct ferry_region *next; /* setup thread */
    char *address;
    size_t length;
    struct fid_mr *mr; /* NULL: the provider wants none for local memory */
    void *desc;
};

struct ferry_rkey {
    uint64_t base; /* what offset 0 is to the provider */
    uint64_t key;
    struct ferry_rkey *next; /* setup thread */
};

struct ferry_transport {
    const struct ferry_core *core;
    uint32_t my_pe, n_pes, max_channels;
    struct fy_lf_options options;
    struct fy_lf_provider provider;
    char name[64]; /* of the provider */
    struct fi_info *info;
    struct fi_info *each; /* of endpoints for one peer: the same with shorter queues; NULL: there are none */
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fy_lf_channel service; /* its ep, cq and av: what peers address, and progress(SERVICE) reads */
    int bell;             /* readable when something comes in at the service endpoint; -1: there is none, */
    struct fid_cntr *count; /* but this counts what peers did; or NULL */
    uint64_t counted;     /* its last value; service thread, */
    uint64_t listened;    /* and when it was read, or the bell heard; */
    uint64_t paused;      /* when the last look was while they come one behind the other; */
    int streak, turn;     /* looks at the counter in a row that saw several; which of counter and queue is next, */
    int alternate;        /* where either moves things along */
    uint64_t next_key;
    uint32_t amo32, amo64; /* as in struct ferry_caps */
    int peek;              /* enum fi_op that fetches a word and leaves it as it is; -1: there is none */
    int virt;              /* keys count from addresses */
    int local;             /* local memory has to be registered */
    int data;              /* puts can carry data */
    int manual;            /* nothing moves outside calls */
    uint64_t host;         /* tells this host and what it shares from others */
    int32_t *processes;    /* with shm: of each PE, as far as known, for what it may leave behind */
    uint64_t *scratch;     /* a page: flushes of peers read and write its first word */
    struct ferry_region *scratch_region;
    struct ferry_region *regions;
    struct ferry_rkey *keys;
    struct fy_lf_channel **channels; /* by number; setup thread writes */
    pthread_mutex_t lock;            /* over failure and the errors of peers; never held while waiting */
    struct ferry_error failure;
};

/* options.c: setup thread */
extern const struct ferry_option fy_lf_option_rows[];
int fy_lf_options(const struct ferry_core *core, struct fy_lf_options *o, char *why, size_t why_size);

/* table.c: setup thread. The row of a provider by name and engine; an unknown one gets the most careful. */
const struct fy_lf_provider *fy_lf_row(const char *name, int virt);
/* What holds of the row, given what the provider says of itself. */
void fy_lf_found(const struct fi_info *info, const struct fy_lf_options *o, struct fy_lf_provider *p);

/* select.c: setup thread. The provider to use, to be freed by fi_freeinfo; or why there is none. */
int fy_lf_select(const struct fy_lf_options *o, struct fi_info **info, char *why, size_t why_size);
int fy_lf_probe(const struct ferry_core *core, struct ferry_probe *probe);

/* memory.c: setup thread */
int fy_lf_register(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region);
int fy_lf_deregister(struct ferry_transport *t, struct ferry_region *region);
int fy_lf_export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size);
int fy_lf_import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key);
int fy_lf_release_key(struct ferry_transport *t, struct ferry_rkey *key);
void fy_lf_memory_close(struct ferry_transport *t);
uint64_t fy_lf_base(const struct ferry_transport *t, const struct ferry_region *region);

/* channel.c: setup thread */
int fy_lf_queue_open(struct ferry_transport *t, struct fy_lf_channel *c, size_t entries, enum fi_wait_obj wait);
int fy_lf_endpoint_open(struct fy_lf_channel *c, struct fi_info *info, struct fid_ep **ep, struct fid_av **av);
void fy_lf_endpoint_close(struct fid_ep **ep, struct fid_av **av);
void fy_lf_queue_close(struct fy_lf_channel *c);
int fy_lf_open_channel(struct ferry_transport *t, uint32_t channel);
int fy_lf_close_channel(struct ferry_transport *t, uint32_t channel);
void fy_lf_channels_close(struct ferry_transport *t);
struct fy_lf_peer *fy_lf_peer_make(struct fy_lf_channel *c, uint32_t pe);
void fy_lf_peer_drop(struct fy_lf_peer *p);

/* connect.c: setup thread */
int fy_lf_export_endpoint(struct ferry_transport *t, void *blob, size_t *size);
int fy_lf_reach(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, char *why, size_t why_size);
int fy_lf_connect(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_connect *io);
int fy_lf_disconnect(struct ferry_transport *t, uint32_t peer);
/* 1: the process of a PE of this host is no more; 0: it is, or nothing is known of it. Any thread. */
int fy_lf_ended(const struct ferry_transport *t, uint32_t peer);
/* Removes what killed PEs of this host left in /dev/shm. */
void fy_lf_clean(struct ferry_transport *t);
/* Channel thread: gives up the addresses of those that setup asked to leave. */
void fy_lf_leave(struct fy_lf_channel *c);

/* quick.c: channel thread */
int fy_lf_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);

/* post.c: channel thread */
int fy_lf_rma_slow(struct fy_lf_channel *c, struct fy_lf_peer *p, const struct ferry_op *op);
int fy_lf_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int fy_lf_post_failed(struct fy_lf_peer *p, ssize_t rc, const char *what);
/* Makes the peer's last operation report. FERRY_OK, AGAIN, or the error of the peer. */
int fy_lf_flush(struct fy_lf_channel *c, struct fy_lf_peer *p);
/* The kinds that the provider has, by asking its endpoint. Setup thread. */
void fy_lf_atomics(struct ferry_transport *t, struct fid_ep *ep);

/* poll.c: channel thread; SERVICE: service thread */
int fy_lf_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket);
int fy_lf_progress(struct ferry_transport *t, uint32_t channel);
/* Takes what has completed: number of completions. */
int fy_lf_poll(struct fy_lf_channel *c);
/* How far small puts may go: to the next flush, and to the end of the slots. */
void fy_lf_window(struct fy_lf_peer *p);

/* error.c: any thread. fy_lf_fail notes a failure that belongs to a call and returns `status`; error: positive, or 0. */
int fy_lf_fail(struct ferry_transport *t, int64_t peer, int status, int error, const char *hint, const char *format,
               ...) __attribute__((format(printf, 6, 7)));
int fy_lf_query_error(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_error *record);
int fy_lf_describe(struct ferry_transport *t, uint32_t channel, uint32_t peer, char *text, size_t size);
void fy_lf_completion_error(struct fy_lf_channel *c, struct fy_lf_peer *p, const struct fi_cq_err_entry *entry,
                            unsigned kind);
void fy_lf_peer_error(struct fy_lf_peer *p, int status, int error, const char *what, const char *hint);

/* report.c: setup thread */
int fy_lf_report(const struct ferry_core *core, const struct ferry_report *ask);

static inline int fy_lf_status(struct fy_lf_peer *p)
{
    return __atomic_load_n(&p->status, __ATOMIC_ACQUIRE);
}

#endif
