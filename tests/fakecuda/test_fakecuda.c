/* SPDX-License-Identifier: Apache-2.0
 * The stand-in libcuda does what tests rely on: device memory faults under the CPU, copies are late, failures come as
 * told. Main thread. */
#include "driver.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define BYTES (2u << 20)

static const struct {
    int type, id, flags;
} device_0 = {1, 0, 3};
static const char prop[32];

static uint64_t reserve(uint64_t hint)
{
    uint64_t address;

    assert_int_equal(cuMemAddressReserve(&address, BYTES, 0, hint, 0), 0);
    return address;
}

static void map(uint64_t address, uint64_t handle)
{
    assert_int_equal(cuMemMap(address, BYTES, 0, handle, 0), 0);
    assert_int_equal(cuMemSetAccess(address, BYTES, &device_0, 1), 0);
}

static void unmap(uint64_t address)
{
    assert_int_equal(cuMemUnmap(address, BYTES), 0);
    assert_int_equal(cuMemAddressFree(address, BYTES), 0);
}

static int begin(void **state)
{
    void *context;

    (void)state;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0))
        return -1;
    return cuCtxSetCurrent(context);
}

static int end(void **state)
{
    int reserved, mapped;
    uint64_t bytes;

    (void)state;
    fakecuda_left(&reserved, &mapped, &bytes);
    if (reserved || mapped || bytes)
        return -1;
    return cuDevicePrimaryCtxRelease_v2(0);
}

static void the_cpu_faults(void **state)
{
    uint64_t handle, address = reserve(0);
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(cuMemCreate(&handle, BYTES, prop, 0), 0);
    map(address, handle);
    assert_int_equal(cuMemRelease(handle), 0);
    pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)(uintptr_t)address = 1; // NOLINT
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    unmap(address);
}

/* By two handles, one of which came by a descriptor. */
static void copies_are_late(void **state)
{
    uint64_t handle, other, first = reserve(0), second = reserve(0);
    char there[] = "there", back[sizeof(there)] = "";
    void *stream, *event;
    int fd;

    (void)state;
    assert_int_equal(cuMemCreate(&handle, BYTES, prop, 0), 0);
    assert_int_equal(cuMemExportToShareableHandle(&fd, handle, 1, 0), 0);
    assert_int_equal(cuMemImportFromShareableHandle(&other, (void *)(intptr_t)fd, 1), 0); // NOLINT
    close(fd);
    map(first, handle);
    map(second, other);
    assert_int_equal(cuStreamCreate(&stream, 0), 0);
    assert_int_equal(cuEventCreate(&event, 0), 0);
    setenv("FAKECUDA_EVENT_POLLS", "2", 1);
    assert_int_equal(cuMemcpyAsync(first + 100, (uintptr_t)there, sizeof(there), stream), 0);
    assert_int_equal(cuEventRecord(event, stream), 0);
    assert_int_equal(cuEventQuery(event), 600);
    assert_int_equal(cuMemcpy((uintptr_t)back, second + 100, sizeof(back)), 0);
    assert_string_equal(back, "");
    assert_int_equal(cuEventQuery(event), 600);
    assert_int_equal(cuEventQuery(event), 0);
    unsetenv("FAKECUDA_EVENT_POLLS");
    assert_int_equal(cuMemcpy((uintptr_t)back, second + 100, sizeof(back)), 0);
    assert_string_equal(back, there);
    assert_int_equal(cuEventDestroy_v2(event), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuMemRelease(handle), 0);
    assert_int_equal(cuMemRelease(other), 0);
    unmap(first);
    unmap(second);
}

static void memory_without_access_is_refused(void **state)
{
    uint64_t handle, address = reserve(0);
    char byte = 1;

    (void)state;
    assert_int_equal(cuMemcpy(address, (uintptr_t)&byte, 1), 1);
    assert_int_equal(cuMemCreate(&handle, BYTES, prop, 0), 0);
    assert_int_equal(cuMemMap(address, BYTES, 0, handle, 0), 0);
    assert_int_equal(cuMemcpy(address, (uintptr_t)&byte, 1), 1);
    assert_int_equal(cuMemRelease(handle), 0);
    unmap(address);
}

static void a_hint_is_taken_where_it_is_free(void **state)
{
    uint64_t first = reserve(0), second;

    (void)state;
    second = reserve(first);
    assert_int_not_equal(second, first);
    assert_int_equal(cuMemAddressFree(first, BYTES), 0);
    assert_int_equal(reserve(first), first);
    assert_int_equal(cuMemAddressFree(first, BYTES), 0);
    assert_int_equal(cuMemAddressFree(second, BYTES), 0);
}

static void failures_come_as_told(void **state)
{
    uint64_t handle, address;

    (void)state;
    setenv("FAKECUDA_MEMORY", "2097152", 1);
    assert_int_equal(cuMemCreate(&handle, 2 * BYTES, prop, 0), 2);
    unsetenv("FAKECUDA_MEMORY");
    setenv("FAKECUDA_FAIL", "cuMemAddressReserve:801", 1);
    assert_int_equal(cuMemAddressReserve(&address, BYTES, 0, 0, 0), 801);
    unsetenv("FAKECUDA_FAIL");
    setenv("FAKECUDA_DEVICES", "0", 1);
    assert_int_equal(cuInit(0), 100);
    unsetenv("FAKECUDA_DEVICES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cpu_faults),
        cmocka_unit_test(copies_are_late),
        cmocka_unit_test(memory_without_access_is_refused),
        cmocka_unit_test(a_hint_is_taken_where_it_is_free),
        cmocka_unit_test(failures_come_as_told),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
