/* SPDX-License-Identifier: Apache-2.0
 * What the files of the ucx plugin share: the instance, its context, channels, peers, memory and keys.
 * Who may touch a field is said at the field; the functions are grouped by file, with the thread that calls them. */
#ifndef FY_UCX_UCX_H
#define FY_UCX_UCX_H

#include "../common/common.h"
#include <ucp/api/ucp.h>

#include <pthread.h>

#define FY_UX_MAGIC   0x46597578u
#define FY_UX_COPY    ((size_t)2048) /* bytes of a put whose source a slot keeps until UCX has sent it */
#define FY_UX_SLOTS   128            /* per channel */
#define FY_UX_TICKETS 64             /* flushes under way per channel, a power of two */
#define FY_UX_WINDOW  2048           /* operations that are not known to be complete, per channel */
#define FY_UX_WORDS   ((size_t)512)  /* words that go in one message of UCX, and so in one copy at the target */
#define FY_UX_TLS     96            /* bytes of a list of transports, as UCX_TLS has it */
#define FY_UX_FEW     32   /* descriptors that UCX may take at once */
#define FY_UX_PACKED  (FERRY_KEY_MAX - 24)

#if defined(__x86_64__) || defined(__i386__)
#define FY_UX_TSO 1 /* stores become visible in their order */
#else
#define FY_UX_TSO 0
#endif

enum fy_ux_memory { FY_UX_MEMORY_AUTO = 0, FY_UX_MEMORY_ALLOCATE = 1, FY_UX_MEMORY_REGISTER = 2 };
enum fy_ux_watch { FY_UX_WATCH_AUTO = 0, FY_UX_WATCH_NO = 1, FY_UX_WATCH_YES = 2 };

/* Constant after open. */
struct fy_ux_options {
    int memory;  /* enum fy_ux_memory */
    int watch;   /* enum fy_ux_watch */
    int device;  /* atomics by devices */
};

/* What UCX found to work with. Constant after open. */
struct fy_ux_context {
    ucp_context_h ucp;
    char tls[FY_UX_TLS];   /* names of transports in use, separated by commas */
    char lanes[256];       /* the same with their devices, as tcp/lo */
    char asked[FY_UX_TLS]; /* UCX_TLS, from the environment or UCX's file */
    int shm, net, other, self; /* kinds of transports: shared memory; TCP; NICs and what is not known; own process */
    int attaches;          /* a lane maps memory of peers that they have only registered */
    int protos;            /* protocols of the second generation: an operation may take several lanes */
};

/* Towards one PE on one channel. Channel thread; status: any thread. */
struct fy_ux_peer {
    ucp_ep_h ep; /* NULL: not connected */
    struct fy_ux_channel *channel;
    uint32_t pe;
    char *endpoint;     /* of the peer, while the rest of its address is asked for; NULL: it is not */
    int loops;          /* the lane to the own process: what is posted is done */
    uint64_t last;      /* the channel's `posted` at the last operation that a flush has to cover, */
    uint64_t flushed;   /* and at the last flush of this peer that is complete */
    uint64_t asked;     /* gets and atomics with a result, ever; */
    uint64_t awaited;   /* those under way */
    uint64_t unsent;    /* puts and atomics without a result that UCX has not sent yet */
    _Atomic int status; /* enum ferry_status of the first failure */
    _Atomic int ucs;    /* UCX's status of it, 0: none */
};

/* Source of a put that the caller may change already. */
struct fy_ux_slot {
    struct fy_ux_slot *next;
    struct fy_ux_peer *peer;
    char data[FY_UX_COPY];
};

struct fy_ux_flush {
    uint64_t ticket; /* whose it is; 0: nobody's */
    uint64_t covers; /* `posted` when it began */
    struct fy_ux_channel *channel;
    struct fy_ux_peer *peer; /* NULL: of all */
    int done, status;
};

/* A peer's key that is no longer used: destroyed by the channel that unpacked it. */
struct fy_ux_old_key {
    struct fy_ux_old_key *next;
    ucp_rkey_h rkey;
};

/* Channel thread; made by the setup thread. */
struct fy_ux_channel {
    struct ferry_transport *t;
    ucp_worker_h worker;
    struct fy_ux_peer *peers; /* by number */
    ucp_request_param_t plain, with_memh, reply[2], no_reply[2], kept[2]; /* [width == 8]; the last: no_reply, heard of when sent */
    uint32_t id;
    uint64_t posted, flushed; /* operations that a flush has to cover; those that one of all peers has covered */
    uint64_t tickets;         /* drawn */
    uint64_t asked, awaited;  /* gets and atomics with a result, ever and under way: their answers complete them */
    uint64_t unsent;          /* puts and atomics without a result that UCX has not sent yet: its flushes may miss them */
    uint64_t own;             /* ticket of a flush of our own, for the window; 0: none */
    struct fy_ux_slot *slots, *free; /* the first: all of them; NULL: nothing is copied here */
    _Atomic int status; /* of the first peer that failed; any thread */
    _Atomic uint32_t failed;
    struct fy_ux_old_key *_Atomic old_keys; /* any thread adds */
    struct fy_ux_flush flushes[FY_UX_TICKETS];
};

struct ferry_region {
    struct ferry_region *next; /* setup thread */
    ucp_mem_h memh;
    void *address;
    size_t length;
    int fd; /* of allocated memory, for other transports; -1: none */
};

/* near: keys through which a lane does all at once, in shared memory or in the own process; far: all others. Of each
 * channel one of the two at most is not NULL. Written by the channel's thread, taken away by the setup thread. */
struct ferry_rkey {
    struct ferry_rkey *next; /* setup thread */
    uint64_t address;
    char *map;           /* where this process sees it; NULL: nowhere */
    ucp_rkey_h mapped;   /* through the setup worker */
    uint32_t peer;
    uint32_t packed_size;
    uint8_t packed[FY_UX_PACKED];
    struct {
        ucp_rkey_h near, far;
    } at[];
};

struct ferry_transport {
    const struct ferry_core *core;
    uint32_t my_pe, n_pes, max_channels;
    struct fy_ux_options options;
    struct fy_ux_context context;
    int abandoned; /* a worker stays, and so its context has to */
    int allocates; /* remote memory comes from UCX */
    int maps;      /* keys of memory on this host have addresses here */
    int at_once;   /* all lanes do all at once: nobody has to make progress */
    int watch;     /* peers may be watched for failures */
    ucp_worker_h service;   /* setup thread until it is exported; then the service thread */
    ucp_worker_h setup;     /* setup thread: maps memory of peers */
    ucp_ep_h *setup_peers;  /* by number */
    ucp_address_t *address; /* of the service worker, until close */
    size_t address_size;
    char **addresses; /* of peers, as far as endpoints had room: by number, from reach */
    uint32_t *address_sizes;
    struct fy_ux_channel **channels; /* by number; setup thread writes */
    struct ferry_region *regions;
    struct ferry_rkey *keys;
    pthread_mutex_t lock; /* over failure and the closing of channels; never held while waiting */
    struct ferry_error failure;
};

/* options.c: setup thread */
extern const struct ferry_option fy_ux_option_rows[];
int fy_ux_options(const struct ferry_core *core, struct fy_ux_options *o);

/* context.c: setup thread. FERRY_OK, or a status and the reason. n_pes 0: for a look only. */
int fy_ux_context_open(const struct fy_ux_options *o, uint32_t n_pes, struct fy_ux_context *x, char *why, size_t why_size);
void fy_ux_context_close(struct fy_ux_context *x);
/* Could so many more be opened, at most FY_UX_FEW? UCX ends the process where some of its calls get none. */
int fy_ux_descriptors(int n);

/* listen.c: setup or control thread. What UCX logs between the two calls, by this thread, goes to `text`. */
struct fy_ux_heard {
    char text[240];
};
void fy_ux_listen(struct fy_ux_heard *heard);
void fy_ux_listened(void);

/* memory.c: setup thread */
int fy_ux_try_memory(struct ferry_transport *t);
int fy_ux_allocate(struct ferry_transport *t, struct ferry_memory *memory, struct ferry_region **region);
int fy_ux_register(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region);
int fy_ux_deregister(struct ferry_transport *t, struct ferry_region *region);
void fy_ux_memory_close(struct ferry_transport *t);

/* backing.c: setup thread. A descriptor of the file behind a mapping, for the caller to close; -1: there is none. */
int fy_ux_backing(const void *address, size_t length, uint64_t *offset);

/* key.c: setup thread; unpack and sweep: channel thread */
int fy_ux_export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size);
int fy_ux_import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key);
int fy_ux_release_key(struct ferry_transport *t, struct ferry_rkey *key);
int fy_ux_map_key(struct ferry_transport *t, const struct ferry_rkey *key, void **address);
int fy_ux_key_unpack(struct fy_ux_channel *c, struct ferry_rkey *key);
void fy_ux_key_sweep(struct fy_ux_channel *c);
void fy_ux_keys_leave(struct fy_ux_channel *c, int destroy);
void fy_ux_keys_close(struct ferry_transport *t);

/* channel.c: setup thread */
int fy_ux_worker_make(struct ferry_transport *t, const char *what, ucp_worker_h *worker);
int fy_ux_open_channel(struct ferry_transport *t, uint32_t channel);
int fy_ux_close_channel(struct ferry_transport *t, uint32_t channel);
void fy_ux_channels_close(struct ferry_transport *t);

/* connect.c: setup thread; SERVE: control thread */
/* Bytes of an address that an endpoint has room for. */
size_t fy_ux_address_room(void);
int fy_ux_export_endpoint(struct ferry_transport *t, void *blob, size_t *size);
int fy_ux_reach(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, char *why, size_t why_size);
int fy_ux_connect(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_connect *io);
int fy_ux_disconnect(struct ferry_transport *t, uint32_t peer);
/* The setup worker's endpoint to a peer, made at need; NULL: there is none, and the failure is described. */
ucp_ep_h fy_ux_setup_peer(struct ferry_transport *t, uint32_t peer);
void fy_ux_connect_close(struct ferry_transport *t);

/* post.c: channel thread */
int fy_ux_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int fy_ux_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);

/* far.c: channel thread */
int fy_ux_rma_far(struct fy_ux_channel *c, const struct ferry_op *op);
/* Makes ready for one far operation: OK, and *rkey; or AGAIN, or an error. answered: it brings a value, else a flush covers it. */
int fy_ux_far_ready(struct fy_ux_channel *c, const struct ferry_op *op, int answered, ucp_rkey_h *rkey);
/* UCX's answer to a far operation. */
int fy_ux_far_answer(struct fy_ux_peer *p, ucs_status_ptr_t answer);
void fy_ux_far_done(void *request, ucs_status_t status, void *peer);
/* The same for what brings a value. */
void fy_ux_far_replied(void *request, ucs_status_t status, void *peer);

/* An operation that a flush has to cover. */
static inline void fy_ux_posted(struct fy_ux_channel *c, struct fy_ux_peer *p)
{
    p->last = ++c->posted;
}

/* One whose answer is under way. */
static inline void fy_ux_asked(struct fy_ux_channel *c, struct fy_ux_peer *p)
{
    c->asked++;
    c->awaited++;
    p->asked++;
    p->awaited++;
}

/* One without an answer that UCX keeps back: fy_ux_far_done hears when it is sent. */
static inline void fy_ux_kept(struct fy_ux_channel *c, struct fy_ux_peer *p)
{
    c->unsent++;
    p->unsent++;
}

/* quiet.c: channel thread */
int fy_ux_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket);
int fy_ux_progress(struct ferry_transport *t, uint32_t channel);
/* Is there room for one more far operation? OK, AGAIN. */
int fy_ux_window(struct fy_ux_channel *c);

/* error.c: any thread. fy_ux_fail notes a failure that belongs to a call and returns `status`. */
int fy_ux_fail(struct ferry_transport *t, int64_t peer, int status, ucs_status_t ucs, const char *hint, const char *format,
               ...) __attribute__((format(printf, 6, 7)));
/* What a status of UCX is to Ferry. */
int fy_ux_status(ucs_status_t ucs);
/* A peer failed: UCX says so, or (ucs UCS_OK) the core. Returns the status that stands from now on. */
int fy_ux_peer_failed(struct fy_ux_peer *p, int status, ucs_status_t ucs);
int fy_ux_query_error(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_error *record);
int fy_ux_describe(struct ferry_transport *t, uint32_t channel, uint32_t peer, char *text, size_t size);
/* UCX's reason: what it logged, else the words of its status. */
const char *fy_ux_reason(const struct fy_ux_heard *heard, ucs_status_t ucs);

/* report.c: setup thread */
int fy_ux_report(const struct ferry_core *core, const struct ferry_report *ask);
/* Which lanes UCX chose: "posix/memory, tcp/lo". */
void fy_ux_lanes(ucp_ep_h ep, char *out, size_t size);

/* names.c: setup thread. Is `name` an item of a comma list? */
int fy_ux_listed(const char *list, const char *name, size_t length);
/* Which name UCX has that is near the one that it complains of: 1, and *meant. */
int fy_ux_meant(const char *message, char *meant, size_t size);

#endif
