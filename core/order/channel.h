/* SPDX-License-Identifier: Apache-2.0
 * Channels (contexts): per-peer streams, fence epochs, what is outstanding, and the world they run in.
 * A channel belongs to the thread that uses it, or to the holder of its lock; the world is shared and says how. */
#ifndef FY_ORDER_CHANNEL_H
#define FY_ORDER_CHANNEL_H

#include "../base/clock.h"
#include "../base/log.h"
#include "../base/page.h"
#include "../base/probe.h"
#include "../base/stats.h"
#include "../memory/memory.h"
#include "../route/route.h"
#include <ferry/ferry.h>
#include <pthread.h>
#include <stdatomic.h>

#define fy_likely(x) __builtin_expect(!!(x), 1)
#define fy_unlikely(x) __builtin_expect(!!(x), 0)

#define FY_MAX_TRANSPORTS 32u

/* Kinds of operations that a fence, or a quiet, has to think of: struct fy_flow.did holds three sets of them. */
#define FY_DID_PUT 1u
#define FY_DID_AMO 2u
#define FY_DID_GET 4u    /* no fence orders it; quiet completes it */
#define FY_DID_MAIL 8u   /* requests to the mailbox: done once replied to */
#define FY_DID_REQUEST 32u /* their puts: replied to, but not yet covered by a ticket */
#define FY_DID_FAR 16u   /* atomics by another transport than that of the puts */
#define FY_DID_SINCE 0u  /* shift: posted after the last fence */
#define FY_DID_OUT 8u    /* shift: posted after the last quiet, so perhaps not complete */
#define FY_DID_BEFORE 16u /* shift: posted before the last fence, and no border was set behind them yet */
#define FY_DID_SET(shift) (0xffu << (shift))
/* What posting an operation of a kind adds. */
#define FY_DID(kind) ((kind) << FY_DID_SINCE | (kind) << FY_DID_OUT)
#define FY_DID_OWN (FY_DID_PUT | FY_DID_AMO | FY_DID_GET | FY_DID_REQUEST) /* by the flow's own lane */
/* Wherever it stands, complete or not, as far as a border is concerned. */
#define FY_DID_ANY(kind) ((kind) << FY_DID_SINCE | (kind) << FY_DID_BEFORE)

/* What the order layer knows of a transport, derived once from its capabilities. */
struct fy_lane {
    struct ferry_transport *handle;
    const struct ferry_host_ops *ops;
    const struct ferry_caps *caps; /* &promised */
    struct ferry_caps promised;    /* what holds for every kind of memory that it moves */
    /* FY_DID_ bits of earlier operations after which the transport itself does not order a put / an atomic; in the
     * BEFORE place, and for `strong` signals in the SINCE place too */
    uint32_t unordered_put, unordered_amo;
    uint32_t strong_put, strong_amo;
    /* the same for a request to the mailbox, which is a put as far as the transport can tell, and is read in order */
    uint32_t unordered_request, strong_request;
    uint32_t index;
    size_t simple_max;   /* puts up to this need neither cutting nor a region for the local side, */
    uint32_t quick_kinds; /* of amo64, where put_signal is native and strong; else 0 */
    uint32_t quick_put, quick_signal; /* FY_DID_ bits that are looked at, see quick.h */
    size_t quick_max;    /* puts up to this may be copied by the transport and need neither cutting, region nor count */
    size_t small_max;    /* if those up to this are copied though nobody asked; 0: where any memory may be a source */
    size_t get_max;      /* the same for gets; 0 where there are none */
    size_t copy_max;
    bool signal_native;  /* put_signal is native, */
    bool signal_strong;  /* and strong */
    bool must_register;  /* no unregistered local memory */
    bool finds_local;    /* local memory may be of a kind to which only its registration leads */
    bool made_fetch;     /* fetching atomics go through fy_amo_made, native or not: the value lands in registered memory */
    bool counted;        /* strong signals are ordered by remote completion data: every put carries some */
};

struct fy_peer {
    _Atomic uint8_t dead;
    _Atomic uint8_t gone; /* it has closed its job: it makes no progress for anybody */
    _Atomic uint8_t left; /* its transport was told that it is dead or gone */
    uint8_t same_host;
    int8_t lane; /* index of the lane that carries operations to it, -1: none */
    int8_t way[2]; /* index of the lane that carries everybody's atomics of 4, 8 bytes to it; FY_WAY_MAIL */
};

/* Everything channels of one PE share. Written during init; afterwards only the atomics change. */
struct fy_world {
    const struct fy_log *log;
    struct fy_errors *errors;
    uint32_t my_pe, n_pes, max_channels;
    struct fy_page page; /* what others see of this PE; memory that is there whether or not it is seen */
    struct fy_heap *heap;
    struct fy_transport *const *transports;
    struct fy_lane lanes[FY_MAX_TRANSPORTS];
    uint32_t n_lanes;
    bool locked;        /* some transport needs progress by the initiator: every channel takes its lock */
    bool target_progress;
    bool serves;        /* fy_world_serve has something to do */
    struct fy_mail *mail; /* NULL: no PE of the job needs it */
    size_t bounce;      /* bytes of registered memory through which a channel's unregistered sources go */
    uint32_t user_channels; /* of max_channels, the application's */
    uint32_t crowded;   /* rounds of a wait that are left out: whoever waits should not spin on a core that another PE needs */
    uint32_t doze;      /* of its struct fy_backoff */
    struct fy_peer *peers;
    uint32_t queue_ops; /* per (channel, peer); 0: no bound of the core's own */
    uint64_t queue_bytes;
    double timeout;

    _Atomic uint32_t aborted;      /* 1 once some PE aborted */
    _Atomic int32_t abort_by, abort_code;
    _Atomic uint32_t deaths;       /* PEs that died */
    _Atomic uint32_t acknowledged; /* of those, how many the application knows of */
    _Atomic int32_t last_dead;
    _Atomic uint32_t pointers_out; /* 1 once ferry_ptr gave a peer's address away */

    uint64_t applied;              /* of fence.h, for the thread sanitizer */
    _Atomic uint64_t attended;     /* grows while threads that wait make progress for the target side themselves */
    pthread_mutex_t serving;       /* who makes progress for the target side; only tried */
    pthread_mutex_t lock;          /* guards channels[] */
    pthread_mutex_t setup;         /* one setup call at a time into a transport; taken after no other lock */
    struct ferry_ctx **channels;   /* by id, NULL: free */
    struct ferry_ctx *waiters;     /* whose failures end waits of the application: the default context */
    /* A request to the peer's control thread, for connect (the job knows how). */
    int (*call)(void *arg, uint32_t pe, const void *request, size_t size, void *reply, size_t capacity, size_t *reply_size,
                struct ferry_error *error);
    /* Tells the peer that its mailbox will get requests from this PE. */
    int (*announce)(void *arg, uint32_t pe, struct ferry_error *error);
    /* The service endpoint of a peer, as it exported it. */
    const void *(*endpoint)(void *arg, uint32_t lane, uint32_t pe, size_t *size);
    void *arg;
};

/* One (channel, peer). Lies in zero pages until the peer is first contacted. */
struct fy_flow {
    uint64_t epoch;          /* the channel's fence epoch at the last operation; 0: never used, not connected */
    const struct fy_lane *lane;
    uint32_t did;            /* FY_DID_ sets */
    uint32_t listed;         /* is in the channel's list */
    uint32_t ops;            /* flow control: posted since the ticket was drawn */
    uint32_t connected;
    uint64_t bytes;
    uint64_t ticket;         /* covers what was posted before `ops` and `bytes`; 0: none is open */
    uint32_t far;            /* lanes, by bit, that are connected besides `lane` */
    uint32_t known;          /* 1: a failure of the transport was reported to a caller */
    size_t quick_max;        /* the lane's, or 0 where the core bounds what is in flight, or before it is connected */
};

struct ferry_ctx {
    /* hot, read by every call: pe >= gate sends a call to the careful path. The gate is n_pes, or 0 when the channel is
     * locked, or once a peer died or the job was aborted. */
    _Atomic uint32_t gate;
    uint32_t id;
    struct fy_world *world;
    struct fy_flow *flows;
    struct fy_heap *heap;
    uint64_t epoch;      /* starts at 1, plus 1 per fence */
    uint32_t n_busy;     /* flows with an OUT bit */
    uint32_t limited;    /* the core bounds what is in flight */
    uint32_t direct;     /* 1: some peer's memory may be reached by direct.h */
    uint32_t stored;     /* 1: stores of direct.h that no quiet has completed */
    /* Of a context that one thread at a time calls, and that has a lock only since others make progress for it: the gate of the
     * short way that takes the latch instead; and the latch. Others take the lock, then the latch, and only try. The calling
     * thread holds either: the lock keeps others out, and there is no second one to call. */
    _Atomic uint32_t latch_gate;
    _Atomic uint32_t latch;

    /* cold */
    pthread_mutex_t lock;
    bool shared;         /* several threads may call, or make progress for it: take the lock */
    bool latched;        /* the second only: latch_gate opens */
    bool internal;       /* not the user's to destroy */
    uint32_t n_listed;
    uint32_t *listed;    /* peers used since the last full quiet */
    uint64_t fence_word;
    void *job;
    struct fy_bounce *bounce; /* made on first use */
    struct fy_loan *loans;    /* sources registered until quiet */
    struct ferry_ring *ring;  /* whose commands it carries out; world.lock */

    /* hot again, and the last: it lies in the page that others see (fy_page_share). Written by every call. */
    struct ferry_counters counters __attribute__((aligned(64)));
};

/* Whom quiet is asked about: a lane that cannot tell peers apart is asked about all. */
static inline uint32_t fy_lane_ask(const struct fy_lane *lane, uint32_t pe)
{
    return lane->caps->flags & FERRY_CAP_QUIET_PEER ? pe : FERRY_PEER_ALL;
}

/* The start of a wait. */
static inline struct fy_backoff fy_wait_start(const struct fy_world *world)
{
    return (struct fy_backoff){.rounds = world->crowded, .doze = world->doze};
}

/* Something moved, so the thread looks closely again. The count towards the next look at the state of the job goes on: a
 * transport in which something moves all the time must not keep the news of a death from it. */
static inline void fy_wait_moved(const struct fy_world *world, struct fy_backoff *backoff)
{
    backoff->rounds = world->crowded ? world->crowded : backoff->rounds % FY_LOOK;
}

/* A wait has found nothing at a look; after a few of them the page tells whom it waits for. doing: constant text. */
#define FY_TELL_AFTER 8u
static inline void fy_wait_tell(struct fy_world *world, struct fy_backoff *backoff, int peer, int channel, const char *doing)
{
    if (backoff->looks <= FY_TELL_AFTER && backoff->looks++ == FY_TELL_AFTER)
        backoff->told = fy_page_wait(&world->page, peer, channel, doing);
}

static inline void fy_wait_over(struct fy_world *world, const struct fy_backoff *backoff)
{
    if (fy_unlikely(backoff->told))
        fy_page_wait_over(&world->page, backoff->told);
}

/* Nothing is outstanding on the channel. */
static inline void fy_channel_idle(struct ferry_ctx *ctx)
{
    const struct ferry_counters *c = &ctx->counters;
    fy_count(&ctx->counters.completed, fy_counted(&c->puts) + fy_counted(&c->gets) + fy_counted(&c->atomics) +
                                           fy_counted(&c->signals) - fy_counted(&c->completed));
}

/* Lanes from the opened transports. */
void fy_world_lanes(struct fy_world *world, struct fy_transport *const *transports, size_t n);
/* Closes or opens the gates of all channels after a death or an abort. Control thread. */
void fy_world_alarm(struct fy_world *world);

/* `internal`: the core's own, or the default context. */
int fy_channel_create(struct fy_world *world, bool shared, bool internal, struct ferry_ctx **ctx, struct ferry_error *error);
/* Quiet, then release. Returns quiet's status; releases in any case. */
int fy_channel_destroy(struct ferry_ctx *ctx);
void fy_channel_lock(struct ferry_ctx *ctx);
void fy_channel_unlock(struct ferry_ctx *ctx);
/* For threads that make progress for others; false: somebody is at it, or nobody else may use it. */
bool fy_channel_try(struct ferry_ctx *ctx);
void fy_channel_leave(struct ferry_ctx *ctx);

/* The short way in of the calling thread; false: the long one. */
static inline bool fy_latch(struct ferry_ctx *ctx, int pe)
{
    return ctx && (uint32_t)pe < atomic_load_explicit(&ctx->latch_gate, memory_order_relaxed) &&
           !atomic_exchange_explicit(&ctx->latch, 1, memory_order_acquire);
}

/* Release: who takes it next sees what was done under it (C11 5.1.2.4). */
static inline void fy_unlatch(struct ferry_ctx *ctx)
{
    atomic_store_explicit(&ctx->latch, 0, memory_order_release);
}

/* Records a failure of the calling thread; returns status. */
int fy_fail(struct fy_world *world, int status, int pe, int channel, int operation, const char *hint, const char *format, ...)
    __attribute__((format(printf, 7, 8)));
/* What a waiting call has to know: FERRY_OK, FERRY_ERR_ABORTED, or FERRY_ERR_PEER (pe >= 0: only if that one is dead; -1: if
 * any is that was not acknowledged; -2: if any is). Records the failure. */
int fy_world_check(struct fy_world *world, int pe, const char *doing);
/* Calls progress on busy channels, where some transport wants it. From waits and the service thread. True:
 * something moved. */
bool fy_world_progress(struct fy_world *world);
/* Serves peers: progress for the target side, requests in the mailbox. From waits and the service thread; nothing if somebody
 * else is at it. True: something moved. */
bool fy_world_serve(struct fy_world *world);
/* The same by a thread that waits, which the service thread then leaves to it. */
void fy_wait_serve(struct fy_world *world, struct fy_backoff *backoff);
/* Is somebody at it at this moment? */
bool fy_world_served(struct fy_world *world);
/* The channel of the mailbox's replies; NULL without a mailbox. */
struct ferry_ctx *fy_mail_ctx(const struct fy_world *world);

/* The careful start of an operation: connects, folds fence epochs. Called when flow->epoch != ctx->epoch. */
int fy_flow_enter(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe);
/* Makes what follows ordered after those of `mask` that precede on the flow: sets FENCED, calls fence, or waits. */
int fy_flow_seal(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe, uint32_t mask, uint32_t *flags);
/* Connects another lane of the flow. */
int fy_flow_far(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe, const struct fy_lane *lane);
/* First outstanding operation of a flow. */
void fy_flow_list(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe);
/* Repeats an operation that answered AGAIN, and turns failures into records. */
int fy_lane_retry(struct ferry_ctx *ctx, const struct fy_lane *lane, const struct ferry_op *op, int rc);
/* Bounds operations and bytes in flight. */
int fy_flow_throttle(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe, size_t bytes);
/* Records what the transport says of a failed (channel, peer); returns rc. */
/* The transport's own words for a failure that is not an operation's, else the status's. */
const char *fy_lane_reason(const struct fy_lane *lane, uint32_t channel, uint32_t pe, int rc, struct ferry_error *detail);
int fy_lane_failed(struct ferry_ctx *ctx, const struct fy_lane *lane, uint32_t pe, int operation, int rc);
/* Failures of operations that were posted on a channel, and that no call would hear of while a thread waits on memory. Makes
 * progress on the channel; `again`: reports those, too, that were reported before. FERRY_OK, or the failure, recorded. Nothing
 * if the channel's own thread may be using it. */
int fy_channel_heard(struct ferry_ctx *ctx, bool again);
/* The same for one lane, after its progress has answered a negative status. The channel's thread, or under its lock. */
int fy_lane_heard(struct ferry_ctx *ctx, const struct fy_lane *lane, bool again);
/* Draws a ticket (*ticket 0) on (channel, pe | FERRY_PEER_ALL) of a lane, or continues one, and waits until it is good. */
int fy_lane_wait(struct ferry_ctx *ctx, const struct fy_lane *lane, uint32_t pe, uint64_t *ticket, const char *doing);

/* The transports let go, once, of what they still hold for a peer that is dead or has closed its job: sources are the
 * application's again, and what asks about all peers gets done. Nothing if it is neither. */
void fy_let_go(struct fy_world *world, uint32_t pe);

/* Completion of the atomics that went by other lanes than the flow's own. */
int fy_far_wait(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe);

/* Everything outstanding (to one peer). The channel's thread, or under its lock. */
int fy_quiet_all(struct ferry_ctx *ctx);
int fy_quiet_pe(struct ferry_ctx *ctx, uint32_t pe);

#endif
