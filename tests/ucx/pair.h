/* SPDX-License-Identifier: Apache-2.0
 * Two instances of the plugin in one process, wired to each other by hand; and a core that only keeps what is said.
 * FERRY_TEST_UCX names the plugin. Main thread. */
#ifndef TESTS_UCX_PAIR_H
#define TESTS_UCX_PAIR_H

#include <ferry/transport.h>

#define PAIR_BYTES   ((size_t)4 << 20)
#define PAIR_SECONDS 60.0 /* that anything may take; nothing takes a tenth of it on an idle machine */

struct side {
    struct ferry_transport *t;
    uint8_t endpoint[FERRY_ENDPOINT_MAX];
    size_t endpoint_size;
    char *memory; /* PAIR_BYTES */
    struct ferry_region *region;
    uint8_t blob[FERRY_KEY_MAX];
    size_t blob_size;
    struct ferry_rkey *keys[2]; /* of both sides' memory */
    struct ferry_caps caps;
};

struct pair {
    struct side pe[2];
    int allocated;
};

/* What the core is asked for: option NAME, VALUE in turn, NULL at the end. */
extern const char *const *pair_options;
/* The last record that open, a log or an event left, empty at first. */
extern char pair_said[400];

const struct ferry_plugin *pair_plugin(void);
const struct ferry_host_ops *pair_ops(void);
/* The answer of the plugin's open; the instance in *t. */
int pair_try_open(uint32_t me, uint32_t n_pes, struct ferry_transport **t);
void pair_open(struct pair *p);
/* Wires (channel, other side) of a side; fails the test if that is refused. */
void pair_connect(struct pair *p, int from, uint32_t channel, uint32_t to);
/* Progress of all, once. */
void pair_turn(struct pair *p);
/* Posts until it is taken. */
int pair_post(struct pair *p, int from, uint32_t channel, const struct ferry_op *op);
/* A ticket, until it is good or the time is over. */
int pair_quiet(struct pair *p, int from, uint32_t channel, uint32_t peer);
double pair_now(void); /* seconds, monotonic */
void pair_close(struct pair *p);
struct ferry_op pair_put(const struct pair *p, int from, uint32_t to, uint64_t offset, const void *source, size_t length);

#endif
