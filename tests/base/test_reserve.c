/* SPDX-License-Identifier: Apache-2.0
 * Memory that goes back to the system when it is put back. Main thread. */
#include "base/reserve.h"

#include "cmocka_headers.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE ((size_t)1 << 20)

static int mapped(const void *at)
{
    unsigned char in;

    return mincore((void *)((uintptr_t)at & ~(uintptr_t)4095), 1, &in) == 0;
}

static void test_pages(void **state)
{
    char *pages = fy_pages_get(LARGE);

    (void)state;
    assert_non_null(pages);
    assert_int_equal(pages[LARGE - 1], 0);
    pages[LARGE - 1] = 1;
    fy_pages_put(pages, LARGE);
    assert_false(mapped(pages));
    fy_pages_put(NULL, LARGE);
}

/* All sizes around a page, aligned, each to its last byte. */
static void test_bytes(void **state)
{
    (void)state;
    for (size_t size = 0; size < 9000; size += size < 4000 || size > 4200 ? 100 : 1) {
        char *bytes = fy_bytes_get(size);
        assert_non_null(bytes);
        assert_int_equal((uintptr_t)bytes % 16, 0);
        memset(bytes, 0x5a, size);
        fy_bytes_put(bytes);
    }
    fy_bytes_put(NULL);
    assert_null(fy_bytes_get(SIZE_MAX));
    assert_null(fy_bytes_get(SIZE_MAX - 15));
#ifndef __SANITIZE_ADDRESS__ /* its malloc ends the program */
    assert_null(fy_bytes_get(SIZE_MAX / 2));
#endif
}

/* What malloc would keep for itself. */
static void test_bytes_go_back(void **state)
{
    char *bytes = fy_bytes_get(64000); /* less than what malloc takes from the system one by one */

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 1, 64000);
    fy_bytes_put(bytes);
#ifndef __SANITIZE_ADDRESS__ /* all is malloc's there */
    assert_false(mapped(bytes + 32000));
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_bytes_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
