/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap, inside: the state of one PE's control thread, and what its parts call of each other.
 * Unless said otherwise a function runs on the control thread, and a field is the control thread's alone. */
#ifndef FY_JOB_BOOT_INTERNAL_H
#define FY_JOB_BOOT_INTERNAL_H

#include "boot.h"
#include "boot_wire.h"
#include <pthread.h>

#define FY_STEP_TEXT 48

/* What a connection is to this PE. */
enum fy_role {
    FY_ROLE_STRANGER = 0, /* accepted, not proven */
    FY_ROLE_PARENT,       /* tree, we connected */
    FY_ROLE_CHILD,        /* tree, it connected */
    FY_ROLE_PROBE_OUT,    /* we look whether a PE that should attach to us lives */
    FY_ROLE_PROBE_IN,
    FY_ROLE_CALL_OUT,
    FY_ROLE_CALL_IN,
    FY_ROLE_REFUSED
};

enum { FY_PE_DEAD = 1, FY_PE_LEFT = 2 };

/* --- payloads between PEs */
struct fy_up {
    uint32_t seq,
        count; /* contributions that follow, by level of the subtree; in FRAME_DOWN those of all PEs, by rank */
    uint64_t length;
    uint32_t closing;
    uint32_t reduced; /* 1: one contribution stands for all of them */
    char step[FY_STEP_TEXT];
};
struct fy_fail {
    uint32_t seq;   /* steps up to this one have failed */
    uint32_t final; /* 1: and all later ones; 2: closing together, too */
    int32_t status, peer;
    char text[264];
};
struct fy_query {
    uint32_t seq, zero;
    double timeout;
    char step[FY_STEP_TEXT];
};
struct fy_here {
    uint32_t seq, rank, in, zero;
};
struct fy_news {
    uint32_t pe;
    int32_t code;
    char why[96];
};
struct fy_message {
    uint64_t id;
    uint32_t type;
    int32_t status;
};

/* A collective step. On the caller's stack; the control thread's from `started` to `done`. */
struct fy_op {
    uint32_t seq;
    bool closing; /* the barrier of fy_boot_close */
    bool started, done;
    bool sent_up, asked;
    const void *mine;
    uint8_t *all; /* of all PEs, by rank; with `combine`: of those that have arrived, in one */
    size_t length;
    fy_combine_fn *combine;
    char step[FY_STEP_TEXT];
    double timeout;
    uint64_t deadline;
    uint8_t *have; /* per PE: its contribution is in `all` */
    uint32_t n_have, n_subtree;
    struct ferry_error error; /* status FERRY_OK: done well */
};

/* The root asks who has arrived. */
struct fy_inquiry {
    bool active;
    struct fy_query query;
    uint64_t until;
    uint8_t *answered, *in;
    uint32_t n_answered;
};

/* A request of fy_boot_call; on the caller's stack, reached only under the lock. */
struct fy_call {
    struct fy_call *next;
    uint64_t id;
    uint32_t pe, type;
    const void *request;
    void *reply;
    size_t size, capacity, reply_size;
    bool sent, done;
    struct ferry_error error;
};

struct fy_watch {
    struct fy_watch *next;
    uint64_t id; /* odd: epoll tells it from a pointer */
    int fd;
    void (*fn)(void *arg);
    void *arg;
};

/* A PE that has to show that it lives: its place in the tree is below this one, but it has not connected; or, `elsewhere`, this
 * PE lost its own place, since nobody answers there, and looks whether others do. */
struct fy_orphan {
    struct fy_orphan *next;
    uint32_t pe;
    bool elsewhere;
    uint64_t verdict, probe; /* when to call it dead; when to look next */
};

struct fy_boot {
    /* set before the control thread starts */
    const struct fy_log *log;
    struct fy_log own_log;
    struct fy_boot_events events;
    uint32_t rank, n;
    double timeout, peer_timeout;
    uint8_t secret[FERRY_SECRET_BYTES];
    uint64_t job_id;
    struct fy_addr *table;
    struct fy_identity self;
    int wake;
    struct fy_hub hub;

    pthread_mutex_t lock;   /* guards what follows; never held while an event or a watch runs */
    pthread_cond_t changed; /* an op, a call or a watch is done */
    bool running;           /* the control thread */
    pthread_t thread;
    bool stop;
    uint8_t *state; /* per PE FY_PE_…; written by the control thread */
    uint32_t n_dead, n_left, first_dead, first_left;
    char first_why[96];
    uint32_t seq; /* the latest step the setup thread has begun */
    struct fy_op *op;
    struct fy_call *calls;
    uint64_t call_id;
    struct fy_watch *watches, *watch_running;
    uint64_t watch_id;
    bool abort_asked, aborted;
    uint32_t abort_by;
    int abort_code;
    struct fy_fail fail; /* status FERRY_OK: no step has failed */
    bool settled;        /* fy_boot_settle was called */

    /* the control thread's */
    struct fy_inquiry inquiry;
    void *up[2]; /* what the two children sent for a step not begun here */
    uint32_t up_size[2];
    uint32_t entered; /* the latest step begun here */
    uint32_t parent;  /* FY_NOBODY: root */
    uint64_t parent_retry, parent_pause, parent_verdict;
    struct fy_orphan *orphans;
    uint32_t looks; /* how many others this PE looked at last, because nobody answered */
    uint64_t call_retry;
    bool joined; /* the first step is done: liveness counts */
    bool closed; /* all PEs are in fy_boot_close: nobody minds who goes */
    bool leaving, isolated;
    uint64_t leave_until;
};

/* --- boot_loop.c */
int fy_loop_start(struct fy_boot *boot, struct ferry_error *error); /* setup thread, or whoever watches first */
void fy_loop_wake(struct fy_boot *boot);                            /* any thread */
/* The connection has ended: what that means depends on what it was. */
void fy_loop_lost(struct fy_boot *boot, struct fy_conn *conn);
void fy_loop_nonsense(struct fy_boot *boot, struct fy_conn *conn);
struct fy_conn *fy_loop_find(const struct fy_boot *boot, int role, uint32_t pe);
static inline bool fy_tree_link(const struct fy_conn *conn)
{
    return (conn->role == FY_ROLE_PARENT || conn->role == FY_ROLE_CHILD) && conn->state == FY_CONN_READY;
}
/* To every tree neighbour but `except`. */
void fy_loop_flood(struct fy_boot *boot, const struct fy_conn *except, uint16_t type, const void *data, size_t size);

/* --- boot_watch.c */
void fy_watch_ready(struct fy_boot *boot, uint64_t id);
void fy_watch_free(struct fy_boot *boot);

/* --- boot_tree.c */
void fy_tree_frame(struct fy_boot *boot, struct fy_conn *conn, const struct fy_frame *frame, void *body);
void fy_tree_poll(struct fy_boot *boot); /* begins a new op, sends what can be sent */
uint64_t fy_tree_tick(struct fy_boot *boot, uint64_t now);
void fy_tree_free(struct fy_boot *boot);
/* Ends the op, if any, when the state of the job says that it cannot succeed. */
void fy_tree_check(struct fy_boot *boot);
/* Setup thread. */
int fy_tree_run(struct fy_boot *boot, struct fy_op *op, struct ferry_error *error);

/* --- boot_fail.c: steps that fail for everybody */
/* Records the failure, tells the others (except where it came from), ends the op. */
void fy_fail_spread(struct fy_boot *boot, const struct fy_fail *fail, const struct fy_conn *from);
/* Without verdicts: the connection with this neighbour is gone, and with it every step that needs it. */
void fy_fail_lost(struct fy_boot *boot, uint32_t pe);
void fy_fail_frame(struct fy_boot *boot, struct fy_conn *conn, const struct fy_frame *frame, const void *body);
uint64_t fy_fail_tick(struct fy_boot *boot, uint64_t now);
/* The step is late here. Returns when to look again. */
uint64_t fy_fail_late(struct fy_boot *boot, struct fy_op *op, uint64_t now);
/* Why this op cannot succeed; false: nothing speaks against it. Any thread, under the lock. */
bool fy_fail_known(const struct fy_boot *boot, const struct fy_op *op, struct ferry_error *error);

/* --- boot_live.c: who lives */
static inline bool fy_live(const struct fy_boot *boot, uint32_t pe)
{
    return boot->state[pe] == 0;
}
void fy_live_start(struct fy_boot *boot);
void fy_live_dead(struct fy_boot *boot, uint32_t pe, const char *why, const struct fy_conn *from);
void fy_live_left(struct fy_boot *boot, uint32_t pe, const struct fy_conn *from);
void fy_live_abort(struct fy_boot *boot, uint32_t by, int code, const struct fy_conn *from);
void fy_live_frame(struct fy_boot *boot, struct fy_conn *conn, const struct fy_frame *frame, const void *body);
uint64_t fy_live_tick(struct fy_boot *boot, uint64_t now);
/* This thread did not run for a while: that nobody was heard is its own doing. */
void fy_live_forgive(struct fy_boot *boot, uint64_t now);

/* --- boot_place.c: each PE's place in the tree, and how it gets back to one */
void fy_place_update(struct fy_boot *boot);
void fy_place_ready(struct fy_boot *boot, struct fy_conn *conn);  /* a tree or probe connection is up: says all news */
void fy_place_failed(struct fy_boot *boot, struct fy_conn *conn); /* ours did not come up */
uint64_t fy_place_tick(struct fy_boot *boot, uint64_t now);
/* The parent is silent. */
void fy_place_silent(struct fy_boot *boot, uint64_t now);
/* `pe` has arrived, or is gone. */
void fy_place_settle(struct fy_boot *boot, uint32_t pe);
/* Everybody who belongs beside this PE in the tree is connected: news reaches them. */
bool fy_place_complete(const struct fy_boot *boot);
/* No connection can be had, says errno: a start ends here, nothing would change it; later there are other tries. */
void fy_place_exhausted(struct fy_boot *boot, int code);
void fy_place_forgive(struct fy_boot *boot, uint64_t now);
void fy_place_free(struct fy_boot *boot);

/* --- boot_call.c */
void fy_call_poll(struct fy_boot *boot);
void fy_call_frame(struct fy_boot *boot, struct fy_conn *conn, const struct fy_frame *frame, const void *body);
void fy_call_ready(struct fy_boot *boot, struct fy_conn *conn);
void fy_call_lost(struct fy_boot *boot, struct fy_conn *conn);
uint64_t fy_call_tick(struct fy_boot *boot, uint64_t now);
/* Ends those that can no longer be answered: pe is gone (FY_NOBODY: all, the job was aborted). */
void fy_call_end(struct fy_boot *boot, uint32_t pe, int status, const char *why);

/* --- boot_cards.c */
#define FY_CARD_NETS 12

/* What each PE gives. The first members stay where they are in all versions, so that versions can be told apart. */
struct fy_card {
    char magic[8];
    uint32_t protocol;
    struct fy_identity self; /* addr: in the second round */
    uint8_t secret[FERRY_SECRET_BYTES];
    uint64_t job_id;
    uint64_t host;
    uint32_t given, n_nets; /* given: the user has named the interface */
    struct fy_net nets[FY_CARD_NETS];
    int32_t status; /* not FERRY_OK: this PE cannot go on, */
    char why[200];  /* because */
};
#define FY_CARD_MAGIC "FERRYPE"

/* --- boot_exchange.c: setup thread, before the control thread exists */
/* The address to listen on: that by which the id's meeting is reached. */
int fy_exchange_near(const ferry_uniqueid_t *id, uint32_t *ip, struct ferry_error *error);
int fy_exchange_id(struct fy_boot *boot, const struct fy_boot_config *config, uint64_t deadline,
                   struct ferry_error *error);
/* Without an id, by the bootstrap's allgather. First which networks each PE has: *ip is this PE's address on one that all of them
 * share, or, if they share a host, on loopback. */
int fy_exchange_networks(struct fy_boot *boot, const struct fy_boot_config *config, uint64_t deadline, uint32_t *ip,
                         struct ferry_error *error);
/* Then where each listens, and the secret. `own` is this PE's status, with its record in *error: the others are told. */
int fy_exchange_addresses(struct fy_boot *boot, const struct fy_boot_config *config, uint64_t deadline, int own,
                          struct ferry_error *error);
/* boot_exchange.c: nobody on loopback where others are not. */
int fy_exchange_check(const struct fy_boot *boot, struct ferry_error *error);

#endif
