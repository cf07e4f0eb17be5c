/* SPDX-License-Identifier: Apache-2.0
 * What every hook hands through unchanged to the transport that it wraps. Regions and keys are the inner one's own.
 * Each function is called from the thread that transport.h names, and adds nothing to what the inner one needs. */
#ifndef HOOK_PASS_H
#define HOOK_PASS_H

#include <ferry/transport.h>

/* First member of a hook's struct ferry_transport. */
struct hook_base {
    struct ferry_transport *inner;
    const struct ferry_host_ops *ops; /* complete */
    const struct ferry_core *core;
};

int hook_export_endpoint(struct ferry_transport *t, void *blob, size_t *size);
int hook_reach(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, char *why, size_t why_size);
int hook_connect(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_connect *io);
int hook_allocate_memory(struct ferry_transport *t, struct ferry_memory *memory, struct ferry_region **region);
int hook_free_memory(struct ferry_transport *t, struct ferry_region *region);
int hook_register_memory(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region);
int hook_deregister_memory(struct ferry_transport *t, struct ferry_region *region);
int hook_export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size);
int hook_import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key);
int hook_release_key(struct ferry_transport *t, struct ferry_rkey *key);
int hook_query_error(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_error *record);
int hook_describe(struct ferry_transport *t, uint32_t channel, uint32_t peer, char *text, size_t size);
/* For open: without something to wrap there is no hook. Reports why; returns its status. */
int hook_nothing_to_wrap(const struct ferry_core *core, const char *name);
/* Reports a failure of open; returns status. */
int hook_open_failed(const struct ferry_core *core, int status, const char *hint, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
