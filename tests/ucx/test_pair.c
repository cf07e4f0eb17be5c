/* SPDX-License-Identifier: Apache-2.0
 * The plugin by its table: what it moves, what it refuses, what it leaves behind. UCX_TLS of the environment says over what.
 * Main thread. */
#include "pair.h"

#include "../base/cmocka_headers.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define ROUNDS 200

/* Bytes that tell where they belong. */
static void fill(unsigned char *bytes, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 8));
}

static void test_moves(void **state)
{
    static const size_t lengths[] = {1, 4, 8, 63, 2048, 2049, 70000, (size_t)1 << 20};
    unsigned char *source = malloc((size_t)1 << 20), *back = malloc((size_t)1 << 20);
    struct pair p;

    (void)state;
    pair_open(&p);
    for (int from = 0; from < 2; from++)
        for (uint32_t to = 0; to < 2; to++) {
            pair_connect(&p, from, 0, to);
            for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
                struct ferry_op op = pair_put(&p, from, to, 8 * i, source, lengths[i]);
                fill(source, lengths[i], (unsigned)(i + to));
                assert_true(pair_post(&p, from, 0, &op) >= 0);
                assert_int_equal(pair_quiet(&p, from, 0, i % 2 ? to : FERRY_PEER_ALL), FERRY_OK);
                assert_memory_equal(p.pe[to].memory + 8 * i, source, lengths[i]);
                op.kind = FERRY_OP_GET;
                op.local = back;
                assert_true(pair_post(&p, from, 0, &op) >= 0);
                assert_int_equal(pair_quiet(&p, from, 0, to), FERRY_OK);
                assert_memory_equal(back, source, lengths[i]);
            }
        }
    pair_close(&p);
    free(source);
    free(back);
}

/* The source of a copied put is changed at once; more of them than there are slots, and words that are many. */
static void test_copies(void **state)
{
    static uint64_t words[512];
    struct pair p;

    (void)state;
    pair_open(&p);
    pair_connect(&p, 0, 0, 1);
    for (uint64_t i = 0; i < 4096; i++) {
        uint64_t value = i * 0x0101010101010101u;
        struct ferry_op op = pair_put(&p, 0, 1, 8 * i, &value, 8);
        op.flags = FERRY_OP_COPY;
        assert_int_equal(pair_post(&p, 0, 0, &op), FERRY_DONE);
        value = ~value;
    }
    for (uint64_t i = 0; i < 512; i++)
        words[i] = i;
    struct ferry_op many = pair_put(&p, 0, 1, 65536, words, sizeof words);
    many.flags = FERRY_OP_WORD;
    assert_true(pair_post(&p, 0, 0, &many) >= 0);
    assert_int_equal(pair_quiet(&p, 0, 0, FERRY_PEER_ALL), FERRY_OK);
    for (uint64_t i = 0; i < 4096; i++)
        assert_true(((uint64_t *)(void *)p.pe[1].memory)[i] == i * 0x0101010101010101u);
    assert_memory_equal(p.pe[1].memory + 65536, words, sizeof words);
    pair_close(&p);
}

static uint64_t model(unsigned kind, uint64_t was, uint64_t operand, uint64_t compare)
{
    switch (kind) {
    case FERRY_AMO_ADD: return was + operand;
    case FERRY_AMO_AND: return was & operand;
    case FERRY_AMO_OR: return was | operand;
    case FERRY_AMO_XOR: return was ^ operand;
    case FERRY_AMO_SET:
    case FERRY_AMO_SWAP: return operand;
    case FERRY_AMO_CSWAP: return was == compare ? operand : was;
    default: return was;
    }
}

static void try_atomic(struct pair *p, uint32_t to, unsigned kind, unsigned width, int fetch, int equal)
{
    uint64_t mask = width == 8 ? UINT64_MAX : UINT32_MAX, was = 0xf0f1f2f3f4f5f6f7u & mask, old = 0, is = 0, operand = 0x0ff00f0ff0f00ff1u & mask;
    uint64_t compare = equal ? was : was + 1;
    struct ferry_op op = {.kind = FERRY_OP_AMO, .amo = (uint8_t)kind, .width = (uint8_t)width, .peer = to, .length = width,
                          .flags = fetch ? FERRY_OP_FETCH : 0, .local = fetch ? &old : NULL, .key = p->pe[0].keys[to],
                          .offset = 128, .operand = operand, .compare = compare};

    memcpy(p->pe[to].memory + 128, &was, width);
    assert_true(pair_post(p, 0, 0, &op) >= 0);
    assert_int_equal(pair_quiet(p, 0, 0, to), FERRY_OK);
    memcpy(&is, p->pe[to].memory + 128, width);
    assert_true(is == (model(kind, was, operand, compare) & mask));
    if (fetch)
        assert_true(old == was);
}

static void test_atomics(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p);
    for (uint32_t to = 0; to < 2; to++) {
        pair_connect(&p, 0, 0, to);
        for (unsigned kind = 0; kind < FERRY_AMO_KINDS; kind++)
            for (unsigned width = 4; width <= 8; width += 4)
                for (int fetch = 0; fetch < 2; fetch++) {
                    uint32_t has = width == 8 ? p.pe[0].caps.amo64 : p.pe[0].caps.amo32;
                    if (!(has & (fetch ? FERRY_AMO_FETCH_BIT(kind) : FERRY_AMO_BIT(kind))))
                        continue;
                    try_atomic(&p, to, kind, width, fetch, 0);
                    try_atomic(&p, to, kind, width, fetch, 1);
                }
    }
    pair_close(&p);
}

/* A ticket covers what was posted before it, whatever is posted later; many tickets may be out, and be forgotten. */
static void test_tickets(void **state)
{
    static uint64_t word = 7;
    struct pair p;

    (void)state;
    pair_open(&p);
    pair_connect(&p, 0, 0, 1);
    for (int i = 0; i < ROUNDS; i++) {
        struct ferry_op op = pair_put(&p, 0, 1, 0, &word, 8);
        uint64_t forgotten = 0;
        assert_true(pair_post(&p, 0, 0, &op) >= 0);
        pair_ops()->quiet(p.pe[0].t, 0, i % 2 ? 1 : FERRY_PEER_ALL, &forgotten);
    }
    assert_int_equal(pair_quiet(&p, 0, 0, FERRY_PEER_ALL), FERRY_OK);
    assert_int_equal(*(uint64_t *)(void *)p.pe[1].memory, 7);
    pair_close(&p);
}

static struct ferry_op fetch_add(const struct pair *p, uint32_t to, uint64_t *old)
{
    return (struct ferry_op){.kind = FERRY_OP_AMO, .amo = FERRY_AMO_ADD, .width = 8, .peer = to, .length = 8, .flags = FERRY_OP_FETCH,
                             .local = old, .key = p->pe[0].keys[to], .offset = 256, .operand = 1};
}

/* What brings a value is complete when it is there: alone, behind a put, while another peer is silent, and while more is asked. */
static void test_answers(void **state)
{
    uint64_t old[11], ticket = 0, word = 5;
    struct ferry_op op;
    struct pair p;
    int rc = FERRY_AGAIN;

    (void)state;
    memset(old, 0xff, sizeof old);
    pair_open(&p);
    pair_connect(&p, 0, 0, 0);
    pair_connect(&p, 0, 0, 1);
    memset(p.pe[1].memory + 256, 0, 8);
    for (uint64_t i = 0; i < 8; i++) {
        op = i == 4 ? pair_put(&p, 0, 1, 0, &word, 8) : fetch_add(&p, 1, &old[i]);
        assert_true(pair_post(&p, 0, 0, &op) >= 0);
        if (i == 4) /* no ticket between the put and the fetch */
            continue;
        assert_int_equal(pair_quiet(&p, 0, 0, i % 2 ? 1 : FERRY_PEER_ALL), FERRY_OK);
        assert_int_equal(old[i], i < 4 ? i : i - 1);
    }
    assert_int_equal(*(uint64_t *)(void *)p.pe[1].memory, 5);
    op = fetch_add(&p, 1, &old[8]);
    assert_true(pair_ops()->amo(p.pe[0].t, 0, &op) >= 0);
    assert_int_equal(pair_ops()->quiet(p.pe[0].t, 0, 0, &ticket), FERRY_OK); /* of this side, which was asked for nothing */
    assert_int_equal(pair_quiet(&p, 0, 0, 1), FERRY_OK);
    assert_int_equal(old[8], 7);
    op = fetch_add(&p, 1, &old[9]);
    assert_true(pair_post(&p, 0, 0, &op) >= 0);
    ticket = 0;
    for (time_t end = time(NULL) + (time_t)PAIR_SECONDS; rc == FERRY_AGAIN && time(NULL) < end;) {
        rc = pair_ops()->quiet(p.pe[0].t, 0, 1, &ticket);
        if (rc == FERRY_AGAIN) {
            op = fetch_add(&p, 1, &old[10]);
            assert_true(pair_post(&p, 0, 0, &op) >= 0);
        }
        for (int turns = 0; turns < 100; turns++) {
            pair_ops()->progress(p.pe[0].t, 0);
            pair_turn(&p);
        }
    }
    assert_int_equal(rc, FERRY_OK);
    assert_int_equal(old[9], 8);
    assert_int_equal(pair_quiet(&p, 0, 0, 1), FERRY_OK);
    pair_close(&p);
}

static void test_refusals(void **state)
{
    struct ferry_error error = {.size = sizeof error};
    uint8_t junk[64] = {1, 2, 3};
    struct ferry_rkey *key = NULL;
    char why[200] = "";
    struct pair p;

    (void)state;
    pair_open(&p);
    assert_int_equal(pair_ops()->reach(p.pe[0].t, 1, junk, sizeof junk, why, sizeof why), FERRY_ERR_UNREACHABLE);
    assert_string_equal(why, "its address is not of this ucx: run the same build on all hosts");
    assert_int_equal(pair_ops()->import_key(p.pe[0].t, 1, junk, sizeof junk, &key), FERRY_ERR_MISMATCH);
    assert_int_equal(pair_ops()->query_error(p.pe[0].t, 0, 1, &error), FERRY_OK);
    assert_string_equal(error.message, "the key from pe 1 is not of ucx");
    p.pe[1].endpoint[0] ^= 1;
    struct ferry_connect io = {.size = sizeof io, .phase = FERRY_CONNECT_START, .in = p.pe[1].endpoint,
                               .in_size = p.pe[1].endpoint_size, .out = junk};
    assert_int_equal(pair_ops()->connect(p.pe[0].t, 0, 1, &io), FERRY_ERR_MISMATCH);
    struct ferry_memory gpu = {.size = sizeof gpu, .kind = FERRY_MEMORY_GPU, .length = 4096};
    struct ferry_region *region;
    assert_int_equal(pair_ops()->register_memory(p.pe[0].t, &gpu, &region), FERRY_ERR_UNSUPPORTED);
    pair_close(&p);
}

/* Over shared memory alone there is no other way than mapping: a key of memory that was only registered is refused, and not met later. */
static void test_no_map(void **state)
{
    static char page[8192];
    struct ferry_memory memory = {.size = sizeof memory, .address = page, .length = sizeof page, .fd = -1, .remote = 1};
    struct ferry_error error = {.size = sizeof error};
    struct ferry_region *region;
    struct ferry_rkey *key;
    uint8_t blob[FERRY_KEY_MAX];
    size_t size = sizeof blob;
    struct pair p;

    (void)state;
    pair_open(&p);
    if (p.allocated && !(p.pe[1].caps.flags & FERRY_CAP_TARGET_PROGRESS)) {
        assert_int_equal(pair_ops()->register_memory(p.pe[1].t, &memory, &region), FERRY_OK);
        assert_int_equal(pair_ops()->export_key(p.pe[1].t, region, blob, &size), FERRY_OK);
        assert_int_equal(pair_ops()->import_key(p.pe[0].t, 1, blob, size, &key), FERRY_ERR_TRANSPORT);
        assert_int_equal(pair_ops()->query_error(p.pe[0].t, 0, 1, &error), FERRY_OK);
        assert_non_null(strstr(error.message, "memory of pe 1 cannot be mapped here by UCX's "));
        assert_string_equal(error.hint, "add tcp to UCX_TLS, or let PEs see each other's memory");
        assert_int_equal(pair_ops()->deregister_memory(p.pe[1].t, region), FERRY_OK);
    }
    pair_close(&p);
}

/* A peer that the core gives up: what goes there fails and says so, what goes elsewhere does not. */
static void test_gone(void **state)
{
    static uint64_t word = 9;
    struct ferry_error error = {.size = sizeof error};
    char text[160];
    struct pair p;

    (void)state;
    pair_open(&p);
    pair_connect(&p, 0, 0, 0);
    pair_connect(&p, 0, 0, 1);
    struct ferry_op op = pair_put(&p, 0, 1, 0, &word, 8), own = pair_put(&p, 0, 0, 0, &word, 8);
    assert_true(pair_post(&p, 0, 0, &op) >= 0);
    assert_int_equal(pair_ops()->describe(p.pe[0].t, 0, 1, text, sizeof text), FERRY_OK);
    assert_non_null(strstr(text, "channel: "));
    assert_non_null(strstr(text, " operations posted, "));
    assert_int_equal(pair_ops()->disconnect(p.pe[0].t, 1), FERRY_OK);
    assert_int_equal(pair_ops()->describe(p.pe[0].t, 0, 1, text, sizeof text), FERRY_OK);
    assert_string_equal(text, "ucx: channel 0 to pe 1: the peer is gone");
    assert_int_equal(pair_ops()->describe(p.pe[0].t, 1, 1, text, sizeof text), FERRY_OK);
    assert_string_equal(text, ""); /* no such channel */
    assert_int_equal(pair_ops()->query_error(p.pe[0].t, 0, 1, &error), FERRY_OK);
    assert_int_equal(error.status, FERRY_ERR_PEER);
    assert_string_equal(error.message, "ucx: channel 0 to pe 1: the peer is gone");
    if (!(p.pe[0].caps.flags & FERRY_CAP_MAP)) /* what is mapped has no way to fail */
        assert_int_equal(pair_post(&p, 0, 0, &op), FERRY_ERR_PEER);
    assert_true(pair_post(&p, 0, 0, &own) >= 0);
    assert_int_equal(pair_quiet(&p, 0, 0, 0), FERRY_OK);
    assert_int_equal(*(uint64_t *)(void *)p.pe[0].memory, 9);
    pair_close(&p);
}

static int descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* Closed with operations on their way, opened again: nothing is left, and the process is as it was. */
static void test_again(void **state)
{
    static char source[1 << 20];
    struct sigaction before, after;
    char **variables = environ;
    struct pair p;
    int first = 0;

    (void)state;
    sigaction(SIGSEGV, NULL, &before);
    for (int round = 0; round < 5; round++) {
        pair_open(&p);
        pair_connect(&p, 0, 0, 1);
        pair_connect(&p, 0, 1, 1);
        for (int i = 0; i < 64; i++) {
            struct ferry_op op = pair_put(&p, 0, 1, 0, source, sizeof source);
            pair_ops()->rma(p.pe[0].t, i % 2, &op);
        }
        pair_close(&p);
        if (round == 1) /* the first one starts what UCX has once in a process */
            first = descriptors();
    }
    assert_int_equal(descriptors(), first);
    sigaction(SIGSEGV, NULL, &after);
    assert_true(before.sa_handler == after.sa_handler);
    assert_true(variables == environ);
}

/* More than the target's queue has room for, so UCX keeps some back; then the target reads all that it has been sent. A quiet has to
 * cover what was kept back, too. */
static void test_kept_back(void **state)
{
    static uint64_t words[600];
    uint64_t ticket = 0;
    struct pair p;
    size_t n = 0;
    int rc;

    (void)state;
    pair_open(&p);
    pair_connect(&p, 0, 0, 1);
    for (rc = FERRY_OK; n < sizeof words / sizeof *words && rc >= 0 && rc != FERRY_AGAIN; n++) {
        struct ferry_op op = pair_put(&p, 0, 1, 8 * n, &words[n], 8);
        words[n] = n + 1;
        rc = pair_ops()->rma(p.pe[0].t, 0, &op);
    }
    n -= rc == FERRY_AGAIN;
    assert_true(rc >= 0 && n > 100);
    for (int i = 0; i < 1000; i++)
        pair_ops()->progress(p.pe[1].t, FERRY_CHANNEL_SERVICE);
    pair_ops()->progress(p.pe[0].t, 0); /* sends the first of them, and sees that there is room */
    rc = pair_ops()->quiet(p.pe[0].t, 0, 1, &ticket);
    for (double end = pair_now() + PAIR_SECONDS; rc == FERRY_AGAIN && pair_now() < end;) {
        pair_ops()->progress(p.pe[0].t, 0);
        pair_turn(&p);
        rc = pair_ops()->quiet(p.pe[0].t, 0, 1, &ticket);
    }
    assert_int_equal(rc, FERRY_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(*(uint64_t *)(void *)(p.pe[1].memory + 8 * i), i + 1);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves),     cmocka_unit_test(test_copies),   cmocka_unit_test(test_atomics), cmocka_unit_test(test_tickets),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_no_map), cmocka_unit_test(test_gone),     cmocka_unit_test(test_again),
        cmocka_unit_test(test_kept_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
