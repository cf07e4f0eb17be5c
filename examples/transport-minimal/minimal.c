/* SPDX-License-Identifier: Apache-2.0
 * A transport to learn from: PEs of one host put into each other's memory. docs/writing-a-transport.md walks through
 * it. One header of Ferry, and no symbol of the core. Who calls what, from which thread, is written in that header. */
#include <ferry/transport.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#pragma GCC diagnostic ignored "-Wunused-parameter" /* each function takes what its place in the table says */

/* The three types that every plugin defines for itself. All state hangs off them: there are no globals. */
/* clang-format off */
struct ferry_transport { const struct ferry_core *core; };
struct ferry_region { void *address; size_t length; int fd; }; /* fd -1: a local source, nothing to release */
struct ferry_rkey { char *map; size_t length; };               /* a peer's memory, in this process */
/* What a key says. Peers get it as plain bytes. The inode, since a process may be gone and its number taken. */
struct key { int32_t pid, fd; uint64_t inode, length; };
/* clang-format on */

static int failed(const struct ferry_transport *t, int status, const char *what)
{
    return t->core->log(t->core, FERRY_LOG_ERROR, "minimal: cannot %s: %m", what), status;
}

/* Wiring: nothing to tell, and no connection to make. With `reach`, a transport says which PEs it cannot serve. */
static int export_endpoint(struct ferry_transport *t, void *blob, size_t *size)
{
    *size = 0;
    return FERRY_OK;
}

/* Memory. Peers can map only files of ours, so the core must get its heap here, at the very address it has reserved.
 * A memory file leaves nothing behind. fallocate makes a lack of memory an error now, and not a signal later. */
static int allocate_memory(struct ferry_transport *t, struct ferry_memory *memory, struct ferry_region **region)
{
    int fixed = memory->address ? MAP_FIXED : 0, fd = memfd_create("ferry-minimal", MFD_CLOEXEC);
    struct ferry_region *r = malloc(sizeof *r);
    void *at = MAP_FAILED;
    if (r && fd >= 0 && ftruncate(fd, (off_t)memory->length) == 0 && fallocate(fd, 0, 0, (off_t)memory->length) == 0)
        at = mmap(memory->address, memory->length, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, fd, 0);
    if (at == MAP_FAILED) {
        failed(t, FERRY_ERR_NOMEM, "allocate shared memory");
        if (fd >= 0)
            close(fd);
        free(r);
        return FERRY_ERR_NOMEM;
    }
    *r = (struct ferry_region){at, memory->length, fd};
    memory->address = at;
    memory->fd = fd; /* for other transports of this PE, which register the same memory */
    memory->fd_offset = 0;
    *region = r;
    return FERRY_OK;
}

/* A local source needs no preparation, since the CPU copies. */
static int register_memory(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region)
{
    *region = memory->remote ? NULL : malloc(sizeof **region);
    if (!*region)
        return memory->remote ? FERRY_ERR_UNSUPPORTED : FERRY_ERR_NOMEM;
    **region = (struct ferry_region){memory->address, memory->length, -1};
    return FERRY_OK;
}

static int release_region(struct ferry_transport *t, struct ferry_region *region)
{
    if (region->fd >= 0) {
        munmap(region->address, region->length);
        close(region->fd);
    }
    free(region);
    return FERRY_OK;
}

static int export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size)
{
    struct stat file;
    if (fstat(region->fd, &file) != 0)
        return failed(t, FERRY_ERR_SYSTEM, "look at a memory file");
    struct key key = {getpid(), region->fd, file.st_ino, region->length};
    memcpy(blob, &key, *size = sizeof key);
    return FERRY_OK;
}

static int import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key)
{
    struct key k;
    struct stat file;
    char path[64];
    if (size != sizeof k)
        return FERRY_ERR_ARG;
    memcpy(&k, blob, sizeof k);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", k.pid, k.fd);
    struct ferry_rkey *r = malloc(sizeof *r);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *map = MAP_FAILED;
    if (r && fd >= 0 && fstat(fd, &file) == 0 && file.st_ino == k.inode)
        map = mmap(NULL, k.length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (map == MAP_FAILED) {
        free(r);
        return failed(t, FERRY_ERR_PEER, path); /* "cannot /proc/17/fd/5" */
    }
    *r = (struct ferry_rkey){map, k.length};
    *key = r;
    return FERRY_OK;
}

static int release_key(struct ferry_transport *t, struct ferry_rkey *key)
{
    munmap(key->map, key->length);
    free(key);
    return FERRY_OK;
}

/* Data: no system call, no lock, no wait. DONE: accepted, and the source is free already. */
static int rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    char *to = op->key->map + op->offset;
    if (op->kind != FERRY_OP_PUT)
        return FERRY_ERR_UNSUPPORTED;
    if (!(op->flags & FERRY_OP_WORD))
        memcpy(to, op->local, op->length);
    else /* words of 8 bytes, each of which the target must see as a whole */
        for (size_t i = 0; i < op->length / 8; i++)
            __atomic_store_n((uint64_t *)to + i, ((const uint64_t *)op->local)[i], __ATOMIC_RELEASE);
    return FERRY_DONE;
}

/* ADD, 8 bytes, as query declares. Release: who sees the sum sees what was put before. All other atomics, and with
 * -DNO_AMO this one, too, the core has the target's CPU do. */
#ifndef NO_AMO
static int amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    __atomic_fetch_add((uint64_t *)(op->key->map + op->offset), op->operand, __ATOMIC_RELEASE);
    return FERRY_DONE;
}
#endif

/* Operations are over when they return; what is left is to make the stores visible before any later one. */
static int quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    __sync_synchronize();
    return FERRY_OK;
}

static int progress(struct ferry_transport *t, uint32_t channel) { return FERRY_AGAIN; } /* nothing happened */

/* Life. Declare what is true and no more: the core makes the rest from it. No order is claimed between two puts, so where
 * one is needed the core calls quiet. */
static int query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    caps->flags = FERRY_CAP_MUST_ALLOCATE | FERRY_CAP_UNREGISTERED_LOCAL | FERRY_CAP_QUIET_PEER;
#ifndef NO_AMO
    caps->order = FERRY_ORDER_PUT_AMO | FERRY_ORDER_AMO_AMO;
    caps->domain = FERRY_DOMAIN_CPU;
    caps->amo64 = FERRY_AMO_BIT(FERRY_AMO_ADD);
#endif
    caps->copy_max = caps->message_max = SIZE_MAX;
    return memory_kind == FERRY_MEMORY_HOST ? FERRY_OK : FERRY_ERR_UNSUPPORTED;
}

static int open_transport(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **t)
{
    if ((*t = malloc(sizeof **t)))
        (*t)->core = core;
    return *t ? FERRY_OK : FERRY_ERR_NOMEM;
}

static int close_transport(struct ferry_transport *t)
{
    free(t);
    return FERRY_OK;
}

/* clang-format off */
static const struct ferry_host_ops ops = {
    .size = sizeof ops, .export_endpoint = export_endpoint,
    .allocate_memory = allocate_memory, .free_memory = release_region,
    .register_memory = register_memory, .deregister_memory = release_region,
    .export_key = export_key, .import_key = import_key, .release_key = release_key,
    .rma = rma, .quiet = quiet, .progress = progress,
    .query = query, .close = close_transport,
#ifndef NO_AMO
    .amo = amo,
#endif
};

/* The one symbol. The core compares `abi` before it calls anything. */
const struct ferry_plugin ferry_plugin_v1 = {
    .abi = FERRY_TRANSPORT_ABI, .size = sizeof ferry_plugin_v1, .name = "minimal", .version = "1.0",
    .summary = "PEs of one host through memory files, an example", .ops = &ops, .open = open_transport,
};
