/* SPDX-License-Identifier: Apache-2.0
 * The chaos hook: what it keeps of each channel, of each (channel, peer) stream, and of each operation that it holds.
 * A channel's state belongs to whoever is in a call on that channel (the core locks: INITIATOR_PROGRESS); no locks. */
#ifndef CHAOS_H
#define CHAOS_H

#include "../common/pass.h"
#include <stdbool.h>

#define CHAOS_PIECES     8u    /* most pieces that a put or a get is cut into */
#define CHAOS_COPY_MAX   4096u /* largest put that is copied, if the inner transport copies as much */
#define CHAOS_SLOTS      64u   /* private places for fetched values, per channel */
#define CHAOS_SLOT_BYTES 64u
#define CHAOS_QUEUE_MAX  65536

/* How a border is asked for by the core. */
enum chaos_fence { CHAOS_FENCE_KEEP = 0, CHAOS_FENCE_FLAG = 1, CHAOS_FENCE_CALL = 2, CHAOS_FENCE_NONE = 3 };

struct chaos_knobs {
    uint64_t seed;
    uint32_t delay; /* percent of operations held back, */
    uint32_t hold;  /* by at most so many turns */
    uint32_t split; /* percent of puts and gets cut */
    uint32_t again; /* percent of operations refused before they are taken */
    uint32_t late;  /* percent of completions told late */
    uint32_t queue; /* operations per (channel, peer) */
    uint64_t gap_ns;
    enum chaos_fence fence;
};

/* What was done, to be printed at the end. */
struct chaos_counts {
    uint64_t operations, reversals, cut, delayed, refused, full, late, waited, handed;
};

struct chaos_piece {
    size_t offset, length;
    uint64_t rank; /* the smallest of the pieces that may go, goes */
};

/* One operation from its acceptance until its completion was told. */
struct chaos_held {
    struct ferry_op op;      /* as the inner transport gets it, but for the piece */
    uint64_t number;         /* counts the channel's operations: what a ticket compares */
    uint64_t index;          /* counts the stream's: what decisions are drawn from */
    uint64_t post;           /* the stream's count of pieces, when its last one went; 0: some are left */
    uint64_t ready, tell;    /* turn from which it may go; from which its completion may be told, 0: not complete */
    uint32_t group;          /* borders before it */
    uint32_t late;           /* turns between completion and telling */
    bool ordered;            /* borders hold for it: everything but gets */
    void *place;             /* where the fetched value belongs, when it arrives in a private place; else NULL */
    uint32_t n_pieces, gone; /* gone: pieces[0..gone) were posted */
    struct chaos_piece pieces[CHAOS_PIECES];
    uint8_t copy[]; /* FERRY_OP_COPY: the source */
};

/* One (channel, peer). */
struct chaos_stream {
    struct chaos_stream *next; /* of the channel's streams */
    uint64_t key;              /* all that is drawn comes from key, the number of the operation, and what it is for */
    uint64_t index;            /* operations accepted */
    uint64_t turn, posts;
    uint64_t gap_end;          /* nothing goes before this time; 0: no gap */
    uint64_t ticket, covers;   /* inner ticket that is open, and the posts it covers */
    bool ticket_open, refused; /* refused: what is refused of operation `index` was drawn */
    uint32_t peer, refusals;
    uint32_t group, open_group;      /* borders asked for; borders that the inner transport was told of */
    int failed;                      /* first failure, until a ticket that covers all that was lost was answered */
    uint64_t failed_from, failed_to; /* numbers of what was lost */
    uint32_t n;
    struct chaos_held *held[]; /* in no order */
};

struct chaos_channel {
    uint64_t number;               /* of the latest operation; starts at 1, since a ticket is not 0 */
    struct chaos_stream **streams; /* by peer, NULL: unused so far */
    struct chaos_stream *first;
    uint8_t (*slots)[CHAOS_SLOT_BYTES];
    struct ferry_region *region; /* of the slots, where the inner transport wants one */
    uint32_t n_free;
    uint8_t free[CHAOS_SLOTS];
    struct chaos_counts counts;
};

struct ferry_transport {
    struct hook_base base; /* first */
    uint32_t my_pe, n_pes, max_channels;
    struct chaos_knobs knobs;
    struct ferry_caps inner;         /* of the inner transport, host memory */
    bool gpu;                        /* the inner transport moves memory of GPUs, too */
    struct chaos_channel **channels; /* by number, made when first opened and kept */
    uint8_t *gone;                   /* by peer, atomic: it was disconnected */
};

/* draw.c: decisions. `what` tells apart what is decided about one operation. */
enum chaos_what {
    DRAW_DELAY,
    DRAW_TURNS,
    DRAW_AGAIN,
    DRAW_CUT,
    DRAW_LATE,
    DRAW_GAP,
    DRAW_BORDER,
    DRAW_BURST,
    DRAW_RANK = 16,
    DRAW_EDGE = 32
};
uint64_t chaos_key(uint64_t seed, uint32_t pe, uint32_t channel, uint32_t peer);
uint64_t chaos_draw(const struct chaos_stream *s, uint64_t index, unsigned what);
bool chaos_chance(const struct chaos_stream *s, uint64_t index, unsigned what, uint32_t percent);

/* hold.c: taking operations in, and letting them out of the stream's hands. */
int chaos_hold(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
struct chaos_stream *chaos_stream(struct ferry_transport *t, uint32_t channel, uint32_t peer);
void chaos_drop(struct chaos_channel *c, struct chaos_stream *s, uint32_t i, bool in_flight);

/* turn.c: one step of a stream. True: something moved, or is about to. */
bool chaos_turn(struct ferry_transport *t, uint32_t channel, struct chaos_stream *s);

/* finish.c: completion. */
void chaos_collect(struct ferry_transport *t, uint32_t channel, struct chaos_stream *s);
void chaos_fail(struct chaos_channel *c, struct chaos_stream *s, int status);
void chaos_give_up(struct chaos_channel *c, struct chaos_stream *s);
bool chaos_tell(struct chaos_channel *c, struct chaos_stream *s);
int chaos_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket);
int chaos_progress(struct ferry_transport *t, uint32_t channel);

#endif
