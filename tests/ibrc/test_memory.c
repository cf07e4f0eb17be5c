/* SPDX-License-Identifier: Apache-2.0
 * Memory that a device does not register at once, and GPU memory, over the stand-in. There, GPU memory is a file's, and
 * its dma-buf the descriptor.
 * Main thread. */
#include "pair.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHUNK ((size_t)4096)

/* ------------------------------------------------------------------ chunks */

static void test_chunks(void **state)
{
    struct pair p;
    struct ferry_caps caps = {.size = sizeof caps};
    long before;

    (void)state;
    fakeverbs_memory(CHUNK + 100);
    before = fakeverbs_counts().mrs;
    pair_open(&p, NULL);
    assert_int_equal(fakeverbs_counts().mrs - before, 2 * (MEMORY / CHUNK + 1)); /* a page of each PE beside */
    assert_int_equal(ops()->query(p.pe[0].t, FERRY_MEMORY_HOST, &caps), FERRY_OK);
    assert_int_equal(caps.message_max, CHUNK);
    pair_close(&p);
    fakeverbs_memory(UINT64_MAX);
}

/* Every cut: no border, one at the source, one at the target, both at once and one after the other; inline and not. */
static void test_cuts(void **state)
{
    static const struct {
        size_t from, to, length;
        long requests;
    } cuts[] = {
        {0, 0, CHUNK, 1},
        {100, 200, 3000, 1},
        {CHUNK - 8, 0, 3000, 2},
        {0, CHUNK - 8, 3000, 2},
        {CHUNK - 8, 3 * CHUNK - 8, 3000, 2},
        {CHUNK - 8, 3 * CHUNK - 16, 3000, 3},
        {CHUNK - 1, 2 * CHUNK - 1, 2, 2},
        {16, 5 * CHUNK - 4, 8, 2},
        {64, MEMORY - 8, 8, 1},
        {MEMORY - 3000, MEMORY - 3000, 3000, 1},
    };

    (void)state;
    fakeverbs_memory(CHUNK);
    for (int get = 0; get < 2; get++)
        for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
            struct pair p;
            struct ferry_op op;
            struct fakeverbs_counts before, after;
            pair_open(&p, NULL);
            for (size_t b = 0; b < MEMORY; b++) {
                p.pe[0].memory[b] = (char)(get ? 0 : 1 + b % 251);
                p.pe[1].memory[b] = (char)(get ? 1 + b % 251 : 0);
            }
            op = put_op(&p, cuts[i].from, cuts[i].to, cuts[i].length);
            op.kind = get ? FERRY_OP_GET : FERRY_OP_PUT;
            before = fakeverbs_counts();
            assert_true(ops()->rma(p.pe[0].t, 0, &op) >= 0);
            after = fakeverbs_counts();
            assert_int_equal(after.requests - before.requests, cuts[i].requests);
            assert_int_equal(after.doorbells - before.doorbells, 1);
            assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
            char *at = get ? p.pe[0].memory + cuts[i].from : p.pe[1].memory + cuts[i].to;
            const char *is = get ? p.pe[1].memory + cuts[i].to : p.pe[0].memory + cuts[i].from;
            assert_memory_equal(at, is, cuts[i].length);
            if (at > p.pe[get ? 0 : 1].memory)
                assert_int_equal(at[-1], 0);
            if (at + cuts[i].length < p.pe[get ? 0 : 1].memory + MEMORY)
                assert_int_equal(at[cuts[i].length], 0);
            pair_close(&p);
        }
    fakeverbs_memory(UINT64_MAX);
}

/* Words on both sides of a border, and a signal in another chunk than its data, which lie across one. */
static void test_words_at_borders(void **state)
{
    struct pair p;

    (void)state;
    fakeverbs_memory(CHUNK);
    pair_open(&p, NULL);
    for (uint64_t at = CHUNK - 8; at <= CHUNK; at += 8) {
        struct ferry_op add = amo_op(&p, at, FERRY_AMO_ADD, at);
        add.flags = FERRY_OP_FETCH;
        add.local = p.pe[0].memory + at; /* also a word beside a border */
        add.region = p.pe[0].region;
        for (int i = 0; i < 2; i++)
            assert_int_equal(ops()->amo(p.pe[0].t, 0, &add), FERRY_OK);
        assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
        assert_int_equal(*(uint64_t *)(void *)(p.pe[1].memory + at), 2 * at);
        assert_int_equal(*(uint64_t *)(void *)(p.pe[0].memory + at), at);
    }
    for (int kind = FERRY_AMO_SET; kind <= FERRY_AMO_ADD; kind++) {
        struct ferry_op op = put_op(&p, 0, 3 * CHUNK - 4, 8);
        op.kind = FERRY_OP_PUT_SIGNAL;
        op.amo = (uint8_t)kind;
        op.width = 8;
        op.signal_key = op.key;
        op.signal_offset = 7 * CHUNK;
        op.operand = 5;
        memset(p.pe[0].memory, kind + 1, 8);
        assert_int_equal(ops()->put_signal(p.pe[0].t, 0, &op), FERRY_DONE);
        assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
        assert_memory_equal(p.pe[1].memory + 3 * CHUNK - 4, p.pe[0].memory, 8);
        assert_int_equal(*(uint64_t *)(void *)(p.pe[1].memory + 7 * CHUNK), kind == FERRY_AMO_SET ? 5 : 10);
    }
    pair_close(&p);
    fakeverbs_memory(UINT64_MAX);
}

/* Of an operation that is cut only the first part is behind the border that it makes; a full queue takes all or none.
 */
static void test_cut_and_fenced(void **state)
{
    static const char *const set[] = {"queue_depth", "8", NULL};
    struct pair p;
    long before;

    (void)state;
    fakeverbs_memory(CHUNK);
    pair_open(&p, set);
    struct ferry_op add = amo_op(&p, 0, FERRY_AMO_ADD, 1), put = put_op(&p, CHUNK - 8, 3 * CHUNK - 16, 3000);
    before = fakeverbs_counts().fenced;
    assert_int_equal(ops()->amo(p.pe[0].t, 0, &add), FERRY_DONE);
    put.flags = FERRY_OP_FENCED;
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &put), FERRY_OK);
    assert_int_equal(fakeverbs_counts().fenced, before + 1);
    put.flags = 0;
    for (int i = 0; i < 100; i++)
        assert_int_equal(ops()->rma(p.pe[0].t, 0, &put), FERRY_OK);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
    assert_memory_equal(p.pe[1].memory + 3 * CHUNK - 16, p.pe[0].memory + CHUNK - 8, 3000);
    pair_close(&p);
    fakeverbs_memory(UINT64_MAX);
}

/* A key has room for so many registrations; and one of them that fails leaves none of the others. */
static void test_chunk_limits(void **state)
{
    struct side s;
    uint8_t blob[FERRY_KEY_MAX];
    struct ferry_memory memory = {.size = sizeof memory, .length = 100 * CHUNK, .fd = -1, .remote = 1};
    struct ferry_error e = {.size = sizeof e};
    struct ferry_region *region;
    size_t size;
    long before;

    (void)state;
    fakeverbs_memory(CHUNK);
    assert_int_equal(side_open(&s, 0, NULL), FERRY_OK);
    memory.address = mmap(NULL, memory.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory.address, MAP_FAILED);
    assert_int_equal(ops()->register_memory(s.t, &memory, &region), FERRY_OK);
    assert_int_equal(ops()->export_key(s.t, region, blob, &size), FERRY_ERR_LIMIT);
    ops()->query_error(s.t, 0, FERRY_PEER_ALL, &e);
    assert_non_null(strstr(e.message, "100 registrations"));
    assert_int_equal(ops()->deregister_memory(s.t, region), FERRY_OK);
    before = fakeverbs_live();
    memory.length = 65536 * CHUNK + 1; /* nothing of it is touched */
    assert_int_equal(ops()->register_memory(s.t, &memory, &region), FERRY_ERR_LIMIT);
    ops()->query_error(s.t, 0, FERRY_PEER_ALL, &e);
    assert_non_null(strstr(e.message, "RDMA device fake0 would need 65537 registrations for 268435457 bytes"));
    memory.length = 100 * CHUNK;
    fakeverbs_fail("reg_mr", 50, ENOMEM);
    assert_int_equal(ops()->register_memory(s.t, &memory, &region), FERRY_ERR_NOMEM);
    assert_int_equal(fakeverbs_live(), before);
    side_close(&s);
    munmap(memory.address, memory.length);
    assert_int_equal(fakeverbs_live(), 0);
    fakeverbs_memory(UINT64_MAX);
}

/* A peer whose device registers far less at once: a message would be cut too often. */
static void test_unlike_chunks(void **state)
{
    struct side large, small;
    uint8_t blob[FERRY_KEY_MAX];
    struct ferry_error e = {.size = sizeof e};
    struct ferry_rkey *key;
    size_t size;

    (void)state;
    fakeverbs_memory(CHUNK);
    assert_int_equal(side_open(&small, 1, NULL), FERRY_OK);
    assert_int_equal(ops()->export_key(small.t, small.region, blob, &size), FERRY_OK);
    fakeverbs_memory(UINT64_MAX);
    assert_int_equal(side_open(&large, 0, NULL), FERRY_OK);
    assert_int_equal(ops()->import_key(large.t, 1, blob, size, &key), FERRY_ERR_MISMATCH);
    ops()->query_error(large.t, 0, 1, &e);
    assert_non_null(strstr(e.message, "registers memory in pieces of 4096 bytes"));
    blob[size - 1] ^= 1;
    assert_int_equal(ops()->import_key(large.t, 1, blob, size - 4, &key), FERRY_ERR_MISMATCH);
    side_close(&large);
    side_close(&small);
    assert_int_equal(fakeverbs_live(), 0);
}

/* Whatever is pinned and fails for want of memory: the limit's value, and what to do. */
static void test_memlock(void **state)
{
    static const char *const calls[] = {"create_cq", "create_qp"};
    struct rlimit old, low = {.rlim_cur = 65536};
    struct ferry_error e = {.size = sizeof e};
    struct ferry_region *region;
    struct ferry_memory m;
    struct pair p;
    struct side s;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &old), 0);
    low.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
    fakeverbs_fail("reg_mr", 1, ENOMEM);
    assert_int_equal(side_open(&s, 0, NULL), FERRY_ERR_DEVICE);
    assert_non_null(strstr(s.stub.last.hint, "RLIMIT_MEMLOCK is 64 KiB: raise it with ulimit -l unlimited"));
    pair_open(&p, (const char *const[]){"inline_size", "8", NULL}); /* no other inline size is tried */
    for (int i = 0; i < 2; i++) {
        fakeverbs_fail(calls[i], 1, ENOMEM);
        assert_int_equal(pair_connect(&p, 1, 0, 1), FERRY_ERR_TRANSPORT);
        ops()->query_error(p.pe[0].t, 1, 1, &e);
        assert_non_null(strstr(e.hint, "RLIMIT_MEMLOCK is 64 KiB"));
    }
    m = (struct ferry_memory){.size = sizeof m, .address = p.pe[0].memory, .length = 4096, .fd = -1};
    fakeverbs_fail("reg_mr", 1, ENOMEM);
    assert_int_equal(ops()->register_memory(p.pe[0].t, &m, &region), FERRY_ERR_NOMEM);
    ops()->query_error(p.pe[0].t, 1, 1, &e);
    assert_non_null(strstr(e.message, "cannot register 4096 bytes"));
    assert_non_null(strstr(e.hint, "RLIMIT_MEMLOCK is 64 KiB"));
    pair_close(&p);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &old), 0);
}

/* ------------------------------------------------------------------ GPU memory */

static int gpu_memory(struct ferry_memory *m)
{
    int fd = memfd_create("gpu", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 8192), 0);
    *m = (struct ferry_memory){.size = sizeof *m,
                               .kind = FERRY_MEMORY_GPU,
                               .length = 8192,
                               .fd = -1,
                               .remote = 1,
                               .has_dmabuf = 1,
                               .dmabuf = fd};
    m->address = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(m->address, MAP_FAILED);
    return fd;
}

static void test_gpu_registrations(void **state)
{
    struct side s;
    struct ferry_memory m;
    struct ferry_region *region;
    struct ferry_error e = {.size = sizeof e};
    int fd = gpu_memory(&m);

    (void)state;
    assert_int_equal(side_open(&s, 0, NULL), FERRY_OK);
    fakeverbs_offers(UINT32_MAX);
    fakeverbs_fail("reg_mr", 1, EFAULT); /* by dma-buf it is not called */
    assert_int_equal(ops()->register_memory(s.t, &m, &region), FERRY_OK);
    assert_int_equal(ops()->deregister_memory(s.t, region), FERRY_OK);
    fakeverbs_offers(~(unsigned)FAKEVERBS_DMABUF);
    assert_int_equal(ops()->register_memory(s.t, &m, &region), FERRY_ERR_SYSTEM);
    ops()->query_error(s.t, 0, FERRY_PEER_ALL, &e);
    assert_non_null(strstr(e.message, "by dma-buf: the kernel"));
    assert_non_null(strstr(e.message, "by peer memory: Bad address"));
    assert_non_null(strstr(e.hint, "nvidia_peermem"));
    assert_int_equal(ops()->register_memory(s.t, &m, &region), FERRY_OK); /* now by peer memory */
    assert_int_equal(ops()->deregister_memory(s.t, region), FERRY_OK);
    m.has_dmabuf = 0;
    fakeverbs_fail("reg_mr", 1, EINVAL);
    assert_int_equal(ops()->register_memory(s.t, &m, &region), FERRY_ERR_SYSTEM);
    ops()->query_error(s.t, 0, FERRY_PEER_ALL, &e);
    assert_non_null(strstr(e.message, "by dma-buf: the memory has none; by peer memory: Invalid argument"));
    m.has_dmabuf = 1;
    m.size = offsetof(struct ferry_memory, has_dmabuf); /* an older core */
    fakeverbs_offers(UINT32_MAX);
    fakeverbs_fail("reg_mr", 1, EINVAL);
    assert_int_equal(ops()->register_memory(s.t, &m, &region), FERRY_ERR_SYSTEM);
    m.size = sizeof m;
    close(fd);
    fakeverbs_fail("reg_mr", 1, EINVAL);
    assert_int_equal(ops()->register_memory(s.t, &m, &region), FERRY_ERR_SYSTEM);
    ops()->query_error(s.t, 0, FERRY_PEER_ALL, &e);
    assert_non_null(strstr(e.message, "by dma-buf: Bad file descriptor"));
    side_close(&s);
    munmap(m.address, 8192);
    assert_int_equal(fakeverbs_live(), 0);
}

/* The device reads small data from GPU memory: the CPU does not look at them. */
static void test_gpu_source(void **state)
{
    struct pair p;
    struct ferry_memory m;
    struct ferry_region *region;
    struct fakeverbs_counts before, after;
    int fd = gpu_memory(&m);

    (void)state;
    fakeverbs_offers(UINT32_MAX);
    pair_open(&p, NULL);
    assert_int_equal(ops()->register_memory(p.pe[0].t, &m, &region), FERRY_OK);
    memset(m.address, 6, 8);
    struct ferry_op op = put_op(&p, 0, 128, 8);
    op.local = m.address;
    op.region = region;
    before = fakeverbs_counts();
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_OK); /* not free yet */
    after = fakeverbs_counts();
    assert_int_equal(after.inlined, before.inlined);
    assert_int_equal(after.requests, before.requests + 1);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
    assert_memory_equal(p.pe[1].memory + 128, m.address, 8);
    op.local = p.pe[0].memory; /* of the CPU's, as ever */
    op.region = NULL;
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_DONE);
    assert_int_equal(fakeverbs_counts().inlined, before.inlined + 1);
    pair_close(&p);
    close(fd);
    munmap(m.address, 8192);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks),           cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_words_at_borders), cmocka_unit_test(test_cut_and_fenced),
        cmocka_unit_test(test_chunk_limits),     cmocka_unit_test(test_unlike_chunks),
        cmocka_unit_test(test_memlock),          cmocka_unit_test(test_gpu_registrations),
        cmocka_unit_test(test_gpu_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
