/* SPDX-License-Identifier: Apache-2.0
 * The smallest transport that is accepted, for the plugins of these tests: each alters one thing of it.
 * No thread: the tests call it from one. */
#ifndef PLAIN_H
#define PLAIN_H

#include <ferry/transport.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ferry_transport {
    const struct ferry_core *core;
    char text[256]; /* what export_endpoint tells: the options and the job as the plugin saw them */
};

/* Leaves a trace outside the process image: the file that FERRY_TEST_MARKER names. */
static inline void plain_mark(const char *what)
{
    const char *path = getenv("FERRY_TEST_MARKER");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;

    if (fd < 0)
        return;
    if (write(fd, what, strlen(what)) < 0)
        perror(path);
    close(fd);
}

static int plain_endpoint(struct ferry_transport *t, void *blob, size_t *size)
{
    *size = strlen(t->text) + 1;
    memcpy(blob, t->text, *size);
    return FERRY_OK;
}

static int plain_register(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region)
{
    (void)t;
    *region = memory->address;
    return FERRY_OK;
}

static int plain_region(struct ferry_transport *t, struct ferry_region *region)
{
    (void)t, (void)region;
    return FERRY_OK;
}

static int plain_export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size)
{
    (void)t, (void)region, (void)blob;
    *size = 0;
    return FERRY_OK;
}

static int plain_import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size,
                            struct ferry_rkey **key)
{
    (void)t, (void)peer, (void)blob, (void)size;
    *key = NULL;
    return FERRY_OK;
}

static int plain_release_key(struct ferry_transport *t, struct ferry_rkey *key)
{
    (void)t, (void)key;
    return FERRY_OK;
}

static int plain_query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    (void)t;
    if (memory_kind != FERRY_MEMORY_HOST)
        return FERRY_ERR_UNSUPPORTED;
    caps->message_max = 1 << 20;
    return FERRY_OK;
}

/* Accepts; a get says that it is done at once. */
static int plain_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    (void)t, (void)channel;
    return op->kind == FERRY_OP_GET ? FERRY_DONE : FERRY_OK;
}

static int plain_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    (void)t, (void)channel, (void)peer;
    *ticket = 1;
    return FERRY_OK;
}

static int plain_progress(struct ferry_transport *t, uint32_t channel)
{
    (void)t, (void)channel;
    return FERRY_AGAIN;
}

static int plain_close(struct ferry_transport *t)
{
    plain_mark("close ");
    free(t);
    return FERRY_OK;
}

static inline int plain_open(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **t)
{
    (void)how;
    plain_mark("open ");
    *t = calloc(1, sizeof(**t));
    if (!*t)
        return FERRY_ERR_NOMEM;
    (*t)->core = core;
    return FERRY_OK;
}

#define PLAIN_OPS                                                                                                      \
    .size = sizeof(struct ferry_host_ops), .export_endpoint = plain_endpoint, .register_memory = plain_register,       \
    .deregister_memory = plain_region, .export_key = plain_export_key, .import_key = plain_import_key,                 \
    .release_key = plain_release_key, .rma = plain_rma, .quiet = plain_quiet, .progress = plain_progress,              \
    .query = plain_query, .close = plain_close

#endif
