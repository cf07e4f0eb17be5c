/* SPDX-License-Identifier: Apache-2.0
 * The mailbox: requests that the target's CPU carries out, for what a transport cannot do itself. docs/semantics.md has the
 * protocol. Requests are sent by the channel's thread, or under its lock; they are served by whoever holds world->serving. */
#ifndef FY_ORDER_MAIL_H
#define FY_ORDER_MAIL_H

#include "post.h"

#define FY_MAIL_SLOTS 16u   /* requests in flight between two PEs; a slot of the ring is a slot for the reply, too */
#define FY_MAIL_WORDS 8u    /* of a request; a reply has two */
#define FY_MAIL_PIECE 4096u /* most bytes that a get brings at once to memory that is not symmetric */

enum fy_mail_kind { FY_MAIL_AMO = 1, FY_MAIL_GET = 2 };

/* A request, unpacked. */
struct fy_mail_request {
    uint8_t kind;   /* enum fy_mail_kind */
    uint8_t amo;    /* enum ferry_amo */
    uint8_t width;  /* of the word: 4 or 8 */
    bool covered;   /* to be carried out only once `cover` puts of the channel's epoch have arrived, and all before it */
    uint8_t epoch;
    uint32_t channel;
    uint32_t cover;
    uint32_t segment, to_segment; /* of the target; of the initiator (GET) */
    uint64_t offset, to_offset;
    uint64_t operand, compare;
    uint64_t length; /* GET */
};

/* mail_record.c: requests and replies as words, each with a lap bit on top, because the words of a put may arrive in any order.
 * Pure functions. `lap` is that of the slot's current use: fy_mail_lap. */
static inline uint64_t fy_mail_lap(uint64_t number)
{
    return (number / FY_MAIL_SLOTS + 1) & 1;
}
void fy_mail_pack(const struct fy_mail_request *request, uint64_t lap, uint64_t words[FY_MAIL_WORDS]);
/* False: not there yet, in whole. */
bool fy_mail_unpack(const uint64_t *words, uint64_t lap, struct fy_mail_request *request);
void fy_mail_pack_reply(uint64_t value, int status, uint64_t lap, uint64_t words[2]);
bool fy_mail_unpack_reply(const uint64_t *words, uint64_t lap, uint64_t *value, int *status);

/* What a PE shares with one peer, in the symmetric heap; areas[pe] on each side. */
struct fy_mail_area {
    uint64_t ring[FY_MAIL_SLOTS][FY_MAIL_WORDS]; /* written by the peer: its requests */
    uint64_t replies[FY_MAIL_SLOTS][2];          /* written by the peer: its replies to this PE's requests */
    uint64_t scratch[8];                         /* this PE's, areas[0] only: the word that is being updated by puts and gets */
    uint64_t answers[FY_MAIL_SLOTS][2];          /* this PE's: where replies to the peer lie until they are sent */
};

/* A request that was sent. Under the peer's lock. */
struct fy_mail_slot {
    uint64_t number;
    uint32_t channel;
    uint8_t width;
    bool busy;
    void *old;          /* where the fetched value goes, or NULL */
    char *to;           /* where what landed goes, or NULL */
    size_t length;
};

/* Puts of one channel whose arrival the peer counts: `count` in the epoch so far. Channel's thread. */
struct fy_mail_cover {
    uint32_t count;
    uint8_t epoch;
};

/* The sending side towards one peer. Made at the first request. */
struct fy_mail_peer {
    pthread_mutex_t lock;
    uint64_t sent;
    int broken;                /* status of a request that could not be put: its slot stays empty, so nothing behind it is read */
    int refused;               /* status of a request that the peer could not carry out, until somebody was told */
    uint32_t refused_channel;
    struct fy_mail_slot slots[FY_MAIL_SLOTS];
    struct fy_mail_cover cover[]; /* by channel */
};

struct fy_mail_source;
struct fy_reply;

/* One atomic at a time on memory that the CPU may not touch: a get from this very PE, a put back. */
struct fy_update {
    struct fy_reply *reply; /* NULL: none */
    bool stored;            /* the put was posted; else the get */
    uint64_t ticket;
};

struct fy_mail {
    struct fy_mail_area *areas; /* by peer, symmetric */
    char *landing;              /* FY_MAIL_SLOTS * FY_MAIL_PIECE per peer, symmetric; NULL if every transport has get */
    struct ferry_ctx *ctx;      /* channel of the replies */
    pthread_mutex_t lock;       /* over the making of peers and sources */
    _Atomic(struct fy_mail_peer *) *peers;
    _Atomic(struct fy_mail_source *) *sources;
    _Atomic(struct fy_mail_source *) *active; /* the same, in the order they came; the first n_active */
    _Atomic uint32_t n_active;
    struct fy_update update;    /* under world->serving */
};

/* Bytes of symmetric memory that fy_mail_create wants. */
size_t fy_mail_bytes(uint32_t n_pes, bool gets);
/* memory: zeroed, 64-byte aligned. Opens the channel. Setup thread. */
int fy_mail_create(struct fy_world *world, void *memory, bool gets, struct ferry_error *error);
void fy_mail_destroy(struct fy_world *world);

/* mail_send.c */
int fy_mail_amo(struct ferry_ctx *ctx, const struct fy_amo_call *call, uint32_t pe);
/* Waits for the replies to all requests of the channel to `pe`. */
int fy_mail_wait(struct ferry_ctx *ctx, uint32_t pe);
/* Nobody will answer any more: results are not written. */
void fy_mail_forget(struct ferry_ctx *ctx, uint32_t pe);

/* mail_cover.c: order by remote completion data, on lanes that count (fy_lane.counted). */
/* Marks a put so that the target counts it. */
int fy_cover_put(struct ferry_ctx *ctx, uint32_t pe, struct ferry_op *op);
void fy_cover_posted(struct ferry_ctx *ctx, uint32_t pe);
/* Closes the epoch: the request waits at the target for all puts posted before it. */
void fy_cover_request(struct ferry_ctx *ctx, struct fy_mail_peer *peer, struct fy_mail_request *request);
/* A put of `from` arrived. From progress(SERVICE), under world->serving. */
void fy_cover_arrived(struct fy_world *world, uint32_t from, uint64_t data);

/* mail_serve.c */
/* A peer is about to send its first request. Control thread. */
int fy_mail_open(struct fy_world *world, uint32_t from);
/* One round over all sources. Under world->serving. True: something moved. */
bool fy_mail_serve(struct fy_world *world);
struct fy_mail_peer *fy_mail_peer_of(struct ferry_ctx *ctx, uint32_t pe, int *status);
struct fy_mail_source *fy_mail_source_of(struct fy_mail *mail, uint32_t from);
uint32_t *fy_mail_counts(struct fy_mail_source *source, uint32_t channel);

#endif
