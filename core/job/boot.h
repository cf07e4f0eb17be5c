/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap: brings the PEs of a job together, exchanges bytes, watches who lives, carries control messages.
 * One control thread per PE owns all sockets; the functions below are for the setup thread, unless said. */
#ifndef FY_JOB_BOOT_H
#define FY_JOB_BOOT_H

#include "../base/log.h"
#include <ferry/ferry.h>

struct fy_boot;
struct fy_launch;

/* Called from the control thread; must not block. */
struct fy_boot_events {
    void *arg;
    /* Once per dead PE; `why` is in words ("connection lost", "no sign of life for 10 s"). */
    void (*dead)(void *arg, uint32_t pe, const char *why);
    void (*aborted)(void *arg, uint32_t by, int code);
    /* Serves fy_boot_call of a peer: writes at most `capacity` bytes of reply. */
    int (*serve)(void *arg, uint32_t from, uint32_t type, const void *request, size_t size, void *reply, size_t capacity,
                 size_t *reply_size);
    /* Once per PE that closed its job while this one goes on. */
    void (*left)(void *arg, uint32_t pe);
    /* Now and then, if it is set; returns when to call again. */
    uint64_t (*tick)(void *arg, uint64_t now);
};

#define FY_BOOT_MESSAGE_MAX 4096u /* request or reply of fy_boot_call */

struct fy_boot_config {
    const struct fy_log *log;
    uint32_t rank, n_pes;
    const ferry_uniqueid_t *id;                     /* to meet by; else */
    const struct fy_launch *launch;                 /* its allgather, opened; n_pes 1 needs neither */
    const char *interface_;                         /* FERRY_INTERFACE */
    double timeout;                                 /* FERRY_TIMEOUT, seconds */
    double peer_timeout;                            /* FERRY_PEER_TIMEOUT; 0: no verdicts */
    struct fy_boot_events events;
};

/* Collective. On return all control threads are up and the tree is connected. FERRY_ERR_BOOTSTRAP or FERRY_ERR_TIMEOUT with the
 * missing PEs in the message; FERRY_ERR_MISMATCH when rank, size, id or version disagree. */
int fy_boot_start(const struct fy_boot_config *config, struct fy_boot **boot, struct ferry_error *error);
/* Collective. `step` is for messages ("exchange of endpoints"). Bounded by timeout seconds (0: by nothing but deaths): then the record
 * names the missing PEs. Ends with FERRY_ERR_PEER when a PE died. length may differ from step to step, not between PEs. */
int fy_boot_allgather(struct fy_boot *boot, const void *mine, void *all, size_t length, const char *step, double timeout,
                      struct ferry_error *error);
/* The same, but what comes back is one contribution of `length` bytes: all of them, combined in any order and grouping. A step
 * costs each PE as much in a large job as in a small one, but for the levels of the tree. `data` is in and out. */
typedef void fy_combine_fn(void *into, const void *other); /* control thread; both are aligned to 8 */
int fy_boot_reduce(struct fy_boot *boot, void *data, size_t length, fy_combine_fn *combine, const char *step, double timeout,
                   struct ferry_error *error);
int fy_boot_barrier(struct fy_boot *boot, const char *step, double timeout, struct ferry_error *error);
/* A request to one PE, served by its control thread while it computes. Any thread but the control thread; several at once. */
int fy_boot_call(struct fy_boot *boot, uint32_t pe, uint32_t type, const void *request, size_t size, void *reply,
                 size_t capacity, size_t *reply_size, double timeout, struct ferry_error *error);
/* Has the control thread call fn(arg) while fd is readable. Any thread but the control thread. */
int fy_boot_watch(struct fy_boot *boot, int fd, void (*fn)(void *arg), void *arg);
/* On return fn is not running and will not run. */
void fy_boot_unwatch(struct fy_boot *boot, int fd);
/* Tells everybody. Any thread. */
void fy_boot_abort(struct fy_boot *boot, int code);
/* 32 bytes and a number that all PEs of the job share and nobody else knows. */
void fy_boot_secret(const struct fy_boot *boot, uint8_t secret[FERRY_SECRET_BYTES], uint64_t *job_id);
/* Waits, for a few seconds at most, until every PE closes the job; also after an abort or a failed step, not after a death.
 * From then on no PE is in any call: call it before memory that peers may reach is released. fy_boot_close does it too. */
void fy_boot_settle(struct fy_boot *boot);
/* Says goodbye (so that peers do not take the closing for a death), ends the control thread, closes all sockets. */
void fy_boot_close(struct fy_boot *boot);

/* ferry_uniqueid_create: makes id, and the thread that serves the meeting of one job. log NULL: warnings to stderr. */
int fy_meeting_create(const struct fy_log *log, const char *interface_, double timeout, ferry_uniqueid_t *id,
                      struct ferry_error *error);
/* ferry_meeting_open and what goes with it: one job after another, until it is closed. `timeout` is for each job, from
 * its first PE on. */
int fy_meeting_open(const struct fy_log *log, const char *interface_, double timeout, ferry_uniqueid_t *id,
                    struct ferry_meeting **meeting, struct ferry_error *error);
int fy_meeting_lost(struct ferry_meeting *meeting, int rank);
void fy_meeting_close(struct ferry_meeting *meeting);

#endif
