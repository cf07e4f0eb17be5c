/* SPDX-License-Identifier: Apache-2.0
 * Two PEs of the libfabric plugin in one process, without the core; and a libfabric that can be told to lack things.
 * Main thread of a test: it plays the service threads, too. */
#ifndef TESTS_LIBFABRIC_PAIR_H
#define TESTS_LIBFABRIC_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ferry/transport.h>

#define MEMORY ((size_t)4 << 20)

/* A core that has options and keeps what it is told. */
struct stub {
    struct ferry_core core; /* first: the plugin hands it back */
    const char *const *set; /* NAME, VALUE, NAME, VALUE, …, NULL */
    struct ferry_error last;
    int errors;
    char note[400]; /* the last line of level INFO, */
    char warning[400]; /* and of level WARN */
    uint64_t delivered, sum; /* by deliver: how often, and of the data */
    uint32_t from;
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

/* What libfabric is made to lack or to answer; zero: nothing. */
struct lack {
    uint64_t caps;   /* asking for one of these finds nothing */
    int rdm;         /* 1: asking for FI_EP_RDM finds nothing */
    int getinfo;     /* fi_getinfo fails with this */
    int mr_reg;      /* registrations fail with this */
    uint64_t order;  /* 1: msg_order is emptied */
    int strays;      /* so many failures of nobody's are reported by the next queues read; -1 when the domain is opened: none yet */
};
extern struct lack lack;

const struct ferry_plugin *plugin(void);
const struct ferry_host_ops *ops(void);
void stub_init(struct stub *stub, const char *const *set);
/* Opens one instance of a job of two. Its status. */
int side_open(struct side *s, uint32_t me, const char *const *set);
void side_close(struct side *s);
/* Opens both, exchanges keys and connects channel 0 of PE 0 to PE 1. */
void pair_open(struct pair *p, const char *const *set);
void pair_close(struct pair *p);
int pair_connect(struct pair *p, uint32_t channel, int from, int to);
/* Fails, and shows both, unless the text has the words in it. */
void assert_says(const char *text, const char *words);
/* Both service sides, once. */
void pair_serve(struct pair *p);
/* Posts until it is taken; the status. */
int pair_post(struct pair *p, const struct ferry_op *op);
/* Until all of PE 0 to PE 1 is complete; the status. */
int pair_quiet(struct pair *p);
struct ferry_op put_op(struct pair *p, uint64_t from, uint64_t to, size_t length);
struct ferry_op amo_op(struct pair *p, uint64_t at, int kind, unsigned width, uint64_t operand);
struct ferry_caps caps_of(struct side *s);
double seconds(void);

#endif
