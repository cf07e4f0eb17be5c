/* SPDX-License-Identifier: Apache-2.0
 * What a rule of the contract is, and what its body may use besides ferry.h and pes.h. Bodies run on every PE; PEs are
 * threads of one process or processes. A new group: its file in meson.build, its table here and in groups.c. */
#ifndef CHECK_RULES_H
#define CHECK_RULES_H

#include "pes.h"

#include <stdint.h>

enum rule_flags {
    RULE_ONE_PROCESS = 1u << 0, /* the PEs share memory beside the heap, or start threads that must outlive none */
    RULE_ALONE = 1u << 1,       /* the body starts jobs itself: called once, without a job, with pe->n as the wish */
    RULE_BIG = 1u << 2, /* gigabytes, or every alignment: on plain loopback and its guise max-msg, or when asked for */
    RULE_RACES = 1u << 3, /* bytes are looked at while they are written: not under the thread sanitizer */
    RULE_PAIR = 1u << 4,  /* with two PEs, since each is costly */
    RULE_ASKED = 1u << 5  /* only where its level, its group or the rule itself was asked for: dozens of jobs */
};

struct rule {
    const char *id;    /* "R10.2": item of the contract, and a number */
    const char *title; /* "fence orders a put and a flag put behind it"; no '|' */
    int min_pes;
    unsigned flags; /* enum rule_flags */
    void (*body)(struct pe *pe);
    const char *const *options; /* "NAME=value" of its job, ended by NULL; or NULL */
};

/* Each ends with a rule whose id is NULL. */
extern const struct rule fy_rules_completion[], fy_rules_data[], fy_rules_atomics[], fy_rules_kinds[], fy_rules_sizes[],
    fy_rules_places[];
extern const struct rule fy_rules_order[], fy_rules_signals[], fy_rules_wait[], fy_rules_contexts[], fy_rules_life[],
    fy_rules_death[], fy_rules_load[], fy_rules_programs[], fy_rules_faults[], fy_rules_speed[];

/* What a group of rules is about, from loading the plugin to speed. */
enum rule_level {
    LEVEL_LOAD,
    LEVEL_DATA,
    LEVEL_ORDER,
    LEVEL_THREADS,
    LEVEL_ADVERSARY,
    LEVEL_FAULTS,
    LEVEL_SPEED,
    LEVELS
};

struct rule_group {
    const char *name;
    const struct rule *rules;
    enum rule_level level;
    const char *anchor; /* section of docs/semantics.md that says what holds */
};
extern const struct rule_group fy_rule_groups[]; /* ended by name NULL */

/* What ferry-info says of the transport, in numbers; SIZE_MAX: any. */
struct rule_caps {
    size_t message_max, copy_max, inline_max, queue_depth, channels;
    int strong_signals, target_progress, unregistered, map, get, nic_domain;
};

/* One rule as it is played; the same for all PEs, processes included. */
struct stage {
    const struct rule *rule; /* of the process that plays it */
    char id[16];             /* the rule's */
    int pes;
    ferry_uniqueid_t unique; /* where a launcher starts the PEs, and has no way of its own to bring them together */
    struct rule_caps caps;
    int chaos, processes, plain; /* plain: loopback without a guise and without hooks */
    _Atomic int bad;             /* failures, also of PEs that are processes */
    _Atomic int not_applicable;
    char reason[256];                      /* why it is not applicable */
    char seen[256];                        /* the first expectation that failed */
    char plugin[256];                      /* path of the plugin's file; empty: several, or not known */
    _Atomic uint64_t reversals, instances; /* as the chaos hook reports them */
    _Atomic uint64_t unbalanced;           /* complaints of the count hook */
    _Atomic uint64_t words[64];            /* what PEs tell each other beside the job; zero at the start */
};

static inline struct stage *rule_stage(const struct pe *pe)
{
    return pe->arg;
}

/* This rule says nothing about this transport. The same decision on every PE; the body then returns. */
void rule_not_applicable(struct pe *pe, const char *reason);
/* TEST_SCALE percent of `full`, at least 1; PE 0 prints both. Call it once for each loop, on every PE. */
unsigned long rule_times(struct pe *pe, const char *what, unsigned long full);
/* Zeroed symmetric memory; counts a failure if there is none. */
void *rule_calloc(struct pe *pe, size_t size);
/* `n` bytes that depend on `seed` and their place; how many of them are not so. The seed 0 is a valid one. */
void rule_fill(void *to, size_t n, uint64_t seed);
size_t rule_wrong(const void *at, size_t n, uint64_t seed);
/* All bytes equal `value`. */
bool rule_all(const void *at, size_t n, uint8_t value);
/* Waits, for at most a minute, until words[index] >= value; yields meanwhile. */
bool rule_meet(struct pe *pe, int index, uint64_t value);
/* All PEs come, by words[index], without any call to Ferry; `round` counts from 1. */
bool rule_gather(struct pe *pe, int index, uint64_t round);
/* A number drawn from *state (any seed, no 0). */
uint64_t rule_draw(uint64_t *state);

#endif
