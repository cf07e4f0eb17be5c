/* SPDX-License-Identifier: Apache-2.0
 * The serving side of the mailbox towards one initiator. Everything under world->serving.
 * Included by the mailbox's own files only. */
#ifndef FY_ORDER_MAIL_SOURCE_H
#define FY_ORDER_MAIL_SOURCE_H

#include "mail.h"

/* What is still to be done about a request that was carried out. */
enum fy_reply_state {
    FY_REPLY_NONE,  /* nothing: the slot is the initiator's */
    FY_REPLY_UPDATE, /* AMO on memory that the CPU may not touch: not begun, or under way */
    FY_REPLY_DATA,  /* GET: the data is to be put */
    FY_REPLY_WAIT,  /* GET: the data has to be complete before the reply, because nothing else orders the two */
    FY_REPLY_READY, /* the reply is to be put */
};

struct fy_reply {
    uint8_t state; /* enum fy_reply_state */
    bool behind;   /* the reply has to be ordered behind the data */
    int status;
    uint64_t number; /* of the request */
    uint64_t value;
    uint64_t wave; /* the ticket that will cover what was put last for this slot; see fy_mail_source.waves */
    uint64_t done; /* bytes of the data that were put */
    struct fy_mail_request request; /* GET */
};

struct fy_mail_source {
    uint32_t pe;
    bool gone;               /* replies cannot be put any more */
    uint64_t next;           /* number of the request to be read next */
    uint32_t n_held;
    struct {
        struct fy_mail_request request;
        uint64_t number;
    } held[FY_MAIL_SLOTS];   /* read, but not to be carried out yet; in the order they came */
    uint32_t n_replies;      /* not FY_REPLY_NONE */
    struct fy_reply replies[FY_MAIL_SLOTS];
    /* Tickets on what was put to this PE: `waves` were drawn, those up to `landed` are good. */
    uint64_t waves, landed, ticket;
    uint32_t **counts;       /* [channel][epoch]: puts that arrived */
};

/* mail_update.c: begins the update of a reply that waits for it, or moves it along; true: something moved. Under
 * world->serving, and the lock of ctx. */
bool fy_mail_update(struct ferry_ctx *ctx, struct fy_reply *reply);

#endif
