/* SPDX-License-Identifier: Apache-2.0
 * The loopback plugin between processes: exchange of memory, order, whole words, atomics, death.
 * Main thread of the test, and the child processes that it starts (run_…). */
#include "harness.h"

#include <poll.h>
#include <pthread.h>

#define EXPECT(condition)                                                                                              \
    (void)((condition) || (fprintf(stderr, "child: line %d: %s\n", __LINE__, #condition), exit(1), 0))

enum { FLAG = 0, REPLY = 64, COUNTER = 128, DATA = 4096, MESSAGE_MAX = 5000, LARGE = 1 << 18 };
static const struct pe_options plain = {.nt_threshold = 3000};

static uint64_t *word(const struct pe *pe, size_t offset)
{
    return (uint64_t *)(void *)(pe->memory + offset);
}

/* Child, PE 1: says hello, imports what the parent has. */
static struct ferry_rkey *meet(int socket, struct pe *pe, uint32_t me)
{
    struct hello parent;
    char why[256] = "";

    pe_open(pe, me, &plain);
    EXPECT(send_hello(socket, pe));
    EXPECT(receive_hello(socket, &parent));
    EXPECT(ops()->reach(pe->t, parent.pe, parent.endpoint.bytes, parent.endpoint.size, why, sizeof why) == FERRY_OK);
    return pe_must_import(pe, parent.pe, &parent.key);
}

/* Parent, PE 0: the same. The child's main thread is in recv: its control thread alone serves. */
static struct ferry_rkey *greet(struct child *child, struct pe *pe, struct hello *it)
{
    char why[256] = "";

    assert_true(receive_hello(child->socket, it));
    if (ops()->reach(pe->t, it->pe, it->endpoint.bytes, it->endpoint.size, why, sizeof why))
        fail_msg("not reachable: %s", why);
    assert_true(send_hello(child->socket, pe));
    return pe_must_import(pe, it->pe, &it->key);
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

/* ---- exchange */

static int run_exchange(int socket)
{
    static uint8_t data[MESSAGE_MAX], got[MESSAGE_MAX];
    struct pe pe;
    struct ferry_rkey *key = meet(socket, &pe, 1);

    fill(data, sizeof data, 11);
    put(&pe, key, DATA, data, sizeof data, 0);
    quiet(&pe, 0);
    EXPECT(send_bytes(socket, "g", 1));
    EXPECT(wait_go(socket));
    fill(data, sizeof data, 22);
    EXPECT(!memcmp(pe.memory + DATA, data, sizeof data));
    get(&pe, key, DATA + 10000, got, sizeof got);
    fill(data, sizeof data, 33);
    EXPECT(!memcmp(got, data, sizeof data));
    pe_close(&pe);
    return 0;
}

static void test_exchange(void **state)
{
    static uint8_t data[MESSAGE_MAX];
    struct pe pe;
    struct hello it;
    struct child child = child_start("exchange");
    struct ferry_rkey *key;

    (void)state;
    pe_open(&pe, 0, &plain);
    key = greet(&child, &pe, &it);
    fill(pe.memory + DATA + 10000, MESSAGE_MAX, 33);
    fill(data, sizeof data, 22);
    put(&pe, key, DATA, data, sizeof data, 0);
    quiet(&pe, 1);
    assert_true(wait_go(child.socket));
    fill(data, sizeof data, 11);
    assert_memory_equal(pe.memory + DATA, data, sizeof data);
    go(child.socket);
    child_finish(&child);
    assert_int_equal(ops()->release_key(pe.t, key), FERRY_OK);
    pe_close(&pe);
}

/* ---- message passing */

/* Now and then a large one, whose copy takes longer than the flag's way: a flag that came first would be caught. */
static size_t message_size(uint64_t round)
{
    static const size_t sizes[] = {8, 64, 100, 2999, 3000, MESSAGE_MAX};

    return round % 31 == 0 ? LARGE : sizes[round % (sizeof sizes / sizeof *sizes)];
}

static unsigned rounds(void)
{
    return SCALE(100000);
}

static int run_consumer(int socket)
{
    struct pe pe;
    struct ferry_rkey *key = meet(socket, &pe, 1);

    for (uint64_t round = 1; round <= rounds(); round++) {
        size_t n = message_size(round);

        EXPECT(await(word(&pe, FLAG), round));
        for (size_t i = n; i-- > 0;) /* the last byte is the likeliest to be late */
            EXPECT(pe.memory[DATA + i] == (char)round);
        put(&pe, key, REPLY, &round, 8, FERRY_OP_WORD);
    }
    pe_close(&pe);
    return 0;
}

static void post_message(struct pe *pe, const struct ferry_rkey *key, const char *data, uint64_t round)
{
    size_t n = message_size(round);
    struct ferry_op op = amo_op(key, FLAG, FERRY_AMO_ADD, 8, 1);

    if (round % 4 == 0) {
        put_signal(pe, key, DATA, data, n, FLAG, FERRY_AMO_SET, round);
        return;
    }
    if (round % 4 == 1) {
        put_signal(pe, key, DATA, data, n, FLAG, FERRY_AMO_ADD, 1);
        return;
    }
    put(pe, key, DATA, data, n / 2, 0); /* two puts: the flag covers both */
    put(pe, key, DATA + n / 2, data, n - n / 2, 0);
    if (round % 4 == 2)
        put(pe, key, FLAG, &round, 8, FERRY_OP_WORD | FERRY_OP_FENCED);
    else
        assert_int_equal(ops()->amo(pe->t, 0, &op), FERRY_DONE);
}

static void test_message_passing(void **state)
{
    static char data[LARGE];
    struct pe pe;
    struct hello it;
    struct child child = child_start("consumer");
    struct ferry_rkey *key;

    (void)state;
    pe_open(&pe, 0, &plain);
    key = greet(&child, &pe, &it);
    for (uint64_t round = 1; round <= rounds(); round++) {
        memset(data, (int)round, message_size(round));
        post_message(&pe, key, data, round);
        if (!await(word(&pe, REPLY), round))
            fail_msg("no reply in round %llu", (unsigned long long)round);
    }
    child_finish(&child);
    pe_close(&pe);
}

/* ---- whole words */

static int run_word_reader(int socket)
{
    struct pe pe;
    uint64_t changes = 0, last = 0;

    meet(socket, &pe, 1);
    EXPECT(send_bytes(socket, "g", 1));
    while (last != UINT64_MAX) {
        uint64_t v = __atomic_load_n(word(&pe, FLAG), __ATOMIC_RELAXED);

        EXPECT((uint32_t)v == (uint32_t)(v >> 32));
        if (v != last && ++changes == 11)
            EXPECT(send_bytes(socket, "e", 1)); /* enough */
        last = v;
    }
    EXPECT(changes > 10); /* it did run beside the writer */
    pe_close(&pe);
    return 0;
}

static int has_news(int socket)
{
    struct pollfd fd = {.fd = socket, .events = POLLIN};

    return poll(&fd, 1, 0) > 0;
}

static void test_words_are_whole(void **state)
{
    struct pe pe;
    struct hello it;
    struct child child = child_start("word_reader");
    struct ferry_rkey *key;
    double start;

    (void)state;
    pe_open(&pe, 0, &plain);
    key = greet(&child, &pe, &it);
    assert_true(wait_go(child.socket));
    start = seconds();
    /* until the reader has run beside it, however busy the machine is */
    for (uint64_t i = 1; seconds() < start + 0.5 || (!has_news(child.socket) && seconds() < start + 60); i++)
        for (uint64_t k = 0; k < 1000; k++) {
            uint64_t v = (i * 1000 + k) % 0xffffffff * 0x100000001;

            put(&pe, key, FLAG, &v, 8, FERRY_OP_WORD);
        }
    put(&pe, key, FLAG, &(uint64_t){UINT64_MAX}, 8, FERRY_OP_WORD);
    child_finish(&child);
    pe_close(&pe);
}

/* ---- atomics from processes and threads */

enum { ADDERS = 3, ADDER_THREADS = 2 };

struct adder {
    struct pe *pe;
    const struct ferry_rkey *key;
    uint32_t channel;
};

static unsigned adds(void)
{
    return SCALE(20000);
}

static char out_of_range[] = "a value out of range was fetched";
static char refused[] = "an atomic was refused";

/* The slot of each fetched value is counted with a 4-byte atomic beside others of its kind. */
static void *add(void *arg)
{
    const struct adder *adder = arg;

    for (unsigned i = 0; i < adds(); i++) {
        uint64_t old = fetch_add(adder->pe, adder->channel, adder->key, COUNTER, 1);
        struct ferry_op op = amo_op(adder->key, DATA + 4 * old, FERRY_AMO_ADD, 4, 1);

        if (old >= (uint64_t)adds() * ADDERS * ADDER_THREADS)
            return out_of_range;
        if (ops()->amo(adder->pe->t, adder->channel, &op) != FERRY_DONE)
            return refused;
    }
    return NULL;
}

static const char *add_all(struct pe *pe, const struct ferry_rkey *key)
{
    struct adder adders[ADDER_THREADS];
    pthread_t threads[ADDER_THREADS];
    const char *wrong = NULL;

    for (uint32_t i = 0; i < ADDER_THREADS; i++) {
        adders[i] = (struct adder){.pe = pe, .key = key, .channel = i};
        if (pthread_create(&threads[i], NULL, add, &adders[i]))
            return "no thread";
    }
    for (int i = 0; i < ADDER_THREADS; i++) {
        void *one = NULL;

        pthread_join(threads[i], &one);
        wrong = one ? one : wrong;
    }
    quiet(pe, 0);
    return wrong;
}

static int run_adder(int socket)
{
    struct pe pe;
    struct ferry_rkey *key = meet(socket, &pe, 1);

    EXPECT(wait_go(socket));
    EXPECT(!add_all(&pe, key));
    pe_close(&pe);
    return 0;
}

static void test_fetch_add_processes(void **state)
{
    struct pe_options options = {.length = DATA + 4 * 20000 * ADDERS * ADDER_THREADS};
    struct child children[ADDERS - 1];
    struct hello it;
    struct pe pe;

    (void)state;
    pe_open(&pe, 0, &options);
    for (int i = 0; i < ADDERS - 1; i++) {
        children[i] = child_start("adder");
        greet(&children[i], &pe, &it);
    }
    for (int i = 0; i < ADDERS - 1; i++)
        go(children[i].socket);
    assert_null(add_all(&pe, pe_must_import(&pe, 0, &pe.key)));
    for (int i = 0; i < ADDERS - 1; i++)
        child_finish(&children[i]);
    assert_int_equal(*word(&pe, COUNTER), adds() * ADDERS * ADDER_THREADS);
    for (size_t i = 0; i < (size_t)adds() * ADDERS * ADDER_THREADS; i++)
        assert_int_equal(((uint32_t *)(void *)(pe.memory + DATA))[i], 1);
    pe_close(&pe);
}

/* ---- death */

static int run_mute(int socket)
{
    struct pe_options options = {.mute = 1};
    struct pe pe;
    char c;

    pe_open(&pe, 1, &options);
    EXPECT(send_hello(socket, &pe));
    return receive_bytes(socket, &c, 1) ? 0 : 1; /* until it is killed */
}

static int socket_listed(const struct blob *endpoint)
{
    struct fy_lb_endpoint e;
    struct sockaddr_un name;
    socklen_t length;
    char line[512];
    int found = 0;
    FILE *f = fopen("/proc/net/unix", "re");

    assert_non_null(f);
    memcpy(&e, endpoint->bytes, sizeof e);
    fy_lb_socket_name(e.token, &name, &length);
    while (fgets(line, sizeof line, f))
        found += strstr(line, name.sun_path + 1) != NULL;
    fclose(f);
    return found;
}

/* The peer dies with an import half done: an error within the time an answer may take, and nothing stays behind. */
static void test_dead_peer(void **state)
{
    struct child child = child_start("mute");
    struct ferry_rkey *key = NULL;
    struct hello it;
    unsigned fds;
    struct pe pe;

    (void)state;
    pe_open(&pe, 0, &plain);
    assert_true(receive_hello(child.socket, &it));
    fds = count_fds();
    for (int i = 0; i < 100; i++)
        assert_int_equal(ops()->import_key(pe.t, 1, it.key.bytes, it.key.size, &key), FERRY_AGAIN);
    assert_int_equal(count_fds(), fds + 1);
    assert_true(socket_listed(&it.endpoint));
    child_kill(&child);
    assert_int_equal(pe_import(&pe, 1, &it.key, &key), FERRY_ERR_PEER);
    assert_non_null(strstr(pe_error(&pe, 1).message, "its socket is gone"));
    assert_int_equal(pe_error(&pe, 1).peer, 1);
    assert_int_equal(pe_error(&pe, 2).status, FERRY_OK);
    assert_int_equal(pe_import(&pe, 1, &it.key, &key), FERRY_ERR_PEER);
    assert_int_equal(count_fds(), fds - 1); /* the socket to the child is closed, too */
    assert_false(socket_listed(&it.endpoint));
    pe_close(&pe);
}

static void test_disconnect_ends_imports(void **state)
{
    struct child child = child_start("mute");
    struct ferry_rkey *key = NULL;
    struct hello it;
    unsigned fds;
    struct pe pe;

    (void)state;
    pe_open(&pe, 0, &plain);
    assert_true(receive_hello(child.socket, &it));
    fds = count_fds();
    assert_int_equal(ops()->import_key(pe.t, 1, it.key.bytes, it.key.size, &key), FERRY_AGAIN);
    assert_int_equal(ops()->disconnect(pe.t, 2), FERRY_OK);
    assert_int_equal(count_fds(), fds + 1);
    assert_int_equal(ops()->disconnect(pe.t, 1), FERRY_OK);
    assert_int_equal(count_fds(), fds);
    assert_int_equal(ops()->import_key(pe.t, 1, it.key.bytes, it.key.size, &key), FERRY_AGAIN);
    child_kill(&child);
    pe_close(&pe); /* with an import pending */
}

/* Memory of a dead process stays usable by those who have it. */
static void test_memory_outlives_its_owner(void **state)
{
    struct child child = child_start("exchange");
    struct hello it;
    struct pe pe;
    struct ferry_rkey *key;
    char back[16] = "";

    (void)state;
    pe_open(&pe, 0, &plain);
    key = greet(&child, &pe, &it);
    child_kill(&child);
    put(&pe, key, DATA, "still here", 11, 0);
    get(&pe, key, DATA, back, 11);
    assert_string_equal(back, "still here");
    pe_close(&pe);
}

int main(int argc, char **argv)
{
    static const struct role roles[] = {
        {"exchange", run_exchange}, {"consumer", run_consumer}, {"word_reader", run_word_reader},
        {"adder", run_adder},       {"mute", run_mute},

    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_message_passing),
        cmocka_unit_test(test_words_are_whole),
        cmocka_unit_test(test_fetch_add_processes),
        cmocka_unit_test(test_dead_peer),
        cmocka_unit_test(test_disconnect_ends_imports),
        cmocka_unit_test(test_memory_outlives_its_owner),
    };
    int status = child_main(argc, argv, roles, sizeof roles / sizeof *roles);

    if (status >= 0)
        return status;
    return cmocka_run_group_tests_name("loopback processes", tests, NULL, NULL);
}
