/* SPDX-License-Identifier: Apache-2.0
 * The transport ABI: all that a plugin includes of Ferry, and the specification it is written to.
 * The core calls; each declaration says from which thread. Start at struct ferry_plugin, at the end. */
#ifndef FERRY_TRANSPORT_H
#define FERRY_TRANSPORT_H

#include <ferry/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version. A major is refused unless equal; within a major, structs only grow at their end, and every struct
 * that crosses the border starts with its size (or is passed beside one), so an older plugin works under a
 * newer core and the reverse. Read `size` before you read a member that a later minor added. */
#define FERRY_TRANSPORT_ABI_MAJOR 1u
#define FERRY_TRANSPORT_ABI_MINOR 2u
#define FERRY_TRANSPORT_ABI ((FERRY_TRANSPORT_ABI_MAJOR << 16) | FERRY_TRANSPORT_ABI_MINOR)

/* Threads. Three kinds call a plugin:
 *   setup    the thread in init, finalize, a collective allocation, or the first operation to a peer;
 *            one at a time for a transport, but beside the other kinds.
 *   channel  whichever thread uses a channel now. The core serialises the calls on one channel; different
 *            channels are called at once. No lock is needed for what belongs to a channel.
 *   control  the core's control thread: functions given to watch_fd, and connect's SERVE phase.
 * Nothing on a channel may block, sleep, or wait for a peer. */

/* Types that each plugin defines for itself. The core never looks inside. */
struct ferry_transport; /* one opened instance */
struct ferry_region;    /* memory of this PE, registered with an instance */
struct ferry_rkey;      /* memory of a peer, imported into an instance */

/* ------------------------------------------------------------------ options */

enum ferry_option_type {
    FERRY_OPTION_BOOL = 0,   /* 0|1|no|yes|off|on|false|true             -> number */
    FERRY_OPTION_INT = 1,    /* decimal or 0x…, negative allowed         -> number */
    FERRY_OPTION_SIZE = 2,   /* bytes, suffix K M G T P E (1024)         -> number, never negative */
    FERRY_OPTION_SECONDS = 3,/* decimal seconds, suffix ms or s          -> seconds */
    FERRY_OPTION_STRING = 4, /* taken as it is                           -> string */
    FERRY_OPTION_CHOICE = 5, /* one of `choices`                         -> string, and its index in number */
    FERRY_OPTION_SET = 6     /* comma list out of `choices`; NAME=NUMBER where the choice is written NAME=
                                -> string as given */
};

/* One row per option. Row x_y of plugin p is read from FERRY_P_X_Y. The same rows parse, check and document.
 * A table ends with a row whose name is NULL; it is static and constant. */
struct ferry_option {
    const char *name;         /* lower case, a-z 0-9 _ */
    uint32_t type;            /* enum ferry_option_type */
    uint32_t reserved;        /* 0 */
    const char *initial;      /* default, in the form a user writes */
    const char *choices;      /* CHOICE, SET: accepted names, separated by '|'; else NULL */
    const char *doc;          /* one sentence, with the unit */
};

struct ferry_value {
    int64_t number;
    double seconds;
    const char *string; /* lives as long as the transport; NULL unless STRING, CHOICE, SET */
};

/* ------------------------------------------------------------------ what the core offers a plugin */

enum ferry_log_level {
    FERRY_LOG_ERROR = 0,
    FERRY_LOG_WARN = 1,
    FERRY_LOG_INFO = 2,
    FERRY_LOG_DEBUG = 3,
    FERRY_LOG_TRACE = 4
};

struct ferry_gpu;
struct ferry_core;
struct ferry_gpu_queue; /* copies, carried out in order by the engines of the GPU that this PE works with */

/* What a plugin does with GPU memory, since minor 2: its addresses are not the CPU's to touch. The functions belong to the threads
 * of the calls that they are used in. A negative status is described by `why`. */
struct ferry_gpu_ops {
    uint32_t size; /* sizeof(struct ferry_gpu_ops) of the core */
    uint32_t reserved;
    /* A queue belongs to one channel. close waits for its copies. */
    int (*open_queue)(const struct ferry_core *core, struct ferry_gpu_queue **queue);
    void (*close_queue)(const struct ferry_core *core, struct ferry_gpu_queue *queue);
    /* Starts a copy, host or GPU memory at either end. OK; AGAIN: many are under way. The call lasts until host memory that is not
     * pinned has been read, or written. */
    int (*copy)(const struct ferry_core *core, struct ferry_gpu_queue *queue, void *to, const void *from, size_t length);
    /* As quiet of struct ferry_host_ops, of all copies of the queue. */
    int (*copied)(const struct ferry_core *core, struct ferry_gpu_queue *queue, uint64_t *ticket);
    /* Maps a peer's memory by the descriptor that its ferry_memory had; the descriptor stays the caller's. Setup thread. */
    int (*import_fd)(const struct ferry_core *core, int fd, size_t length, void **address);
    void (*unmap)(const struct ferry_core *core, void *address, size_t length);
    /* Lets this PE's GPU reach memory that another PE of this process has. Setup thread. */
    int (*share)(const struct ferry_core *core, void *address, size_t length);
    /* The latest failure, in words. Any thread. */
    void (*why)(const struct ferry_core *core, char *text, size_t size);
};

/* Services. Handed to probe and open; valid until close returns. Any thread may call them unless said. */
struct ferry_core {
    uint32_t abi;  /* FERRY_TRANSPORT_ABI of the core */
    uint32_t size; /* sizeof(struct ferry_core) of the core */
    /* Writes one line, lower case, without newline. Log an error once, where it is decided. */
    void (*log)(const struct ferry_core *core, int level, const char *format, ...)
#if defined(__GNUC__)
        __attribute__((format(printf, 3, 4)))
#endif
        ;
    /* Value of one of the plugin's own rows; FERRY_ERR_NOT_FOUND for a name that has no row. Values were
     * checked before probe was called. */
    int (*option)(const struct ferry_core *core, const char *name, struct ferry_value *value);
    /* Has the control thread call fn(arg) whenever fd is readable, until unwatch_fd. After unwatch_fd has
     * returned, fn is not running and will not run. Not callable from fn itself, nor from probe. */
    int (*watch_fd)(const struct ferry_core *core, int fd, void (*fn)(void *arg), void *arg);
    void (*unwatch_fd)(const struct ferry_core *core, int fd);
    /* Reports a failure that belongs to no call (port down, device lost). The record is copied. */
    void (*error)(const struct ferry_core *core, const struct ferry_error *record);
    /* Remote completion data that arrived at this PE (see FERRY_OP_DATA). Only from within progress(SERVICE). */
    void (*deliver)(const struct ferry_core *core, uint32_t from_pe, uint64_t data);
    const struct ferry_gpu *gpu; /* NULL; its place is kept */
    /* -- since minor 2 */
    const struct ferry_gpu_ops *gpu_ops; /* NULL: this job has no GPU memory of the core's making */
};

/* ------------------------------------------------------------------ probing and opening */

/* Filled by probe. Probing must not keep anything open and must not log above DEBUG: the core prints reasons. */
struct ferry_probe {
    uint32_t size;
    int32_t score;     /* `auto` takes the highest; 1..100, loopback has 10, a fast NIC 50 and more */
    uint32_t devices;  /* number of usable devices */
    uint32_t reserved;
    char detail[256];  /* devices found, or why there are none and what to install or load */
};

#define FERRY_SECRET_BYTES 32

/* Where a PE of this host runs. In arrays, `size` is also the distance from one to the next. */
struct ferry_place {
    uint32_t size;
    uint32_t pe;
    uint64_t nodes; /* bit n: NUMA node n has cores that its thread in init may use; 0: not known */
    char gpu[16];   /* PCI address of the GPU that it works with, as 0000:3b:00.0; empty: none, or not known */
};

struct ferry_open {
    uint32_t size;
    uint32_t my_pe;
    uint32_t n_pes;
    uint32_t max_channels;                     /* channel numbers are below this */
    uint64_t job_id;                           /* the same on every PE of the job, differs between jobs */
    uint8_t secret[FERRY_SECRET_BYTES];        /* the same on every PE of the job, unknown to others */
    struct ferry_transport *inner;             /* a hook: what it wraps; its close closes it, a failed open does not */
    const struct ferry_host_ops *inner_ops;    /* complete table of `inner` */
    const struct ferry_place *places;          /* of all PEs of this host, by number; valid during open; NULL: not known */
    uint32_t n_places;
    uint32_t my_place;                         /* index of this PE's */
};

/* ------------------------------------------------------------------ capabilities */

enum ferry_amo {
    FERRY_AMO_SET = 0,
    FERRY_AMO_ADD = 1,
    FERRY_AMO_AND = 2,
    FERRY_AMO_OR = 3,
    FERRY_AMO_XOR = 4,
    FERRY_AMO_SWAP = 5,  /* fetching by nature */
    FERRY_AMO_CSWAP = 6, /* fetching by nature */
    FERRY_AMO_FETCH = 7, /* fetching by nature */
    FERRY_AMO_KINDS = 8
};
#define FERRY_AMO_BIT(kind) (1u << (kind))         /* without a fetched value */
#define FERRY_AMO_FETCH_BIT(kind) (1u << ((kind) + 16)) /* with it */

/* flags of struct ferry_caps */
#define FERRY_CAP_GET (1u << 0)               /* rma takes FERRY_OP_GET */
#define FERRY_CAP_PUT_SIGNAL (1u << 1)        /* put_signal is native, and as strong as SIGNAL_STRONG says */
#define FERRY_CAP_SIGNAL_STRONG (1u << 2)     /* a native signal covers every earlier put on (channel, peer) */
#define FERRY_CAP_FENCED (1u << 3)            /* takes FERRY_OP_FENCED */
#define FERRY_CAP_FENCE_CALL (1u << 4)        /* wants host_ops.fence to be called instead */
#define FERRY_CAP_MORE (1u << 5)              /* makes use of FERRY_OP_MORE */
#define FERRY_CAP_UNREGISTERED_LOCAL (1u << 6)/* op.region may be NULL */
#define FERRY_CAP_QUIET_PEER (1u << 7)        /* quiet can tell one peer from another; else peer is widened to ALL */
#define FERRY_CAP_TARGET_PROGRESS (1u << 8)   /* the target must call progress(SERVICE): the core runs a thread */
#define FERRY_CAP_REMOTE_DATA (1u << 9)       /* takes FERRY_OP_DATA: puts carry 32 bits that the target gets through
                                                 deliver(), from its progress(SERVICE); implies TARGET_PROGRESS */
#define FERRY_CAP_MUST_ALLOCATE (1u << 10)    /* remote memory must come from allocate_memory */
#define FERRY_CAP_MAP (1u << 11)              /* map_key works for some peers */
#define FERRY_CAP_INITIATOR_PROGRESS (1u << 12) /* posted operations move only inside calls on their channel: the core then
                                                 locks every channel, and calls progress on busy ones from its waits
                                                 and from the service thread */
#define FERRY_CAP_DIRECT (1u << 13) /* where map_key gives an address, the core may itself do small puts, gets and 8-byte atomics
                                     there, by ordinary loads, stores and CPU atomics, instead of calling the data
                                     operations; they are as ordered as the transport's own, and a full CPU fence
                                     completes them. Only with ORDER_ALL and domain CPU */

/* order: what one (channel, peer) keeps without any flag. Bit set: the second is not visible before the first.
 * In libfabric's words: PUT_PUT is RMA_WAW, AMO_AMO is ATOMIC_WAW, the mixed ones need the plain WAW. */
#define FERRY_ORDER_PUT_PUT (1u << 0)
#define FERRY_ORDER_PUT_AMO (1u << 1)
#define FERRY_ORDER_AMO_PUT (1u << 2)
#define FERRY_ORDER_AMO_AMO (1u << 3)
#define FERRY_ORDER_ALL 15u

/* Who may update a word together: operations of one domain are atomic towards each other, of two are not. */
enum ferry_domain { FERRY_DOMAIN_NONE = 0, FERRY_DOMAIN_CPU = 1, FERRY_DOMAIN_NIC = 2, FERRY_DOMAIN_GPU = 3 };

/* What an opened instance can do with memory of one kind, at either end. All limits are inclusive. */
struct ferry_caps {
    uint32_t size;
    uint32_t flags;        /* FERRY_CAP_… */
    uint32_t order;        /* FERRY_ORDER_… */
    uint32_t domain;       /* enum ferry_domain of its native atomics */
    uint32_t amo32;        /* FERRY_AMO_BIT | FERRY_AMO_FETCH_BIT of 4-byte atomics */
    uint32_t amo64;        /* the same of 8-byte atomics */
    size_t copy_max;       /* largest FERRY_OP_COPY put; 0: none; SIZE_MAX: any */
    size_t inline_max;     /* largest put for which copying is free; for tests around the threshold */
    size_t message_max;    /* largest op.length; the core cuts longer ones */
    uint32_t queue_depth;  /* operations in flight per (channel, peer) before AGAIN; 0: no limit */
    uint32_t max_channels; /* 0: no limit */
};

/* ------------------------------------------------------------------ memory */

/* A piece of memory to register. */
struct ferry_memory {
    uint32_t size;
    uint32_t kind;   /* enum ferry_memory_kind */
    void *address;
    size_t length;
    int32_t fd;      /* file that backs it and can be mapped by others (memfd; of GPU memory, import_fd), or -1. Not yours: dup to
                        keep it */
    uint32_t remote; /* 1: peers will access it (export_key follows); 0: only a local source or destination */
    uint64_t fd_offset;
    /* Of GPU memory; look at `size` first. */
    uint32_t has_dmabuf;    /* 1: dmabuf names a dma-buf that covers the memory. Not yours: dup to keep it */
    int32_t dmabuf;
    uint64_t dmabuf_offset; /* of `address` in it */
};

#define FERRY_KEY_MAX 256      /* bytes of an exported key */
#define FERRY_ENDPOINT_MAX 512 /* bytes of an exported endpoint, and of each connect message */

/* ------------------------------------------------------------------ wiring */

enum ferry_connect_phase {
    FERRY_CONNECT_START = 0,  /* initiator: in = the peer's endpoint; out = request, empty: connected already */
    FERRY_CONNECT_SERVE = 1,  /* target, control thread: in = request; out = reply; `channel` is the initiator's */
    FERRY_CONNECT_FINISH = 2  /* initiator: in = reply */
};

struct ferry_connect {
    uint32_t size;
    uint32_t phase;
    const void *in;
    size_t in_size;
    void *out;           /* FERRY_ENDPOINT_MAX bytes */
    size_t out_size;     /* set by the plugin */
};

/* ------------------------------------------------------------------ operations */

enum ferry_op_kind { FERRY_OP_PUT = 0, FERRY_OP_GET = 1, FERRY_OP_AMO = 2, FERRY_OP_PUT_SIGNAL = 3 };

/* flags of struct ferry_op */
#define FERRY_OP_MORE (1u << 0)   /* hint: another operation on this channel follows at once. The doorbell may wait for
                                     it, but is rung by the next operation without MORE, progress, fence, quiet, and
                                     before AGAIN is returned */
#define FERRY_OP_FENCED (1u << 1) /* a border: neither this operation nor any posted later on this (channel, peer) is visible
                                     before any posted earlier; only with CAP_FENCED */
#define FERRY_OP_COPY (1u << 2)   /* put: the source is free when the call returns; length <= copy_max */
#define FERRY_OP_FETCH (1u << 3)  /* AMO: the old value goes to `local` */
#define FERRY_OP_WORD (1u << 4)   /* put of aligned 8-byte words (offset and length are multiples of 8): the target sees each
                                     of them as a whole, in whatever order; every transport keeps it */
#define FERRY_OP_WEAK (1u << 5)   /* PUT_SIGNAL: covering its own data is enough */
#define FERRY_OP_DATA (1u << 6)   /* put: once all its bytes are in place at the target, and not before, deliver() is called
                                     there with remote_data, exactly once; only with CAP_REMOTE_DATA */

#define FERRY_PEER_ALL UINT32_MAX
#define FERRY_CHANNEL_SERVICE UINT32_MAX

/* One operation. The core has checked peer, key, offset and length against the segment; a plugin need not.
 * `local` belongs to the transport until a quiet ticket covers the operation, unless COPY was set (put) or
 * FERRY_DONE returned. A fetched value is in place when a quiet ticket covers it, or FERRY_DONE returned.
 * Members that a kind does not name have undefined contents. */
struct ferry_op {
    uint8_t kind;   /* enum ferry_op_kind */
    uint8_t amo;    /* enum ferry_amo; PUT_SIGNAL: SET or ADD */
    uint8_t width;  /* AMO: 4 or 8; PUT_SIGNAL: 8 */
    uint8_t reserved;
    uint32_t flags; /* FERRY_OP_… */
    uint32_t peer;
    uint32_t remote_data;          /* with FERRY_OP_DATA */
    void *local;                   /* source (read only), destination of a get, place of the fetched value */
    struct ferry_region *region;   /* registration that covers `local`; NULL only with CAP_UNREGISTERED_LOCAL,
                                      COPY, or no local memory */
    const struct ferry_rkey *key;  /* target memory: data of PUT, GET, PUT_SIGNAL; the word of AMO */
    uint64_t offset;               /* in bytes, within what the key covers */
    size_t length;                 /* in bytes; may be 0 for PUT, GET, PUT_SIGNAL; = width for AMO */
    uint64_t operand;              /* AMO: value; PUT_SIGNAL: signal value. 4-byte atomics: low half */
    uint64_t compare;              /* CSWAP */
    const struct ferry_rkey *signal_key; /* PUT_SIGNAL: memory of the signal word */
    uint64_t signal_offset;              /* multiple of 8 */
};

/* Every function returns an enum ferry_status; a negative one is also described by query_error.
 * NULL members are filled with defaults that answer FERRY_ERR_UNSUPPORTED (or do nothing, where said), so the
 * data path tests no pointer. Required: export_endpoint, register_memory, deregister_memory, export_key, import_key,
 * release_key, query, rma (put), quiet, progress, close. */
struct ferry_host_ops {
    uint32_t size; /* sizeof(struct ferry_host_ops) of the plugin */
    uint32_t reserved;

    /* -- wiring (setup thread, except SERVE) */
    /* Writes the address of the service endpoint, at most FERRY_ENDPOINT_MAX bytes. Called once, after open. */
    int (*export_endpoint)(struct ferry_transport *t, void *blob, size_t *size);
    /* Can this instance reach the PE with that endpoint? OK, or FERRY_ERR_UNREACHABLE with the reason in `why`.
     * Default: OK. */
    int (*reach)(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, char *why, size_t why_size);
    /* A channel comes into use, or goes out of use (all its operations are complete). Default: nothing to do. */
    int (*open_channel)(struct ferry_transport *t, uint32_t channel);
    int (*close_channel)(struct ferry_transport *t, uint32_t channel);
    /* Prepares (channel, peer), before its first operation. START and FINISH may return AGAIN to be called again.
     * The core carries request and reply; the peer may be computing meanwhile. Default: connected. */
    int (*connect)(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_connect *io);
    /* The peer is dead or leaves: release what (all channels, peer) holds; operations in flight fail. Default: nothing. */
    int (*disconnect)(struct ferry_transport *t, uint32_t peer);

    /* -- memory (setup thread) */
    /* With CAP_MUST_ALLOCATE: memory at `memory->address` (a hint, NULL: anywhere), filled in and registered. */
    int (*allocate_memory)(struct ferry_transport *t, struct ferry_memory *memory, struct ferry_region **region);
    int (*free_memory)(struct ferry_transport *t, struct ferry_region *region);
    int (*register_memory)(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region);
    int (*deregister_memory)(struct ferry_transport *t, struct ferry_region *region);
    /* Writes a key that a peer can import, at most FERRY_KEY_MAX bytes. */
    int (*export_key)(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size);
    /* AGAIN: called again with the same arguments. The key counts from the start of the region. */
    int (*import_key)(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key);
    int (*release_key)(struct ferry_transport *t, struct ferry_rkey *key);
    /* Address at which this process can load and store the peer's memory, if there is one; of GPU memory, kernels of its GPU. */
    int (*map_key)(struct ferry_transport *t, const struct ferry_rkey *key, void **address);

    /* -- data (channel thread; never block; OK, DONE, AGAIN or an error) */
    int (*rma)(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);        /* PUT, GET */
    int (*amo)(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);        /* AMO */
    int (*put_signal)(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op); /* PUT_SIGNAL */
    /* A batch, in order. *done operations were accepted; OK only if all were. Where it is NULL the core posts one by one
     * with the three above; a hook whose inner post answers FERRY_ERR_UNSUPPORTED does the same. */
    int (*post)(struct ferry_transport *t, uint32_t channel, const struct ferry_op *ops, size_t n, size_t *done);
    /* Only with CAP_FENCE_CALL: what is posted later on (channel, peer) is not visible before what was posted before. */
    int (*fence)(struct ferry_transport *t, uint32_t channel, uint32_t peer);
    /* *ticket 0: draws a ticket that covers everything posted on (channel, peer | FERRY_PEER_ALL) so far, and starts.
     * Otherwise continues. OK: all that the ticket covers is complete and visible at its target to every observer,
     * fetched values and got data are in place. AGAIN: not yet. Later operations do not delay a ticket. */
    int (*quiet)(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket);
    /* Moves things along. Channel thread; FERRY_CHANNEL_SERVICE: the core's service thread, with CAP_TARGET_PROGRESS.
     * OK: something happened, or is about to. AGAIN: nothing did, the caller may rest. A negative status: nothing did,
     * and an operation on the channel has failed, now or earlier; the core asks query_error of which peer: so a thread that
     * waits on memory hears of it. */
    int (*progress)(struct ferry_transport *t, uint32_t channel);

    /* -- life (setup thread) */
    /* Fills caps for a kind of memory (caps->size is set by the core: write no further); FERRY_ERR_UNSUPPORTED: none. */
    int (*query)(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps);
    /* Describes the first failure of (channel, peer); record->size is set. Any thread. Default: a record without detail. */
    int (*query_error)(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_error *record);
    /* Releases everything, also with operations outstanding. No other call follows. */
    int (*close)(struct ferry_transport *t);

    /* -- since minor 1 */
    /* Says in words how (channel, peer) stands, for the report on a job that hangs: state of the connection, what is posted, what
     * of it is complete; at most `size` bytes with the zero behind it, an empty text if there is nothing to say. Any thread, also
     * while the channel's own uses it: numbers may be a moment old. It waits for nothing and calls nothing of the core.
     * Default: an empty text. */
    int (*describe)(struct ferry_transport *t, uint32_t channel, uint32_t peer, char *text, size_t size);
};

/* ------------------------------------------------------------------ reports */

enum ferry_report_kind {
    FERRY_REPORT_HEALTH = 0, /* what works here, what does not, and what to do about it: ferry-info --doctor */
    FERRY_REPORT_PLAN = 1    /* which devices the PEs at `places` would use, and why: ferry-info --explain */
};

enum ferry_finding_level {
    FERRY_FINDING_OK = 0,
    FERRY_FINDING_WARNING = 1, /* works, but not as well as it could, or not for everything */
    FERRY_FINDING_PROBLEM = 2  /* the transport cannot be used here */
};

/* Strings are the caller's until `tell` returns. */
struct ferry_finding {
    uint32_t size;
    uint32_t level;     /* enum ferry_finding_level */
    const char *object; /* what was looked at: a device, a port, a file, "pe 3" */
    const char *text;   /* what was found; a plan: the devices */
    const char *advice; /* what to do, empty if nothing; a plan: why */
};

struct ferry_report {
    uint32_t size;
    uint32_t kind;                    /* enum ferry_report_kind */
    const struct ferry_place *places; /* of the PEs of one host; a plan is made for all of them */
    uint32_t n_places;
    uint32_t n_channels; /* that each PE would open */
    void (*tell)(void *arg, const struct ferry_finding *finding);
    void *arg;
};

/* The one symbol that a plugin exports: `const struct ferry_plugin ferry_plugin_v1`. The digit is the ABI major.
 * Nothing in it is called before abi was compared. */
struct ferry_plugin {
    uint32_t abi;  /* FERRY_TRANSPORT_ABI */
    uint32_t size; /* sizeof(struct ferry_plugin) */
    const char *name;    /* as in FERRY_TRANSPORT and the file name: NAME.so; a-z 0-9 _ - */
    const char *summary; /* one line */
    const char *version; /* the plugin's own */
    const struct ferry_option *options; /* rows, or NULL */
    const struct ferry_host_ops *ops;
    /* Looks whether an instance could be opened here. OK, or with probe->detail saying why not FERRY_ERR_DEVICE, or, for
     * an option's value that cannot be, FERRY_ERR_CONFIG. NULL: always usable, score 1. */
    int (*probe)(const struct ferry_core *core, struct ferry_probe *probe);
    /* Makes an instance. On failure describe it: core->error with a record, then return its status. */
    int (*open)(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **t);
    uint32_t kind;     /* 0: a transport, 1: a hook (wraps ferry_open.inner) */
    uint32_t reserved; /* 0 */
    /* Tells what can be found out without an instance, also where probe says no, by calls of ask->tell before it returns.
     * Setup thread; under the rules of probe: it keeps nothing open. OK, or FERRY_ERR_UNSUPPORTED for a kind that it does
     * not know. NULL, or a size that ends before: nothing to tell. */
    int (*report)(const struct ferry_core *core, const struct ferry_report *ask);
};

#define FERRY_PLUGIN_SYMBOL "ferry_plugin_v1"
#if defined(__GNUC__)
#define FERRY_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define FERRY_PLUGIN_EXPORT
#endif
extern FERRY_PLUGIN_EXPORT const struct ferry_plugin ferry_plugin_v1;

#ifdef __cplusplus
}
#endif
#endif
