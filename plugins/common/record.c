/* SPDX-License-Identifier: Apache-2.0
 * Records of failures, as query_error gives them.
 * Any thread. */
#include "common.h"

#include <stdio.h>
#include <string.h>

void fy_plugin_record(struct ferry_error *e, int64_t peer, int status, int64_t library, const char *hint)
{
    memset(e, 0, sizeof *e);
    e->size = sizeof *e;
    e->status = status;
    e->peer = (int32_t)peer;
    e->channel = -1;
    e->operation = -1;
    e->library_status = library;
    snprintf(e->hint, sizeof e->hint, "%s", hint);
}

void fy_plugin_fail(pthread_mutex_t *lock, struct ferry_error *failure, int64_t peer, int status, int64_t library, const char *hint,
                    const char *format, va_list args)
{
    pthread_mutex_lock(lock);
    fy_plugin_record(failure, peer, status, library, hint);
    vsnprintf(failure->message, sizeof failure->message, format, args);
    pthread_mutex_unlock(lock);
}

int fy_plugin_give(struct ferry_error *record, struct ferry_error e, uint32_t peer)
{
    uint32_t size = record->size;

    if (peer != FERRY_PEER_ALL && e.peer >= 0 && (uint32_t)e.peer != peer)
        fy_plugin_record(&e, peer, FERRY_OK, 0, "");
    memcpy(record, &e, size < sizeof e ? size : sizeof e);
    record->size = size;
    return FERRY_OK;
}
