/* SPDX-License-Identifier: Apache-2.0
 * The stub core, PEs and operations of the loopback tests. See harness.h.
 * Main thread of a test; control() is the stub's control thread. */
#include "harness.h"

#include <dirent.h>
#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

const uint8_t test_secret[FERRY_SECRET_BYTES] = "an uncommonly well kept secret.";

const struct ferry_plugin *plugin(void)
{
    const char *path = getenv("FERRY_TEST_LOOPBACK");
    void *library = dlopen(path ? path : "plugins/loopback.so", RTLD_NOW | RTLD_LOCAL);
    const struct ferry_plugin *p = library ? dlsym(library, FERRY_PLUGIN_SYMBOL) : NULL;

    if (!p) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return p;
}

const struct ferry_host_ops *ops(void)
{
    return plugin()->ops;
}

double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- stub core */

static void stub_log(const struct ferry_core *core, int level, const char *format, ...)
{
    struct stub *stub = (struct stub *)(uintptr_t)core;
    va_list args;

    if (strstr(format, "dropped"))
        __atomic_fetch_add(&stub->dropped, 1, __ATOMIC_RELAXED);
    if (!getenv("FERRY_TEST_VERBOSE"))
        return;
    va_start(args, format);
    fprintf(stderr, "[%d] ", level);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

static int stub_option(const struct ferry_core *core, const char *name, struct ferry_value *value)
{
    const struct stub *stub = (const struct stub *)(const void *)core;

    if (!strcmp(name, "guise"))
        value->string = stub->guise ? stub->guise : "";
    else if (!strcmp(name, "nt_threshold"))
        value->number = stub->nt_threshold;
    else
        return FERRY_ERR_NOT_FOUND;
    return FERRY_OK;
}

static void *control(void *arg)
{
    struct stub *stub = arg;
    struct pollfd fds[2] = {{.fd = stub->wake, .events = POLLIN}, {.fd = stub->fd, .events = POLLIN}};

    while (poll(fds, 2, -1) >= 0 && !fds[0].revents)
        if (fds[1].revents) {
            __atomic_fetch_add(&stub->served, 1, __ATOMIC_RELAXED);
            stub->fn(stub->arg);
        }
    return NULL;
}

static int stub_watch(const struct ferry_core *core, int fd, void (*fn)(void *arg), void *arg)
{
    struct stub *stub = (struct stub *)(uintptr_t)core;

    assert_false(stub->watched);
    stub->watched = 1;
    if (stub->mute)
        return FERRY_OK;
    stub->fd = fd;
    stub->fn = fn;
    stub->arg = arg;
    stub->wake = eventfd(0, EFD_CLOEXEC);
    assert_true(stub->wake >= 0);
    assert_int_equal(pthread_create(&stub->thread, NULL, control, stub), 0);
    return FERRY_OK;
}

static void stub_unwatch(const struct ferry_core *core, int fd)
{
    struct stub *stub = (struct stub *)(uintptr_t)core;
    uint64_t one = 1;

    assert_true(stub->watched);
    stub->watched = 0;
    if (stub->mute)
        return;
    assert_int_equal(fd, stub->fd);
    assert_int_equal(write(stub->wake, &one, sizeof one), sizeof one);
    pthread_join(stub->thread, NULL);
    close(stub->wake);
}

static void stub_error(const struct ferry_core *core, const struct ferry_error *record)
{
    struct stub *stub = (struct stub *)(uintptr_t)core;

    stub->errors++;
    stub->last = *record;
}

static void stub_deliver(const struct ferry_core *core, uint32_t from, uint64_t data)
{
    struct stub *stub = (struct stub *)(uintptr_t)core;

    assert_non_null(stub->delivered);
    stub->delivered(stub->delivered_arg, from, (uint32_t)data);
}

void stub_init(struct stub *stub, int64_t nt_threshold)
{
    memset(stub, 0, sizeof *stub);
    stub->core.abi = FERRY_TRANSPORT_ABI;
    stub->core.size = sizeof stub->core;
    stub->core.log = stub_log;
    stub->core.option = stub_option;
    stub->core.watch_fd = stub_watch;
    stub->core.unwatch_fd = stub_unwatch;
    stub->core.error = stub_error;
    stub->core.deliver = stub_deliver;
    stub->nt_threshold = nt_threshold;
}

/* ---- PEs */

static void pe_memory(struct pe *pe, size_t length)
{
    struct ferry_memory memory = {.size = sizeof memory, .kind = FERRY_MEMORY_HOST, .remote = 1};

    pe->length = length;
    pe->fd = memfd_create("ferry-test", MFD_CLOEXEC);
    assert_true(pe->fd >= 0);
    assert_int_equal(ftruncate(pe->fd, (off_t)length), 0);
    pe->memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, pe->fd, 0);
    assert_ptr_not_equal(pe->memory, MAP_FAILED);
    memory.address = pe->memory;
    memory.length = length;
    memory.fd = pe->fd;
    assert_int_equal(ops()->register_memory(pe->t, &memory, &pe->region), FERRY_OK);
    assert_int_equal(ops()->export_key(pe->t, pe->region, pe->key.bytes, &pe->key.size), FERRY_OK);
    assert_in_range(pe->key.size, 1, FERRY_KEY_MAX);
}

void pe_open(struct pe *pe, uint32_t me, const struct pe_options *options)
{
    struct ferry_open how = {.size = sizeof how, .my_pe = me, .n_pes = 8, .max_channels = 64, .job_id = 7};
    int64_t nt = options->nt_threshold ? options->nt_threshold : 8 << 20;

    memset(pe, 0, sizeof *pe);
    stub_init(&pe->stub, nt < 0 ? 0 : nt);
    pe->stub.mute = options->mute;
    pe->stub.guise = options->guise;
    pe->fd = -1;
    pe->me = me;
    if (options->n_pes)
        how.n_pes = options->n_pes;
    memcpy(how.secret, test_secret, sizeof how.secret);
    assert_int_equal(plugin()->open(&pe->stub.core, &how, &pe->t), FERRY_OK);
    assert_int_equal(ops()->export_endpoint(pe->t, pe->endpoint.bytes, &pe->endpoint.size), FERRY_OK);
    assert_in_range(pe->endpoint.size, 1, FERRY_ENDPOINT_MAX);
    if (!options->no_memory)
        pe_memory(pe, options->length ? options->length : 1 << 20);
}

void pe_close(struct pe *pe)
{
    if (pe->region)
        assert_int_equal(ops()->deregister_memory(pe->t, pe->region), FERRY_OK);
    assert_int_equal(ops()->close(pe->t), FERRY_OK);
    assert_false(pe->stub.watched);
    if (pe->fd < 0)
        return;
    munmap(pe->memory, pe->length);
    close(pe->fd);
}

int pe_import(struct pe *pe, uint32_t peer, const struct blob *key, struct ferry_rkey **rkey)
{
    double end = seconds() + PATIENCE;
    int status;

    while ((status = ops()->import_key(pe->t, peer, key->bytes, key->size, rkey)) == FERRY_AGAIN) {
        if (seconds() > end)
            fail_msg("import of a key of PE %u never ends", peer);
        usleep(100);
    }
    return status;
}

struct ferry_error pe_error(struct pe *pe, uint32_t peer)
{
    struct ferry_error e = {.size = sizeof e};

    assert_int_equal(ops()->query_error(pe->t, 0, peer, &e), FERRY_OK);
    return e;
}

struct ferry_rkey *pe_must_import(struct pe *pe, uint32_t peer, const struct blob *key)
{
    struct ferry_rkey *rkey = NULL;
    int status = pe_import(pe, peer, key, &rkey);

    if (status)
        fail_msg("import of a key of PE %u: status %d, %s", peer, status, pe_error(pe, peer).message);
    return rkey;
}

struct blob foreign(const struct blob *key)
{
    struct fy_lb_key k;
    struct blob out = {.size = key->size};

    assert_int_equal(key->size, sizeof k);
    memcpy(&k, key->bytes, sizeof k);
    k.process.pid++;
    fy_lb_seal(test_secret, FY_LB_KEY, k.head.pe, &k, sizeof k);
    memcpy(out.bytes, &k, sizeof k);
    return out;
}

/* ---- operations */

void put(struct pe *pe, const struct ferry_rkey *key, uint64_t offset, const void *from, size_t n, uint32_t flags)
{
    struct ferry_op op = {.kind = FERRY_OP_PUT,
                          .flags = flags,
                          .local = (void *)(uintptr_t)from,
                          .key = key,
                          .offset = offset,
                          .length = n};

    assert_int_equal(ops()->rma(pe->t, 0, &op), FERRY_DONE);
}

void get(struct pe *pe, const struct ferry_rkey *key, uint64_t offset, void *to, size_t n)
{
    struct ferry_op op = {.kind = FERRY_OP_GET, .local = to, .key = key, .offset = offset, .length = n};

    assert_int_equal(ops()->rma(pe->t, 0, &op), FERRY_DONE);
}

struct ferry_op amo_op(const struct ferry_rkey *key, uint64_t offset, int kind, int width, uint64_t operand)
{
    struct ferry_op op = {.kind = FERRY_OP_AMO,
                          .amo = (uint8_t)kind,
                          .width = (uint8_t)width,
                          .key = key,
                          .offset = offset,
                          .length = (size_t)width,
                          .operand = operand};
    return op;
}

uint64_t fetch_add(struct pe *pe, uint32_t channel, const struct ferry_rkey *key, uint64_t offset, uint64_t operand)
{
    struct ferry_op op = amo_op(key, offset, FERRY_AMO_ADD, 8, operand);
    uint64_t old = ~0ull;

    op.flags = FERRY_OP_FETCH;
    op.local = &old;
    assert_int_equal(ops()->amo(pe->t, channel, &op), FERRY_DONE);
    return old;
}

void put_signal(struct pe *pe, const struct ferry_rkey *key, uint64_t offset, const void *from, size_t n,
                uint64_t signal_offset, int kind, uint64_t value)
{
    struct ferry_op op = {.kind = FERRY_OP_PUT_SIGNAL,
                          .amo = (uint8_t)kind,
                          .width = 8,
                          .local = (void *)(uintptr_t)from,
                          .key = key,
                          .offset = offset,
                          .length = n,
                          .operand = value,
                          .signal_key = key,
                          .signal_offset = signal_offset};

    assert_int_equal(ops()->put_signal(pe->t, 0, &op), FERRY_DONE);
}

void quiet(struct pe *pe, uint32_t peer)
{
    uint64_t ticket = 0;

    assert_int_equal(ops()->quiet(pe->t, 0, peer, &ticket), FERRY_OK);
}

int await(const uint64_t *p, uint64_t value)
{
    double end = seconds() + PATIENCE;

    for (unsigned i = 1; __atomic_load_n(p, __ATOMIC_ACQUIRE) < value; i++) {
        if (i % 200 == 0)
            sched_yield(); /* there may be fewer cores than waiting threads */
        if (i % 20000 == 0 && seconds() > end)
            return 0;
    }
    return 1;
}

/* ---- helpers */

uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

void fill(void *to, size_t n, uint64_t seed)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;

    for (size_t i = 0; i < n; i++)
        ((uint8_t *)to)[i] = (uint8_t)(next_random(&state) >> 32);
}

static unsigned count_entries(const char *path)
{
    DIR *dir = opendir(path);
    unsigned n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

unsigned count_fds(void)
{
    return count_entries("/proc/self/fd");
}

unsigned count_threads(void)
{
    return count_entries("/proc/self/task");
}

unsigned count_maps(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[1024];
    unsigned n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, "ferry-test") != NULL;
    fclose(f);
    return n;
}
