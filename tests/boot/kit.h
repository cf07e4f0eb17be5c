/* SPDX-License-Identifier: Apache-2.0
 * What the bootstrap tests share: PEs as threads of this process, a client that speaks the wire, waiting with a
 * deadline. Threads of PEs never assert: they note the first thing that went wrong, the test's thread asserts. */
#ifndef BOOT_KIT_H
#define BOOT_KIT_H

#include "job/boot_internal.h"
#include "job/launch.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define KIT_PES 64

struct kit_job;
struct kit_pe {
    struct kit_job *job;
    uint32_t rank, n;
    bool absent; /* does not take part */
    pthread_t thread;
    struct fy_boot *boot;
    int rc;
    struct ferry_error error; /* of start, then of whatever the body leaves here */
    double start_s;
    char wrong[256];
    atomic_uint dead[KIT_PES], deaths, aborts;
    atomic_int abort_by, abort_code;
};

struct kit_job {
    uint32_t n;
    bool functions; /* the application's bootstrap instead of an id */
    double timeout, peer_timeout;
    ferry_uniqueid_t id;
    void (*body)(struct kit_pe *pe); /* between start and close; may be NULL */
    void *arg;
    int (*serve)(void *arg, uint32_t from, uint32_t type, const void *request, size_t size, void *reply,
                 size_t capacity, size_t *reply_size);
    atomic_uint gate; /* for bodies */
    pthread_barrier_t barrier;
    uint8_t *gathered;
    size_t gathered_length;
    struct kit_pe pes[KIT_PES];
};

/* n PEs with long timeouts; an id, unless they use the application's functions. */
struct kit_job *kit_new(uint32_t n, void (*body)(struct kit_pe *pe), bool functions);
void kit_free(struct kit_job *job);
void kit_start(struct kit_job *job); /* threads of all PEs that are not absent */
void kit_join(struct kit_job *job);
/* Start, join, and assert that every PE started and noted nothing wrong. */
void kit_run(struct kit_job *job);
void kit_assert_good(struct kit_job *job);
struct fy_boot_config kit_config(struct kit_pe *pe);
/* Has the config meet by these functions; all four live as long as it is used. */
void kit_by_functions(struct fy_boot_config *config, struct fy_launch *launch, ferry_attr_t *attr,
                      const ferry_bootstrap_functions_t *functions);

/* Notes the first failure. Returns `good`. */
bool kit_expect(struct kit_pe *pe, bool good, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Polls until it holds; false: not within `seconds`. */
bool kit_wait(bool (*holds)(void *arg), void *arg, double seconds);
bool kit_wait_count(atomic_uint *count, unsigned least, double seconds);
double kit_now(void);
unsigned kit_count(const char *folder); /* entries, of /proc/self/fd for instance */

/* A client of the wire: connects, proves, waits. */
struct kit_client {
    struct fy_hub hub;
    struct fy_conn *conn;
    const uint8_t *secret;
    bool ready, ended;
    uint32_t frames; /* received when ready */
    uint16_t type;   /* of the latest */
};
void kit_client_open(struct kit_client *client, const struct fy_addr *addr, uint32_t server, const uint8_t *secret,
                     uint32_t purpose, uint32_t rank, uint32_t size);
void kit_client_open_at(struct kit_client *client, const struct fy_addr *addr, uint32_t server, const uint8_t *secret,
                        const struct fy_identity *self);
/* Handles what comes until ready (or ended); false: neither within `seconds`. */
bool kit_client_run(struct kit_client *client, double seconds, bool until_ended);
/* Until a frame came after it was ready. */
bool kit_client_frame(struct kit_client *client, double seconds);
void kit_client_close(struct kit_client *client);
/* A plain socket to the address; -1: refused. */
int kit_socket(const struct fy_addr *addr);

/* Repeatable random numbers. */
static inline uint64_t kit_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

#endif
