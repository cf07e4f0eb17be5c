/* SPDX-License-Identifier: Apache-2.0
 * A plain transport, altered by the macros that its meson target sets. Built once per variant. */
#include "plain.h"

#ifndef NAME
#error "NAME is the plugin's name"
#endif
#ifndef SCORE
#define SCORE 20
#endif
#ifndef ABI
#define ABI FERRY_TRANSPORT_ABI
#endif
#ifndef SIZE
#define SIZE sizeof(struct ferry_plugin)
#endif
#ifndef KIND
#define KIND 0
#endif
#ifndef OPTIONS
#define OPTIONS
#endif
#ifndef OPS
#define OPS
#endif
#ifndef VERSION
#define VERSION "1.2.3"
#endif
#ifndef MESSAGE_MAX
#define MESSAGE_MAX (1 << 20)
#endif
#ifndef CAPS
#define CAPS 0
#endif

static int variant_query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    int status = plain_query(t, memory_kind, caps);

    caps->flags = CAPS;
    caps->message_max = MESSAGE_MAX;
#ifdef AMO
    caps->amo64 = FERRY_AMO_BIT(FERRY_AMO_ADD);
#endif
#ifdef QUERY_FAILS
    status = FERRY_ERR_DEVICE;
#endif
    caps->copy_max = SIZE_MAX;
    caps->inline_max = SIZE_MAX;
    return status;
}

static int variant_probe(const struct ferry_core *core, struct ferry_probe *probe)
{
    (void)core;
    plain_mark("probe ");
    probe->score = SCORE;
#ifdef PROBE_DOES
    PROBE_DOES;
#endif
#ifdef NO_DEVICE
    snprintf(probe->detail, sizeof(probe->detail), "%s", NO_DEVICE);
    return FERRY_ERR_DEVICE;
#elif defined(BAD_VALUE)
    snprintf(probe->detail, sizeof(probe->detail), "%s", BAD_VALUE);
    return FERRY_ERR_CONFIG;
#else
    return FERRY_OK;
#endif
}

static int variant_open(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **t)
{
#ifdef REPORT
    struct ferry_error record = {.size = sizeof(record), .status = FERRY_ERR_SYSTEM, .library_status = 13};

    snprintf(record.message, sizeof(record.message), "%s", REPORT);
    snprintf(record.hint, sizeof(record.hint), "plug it in");
    core->error(core, &record);
    snprintf(record.message, sizeof(record.message), "a consequence");
    core->error(core, &record);
#endif
#ifdef OPEN_STATUS
    (void)core, (void)how, (void)t;
    return OPEN_STATUS;
#else
    return plain_open(core, how, t);
#endif
}

static const struct ferry_option options[] = {OPTIONS{NULL, 0, 0, NULL, NULL, NULL}};
/* A later initialiser of a member overrides an earlier one: that is how OPS alters the table. */
#pragma GCC diagnostic ignored "-Woverride-init"
static const struct ferry_host_ops ops = {PLAIN_OPS, .query = variant_query, OPS};

FERRY_PLUGIN_EXPORT const struct ferry_plugin ferry_plugin_v1 = {
    .abi = ABI,
    .size = SIZE,
    .name = NAME,
    .summary = "a transport for tests",
    .version = VERSION,
    .options = options,
    .ops = &ops,
#ifndef NO_PROBE
    .probe = variant_probe,
#endif
    .open = variant_open,
    .kind = KIND,
};
#ifdef NO_PROBE
const void *const variant_unused = (const void *)variant_probe;
#endif
