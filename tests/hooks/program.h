/* SPDX-License-Identifier: Apache-2.0
 * A program of random operations for the tests of hooks, each into memory of its own, so that whoever looks at what
 * arrived below can tell which operation it was. One thread. */
#ifndef TESTS_HOOKS_PROGRAM_H
#define TESTS_HOOKS_PROGRAM_H

#include "stub.h"

#define PROGRAM_OPS  900u
#define PROGRAM_CELL 64u /* bytes of remote memory, and of local, per operation */

struct program {
    struct above *above;
    struct ferry_rkey *keys[STUB_PES];
    uint32_t channel, n, wanted_refusals;
    uint64_t random; /* state of the generator */
    uint32_t groups[STUB_PES];
    bool with_fences, with_copies;
    struct step {
        uint8_t kind;
        uint32_t flags, peer, group;
        size_t length;
        bool done; /* a ticket covers it */
    } steps[PROGRAM_OPS];
    uint8_t local[PROGRAM_OPS][PROGRAM_CELL];
};

/* Imports keys, opens the channel. */
struct program *program_new(struct above *above, uint64_t seed);
void program_free(struct program *p);
/* Posts one more operation, making progress while it is refused. A negative status, or FERRY_OK. */
int program_step(struct program *p);
/* Waits for one ticket that covers everything to peer, or FERRY_PEER_ALL. */
int program_quiet(struct program *p, uint32_t peer);
/* Steps and a final quiet, all of which must succeed. */
void program_run(struct program *p, uint32_t n);
/* What was put is in place, what was fetched and got is there. */
void program_check_memory(const struct program *p, const struct stub *stub);
/* Nothing that lies behind a border was posted below before what precedes it, unless that was complete, or the
 * transport below was told of a border. Returns the number of pairs that a border separates. */
uint64_t program_check_borders(const struct program *p, const struct stub *stub);

#endif
