/* SPDX-License-Identifier: Apache-2.0
 * Which ports a PE uses: those that its map names, else the nearest, shared out among the PEs of the host that are as
 * near. Setup thread. The same input gives every PE the same answer, so nobody has to be asked. */
#include "devices.h"

#include <stdio.h>
#include <string.h>

const struct ferry_place *fy_ib_place(const struct ferry_place *places, uint32_t i)
{
    return (const struct ferry_place *)(const void *)((const char *)places + (size_t)i * places->size);
}

/* Who chooses, and what the PEs before it have taken. */
struct chooser {
    const struct fy_ib_scan *s;
    struct fy_ib_locality *locality;
    uint32_t load[FY_IB_PORTS]; /* PEs that use the port */
};

/* What speaks against a port, the weightiest first. */
struct rank {
    uint32_t index, level, foreign, load;
};

static int before(const struct rank *a, const struct rank *b)
{
    if (a->level != b->level)
        return a->level < b->level;
    if (a->foreign != b->foreign)
        return a->foreign < b->foreign;
    if (a->load != b->load)
        return a->load < b->load;
    return a->index < b->index;
}

static void sort(struct rank *ranks, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = i; j > 0 && before(&ranks[j], &ranks[j - 1]); j--) {
            struct rank swap = ranks[j];
            ranks[j] = ranks[j - 1];
            ranks[j - 1] = swap;
        }
}

static uint32_t rank_ports(struct chooser *c, const struct ferry_place *place, struct rank *ranks,
                           struct fy_ib_choice *out)
{
    const struct fy_ib_options *o = c->s->o;
    uint64_t home = 0; /* subnet of the first of the nearest */
    uint32_t n = 0, nearest = UINT32_MAX;

    for (uint32_t i = 0; i < c->s->n; i++) {
        const struct fy_ib_port *p = &c->s->ports[i];
        if (p->refused)
            continue;
        ranks[n] = (struct rank){.index = i, .level = fy_ib_distance(c->locality, place, p->name, &out->by_gpu)};
        if (ranks[n].level < nearest) {
            nearest = ranks[n].level;
            home = p->subnet;
        }
        n++;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t subnet = c->s->ports[ranks[i].index].subnet;
        ranks[i].load = o->spread == FY_IB_SPREAD_NO ? 0 : c->load[ranks[i].index];
        ranks[i].foreign = o->spread == FY_IB_SPREAD_AUTO && home && subnet && subnet != home;
    }
    sort(ranks, n);
    return n;
}

/* Rails in the order of the scan, so that rail i of one PE meets rail i of another where both have the same. */
static void by_index(struct fy_ib_choice *out)
{
    for (uint32_t i = 1; i < out->n; i++)
        for (uint32_t j = i; j > 0 && out->ports[j] < out->ports[j - 1]; j--) {
            uint8_t swap = out->ports[j];
            out->ports[j] = out->ports[j - 1];
            out->ports[j - 1] = swap;
        }
}

static void nearest(struct chooser *c, const struct ferry_place *place, struct fy_ib_choice *out)
{
    struct rank ranks[FY_IB_PORTS];
    uint32_t n = rank_ports(c, place, ranks, out);
    uint32_t want = c->s->o->rails ? (uint32_t)c->s->o->rails : n;

    if (!n)
        return;
    out->n = want < n ? want : n;
    if (out->n > FY_IB_RAILS)
        out->n = FY_IB_RAILS;
    out->only = n == 1;
    out->level = (uint8_t)ranks[0].level;
    for (uint32_t i = 0; i < n; i++) {
        out->equal += ranks[i].level == ranks[0].level && !ranks[i].foreign;
        out->other += ranks[i].level == ranks[0].level && ranks[i].foreign && i >= out->n;
        if (i < out->n)
            out->ports[i] = (uint8_t)ranks[i].index;
    }
    by_index(out);
}

/* A port that the map names. FERRY_OK with its index, or what is wrong with the name. */
static int find_port(const struct fy_ib_scan *s, const char *name, unsigned port, uint8_t *index, char *why,
                     size_t why_size)
{
    const struct fy_ib_port *bad = NULL;
    char hint[96];
    int known = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        const struct fy_ib_port *p = &s->ports[i];
        if (strcmp(p->name, name) != 0)
            continue;
        known = 1;
        *index = (uint8_t)i;
        if (!p->refused && (!port || p->port == port))
            return FERRY_OK;
        if (p->refused && (!port || p->port == port) && !bad)
            bad = p;
    }
    fy_ib_suggest(s, name, hint, sizeof hint);
    if (bad)
        snprintf(why, why_size, "FERRY_IBRC_MAP names %s:%u, which %s", name, bad->port, bad->refused);
    else if (known)
        snprintf(why, why_size, "FERRY_IBRC_MAP names %s:%u, but %s has no such port", name, port, name);
    else
        snprintf(why, why_size, "FERRY_IBRC_MAP names %s, which is no device here%s", name, hint);
    return bad ? FERRY_ERR_DEVICE : FERRY_ERR_CONFIG;
}

static int mapped(const struct fy_ib_scan *s, uint32_t local, struct fy_ib_choice *out, char *why, size_t why_size)
{
    const char *at, *end;
    size_t length = fy_ib_map_find(s->o->map, local, &at);
    char name[IBV_SYSFS_NAME_MAX];
    unsigned port;

    if (!length) {
        snprintf(why, why_size, "FERRY_IBRC_MAP has no ports for PE %u of this host; *=PORT is for all others", local);
        return FERRY_ERR_CONFIG;
    }
    out->mapped = 1;
    for (end = at + length; fy_ib_map_next(&at, end, name, &port); out->n++) {
        int rc = find_port(s, name, port, &out->ports[out->n], why, why_size);
        if (rc)
            return rc;
        for (uint32_t i = 0; i < out->n; i++)
            if (out->ports[i] == out->ports[out->n]) {
                snprintf(why, why_size, "FERRY_IBRC_MAP names %s:%u twice for PE %u of this host", name,
                         s->ports[out->ports[i]].port, local);
                return FERRY_ERR_CONFIG;
            }
    }
    return FERRY_OK;
}

int fy_ib_choose(const struct fy_ib_scan *s, const struct ferry_place *places, uint32_t n, struct fy_ib_choice *choices,
                 char *why, size_t why_size)
{
    struct chooser c = {.s = s};
    int rc = FERRY_OK;

    memset(choices, 0, n * sizeof *choices);
    if (!*s->o->map && s->n_usable > 1)
        c.locality = fy_ib_locality_open();
    for (uint32_t i = 0; i < n && !rc; i++) {
        if (*s->o->map)
            rc = mapped(s, i, &choices[i], why, why_size);
        else
            nearest(&c, fy_ib_place(places, i), &choices[i]);
        for (uint32_t k = 0; k < choices[i].n; k++)
            c.load[choices[i].ports[k]]++;
    }
    fy_ib_locality_close(c.locality);
    return rc;
}

void fy_ib_choice_text(const struct fy_ib_choice *c, char *out, size_t size)
{
    size_t used;

    if (c->mapped || c->only) {
        snprintf(out, size, c->mapped ? "named by FERRY_IBRC_MAP" : "the only one");
        return;
    }
    snprintf(out, size, "%s", fy_ib_level_string((enum fy_ib_level)c->level, c->by_gpu));
    used = strlen(out);
    if (c->equal > 1)
        snprintf(out + used, size - used, ", one of %u as near", c->equal);
    used = strlen(out);
    if (c->other)
        snprintf(out + used, size - used, ", and %u in other subnets (FERRY_IBRC_SPREAD=yes takes these, too)",
                 c->other);
}
