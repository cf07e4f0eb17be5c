/* SPDX-License-Identifier: Apache-2.0
 * The ring from CPU to CPU, without the proxy: producers, and a reader of the test that checks what it reads. For the thread
 * sanitizer above all: what a command names is read as plainly as it was written. */
#include "proxy/feed.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#define PRODUCERS 4
#define SLOT_BITS 8
#define BASE ((uint64_t)1 << 40)

/* What a producer writes before it posts a command that names it. */
struct payload {
    uint64_t number, again;
};

struct stage {
    struct ferry_ring_handle handle;
    struct fy_ring_memory *memory;
    struct payload *payloads[PRODUCERS];
    unsigned long commands; /* each */
    unsigned long close_after; /* commands read; 0: when the producers have ended */
    _Atomic unsigned running;
    unsigned long posted[PRODUCERS], read[PRODUCERS]; /* accepted; and seen by the reader, in their order */
    unsigned long nops;
    _Atomic unsigned long refused, wrong;
};

struct producer {
    struct stage *stage;
    unsigned index;
};

static unsigned long scaled(unsigned long full)
{
    const char *text = getenv("TEST_SCALE");
    unsigned long n = text ? full * strtoul(text, NULL, 10) / 100 : full;
    return n ? n : 1;
}

static void stage_make(struct stage *stage, unsigned long commands)
{
    *stage = (struct stage){.commands = commands};
    size_t bytes = (fy_ring_bytes(SLOT_BITS) + 63) & ~(size_t)63;
    stage->memory = aligned_alloc(64, bytes);
    assert_non_null(stage->memory);
    memset(stage->memory, 0, bytes);
    struct fy_ring_memory *m = stage->memory;
    stage->handle = (struct ferry_ring_handle){.layout = FERRY_RING_LAYOUT, .slot_bits = SLOT_BITS, .slots = m->words,
                                               .head = &m->head.word, .consumed = &m->consumed.word,
                                               .completed = &m->completed.word, .state = &m->state, .alarm = &m->alarm,
                                               .error = &m->error, .base = BASE};
    for (unsigned p = 0; p < PRODUCERS; p++) {
        stage->payloads[p] = calloc(commands, sizeof(struct payload));
        assert_non_null(stage->payloads[p]);
    }
}

static void stage_free(struct stage *stage)
{
    for (unsigned p = 0; p < PRODUCERS; p++)
        free(stage->payloads[p]);
    free(stage->memory);
}

/* Command i of producer p: 1, 2 or 3 slots; `value` and `signal` tell who it is, `local` names its payload. */
static struct ferry_command command_of(struct stage *stage, unsigned p, unsigned long i)
{
    struct payload *payload = &stage->payloads[p][i];
    struct ferry_command c = {.pe = p, .local = (uint64_t)(uintptr_t)payload, .length = i};
    payload->number = i * 3 + p;
    payload->again = ~payload->number;
    c.kind = i % 3 == 0 ? FERRY_COMMAND_PUT : i % 3 == 1 ? FERRY_COMMAND_PUT_SIGNAL : FERRY_COMMAND_SIGNAL_ADD;
    c.remote = c.kind == FERRY_COMMAND_SIGNAL_ADD ? BASE + p : c.local;
    if (c.kind == FERRY_COMMAND_SIGNAL_ADD) {
        c.value = i;
        c.local = c.length = 0;
    }
    return c;
}

/* Some wait for room, some try, some change their mind. */
static int hand_over(struct ferry_ring_handle *ring, const struct ferry_command *c, unsigned p, unsigned long i)
{
    uint64_t position;
    if (i % 7 == p) {
        int rc = ferry_ring_reserve(ring, 1 + (unsigned)(i % 3), &position);
        if (rc == FERRY_OK)
            ferry_ring_cancel(ring, position, 1 + (unsigned)(i % 3));
        if (rc != FERRY_OK)
            return rc;
    }
    if (i % 5 != p)
        return ferry_ring_post(ring, c, NULL);
    for (;;) {
        int rc = ferry_ring_try_post(ring, c, NULL);
        if (rc != FERRY_AGAIN)
            return rc;
        sched_yield();
    }
}

static void *produce(void *arg)
{
    struct producer *me = arg;
    struct stage *stage = me->stage;
    struct ferry_ring_handle mine = stage->handle;
    for (unsigned long i = 0; i < stage->commands; i++) {
        struct ferry_command c = command_of(stage, me->index, i);
        int rc = hand_over(&mine, &c, me->index, i);
        if (rc == FERRY_ERR_STATE) {
            atomic_fetch_add(&stage->refused, 1);
            break;
        }
        if (rc != FERRY_OK)
            atomic_fetch_add(&stage->wrong, 1);
        stage->posted[me->index]++;
    }
    atomic_fetch_sub(&stage->running, 1);
    return NULL;
}

static void check(struct stage *stage, const struct ferry_command *c)
{
    if (c->kind == FERRY_COMMAND_NOP) {
        stage->nops++;
        return;
    }
    unsigned p = c->pe;
    if (p >= PRODUCERS) {
        atomic_fetch_add(&stage->wrong, 1);
        return;
    }
    unsigned long i = stage->read[p]++; /* those of one producer come in its order */
    bool right = c->kind == FERRY_COMMAND_SIGNAL_ADD ? c->value == i && c->remote == BASE + p : c->length == i;
    if (right && c->kind != FERRY_COMMAND_SIGNAL_ADD) {
        const struct payload *payload = (const struct payload *)(uintptr_t)c->local;
        right = payload->number == i * 3 + p && payload->again == ~payload->number;
    }
    if (!right)
        atomic_fetch_add(&stage->wrong, 1);
}

/* One command, if there is one. */
static bool read_one(struct stage *stage, uint64_t *position)
{
    uint64_t words[FERRY_RING_WORDS];
    struct ferry_command c;
    unsigned slots = fy_feed_look(&stage->handle, *position, words);
    if (!slots)
        return false;
    if (ferry_ring_decode(words, BASE, &c) != FERRY_OK)
        atomic_fetch_add(&stage->wrong, 1);
    check(stage, &c);
    *position += slots;
    __atomic_store_n(&stage->memory->consumed.word, *position, __ATOMIC_RELEASE);
    return true;
}

/* As the proxy does: reads until it closes, then what was reserved before. */
static void consume(struct stage *stage)
{
    uint64_t position = 0;
    unsigned long n = 0;
    while (stage->close_after ? n < stage->close_after : atomic_load(&stage->running) > 0)
        if (read_one(stage, &position))
            n++;
        else
            sched_yield();
    __atomic_store_n(&stage->memory->state, FERRY_RING_CLOSING, __ATOMIC_SEQ_CST);
    uint64_t end = __atomic_load_n(stage->handle.head, __ATOMIC_SEQ_CST);
    while (position < end)
        if (!read_one(stage, &position))
            sched_yield();
    __atomic_store_n(&stage->memory->state, FERRY_RING_CLOSED, __ATOMIC_RELEASE);
}

static void run(struct stage *stage)
{
    pthread_t threads[PRODUCERS];
    struct producer producers[PRODUCERS];
    atomic_store(&stage->running, PRODUCERS);
    for (unsigned p = 0; p < PRODUCERS; p++) {
        producers[p] = (struct producer){stage, p};
        assert_int_equal(pthread_create(&threads[p], NULL, produce, &producers[p]), 0);
    }
    consume(stage);
    for (unsigned p = 0; p < PRODUCERS; p++)
        pthread_join(threads[p], NULL);
    assert_int_equal(atomic_load(&stage->wrong), 0);
    for (unsigned p = 0; p < PRODUCERS; p++)
        assert_int_equal(stage->read[p], stage->posted[p]); /* what was accepted, exactly */
}

static void test_many_laps(void **state)
{
    (void)state;
    struct stage stage;
    stage_make(&stage, scaled(30000));
    run(&stage);
    for (unsigned p = 0; p < PRODUCERS; p++)
        assert_int_equal(stage.read[p], stage.commands);
    assert_true(stage.commands < 100 || stage.nops > 0);
    assert_int_equal(atomic_load(&stage.refused), 0);
    stage_free(&stage);
}

static void test_closing_at_any_moment(void **state)
{
    (void)state;
    unsigned long refused = 0;
    for (unsigned long round = 0; round < scaled(200); round++) {
        struct stage stage;
        stage_make(&stage, 2000);
        stage.close_after = 1 + round * 37 % 3000;
        run(&stage);
        refused += atomic_load(&stage.refused);
        stage_free(&stage);
    }
    assert_true(refused > 0);
}

/* Nobody reads: what tries is told, what waits is let go when the ring is closed. */
static void *post_until_refused(void *arg)
{
    struct ferry_ring_handle mine = ((struct stage *)arg)->handle;
    struct ferry_command c = {.kind = FERRY_COMMAND_FENCE};
    int rc;
    while ((rc = ferry_ring_post(&mine, &c, NULL)) == FERRY_OK)
        continue;
    atomic_store(&((struct stage *)arg)->refused, rc == FERRY_ERR_STATE);
    return NULL;
}

static void test_full(void **state)
{
    (void)state;
    struct stage stage;
    struct ferry_command c = {.kind = FERRY_COMMAND_FENCE};
    pthread_t thread;
    stage_make(&stage, 1);
    struct ferry_ring_handle mine = stage.handle;
    unsigned n = 0;
    while (ferry_ring_try_post(&mine, &c, NULL) == FERRY_OK)
        n++;
    assert_int_equal(n, 1 << SLOT_BITS);
    assert_int_equal(ferry_ring_try_post(&mine, &c, NULL), FERRY_AGAIN);
    assert_int_equal(*stage.handle.head, 1 << SLOT_BITS); /* no reservation is left behind */
    assert_int_equal(pthread_create(&thread, NULL, post_until_refused, &stage), 0);
    while (__atomic_load_n(stage.handle.head, __ATOMIC_ACQUIRE) == 1 << SLOT_BITS)
        sched_yield(); /* until it has reserved, and waits */
    __atomic_store_n(&stage.memory->state, FERRY_RING_CLOSING, __ATOMIC_SEQ_CST);
    __atomic_store_n(&stage.memory->state, FERRY_RING_CLOSED, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&stage.refused), 1);
    assert_int_equal(ferry_ring_test(&mine, 1), FERRY_ERR_STATE);
    stage_free(&stage);
}

static void test_other_layout(void **state)
{
    (void)state;
    struct stage stage;
    struct ferry_command c = {.kind = FERRY_COMMAND_FENCE};
    stage_make(&stage, 1);
    struct ferry_ring_handle mine = stage.handle;
    mine.layout++;
    assert_int_equal(ferry_ring_post(&mine, &c, NULL), FERRY_ERR_ABI);
    assert_int_equal(ferry_ring_try_post(&mine, &c, NULL), FERRY_ERR_ABI);
    assert_int_equal(ferry_ring_quiet(&mine), FERRY_ERR_ABI);
    assert_int_equal(*stage.handle.head, 0);
    stage_free(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_laps),
        cmocka_unit_test(test_closing_at_any_moment),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_other_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
