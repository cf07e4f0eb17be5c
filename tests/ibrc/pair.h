/* SPDX-License-Identifier: Apache-2.0
 * Two PEs of the ibrc plugin in one process, over the stand-in libibverbs and without the core.
 * Main thread of a test: it plays both control threads. */
#ifndef TESTS_IBRC_PAIR_H
#define TESTS_IBRC_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../fakeverbs/fakeverbs.h"
#include <ferry/transport.h>

#define MEMORY ((size_t)65536)

/* A core that has options and keeps what it is told. */
struct stub {
    struct ferry_core core; /* first: the plugin hands it back */
    const char *const *set; /* NAME, VALUE, NAME, VALUE, …, NULL */
    struct ferry_error last;
    int errors, warnings, notes; /* notes: log lines of level INFO */
    char warning[400], note[400];
    int deaf; /* 1: watch_fd fails */
    int fd;
    void (*fn)(void *arg);
    void *arg;
};

struct side {
    struct stub stub;
    struct ferry_transport *t;
    struct ferry_region *region;
    struct ferry_rkey *key; /* of the other side's memory */
    char *memory;
    uint8_t endpoint[FERRY_ENDPOINT_MAX];
    size_t endpoint_size;
};

struct pair {
    struct side pe[2];
};

const struct ferry_plugin *plugin(void);
const struct ferry_host_ops *ops(void);
void stub_init(struct stub *stub, const char *const *set);
/* Opens one instance of a job of two. Its status. */
int side_open(struct side *s, uint32_t me, const char *const *set);
void side_close(struct side *s);
/* Opens both, exchanges keys and connects channel 0 of PE 0 to PE 1. */
void pair_open(struct pair *p, const char *const *set);
void pair_close(struct pair *p);
/* After pair_connect the queue pairs that it made are the two newest: the initiator's, and the one that serves it. */
static inline uint32_t initiator_qp(void)
{
    return fakeverbs_newest_qp(1);
}
static inline uint32_t serving_qp(void)
{
    return fakeverbs_newest_qp(0);
}
/* Fails, and shows both, unless the text has the words in it. */
void assert_says(const char *text, const char *words);
/* The three phases. Status of the first that fails. */
int pair_connect(struct pair *p, uint32_t channel, int from, int to);
/* Until the ticket is covered; the status. */
int side_quiet(struct side *s, uint32_t channel, uint32_t peer);
struct ferry_op put_op(struct pair *p, uint64_t from, uint64_t to, size_t length);
struct ferry_op amo_op(struct pair *p, uint64_t at, int kind, uint64_t operand);

#endif
