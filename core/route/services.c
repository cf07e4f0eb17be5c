/* SPDX-License-Identifier: Apache-2.0
 * struct ferry_core: the functions that a plugin is given, and what it reports while it is probed or opened.
 * Any thread of a plugin may call them; the setup thread fills them in and reads what was reported. */
#include "internal.h"
#include <stdio.h>
#include <string.h>

static struct fy_transport *transport_of(const struct ferry_core *core)
{
    return (struct fy_transport *)((uintptr_t)core - offsetof(struct fy_transport, core));
}

static enum fy_phase phase_of(struct fy_transport *t)
{
    return (enum fy_phase)__atomic_load_n(&t->phase, __ATOMIC_ACQUIRE);
}

void fy_services_phase(struct fy_transport *t, enum fy_phase phase)
{
    __atomic_store_n(&t->phase, (int)phase, __ATOMIC_RELEASE);
}

static void service_log(const struct ferry_core *core, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void service_log(const struct ferry_core *core, int level, const char *format, ...)
{
    struct fy_transport *t = transport_of(core);
    char text[1024];
    va_list args;

    /* Why a probe says no is in the table: a machine without a device is no news. */
    if (phase_of(t) == FY_PHASE_PROBE && level < FERRY_LOG_DEBUG)
        level = FERRY_LOG_DEBUG;
    if (level > t->route->log->level)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fy_log(t->route->log, level, "%s: %s", t->name, text);
}

static int service_option(const struct ferry_core *core, const char *name, struct ferry_value *value)
{
    const struct fy_option_value *found = fy_options_find(&transport_of(core)->options, name);

    memset(value, 0, sizeof(*value));
    if (!found)
        return FERRY_ERR_NOT_FOUND;
    *value = found->value;
    return FERRY_OK;
}

static int service_watch_fd(const struct ferry_core *core, int fd, void (*fn)(void *arg), void *arg)
{
    struct fy_transport *t = transport_of(core);
    const struct fy_route_services *services = &t->route->services;

    if (phase_of(t) == FY_PHASE_PROBE)
        return FERRY_ERR_STATE;
    if (!services->watch_fd)
        return FERRY_ERR_UNSUPPORTED;
    return services->watch_fd(services->arg, fd, fn, arg);
}

static void service_unwatch_fd(const struct ferry_core *core, int fd)
{
    const struct fy_route_services *services = &transport_of(core)->route->services;

    if (services->unwatch_fd)
        services->unwatch_fd(services->arg, fd);
}

void fy_record_copy(struct ferry_error *out, const struct ferry_error *record)
{
    size_t size = record->size < sizeof(*out) ? record->size : sizeof(*out);

    memset(out, 0, sizeof(*out));
    out->peer = out->channel = out->operation = -1;
    memcpy(out, record, size);
    out->size = sizeof(*out);
    out->device[sizeof(out->device) - 1] = '\0';
    out->message[sizeof(out->message) - 1] = '\0';
    out->hint[sizeof(out->hint) - 1] = '\0';
}

static void service_error(const struct ferry_core *core, const struct ferry_error *record)
{
    struct fy_transport *t = transport_of(core);
    struct fy_route *route = t->route;
    struct ferry_error copy;

    fy_record_copy(&copy, record);
    if (phase_of(t) == FY_PHASE_OPENED) {
        if (route->services.error)
            route->services.error(route->services.arg, &copy);
        return;
    }
    /* The first is the cause; what follows is its consequence. */
    pthread_mutex_lock(&route->lock);
    if (t->open_error.status == FERRY_OK)
        t->open_error = copy;
    pthread_mutex_unlock(&route->lock);
}

void fy_services_forget(struct fy_transport *t)
{
    pthread_mutex_lock(&t->route->lock);
    memset(&t->open_error, 0, sizeof(t->open_error));
    pthread_mutex_unlock(&t->route->lock);
}

void fy_services_reported(struct fy_transport *t, struct ferry_error *out)
{
    pthread_mutex_lock(&t->route->lock);
    *out = t->open_error;
    pthread_mutex_unlock(&t->route->lock);
}

void fy_services_failed(struct fy_transport *t, int status)
{
    pthread_mutex_lock(&t->route->lock);
    t->open_error.status = status;
    pthread_mutex_unlock(&t->route->lock);
}

static void service_deliver(const struct ferry_core *core, uint32_t from_pe, uint64_t data)
{
    const struct fy_route_services *services = &transport_of(core)->route->services;

    if (services->deliver)
        services->deliver(services->arg, from_pe, data);
}

void fy_services_fill(struct fy_transport *t)
{
    t->core = (struct ferry_core){
        .abi = FERRY_TRANSPORT_ABI,
        .size = sizeof(t->core),
        .log = service_log,
        .option = service_option,
        .watch_fd = service_watch_fd,
        .unwatch_fd = service_unwatch_fd,
        .error = service_error,
        .deliver = service_deliver,
        .gpu_ops = t->route->services.gpu ? &fy_services_gpu : NULL,
    };
}
