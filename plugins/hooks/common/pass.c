/* SPDX-License-Identifier: Apache-2.0
 * What every hook hands through unchanged to the transport that it wraps; and how a hook that cannot open says so.
 * Threads: pass.h. */
#include "pass.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct hook_base *base(const struct ferry_transport *t)
{
    return (const struct hook_base *)(const void *)t;
}

int hook_export_endpoint(struct ferry_transport *t, void *blob, size_t *size)
{
    return base(t)->ops->export_endpoint(base(t)->inner, blob, size);
}

int hook_reach(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, char *why, size_t why_size)
{
    return base(t)->ops->reach(base(t)->inner, peer, blob, size, why, why_size);
}

int hook_connect(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_connect *io)
{
    return base(t)->ops->connect(base(t)->inner, channel, peer, io);
}

int hook_allocate_memory(struct ferry_transport *t, struct ferry_memory *memory, struct ferry_region **region)
{
    return base(t)->ops->allocate_memory(base(t)->inner, memory, region);
}

int hook_free_memory(struct ferry_transport *t, struct ferry_region *region)
{
    return base(t)->ops->free_memory(base(t)->inner, region);
}

int hook_register_memory(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region)
{
    return base(t)->ops->register_memory(base(t)->inner, memory, region);
}

int hook_deregister_memory(struct ferry_transport *t, struct ferry_region *region)
{
    return base(t)->ops->deregister_memory(base(t)->inner, region);
}

int hook_export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size)
{
    return base(t)->ops->export_key(base(t)->inner, region, blob, size);
}

int hook_import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key)
{
    return base(t)->ops->import_key(base(t)->inner, peer, blob, size, key);
}

int hook_release_key(struct ferry_transport *t, struct ferry_rkey *key)
{
    return base(t)->ops->release_key(base(t)->inner, key);
}

int hook_query_error(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_error *record)
{
    return base(t)->ops->query_error(base(t)->inner, channel, peer, record);
}

/* A library of minor 0 gives a table that ends before. */
int hook_describe(struct ferry_transport *t, uint32_t channel, uint32_t peer, char *text, size_t size)
{
    const struct ferry_host_ops *ops = base(t)->ops;

    if (ops->size >= offsetof(struct ferry_host_ops, describe) + sizeof ops->describe)
        return ops->describe(base(t)->inner, channel, peer, text, size);
    if (size)
        text[0] = '\0';
    return FERRY_OK;
}

int hook_open_failed(const struct ferry_core *core, int status, const char *hint, const char *format, ...)
{
    struct ferry_error record = {.size = sizeof record, .status = status, .peer = -1, .channel = -1, .operation = -1};
    va_list args;

    va_start(args, format);
    vsnprintf(record.message, sizeof record.message, format, args);
    va_end(args);
    snprintf(record.hint, sizeof record.hint, "%s", hint);
    core->error(core, &record);
    return status;
}

int hook_nothing_to_wrap(const struct ferry_core *core, const char *name)
{
    return hook_open_failed(core, FERRY_ERR_CONFIG, "name it in FERRY_HOOKS",
                            "%s is a hook, and there is no transport that it could wrap", name);
}
