/* SPDX-License-Identifier: Apache-2.0
 * Commands of CPU producers, carried out by the proxy over the transport in TEST_TRANSPORT: every kind, many laps, order.
 * PEs are threads; producers are threads of the PEs. */
#include "pes.h"

#include <ferry/ring.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* A ring, and the handle of the thread that made it. */
struct bell {
    ferry_ring_t *ring;
    struct ferry_ring_handle handle;
};

static bool bell_make(struct pe *pe, struct bell *bell, size_t slots)
{
    return EXPECT_OK(pe, ferry_ring_create(pe->job, slots, 0, &bell->ring)) &&
           EXPECT_OK(pe, ferry_ring_export(bell->ring, FERRY_RING_LAYOUT, &bell->handle));
}

static uint64_t address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

/* Posts with ANNOUNCE and waits. */
static void finish(struct pe *pe, struct bell *bell, struct ferry_command c)
{
    uint64_t end = 0;
    c.flags |= FERRY_COMMAND_ANNOUNCE;
    if (EXPECT_OK(pe, ferry_ring_post(&bell->handle, &c, &end)))
        EXPECT_OK(pe, ferry_ring_wait(&bell->handle, end));
}

static uint8_t pattern(size_t i, int salt)
{
    return (uint8_t)(i * 131 + (size_t)salt * 17 + (i >> 8));
}

/* ------------------------------------------------------------------ data */

static const size_t sizes[] = {0, 1, 7, 8, 9, 63, 64, 65, 255, 4096, 65537, 262145, 1 << 20};
#define ROOM ((size_t)(1 << 20) + 64)

/* Puts and gets to the right neighbour, the local side in the heap (short commands) or outside (long ones). */
static void data_with(struct pe *pe, struct bell *bell, uint8_t *area, uint8_t *local, uint8_t *back)
{
    int to = (pe->rank + 1) % pe->n, from = (pe->rank + pe->n - 1) % pe->n;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        size_t n = sizes[s];
        for (size_t i = 0; i < n; i++)
            local[i] = pattern(i, pe->rank + (int)s);
        memset(area, 0xa5, n + 32);
        EXPECT_OK(pe, ferry_barrier(pe->job));
        EXPECT_OK(pe, ferry_ring_put_nbi(&bell->handle, area + 16, local, n, to));
        EXPECT_OK(pe, ferry_ring_quiet(&bell->handle));
        EXPECT_OK(pe, ferry_barrier(pe->job));
        bool good = area[15] == 0xa5 && area[16 + n] == 0xa5;
        for (size_t i = 0; i < n; i++)
            good &= area[16 + i] == pattern(i, from + (int)s);
        EXPECT(pe, good);
        memset(back, 0, n + 1);
        finish(pe, bell, (struct ferry_command){.kind = FERRY_COMMAND_GET, .pe = (uint32_t)to, .remote = address(area + 16),
                                               .local = address(back), .length = n});
        EXPECT(pe, memcmp(back, local, n) == 0 && back[n] == 0);
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
}

static void data_body(struct pe *pe)
{
    struct bell bell;
    uint8_t *area = ferry_malloc(pe->job, ROOM), *inside = ferry_malloc(pe->job, 2 * ROOM), *outside = malloc(2 * ROOM);
    if (EXPECT(pe, area && inside && outside) && bell_make(pe, &bell, 0)) {
        data_with(pe, &bell, area, inside, inside + ROOM);
        data_with(pe, &bell, area, outside, outside + ROOM);
        EXPECT_OK(pe, ferry_ring_destroy(bell.ring));
    }
    free(outside);
}

static void test_data(void **state)
{
    (void)state;
    pes_check(3, data_body, NULL);
    pes_check(1, data_body, NULL);
}

/* ------------------------------------------------------------------ values, signals, atomics */

static void value_commands(struct pe *pe, struct bell *bell, uint64_t *words, int to)
{
    const uint64_t edges[] = {0, 1, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < 4; i++) {
        finish(pe, bell, (struct ferry_command){.kind = FERRY_COMMAND_P64, .pe = (uint32_t)to, .remote = address(words),
                                               .value = edges[i]});
        finish(pe, bell, (struct ferry_command){.kind = FERRY_COMMAND_P32, .pe = (uint32_t)to, .remote = address(words + 1),
                                               .value = edges[i]});
        EXPECT_OK(pe, ferry_barrier(pe->job));
        EXPECT(pe, words[0] == edges[i] && (uint32_t)words[1] == (uint32_t)edges[i] && words[1] >> 32 == 0);
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
}

static void signal_commands(struct pe *pe, struct bell *bell, uint64_t *words, int to)
{
    const int hows[] = {FERRY_SIGNAL_SET, FERRY_SIGNAL_ADD, FERRY_SIGNAL_SET | FERRY_SIGNAL_WEAK, FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK};
    uint64_t *source = words + 8, expected = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t value = i == 7 ? UINT64_MAX : (uint64_t)i + 3;
        int how = hows[i % 4];
        expected = how & 1 ? expected + value : value;
        EXPECT_OK(pe, ferry_ring_signal(&bell->handle, words, value, how, to));
        EXPECT_OK(pe, ferry_wait_until(pe->job, words, FERRY_CMP_EQ, expected));
        EXPECT_OK(pe, ferry_barrier(pe->job));
        source[0] = (uint64_t)(pe->rank * 100 + i);
        EXPECT_OK(pe, ferry_ring_put_signal_nbi(&bell->handle, words + 1, source, 8, words, value, how, to));
        expected = how & 1 ? expected + value : value;
        if (how & 1) /* SET to the value that is there already would tell nothing */
            EXPECT_OK(pe, ferry_wait_until(pe->job, words, FERRY_CMP_EQ, expected));
        EXPECT_OK(pe, ferry_ring_quiet(&bell->handle));
        EXPECT_OK(pe, ferry_barrier(pe->job));
        EXPECT(pe, words[0] == expected && words[1] == (uint64_t)((pe->rank + pe->n - 1) % pe->n * 100 + i));
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
    EXPECT_OK(pe, ferry_ring_put_signal_nbi(&bell->handle, words + 1, NULL, 0, words, 9, FERRY_SIGNAL_SET, to));
    EXPECT_OK(pe, ferry_wait_until(pe->job, words, FERRY_CMP_EQ, 9));
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static uint64_t model(unsigned amo, uint64_t before, uint64_t value, uint64_t compare)
{
    switch (amo) {
    case FERRY_COMMAND_AMO_ADD: return before + value;
    case FERRY_COMMAND_AMO_AND: return before & value;
    case FERRY_COMMAND_AMO_OR: return before | value;
    case FERRY_COMMAND_AMO_XOR: return before ^ value;
    case FERRY_COMMAND_AMO_CSWAP: return before == compare ? value : before;
    case FERRY_COMMAND_AMO_FETCH: return before;
    default: return value;
    }
}

/* Each kind, with and without the old value, each on words that only this PE updates. */
static void amo_commands(struct pe *pe, struct bell *bell, uint64_t *words, uint8_t width, int to)
{
    uint64_t mask = width == 8 ? UINT64_MAX : UINT32_MAX, now = 0, old;
    uint64_t *word = words + 16 + (width == 4);
    const uint64_t values[] = {5, UINT64_MAX, 0x8000000080000000, 3};
    for (unsigned amo = 0; amo <= FERRY_COMMAND_AMO_FETCH; amo++)
        for (unsigned i = 0; i < 8; i++) {
            bool fetch = i & 1 || amo >= FERRY_COMMAND_AMO_SWAP;
            uint64_t value = values[i / 2], compare = i & 2 ? now : now + 1;
            if (fetch && amo == FERRY_COMMAND_AMO_SET)
                continue;
            old = 0;
            finish(pe, bell, (struct ferry_command){.kind = FERRY_COMMAND_AMO, .amo = (uint8_t)amo, .width = width,
                                                   .flags = fetch ? FERRY_COMMAND_FETCH : 0, .pe = (uint32_t)to,
                                                   .remote = address(word), .local = fetch ? address(&old) : 0, .value = value,
                                                   .compare = amo == FERRY_COMMAND_AMO_CSWAP ? compare & mask : 0});
            EXPECT(pe, !fetch || old == now);
            now = model(amo, now, value, compare) & mask;
            uint64_t seen = 0;
            finish(pe, bell, (struct ferry_command){.kind = FERRY_COMMAND_GET, .pe = (uint32_t)to, .remote = address(word),
                                                   .local = address(&seen), .length = width});
            EXPECT(pe, seen == now);
        }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void kinds_body(struct pe *pe)
{
    struct bell bell;
    uint64_t *words = ferry_calloc(pe->job, 32, 8);
    int to = (pe->rank + 1) % pe->n;
    if (!EXPECT(pe, words) || !bell_make(pe, &bell, 256))
        return;
    value_commands(pe, &bell, words, to);
    memset(words, 0, 64);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    signal_commands(pe, &bell, words, to);
    amo_commands(pe, &bell, words, 8, to);
    amo_commands(pe, &bell, words, 4, to);
    finish(pe, &bell, (struct ferry_command){.kind = FERRY_COMMAND_NOP});
    finish(pe, &bell, (struct ferry_command){.kind = FERRY_COMMAND_QUIET_PE, .pe = (uint32_t)to});
    EXPECT_OK(pe, ferry_ring_fence(&bell.handle));
    finish(pe, &bell, (struct ferry_command){.kind = FERRY_COMMAND_FENCE});
    EXPECT_OK(pe, ferry_ring_destroy(bell.ring));
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void test_every_kind(void **state)
{
    (void)state;
    pes_check(2, kinds_body, NULL);
    pes_check(1, kinds_body, NULL);
}

/* ------------------------------------------------------------------ many producers, many laps */

#define PRODUCERS 3
#define RINGS 2

struct producer {
    struct pe *pe;
    struct ferry_ring_handle handle;
    uint64_t *words; /* [n_pes][RINGS * PRODUCERS]: the latest number of each producer of each PE; then a sum per ring */
    unsigned index;
    unsigned long rounds;
};

static void *flood(void *arg)
{
    struct producer *me = arg;
    struct pe *pe = me->pe;
    uint64_t *own = me->words + (unsigned)pe->rank * RINGS * PRODUCERS + me->index;
    uint64_t *sum = me->words + (unsigned)pe->n * RINGS * PRODUCERS;
    for (unsigned long i = 1; i <= me->rounds; i++) {
        int to = (pe->rank + (int)i) % pe->n;
        struct ferry_command put = {.kind = FERRY_COMMAND_P64, .pe = (uint32_t)to, .remote = address(own), .value = i};
        EXPECT_OK(pe, ferry_ring_post(&me->handle, &put, NULL));
        EXPECT_OK(pe, ferry_ring_signal(&me->handle, sum, 1, FERRY_SIGNAL_ADD, to));
        if (i % 997 == 0)
            EXPECT_OK(pe, ferry_ring_quiet(&me->handle));
    }
    EXPECT_OK(pe, ferry_ring_quiet(&me->handle));
    return NULL;
}

static void flood_body(struct pe *pe)
{
    struct bell bells[RINGS];
    struct producer producers[RINGS * PRODUCERS];
    pthread_t threads[RINGS * PRODUCERS];
    unsigned long rounds = *(unsigned long *)pe->arg;
    uint64_t *words = ferry_calloc(pe->job, (size_t)pe->n * RINGS * PRODUCERS + 1, 8);
    if (!EXPECT(pe, words))
        return;
    for (unsigned r = 0; r < RINGS; r++)
        if (!bell_make(pe, &bells[r], 256))
            return;
    for (unsigned p = 0; p < RINGS * PRODUCERS; p++) {
        producers[p] = (struct producer){pe, bells[p % RINGS].handle, words, p, rounds};
        EXPECT(pe, pthread_create(&threads[p], NULL, flood, &producers[p]) == 0);
    }
    for (unsigned p = 0; p < RINGS * PRODUCERS; p++)
        pthread_join(threads[p], NULL);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    uint64_t expected = 0;
    for (int q = 0; q < pe->n; q++)
        for (unsigned long i = 1; i <= rounds; i++)
            expected += (q + (int)i) % pe->n == pe->rank;
    EXPECT(pe, words[(unsigned)pe->n * RINGS * PRODUCERS] == expected * RINGS * PRODUCERS);
    for (int q = 0; q < pe->n; q++)
        for (unsigned p = 0; p < RINGS * PRODUCERS; p++) {
            unsigned long last = rounds; /* the latest that went to this PE, unless order is not kept: then any that did */
            while (last > 0 && (q + (int)last) % pe->n != pe->rank)
                last--;
            uint64_t word = words[(unsigned)q * RINGS * PRODUCERS + p];
            EXPECT(pe, bells[0].handle.ordered ? word == last : word <= last && (word || !last));
        }
    for (unsigned r = 0; r < RINGS; r++)
        EXPECT_OK(pe, ferry_ring_destroy(bells[r].ring));
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void test_many_laps(void **state)
{
    (void)state;
    unsigned long rounds = pes_scaled(4000);
    pes_check(2, flood_body, &rounds);
}

/* ------------------------------------------------------------------ order */

#define BLOCK 600

/* What is put behind a fence. The thread sanitizer knows no word that arrives byte by byte, as a put's may. */
#ifdef __SANITIZE_THREAD__
#define FLAG FERRY_COMMAND_SIGNAL_SET_WEAK
#else
#define FLAG FERRY_COMMAND_P64
#endif

/* Data, then its announcement: by a strong signal, by put_signal, by a fence and a put. Who sees it looks at the data. */
static void announce_round(struct pe *pe, struct bell *bell, uint8_t *data, uint8_t *source, uint64_t *flag, uint64_t round, int to)
{
    memset(source, (int)round, BLOCK);
    struct ferry_command flag_put = {.kind = FLAG, .pe = (uint32_t)to, .remote = address(flag), .value = round};
    if (round % 3 == 0) {
        EXPECT_OK(pe, ferry_ring_put_signal_nbi(&bell->handle, data, source, BLOCK, flag, round, FERRY_SIGNAL_SET, to));
        return;
    }
    EXPECT_OK(pe, ferry_ring_put_nbi(&bell->handle, data, source, BLOCK / 2, to));
    EXPECT_OK(pe, ferry_ring_put_nbi(&bell->handle, data + BLOCK / 2, source + BLOCK / 2, BLOCK / 2, to));
    if (round % 3 == 1) {
        EXPECT_OK(pe, ferry_ring_signal(&bell->handle, flag, round, FERRY_SIGNAL_SET, to));
        return;
    }
    EXPECT_OK(pe, ferry_ring_fence(&bell->handle));
    EXPECT_OK(pe, ferry_ring_post(&bell->handle, &flag_put, NULL));
}

static void order_body(struct pe *pe)
{
    struct bell bell;
    unsigned long rounds = *(unsigned long *)pe->arg;
    uint8_t *data = ferry_calloc(pe->job, 1, BLOCK), *source = ferry_calloc(pe->job, 2, BLOCK);
    uint64_t *flags = ferry_calloc(pe->job, 2, 8); /* [0] by the left neighbour, [1] that the right one has read */
    int right = (pe->rank + 1) % pe->n, left = (pe->rank + pe->n - 1) % pe->n;
    if (!EXPECT(pe, data && source && flags) || !bell_make(pe, &bell, 256))
        return;
    for (uint64_t round = 1; round <= rounds; round++) {
        announce_round(pe, &bell, data, source + round % 2 * BLOCK, &flags[0], round, right);
        if (!EXPECT_OK(pe, ferry_wait_until(pe->job, &flags[0], FERRY_CMP_EQ, round)))
            break;
        bool good = true;
        for (size_t i = 0; i < BLOCK; i++)
            good &= data[i] == (uint8_t)round;
        EXPECT(pe, good);
        EXPECT_OK(pe, ferry_ring_signal(&bell.handle, &flags[1], round, FERRY_SIGNAL_SET, left));
        if (!EXPECT_OK(pe, ferry_wait_until(pe->job, &flags[1], FERRY_CMP_EQ, round)))
            break;
    }
    EXPECT_OK(pe, ferry_ring_quiet(&bell.handle));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT_OK(pe, ferry_ring_destroy(bell.ring));
}

static void test_order(void **state)
{
    (void)state;
    unsigned long rounds = pes_scaled(600);
    pes_check(2, order_body, &rounds);
}

/* ------------------------------------------------------------------ a buffer of the program, and what finalize completes */

static void buffer_body(struct pe *pe)
{
    struct bell bell;
    ferry_buffer_t *buffer;
    uint64_t *memory = aligned_alloc(4096, 4096);
    if (!EXPECT(pe, memory))
        return;
    memset(memory, 0, 4096);
    if (EXPECT_OK(pe, ferry_register_symmetric(pe->job, memory, 4096, &buffer)) && bell_make(pe, &bell, 0)) {
        memory[0] = 40 + (uint64_t)pe->rank;
        int to = (pe->rank + 1) % pe->n;
        EXPECT_OK(pe, ferry_barrier(pe->job));
        EXPECT_OK(pe, ferry_ring_put_nbi(&bell.handle, memory + 8, memory, 8, to));
        EXPECT_OK(pe, ferry_ring_quiet(&bell.handle));
        EXPECT_OK(pe, ferry_barrier(pe->job));
        EXPECT(pe, memory[8] == 40 + (uint64_t)((pe->rank + pe->n - 1) % pe->n));
        EXPECT_OK(pe, ferry_ring_destroy(bell.ring));
        EXPECT_OK(pe, ferry_deregister(buffer));
    }
    free(memory);
}

static void test_symmetric_buffer(void **state)
{
    (void)state;
    pes_check(2, buffer_body, NULL);
}

/* Posts and ends, without quiet and without destroying the ring. */
static void leave_body(struct pe *pe)
{
    struct bell bell;
    uint64_t *word = ferry_calloc(pe->job, 1, 8);
    int to = (pe->rank + 1) % pe->n;
    if (!EXPECT(pe, word) || !bell_make(pe, &bell, 256))
        return;
    for (int i = 0; i < 3000; i++)
        EXPECT_OK(pe, ferry_ring_signal(&bell.handle, word, 1, FERRY_SIGNAL_ADD, to));
    if (pe->rank == 0) /* the other one waits for all of it, while this one is in finalize */
        return;
    EXPECT_OK(pe, ferry_wait_until(pe->job, word, FERRY_CMP_EQ, 3000));
}

static void test_finalize_completes(void **state)
{
    (void)state;
    pes_check(2, leave_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_many_laps),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_symmetric_buffer),
        cmocka_unit_test(test_finalize_completes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
