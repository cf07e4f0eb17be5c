/* SPDX-License-Identifier: Apache-2.0
 * What the tests of hooks put below and above a hook: a transport that writes down what it is asked, and is slow,
 * refuses or fails when told to; a core that keeps log lines and gives options. One thread. */
#ifndef TESTS_HOOKS_STUB_H
#define TESTS_HOOKS_STUB_H

#include <ferry/transport.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define STUB_PES     3u
#define STUB_MEMORY  65536u
#define STUB_EVENTS  20000u
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct ferry_region {
    void *address;
    size_t length;
};

struct ferry_rkey {
    uint32_t peer;
};

/* One operation as the transport below got it. */
struct stub_event {
    struct ferry_op op;
    uint32_t channel, peer;
    uint64_t border;   /* FENCED flags and fence calls of its stream up to it, its own included */
    uint64_t posted;   /* on a clock that ticks with every post and every completion */
    uint64_t complete; /* 0: not yet */
    uint32_t wait;     /* calls until it is complete */
    uint8_t copy[4096];
};

/* The transport below. Set the first part before use. */
struct stub {
    struct ferry_caps caps;
    uint32_t latency;        /* quiet and progress calls until an operation is complete */
    uint32_t again_every;    /* each so many-th post is refused; 0: none */
    uint64_t fail_at;        /* this post fails (counting from 1) with fail_with; 0: none */
    uint64_t fail_ticket_at; /* this quiet call fails */
    int fail_with;
    uint32_t max_out; /* operations in flight before AGAIN; 0: any number */
    bool gpu;         /* the same capabilities for memory of GPUs */

    uint8_t memory[STUB_PES][STUB_MEMORY];
    struct stub_event *events;
    uint64_t n, all_before, asked, clock, borders[STUB_PES], quiets, progresses;
    int regions, keys, channels, closed;
};

struct stub *stub_new(void); /* ordered by nothing, takes FENCED, completes at once */
void stub_free(struct stub *stub);
const struct ferry_host_ops *stub_ops(void);

/* A hook loaded from its file, over something. */
struct above {
    struct ferry_core core; /* first */
    const struct ferry_plugin *plugin;
    const char *const *options; /* "name=value", NULL-ended, over the defaults */
    char lines[8192];
    struct ferry_error error;
    struct ferry_host_ops ops; /* complete: the hook's over the stub's */
    struct ferry_transport *handle;
};

/* Opens the hook in the file over inner. Returns open's status. */
int above_open(struct above *above, const char *path, const char *const *options, struct ferry_transport *inner,
               const struct ferry_host_ops *inner_ops);
/* The number in front of `word` in the kept lines. */
unsigned long long above_number(const struct above *above, const char *word);

#endif
