/* SPDX-License-Identifier: Apache-2.0
 * What ferry-info asks: the plan of --explain, here, and the findings of --doctor, in doctor.c and doctor_ports.c.
 * Setup thread; opens devices for a moment and keeps none open. */
#include "doctor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fy_ib_tell(const struct fy_ib_doctor *d, uint32_t level, const char *object, const char *advice,
                const char *format, ...)
{
    struct ferry_finding finding = {.size = sizeof finding, .level = level, .object = object, .advice = advice};
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    finding.text = text;
    d->ask->tell(d->ask->arg, &finding);
}

void fy_ib_address_text(const struct fy_ib_rail *rail, char *out, size_t size)
{
    static const char *const types[] = {"InfiniBand", "RoCE v1", "RoCE v2"};
    char gid[INET6_ADDRSTRLEN] = "";

    if (!rail->global) {
        snprintf(out, size, "InfiniBand, lid %u", rail->attr.lid);
        return;
    }
    inet_ntop(rail->family == 4 ? AF_INET : AF_INET6, rail->gid.raw + (rail->family == 4 ? 12 : 0), gid, sizeof gid);
    snprintf(out, size, "%s, %s (gid index %u)",
             rail->attr.link_layer == IBV_LINK_LAYER_ETHERNET ? types[rail->gid_type % 3] : types[0], gid,
             rail->gid_index);
}

int fy_ib_look(const struct fy_ib_scan *s, const struct fy_ib_port *p, struct fy_ib_rail *rail, char *why,
               size_t why_size)
{
    struct ibv_context *context = ibv_open_device(p->device);
    struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
    int rc = FERRY_ERR_SYSTEM, error = errno;

    memset(rail, 0, sizeof *rail);
    rail->port = p->port;
    if (!pd)
        snprintf(why, why_size, "the device cannot be opened: %s", strerror(error));
    else if (ibv_query_port(context, p->port, &rail->attr))
        snprintf(why, why_size, "the port cannot be queried");
    else
        rc = fy_ib_gid(context, pd, s->o, rail, why, why_size);
    if (pd)
        ibv_dealloc_pd(pd);
    if (context)
        ibv_close_device(context);
    return rc;
}

/* ------------------------------------------------------------------ the plan */

struct plan {
    const struct ferry_report *ask;
    struct fy_ib_scan s;
    struct fy_ib_choice *choices;
    char addresses[FY_IB_PORTS][128]; /* of ports that somebody uses */
};

static uint32_t users(const struct plan *p, uint8_t port)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->ask->n_places; i++)
        for (uint32_t k = 0; k < p->choices[i].n; k++)
            n += p->choices[i].ports[k] == port;
    return n;
}

static const char *address(struct plan *p, uint8_t port)
{
    char *text = p->addresses[port], why[200] = "";
    struct fy_ib_rail rail;

    if (!text[0] && fy_ib_look(&p->s, &p->s.ports[port], &rail, why, sizeof why) == FERRY_OK)
        fy_ib_address_text(&rail, text, sizeof p->addresses[0]);
    else if (!text[0])
        snprintf(text, sizeof p->addresses[0], "no address: %.100s", why);
    return text;
}

/* "channels 0, 2, ... " of one rail. */
static void say_channels(uint32_t rail, uint32_t rails, uint32_t channels, char *out, size_t size)
{
    size_t used = strlen(out);

    if (rails == 1)
        snprintf(out + used, size - used, "all channels");
    else if (rail >= channels)
        snprintf(out + used, size - used, "no channel");
    else if (rail + rails >= channels)
        snprintf(out + used, size - used, "channel %u", rail);
    else
        snprintf(out + used, size - used, "channels %u, %u%s", rail, rail + rails,
                 rail + 2 * rails < channels ? ", ..." : "");
}

static void tell_pe(struct plan *p, uint32_t i)
{
    const struct ferry_place *place = fy_ib_place(p->ask->places, i);
    const struct fy_ib_choice *c = &p->choices[i];
    struct ferry_finding finding = {.size = sizeof finding, .level = FERRY_FINDING_OK};
    char object[32], text[1800] = "", why[400];
    size_t used;

    snprintf(object, sizeof object, "pe %u", place->pe);
    for (uint32_t k = 0; k < c->n; k++) {
        const struct fy_ib_port *port = &p->s.ports[c->ports[k]];
        used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s:%u, %s: ", k ? "; " : "", port->name, port->port,
                 address(p, c->ports[k]));
        say_channels(k, c->n, p->ask->n_channels, text, sizeof text);
    }
    fy_ib_choice_text(c, why, sizeof why);
    used = strlen(why);
    snprintf(why + used, sizeof why - used, "; %u of %u PEs use its first port", users(p, c->ports[0]),
             p->ask->n_places);
    finding.object = object;
    finding.text = text;
    finding.advice = why;
    p->ask->tell(p->ask->arg, &finding);
}

static void tell_failure(const struct plan *p, const char *why)
{
    struct ferry_finding finding = {
        .size = sizeof finding, .level = FERRY_FINDING_PROBLEM, .object = "no plan", .text = "none", .advice = why};

    p->ask->tell(p->ask->arg, &finding);
}

static int plan(const struct ferry_core *core, const struct ferry_report *ask, const struct fy_ib_options *o)
{
    struct plan *p = calloc(1, sizeof *p);
    char why[256] = "";
    int rc = FERRY_ERR_NOMEM;

    if (!p)
        return rc;
    p->ask = ask;
    fy_ib_scan(&p->s, core, o, FERRY_LOG_DEBUG);
    p->choices = calloc(ask->n_places ? ask->n_places : 1, sizeof *p->choices);
    if (p->choices && p->s.n_usable) {
        rc = fy_ib_choose(&p->s, ask->places, ask->n_places, p->choices, why, sizeof why);
        for (uint32_t i = 0; i < ask->n_places && !rc; i++)
            tell_pe(p, i);
        if (rc)
            tell_failure(p, why);
        rc = FERRY_OK;
    } else if (p->choices) {
        fy_ib_scan_none(&p->s, why, sizeof why);
        tell_failure(p, why);
        rc = FERRY_OK;
    }
    fy_ib_scan_end(&p->s);
    free(p->choices);
    free(p);
    return rc;
}

int fy_ib_report(const struct ferry_core *core, const struct ferry_report *ask)
{
    struct fy_ib_options o = {0};
    struct fy_ib_doctor d = {.core = core, .ask = ask};
    struct ferry_value root;
    char why[256] = "";
    int rc = fy_ib_options(core, &o, why, sizeof why);

    if (ask->kind != FERRY_REPORT_HEALTH && ask->kind != FERRY_REPORT_PLAN)
        return FERRY_ERR_UNSUPPORTED;
    if (rc && ask->kind == FERRY_REPORT_HEALTH)
        fy_ib_tell(&d, FERRY_FINDING_PROBLEM, "options", "docs/configuration.md has the bounds", "%s", why);
    if (rc)
        return FERRY_OK;
    if (ask->kind == FERRY_REPORT_PLAN)
        return plan(core, ask, &o);
    d.root = core->option(core, "root", &root) || !root.string ? "" : root.string;
    fy_ib_scan(&d.s, core, &o, FERRY_LOG_DEBUG);
    fy_ib_doctor_host(&d);
    fy_ib_doctor_ports(&d);
    fy_ib_doctor_gpu(&d);
    fy_ib_scan_end(&d.s);
    return FERRY_OK;
}
