/* SPDX-License-Identifier: Apache-2.0
 * A hook that shows in the endpoint what it wraps, and closes it. NAME is set by its meson target. */
#include "plain.h"

static const struct ferry_option options[] = {
    {"fail", FERRY_OPTION_BOOL, 0, "no", NULL, "Whether open fails."},
    {"mute", FERRY_OPTION_BOOL, 0, "no", NULL, "Whether query fails."},
    {NULL, 0, 0, NULL, NULL, NULL},
};

struct wrapped {
    struct ferry_transport base; /* first: the core hands back its address */
    struct ferry_transport *inner;
    const struct ferry_host_ops *ops;
};

static int hook_open(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **t)
{
    struct wrapped *made;
    struct ferry_value fail;
    struct ferry_error record = {
        .size = sizeof(record), .status = FERRY_ERR_STATE, .message = NAME " was told to fail"};

    core->option(core, "fail", &fail);
    if (fail.number) {
        core->error(core, &record);
        return FERRY_ERR_STATE;
    }
    if (!how->inner || how->inner_ops->size != sizeof(struct ferry_host_ops))
        return FERRY_ERR_ARG;
    made = calloc(1, sizeof(*made));
    if (!made)
        return FERRY_ERR_NOMEM;
    made->base.core = core;
    made->inner = how->inner;
    made->ops = how->inner_ops;
    *t = &made->base;
    return FERRY_OK;
}

static int hook_endpoint(struct ferry_transport *t, void *blob, size_t *size)
{
    struct wrapped *w = (struct wrapped *)t;
    char inner[FERRY_ENDPOINT_MAX];
    size_t n = sizeof(inner);
    int status = w->ops->export_endpoint(w->inner, inner, &n);

    if (status == FERRY_OK)
        *size = 1 + (size_t)snprintf(blob, FERRY_ENDPOINT_MAX, "%s(%.400s)", NAME, inner);
    return status;
}

static int hook_query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    struct wrapped *w = (struct wrapped *)t;
    struct ferry_value mute;

    t->core->option(t->core, "mute", &mute);
    return mute.number ? FERRY_ERR_DEVICE : w->ops->query(w->inner, memory_kind, caps);
}

static int hook_close(struct ferry_transport *t)
{
    struct wrapped *w = (struct wrapped *)t;
    int status = w->ops->close(w->inner);

    plain_mark(NAME "-close ");
    free(w);
    return status;
}

#pragma GCC diagnostic ignored "-Woverride-init"
static const struct ferry_host_ops ops = {PLAIN_OPS, .export_endpoint = hook_endpoint, .query = hook_query,
                                          .close = hook_close};

FERRY_PLUGIN_EXPORT const struct ferry_plugin ferry_plugin_v1 = {
    .abi = FERRY_TRANSPORT_ABI,
    .size = sizeof(struct ferry_plugin),
    .name = NAME,
    .summary = "a hook for tests",
    .version = "1.0",
    .options = options,
    .ops = &ops,
    .open = hook_open,
    .kind = 1,
};
