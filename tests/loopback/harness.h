/* SPDX-License-Identifier: Apache-2.0
 * Drives the loopback plugin's table without the core: a small core of its own, PEs with memory, child processes.
 * Used by the main thread of a test; the stub's control thread runs what the plugin gives to watch_fd. */
#ifndef FY_TESTS_LOOPBACK_HARNESS_H
#define FY_TESTS_LOOPBACK_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../../plugins/loopback/wire.h"

#include <pthread.h>
#include <sys/types.h>

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#define SCALE(n)   ((n) / 25)
#else
#define UNDER_TSAN 0
#define SCALE(n)   (n)
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#else
#define UNDER_SANITIZER 0
#endif

#define PATIENCE 30.0 /* seconds until a wait gives up */

struct blob {
    size_t size;
    uint8_t bytes[FERRY_ENDPOINT_MAX];
};

struct stub {
    struct ferry_core core; /* first: the plugin hands it back */
    int64_t nt_threshold;
    const char *guise;
    void (*delivered)(void *arg, uint32_t from, uint32_t data); /* what deliver() was called with, or NULL */
    void *delivered_arg;
    int mute; /* 1: watched, never served */
    int watched;
    int wake;
    int fd;
    void (*fn)(void *arg);
    void *arg;
    pthread_t thread;
    unsigned errors;
    unsigned served;  /* calls of fn; atomic */
    unsigned dropped; /* lines about dropped connections; atomic */
    struct ferry_error last;
};

struct pe {
    struct stub stub;
    struct ferry_transport *t;
    uint32_t me;
    int fd;
    char *memory;
    size_t length;
    struct ferry_region *region;
    struct blob endpoint, key;
};

struct child {
    pid_t pid;
    int socket;
};

/* A PE introducing itself. */
struct hello {
    uint32_t pe;
    struct blob endpoint, key;
};

extern const uint8_t test_secret[FERRY_SECRET_BYTES];
const struct ferry_plugin *plugin(void);
const struct ferry_host_ops *ops(void);

/* A zero asks for the value that its comment names. */
struct pe_options {
    int64_t nt_threshold; /* 0: 8M; -1: never */
    size_t length;        /* 0: 1M */
    uint32_t n_pes;       /* 0: 8 */
    int mute;
    const char *guise; /* NULL: none */
    int no_memory;     /* 1: none is registered */
};
void stub_init(struct stub *stub, int64_t nt_threshold);
void pe_open(struct pe *pe, uint32_t me, const struct pe_options *options);
void pe_close(struct pe *pe);
/* Repeats import_key until it answers; fails the test when it never does. */
int pe_import(struct pe *pe, uint32_t peer, const struct blob *key, struct ferry_rkey **rkey);
struct ferry_rkey *pe_must_import(struct pe *pe, uint32_t peer, const struct blob *key);
struct ferry_error pe_error(struct pe *pe, uint32_t peer);
/* The key as if its owner were another process, so that this process has to map it. */
struct blob foreign(const struct blob *key);

void put(struct pe *pe, const struct ferry_rkey *key, uint64_t offset, const void *from, size_t n, uint32_t flags);
void get(struct pe *pe, const struct ferry_rkey *key, uint64_t offset, void *to, size_t n);
struct ferry_op amo_op(const struct ferry_rkey *key, uint64_t offset, int kind, int width, uint64_t operand);
uint64_t fetch_add(struct pe *pe, uint32_t channel, const struct ferry_rkey *key, uint64_t offset, uint64_t operand);
void put_signal(struct pe *pe, const struct ferry_rkey *key, uint64_t offset, const void *from, size_t n,
                uint64_t signal_offset, int kind, uint64_t value);
void quiet(struct pe *pe, uint32_t peer);
/* Spins until the word at `p` is at least `value`; 0: it never was. */
int await(const uint64_t *p, uint64_t value);

double seconds(void);
void fill(void *to, size_t n, uint64_t seed);
uint64_t next_random(uint64_t *state);
unsigned count_fds(void);
unsigned count_maps(void);
unsigned count_threads(void);

/* Starts this program again with --child ROLE; main() hands argv to child_main, which runs the role. */
struct role {
    const char *name;
    int (*run)(int socket);
};
struct child child_start(const char *role);
void child_kill(struct child *child);
/* Waits for the end; fails the test unless it exits with 0. */
void child_finish(struct child *child);
/* -1: this is no child. */
int child_main(int argc, char **argv, const struct role *roles, size_t n);
int send_bytes(int socket, const void *bytes, size_t n);
int receive_bytes(int socket, void *bytes, size_t n);
int send_hello(int socket, const struct pe *pe);
int receive_hello(int socket, struct hello *hello);

#endif
