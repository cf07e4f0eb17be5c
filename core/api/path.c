/* SPDX-License-Identifier: Apache-2.0
 * ferry_path_get: which transport carries what to a PE. Any thread; all of it was settled at init. */
#include "api.h"

#include <stdio.h>
#include <string.h>

static const char *name_of(const struct fy_world *world, int lane)
{
    return world->transports[lane]->name;
}

/* The rules of docs/semantics.md, as fy_job_domains and fy_amo_made apply them. */
static void atomics(const struct fy_world *world, const struct fy_peer *peer, unsigned wide, char *out, size_t size)
{
    const struct ferry_caps *caps = world->lanes[peer->lane].caps;
    uint32_t kinds = caps->domain == FERRY_DOMAIN_CPU ? (wide ? caps->amo64 : caps->amo32) & FY_AMO_ALL : 0;
    if (peer->way[wide] != FY_WAY_MAIL)
        snprintf(out, size, "%s", name_of(world, peer->way[wide]));
    else
        snprintf(out, size, "%s%s%s", kinds ? name_of(world, peer->lane) : "", kinds && !fy_amo_has_all(kinds) ? ", " : "",
                 fy_amo_has_all(kinds) ? "" : "mailbox");
}

int ferry_path_get(ferry_job_t *job, int pe, ferry_path_t *path)
{
    struct ferry_path found = {0};
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    struct fy_world *world = &job->world;
    if (pe < 0 || (uint32_t)pe >= world->n_pes)
        return fy_usage(job, "ferry_path_get: pe %d is not in 0 to %u", pe, world->n_pes - 1);
    if (!path || path->size < sizeof(path->size))
        return fy_usage(job, "ferry_path_get: path is null, or its size is not set");
    const struct fy_peer *peer = &world->peers[pe];
    found.size = path->size < sizeof(found) ? path->size : (uint32_t)sizeof(found);
    found.same_host = peer->same_host;
    snprintf(found.data, sizeof(found.data), "%s", name_of(world, peer->lane));
    atomics(world, peer, 1, found.atomic64, sizeof(found.atomic64));
    atomics(world, peer, 0, found.atomic32, sizeof(found.atomic32));
    memcpy(path, &found, found.size);
    return FERRY_OK;
}
