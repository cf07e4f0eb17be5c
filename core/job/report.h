/* SPDX-License-Identifier: Apache-2.0
 * What a job that hangs tells about itself: the state of a PE, as PEs ask each other for it, and the report made of all.
 * Each function says who calls it. */
#ifndef FY_JOB_REPORT_H
#define FY_JOB_REPORT_H

#include "../order/channel.h"

struct ferry_job;

#define FY_STATE_CHANNELS 20u
#define FY_STATE_PEERS    6u
#define FY_STATE_LANES    6u

struct fy_state_wait {
    char doing[40];
    int32_t peer, channel;
    uint64_t age; /* ns */
};

struct fy_state_channel {
    uint32_t id, kind; /* enum ferry_page_kind */
    uint64_t posted, completed, again;
    uint64_t age;      /* ns; 0: nothing is outstanding */
    uint32_t busy;     /* peers with something outstanding; the first of them: */
    uint32_t n_peers;
    struct {
        uint32_t pe, kinds; /* FY_DID_ */
    } peers[FY_STATE_PEERS];
    uint64_t ring_head, ring_consumed, ring_completed; /* of a ring: slots reserved, taken, complete */
};

/* What a transport says of a channel to a peer where something is outstanding. */
struct fy_state_lane {
    uint32_t channel, pe;
    char text[96];
};

/* One PE's answer; fits a message of the bootstrap. */
struct fy_state {
    uint32_t size, pe, pid;
    uint32_t n_waits, n_channels, more_channels, n_lanes;
    char host[48];
    struct fy_state_wait waits[FERRY_PAGE_WAITS];
    struct fy_state_channel channels[FY_STATE_CHANNELS];
    struct fy_state_lane lanes[FY_STATE_LANES]; /* in the order of channels and peers; the first of them */
};

enum fy_answered { FY_NOT_ASKED, FY_ANSWERED, FY_SILENT, FY_DEAD, FY_GONE };

struct fy_answer {
    enum fy_answered how;
    struct fy_state *state; /* if FY_ANSWERED */
};

/* state.c: of this PE. Any thread. */
void fy_job_state(struct ferry_job *job, struct fy_state *state);
/* What a peer sent as its state. */
bool fy_state_good(const struct fy_state *state, size_t size, uint32_t n_pes);

/* culprit.c: whom everything waits for in the end, as far as the answers tell; -1: nobody, or it cannot be told. `why` says
 * it in words. Pure. */
int fy_culprit(const struct fy_answer *answers, uint32_t n, char *why, size_t size);

/* Text that grows; `failed`: there was no memory for it. */
struct fy_text {
    char *data;
    size_t n, room;
    bool failed;
};
void fy_text_add(struct fy_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* report_text.c, report_json.c: the report of all answers. */
struct fy_account {
    uint64_t job;
    uint32_t n;
    const struct fy_answer *answers;
    const char *reason; /* why it was made */
    int culprit;
    char why[256];
};
void fy_report_text(struct fy_text *out, const struct fy_account *account);
void fy_report_json(struct fy_text *out, const struct fy_account *account);

/* The kinds of a set, as words with commas. */
const char *fy_state_kinds(uint32_t kinds, char *out, size_t size);
const char *fy_state_channel_kind(uint32_t kind);

/* report.c: the thread that asks all PEs. */
struct fy_report {
    pthread_mutex_t lock; /* guards the next two against the end of the job */
    bool closed, running;
    pthread_t thread;
    _Atomic bool done, stop;
    bool print;           /* to the log, too */
    char reason[96];
};
void fy_report_init(struct fy_report *report);
/* Control thread. False: one is being made. */
bool fy_report_begin(struct ferry_job *job, bool print, const char *reason);
/* Setup thread: none is made any more. */
void fy_report_close(struct fy_report *report);

/* watch.c: once a second, the control thread looks at its own PE. */
struct fy_look_job {
    _Atomic bool on;        /* init is over: contexts are named, and looked at */
    uint64_t next;
    double stall;           /* FERRY_STALL_SECONDS */
    uint32_t asked;         /* the last request that was seen */
    uint64_t reported;      /* start of the wait that a report was made about */
    struct {
        uint64_t completed, since;
        bool told; /* the page says that it is there */
    } *channels;            /* max_channels of them */
};
/* Returns when to call again. */
uint64_t fy_job_tick(void *job, uint64_t now);
/* What kind of channel it is. Under world.lock. */
uint32_t fy_job_kind(const struct ferry_job *job, const struct ferry_ctx *ctx);

#endif
