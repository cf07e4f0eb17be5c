/* SPDX-License-Identifier: Apache-2.0
 * A job in a nutshell for tests of the heap: PEs as threads, an exchange among them, and transports that move nothing
 * but keep count of everything they are asked for. Each PE's part is used by its own thread. */
#ifndef FERRY_TESTS_MEMORY_TEAM_H
#define FERRY_TESTS_MEMORY_TEAM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "memory/internal.h"
#include <pthread.h>

#define TEAM_MAX   4u
#define MEBIBYTE   ((size_t)1 << 20)
#define FAKE_LIMIT "out of imaginary slots"

/* One transport of one PE. */
struct ferry_transport {
    uint32_t pe;
    int live_regions, live_keys; /* must be 0 in the end */
    int calls, fail_at;          /* the fail_at-th setup call fails; 0: none does */
    int again;                   /* so many imports answer AGAIN first; negative: all do */
    int imports, allocations;
    bool displaced; /* allocates elsewhere than asked */
    bool unmappable;
    enum {
        FAKE_HOST_ONLY,
        FAKE_REGISTERS,
        FAKE_ALLOCATES
    } gpu;              /* what it does with GPU memory, which nobody may touch */
    size_t key_padding; /* makes the key longer */
};

struct team;
struct member {
    struct team *team;
    uint32_t rank;
    size_t n_transports;
    struct ferry_transport fake[2];
    struct fy_transport transport[2];
    struct fy_transport *list[2];
    struct fy_heap_config config; /* as fy_heap_create gets it; to be changed before */
    struct fy_heap *heap;
    struct ferry_error error;
    int gathers; /* exchanges so far */
    int carrier; /* what transport_of answers */
    void *arg;   /* the test's */
};

struct team {
    uint32_t n;
    struct member members[TEAM_MAX];
    pthread_mutex_t lock;
    pthread_cond_t moved;
    char *all;
    size_t length;
    uint32_t arrived, leaving;
    int failures;
    char first_failure[800];
    const char *fail_step; /* this exchange ends with FERRY_ERR_PEER on all */
};

/* n PEs with n_transports transports each, a heap of 64 MiB in chunks of 2 MiB planned but not created. */
void team_start(struct team *team, uint32_t n, size_t n_transports);
/* Runs fn on a thread per PE; then fails the test if any expectation failed. */
void team_run(struct team *team, void (*fn)(struct member *me));
/* Creates, or destroys, the heaps of all. Checks after destruction that the transports hold nothing. */
void team_create(struct team *team);
void team_destroy(struct team *team);
void team_end(struct team *team);

/* cmocka's assertions are for the main thread only. */
#define EXPECT(me, condition) team_expect((me)->team, (me)->rank, (condition), #condition, __FILE__, __LINE__)
void team_expect(struct team *team, uint32_t rank, bool good, const char *what, const char *file, int line);
/* As EXPECT, shows the message. */
#define EXPECT_MESSAGE(me, part) team_expect_message((me), (part), __FILE__, __LINE__)
void team_expect_message(struct member *me, const char *part, const char *file, int line);

/* The exchange as the heap calls it; arg is a struct member *. */
int team_reduce(void *arg, void *data, size_t length, void (*combine)(void *into, const void *other), const char *step,
                struct ferry_error *error);
void fake_transport(struct fy_transport *transport, struct ferry_transport *fake, const char *name, uint32_t pe);

/* What must not grow: open files, mappings, mappings of heap files. */
struct holdings {
    int files, mappings, heaps;
};
struct holdings holdings_now(void);

#endif
