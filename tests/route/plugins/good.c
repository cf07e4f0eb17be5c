/* SPDX-License-Identifier: Apache-2.0
 * A transport with options, which uses every service and says so in its endpoint. */
#include "plain.h"

static const struct ferry_option options[] = {
    {"speed", FERRY_OPTION_SIZE, 0, "4K", NULL, "A number for the tests, in bytes."},
    {"mode", FERRY_OPTION_CHOICE, 0, "fast", "fast|safe", "A choice for the tests."},
    {"wait", FERRY_OPTION_SECONDS, 0, "1.5", NULL, "A time for the tests, in seconds."},
    {NULL, 0, 0, NULL, NULL, NULL},
};

static void readable(void *arg)
{
    (void)arg;
}

static int good_probe(const struct ferry_core *core, struct ferry_probe *probe)
{
    plain_mark("probe ");
    core->log(core, FERRY_LOG_WARN, "probed with abi %u", core->abi >> 16);
    probe->score = 20;
    probe->devices = 1;
    snprintf(probe->detail, sizeof(probe->detail), "watching in probe gives %d",
             core->watch_fd(core, 0, readable, NULL));
    return FERRY_OK;
}

static int good_open(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **t)
{
    struct ferry_value speed, mode, wait, none;
    int status = plain_open(core, how, t);

    if (status != FERRY_OK)
        return status;
    core->option(core, "speed", &speed);
    core->option(core, "mode", &mode);
    core->option(core, "wait", &wait);
    snprintf((*t)->text, sizeof((*t)->text), "speed %lld mode %s (%lld) wait %.1f none %d pe %u of %u watch %d",
             (long long)speed.number, mode.string, (long long)mode.number, wait.seconds,
             core->option(core, "none", &none), how->my_pe, how->n_pes, core->watch_fd(core, 7, readable, *t));
    core->log(core, FERRY_LOG_WARN, "opened");
    return FERRY_OK;
}

/* On the service channel: an error that belongs to no call, and data that arrived. */
static int good_progress(struct ferry_transport *t, uint32_t channel)
{
    struct ferry_error record = {.size = sizeof(record), .status = FERRY_ERR_DEVICE, .peer = 3, .channel = -1};

    if (channel != FERRY_CHANNEL_SERVICE)
        return FERRY_AGAIN;
    snprintf(record.message, sizeof(record.message), "the port went down");
    t->core->error(t->core, &record);
    t->core->deliver(t->core, 5, 99);
    t->core->unwatch_fd(t->core, 7);
    return FERRY_OK;
}

#pragma GCC diagnostic ignored "-Woverride-init"
static const struct ferry_host_ops ops = {PLAIN_OPS, .progress = good_progress};

FERRY_PLUGIN_EXPORT const struct ferry_plugin ferry_plugin_v1 = {
    .abi = FERRY_TRANSPORT_ABI,
    .size = sizeof(struct ferry_plugin),
    .name = "good",
    .summary = "a transport for tests",
    .version = "1.0",
    .options = options,
    .ops = &ops,
    .probe = good_probe,
    .open = good_open,
};
