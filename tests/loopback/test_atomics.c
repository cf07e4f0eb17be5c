/* SPDX-License-Identifier: Apache-2.0
 * Atomics of the loopback plugin: every kind and width against a model, threads against each other, and the order of
 * what one thread posts as another sees it. Two instances of one process; threads of the test are channel threads. */
#include "harness.h"

#include <pthread.h>

#define THREADS 4

static struct pe a, b;
static struct ferry_rkey *to_b, *to_a;
static struct ferry_host_ops ops_table;

static int open_pair(void **state)
{
    struct pe_options options = {.nt_threshold = 3000};

    (void)state;
    pe_open(&a, 0, &options);
    pe_open(&b, 1, &options);
    ops_table = *ops();
    to_b = pe_must_import(&a, 1, &b.key);
    to_a = pe_must_import(&b, 0, &a.key);
    return 0;
}

static int close_pair(void **state)
{
    (void)state;
    pe_close(&a);
    pe_close(&b);
    return 0;
}

static uint64_t model(int kind, uint64_t word, uint64_t v, uint64_t compare)
{
    switch (kind) {
    case FERRY_AMO_ADD:
        return word + v;
    case FERRY_AMO_AND:
        return word & v;
    case FERRY_AMO_OR:
        return word | v;
    case FERRY_AMO_XOR:
        return word ^ v;
    case FERRY_AMO_CSWAP:
        return word == compare ? v : word;
    case FERRY_AMO_FETCH:
        return word;
    default:
        return v;
    }
}

static const uint64_t edges[] = {0,
                                 1,
                                 0x7fffffff,
                                 0x80000000,
                                 0xffffffff,
                                 0x100000000,
                                 0x7fffffffffffffff,
                                 0x8000000000000000,
                                 0xfffffffffffffffe,
                                 UINT64_MAX,
                                 0x0123456789abcdef};
#define EDGES (sizeof edges / sizeof *edges)

/* One atomic on a word between guards, the fetched value between guards, too. */
static void check_amo(int kind, int width, int fetch, uint64_t word, uint64_t v, uint64_t compare)
{
    const uint64_t mask = width == 8 ? UINT64_MAX : UINT32_MAX;
    const size_t at = width == 8 ? 8 : 12; /* 4 bytes: not a multiple of 8 */
    struct ferry_op op = amo_op(to_b, 4096 + at, kind, width, v);
    uint8_t there[32], local[32], want_there[32], want_local[32];
    uint64_t after = model(kind, word & mask, v & mask, compare & mask);

    memset(there, 0xc3, sizeof there);
    memcpy(there + at, &word, (size_t)width);
    memcpy(want_there, there, sizeof there);
    memcpy(want_there + at, &after, (size_t)width);
    memset(local, 0x3c, sizeof local);
    memcpy(want_local, local, sizeof local);
    if (fetch)
        memcpy(want_local + 8, &word, (size_t)width);
    memcpy(b.memory + 4096, there, sizeof there);
    op.compare = compare;
    op.local = local + 8;
    op.flags = fetch ? FERRY_OP_FETCH : 0;
    assert_int_equal(ops()->amo(a.t, 0, &op), FERRY_DONE);
    quiet(&a, 1);
    if (memcmp(b.memory + 4096, want_there, sizeof want_there) || memcmp(local, want_local, sizeof local))
        fail_msg("kind %d width %d fetch %d: word %llx operand %llx compare %llx", kind, width, fetch,
                 (unsigned long long)word, (unsigned long long)v, (unsigned long long)compare);
}

static void test_table(void **state)
{
    struct ferry_caps caps = {.size = sizeof caps};
    unsigned checked = 0;

    (void)state;
    assert_int_equal(ops()->query(a.t, FERRY_MEMORY_HOST, &caps), FERRY_OK);
    for (int kind = 0; kind < FERRY_AMO_KINDS; kind++)
        for (int variant = 0; variant < 4; variant++) {
            int width = variant & 1 ? 8 : 4, fetch = variant >> 1;
            uint32_t native = width == 8 ? caps.amo64 : caps.amo32;
            uint32_t bit = fetch ? FERRY_AMO_FETCH_BIT(kind) : FERRY_AMO_BIT(kind);

            assert_true(native & FERRY_AMO_FETCH_BIT(kind));
            if (!(native & bit)) {
                assert_true(kind >= FERRY_AMO_SWAP);
                continue;
            }
            for (size_t i = 0; i < EDGES * EDGES * EDGES; i++, checked++)
                check_amo(kind, width, fetch, edges[i % EDGES], edges[i / EDGES % EDGES], edges[i / EDGES / EDGES]);
        }
    print_message("%u atomics agree with the model\n", checked);
}

static void test_put_signal_table(void **state)
{
    static const size_t sizes[] = {0, 1, 8, 63, 64, 65, 2999, 3000, 3001, 70000};
    static uint8_t data[70000];

    (void)state;
    fill(data, sizeof data, 3);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t *word = (uint64_t *)(void *)(b.memory + 512);

        memset(b.memory + 8192, 0, sizeof data);
        *word = UINT64_MAX - 1;
        put_signal(&a, to_b, 8192, data, sizes[i], 512, FERRY_AMO_ADD, 0x100000003);
        assert_int_equal(*word, 0x100000001);
        assert_memory_equal(b.memory + 8192, data, sizes[i]);
        put_signal(&a, to_b, 8192, data, sizes[i], 512, FERRY_AMO_SET, 0x8000000000000005);
        assert_int_equal(*word, 0x8000000000000005);
        assert_int_equal(b.memory[8192 + sizes[i]], 0);
    }
}

/* ---- threads */

static struct ferry_rkey *b_to_b;
static uint8_t *seen; /* one per value */
static unsigned each;

static void *adder(void *arg)
{
    uint32_t number = (uint32_t)(uintptr_t)arg;
    struct pe *pe = number % 2 ? &b : &a; /* one side local to the word, the other not */

    for (unsigned i = 0; i < each; i++) {
        uint64_t old = fetch_add(pe, number, number % 2 ? b_to_b : to_b, 1024, 1);

        if (old < (uint64_t)each * THREADS)
            __atomic_fetch_add(&seen[old], 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* No value is fetched twice, none is left out, and the sum is exact. */
static void test_fetch_add_threads(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    each = SCALE(100000);
    seen = calloc(THREADS, each);
    assert_non_null(seen);
    b_to_b = pe_must_import(&b, 1, &b.key);
    memset(b.memory + 1024, 0, 8);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, adder, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(fetch_add(&a, 0, to_b, 1024, 0), (uint64_t)each * THREADS);
    for (unsigned i = 0; i < each * THREADS; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(ops()->release_key(b.t, b_to_b), FERRY_OK);
    free(seen);
}

/* Message passing: data, then a flag by each means there is; who sees the flag must see all of the data. */
enum { FLAG = 0, DATA = 256, ACK = 64, MESSAGE_MAX = 1 << 18 };
static unsigned rounds, broken;
static char never[] = "what a thread waited for never came";

/* Now and then a large one, whose copy takes longer than the flag's way: a flag that came first would be caught. */
static size_t message_size(uint64_t round)
{
    static const size_t sizes[] = {8, 4, 64, 100, 2999, 3000, 5000};

    return round % 31 == 0 ? MESSAGE_MAX : sizes[round % (sizeof sizes / sizeof *sizes)];
}

static void post_flag(uint64_t round)
{
    struct ferry_op op = amo_op(to_b, FLAG, round % 2 ? FERRY_AMO_ADD : FERRY_AMO_SET, 8, round % 2 ? 1 : round);

    if (round % 3 == 0)
        put(&a, to_b, FLAG, &round, 8, FERRY_OP_WORD | (round % 5 ? 0 : FERRY_OP_FENCED));
    else
        assert_int_equal(ops()->amo(a.t, 0, &op), FERRY_DONE);
}

static void *consumer(void *arg)
{
    const uint64_t *flag = (const uint64_t *)(const void *)(b.memory + FLAG);

    (void)arg;
    for (uint64_t round = 1; round <= rounds; round++) {
        size_t n = message_size(round);

        if (!await(flag, round))
            return never;
        for (size_t i = n; i-- > 0;) /* the last byte is the likeliest to be late */
            broken += b.memory[DATA + i] != (char)round;
        put(&b, to_a, ACK, &round, 8, FERRY_OP_WORD);
    }
    return NULL;
}

static void test_message_passing(void **state)
{
    static char data[MESSAGE_MAX];
    pthread_t thread;
    void *why = NULL;

    (void)state;
    rounds = SCALE(100000);
    broken = 0;
    memset(b.memory, 0, DATA + MESSAGE_MAX);
    memset(a.memory, 0, DATA);
    assert_int_equal(pthread_create(&thread, NULL, consumer, NULL), 0);
    for (uint64_t round = 1; round <= rounds; round++) {
        size_t n = message_size(round);

        memset(data, (int)round, n);
        if (round % 4 == 0) {
            put_signal(&a, to_b, DATA, data, n, FLAG, round % 8 ? FERRY_AMO_SET : FERRY_AMO_ADD, round % 8 ? round : 1);
        } else {
            put(&a, to_b, DATA, data, n, 0);
            post_flag(round);
        }
        if (!await((const uint64_t *)(const void *)(a.memory + ACK), round))
            break;
    }
    pthread_join(thread, &why);
    if (why)
        fail_msg("%s", (const char *)why);
    assert_int_equal(broken, 0);
}

/* Store buffering: each side puts its word at the other, waits for quiet, looks at its own. Both finding nothing would
 * mean that quiet returned before the put was visible. Batches of words, each in a cache line of its own, so that the
 * sides, which run at slightly different speeds, meet somewhere within a batch. */
enum { SLOTS = 256, SLOT = 65536, START = 3072 };
static uint64_t found[2][SLOTS];

static void side(struct pe *pe, const struct ferry_rkey *key, unsigned number, uint64_t batch)
{
    uint64_t random = batch * 2 + number + 1;

    for (unsigned i = 0; i < SLOTS; i++) {
        struct ferry_op op = {.kind = FERRY_OP_PUT,
                              .flags = FERRY_OP_WORD,
                              .local = &batch,
                              .key = key,
                              .offset = SLOT + 64 * i,
                              .length = 8};
        uint64_t ticket = 0;

        for (volatile unsigned wait = (unsigned)(next_random(&random) % 8); wait; wait--)
            ;
        ops_table.rma(pe->t, 0, &op);
        ops_table.quiet(pe->t, 0, 1 - number, &ticket);
        found[number][i] = __atomic_load_n((uint64_t *)(void *)(pe->memory + SLOT + 64 * i), __ATOMIC_RELAXED);
    }
}

enum { READY = START + 64, FINISHED = READY + 64 };

static uint64_t *mark(size_t offset)
{
    return (uint64_t *)(void *)(b.memory + offset);
}

static void *other_side(void *arg)
{
    (void)arg;
    for (uint64_t batch = 1;; batch++) {
        __atomic_store_n(mark(READY), batch, __ATOMIC_RELEASE);
        if (!await(mark(START), batch))
            return never;
        if (__atomic_load_n(mark(START), __ATOMIC_ACQUIRE) == UINT64_MAX)
            return NULL;
        side(&b, to_a, 1, batch);
        __atomic_store_n(mark(FINISHED), batch, __ATOMIC_RELEASE);
    }
}

/* How often the lead changed from one word to the next: there the sides were as good as at one time. */
static unsigned judge(uint64_t batch, unsigned *both_old)
{
    unsigned met = 0;

    for (unsigned i = 0; i < SLOTS; i++) {
        *both_old += found[0][i] != batch && found[1][i] != batch;
        met += i && (found[0][i] == batch) != (found[0][i - 1] == batch);
    }
    return met;
}

/* Until they met often enough to tell, or the time is over: on a busy machine they seldom run side by side. */
static void test_store_buffering(void **state)
{
    double end = seconds() + 4;
    unsigned both_old = 0, met = 0;
    uint64_t batch, random = 88172645463325252ull;
    pthread_t thread;

    (void)state;
    memset(a.memory, 0, a.length);
    memset(b.memory, 0, b.length);
    assert_int_equal(pthread_create(&thread, NULL, other_side, NULL), 0);
    for (batch = 1; met < 2000 && seconds() < end; batch++) {
        if (!await(mark(READY), batch))
            break;
        __atomic_store_n(mark(START), batch, __ATOMIC_RELEASE);
        for (volatile uint64_t wait = next_random(&random) % 512; wait; wait--) /* the other has yet to see it */
            ;
        side(&a, to_b, 0, batch);
        if (!await(mark(FINISHED), batch))
            break;
        met += judge(batch, &both_old);
    }
    __atomic_store_n(mark(START), UINT64_MAX, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    print_message("the lead changed %u times in %u batches of %u words\n", met, (unsigned)batch - 1, (unsigned)SLOTS);
    assert_int_equal(both_old, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_put_signal_table),
        cmocka_unit_test(test_fetch_add_threads),
        cmocka_unit_test(test_message_passing),
        cmocka_unit_test(test_store_buffering),
    };
    return cmocka_run_group_tests_name("loopback atomics", tests, open_pair, close_pair);
}
