/* SPDX-License-Identifier: Apache-2.0
 * Puts and gets of the loopback plugin between instances of one process: every small size and alignment, the sizes
 * around its thresholds, more than 4 GiB, private memory. Main thread. */
#include "harness.h"

#include <sys/mman.h>
#include <unistd.h>

#define GUARD  64
#define SIZES  301
#define ALIGNS 16
#define BIG    ((4ull << 30) + 8193)

static struct pe a, b;
static struct ferry_rkey *key; /* of b, in a */

static void open_pair(int64_t nt_threshold, size_t length)
{
    struct pe_options options = {.nt_threshold = nt_threshold, .length = length};

    pe_open(&a, 0, &options);
    pe_open(&b, 1, &options);
    key = pe_must_import(&a, 1, &b.key);
}

static void close_pair(void)
{
    assert_int_equal(ops()->release_key(a.t, key), FERRY_OK);
    pe_close(&a);
    pe_close(&b);
}

/* Puts n bytes at `offset` of b and looks at them and at what lies around. */
static void check_put(const uint8_t *from, size_t offset, size_t n)
{
    uint8_t *there = (uint8_t *)b.memory + offset;

    memset(there - GUARD, 0xa5, n + 2 * GUARD);
    put(&a, key, offset, from, n, 0);
    quiet(&a, 1);
    if (memcmp(there, from, n))
        fail_msg("put of %zu bytes from ..%x to ..%x: wrong bytes", n, (unsigned)((uintptr_t)from & 63),
                 (unsigned)(offset & 63));
    for (size_t i = 1; i <= GUARD; i++)
        if (there[-(ptrdiff_t)i] != 0xa5 || there[n + i - 1] != 0xa5)
            fail_msg("put of %zu bytes to ..%x: wrote outside", n, (unsigned)(offset & 63));
}

static void check_get(uint8_t *to, size_t offset, size_t n)
{
    const uint8_t *there = (const uint8_t *)b.memory + offset;

    memset(to - GUARD, 0x5a, n + 2 * GUARD);
    get(&a, key, offset, to, n);
    if (memcmp(there, to, n))
        fail_msg("get of %zu bytes from ..%x: wrong bytes", n, (unsigned)(offset & 63));
    for (size_t i = 1; i <= GUARD; i++)
        if (to[-(ptrdiff_t)i] != 0x5a || to[n + i - 1] != 0x5a)
            fail_msg("get of %zu bytes from ..%x: wrote outside", n, (unsigned)(offset & 63));
}

static void test_sizes(void **state)
{
    static uint8_t local[1024] __attribute__((aligned(64)));
    unsigned checked = 0;

    (void)state;
    open_pair(0, 0);
    for (size_t n = 0; n < SIZES; n += UNDER_TSAN && n > 40 ? 7 : 1)
        for (size_t from = 0; from < ALIGNS; from++)
            for (size_t to = 0; to < ALIGNS; to++, checked++) {
                fill(local, sizeof local, n * 256 + from * 16 + to);
                check_put(local + GUARD + from, 128 + to, n);
                fill(b.memory, 1024, checked);
                check_get(local + GUARD + from, 128 + to, n);
            }
    print_message("%u combinations of size and alignment\n", checked);
    close_pair();
}

/* Words around a threshold, at every alignment of the target within a cache line. */
static void around(int64_t threshold, size_t limit)
{
    const size_t step = limit > 65536 ? 13 : 1;
    uint8_t *local = malloc(limit + 4096);

    assert_non_null(local);
    fill(local, limit + 4096, (uint64_t)threshold);
    open_pair(threshold, limit + 4096);
    for (size_t n = limit - 3; n <= limit + 3; n++)
        for (size_t to = 0; to < 64; to += step) {
            check_put(local + 64 + (to * 5 + 3) % 64, 1024 + to, n);
            if (to == 0)
                check_get(local + 64 + 3, 1024, n);
        }
    close_pair();
    free(local);
}

static void test_thresholds(void **state)
{
    (void)state;
    around(0, 64);
    around(1, 65);
    around(1, 128);
    around(129, 129);
    around(4096, 4096);
    around(100000, 100000);
    around(0, UNDER_TSAN ? 1 << 20 : 8 << 20);
    around(-1, 8 << 20);
}

/* The source of a put may be read-only, and unknown to the transport. */
static void test_read_only_source(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *source = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_ptr_not_equal(source, MAP_FAILED);
    fill(source, page, 1);
    assert_int_equal(mprotect(source, page, PROT_READ), 0);
    open_pair(0, 0);
    put(&a, key, 64, source, page, FERRY_OP_COPY);
    assert_memory_equal(b.memory + 64, source, page);
    close_pair();
    munmap(source, page);
}

static void test_self(void **state)
{
    struct ferry_rkey *own;
    struct pe_options options = {0};
    void *map = NULL;

    (void)state;
    pe_open(&a, 3, &options);
    own = pe_must_import(&a, 3, &a.key);
    assert_int_equal(ops()->map_key(a.t, own, &map), FERRY_OK);
    assert_ptr_equal(map, a.memory);
    put(&a, own, 500, "itself", 7, 0);
    assert_string_equal(a.memory + 500, "itself");
    assert_int_equal(fetch_add(&a, 0, own, 8, 5), 0);
    assert_int_equal(fetch_add(&a, 0, own, 8, 5), 5);
    pe_close(&a); /* releases the key, too */
}

/* Memory without a file: by pointer within the process, refused in words to others. */
static void test_private_memory(void **state)
{
    static char space[4096] __attribute__((aligned(64)));
    struct ferry_memory memory = {
        .size = sizeof memory, .address = space, .length = sizeof space, .fd = -1, .remote = 1};
    struct ferry_region *region;
    struct ferry_rkey *k;
    struct blob blob, other;

    (void)state;
    open_pair(0, 0);
    assert_int_equal(ops()->register_memory(b.t, &memory, &region), FERRY_OK);
    assert_int_equal(ops()->export_key(b.t, region, blob.bytes, &blob.size), FERRY_OK);
    k = pe_must_import(&a, 1, &blob);
    put(&a, k, 100, "private", 8, 0);
    assert_string_equal(space + 100, "private");
    assert_int_equal(ops()->release_key(a.t, k), FERRY_OK);
    other = foreign(&blob);
    assert_int_equal(pe_import(&a, 1, &other, &k), FERRY_ERR_UNSUPPORTED);
    assert_non_null(strstr(pe_error(&a, 1).message, "no file behind"));
    assert_int_equal(ops()->deregister_memory(b.t, region), FERRY_OK);
    close_pair();
}

static void test_bad_registrations(void **state)
{
    struct ferry_memory memory = {.size = sizeof memory, .address = &memory, .length = sizeof memory, .fd = -1};
    struct ferry_region *region;
    struct blob blob;

    (void)state;
    open_pair(0, 0);
    assert_int_equal(ops()->register_memory(a.t, &memory, &region), FERRY_OK);
    assert_int_equal(ops()->export_key(a.t, region, blob.bytes, &blob.size), FERRY_ERR_ARG);
    assert_non_null(strstr(pe_error(&a, FERRY_PEER_ALL).message, "local use"));
    assert_int_equal(ops()->deregister_memory(a.t, region), FERRY_OK);
    memory.length = 0;
    assert_int_equal(ops()->register_memory(a.t, &memory, &region), FERRY_ERR_ARG);
    memory.length = 8;
    memory.kind = FERRY_MEMORY_GPU;
    assert_int_equal(ops()->register_memory(a.t, &memory, &region), FERRY_ERR_UNSUPPORTED);
    memory.kind = FERRY_MEMORY_HOST;
    memory.fd = 1 << 20;
    memory.remote = 1;
    assert_int_equal(ops()->register_memory(a.t, &memory, &region), FERRY_ERR_SYSTEM);
    close_pair();
}

static void test_caps(void **state)
{
    struct ferry_caps caps = {.size = sizeof caps}, short_caps;

    (void)state;
    open_pair(0, 0);
    assert_int_equal(ops()->query(a.t, FERRY_MEMORY_HOST, &caps), FERRY_OK);
    assert_int_equal(caps.size, sizeof caps);
    assert_int_equal(caps.flags & FERRY_CAP_SIGNAL_STRONG, FERRY_CAP_SIGNAL_STRONG);
    assert_int_equal(caps.domain, FERRY_DOMAIN_CPU);
    assert_true(caps.message_max > 1ull << 40);
    memset(&short_caps, 0xee, sizeof short_caps);
    short_caps.size = 12; /* an older core's: nothing is written past it */
    assert_int_equal(ops()->query(a.t, FERRY_MEMORY_HOST, &short_caps), FERRY_OK);
    assert_int_equal(short_caps.size, 12);
    assert_int_equal(short_caps.order, caps.order);
    assert_int_equal(short_caps.domain, 0xeeeeeeee);
    assert_int_equal(ops()->query(a.t, FERRY_MEMORY_GPU, &caps), FERRY_ERR_UNSUPPORTED);
    close_pair();
}

/* ---- more than 4 GiB */

static unsigned long long available(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    unsigned long long kib = 0;
    char line[128];

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib << 10;
}

/* Offsets where a length cut to 31 or 32 bits, or a copy in pieces, would show. */
static const uint64_t marks[] = {0,          (1ull << 31) - 9,    1ull << 31, (1ull << 32) - 4096, (1ull << 32) - 1,
                                 1ull << 32, (1ull << 32) + 4095, BIG - 1};
#define MARKS (sizeof marks / sizeof *marks)

/* By the PE `from`, whose threshold decides how the bytes are copied. */
static void big_put(struct pe *from, char *source)
{
    key = pe_must_import(from, 1, &b.key);
    for (size_t i = 0; i < MARKS; i++) {
        source[marks[i]] = (char)(i + 1);
        b.memory[100 + marks[i]] = 99;
    }
    b.memory[99] = b.memory[100 + BIG] = 77;
    put(from, key, 100, source, BIG, 0);
    quiet(from, 1);
    for (size_t i = 0; i < MARKS; i++)
        assert_int_equal(b.memory[100 + marks[i]], i + 1);
    assert_int_equal(b.memory[101], 0);
    assert_int_equal(b.memory[99], 77);
    assert_int_equal(b.memory[100 + BIG], 77);
    for (size_t i = 0; i < MARKS; i++)
        source[marks[i]] = 0;
    get(from, key, 100 + (1ull << 32) - 8192, source + (1ull << 32) - 8192, 8192 + 8193);
    assert_int_equal(source[(1ull << 32) + 4095], 7);
    assert_int_equal(source[BIG - 1], 8);
    assert_int_equal(ops()->release_key(from->t, key), FERRY_OK);
}

static void test_beyond_4_gib(void **state)
{
    static const struct pe_options streams = {.nt_threshold = 1 << 20}, copies = {.nt_threshold = -1},
                                   big = {.length = BIG + 16384};
    static struct pe streamer;
    char *source;

    (void)state;
    if (UNDER_SANITIZER || available() < BIG + (2ull << 30)) {
        print_message("not run: %s\n", UNDER_SANITIZER ? "a sanitizer's shadow takes too much memory or time"
                                                       : "less than 6 GiB of memory are available");
        skip();
    }
    source = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(source, MAP_FAILED);
    madvise(source, BIG, MADV_HUGEPAGE); /* fewer faults; nothing depends on it */
    pe_open(&a, 0, &copies);
    pe_open(&streamer, 2, &streams);
    pe_open(&b, 1, &big);
    big_put(&a, source);
    big_put(&streamer, source);
    pe_close(&a);
    pe_close(&streamer);
    pe_close(&b);
    munmap(source, BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes), cmocka_unit_test(test_thresholds),     cmocka_unit_test(test_read_only_source),
        cmocka_unit_test(test_self),  cmocka_unit_test(test_private_memory), cmocka_unit_test(test_bad_registrations),
        cmocka_unit_test(test_caps),  cmocka_unit_test(test_beyond_4_gib),
    };
    return cmocka_run_group_tests_name("loopback data", tests, NULL, NULL);
}
