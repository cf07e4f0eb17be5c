/* SPDX-License-Identifier: Apache-2.0
 * Runs the PEs of a job as threads of the test, or as child processes, and collects what they found wrong.
 * cmocka's asserts may only run in the main thread; PEs use EXPECT, and the main thread asserts on the count. */
#ifndef CHECK_PES_H
#define CHECK_PES_H

#include <ferry/ferry.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* What one PE gets. */
struct pe {
    int rank, n;
    ferry_job_t *job;
    ferry_ctx_t *ctx; /* default context */
    void *arg;
    struct run *run;
};

struct run {
    int n;
    void (*body)(struct pe *pe);
    void *arg;
    const char *const *options;                          /* "NAME=value", NULL-ended; or NULL */
    void (*log)(void *arg, int level, const char *line); /* of every PE, with arg; NULL: stderr */
    /* results */
    _Atomic int failures;
    char seen[256]; /* the first of them */
    int init_status[64];
    struct ferry_error init_error[64];
    int final_status[64];
};

/* Starts run->n threads, each a PE; init, body, finalize. Returns the number of failures, those of init and finalize
 * included unless `tolerant`. */
int pes_run(struct run *run);
int pes_run_tolerant(struct run *run);
/* The short form, tests/common/pes_check.c: body on n threads with the test's transport; cmocka asserts that nothing
 * failed. */
void pes_check(int n, void (*body)(struct pe *pe), void *arg);
void pes_check_options(int n, void (*body)(struct pe *pe), void *arg, const char *const *options);

/* The same with child processes; arg is shared only if it lies in memory from pes_shared. Returns failures. With TEST_HOSTS set
 * they run on hosts that are namespaces (tests/net). */
int pes_fork(struct run *run);
void *pes_shared(size_t size);
/* This process is one PE, started by something else; id NULL: the environment says how PEs meet. Returns failures. */
int pes_one(struct run *run, int rank, const ferry_uniqueid_t *id);

/* Counts a failure and prints where; does not return from the caller. */
bool pes_expect(struct pe *pe, bool good, const char *what, const char *file, int line);
#define EXPECT(pe, condition) pes_expect(pe, (condition), #condition, __FILE__, __LINE__)
#define EXPECT_OK(pe, call)   pes_expect_ok(pe, (call), #call, __FILE__, __LINE__)
bool pes_expect_ok(struct pe *pe, int status, const char *what, const char *file, int line);

/* FERRY_TRANSPORT of the tests: TEST_TRANSPORT, or loopback. */
const char *pes_transport(void);
/* How much a test should do: TEST_SCALE percent of `full`, at least 1 (sanitizers set less). */
unsigned long pes_scaled(unsigned long full);
double pes_now(void); /* seconds, monotonic */
/* How much a second counts. Three threads that wait for each core are no reason to be slow; a tenth is the least, or what
 * stands still would never be told. */
double pes_share(long busy, long cores);
/* A time limit for what may stand still: so many seconds, counted like this. Looked at now and then; false: it is over.
 * One thread. */
struct pes_limit {
    double left, looked;
};
struct pes_limit pes_limit(double seconds);
bool pes_in_time(struct pes_limit *limit);
/* Open descriptors, mappings and threads of this process. */
struct pes_usage {
    int fds, maps, threads;
};
struct pes_usage pes_usage(void);
/* The same once there are no more threads than before, or after 3 seconds: one that was joined stays listed until the kernel has
 * taken it off. */
struct pes_usage pes_usage_after(const struct pes_usage *before);
int pes_alone(void); /* threads of a process that started none */

#endif
