/* SPDX-License-Identifier: Apache-2.0
 * The bootstrap ABI: all that a bootstrap plugin includes of Ferry, and the specification it is written to. A bootstrap knows
 * how a launcher tells a process which PE of how many it is, and brings first bytes from every PE to every other.
 * All calls come from the thread in ferry_init, one at a time for an instance; log may be called by any thread. */
#ifndef FERRY_BOOTSTRAP_H
#define FERRY_BOOTSTRAP_H

#include <ferry/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The rules are those of transport.h: another major is refused; within a major, structs grow only at their end, and say their
 * size first. Read `size` before you read a member that a later minor added. */
#define FERRY_BOOTSTRAP_ABI_MAJOR 1u
#define FERRY_BOOTSTRAP_ABI_MINOR 0u
#define FERRY_BOOTSTRAP_ABI ((FERRY_BOOTSTRAP_ABI_MAJOR << 16) | FERRY_BOOTSTRAP_ABI_MINOR)

/* The one exported symbol: a constant struct ferry_boot_plugin. */
#define FERRY_BOOTSTRAP_SYMBOL "ferry_bootstrap_v1"

struct ferry_boot; /* an instance; the plugin's own type */

/* What the core offers. Valid until close returns. */
struct ferry_boot_core {
    uint32_t abi;  /* FERRY_BOOTSTRAP_ABI of the core */
    uint32_t size; /* sizeof(struct ferry_boot_core) of the core */
    /* Writes one line, lower case, without newline. level: 0 error, 1 warn, 2 info, 3 debug, 4 trace. Errors are not logged:
     * they are returned, and the core logs them. */
    void (*log)(const struct ferry_boot_core *core, int level, const char *format, ...)
#if defined(__GNUC__)
        __attribute__((format(printf, 3, 4)))
#endif
        ;
};

#define FERRY_BOOT_NO_NODE UINT32_MAX

/* Filled by open; size is set by the core. */
struct ferry_boot_place {
    uint32_t size;
    uint32_t rank;  /* this PE, below n_pes */
    uint32_t n_pes; /* 1 and more */
    uint32_t node;  /* this PE's host, numbered by the launcher; FERRY_BOOT_NO_NODE (the initial value): it does not say */
    /* FERRY_UNIQUEID_BYTES bytes (ferry.h) by which the PEs meet, of which every PE has the same; NULL (the initial value):
     * allgather is called instead. Valid until close. */
    const uint8_t *id;
};

struct ferry_boot_plugin {
    uint32_t abi;        /* FERRY_BOOTSTRAP_ABI it was built with */
    uint32_t size;       /* sizeof(struct ferry_boot_plugin) */
    const char *name;    /* the file is NAME.so; at most 31 characters of a-z 0-9 _ - */
    const char *version;
    const char *summary; /* one line */
    /* Was this process started by something that this bootstrap understands? FERRY_OK, or FERRY_ERR_NOT_FOUND; both times `text`
     * says by what that shows ("PMIX_RANK is set"). Looks at the environment, connects to nothing. */
    int (*probe)(const struct ferry_boot_core *core, char *text, size_t size);
    /* Local: returns without waiting for other PEs, within `timeout` seconds (0: no bound). On failure the reason is in *error:
     * status (FERRY_ERR_BOOTSTRAP, FERRY_ERR_TIMEOUT, FERRY_ERR_CONFIG, FERRY_ERR_NOMEM), message, hint, library_status. */
    int (*open)(const struct ferry_boot_core *core, double timeout, struct ferry_boot_place *place, struct ferry_boot **boot,
                struct ferry_error *error);
    /* Collective, in the same order on all PEs. all[i * length] = what PE i gave; length is the same everywhere, but for PEs of
     * other versions of Ferry: then the first bytes of what they gave, or zeros behind it. Takes `timeout` seconds at most (0: no
     * bound), and about one second more to find out who is missing: then FERRY_ERR_TIMEOUT, and arrived[i] is 1 for each PE
     * that has come. It has n_pes bytes, all 0 before the call; it counts only after FERRY_ERR_TIMEOUT. */
    int (*allgather)(struct ferry_boot *boot, const void *mine, void *all, size_t length, double timeout, uint8_t *arrived,
                     struct ferry_error *error);
    /* Local; also after a failed allgather, but not after a failed open. Called when the PEs are connected: from then on the core
     * needs nothing of the launcher, and watches itself who lives. Takes a few seconds at most. */
    void (*close)(struct ferry_boot *boot);
};

#ifdef __cplusplus
}
#endif
#endif
