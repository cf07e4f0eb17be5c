/* SPDX-License-Identifier: Apache-2.0
 * What the files of the ibrc plugin share: the instance, its devices, rails, channels and queue pairs.
 * Who may touch a field is said at the field; the functions are grouped by file, with the thread that calls them. */
#ifndef FY_IBRC_IBRC_H
#define FY_IBRC_IBRC_H

#include "../common/common.h"
#include <infiniband/verbs.h>

#include <pthread.h>

#define FY_IB_RAILS  8              /* ports that one PE uses, and devices */
#define FY_IB_BATCH  32             /* requests behind one doorbell */
#define FY_IB_SIGNAL 32             /* at least every so many requests one is signalled */
#define FY_IB_POLL   16             /* completions taken at once */
#define FY_IB_BULK   ((size_t)8192) /* a longer put is signalled: its completion costs little beside it */
#define FY_IB_PIECES 7              /* at most, of an operation that is cut at the borders of chunks */
#define FY_IB_MAGIC  0x46596962u

enum fy_ib_spread { FY_IB_SPREAD_AUTO, FY_IB_SPREAD_NO, FY_IB_SPREAD_YES };

/* The options, checked. Constant after open. */
struct fy_ib_options {
    const char *devices, *map;
    int rails, spread, gid_index, family, pkey_index, sl, traffic_class, mtu, timeout, retry_count, rnr_timer,
        rnr_retry, rd_atomic, hop_limit, flow_label;
    uint32_t depth, inline_size;
    int relaxed, posting;
};

enum fy_ib_posting { FY_IB_POST_AUTO = 0, FY_IB_POST_WR = 1, FY_IB_POST_LIST = 2 };

/* Constant after open, but for `failed`. */
struct fy_ib_device {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *idle_cq;    /* of queue pairs that only serve: nothing completes there */
    struct ibv_mr *scratch_mr; /* over `scratch` of the instance */
    struct ibv_device_attr attr;
    char name[IBV_SYSFS_NAME_MAX];
    struct ferry_transport *t;
    int watched;
    _Atomic int failed;
};

/* What may change of a port while it is in use. */
struct fy_ib_address {
    union ibv_gid gid;
    uint8_t gid_index;
    uint16_t lid;
    enum ibv_mtu mtu;
};

/* A port in use. Constant after open, but for what fy_ib_address tells: the control thread writes that, under the lock
 * of the instance. */
struct fy_ib_rail {
    uint32_t device; /* index */
    uint8_t port;
    uint8_t gid_index, gid_type, family; /* family 4 or 6; gid_type an enum ibv_gid_type */
    int global;                          /* 1: addressed by GID */
    union ibv_gid gid;
    struct ibv_port_attr attr;
    _Atomic int down; /* an event said so */
};

/* Blob of START and of SERVE's answer. All numbers in host order: a job has one byte order. */
struct fy_ib_hello {
    uint32_t magic, qpn, psn, device;
    uint64_t scratch;
    uint32_t scratch_key;
    uint16_t lid;
    uint8_t rail, one_device, global, gid_type, family, link_layer, mtu, rd_atomic;
    uint8_t gid[16];
};

/* One initiating queue pair, of (channel, peer). Channel thread, but for status and error (lock of the instance). */
struct fy_ib_qp {
    struct ibv_qp *qp;
    struct fy_ib_channel *owner;
    struct ibv_qp_ex *ex;  /* requests go by ibv_wr_...; NULL: by ibv_post_send */
    struct fy_ib_qp *next; /* of the channel's connected ones, or those being connected */
    uint32_t peer, channel;
    uint32_t device, target; /* indices of devices: ours, for lkeys, and the peer's, for rkeys */
    uint32_t room;           /* requests in flight, at most; one slot more is kept for the flush */
    uint32_t inline_max;
    uint32_t mask;                       /* of epoch */
    uint64_t posted, retired, signalled; /* counts of requests */
    uint64_t atomics;                    /* `posted` of the last atomic */
    uint64_t border;  /* a put must not start before this many are retired: atomics before a fenced operation */
    uint32_t *epoch;  /* of each request in flight: the channel's when it was posted */
    uint64_t scratch; /* at the peer, for flushes */
    uint32_t scratch_key;
    uint64_t quick; /* while `posted` is below, a small put needs no look at queues and signalling */
    uint64_t tag;   /* the peer, where wr_id has it */
    uint64_t value; /* of a signal by SET */
    /* Prebuilt, for the short way: a small put alone, and in front of a signal by SET and by ADD. */
    struct ibv_send_wr put, put_set[2], put_add[2];
    struct ibv_sge data, set_data, add_data;
    _Atomic int status;
    struct ferry_error error;
    struct fy_ib_rail *rail;
};

/* wr_id: the count of the request, above it the peer, and in the top bits what it was posted for: an enum
 * ferry_op_kind, or a flush. */
#define FY_IB_FOR(kind) ((uint64_t)(kind) << 61)
#define FY_IB_FLUSH     4
static inline uint32_t fy_ib_id_peer(uint64_t wr_id)
{
    return (uint32_t)(wr_id >> 32) & 0x1fffffff;
}

/* How far small puts may go: to the next request that is to be signalled, and to the end of the queue. */
static inline void fy_ib_window(struct fy_ib_qp *q)
{
    uint64_t every = q->room / 2 < FY_IB_SIGNAL - 1 ? q->room / 2 : FY_IB_SIGNAL - 1;

    q->quick = q->signalled + every;
    if (q->quick > q->retired + q->room)
        q->quick = q->retired + q->room;
}

/* Channel thread; the arrays are made by the setup thread. */
/* A mark for tracers, as the library has (USDT): channel, requests behind this doorbell. */
#ifdef FY_SDT
#include <sys/sdt.h>
#define fy_ib_probe_doorbell(channel, n) DTRACE_PROBE2(ferry, doorbell, channel, n)
#else
#define fy_ib_probe_doorbell(channel, n)
#endif

struct fy_ib_channel {
    struct ferry_transport *t;
    struct ibv_td *td; /* of the channel's own; NULL: the device has none */
    struct ibv_pd *pd; /* parent domain over td; NULL: the device's domain serves */
    struct ibv_cq *cq;
    struct fy_ib_qp **qps;      /* by peer; NULL: not connected */
    struct fy_ib_qp *connected; /* list */
    struct fy_ib_qp *starting;  /* list; setup thread */
    struct fy_ib_qp *parked;    /* list: given up; destroying one needs the channel to itself; setup thread */
    uint32_t id, rail, device;
    uint32_t room;        /* requests that the completion queue has room for, besides those of the short way */
    uint32_t outstanding; /* posted and not retired, over all peers */
    uint32_t epoch;       /* grows with each ticket for all peers */
    union {               /* one look at both */
        struct {
            uint32_t waiting; /* requests of `wr` that wait for the doorbell */
            uint32_t careful; /* as the instance's; setup thread writes */
        };
        uint64_t special;
    };
    struct fy_ib_qp *waiting_for;
    uint32_t dummy_key; /* lkey of `dummy` */
    uint32_t stash_size;
    uint64_t *dummy; /* where values land that nobody fetches */
    char *stash;     /* FY_IB_BATCH × stash_size: inline data behind a late doorbell */
    uint64_t operands[FY_IB_BATCH];
    struct ibv_send_wr wr[FY_IB_BATCH];
    struct ibv_sge sge[FY_IB_BATCH];
    _Atomic int status;                  /* of the first queue pair that failed; any thread */
    uint64_t doorbells, signals, fences; /* counts, for tests and the log at close */
};

/* Channel thread. Queue pairs are only added, at the front, by the setup thread. */
static inline struct fy_ib_qp *fy_ib_connected(const struct fy_ib_channel *c)
{
    return __atomic_load_n(&c->connected, __ATOMIC_ACQUIRE);
}

/* A queue pair that serves a peer's channel. List under the lock of the instance. */
struct fy_ib_passive {
    struct fy_ib_passive *next;
    struct ibv_qp *qp;
    uint32_t peer, channel;
};

/* Memory longer than a device registers at once lies in chunks of a power of two; with a single one the shift leaves 0
 * of any offset. */
#define FY_IB_ONE_CHUNK 63

struct ferry_region {
    struct ferry_region *next; /* setup thread */
    char *address;
    size_t length;
    uint32_t shift, chunks;
    int gpu;                       /* the CPU cannot read it: nothing of it goes inline */
    struct ibv_mr **mr;            /* by chunk, device, and whether with relaxed ordering; NULL: no such registration */
    uint32_t (*lkey)[FY_IB_RAILS]; /* by chunk and device */
};

/* Of one chunk, by device of the peer. */
struct fy_ib_rkeys {
    uint32_t strict[FY_IB_RAILS], bulk[FY_IB_RAILS];
};

struct ferry_rkey {
    struct ferry_rkey *next; /* setup thread */
    uint64_t address;
    uint32_t shift, chunks;
    struct fy_ib_rkeys at[];
};

struct ferry_transport {
    const struct ferry_core *core;
    uint32_t my_pe, n_pes, max_channels;
    struct fy_ib_options options;
    uint32_t n_devices, n_rails;
    char why[128]; /* these rails */
    struct fy_ib_device devices[FY_IB_RAILS];
    struct fy_ib_rail rails[FY_IB_RAILS];
    struct fy_ib_channel **channels; /* by number; setup thread writes */
    struct ferry_region *regions;
    struct ferry_rkey *keys;
    uint64_t *scratch; /* a page: zero-length flushes of peers name it, and unfetched values land in it */
    uint32_t inline_max, depth;
    uint32_t careful; /* setup thread; 1: there are keys or regions of several chunks, or GPU memory */
    uint32_t shift;   /* of chunks of regions, by the device that registers least at once */
    size_t message_max;
    int atomics;
    pthread_mutex_t lock; /* over passive, failure, and the errors of queue pairs; never held while waiting */
    struct fy_ib_passive *passive;
    struct ferry_error failure;
};

/* options.c: setup thread. NULL, or what is wrong. */
extern const struct ferry_option fy_ib_option_rows[];
int fy_ib_options(const struct ferry_core *core, struct fy_ib_options *o, char *why, size_t why_size);

/* device.c: setup thread. */
int fy_ib_devices_open(struct ferry_transport *t, const struct ferry_open *how);
void fy_ib_devices_close(struct ferry_transport *t);
/* 1: the place in the table of partition keys is empty; where it cannot be read, nothing is known against it. Setup or
 * control thread. */
int fy_ib_no_pkey(struct ibv_context *context, uint8_t port, int index);

/* trial.c: setup thread, in open: what devices inline, and whether their atomics can be used */
int fy_ib_try(struct ferry_transport *t);

/* report.c: setup thread */
int fy_ib_report(const struct ferry_core *core, const struct ferry_report *ask);

/* gid.c: setup thread. Fills the GID of a rail, or says why there is none. */
int fy_ib_gid(struct ibv_context *context, struct ibv_pd *pd, const struct fy_ib_options *o, struct fy_ib_rail *rail,
              char *why, size_t why_size);

/* event.c: setup thread; the handler: control thread. */
int fy_ib_events_start(struct ferry_transport *t);
void fy_ib_events_stop(struct ferry_transport *t);
/* Any thread. */
struct fy_ib_address fy_ib_address(struct ferry_transport *t, const struct fy_ib_rail *rail);

/* memory.c: setup thread */
int fy_ib_register(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region);
int fy_ib_deregister(struct ferry_transport *t, struct ferry_region *region);
void fy_ib_memory_close(struct ferry_transport *t);
/* ibv_reg_dmabuf_mr, which libibverbs has since 34; NULL where it is older. Any thread. */
typedef struct ibv_mr *fy_ib_reg_dmabuf_fn(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                                           int access);
fy_ib_reg_dmabuf_fn *fy_ib_reg_dmabuf(void);
/* What to do about ENOMEM, with the limit's value. Writes into hint, and gives it back. */
const char *fy_ib_memlock_hint(char *hint, size_t size);
/* The shift of chunks, from what the devices in use register at once. */
void fy_ib_chunks(struct ferry_transport *t);

/* key.c: setup thread */
int fy_ib_export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size);
int fy_ib_import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key);
int fy_ib_release_key(struct ferry_transport *t, struct ferry_rkey *key);
void fy_ib_keys_close(struct ferry_transport *t);

/* channel.c: setup thread */
int fy_ib_open_channel(struct ferry_transport *t, uint32_t channel);
int fy_ib_close_channel(struct ferry_transport *t, uint32_t channel);
void fy_ib_channels_close(struct ferry_transport *t);
/* From now on each operation looks at where its memory lies. What makes it necessary reaches a channel only after it.
 */
void fy_ib_be_careful(struct ferry_transport *t);

/* connect.c: setup thread; SERVE: control thread */
int fy_ib_export_endpoint(struct ferry_transport *t, void *blob, size_t *size);
int fy_ib_reach(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, char *why, size_t why_size);
int fy_ib_connect(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_connect *io);
/* What the other end of a queue pair has to know. */
void fy_ib_greet(struct ferry_transport *t, uint32_t rail, const struct ibv_qp *qp, uint32_t psn,
                 struct fy_ib_hello *h);
int fy_ib_disconnect(struct ferry_transport *t, uint32_t peer);
void fy_ib_passive_close(struct ferry_transport *t);

/* qp.c: setup and control thread. Steps of one queue pair; failures are described. */
struct fy_ib_made {
    struct ibv_qp *qp;
    struct ibv_qp_ex *ex; /* NULL: made without ibv_wr_... */
    uint32_t inline_max;
};
int fy_ib_qp_make(struct ferry_transport *t, struct fy_ib_rail *rail, struct ibv_pd *pd, struct ibv_cq *cq,
                  struct fy_ib_made *made);
struct ibv_qp *fy_ib_qp_make_serving(struct ferry_transport *t, struct fy_ib_rail *rail);
int fy_ib_qp_init(struct ferry_transport *t, struct fy_ib_rail *rail, struct ibv_qp *qp);
int fy_ib_qp_ready(struct ferry_transport *t, struct fy_ib_rail *rail, struct ibv_qp *qp,
                   const struct fy_ib_hello *peer, uint32_t channel);
int fy_ib_qp_send(struct ferry_transport *t, struct ibv_qp *qp, uint32_t psn, uint32_t rd_atomic);

/* quick.c: channel thread */
int fy_ib_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int fy_ib_put_signal(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);

/* post.c: channel thread */
int fy_ib_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int fy_ib_rma_slow(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op);
int fy_ib_put_signal_slow(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op);
int fy_ib_post_failed(struct fy_ib_qp *q, const struct ibv_send_wr *bad, uint32_t n, int error);
/* wr.c: channel thread. The same requests as ibv_post_send takes, by ibv_wr_...: 0 or an errno, and then none was
 * taken. */
int fy_ib_wr_list(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr);
/* Rings the doorbell for what waits. FERRY_OK or the error of the queue pair. */
int fy_ib_ring(struct fy_ib_channel *c);
/* Makes the last request of a queue pair report: posts a signalled write of nothing if it would not. */
int fy_ib_flush(struct fy_ib_channel *c, struct fy_ib_qp *q);

/* poll.c: channel thread */
int fy_ib_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket);
int fy_ib_progress(struct ferry_transport *t, uint32_t channel);
/* Takes what has completed: number of completions. */
int fy_ib_poll(struct ferry_transport *t, struct fy_ib_channel *c);

/* error.c: any thread. fy_ib_fail notes a failure that belongs to a call and returns `status`; error: errno or 0. */
int fy_ib_fail(struct ferry_transport *t, int64_t peer, int status, int error, const char *hint, const char *format,
               ...) __attribute__((format(printf, 6, 7)));
int fy_ib_query_error(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_error *record);
int fy_ib_describe(struct ferry_transport *t, uint32_t channel, uint32_t peer, char *text, size_t size);
/* The first bad completion of a queue pair; later ones are silent. */
void fy_ib_completion_error(struct ferry_transport *t, struct fy_ib_qp *q, const struct ibv_wc *wc);
void fy_ib_qp_error(struct ferry_transport *t, struct fy_ib_qp *q, int status, int64_t library, const char *what,
                    const char *hint);
/* The same for all initiating queue pairs that an event concerns: how many these are, and the record of the first. */
uint32_t fy_ib_lost(struct ferry_transport *t, int (*concerns)(const struct fy_ib_qp *q, const void *arg),
                    const void *arg, int status, const char *what, const char *hint, struct ferry_error *first);

#endif
