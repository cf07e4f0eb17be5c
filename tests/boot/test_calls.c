/* SPDX-License-Identifier: Apache-2.0
 * Requests that a peer's control thread serves while the peer computes, and descriptors that it watches. */
#include "kit.h"
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { ECHO = 1, REFUSE = 2, WHO = 3, FULL = 4, LIE = 5 };

static int serve(void *arg, uint32_t from, uint32_t type, const void *request, size_t size, void *reply,
                 size_t capacity, size_t *reply_size)
{
    const struct kit_pe *pe = arg;
    uint32_t who[2] = {from, pe->rank};
    switch (type) {
    case ECHO:
        memcpy(reply, request, size);
        *reply_size = size;
        return FERRY_OK;
    case REFUSE:
        return FERRY_ERR_ACCESS;
    case WHO:
        memcpy(reply, who, sizeof(who));
        *reply_size = sizeof(who);
        return FERRY_OK;
    case FULL:
        memset(reply, 0x77, capacity);
        *reply_size = capacity;
        return FERRY_OK;
    default:
        *reply_size = (size_t)1 << 40; /* more than there is: must not be believed */
        return FERRY_OK;
    }
}

struct caller {
    struct kit_pe *pe;
    uint32_t seed;
};

static void *caller_main(void *arg)
{
    const struct caller *caller = arg;
    struct kit_pe *pe = caller->pe;
    uint64_t seed = caller->seed + 1;
    for (int i = 0; i < 100; i++) {
        uint8_t request[FY_BOOT_MESSAGE_MAX], reply[FY_BOOT_MESSAGE_MAX];
        size_t size = kit_random(&seed) % (FY_BOOT_MESSAGE_MAX + 1), got = 0;
        uint32_t to = (uint32_t)(kit_random(&seed) % pe->n);
        struct ferry_error error;
        for (size_t k = 0; k < size; k++)
            request[k] = (uint8_t)kit_random(&seed);
        int rc = fy_boot_call(pe->boot, to, ECHO, request, size, reply, sizeof(reply), &got, 30, &error);
        if (rc != FERRY_OK || got != size || memcmp(request, reply, size) != 0)
            return arg;
    }
    return NULL;
}

/* Four callers per PE, to all PEs; each PE's own thread spins meanwhile and serves nothing. */
static void body_callers(struct kit_pe *pe)
{
    pthread_t threads[4];
    struct caller callers[4];
    for (uint32_t i = 0; i < 4; i++) {
        callers[i] = (struct caller){pe, pe->rank * 4 + i};
        pthread_create(&threads[i], NULL, caller_main, &callers[i]);
    }
    for (uint32_t i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        kit_expect(pe, wrong == NULL, "caller %u got a wrong reply", i);
    }
    atomic_fetch_add(&pe->job->gate, 1);
    while (atomic_load(&pe->job->gate) < pe->n) /* computes: no call into the library */
        ;
}

static void test_callers(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(4, body_callers, true);
    job->serve = serve;
    kit_run(job);
    kit_free(job);
}

static void body_answers(struct kit_pe *pe)
{
    uint8_t big[FY_BOOT_MESSAGE_MAX + 1] = {0}, reply[FY_BOOT_MESSAGE_MAX];
    uint32_t who[2] = {99, 99}, to = (pe->rank + 1) % pe->n;
    size_t size = 0;
    int rc = fy_boot_call(pe->boot, to, WHO, NULL, 0, who, sizeof(who), &size, 30, &pe->error);
    kit_expect(pe, rc == FERRY_OK && size == 8 && who[0] == pe->rank && who[1] == to, "%u answered %u: %s", who[1],
               who[0], pe->error.message);
    rc = fy_boot_call(pe->boot, to, REFUSE, NULL, 0, NULL, 0, &size, 30, &pe->error);
    kit_expect(pe, rc == FERRY_ERR_ACCESS && pe->error.peer == (int32_t)to && size == 0, "refused: %d", rc);
    kit_expect(pe, strstr(pe->error.message, "FERRY_ERR_ACCESS") != NULL, "%s", pe->error.message);
    rc = fy_boot_call(pe->boot, to, FULL, NULL, 0, reply, sizeof(reply), &size, 30, &pe->error);
    kit_expect(pe, rc == FERRY_OK && size == sizeof(reply) && reply[4095] == 0x77, "full: %d", rc);
    rc = fy_boot_call(pe->boot, to, FULL, NULL, 0, reply, 100, &size, 30, &pe->error);
    kit_expect(pe, rc == FERRY_ERR_LIMIT, "too small a room: %d", rc);
    rc = fy_boot_call(pe->boot, to, LIE, NULL, 0, reply, sizeof(reply), &size, 30, &pe->error);
    kit_expect(pe, rc == FERRY_OK && size == 0, "lie: %d, %zu bytes", rc, size);
    rc = fy_boot_call(pe->boot, to, ECHO, big, sizeof(big), reply, sizeof(reply), &size, 30, &pe->error);
    kit_expect(pe, rc == FERRY_ERR_ARG, "too large: %d", rc);
    rc = fy_boot_call(pe->boot, pe->n, ECHO, big, 1, reply, sizeof(reply), &size, 30, &pe->error);
    kit_expect(pe, rc == FERRY_ERR_ARG, "no such PE: %d", rc);
}

static void test_answers(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 5};
    for (int i = 0; i < 3; i++) {
        struct kit_job *job = kit_new(sizes[i], body_answers, true);
        job->serve = serve;
        kit_run(job);
        kit_free(job);
    }
}

static void test_no_server(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(1, NULL, true);
    struct fy_boot_config config = kit_config(&job->pes[0]);
    struct fy_boot *boot;
    struct ferry_error error;
    size_t size;
    assert_int_equal(fy_boot_start(&config, &boot, &error), FERRY_OK);
    assert_int_equal(fy_boot_call(boot, 0, ECHO, NULL, 0, NULL, 0, &size, 5, &error), FERRY_ERR_UNSUPPORTED);
    fy_boot_close(boot);
    kit_free(job);
}

/* --- watching */

struct seen {
    atomic_uint count;
    int fd;
    struct fy_boot *boot;
    bool stop; /* unwatch from within */
};

static void on_readable(void *arg)
{
    struct seen *seen = arg;
    uint64_t value;
    if (read(seen->fd, &value, sizeof(value)) == sizeof(value))
        atomic_fetch_add(&seen->count, 1);
    if (seen->stop)
        fy_boot_unwatch(seen->boot, seen->fd);
}

static void ring(int fd)
{
    uint64_t one = 1;
    assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
}

static struct fy_boot *alone(struct kit_job *job)
{
    struct fy_boot_config config = kit_config(&job->pes[0]);
    struct fy_boot *boot;
    struct ferry_error error;
    unsigned threads = kit_count("/proc/self/task"), fds = kit_count("/proc/self/fd");
    assert_int_equal(fy_boot_start(&config, &boot, &error), FERRY_OK);
    assert_int_equal(kit_count("/proc/self/task"), threads); /* a job of one needs nothing */
    assert_int_equal(kit_count("/proc/self/fd"), fds);
    return boot;
}

static void test_watch(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(1, NULL, true);
    struct fy_boot *boot = alone(job);
    struct seen a = {.fd = eventfd(0, EFD_NONBLOCK)}, b = {.fd = eventfd(0, EFD_NONBLOCK), .boot = boot, .stop = true};
    assert_int_equal(fy_boot_watch(boot, a.fd, on_readable, &a), FERRY_OK);
    assert_int_equal(fy_boot_watch(boot, b.fd, on_readable, &b), FERRY_OK);
    assert_int_equal(fy_boot_watch(boot, a.fd, on_readable, &a), FERRY_ERR_SYSTEM); /* already */
    for (unsigned i = 1; i <= 100; i++) {
        ring(a.fd);
        assert_true(kit_wait_count(&a.count, i, 10));
    }
    ring(b.fd);
    assert_true(kit_wait_count(&b.count, 1, 10));
    fy_boot_unwatch(boot, b.fd); /* it has done so itself, or is about to */
    ring(b.fd);
    ring(a.fd);
    assert_true(kit_wait_count(&a.count, 101, 10)); /* a came later: b would have been seen */
    assert_int_equal(b.count, 1);
    fy_boot_close(boot);
    close(a.fd);
    close(b.fd);
    kit_free(job);
}

struct slow {
    atomic_uint entered, left;
};

static void on_slow(void *arg)
{
    struct slow *slow = arg;
    struct timespec nap = {.tv_nsec = 50000000};
    atomic_fetch_add(&slow->entered, 1);
    nanosleep(&nap, NULL); /* what a late return looks like */
    atomic_fetch_add(&slow->left, 1);
}

/* unwatch returns when fn has, and fn does not start again. */
static void test_unwatch_waits(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(1, NULL, true);
    struct fy_boot *boot = alone(job);
    struct slow slow = {0};
    int fd = eventfd(1, EFD_NONBLOCK);
    assert_int_equal(fy_boot_watch(boot, fd, on_slow, &slow), FERRY_OK);
    assert_true(kit_wait_count(&slow.entered, 1, 10));
    fy_boot_unwatch(boot, fd);
    unsigned entered = slow.entered;
    assert_int_equal(slow.left, entered);
    fy_boot_close(boot);
    assert_int_equal(slow.entered, entered);
    close(fd);
    kit_free(job);
}

static void on_poison(void *arg)
{
    volatile unsigned char *alive = arg; /* freed right after unwatch: the sanitizers would see a late call */
    *alive = (unsigned char)(*alive + 1);
}

static void test_watch_race(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(1, NULL, true);
    struct fy_boot *boot = alone(job);
    unsigned called = 0;
    for (int i = 0; i < 3000; i++) {
        int fd = eventfd(1, EFD_NONBLOCK); /* readable, and nobody reads: fn runs again and again */
        unsigned char *memory = calloc(1, 1);
        assert_int_equal(fy_boot_watch(boot, fd, on_poison, memory), FERRY_OK);
        for (int spin = 0; spin < (i % 64) * 50; spin++)
            fy_cpu_relax();
        fy_boot_unwatch(boot, fd);
        called += *memory != 0;
        *memory = 0xff; /* not by fn any more */
        assert_int_equal(*memory, 0xff);
        free(memory);
        close(fd);
    }
    assert_true(called > 0);
    fy_boot_close(boot);
    kit_free(job);
}

/* Watching goes on beside the traffic of a job. */
static void body_watch(struct kit_pe *pe)
{
    struct seen seen = {.fd = eventfd(0, EFD_NONBLOCK)};
    kit_expect(pe, fy_boot_watch(pe->boot, seen.fd, on_readable, &seen) == FERRY_OK, "watch");
    for (unsigned i = 1; i <= 50; i++) {
        uint64_t one = 1;
        kit_expect(pe, write(seen.fd, &one, sizeof(one)) == sizeof(one), "write");
        kit_expect(pe, fy_boot_barrier(pe->boot, "round", 30, &pe->error) == FERRY_OK, "%s", pe->error.message);
        kit_expect(pe, kit_wait_count(&seen.count, i, 20), "round %u was not seen", i);
    }
    fy_boot_unwatch(pe->boot, seen.fd);
    close(seen.fd);
}

static void test_watch_job(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(5, body_watch, true);
    kit_run(job);
    kit_free(job);
}

static void body_timing(struct kit_pe *pe)
{
    enum { ROUNDS = 1000 };
    if (pe->rank == 0) {
        double start = kit_now();
        size_t size;
        for (int i = 0; i < ROUNDS; i++)
            kit_expect(pe, fy_boot_call(pe->boot, 1, ECHO, "x", 1, &(char){0}, 1, &size, 30, &pe->error) == FERRY_OK,
                       "%s", pe->error.message);
        print_message("call to a peer: %.0f us\n", (kit_now() - start) / ROUNDS * 1e6);
    }
}

static void test_timing(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(2, body_timing, true);
    job->serve = serve;
    kit_run(job);
    kit_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_callers),   cmocka_unit_test(test_answers),    cmocka_unit_test(test_no_server),
        cmocka_unit_test(test_watch),     cmocka_unit_test(test_watch_race), cmocka_unit_test(test_unwatch_waits),
        cmocka_unit_test(test_watch_job), cmocka_unit_test(test_timing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
