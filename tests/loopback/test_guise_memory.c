/* SPDX-License-Identifier: Apache-2.0
 * Guises of loopback that are about memory: what has to be allocated, and what the CPU may not touch.
 * Main thread; a child that crashes. */
#include "guises.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH (1u << 20)

static void *reserve(void)
{
    void *at = mmap(NULL, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_ptr_not_equal(at, MAP_FAILED);
    return at;
}

/* b's memory is allocated by loopback: of that kind, at a place that was reserved. */
static void open_allocated(struct duo *d, const char *guise, uint32_t kind, struct ferry_memory *memory)
{
    struct pe_options options = {.guise = guise, .no_memory = 1};
    void *hint = reserve();

    pe_open(&d->a, 0, &options);
    pe_open(&d->b, 1, &options);
    *memory = (struct ferry_memory){.size = sizeof *memory, .kind = kind, .address = hint, .length = LENGTH, .fd = -1};
    assert_int_equal(ops()->allocate_memory(d->b.t, memory, &d->b.region), FERRY_OK);
    assert_ptr_equal(memory->address, hint);
    assert_int_equal(memory->length, LENGTH);
    assert_true(memory->fd >= 0);
    assert_int_equal(ops()->export_key(d->b.t, d->b.region, d->b.key.bytes, &d->b.key.size), FERRY_OK);
    d->key = pe_must_import(&d->a, 1, &d->b.key);
}

/* Given back unmapped: the place can be mapped again, without force. */
static void close_allocated(struct duo *d, const struct ferry_memory *memory)
{
    void *again;

    assert_int_equal(ops()->release_key(d->a.t, d->key), FERRY_OK);
    assert_int_equal(ops()->free_memory(d->b.t, d->b.region), FERRY_OK);
    d->b.region = NULL;
    again = mmap(memory->address, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(again, memory->address);
    munmap(again, LENGTH);
    pe_close(&d->a);
    pe_close(&d->b);
}

static void test_must_allocate(void **state)
{
    static char local[64];
    struct ferry_memory memory, other = {.size = sizeof other, .address = local, .length = sizeof local, .fd = -1};
    unsigned fds = count_fds();
    struct ferry_region *region;
    struct ferry_op op;
    struct duo d;

    (void)state;
    open_allocated(&d, "must-alloc", FERRY_MEMORY_HOST, &memory);
    op = put_op(&d, "allocated", 100, 10, 0);
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    assert_string_equal((char *)memory.address + 100, "allocated");
    assert_int_equal(ops()->register_memory(d.a.t, &other, &region), FERRY_OK); /* for local use */
    assert_int_equal(ops()->deregister_memory(d.a.t, region), FERRY_OK);
    other.remote = 1;
    assert_int_equal(ops()->register_memory(d.a.t, &other, &region), FERRY_ERR_UNSUPPORTED);
    assert_non_null(strstr(pe_error(&d.a, FERRY_PEER_ALL).message, "under the guise must-alloc"));
    memory.kind = FERRY_MEMORY_GPU;
    assert_int_equal(ops()->allocate_memory(d.a.t, &memory, &region), FERRY_ERR_UNSUPPORTED);
    close_allocated(&d, &memory);
    assert_int_equal(count_fds(), fds);
}

static void test_nobody_else_allocates(void **state)
{
    struct ferry_memory memory = {.size = sizeof memory, .length = LENGTH, .fd = -1};
    struct ferry_region *region;
    struct duo d;

    (void)state;
    duo_open(&d, NULL);
    assert_int_equal(ops()->allocate_memory(d.a.t, &memory, &region), FERRY_ERR_UNSUPPORTED);
    assert_non_null(strstr(pe_error(&d.a, FERRY_PEER_ALL).message, "does not allocate memory of kind 0"));
    duo_close(&d);
    duo_open(&d, "gpu-like");
    assert_int_equal(ops()->allocate_memory(d.a.t, &memory, &region), FERRY_ERR_UNSUPPORTED);
    memory.kind = FERRY_MEMORY_GPU;
    memory.length = 0;
    assert_int_equal(ops()->allocate_memory(d.a.t, &memory, &region), FERRY_ERR_ARG);
    duo_close(&d);
}

/* ---- like a GPU's */

static void test_what_is_declared_for_gpus(void **state)
{
    struct ferry_caps host, gpu = {.size = sizeof gpu};
    struct duo d;

    (void)state;
    duo_open(&d, "gpu-like,no-get,unordered,max-msg=4096,depth=5");
    host = duo_caps(&d);
    assert_int_equal(ops()->query(d.a.t, FERRY_MEMORY_GPU, &gpu), FERRY_OK);
    assert_int_equal(gpu.domain, FERRY_DOMAIN_NONE);
    assert_int_equal(gpu.amo32 | gpu.amo64, 0);
    assert_int_equal(gpu.copy_max | gpu.inline_max, 0);
    assert_int_equal(gpu.message_max, host.message_max);
    assert_int_equal(gpu.queue_depth, 5);
    assert_int_equal(gpu.order, host.order);
    assert_int_equal(gpu.flags, FERRY_CAP_FENCED | FERRY_CAP_QUIET_PEER | FERRY_CAP_MUST_ALLOCATE);
    duo_close(&d);
    duo_open(&d, "no-get");
    assert_int_equal(ops()->query(d.a.t, FERRY_MEMORY_GPU, &gpu), FERRY_ERR_UNSUPPORTED);
    duo_close(&d);
}

/* A child, since it dies of it. */
static int cpu_dies_of(const volatile char *at)
{
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        _exit(*at == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void test_the_cpu_may_not_touch_it(void **state)
{
    char there[64] = "";
    struct ferry_memory memory;
    struct ferry_op op;
    struct duo d;
    void *map;

    (void)state;
    open_allocated(&d, "gpu-like", FERRY_MEMORY_GPU, &memory);
    assert_true(cpu_dies_of(memory.address));
    assert_false(cpu_dies_of(there));
    assert_int_equal(ops()->map_key(d.a.t, d.key, &map), FERRY_ERR_UNSUPPORTED);
    op = put_op(&d, "over there", 4096, 11, 0);
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    op = get_op(&d, there, 4096, 11);
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    assert_string_equal(there, "over there");
    op = add_op(&d, 0, 1, NULL);
    refused(&d, &op, FERRY_ERR_UNSUPPORTED, "not declared");
    op = signal_op(&d, there, 8, 64, 1);
    refused(&d, &op, FERRY_ERR_UNSUPPORTED, "FERRY_CAP_PUT_SIGNAL");
    close_allocated(&d, &memory);
}

/* Source and destination in such memory: by the region, whole or in part. */
static void test_local_memory_of_gpus(void **state)
{
    char there[64] = "";
    struct ferry_memory memory, mine, part;
    struct ferry_region *own, *piece;
    struct ferry_op op;
    struct duo d;

    (void)state;
    open_allocated(&d, "gpu-like", FERRY_MEMORY_GPU, &memory);
    mine = (struct ferry_memory){.size = sizeof mine, .kind = FERRY_MEMORY_GPU, .length = LENGTH, .fd = -1};
    assert_int_equal(ops()->allocate_memory(d.a.t, &mine, &own), FERRY_OK);
    part = mine;
    part.remote = 0;
    part.address = (char *)mine.address + 8192;
    part.length = 4096;
    assert_int_equal(ops()->register_memory(d.a.t, &part, &piece), FERRY_OK);
    op = put_op(&d, "round trip", 64, 11, 0);
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    op = get_op(&d, (char *)part.address + 16, 64, 11);
    op.region = piece;
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    op = put_op(&d, (char *)part.address + 16, 128, 11, 0);
    op.region = own;
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    op = get_op(&d, there, 128, 11);
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    assert_string_equal(there, "round trip");
    assert_int_equal(ops()->deregister_memory(d.a.t, piece), FERRY_OK);
    assert_int_equal(ops()->free_memory(d.a.t, own), FERRY_OK);
    part.address = there;
    part.length = 8;
    assert_int_equal(ops()->register_memory(d.a.t, &part, &piece), FERRY_ERR_ARG);
    assert_non_null(strstr(pe_error(&d.a, FERRY_PEER_ALL).message, "is not loopback's"));
    close_allocated(&d, &memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_must_allocate),
        cmocka_unit_test(test_nobody_else_allocates),
        cmocka_unit_test(test_what_is_declared_for_gpus),
        cmocka_unit_test(test_the_cpu_may_not_touch_it),
        cmocka_unit_test(test_local_memory_of_gpus),
    };
    return cmocka_run_group_tests_name("loopback guises of memory", tests, NULL, NULL);
}
