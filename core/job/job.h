/* SPDX-License-Identifier: Apache-2.0
 * The job object: everything one PE holds, from options to the symmetric heap. No state lives outside it.
 * Made and unmade by the setup thread; the control and service threads work on it in between. */
#ifndef FY_JOB_JOB_H
#define FY_JOB_JOB_H

#include "../base/option.h"
#include "../memory/memory.h"
#include "../order/channel.h"
#include "../order/team.h"
#include "../order/wait.h"
#include "../proxy/proxy.h"
#include "../route/route.h"
#include "boot.h"
#include "report.h"

struct ferry_job {
    struct fy_world world;
    struct fy_log log;
    struct fy_errors *errors;
    char **overrides; /* copy of attr->options */
    struct fy_source source;
    struct fy_options options;
    struct fy_boot *boot;
    struct fy_gpu *gpu;
    struct fy_route *route;
    struct fy_heap *heap;
    struct fy_barrier barrier;
    struct fy_teams *teams;
    struct ferry_ctx *default_ctx;
    uint32_t local_pes, my_place;
    uint32_t node; /* this PE's host, says the launcher; FERRY_BOOT_NO_NODE: it does not */
    bool one_host;              /* all PEs run on one host, as one user */
    struct ferry_place *places; /* of the local PEs */
    bool needs_mail, needs_get; /* some PE of the job makes use of the mailbox, for gets, too */
    bool running; /* init is over: collective calls have no time limit, since a peer may compute for an hour */
    uint8_t secret[FERRY_SECRET_BYTES];
    uint64_t job_id;

    /* service endpoints: endpoint_lanes * n_pes records of endpoint_stride bytes, sealed */
    uint8_t *endpoints;
    size_t endpoint_stride;
    uint32_t endpoint_lanes;

    struct fy_cores cores;      /* for its threads, as seen when the job began */
    struct fy_proxy *proxy;

    pthread_t service;
    bool service_running;
    _Atomic bool service_stop;

    /* what the application wants to be told; the lock is held while it is told */
    pthread_mutex_t handler_lock;
    ferry_error_handler_t handler;
    void *handler_arg;

    struct fy_look_job look;    /* the control thread's */
    struct fy_report report;

    struct ferry_counters retired; /* of destroyed contexts; guarded by world.lock */
};

/* job_init.c, job_final.c: what ferry_init and ferry_finalize do. */
int fy_job_init(const ferry_attr_t *attr, struct ferry_job **job);
int fy_job_finalize(struct ferry_job *job);
/* Releases whatever there is; no communication. */
void fy_job_release(struct ferry_job *job);

/* agree.c: exchanges what must be equal on all PEs, and whether each got this far. `mine` is this PE's status so far, with
 * its record in *error; if any PE failed, every PE gets an error that names it. */
int fy_job_agree(struct ferry_job *job, int mine, struct ferry_error *error);

/* here.c: where the calling thread may run, and the GPU that the options name. */
void fy_job_here(struct ferry_place *place, const struct fy_options *options);
/* Empty, or a PCI address, which is then written as the kernel does. `size`: that of ferry_place's. */
bool fy_job_gpu(const char *text, char *address, size_t size);
/* Numbers that no row of an option can bound. FERRY_OK, or FERRY_ERR_CONFIG and the record. */
int fy_job_bounds(const struct fy_options *options, struct ferry_error *error);

/* The same for any later step: FERRY_OK only if it is OK on every PE. */
int fy_job_same_fate(struct ferry_job *job, int mine, const char *step, struct ferry_error *error);

/* wire.c: endpoints, who reaches whom, connect requests. */
int fy_job_wire(struct ferry_job *job, struct ferry_error *error);
void fy_job_endpoints_free(struct ferry_job *job);
const void *fy_job_endpoint(void *job, uint32_t lane, uint32_t pe, size_t *size);
int fy_job_call(void *job, uint32_t pe, const void *request, size_t size, void *reply, size_t capacity, size_t *reply_size,
                struct ferry_error *error);
int fy_job_key(void *job, uint32_t pe, uint32_t segment, uint32_t t, void *key, size_t capacity, size_t *size,
               struct ferry_error *error);
int fy_job_ask_state(struct ferry_job *job, uint32_t pe, struct fy_state *state, size_t *size, double timeout, struct ferry_error *error);
int fy_job_announce(void *job, uint32_t pe, struct ferry_error *error);
int fy_job_serve(void *job, uint32_t from, uint32_t type, const void *request, size_t size, void *reply, size_t capacity,
                 size_t *reply_size);

/* domain.c: agrees on the ways of atomics; makes the mailbox if somebody needs it, after the heap. */
int fy_job_domains(struct ferry_job *job, struct ferry_error *error);
/* The bits that any PE has set. Collective. */
int fy_job_any(struct ferry_job *job, uint32_t mine, const char *step, uint32_t *any, struct ferry_error *error);
int fy_job_way_of(void *job, uint32_t pe, unsigned width);
int fy_job_mailbox(struct ferry_job *job, struct ferry_error *error);

/* events.c: news from the control thread and from transports. */
void fy_job_dead(void *job, uint32_t pe, const char *why);
void fy_job_left(void *job, uint32_t pe);
void fy_job_aborted(void *job, uint32_t by, int code);
void fy_job_deliver(void *job, uint32_t from, uint64_t data);
void fy_job_transport_error(void *job, const struct ferry_error *record);
/* Adds the counters of a context that ends to the job's. */
void fy_job_retire(void *job, const struct ferry_counters *counters);

/* service.c: the thread that serves targets and moves operations along, for transports that want it. */
int fy_job_service_start(struct ferry_job *job, struct ferry_error *error);
void fy_job_service_stop(struct ferry_job *job);

#endif
