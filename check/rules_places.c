/* SPDX-License-Identifier: Apache-2.0
 * Items 39, 40 and 44 to 47: the own PE, overlaps, strides, and where local and remote memory comes from. On every PE.
 */
#include "rules.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int right(const struct pe *pe)
{
    return (pe->rank + 1) % pe->n;
}

static int left(const struct pe *pe)
{
    return (pe->rank + pe->n - 1) % pe->n;
}

/* ------------------------------------------------------------------ 39, 40: the own PE */

static void own_pe(struct pe *pe)
{
    static const size_t sizes[] = {1, 8, 100, 4096, 70001};
    unsigned long rounds = rule_times(pe, "rounds of 5 sizes", 1000);
    uint8_t *data = rule_calloc(pe, 70001), *local = malloc(70001);
    uint64_t *words = rule_calloc(pe, 16), got;

    if (!data || !words || !EXPECT(pe, local != NULL))
        return;
    for (uint64_t r = 1; r <= rounds; r++)
        for (int s = 0; s < 5; s++) {
            rule_fill(local, sizes[s], r);
            EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, data, local, sizes[s], words, 1, FERRY_SIGNAL_ADD, pe->rank));
            EXPECT_OK(pe, ferry_atomic_add(pe->ctx, &words[1], 2, pe->rank));
            EXPECT_OK(pe, ferry_wait_until(pe->job, words, FERRY_CMP_GE, (r - 1) * 5 + (unsigned)s + 1));
            EXPECT(pe, rule_wrong(data, sizes[s], r) == 0);
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
            memset(local, 0, sizes[s]);
            EXPECT_OK(pe, ferry_get(pe->ctx, local, data, sizes[s], pe->rank));
            EXPECT(pe, rule_wrong(local, sizes[s], r) == 0);
        }
    EXPECT_OK(pe, ferry_g(pe->ctx, &words[1], &got, pe->rank));
    EXPECT(pe, got == rounds * 10);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    free(local);
}

/* What overlaps is undefined; what lies around stays, and the call returns. */
static void overlap(struct pe *pe)
{
    enum { BYTES = 20000, EDGE = 1000, GUARD = 0xa5 };
    unsigned long rounds = rule_times(pe, "overlapping puts to the own PE", 2000);
    uint8_t *data = rule_calloc(pe, BYTES);
    uint64_t state = 3 + (uint64_t)pe->rank;

    if (!data)
        return;
    memset(data, GUARD, BYTES);
    for (unsigned long r = 0; r < rounds; r++) {
        size_t n = 1 + rule_draw(&state) % 9000, from = EDGE + rule_draw(&state) % 9000,
               to = EDGE + rule_draw(&state) % 9000;

        memset(data + EDGE, 1, BYTES - 2 * EDGE);
        EXPECT_OK(pe, r & 1 ? ferry_put_nbi(pe->ctx, data + to, data + from, n, pe->rank)
                            : ferry_get_nbi(pe->ctx, data + to, data + from, n, pe->rank));
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
        EXPECT(pe, rule_all(data, EDGE, GUARD) && rule_all(data + BYTES - EDGE, EDGE, GUARD));
        EXPECT(pe, rule_all(data + EDGE, BYTES - 2 * EDGE, 1)); /* any order of copying equal bytes gives them */
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* ------------------------------------------------------------------ 44: strides */

#define SPACE 4000

/* Where an element of a row lies that begins in the middle of the space. */
static size_t place(ptrdiff_t stride, size_t element, size_t i)
{
    return (size_t)((ptrdiff_t)(SPACE / 2) + (ptrdiff_t)i * stride * (ptrdiff_t)element);
}

static void one_row(struct pe *pe, uint8_t *data, uint64_t *state)
{
    static const size_t elements[] = {1, 2, 4, 8, 3, 16};
    uint8_t local[SPACE], model[SPACE], seen[SPACE];
    size_t element = elements[rule_draw(state) % 6], count = rule_draw(state) % 12;
    ptrdiff_t there = (ptrdiff_t)(rule_draw(state) % 19) - 9, here = (ptrdiff_t)(rule_draw(state) % 19) - 9;

    there = there == 0 && count > 1 ? 1 : there; /* which element stays would be undefined */
    rule_fill(local, SPACE, *state);
    memset(model, 0xa5, SPACE);
    EXPECT_OK(pe, ferry_put(pe->ctx, data, model, SPACE, right(pe)));
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    for (size_t i = 0; i < count; i++)
        memcpy(model + place(there, element, i), local + place(here, element, i), element);
    EXPECT_OK(pe, ferry_iput(pe->ctx, data + SPACE / 2, local + SPACE / 2, there, here, element, count, right(pe)));
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    EXPECT_OK(pe, ferry_get(pe->ctx, seen, data, SPACE, right(pe)));
    EXPECT(pe, memcmp(seen, model, SPACE) == 0);
    here = here == 0 && count > 1 ? 1 : here;
    memset(local, 0x5a, SPACE);
    memset(seen, 0x5a, SPACE);
    for (size_t i = 0; i < count; i++)
        memcpy(seen + place(here, element, i), model + place(there, element, i), element);
    EXPECT_OK(pe, ferry_iget(pe->ctx, local + SPACE / 2, data + SPACE / 2, here, there, element, count, right(pe)));
    EXPECT(pe, memcmp(seen, local, SPACE) == 0);
}

static void strides(struct pe *pe)
{
    unsigned long n = rule_times(pe, "rows", 5000);
    uint8_t *data = rule_calloc(pe, SPACE);
    uint64_t state = 11 + (uint64_t)pe->rank;

    if (!data)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; i < n; i++)
        one_row(pe, data, &state);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* Three words, 1 GiB and a bit apart. */
static void wide_strides(struct pe *pe)
{
    const ptrdiff_t stride = ((ptrdiff_t)1 << 27) + 3;
    size_t span = 2 * (size_t)stride * 8 + 8;
    uint64_t *data = ferry_malloc(pe->job, span), in[3] = {1, 2, 3}, out[3] = {0};

    if (!data) { /* the same on all: the call is collective */
        rule_not_applicable(pe, "needs a block of more than 2 GiB, and the heap cannot have one here");
        return;
    }
    EXPECT_OK(pe, ferry_iput(pe->ctx, data, in, stride, 1, 8, 3, right(pe)));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, data[0] == 1 && data[stride] == 2 && data[2 * stride] == 3);
    EXPECT_OK(pe, ferry_iget(pe->ctx, out, data + 2 * stride, 1, -stride, 8, 3, right(pe)));
    EXPECT(pe, out[0] == 3 && out[1] == 2 && out[2] == 1);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* ------------------------------------------------------------------ 45: chunks and registrations */

static const char *const small_chunks[] = {"FERRY_HEAP_CHUNK=64K", NULL};

/* Blocks of any size that fill several chunks: each byte of each block, and an atomic at its end. */
static void many_blocks(struct pe *pe)
{
    enum { BLOCKS = 24 };
    unsigned long rounds = rule_times(pe, "rounds of 24 blocks", 100);
    uint8_t *blocks[BLOCKS], *local = malloc(40000);
    uint64_t state = 17;

    if (!EXPECT(pe, local != NULL))
        return;
    for (unsigned long r = 0; r < rounds; r++) {
        size_t sizes[BLOCKS];

        for (int b = 0; b < BLOCKS; b++) {
            sizes[b] = 16 + rule_draw(&state) % 39000 / 8 * 8;
            blocks[b] = ferry_malloc(pe->job, sizes[b]);
            if (!EXPECT(pe, blocks[b] != NULL))
                return;
            rule_fill(local, sizes[b], r * 4096 + (uint64_t)(b * 64 + pe->rank));
            EXPECT_OK(pe, ferry_put(pe->ctx, blocks[b], local, sizes[b], right(pe)));
            EXPECT_OK(pe, ferry_fence(pe->ctx));
            EXPECT_OK(
                pe, ferry_atomic_set(pe->ctx, (uint64_t *)(void *)(blocks[b] + sizes[b] - 8), (uint64_t)b, right(pe)));
        }
        EXPECT_OK(pe, ferry_barrier(pe->job));
        for (int b = 0; b < BLOCKS; b++) {
            EXPECT(pe, rule_wrong(blocks[b], sizes[b] - 8, r * 4096 + (uint64_t)(b * 64 + left(pe))) == 0);
            EXPECT(pe, *(uint64_t *)(void *)(blocks[b] + sizes[b] - 8) == (uint64_t)b);
        }
        for (int b = 0; b < BLOCKS; b++)
            EXPECT_OK(pe, ferry_free(pe->job, blocks[(b * 7 + 3) % BLOCKS]));
    }
    free(local);
}

/* One block across what would be several chunks, written in one put and around each border. */
static void across_chunks(struct pe *pe)
{
    enum { CHUNK = 65536, BYTES = 5 * CHUNK };
    unsigned long rounds = rule_times(pe, "rounds of 13 puts", 100);
    uint8_t *data = rule_calloc(pe, BYTES), *local = malloc(BYTES);

    if (!data || !EXPECT(pe, local != NULL))
        return;
    for (unsigned long r = 1; r <= rounds; r++) {
        rule_fill(local, BYTES, r * 64 + (uint64_t)pe->rank);
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, local, BYTES, right(pe)));
        for (size_t border = CHUNK; border < BYTES; border += CHUNK)
            for (size_t back = 1; back <= 100; back += 49)
                EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data + border - back, local + border - back, 2 * back, right(pe)));
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
        EXPECT_OK(pe, ferry_sync(pe->job));
        EXPECT(pe, rule_wrong(data, BYTES, r * 64 + (uint64_t)left(pe)) == 0);
        EXPECT_OK(pe, ferry_sync(pe->job));
    }
    free(local);
}

/* Small regions of the program, registered, used and given up, several at a time. */
static void registrations(struct pe *pe)
{
    enum { REGIONS = 40, BYTES = 600 };
    unsigned long rounds = rule_times(pe, "rounds of 40 regions", 100);
    uint8_t *data = rule_calloc(pe, REGIONS * BYTES), *local = malloc(REGIONS * BYTES);
    ferry_buffer_t *buffers[REGIONS] = {NULL};

    if (!data || !EXPECT(pe, local != NULL))
        return;
    for (uint64_t r = 1; r <= rounds; r++) {
        rule_fill(local, REGIONS * BYTES, r * 64 + (uint64_t)pe->rank);
        for (int i = 0; i < REGIONS; i++) {
            EXPECT_OK(pe, ferry_register(pe->job, local + i * BYTES, BYTES, &buffers[i]));
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data + i * BYTES, local + i * BYTES, BYTES, right(pe)));
        }
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
        for (int i = 0; i < REGIONS; i++)
            EXPECT_OK(pe, ferry_deregister(buffers[i]));
        EXPECT_OK(pe, ferry_sync(pe->job));
        EXPECT(pe, rule_wrong(data, REGIONS * BYTES, r * 64 + (uint64_t)left(pe)) == 0);
        EXPECT_OK(pe, ferry_sync(pe->job));
    }
    free(local);
}

/* The same addresses get other memory each time: what was known of the old must not be used. Sometimes registered. */
static void same_address(struct pe *pe)
{
    enum { BYTES = 512 * 1024 };
    unsigned long rounds = rule_times(pe, "mappings", 200);
    uint8_t *data = rule_calloc(pe, BYTES);
    uint8_t *local = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (!data || !EXPECT(pe, local != MAP_FAILED))
        return;
    for (uint64_t r = 1; r <= rounds; r++) {
        ferry_buffer_t *buffer = NULL;
        size_t n = r & 1 ? BYTES : 3000;

        if (!EXPECT(pe, mmap(local, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                            local))
            return;
        rule_fill(local, n, r * 64 + (uint64_t)pe->rank);
        if (r & 2)
            EXPECT_OK(pe, ferry_register(pe->job, local, BYTES, &buffer));
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, local, n, right(pe)));
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
        EXPECT_OK(pe, ferry_sync(pe->job));
        EXPECT(pe, rule_wrong(data, n, r * 64 + (uint64_t)left(pe)) == 0);
        memset(local, 0, n);
        EXPECT_OK(pe, ferry_get(pe->ctx, local, data, n, right(pe)));
        EXPECT(pe, rule_wrong(local, n, r * 64 + (uint64_t)pe->rank) == 0);
        EXPECT_OK(pe, ferry_sync(pe->job));
        if (buffer)
            EXPECT_OK(pe, ferry_deregister(buffer));
    }
    munmap(local, BYTES);
}

/* Memory of the program, shared with all for a while, then other memory in its place. A key of the former must not
 * serve. */
static void shared_anew(struct pe *pe)
{
    enum { BYTES = 20000 };
    unsigned long rounds = rule_times(pe, "buffers", 400);
    uint8_t *room = calloc(4, BYTES), local[BYTES];

    EXPECT(pe, room != NULL);
    for (uint64_t r = 1; room && r <= rounds; r++) {
        uint8_t *data = room + r % 4 * BYTES;
        ferry_buffer_t *buffer = NULL;
        int rc = ferry_register_symmetric(pe->job, data, BYTES, &buffer);

        if (rc != FERRY_OK && r == 1) {
            rule_not_applicable(pe, "the transport shares no memory but its own");
            break;
        }
        if (!EXPECT_OK(pe, rc))
            break;
        rule_fill(local, BYTES, r * 64 + (uint64_t)pe->rank);
        EXPECT_OK(pe, ferry_put(pe->ctx, data, local, BYTES, right(pe)));
        EXPECT_OK(pe, ferry_barrier(pe->job));
        EXPECT(pe, rule_wrong(data, BYTES, r * 64 + (uint64_t)left(pe)) == 0);
        EXPECT_OK(pe, ferry_barrier(pe->job));
        EXPECT_OK(pe, ferry_deregister(buffer));
    }
    free(room);
}

/* ------------------------------------------------------------------ 46, 47: local memory of any kind */

/* `source` holds rule_fill(…, seed) on each PE alike. */
static void from_source(struct pe *pe, uint8_t *data, const uint8_t *source, size_t n, uint64_t seed, uint64_t *signal)
{
    memset(data, 0, n);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT_OK(pe, ferry_put(pe->ctx, data, source, n, right(pe)));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, rule_wrong(data, n, seed) == 0);
    memset(data, 0, n);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, data, source, n, signal, 1, FERRY_SIGNAL_ADD, right(pe)));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, rule_wrong(data, n, seed) == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static const size_t lengths[] = {1, 8, 60, 256, 257, 5000, 65536, 300001};
#define MOST 300001u

static void stack_source(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "rounds of 8 lengths", 100);
    uint8_t source[MOST], *data = rule_calloc(pe, MOST);
    uint64_t *signal = rule_calloc(pe, 8);

    for (unsigned long r = 0; data && signal && r < rounds; r++)
        for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
            rule_fill(source, lengths[i], r * 8 + i);
            from_source(pe, data, source, lengths[i], r * 8 + i, signal);
            memset(source, 0, lengths[i]);
            EXPECT_OK(pe, ferry_get_nbi(pe->ctx, source, data, lengths[i], right(pe)));
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
            EXPECT(pe, rule_wrong(source, lengths[i], r * 8 + i) == 0);
            EXPECT_OK(pe, ferry_barrier(pe->job));
        }
}

/* Another PE's share of the heap is no local memory, but one's own is: as a source, and as a destination of a get. */
static void heap_source(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "rounds of 8 lengths", 100);
    uint8_t *source = rule_calloc(pe, MOST), *data = rule_calloc(pe, MOST);
    uint64_t *signal = rule_calloc(pe, 8);

    for (unsigned long r = 0; source && data && signal && r < rounds; r++)
        for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
            rule_fill(source, lengths[i], r * 8 + i);
            from_source(pe, data, source, lengths[i], r * 8 + i, signal);
            memset(source, 0, lengths[i]);
            EXPECT_OK(pe, ferry_get(pe->ctx, source, data, lengths[i], right(pe)));
            EXPECT(pe, rule_wrong(source, lengths[i], r * 8 + i) == 0);
            EXPECT_OK(pe, ferry_barrier(pe->job));
        }
}

static void read_only(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "rounds of 8 lengths", 100);
    size_t room = (MOST + 4095) / 4096 * 4096;
    uint8_t *data = rule_calloc(pe, MOST),
            *source = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t *signal = rule_calloc(pe, 8);

    if (!data || !signal || !EXPECT(pe, source != MAP_FAILED))
        return;
    for (unsigned long r = 0; r < rounds; r++)
        for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
            EXPECT(pe, mprotect(source, room, PROT_READ | PROT_WRITE) == 0);
            rule_fill(source, lengths[i], r * 8 + i);
            EXPECT(pe, mprotect(source, room, PROT_READ) == 0);
            from_source(pe, data, source, lengths[i], r * 8 + i, signal);
        }
    munmap(source, room);
}

const struct rule fy_rules_places[] = {
    {"R39.1", "every operation works on the own PE", 1, 0, own_pe, NULL},
    {"R40.1", "overlapping buffers harm nothing around them", 1, 0, overlap, NULL},
    {"R44.1", "strided puts and gets do what the model says", 2, 0, strides, NULL},
    {"R44.2", "strides that span more than 2 GiB", 2, RULE_BIG | RULE_PAIR, wide_strides, NULL},
    {"R45.1", "blocks made, used, freed and made again over many chunks", 2, 0, many_blocks, small_chunks},
    {"R45.2", "a block larger than a chunk, and puts across each border in it", 2, 0, across_chunks, small_chunks},
    {"R45.3", "many small regions, registered again and again", 2, 0, registrations, NULL},
    {"R45.4", "new memory at an old address", 2, 0, same_address, NULL},
    {"R45.5", "memory of the program, shared anew at another place", 2, 0, shared_anew, NULL},
    {"R46.1", "sources and destinations on the stack, not registered", 2, 0, stack_source, NULL},
    {"R46.2", "sources and destinations in the own heap", 2, 0, heap_source, NULL},
    {"R47.1", "a source that may not be written", 2, 0, read_only, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
