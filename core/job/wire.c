/* SPDX-License-Identifier: Apache-2.0
 * Wiring: exchanges the service endpoints, decides which transport carries a peer, carries connect requests.
 * Setup thread; serving runs on the control thread. */
#include "job.h"

#include "../base/blob.h"
#include "../base/reserve.h"
#include "../order/mail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Requests between control threads. */
#define CALL_CONNECT 1u
#define CALL_KEY 2u
#define CALL_MAIL 3u
#define CALL_STATE 4u

struct record {
    struct fy_blob blob;
    uint8_t bytes[FERRY_ENDPOINT_MAX];
};

static int export_endpoints(struct ferry_job *job, struct record *own, size_t *largest, struct ferry_error *error)
{
    *largest = 0;
    for (uint32_t i = 0; i < job->world.n_lanes; i++) {
        const struct fy_lane *lane = &job->world.lanes[i];
        size_t size = 0;
        int rc = lane->ops->export_endpoint(lane->handle, own[i].bytes, &size);
        if (rc >= 0 && size > FERRY_ENDPOINT_MAX)
            rc = FERRY_ERR_LIMIT;
        if (rc < 0) {
            fy_error_set(error, rc, NULL, "transport %s gave no endpoint (%zu bytes, %u allowed): %s",
                         job->world.transports[i]->name, size, FERRY_ENDPOINT_MAX, ferry_status_string(rc));
            return rc;
        }
        fy_blob_seal(&own[i].blob, FY_BLOB_ENDPOINT, job->world.my_pe, (uint16_t)size);
        *largest = size > *largest ? size : *largest;
    }
    return FERRY_OK;
}

static void larger(void *into, const void *other)
{
    uint64_t *most = into;
    const uint64_t *more = other;
    *most = *more > *most ? *more : *most;
}

/* Sizes differ between transports, not much between PEs: agree on the largest, then exchange records of that size. */
static int agree_stride(struct ferry_job *job, uint64_t largest, struct ferry_error *error)
{
    int rc = fy_boot_reduce(job->boot, &largest, sizeof(largest), larger, "sizes of endpoints", job->world.timeout, error);
    if (rc == FERRY_OK && largest > FERRY_ENDPOINT_MAX) {
        rc = FERRY_ERR_MISMATCH;
        fy_error_set(error, rc, NULL, "a pe has an endpoint of %llu bytes, %u are allowed", (unsigned long long)largest,
                     FERRY_ENDPOINT_MAX);
    }
    job->endpoint_stride = sizeof(struct fy_blob) + ((largest + 7) & ~(size_t)7);
    return rc;
}

static int exchange_endpoints(struct ferry_job *job, const struct record *own, struct ferry_error *error)
{
    size_t stride = job->endpoint_stride, mine = stride * job->world.n_lanes;
    job->endpoint_lanes = job->world.n_lanes;
    uint8_t *packed = calloc(1, mine);
    job->endpoints = fy_pages_get(job->world.n_pes * mine);
    if (!packed || !job->endpoints) {
        free(packed);
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for %u endpoints", job->world.n_pes);
        return FERRY_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < job->world.n_lanes; i++)
        memcpy(packed + i * stride, &own[i], sizeof(own[i].blob) + own[i].blob.size);
    int rc = fy_boot_allgather(job->boot, packed, job->endpoints, mine, "endpoints", job->world.timeout, error);
    free(packed);
    return rc;
}

const void *fy_job_endpoint(void *arg, uint32_t lane, uint32_t pe, size_t *size)
{
    struct ferry_job *job = arg;
    *size = 0;
    if (!job->endpoints)
        return NULL; /* no transport has a connect that would want it */
    const uint8_t *record = job->endpoints + ((size_t)pe * job->endpoint_lanes + lane) * job->endpoint_stride;
    const void *payload = NULL;
    if (fy_blob_open(record, job->endpoint_stride, FY_BLOB_ENDPOINT, pe, &payload, size))
        return NULL;
    return payload;
}

/* The first transport in the order that reaches the peer. */
static int choose_lane(struct ferry_job *job, uint32_t pe, struct ferry_error *error)
{
    char reasons[256] = "";
    for (uint32_t i = 0; i < job->world.n_lanes; i++) {
        const struct fy_lane *lane = &job->world.lanes[i];
        char why[128] = "no reason given";
        size_t size;
        const void *endpoint = fy_job_endpoint(job, i, pe, &size);
        int rc = endpoint ? lane->ops->reach(lane->handle, pe, endpoint, size, why, sizeof(why)) : FERRY_ERR_TRANSPORT;
        if (rc >= 0) {
            job->world.peers[pe].lane = (int8_t)i;
            return FERRY_OK;
        }
        size_t used = strlen(reasons);
        snprintf(reasons + used, sizeof(reasons) - used, "%s%s: %s", used ? "; " : "", job->world.transports[i]->name,
                 endpoint ? why : "its endpoint arrived damaged");
    }
    fy_error_set(error, FERRY_ERR_UNREACHABLE, "name a transport in FERRY_TRANSPORT that spans both hosts",
                 "no chosen transport reaches pe %u from pe %u (%s)", pe, job->world.my_pe, reasons);
    error->peer = (int32_t)pe;
    return FERRY_ERR_UNREACHABLE;
}

void fy_job_endpoints_free(struct ferry_job *job)
{
    fy_pages_put(job->endpoints, job->world.n_pes * job->endpoint_stride * job->endpoint_lanes);
    job->endpoints = NULL;
}

/* Endpoints are kept for connecting only: a peer that is never contacted should cost next to nothing. */
static void forget_endpoints(struct ferry_job *job)
{
    for (uint32_t i = 0; i < job->world.n_lanes; i++)
        if (fy_transport_connects(job->world.transports[i]))
            return;
    fy_job_endpoints_free(job);
}

/* What carries nothing is closed before it costs something: memory registered with it, and locks and a thread for everybody,
 * if it wants progress made. What stands before a transport in use stays, since its number counts. */
static int drop_unused(struct ferry_job *job, struct ferry_error *error)
{
    struct fy_world *world = &job->world;
    uint32_t mine = 0, any, n;
    for (uint32_t pe = 0; pe < world->n_pes; pe++) {
        const struct fy_peer *peer = &world->peers[pe];
        mine |= 1u << peer->lane;
        for (unsigned wide = 0; wide < 2; wide++)
            mine |= peer->way[wide] >= 0 ? 1u << peer->way[wide] : 0;
    }
    int rc = fy_job_any(job, mine, "transports in use", &any, error);
    n = rc == FERRY_OK ? 32 - (uint32_t)__builtin_clz(any) : world->n_lanes;
    if (n >= world->n_lanes)
        return rc;
    fy_route_keep(job->route, n);
    fy_world_lanes(world, job->route->chosen, n);
    return FERRY_OK;
}

int fy_job_wire(struct ferry_job *job, struct ferry_error *error)
{
    struct record *own = calloc(job->world.n_lanes, sizeof(*own));
    size_t largest = 0;
    int rc = own ? export_endpoints(job, own, &largest, error) : FERRY_ERR_NOMEM;
    if (!own)
        fy_error_set(error, rc, NULL, "no memory for endpoints");
    rc = fy_job_same_fate(job, rc, "opening of transports", error);
    if (rc == FERRY_OK)
        rc = agree_stride(job, largest, error);
    if (rc == FERRY_OK)
        rc = exchange_endpoints(job, own, error);
    free(own);
    if (rc != FERRY_OK)
        return rc;
    for (uint32_t pe = 0; pe < job->world.n_pes && rc == FERRY_OK; pe++)
        rc = choose_lane(job, pe, error);
    rc = fy_job_same_fate(job, rc, "choice of transports", error);
    if (rc == FERRY_OK)
        rc = fy_job_domains(job, error);
    if (rc == FERRY_OK)
        rc = drop_unused(job, error);
    forget_endpoints(job);
    return rc;
}

int fy_job_call(void *arg, uint32_t pe, const void *request, size_t size, void *reply, size_t capacity, size_t *reply_size,
                struct ferry_error *error)
{
    struct ferry_job *job = arg;
    uint32_t told = fy_page_wait(&job->world.page, (int)pe, -1, "connecting");
    int rc = fy_boot_call(job->boot, pe, CALL_CONNECT, request, size, reply, capacity, reply_size, job->world.timeout, error);
    fy_page_wait_over(&job->world.page, told);
    return rc;
}

int fy_job_key(void *arg, uint32_t pe, uint32_t segment, uint32_t t, void *key, size_t capacity, size_t *size,
               struct ferry_error *error)
{
    struct ferry_job *job = arg;
    const uint32_t request[2] = {segment, t};
    struct ferry_error why = {.size = sizeof(why)};
    uint32_t told = fy_page_wait(&job->world.page, (int)pe, -1, "asking for a key");
    int rc = fy_boot_call(job->boot, pe, CALL_KEY, request, sizeof(request), key, capacity, size, job->world.timeout, &why);
    fy_page_wait_over(&job->world.page, told);
    if (rc == FERRY_OK)
        return rc;
    fy_error_set(error, rc, why.hint, "pe %u gives no key for segment %u: %s", pe, segment, why.message);
    error->peer = (int32_t)pe;
    return rc;
}

int fy_job_announce(void *arg, uint32_t pe, struct ferry_error *error)
{
    struct ferry_job *job = arg;
    struct ferry_error why = {.size = sizeof(why)};
    char none;
    size_t size;
    uint32_t told = fy_page_wait(&job->world.page, (int)pe, -1, "opening a mailbox");
    int rc = fy_boot_call(job->boot, pe, CALL_MAIL, "", 0, &none, 0, &size, job->world.timeout, &why);
    fy_page_wait_over(&job->world.page, told);
    if (rc == FERRY_OK)
        return rc;
    fy_error_set(error, rc, why.hint, "pe %u does not open its mailbox: %s", pe, why.message);
    error->peer = (int32_t)pe;
    return rc;
}

int fy_job_ask_state(struct ferry_job *job, uint32_t pe, struct fy_state *state, size_t *size, double timeout, struct ferry_error *error)
{
    _Static_assert(sizeof(*state) <= FY_BOOT_MESSAGE_MAX, "a state is one message");
    return fy_boot_call(job->boot, pe, CALL_STATE, "", 0, state, sizeof(*state), size, timeout, error);
}

static int serve_state(struct ferry_job *job, void *reply, size_t capacity, size_t *reply_size)
{
    if (capacity < sizeof(struct fy_state) || !atomic_load(&job->look.on))
        return FERRY_ERR_STATE;
    fy_job_state(job, reply);
    *reply_size = sizeof(struct fy_state);
    return FERRY_OK;
}

static int serve_connect(struct ferry_job *job, uint32_t from, const void *request, size_t size, void *reply, size_t capacity,
                         size_t *reply_size)
{
    uint32_t index, channel;
    if (size < 8 || capacity < FERRY_ENDPOINT_MAX)
        return FERRY_ERR_UNSUPPORTED;
    memcpy(&index, request, 4);
    memcpy(&channel, (const uint8_t *)request + 4, 4);
    if (index >= job->world.n_lanes)
        return FERRY_ERR_ARG;
    const struct fy_lane *lane = &job->world.lanes[index];
    struct ferry_connect io = {.size = sizeof(io), .phase = FERRY_CONNECT_SERVE, .in = (const uint8_t *)request + 8,
                               .in_size = size - 8, .out = reply};
    int rc = lane->ops->connect(lane->handle, channel, from, &io);
    if (rc == FERRY_OK)
        *reply_size = io.out_size;
    return rc;
}

static int serve_key(struct ferry_job *job, const void *request, size_t size, void *reply, size_t capacity, size_t *reply_size)
{
    uint32_t asked[2];
    if (size != sizeof(asked) || !job->heap)
        return FERRY_ERR_ARG;
    memcpy(asked, request, sizeof(asked));
    return fy_heap_own_key(job->heap, asked[0], asked[1], reply, capacity, reply_size);
}

int fy_job_serve(void *arg, uint32_t from, uint32_t type, const void *request, size_t size, void *reply, size_t capacity,
                 size_t *reply_size)
{
    struct ferry_job *job = arg;
    *reply_size = 0;
    if (type == CALL_CONNECT)
        return serve_connect(job, from, request, size, reply, capacity, reply_size);
    if (type == CALL_KEY)
        return serve_key(job, request, size, reply, capacity, reply_size);
    if (type == CALL_MAIL)
        return fy_mail_open(&job->world, from);
    if (type == CALL_STATE)
        return serve_state(job, reply, capacity, reply_size);
    return FERRY_ERR_UNSUPPORTED;
}
