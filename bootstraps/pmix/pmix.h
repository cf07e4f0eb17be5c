/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap by PMIx, inside: the instance, and what its files call of each other.
 * Everything runs on the thread in ferry_init, but for functions that libpmix calls from its own thread, as said there. */
#ifndef FERRY_BOOTSTRAP_PMIX_H
#define FERRY_BOOTSTRAP_PMIX_H

#include <ferry/bootstrap.h>
#include <pmix.h>
#include <pthread.h>
#include <stdbool.h>

struct ferry_boot {
    const struct ferry_boot_core *core;
    pmix_proc_t me;
    uint32_t n_pes;
    unsigned round; /* of allgather: keys are not used twice by an instance */
};

void pmix_fail(struct ferry_error *error, int status, const char *hint, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* libpmix's status in words, with what it means. */
int pmix_failed(struct ferry_error *error, const char *what, pmix_status_t rc);

/* patience.c: libpmix's calls have no deadline, and wait for ever on a server that is stopped. */
/* Runs fn(arg) in a thread of its own, and waits for it `seconds` at most (0: no bound). false: not done; the thread goes on,
 * and done(arg) is called by it when it ends. True: done(arg) is the caller's business. */
bool pmix_bounded(void (*fn)(void *arg), void (*done)(void *arg), void *arg, double seconds);

/* What callbacks of libpmix's thread report to; freed when nobody holds it any more. */
struct latch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned holders;
    uint32_t pending;
    pmix_status_t status; /* of the latest that failed */
    char *bytes;          /* what was got: per PE `length` of them */
    size_t length;
    uint8_t *got;         /* per PE: 1, arrived */
    void *taps;           /* gather.c's */
    /* What a call is given is read until its callback comes. */
    pmix_info_t info[2];
    pmix_proc_t all;
    bool collects;
    int seconds;
};
struct latch *latch_new(uint32_t n_pes, size_t length);
void latch_release(struct latch *latch);
/* Until nothing is pending; false: not within `seconds` (0: no bound). */
bool latch_wait(struct latch *latch, double seconds);

/* gather.c */
int pmix_allgather(struct ferry_boot *boot, const void *mine, void *all, size_t length, double timeout, uint8_t *arrived,
                   struct ferry_error *error);

#endif
