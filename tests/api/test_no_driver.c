/* SPDX-License-Identifier: Apache-2.0
 * Without the GPU driver's library, or with one that is too old: an allocation of GPU memory says so, and the rest
 * works. usage: test_no_driver MESSAGE. Skipped where the machine has a driver. */
#include "pes.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const char *expected;

static void body(struct pe *pe)
{
    struct ferry_error error = {.size = sizeof(error)};
    ferry_alloc_attr_t attr = {.size = sizeof(attr), .bytes = 64, .kind = FERRY_MEMORY_GPU};
    char *host = ferry_malloc(pe->job, 64);
    EXPECT(pe, ferry_alloc(pe->job, &attr) == NULL);
    ferry_last_error(pe->job, &error);
    if (!EXPECT(pe, error.status == FERRY_ERR_UNSUPPORTED && strstr(error.message, expected)))
        fprintf(stderr, "it says: %s\n", error.message);
    EXPECT(pe, strstr(error.hint, "host memory works without it") != NULL);
    EXPECT(pe, host && ferry_device_ptr(pe->job, host, pe->rank) == NULL);
    EXPECT_OK(pe, ferry_put(pe->ctx, host, "x", 1, pe->n - 1 - pe->rank));
}

static void test(void **state)
{
    static const char *const options[] = {"FERRY_GPU_MEMORY=yes", NULL};
    (void)state;
    pes_check_options(2, body, NULL, options);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test)};
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (argc < 2 || (library && dlsym(library, "cuMemCreate")))
        return 77;
    expected = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
