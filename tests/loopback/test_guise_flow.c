/* SPDX-License-Identifier: Apache-2.0
 * Guises of loopback at work, between PEs of one process: depth, the target's progress, remote data, order inside a
 * put, atomics of a NIC. Main thread, and threads that add. */
#include "guises.h"

#include <sched.h>

#define ADDERS 4
#define ADDS   SCALE(2500)

/* ---- depth */

static void test_depth_is_kept(void **state)
{
    uint64_t word = 7, first = 0, ticket = 0;
    struct ferry_op op;
    struct duo d;

    (void)state;
    duo_open(&d, "depth=3");
    op = put_op(&d, &word, 0, 8, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(post(&d, 0, &op), FERRY_OK); /* not DONE: not retired */
    assert_int_equal(post(&d, 0, &op), FERRY_AGAIN);
    assert_int_equal(post(&d, 1, &op), FERRY_OK); /* of one channel only */
    assert_int_equal(ops()->progress(d.a.t, 0), FERRY_OK);
    assert_int_equal(ops()->progress(d.a.t, 0), FERRY_AGAIN);
    assert_int_equal(post(&d, 0, &op), FERRY_OK);
    assert_int_equal(try_quiet(&d, 0, 1, &first), FERRY_OK);
    assert_true(first != 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(post(&d, 0, &op), FERRY_OK);
    assert_int_equal(try_quiet(&d, 0, FERRY_PEER_ALL, &ticket), FERRY_OK);
    assert_true(ticket > first);
    assert_int_equal(post(&d, 0, &op), FERRY_OK);
    duo_close(&d);
}

/* What was got or fetched is there when a ticket says so, not before. */
static void test_values_come_with_completion(void **state)
{
    uint64_t got = 1, old = 2, ticket = 0;
    struct ferry_op op;
    struct duo d;

    (void)state;
    duo_open(&d, "depth=8");
    memset(d.b.memory, 0x55, 8);
    op = get_op(&d, &got, 0, 8);
    assert_int_equal(post(&d, 0, &op), FERRY_OK);
    op = add_op(&d, 8, 5, &old);
    assert_int_equal(post(&d, 0, &op), FERRY_OK);
    assert_int_equal(got, 1);
    assert_int_equal(old, 2);
    assert_int_equal(*(uint64_t *)(void *)(d.b.memory + 8), 5);
    assert_int_equal(try_quiet(&d, 0, 1, &ticket), FERRY_OK);
    assert_int_equal(got, 0x5555555555555555);
    assert_int_equal(old, 0);
    duo_close(&d);
}

/* ---- the target's progress */

static void test_the_target_has_to_serve(void **state)
{
    uint64_t word = 7, ticket = 0, later = 0, none = 0;
    struct ferry_op op;
    struct duo d;

    (void)state;
    duo_open(&d, "target-progress");
    assert_int_equal(try_quiet(&d, 0, 1, &none), FERRY_OK);
    op = put_op(&d, &word, 0, 8, 0);
    assert_int_equal(post(&d, 0, &op), FERRY_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(try_quiet(&d, 0, 1, &ticket), FERRY_AGAIN);
    assert_int_equal(ops()->progress(d.a.t, FERRY_CHANNEL_SERVICE), FERRY_AGAIN); /* one's own does not help */
    assert_int_equal(try_quiet(&d, 0, 1, &ticket), FERRY_AGAIN);
    serve(&d);
    assert_int_equal(post(&d, 0, &op), FERRY_OK); /* after the service: not covered */
    assert_int_equal(try_quiet(&d, 0, 1, &ticket), FERRY_OK);
    assert_int_equal(try_quiet(&d, 0, FERRY_PEER_ALL, &later), FERRY_AGAIN);
    serve(&d);
    assert_int_equal(try_quiet(&d, 0, FERRY_PEER_ALL, &later), FERRY_OK);
    duo_close(&d);
}

static void test_every_kind_waits_for_the_target(void **state)
{
    uint64_t word = 7, got = 1, old = 1, ticket = 0;
    struct ferry_op kinds[4];
    struct duo d;

    (void)state;
    duo_open(&d, "target-progress");
    kinds[0] = put_op(&d, &word, 0, 8, FERRY_OP_COPY);
    kinds[1] = get_op(&d, &got, 0, 8);
    kinds[2] = add_op(&d, 16, 1, &old);
    kinds[3] = signal_op(&d, &word, 8, 24, 1);
    for (size_t i = 0; i < ARRAY(kinds); i++, ticket = 0) {
        assert_int_equal(post(&d, 0, &kinds[i]), FERRY_OK);
        assert_int_equal(try_quiet(&d, 0, 1, &ticket), FERRY_AGAIN);
        assert_true(i < 1 || got == (i == 1 ? 1 : 7));
        serve(&d);
        assert_int_equal(try_quiet(&d, 0, 1, &ticket), FERRY_OK);
    }
    assert_int_equal(got, 7);
    assert_int_equal(old, 0);
    duo_close(&d);
}

static void test_a_peer_that_left(void **state)
{
    uint64_t word = 7, got = 1, ticket = 0;
    struct ferry_op op;
    struct duo d;

    (void)state;
    duo_open(&d, "target-progress");
    op = get_op(&d, &got, 0, 8);
    assert_int_equal(post(&d, 0, &op), FERRY_OK);
    assert_int_equal(try_quiet(&d, 0, 1, &ticket), FERRY_AGAIN);
    assert_int_equal(ops()->disconnect(d.a.t, 1), FERRY_OK);
    serve(&d);
    assert_int_equal(ops()->progress(d.a.t, 0), FERRY_AGAIN);
    assert_int_equal(try_quiet(&d, 0, 1, &ticket), FERRY_ERR_PEER);
    assert_int_equal(got, 1); /* nothing is written any more */
    op = put_op(&d, &word, 0, 8, 0);
    refused(&d, &op, FERRY_ERR_PEER, "was disconnected");
    ticket = 0;
    assert_int_equal(try_quiet(&d, 0, FERRY_PEER_ALL, &ticket), FERRY_OK);
    duo_close(&d);
}

/* ---- remote data */

struct delivery {
    unsigned n;
    uint32_t from, last;
    uint64_t sum;
    const uint64_t *memory; /* of the target: [data] is what the put of that data wrote */
    int early;
};

static void delivered(void *arg, uint32_t from, uint32_t data)
{
    struct delivery *to = arg;

    to->n++;
    to->from = from;
    to->last = data;
    to->sum += data;
    to->early |= to->memory && to->memory[data] != data + 1;
}

static void test_remote_data_is_delivered_by_the_service(void **state)
{
    struct delivery to = {0};
    uint64_t word;
    struct ferry_op op;
    struct duo d;

    (void)state;
    duo_open(&d, "cq-data");
    d.b.stub.delivered = delivered;
    d.b.stub.delivered_arg = &to;
    to.memory = (const uint64_t *)(const void *)d.b.memory;
    assert_int_equal(serve(&d), FERRY_AGAIN);
    for (uint32_t round = 0; round < 3; round++) { /* more than the ring holds */
        uint32_t from = round * 200;

        for (uint32_t i = from; i < from + 200; i++) {
            word = i + 1;
            op = put_op(&d, &word, 8 * i, 8, FERRY_OP_DATA);
            op.remote_data = i;
            assert_int_equal(post(&d, i % 4, &op), FERRY_DONE);
        }
        assert_int_equal(to.n, from); /* nothing without progress */
        assert_int_equal(serve(&d), FERRY_OK);
        assert_int_equal(to.n, from + 200);
        assert_int_equal(to.last, from + 199);
    }
    assert_int_equal(serve(&d), FERRY_AGAIN);
    assert_int_equal(to.sum, 599 * 600 / 2);
    assert_int_equal(to.from, 0);
    assert_false(to.early);
    duo_close(&d);
}

/* A full queue answers AGAIN and leaves the memory as it is. */
static void test_a_full_queue(void **state)
{
    struct delivery to = {0};
    uint64_t word = 1;
    struct ferry_op op;
    unsigned taken = 0;
    struct duo d;

    (void)state;
    duo_open(&d, "cq-data");
    d.b.stub.delivered = delivered;
    d.b.stub.delivered_arg = &to;
    op = put_op(&d, &word, 0, 8, FERRY_OP_DATA);
    op.remote_data = 5;
    while (taken < 100000 && post(&d, 0, &op) == FERRY_DONE)
        taken++;
    assert_in_range(taken, 16, 99999);
    word = 2;
    assert_int_equal(post(&d, 0, &op), FERRY_AGAIN);
    assert_int_equal(*(uint64_t *)(void *)d.b.memory, 1);
    serve(&d);
    assert_int_equal(to.n, taken);
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    serve(&d);
    assert_int_equal(to.n, taken + 1);
    op.kind = FERRY_OP_GET;
    refused(&d, &op, FERRY_ERR_UNSUPPORTED, "only a put carries");
    duo_close(&d);
}

struct sender {
    pthread_t thread;
    struct duo *d;
    uint32_t channel;
    int failed;
};

static void *send_data(void *arg)
{
    struct sender *s = arg;
    uint64_t word;

    for (uint32_t i = 0; i < ADDS && !s->failed; i++) {
        uint32_t data = s->channel * ADDS + i;
        struct ferry_op op = put_op(s->d, &word, 8 * data, 8, FERRY_OP_DATA);
        int status;

        word = data + 1;
        op.remote_data = data;
        while ((status = post(s->d, s->channel, &op)) == FERRY_AGAIN)
            sched_yield();
        s->failed = status != FERRY_DONE;
    }
    return NULL;
}

/* Several channels at once: each datum arrives once, after its bytes. */
static void test_many_channels_send_data(void **state)
{
    struct sender senders[ADDERS];
    double end = seconds() + PATIENCE;
    struct delivery to = {0};
    struct duo d;

    (void)state;
    duo_open(&d, "cq-data");
    d.b.stub.delivered = delivered;
    d.b.stub.delivered_arg = &to;
    to.memory = (const uint64_t *)(const void *)d.b.memory;
    for (uint32_t i = 0; i < ADDERS; i++) {
        senders[i] = (struct sender){.d = &d, .channel = i};
        assert_int_equal(pthread_create(&senders[i].thread, NULL, send_data, &senders[i]), 0);
    }
    while (to.n < ADDERS * ADDS && seconds() < end)
        if (serve(&d) == FERRY_AGAIN)
            sched_yield();
    for (uint32_t i = 0; i < ADDERS; i++) {
        pthread_join(senders[i].thread, NULL);
        assert_false(senders[i].failed);
    }
    assert_int_equal(to.n, ADDERS * ADDS);
    assert_int_equal(to.sum, (uint64_t)(ADDERS * ADDS) * (ADDERS * ADDS - 1) / 2);
    assert_false(to.early);
    duo_close(&d);
}

/* ---- order inside a put */

struct watcher {
    pthread_t thread;
    const uint8_t *at;
    size_t length;
    unsigned backwards, stop;
};

/* Counts the moments in which the last byte is newer than the first. */
static void *watch(void *arg)
{
    struct watcher *w = arg;

    while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
        uint8_t last = __atomic_load_n(w->at + w->length - 1, __ATOMIC_ACQUIRE);
        uint8_t first = __atomic_load_n(w->at, __ATOMIC_ACQUIRE);

        if ((int8_t)(last - first) > 0)
            __atomic_fetch_add(&w->backwards, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void test_the_end_of_a_put_may_be_there_first(void **state)
{
    static uint8_t source[1 << 16];
    double end = seconds() + PATIENCE;
    struct watcher w = {.length = sizeof source};
    struct duo d;

    (void)state;
    if (UNDER_TSAN) { /* the bytes between first and last race, which is the point */
        print_message("not run: a race on purpose\n");
        skip();
    }
    duo_open(&d, "unordered");
    w.at = (const uint8_t *)d.b.memory;
    assert_int_equal(pthread_create(&w.thread, NULL, watch, &w), 0);
    for (unsigned i = 1; !__atomic_load_n(&w.backwards, __ATOMIC_RELAXED) && seconds() < end; i++) {
        struct ferry_op op = put_op(&d, source, 0, sizeof source, 0);

        memset(source, (int)(uint8_t)i, sizeof source);
        assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    }
    __atomic_store_n(&w.stop, 1, __ATOMIC_RELEASE);
    pthread_join(w.thread, NULL);
    assert_true(w.backwards > 0);
    duo_close(&d);
}

static void test_halves_make_the_whole(void **state)
{
    static uint8_t source[301];
    struct duo d;

    (void)state;
    fill(source, sizeof source, 3);
    duo_open(&d, "unordered");
    for (size_t n = 0; n <= 300; n++) {
        struct ferry_op op = put_op(&d, source, 1000, n, 0);

        memset(d.b.memory, 0xa5, 2000);
        assert_int_equal(post(&d, 0, &op), FERRY_DONE);
        assert_memory_equal(d.b.memory + 1000, source, n);
        assert_int_equal((uint8_t)d.b.memory[999], 0xa5);
        assert_int_equal((uint8_t)d.b.memory[1000 + n], 0xa5);
    }
    duo_close(&d);
}

/* ---- atomics of a NIC */

struct adder {
    pthread_t thread;
    struct duo *d;
    uint32_t channel;
    int by_cpu, failed;
    pthread_barrier_t *start; /* all begin together, or they do not meet */
};

static void *add(void *arg)
{
    struct adder *a = arg;
    uint64_t *word = (uint64_t *)(void *)(a->d->b.memory + 64);
    struct ferry_op op = add_op(a->d, 64, 1, NULL);
    int status = FERRY_DONE;

    pthread_barrier_wait(a->start);
    for (int i = 0; i < ADDS && !a->failed; i++) {
        if (a->by_cpu) {
            __atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
            if (i % 8 == 0) /* as slow as the others */
                sched_yield();
        } else
            while ((status = post(a->d, a->channel, &op)) == FERRY_AGAIN)
                sched_yield();
        a->failed = status != FERRY_DONE;
    }
    return NULL;
}

static uint64_t sum_of(struct duo *d, int with_cpu)
{
    uint64_t *word = (uint64_t *)(void *)(d->b.memory + 64);
    struct adder adders[ADDERS];
    pthread_barrier_t start;

    *word = 0;
    assert_int_equal(pthread_barrier_init(&start, NULL, ADDERS), 0);
    for (uint32_t i = 0; i < ADDERS; i++) {
        adders[i] = (struct adder){.d = d, .channel = i, .by_cpu = with_cpu && i % 2, .start = &start};
        assert_int_equal(pthread_create(&adders[i].thread, NULL, add, &adders[i]), 0);
    }
    for (uint32_t i = 0; i < ADDERS; i++) {
        pthread_join(adders[i].thread, NULL);
        assert_false(adders[i].failed);
    }
    pthread_barrier_destroy(&start);
    return *word;
}

/* A NIC's atomics lose none of each other; with a CPU's on the same word, some are lost: two domains. */
static void test_a_nic_is_a_domain(void **state)
{
    double end = seconds() + PATIENCE;
    uint64_t sum = ADDERS * ADDS;
    struct duo d;

    (void)state;
    duo_open(&d, "nic");
    assert_int_equal(sum_of(&d, 0), sum);
    while (sum == ADDERS * ADDS && seconds() < end)
        sum = sum_of(&d, 1);
    assert_true(sum < ADDERS * ADDS);
    duo_close(&d);
}

static void test_kinds_of_a_nic(void **state)
{
    uint64_t old = 9;
    struct ferry_op op;
    struct duo d;

    (void)state;
    duo_open(&d, "nic");
    op = add_op(&d, 8, 5, &old);
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    assert_int_equal(old, 0);
    op.amo = FERRY_AMO_CSWAP;
    op.compare = 4;
    op.operand = 100;
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    assert_int_equal(old, 5);
    op.compare = 5;
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    assert_int_equal(old, 5);
    assert_int_equal(*(uint64_t *)(void *)(d.b.memory + 8), 100);
    duo_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_depth_is_kept),
        cmocka_unit_test(test_values_come_with_completion),
        cmocka_unit_test(test_the_target_has_to_serve),
        cmocka_unit_test(test_every_kind_waits_for_the_target),
        cmocka_unit_test(test_a_peer_that_left),
        cmocka_unit_test(test_remote_data_is_delivered_by_the_service),
        cmocka_unit_test(test_a_full_queue),
        cmocka_unit_test(test_many_channels_send_data),
        cmocka_unit_test(test_the_end_of_a_put_may_be_there_first),
        cmocka_unit_test(test_halves_make_the_whole),
        cmocka_unit_test(test_a_nic_is_a_domain),
        cmocka_unit_test(test_kinds_of_a_nic),
    };
    return cmocka_run_group_tests_name("loopback guises at work", tests, NULL, NULL);
}
