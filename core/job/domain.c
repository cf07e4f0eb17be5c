/* SPDX-License-Identifier: Apache-2.0
 * Atomicity domains: whose atomics all PEs use on a PE's memory, by width; and whether the job needs the mailbox.
 * Setup thread, collective. docs/semantics.md has the rules. */
#include "job.h"

#include "../base/reserve.h"
#include "../order/mail.h"

/* One PE's view of the ways to one owner, per width: bit i, transport i carries atomics to it that all PEs could use; the top
 * bit: the transport of its puts uses CPU atomics and has every kind. PEs combine theirs by AND. */
struct view {
    uint32_t ways[2]; /* 4 bytes, 8 bytes */
};
#define CPU_BIT (1u << 31)

#define WAYS_STEP "choice of atomicity domains"

/* A network card's atomics of that width, with which every kind can be made. */
static bool carries(const struct fy_lane *lane, unsigned wide)
{
    return lane->caps->domain == FERRY_DOMAIN_NIC && fy_amo_makes_all(lane->caps, wide ? 8 : 4);
}

static bool reaches(struct ferry_job *job, uint32_t i, uint32_t pe)
{
    const struct fy_lane *lane = &job->world.lanes[i];
    char why[128];
    size_t size;
    const void *endpoint = fy_job_endpoint(job, i, pe, &size);
    return endpoint && lane->ops->reach(lane->handle, pe, endpoint, size, why, sizeof(why)) >= 0;
}

static void look(struct ferry_job *job, uint32_t pe, struct view *view)
{
    struct fy_world *world = &job->world;
    const struct fy_lane *own = &world->lanes[world->peers[pe].lane];
    for (unsigned wide = 0; wide < 2; wide++) {
        uint32_t kinds = wide ? own->caps->amo64 : own->caps->amo32;
        view->ways[wide] = own->caps->domain == FERRY_DOMAIN_CPU && fy_amo_has_all(kinds) ? CPU_BIT : 0;
        for (uint32_t i = 0; i < world->n_lanes && i < 31; i++)
            if (carries(&world->lanes[i], wide) && reaches(job, i, pe))
                view->ways[wide] |= 1u << i;
    }
}

/* The same on every PE, since it depends on the combined views alone. CPU atomics, where everybody can use them, are the
 * fastest; else the first card that everybody can use; else the owner's CPU does it for those who ask. */
static int8_t choose(uint32_t ways)
{
    if (ways & CPU_BIT || !ways)
        return FY_WAY_MAIL;
    return (int8_t)__builtin_ctz(ways);
}

/* Bytes of all views, first of the frame; it travels as it is. */
struct views {
    uint64_t n;
    struct view of[];
};

static void combine(void *into, const void *other)
{
    struct views *all = into;
    const struct views *more = other;
    for (uint64_t pe = 0; pe < all->n; pe++)
        for (unsigned wide = 0; wide < 2; wide++)
            all->of[pe].ways[wide] &= more->of[pe].ways[wide];
}

static int exchange_views(struct ferry_job *job, struct ferry_error *error)
{
    struct fy_world *world = &job->world;
    size_t bytes = sizeof(struct views) + world->n_pes * sizeof(struct view);
    struct views *views = fy_pages_get(bytes);
    int rc = views ? FERRY_OK : FERRY_ERR_NOMEM;
    if (!views)
        fy_error_set(error, rc, NULL, "no memory to choose domains among %u pes", world->n_pes);
    for (uint32_t pe = 0; views && pe < world->n_pes; pe++)
        look(job, pe, &views->of[pe]);
    rc = fy_job_same_fate(job, rc, WAYS_STEP, error);
    if (rc == FERRY_OK) {
        views->n = world->n_pes;
        rc = fy_boot_reduce(job->boot, views, bytes, combine, WAYS_STEP, world->timeout, error);
    }
    for (uint32_t pe = 0; pe < world->n_pes && rc == FERRY_OK; pe++) {
        world->peers[pe].way[0] = choose(views->of[pe].ways[0]);
        world->peers[pe].way[1] = choose(views->of[pe].ways[1]);
    }
    fy_pages_put(views, bytes);
    return rc;
}

/* ------------------------------------------------------------------ does this PE need the mailbox? */

#define NEED_MAIL 1u
#define NEED_GET 2u
#define SEES_CARD 4u /* some transport here has the atomics of a card */

static uint32_t needs_of(const struct fy_world *world, uint32_t pe)
{
    const struct fy_lane *own = &world->lanes[world->peers[pe].lane];
    uint32_t needs = own->caps->flags & FERRY_CAP_GET ? 0 : NEED_MAIL | NEED_GET;
    bool cpu = own->caps->domain == FERRY_DOMAIN_CPU;
    if (own->counted)
        needs |= NEED_MAIL;
    if (world->peers[pe].way[0] == FY_WAY_MAIL && !(cpu && fy_amo_has_all(own->caps->amo32)))
        needs |= NEED_MAIL;
    if (world->peers[pe].way[1] == FY_WAY_MAIL && !(cpu && fy_amo_has_all(own->caps->amo64)))
        needs |= NEED_MAIL;
    return needs;
}

static void either(void *into, const void *other)
{
    *(uint32_t *)into |= *(const uint32_t *)other;
}

int fy_job_any(struct ferry_job *job, uint32_t mine, const char *step, uint32_t *any, struct ferry_error *error)
{
    int rc = fy_boot_reduce(job->boot, &mine, sizeof(mine), either, step, job->world.timeout, error);
    *any = rc == FERRY_OK ? mine : 0;
    return rc;
}

int fy_job_domains(struct ferry_job *job, struct ferry_error *error)
{
    struct fy_world *world = &job->world;
    uint32_t needs = 0, any;
    for (uint32_t i = 0; i < world->n_lanes; i++)
        if (carries(&world->lanes[i], 0) || carries(&world->lanes[i], 1))
            needs |= SEES_CARD;
    for (uint32_t pe = 0; pe < world->n_pes; pe++)
        world->peers[pe].way[0] = world->peers[pe].way[1] = FY_WAY_MAIL;
    int rc = fy_job_any(job, needs, WAYS_STEP, &any, error);
    if (rc == FERRY_OK && any & SEES_CARD)
        rc = exchange_views(job, error);
    needs = 0;
    for (uint32_t pe = 0; pe < world->n_pes && rc == FERRY_OK; pe++)
        needs |= needs_of(world, pe);
    for (uint32_t i = 0; i < world->n_lanes && rc == FERRY_OK; i++)
        needs |= world->lanes[i].finds_local ? NEED_MAIL : 0; /* atomics on memory that no CPU may touch */
    if (rc == FERRY_OK)
        rc = fy_job_any(job, needs, WAYS_STEP, &any, error);
    job->needs_mail = rc == FERRY_OK && any & NEED_MAIL;
    job->needs_get = rc == FERRY_OK && any & NEED_GET;
    return rc;
}

int fy_job_way_of(void *arg, uint32_t pe, unsigned width)
{
    const struct ferry_job *job = arg;
    return job->world.peers[pe].way[width == 8];
}

int fy_job_mailbox(struct ferry_job *job, struct ferry_error *error)
{
    void *memory;
    if (!job->needs_mail)
        return FERRY_OK;
    int rc = fy_heap_alloc(job->heap, fy_mail_bytes(job->world.n_pes, job->needs_get), 64, &memory, error);
    if (rc == FERRY_OK)
        rc = fy_mail_create(&job->world, memory, job->needs_get, error);
    job->world.serves |= rc == FERRY_OK;
    return rc;
}
