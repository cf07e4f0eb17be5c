/* SPDX-License-Identifier: Apache-2.0
 * Guises of loopback between processes: the page that a PE shares, remote data, the target's progress, atomics of a NIC
 * past a death, memory like a GPU's. Main thread of the test, and the children that it starts (run_…). */
#include "guises.h"

#include <sched.h>

#define EXPECT(condition)                                                                                              \
    (void)((condition) || (fprintf(stderr, "child: line %d: %s\n", __LINE__, #condition), exit(1), 0))

#define ADDS SCALE(5000)
#define DATA SCALE(2500)

enum { COUNTER = 64, WORDS = 4096 };

/* Child, PE 1, whose target is the parent, PE 0; the other way round is not imported. */
static void meet(int socket, struct duo *d, const char *guise)
{
    struct pe_options options = {.guise = guise};
    struct hello parent;

    pe_open(&d->a, 1, &options);
    EXPECT(send_hello(socket, &d->a));
    EXPECT(receive_hello(socket, &parent));
    d->key = pe_must_import(&d->a, 0, &parent.key);
}

static struct child start(const char *role, struct duo *d, const char *guise)
{
    struct pe_options options = {.guise = guise};
    struct child child = child_start(role);
    struct hello it;

    pe_open(&d->b, 0, &options);
    assert_true(receive_hello(child.socket, &it));
    assert_true(send_hello(child.socket, &d->b));
    return child;
}

static void go(int socket)
{
    assert_true(send_bytes(socket, "g", 1));
}

static int wait_go(int socket)
{
    char c;

    return receive_bytes(socket, &c, 1) && c == 'g';
}

static struct ferry_op at_parent(struct ferry_op op)
{
    op.peer = 0;
    return op;
}

static int post_on(struct duo *d, const struct ferry_op *op)
{
    int status;

    while ((status = post(d, 0, op)) == FERRY_AGAIN)
        sched_yield();
    return status;
}

/* ---- remote data */

struct delivery {
    unsigned n;
    const uint64_t *memory;
    int wrong;
};

/* In the order of posting, since one channel posts them; each after its bytes. */
static void delivered(void *arg, uint32_t from, uint32_t data)
{
    struct delivery *to = arg;

    to->wrong |= from != 1 || data != to->n || to->memory[data] != data + 1;
    to->n++;
}

static int run_data(int socket)
{
    struct duo d;
    uint64_t word;

    meet(socket, &d, "cq-data");
    for (uint32_t i = 0; i < DATA; i++) {
        struct ferry_op op = at_parent(put_op(&d, &word, 8 * i, 8, FERRY_OP_DATA));

        word = i + 1;
        op.remote_data = i;
        EXPECT(post_on(&d, &op) == FERRY_DONE);
    }
    pe_close(&d.a);
    return 0;
}

static void test_remote_data(void **state)
{
    double end = seconds() + PATIENCE;
    struct delivery to = {0};
    struct child child;
    struct duo d;

    (void)state;
    child = start("data", &d, "cq-data");
    to.memory = (const uint64_t *)(const void *)d.b.memory;
    d.b.stub.delivered = delivered;
    d.b.stub.delivered_arg = &to;
    while (to.n < DATA && seconds() < end)
        if (serve(&d) == FERRY_AGAIN)
            sched_yield();
    assert_int_equal(to.n, DATA);
    assert_false(to.wrong);
    child_finish(&child);
    pe_close(&d.b);
}

/* ---- the target's progress */

static int run_progress(int socket)
{
    uint64_t word = 7, got = 1, ticket = 0;
    struct ferry_op op;
    struct duo d;

    meet(socket, &d, "target-progress");
    op = at_parent(put_op(&d, &word, 0, 8, 0));
    EXPECT(post(&d, 0, &op) == FERRY_OK);
    op = at_parent(get_op(&d, &got, 0, 8));
    EXPECT(post(&d, 0, &op) == FERRY_OK);
    for (int i = 0; i < 1000; i++)
        EXPECT(try_quiet(&d, 0, 0, &ticket) == FERRY_AGAIN);
    EXPECT(send_bytes(socket, "g", 1));
    EXPECT(wait_go(socket)); /* the parent served once */
    EXPECT(try_quiet(&d, 0, 0, &ticket) == FERRY_OK);
    EXPECT(got == 7);
    pe_close(&d.a);
    return 0;
}

static void test_the_target_has_to_serve(void **state)
{
    struct child child;
    struct duo d;

    (void)state;
    child = start("progress", &d, "target-progress");
    assert_true(wait_go(child.socket));
    serve(&d);
    go(child.socket);
    child_finish(&child);
    pe_close(&d.b);
}

/* ---- atomics of a NIC */

static int run_adder(int socket)
{
    struct ferry_op op;
    struct duo d;

    meet(socket, &d, "nic");
    op = at_parent(add_op(&d, COUNTER, 1, NULL));
    EXPECT(wait_go(socket));
    for (int i = 0; i < ADDS; i++)
        EXPECT(post_on(&d, &op) == FERRY_DONE);
    pe_close(&d.a);
    return 0;
}

static int run_endless_adder(int socket)
{
    struct ferry_op op;
    struct duo d;

    meet(socket, &d, "nic");
    op = at_parent(add_op(&d, COUNTER, 1, NULL));
    EXPECT(wait_go(socket));
    for (;;)
        EXPECT(post_on(&d, &op) == FERRY_DONE);
}

/* Another process and this one, on one word. */
static void test_a_nic_is_one_for_all_processes(void **state)
{
    struct child child;
    struct ferry_op op;
    struct duo d;

    (void)state;
    child = start("adder", &d, "nic");
    d.key = pe_must_import(&d.b, 0, &d.b.key);
    op = at_parent(add_op(&d, COUNTER, 1, NULL));
    go(child.socket);
    for (int i = 0; i < ADDS; i++) {
        int status;

        while ((status = ops()->amo(d.b.t, 0, &op)) == FERRY_AGAIN)
            sched_yield();
        assert_int_equal(status, FERRY_DONE);
    }
    child_finish(&child);
    assert_int_equal(*(uint64_t *)(void *)(d.b.memory + COUNTER), 2 * ADDS);
    pe_close(&d.b);
}

/* Killed at any moment, also with the NIC at work for it: others go on. */
static void test_a_death_does_not_stop_the_nic(void **state)
{
    (void)state;
    for (int round = 0; round < SCALE(50); round++) {
        double end = seconds() + PATIENCE;
        int status = FERRY_AGAIN;
        struct child child;
        struct ferry_op op;
        struct duo d;

        child = start("endless", &d, "nic");
        d.key = pe_must_import(&d.b, 0, &d.b.key);
        op = at_parent(add_op(&d, COUNTER, 1, NULL));
        go(child.socket);
        assert_true(await((const uint64_t *)(const void *)(d.b.memory + COUNTER), 10 + (uint64_t)round));
        child_kill(&child);
        while (status == FERRY_AGAIN && seconds() < end)
            status = ops()->amo(d.b.t, 0, &op);
        assert_int_equal(status, FERRY_DONE);
        pe_close(&d.b);
    }
}

/* ---- memory like a GPU's */

static int run_gpu(int socket)
{
    char there[16] = "";
    struct ferry_op op;
    struct duo d;

    meet(socket, &d, "gpu-like");
    op = at_parent(put_op(&d, "to a GPU", WORDS, 9, 0));
    EXPECT(post(&d, 0, &op) == FERRY_DONE);
    op = at_parent(get_op(&d, there, WORDS, 9));
    EXPECT(post(&d, 0, &op) == FERRY_DONE);
    EXPECT(!strcmp(there, "to a GPU"));
    pe_close(&d.a);
    return 0;
}

static void test_memory_of_gpus(void **state)
{
    struct ferry_memory memory = {.size = sizeof memory, .kind = FERRY_MEMORY_GPU, .length = 1 << 16, .fd = -1};
    struct pe_options options = {.guise = "gpu-like", .no_memory = 1};
    struct child child = child_start("gpu");
    char there[16] = "";
    struct ferry_op op;
    struct hello it;
    struct duo d;

    (void)state;
    pe_open(&d.b, 0, &options);
    assert_int_equal(ops()->allocate_memory(d.b.t, &memory, &d.b.region), FERRY_OK);
    assert_int_equal(ops()->export_key(d.b.t, d.b.region, d.b.key.bytes, &d.b.key.size), FERRY_OK);
    assert_true(receive_hello(child.socket, &it));
    assert_true(send_hello(child.socket, &d.b));
    child_finish(&child);
    d.key = pe_must_import(&d.b, 0, &d.b.key); /* the only way to look at it */
    op = at_parent(get_op(&d, there, WORDS, 9));
    assert_int_equal(ops()->rma(d.b.t, 0, &op), FERRY_DONE);
    assert_string_equal(there, "to a GPU");
    assert_int_equal(ops()->free_memory(d.b.t, d.b.region), FERRY_OK);
    d.b.region = NULL;
    pe_close(&d.b);
}

int main(int argc, char **argv)
{
    static const struct role roles[] = {{"data", run_data},
                                        {"progress", run_progress},
                                        {"adder", run_adder},
                                        {"endless", run_endless_adder},
                                        {"gpu", run_gpu}};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_remote_data),
        cmocka_unit_test(test_the_target_has_to_serve),
        cmocka_unit_test(test_a_nic_is_one_for_all_processes),
        cmocka_unit_test(test_a_death_does_not_stop_the_nic),
        cmocka_unit_test(test_memory_of_gpus),
    };
    int status = child_main(argc, argv, roles, ARRAY(roles));

    if (status >= 0)
        return status;
    return cmocka_run_group_tests_name("loopback guises between processes", tests, NULL, NULL);
}
