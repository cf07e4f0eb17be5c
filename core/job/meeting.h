/* SPDX-License-Identifier: Apache-2.0
 * The meeting, inside: its state, and what its two files call of each other. All of it is the meeting thread's, except
 * that fy_meeting_lost and fy_meeting_close of boot.h write to `orders`. */
#ifndef FY_JOB_MEETING_H
#define FY_JOB_MEETING_H

#include "boot.h"
#include "boot_wire.h"
#include <pthread.h>

#define FY_LINGER_S 2.0 /* after the end: answers those who come late, and lets the last bytes out */

/* Roles of connections. */
enum { FY_GUEST = 0, FY_SEATED, FY_SERVED, FY_REFUSED };

/* One job that comes together. */
struct fy_round {
    uint64_t job_id;
    uint32_t size, arrived; /* size 0: nobody has said it yet */
    uint32_t said_by;       /* who said it first */
    struct fy_addr *table;
    uint8_t *here; /* who has arrived; once it failed, who knows it */
    int status;    /* not FERRY_OK: it failed, */
    int peer;      /* because of this PE, or -1 */
    char why[256];
    char note[160]; /* what else went wrong, to explain a missing PE */
};

struct ferry_meeting {
    struct fy_log log;
    struct fy_hub hub;
    uint8_t secret[FERRY_SECRET_BYTES];
    double timeout;
    uint64_t deadline;
    bool lasting; /* one job after another; else for one job */
    bool over;    /* for one job: it stands, or failed */
    struct fy_round round;
    uint8_t *lost; /* by rank: its process has ended */
    uint32_t n_lost;
    /* of a lasting one */
    int orders[2]; /* pipe of ranks that were lost; FY_NOBODY: the end */
    pthread_t thread;
};

void fy_round_proven(struct ferry_meeting *m, struct fy_conn *conn); /* somebody who knows the secret */
void fy_round_lost(struct ferry_meeting *m, struct fy_conn *conn);   /* a connection ended */
void fy_round_ended(struct ferry_meeting *m, uint32_t rank);         /* a process ended, says the launcher */
/* Tells all who are there, and from now on all who come. */
void fy_round_fail(struct ferry_meeting *m, int status, int peer, const char *why);
void fy_round_late(struct ferry_meeting *m, double timeout); /* the time of the round is over */
void fy_round_free(struct ferry_meeting *m);

#endif
