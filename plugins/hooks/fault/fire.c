/* SPDX-License-Identifier: Apache-2.0
 * Decides which call fails, and says so. Any thread. */
#include "fault.h"

#include <stdio.h>
#include <string.h>

static const char *const names[FAULT_CALLS] = {
    "none",
    "open",
    "export_endpoint",
    "reach",
    "open_channel",
    "close_channel",
    "connect",
    "disconnect",
    "allocate_memory",
    "free_memory",
    "register_memory",
    "deregister_memory",
    "export_key",
    "import_key",
    "release_key",
    "map_key",
    "rma",
    "amo",
    "put_signal",
    "post",
    "fence",
    "quiet",
    "progress",
    "query",
    "close",
};

bool fault_fires(struct ferry_transport *t, enum fault_call call)
{
    uint64_t number, none = 0;

    if (call != t->call || !t->here)
        return false;
    number = atomic_fetch_add(&t->calls, 1) + 1;
    if (number < t->nth || (number > t->nth && t->how != FAULT_ALWAYS))
        return false;
    if (atomic_compare_exchange_strong(&t->fired_at, &none, number))
        t->base.core->log(t->base.core, FERRY_LOG_WARN, "call %llu of %s %s", (unsigned long long)number, names[call],
                          t->how == FAULT_LOST ? "is taken and never complete" : "fails");
    return true;
}

bool fault_fires_on(struct ferry_transport *t, enum fault_call call, uint32_t channel)
{
    return (t->channel < 0 || t->channel == channel) && fault_fires(t, call);
}

void fault_describe(const struct ferry_transport *t, struct ferry_error *record)
{
    struct ferry_error full = {.status = FERRY_ERR_TRANSPORT, .peer = -1, .channel = -1, .operation = -1};
    uint32_t size = record->size;

    snprintf(full.message, sizeof(full.message), "call %llu of %s failed, as it was asked to",
             (unsigned long long)atomic_load(&t->fired_at), names[t->call]);
    snprintf(full.hint, sizeof(full.hint), "take fault out of FERRY_HOOKS");
    memcpy(record, &full, size < sizeof(full) ? size : sizeof(full));
    record->size = size;
}
