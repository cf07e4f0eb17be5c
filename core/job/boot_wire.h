/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap, the wire: frames, connections that never block, the proof that both ends know the secret.
 * Shared by the meeting, by those who join it, and by the control thread; a connection belongs to one thread. */
#ifndef FY_JOB_BOOT_WIRE_H
#define FY_JOB_BOOT_WIRE_H

#include "../base/clock.h"
#include "../base/log.h"
#include <ferry/ferry.h>
#include <ferry/transport.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define FY_WIRE_PROTOCOL  2u
#define FY_WIRE_MAGIC     0x31427946u
#define FY_WIRE_SMALL     512u       /* largest payload of whoever has not proven anything, and of small frames */
#define FY_WIRE_BIG       (1u << 30) /* largest payload between PEs of the tree */
#define FY_PES_MAX        (1u << 20)
#define FY_NOBODY         UINT32_MAX /* no PE; as a server: the meeting */
#define FY_HUB_UNPROVEN   256u       /* most connections that have proven nothing; the oldest makes room */
#define FY_HUB_PROVE_TIME 5.0        /* seconds within which a connection proves itself */

/* Both fields in network order. */
struct fy_addr {
    uint32_t ip;
    uint16_t port, zero;
};

/* What every PE and the meeting put before a payload. Integers in the order of the machine: another order shows in
 * magic. */
struct fy_frame {
    uint32_t magic;
    uint16_t type, zero;
    uint32_t size; /* payload bytes that follow */
    uint32_t sender;
};

enum fy_frame_type {
    FY_FRAME_HELLO = 1, /* struct fy_hello */
    FY_FRAME_CHALLENGE, /* struct fy_challenge */
    FY_FRAME_PROOF,     /* struct fy_proof */
    FY_FRAME_WELCOME,   /* nothing */
    FY_FRAME_REFUSE,    /* struct fy_refusal */
    FY_FRAME_TABLE,     /* the job's number, struct fy_addr of every PE: the meeting is complete */
    FY_FRAME_GIVE_UP,   /* to the meeting: my time is over, who is missing? */
    FY_FRAME_UP,        /* struct fy_up, bytes: what a subtree contributes */
    FY_FRAME_DOWN,      /* struct fy_up, bytes of all: the result */
    FY_FRAME_FAIL,      /* struct fy_fail: a step failed for everybody */
    FY_FRAME_ASK,       /* struct fy_query, to the root: my time is over */
    FY_FRAME_QUERY,     /* struct fy_query, from the root: who has arrived? */
    FY_FRAME_HERE,      /* struct fy_here, to the root */
    FY_FRAME_DEAD,      /* struct fy_news */
    FY_FRAME_LEFT,      /* struct fy_news: closed in good order */
    FY_FRAME_ABORT,     /* struct fy_news */
    FY_FRAME_BEAT,      /* nothing */
    FY_FRAME_REQUEST,   /* struct fy_message, bytes */
    FY_FRAME_REPLY      /* struct fy_message, bytes */
};

/* What a connection is for; said in its proof. */
enum fy_purpose { FY_PURPOSE_JOIN = 1, FY_PURPOSE_TREE, FY_PURPOSE_PROBE, FY_PURPOSE_CALL };

struct fy_identity {
    uint32_t purpose, rank, size, zero;
    struct fy_addr addr; /* where the PE listens */
    char version[32];
};

struct fy_hello {
    uint32_t protocol, zero;
    uint8_t nonce[32];
};
struct fy_challenge {
    uint32_t server, zero; /* PE that answers, or FY_NOBODY */
    uint8_t nonce[32], mac[32];
};
struct fy_proof {
    struct fy_identity identity;
    uint8_t mac[32];
};
struct fy_refusal {
    int32_t status, peer;
    char text[256];
};

enum fy_conn_state {
    FY_CONN_CONNECTING, /* client: no answer from the network yet */
    FY_CONN_HELLO,      /* server: waits for hello */
    FY_CONN_CHALLENGE,  /* client: waits for the challenge */
    FY_CONN_PROOF,      /* server: waits for the proof */
    FY_CONN_VERDICT,    /* client: waits for welcome; server: its owner has to decide */
    FY_CONN_READY,
    FY_CONN_CLOSED
};

struct fy_chunk {
    struct fy_chunk *next;
    size_t size, sent;
    uint8_t data[];
};

struct fy_hub;
struct fy_conn {
    struct fy_conn *prev, *next, *next_grave;
    struct fy_hub *hub;
    int fd;
    enum fy_conn_state state;
    bool client;
    bool absent;    /* nobody, or a stranger, is at the other end's address */
    bool writing;   /* epoll watches for room */
    bool mute;      /* sending failed: only what was received before counts */
    bool shut;      /* sending side was shut down */
    int error;      /* connect failed at once with this errno */
    uint32_t limit; /* largest payload taken */
    uint8_t head[sizeof(struct fy_frame)];
    size_t have; /* bytes of the current frame, head and body */
    uint8_t *body;
    size_t room;
    struct fy_chunk *out, **out_end;
    size_t out_bytes;
    uint64_t heard, sent, deadline; /* deadline: to become ready, or to go */
    uint8_t nonce_client[32], nonce_server[32];
    uint32_t server;             /* client: whom it wants; server: who it is */
    struct fy_identity identity; /* client: its own; server: the proven one */
    struct fy_refusal refusal;   /* client: status != 0 when refused */
    char why[96];                /* why the connection ended */
    /* the owner's */
    int role;
    uint32_t pe;
};

/* Connections of one thread, with the listener through which they come. */
struct fy_hub {
    int epoll, listener; /* listener: -1 none */
    struct fy_conn *conns, *graves;
    uint64_t listen_again; /* out of descriptors: not before */
    int full;              /* and so said accept, by this errno; 0 again when it took one */
};

/* --- boot_wire.c: frames */
typedef void fy_frame_fn(void *arg, struct fy_conn *conn, const struct fy_frame *frame, void *body);
/* Takes what has arrived and hands over each whole frame. fn may drop the connection, or keep body (and set conn->body
 * NULL). False: the connection has ended, conn->why says why. */
bool fy_conn_read(struct fy_conn *conn, fy_frame_fn *fn, void *arg);
/* Queues a frame and sends what the socket takes. Out of memory counts as a broken connection. */
void fy_conn_send(struct fy_conn *conn, uint16_t type, uint32_t sender, const struct iovec *parts, int n);
void fy_conn_send1(struct fy_conn *conn, uint16_t type, uint32_t sender, const void *data, size_t size);
void fy_conn_flush(struct fy_conn *conn);
void fy_conn_free(struct fy_conn *conn);

/* --- boot_hub.c: sets of connections */
int fy_hub_open(struct fy_hub *hub, int listener); /* takes the listener, even when it fails; 0 or errno */
void fy_hub_close(struct fy_hub *hub);
/* NULL: out of descriptors or memory, errno says of which. A failure to connect shows later. */
struct fy_conn *fy_hub_connect(struct fy_hub *hub, const struct fy_addr *addr, uint32_t server,
                               const struct fy_identity *self, uint64_t deadline);
/* Takes waiting connections; they start in FY_CONN_HELLO with role 0. `self`: who answers. */
void fy_hub_accept(struct fy_hub *hub, uint32_t self, const struct fy_log *log);
/* Closes now, frees at the next reap: pointers from the same round of events stay good. */
void fy_hub_drop(struct fy_hub *hub, struct fy_conn *conn);
void fy_hub_reap(struct fy_hub *hub);
void fy_hub_rearm(struct fy_hub *hub, struct fy_conn *conn);
/* Listener on again after a pause. Returns when to come back. */
uint64_t fy_hub_tick(struct fy_hub *hub, uint64_t now);
/* For epoll: the milliseconds until `due`. */
int fy_hub_wait_ms(uint64_t due, uint64_t now);

/* --- boot_auth.c: proof of the secret, without sending it */
enum fy_auth { FY_AUTH_GO_ON = 0, FY_AUTH_DONE = 1, FY_AUTH_FAIL = -1 };
void fy_auth_begin(struct fy_conn *conn); /* client: connected */
/* Server: DONE means that conn->identity is proven and the owner answers with fy_auth_welcome or fy_auth_refuse.
 * Client: DONE means welcome. FAIL: conn->why, and conn->refusal if there was one. */
enum fy_auth fy_auth_frame(struct fy_conn *conn, const struct fy_frame *frame, const void *body,
                           const uint8_t secret[FERRY_SECRET_BYTES]);
void fy_auth_welcome(struct fy_conn *conn, uint32_t limit);
void fy_auth_refuse(struct fy_conn *conn, int status, int peer, const char *text);

/* --- boot_net.c: addresses */
/* "auto" is lo here: who joins a meeting elsewhere asks fy_net_toward. */
int fy_net_address(const char *interface_, uint32_t *ip, struct ferry_error *error);
bool fy_net_auto(const char *interface_);
bool fy_net_is_loopback(uint32_t ip);
/* An address of this host, and the network that it is in. */
struct fy_net {
    uint32_t ip, mask; /* in network order */
};
/* Those of interfaces that are up, without loopback; at most `room`. Returns how many. */
uint32_t fy_net_list(struct fy_net *nets, uint32_t room);
/* The address of this host from which `to` is reached. */
int fy_net_toward(const struct fy_addr *to, uint32_t *ip, struct ferry_error *error);
int fy_net_listen(uint32_t ip, struct fy_addr *addr, int *fd, struct ferry_error *error);
/* To a port beyond those that the kernel gives out by itself; 0, or -1 and errno. */
int fy_net_bind_any(int fd, uint32_t ip);
void fy_net_tune(int fd);
#define FY_ADDR_TEXT 32
const char *fy_addr_text(const struct fy_addr *addr, char out[FY_ADDR_TEXT]);
/* An errno in words; what ran out, with its limit: "Too many open files (ulimit -n is 1024)". */
#define FY_CODE_TEXT 96
const char *fy_code_text(int code, char out[FY_CODE_TEXT]);
/* Descriptors or memory: it will not get better by trying on. */
bool fy_code_exhausted(int code);
/* "PE 3" or "PEs 3, 5-7 and 12 more": those with have[pe] == 0. Returns how many. */
uint32_t fy_text_missing(char *out, size_t size, const uint8_t *have, uint32_t n, uint32_t *first);

/* --- meeting_client.c */
struct fy_id {
    char magic[8];
    uint32_t protocol;
    struct fy_addr addr;
    uint8_t secret[FERRY_SECRET_BYTES];
    char version[16];
    uint8_t zero[60];
};
#define FY_ID_MAGIC "FERRYID"
int fy_id_read(const ferry_uniqueid_t *bytes, struct fy_id *id, struct ferry_error *error);
struct fy_join {
    const struct fy_log *log;
    const struct fy_id *id;
    struct fy_identity self;
    double timeout;
    uint64_t deadline;
};
/* Blocks until every PE has arrived; table holds join->self.size addresses. job_id: this job's, of all that may meet by
 * the id. */
int fy_meeting_join(const struct fy_join *join, struct fy_addr *table, uint64_t *job_id, struct ferry_error *error);

#endif
