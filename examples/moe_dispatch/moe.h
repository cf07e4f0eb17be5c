/* SPDX-License-Identifier: Apache-2.0
 * What the files of this example share: the arguments, the model, one struct for the PE and one for each channel.
 * A channel is driven by one thread at a time; everything else belongs to the main thread. */
#ifndef MOE_H
#define MOE_H

#include <ferry/ferry.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the program calls itself in messages. */
#ifndef MOE_NAME
#define MOE_NAME "moe_dispatch"
#endif

enum { MAX_TOPK = 64, MAX_EXPERTS = 65536, MAX_HIDDEN = 65536, MAX_CHANNELS = 1024, MAX_PES = 4096, DEFAULT_TOKENS_MAX = 65536 };
enum { EXIT_FAILED = 1, EXIT_USAGE = 64 };

/* A fault made on purpose, to show that the checks can fail. */
enum inject { INJECT_NONE, INJECT_CORRUPT, INJECT_LATE, INJECT_WEAK };

struct moe_args {
    const char *path; /* --text */
    uint64_t tokens;  /* 0: the words of the text, at most DEFAULT_TOKENS_MAX */
    uint32_t hidden, topk, experts, channels, ring, chunk;
    uint32_t max_dest; /* 0: no limit */
    int threads;
    uint32_t pes; /* in this process, a thread each; 0: the process is one PE, as its launcher says */
    enum inject inject;
};

/* args.c. Ends the process with EXIT_USAGE when an argument is wrong. */
void args_parse(int argc, char **argv, struct moe_args *args);

/* text.c: the words of a file, as hashes. Returns NULL, or why it failed. */
struct text {
    uint64_t *words;
    size_t n_words;
};
const char *text_load(const char *path, struct text *text);

/* model.c: everything that depends on a token and not on who computes it. */
struct choice {
    uint16_t expert;
    uint16_t weight; /* 1..16 */
};

struct model {
    const struct text *text;
    uint32_t hidden, topk, experts;
    uint32_t taps;      /* components that the router looks at */
    int8_t *projection; /* [experts][taps] */
};

uint64_t mix64(uint64_t x);
int model_create(struct model *model, const struct moe_args *args, const struct text *text);
/* The hidden vector of a token: small integers; as BF16 they count in units of 1/64. */
void model_components(const struct model *model, uint32_t token, int8_t *components);
void model_to_bf16(const int8_t *components, uint16_t *out, uint32_t n);
/* The topk best of the allowed experts, in order of their numbers. */
void model_route(const struct model *model, const int8_t *components, const uint8_t *allowed, struct choice *out);
/* sum += weight * expert(x). Every partial sum is exact in FP32, so the order of the additions does not matter. */
void model_expert(const struct model *model, struct choice choice, const uint16_t *x, float *sum);

/* ring.c: the rings between this PE and its peers for one phase. */
struct lane_words {     /* symmetric; one per (channel, lane) */
    uint64_t tail;      /* written by the sender of the incoming ring: tokens that are there */
    uint64_t announced; /* the same: 1 when `tokens` is there */
    uint64_t tokens;    /* the same: how many tokens will come in all */
    uint64_t unused1[5];
    uint64_t head;         /* written by the receiver of the outgoing ring: tokens taken */
    uint64_t suspect;      /* the same: it saw a stamp that is not right */
    uint64_t announcement; /* source of the peer's `tokens` */
    uint64_t unused2[5];
};

struct rings {
    size_t slot_bytes;
    char *out, *in;           /* symmetric; [channels][lanes][ring] slots; out is the staging of the peer's in */
    struct lane_words *words; /* symmetric; [channels][lanes] */
};

struct moe;
struct channel;

struct sender {
    char *slots;
    struct lane_words *words;
    uint32_t pe;
    uint64_t total, posted;
    uint64_t reusable; /* positions below it: nobody reads their slots any more */
};

struct receiver {
    char *slots;
    struct lane_words *words;
    uint32_t pe;
    uint64_t total; /* UINT64_MAX: not announced yet */
    uint64_t taken, credited;
};

int rings_open(struct moe *moe, struct rings *rings, size_t slot_bytes);
int rings_close(struct moe *moe, struct rings *rings);
/* All of these: negative is an error that has been reported. */
int sender_announce(struct channel *channel, struct sender *s);
int sender_room(struct channel *channel, struct sender *s, uint32_t n); /* 1: n slots may be filled, 0: not yet */
int sender_ship(struct channel *channel, struct sender *s, uint32_t n);
int receiver_announced(struct channel *channel, struct receiver *r);
int receiver_ready(struct channel *channel, struct receiver *r, uint64_t *upto);
int receiver_release(struct channel *channel, struct receiver *r);

/* slot.c: a slot is a stamp and a body. */
struct stamp {
    uint32_t phase;
    uint32_t source; /* PE */
    uint32_t channel;
    uint32_t token;
    uint64_t sequence; /* position in the stream of this (channel, lane) */
    uint64_t checksum; /* of the body */
};

uint64_t slot_hash(const void *bytes, size_t n); /* n: a multiple of 8 */
void slot_stamp(const struct channel *channel, void *slot, uint32_t token, uint64_t sequence);
int slot_check(struct channel *channel, struct receiver *r, const void *slot);

/* exchange.c: one phase, in which every (channel, lane) sends and receives a stream of slots. */
struct exchange {
    uint32_t phase;
    const char *name;
    struct rings rings;
    int direction; /* +1: lane k sends to PE me + k * stride; -1: to PE me - k * stride */
    int announce;  /* 1: receivers learn their totals from the senders */
    uint64_t (*total_out)(const struct channel *channel, uint32_t lane);
    uint64_t (*total_in)(const struct channel *channel, uint32_t lane); /* only without announce */
    int (*begin)(struct channel *channel, uint32_t lane,
                 uint64_t total); /* the total of a lane is known; may be NULL */
    uint32_t (*fill)(struct channel *channel, uint32_t lane, uint64_t sequence, void *body); /* returns the token */
    int (*take)(struct channel *channel, uint32_t lane, uint64_t sequence, const void *slot);
};
int exchange_run(struct moe *moe, struct exchange *exchange);
/* Before any PE exists; 0, or the exit status after a message. */
int exchange_prepare(const struct moe_args *args);
/* What carries the channels; close is called before ferry_finalize, also when open failed. */
int exchange_open(struct moe *moe);
void exchange_close(struct moe *moe);
uint64_t now_ns(void);

struct tally {
    uint64_t bytes, remote_bytes, ns;
};

/* What arrived on one lane in dispatch, and what the experts made of it. */
struct arrivals {
    uint64_t n;
    char *slots;
    uint32_t *tokens;
    float *results; /* [n][hidden] */
};

struct channel {
    struct moe *moe;
    uint32_t index;
    ferry_ctx_t *ctx;
    uint32_t first, last; /* own tokens [first, last) of moe, counted from 0 */
    uint32_t *queue;      /* own tokens by lane: queue[start[lane] .. start[lane + 1]) */
    uint32_t *start;
    struct arrivals *arrivals; /* by lane */
    uint64_t dispatch_sum;
    struct sender *senders;     /* by lane, of the current exchange */
    struct receiver *receivers; /* by lane */
    struct tally tally;         /* of the current exchange */
};

struct moe {
    const struct moe_args *args;
    struct model model;
    ferry_job_t *job;
    uint32_t me, n_pes;
    uint32_t lanes, stride; /* lane k leads to PE me + k * stride, for k < lanes */
    uint32_t ring;          /* slots per ring: --ring, or fewer if no ring can ever fill */
    uint32_t n_tokens;      /* in all */
    uint32_t first_token;   /* own tokens: [first_token, first_token + own) */
    uint32_t own;
    uint8_t *allowed;      /* by expert: this PE may use it */
    uint16_t *vectors;     /* [own][hidden], BF16 */
    struct choice *routes; /* [own][topk] */
    float *combined;       /* [own][hidden] */
    struct channel *channels;
    struct exchange *exchange; /* the current one */
    int failed;            /* atomic: a failure was reported already */
    struct tally dispatch, combine;
    struct moe_gpu *gpu; /* of examples/moe_dispatch_gpu, which has this example's model and other phases */
};

uint32_t expert_owner(const struct moe *moe, uint32_t expert);
/* The lane that leads from PE `from` to PE `to`, or -1. */
int lane_between(const struct moe *moe, uint32_t from, uint32_t to);
uint32_t lane_peer(const struct moe *moe, uint32_t lane, int direction);

/* plan.c: which token goes where; allocates the channels. plan_lanes: 0, or -1 and why the arguments do not fit so many
 * PEs. */
int plan_lanes(struct moe *moe, char *why, size_t why_size);
int plan_create(struct moe *moe);
void plan_destroy(struct moe *moe);

/* dispatch.c, combine.c, verify.c, report.c */
size_t dispatch_slot_bytes(const struct moe *moe);
const struct choice *dispatch_choices(const void *slot, uint32_t *n);
const uint16_t *dispatch_payload(const struct moe *moe, const void *slot);
int dispatch_run(struct moe *moe);
int experts_run(struct moe *moe);
int combine_run(struct moe *moe);
/* Compares every byte of `combined` with a computation of this PE alone. */
int verify_run(struct moe *moe, uint64_t *mismatched, uint64_t *checksum);
/* Gathers on PE 0 and prints; *bad: tokens of all PEs that did not match. */
int report_run(struct moe *moe, uint64_t mismatched, uint64_t combine_sum, uint64_t *bad);

/* main.c: one PE from ferry_init to ferry_finalize, in the calling thread; returns the exit status. */
int run_pe(const struct moe_args *args, const struct model *model, uint32_t n_tokens, ferry_attr_t *attr);

/* pes.c: args->pes of them, a thread each. */
int run_pes(const struct moe_args *args, const struct model *model, uint32_t n_tokens);

/* main.c: prints the first failure of this PE and ends the job; returns a negative status. */
int fail(struct moe *moe, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same for a call of the library, whose own words are added. status 0: the call has none, take the record's. */
int fail_call(struct moe *moe, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif

#endif
