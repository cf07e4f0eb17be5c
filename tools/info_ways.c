/* SPDX-License-Identifier: Apache-2.0
 * ferry-info --explain: the ways of transports that have a library with several below them, providers of libfabric and
 * lanes of UCX, and the guises of loopback. Each is asked for by the environment, as a job would. One thread. */
#include "info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUISE "FERRY_LOOPBACK_GUISE"
#define PROVIDER "FERRY_LIBFABRIC_PROVIDER"
#define VIRT "FERRY_LIBFABRIC_MR_VIRT_ADDR"
#define TLS "UCX_TLS"

struct setting {
    const char *name, *value;
};

/* `by` decides: who has set it sees what it says, and no other way. */
static const struct way {
    const char *transport, *name;
    struct setting by, more;
} ways[] = {
    {"libfabric", "tcp;ofi_rxm", {PROVIDER, "tcp;ofi_rxm"}, {NULL, NULL}},
    {"libfabric", "shm by queues", {PROVIDER, "shm"}, {VIRT, "0"}},
    {"libfabric", "shm by copies", {PROVIDER, "shm"}, {VIRT, "1"}},
    {"libfabric", "sockets", {PROVIDER, "sockets"}, {NULL, NULL}},
    {"libfabric", "verbs;ofi_rxm", {PROVIDER, "verbs;ofi_rxm"}, {NULL, NULL}},
    {"libfabric", "efa", {PROVIDER, "efa"}, {NULL, NULL}},
    {"libfabric", "cxi", {PROVIDER, "cxi"}, {NULL, NULL}},
    {"libfabric", "opx", {PROVIDER, "opx"}, {NULL, NULL}},
    {"libfabric", "psm2", {PROVIDER, "psm2"}, {NULL, NULL}},
    {"libfabric", "psm3", {PROVIDER, "psm3"}, {NULL, NULL}},
    {"ucx", "posix,self", {TLS, "posix,self"}, {NULL, NULL}},
    {"ucx", "sysv,self", {TLS, "sysv,self"}, {NULL, NULL}},
    {"ucx", "tcp,self", {TLS, "tcp,self"}, {NULL, NULL}},
    {"ucx", "self", {TLS, "self"}, {NULL, NULL}},
    {"ucx", "ib", {TLS, "ib"}, {NULL, NULL}},
    {NULL, NULL, {NULL, NULL}, {NULL, NULL}},
};

/* Guises whose words want a number. */
static const struct setting numbers[] = {
    {"max-msg=", "4096"}, {"inline=", "0"}, {"copy=", "0"}, {"depth=", "4"}, {"hosts=", "2"}, {NULL, NULL}};

static int guises(const struct info *plain, info_way_fn *fn, void *arg)
{
    const ferry_info_row_t *row;
    size_t at = 0;
    int rc = 0;
    while (rc == 0 && !getenv(GUISE) && (row = info_next(plain, "choice", GUISE, &at))) {
        const struct setting *n = numbers;
        char guise[64];
        while (n->name && strcmp(n->name, row->value) != 0)
            n++;
        snprintf(guise, sizeof guise, "%s%s", row->value, n->name ? n->value : "");
        setenv(GUISE, guise, 1);
        rc = fn(arg, "loopback", guise);
        unsetenv(GUISE);
    }
    return rc;
}

static bool found(const struct info *plain, const char *transport)
{
    const ferry_info_row_t *row;
    size_t at = 0;
    while ((row = info_next(plain, "plugin", transport, &at)))
        if (row->value[0])
            return true;
    return false;
}

int info_ways(const struct info *plain, bool all, info_way_fn *fn, void *arg)
{
    int rc = all ? guises(plain, fn, arg) : 0;
    for (const struct way *way = ways; rc == 0 && way->transport; way++) {
        if (getenv(way->by.name) || !found(plain, way->transport))
            continue;
        const char *before = way->more.name ? getenv(way->more.name) : NULL;
        char *kept = before ? strdup(before) : NULL;
        setenv(way->by.name, way->by.value, 1);
        if (way->more.name)
            setenv(way->more.name, way->more.value, 1);
        rc = fn(arg, way->transport, way->name);
        unsetenv(way->by.name);
        if (kept)
            setenv(way->more.name, kept, 1);
        else if (way->more.name)
            unsetenv(way->more.name);
        free(kept);
    }
    return rc;
}
