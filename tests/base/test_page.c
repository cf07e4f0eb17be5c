/* SPDX-License-Identifier: Apache-2.0
 * The page of counters: what a reader sees of it, that nobody can cut it off, and the places for waits. One thread. */
#include "base/page.h"
#include "base/stats.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct thing {
    char name[100];
    struct ferry_counters counters __attribute__((aligned(64)));
};
#define AT offsetof(struct thing, counters)

static uint64_t puts_in_file(const struct fy_page *page, uint32_t id)
{
    struct ferry_page_channel channel;
    assert_int_equal(pread(page->fd, &channel, sizeof channel, (off_t)(page->head->channels_at + id * page->head->channel_stride)),
                     sizeof channel);
    return channel.counters.puts;
}

static void test_shared(void **state)
{
    (void)state;
    struct fy_page page;
    struct stat file;
    assert_true(fy_page_create(&page, 5, true));
    assert_true(page.fd >= 0);
    assert_int_equal(fstat(page.fd, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0600);
    assert_int_equal(ftruncate(page.fd, 0), -1); /* sealed: or the next count would end the program */
    assert_int_equal(errno, EPERM);
    struct thing *one = fy_page_object(&page, AT), *two = fy_page_object(&page, AT);
    assert_non_null(one);
    assert_non_null(two);
    strcpy(one->name, "private");
    fy_page_share(&page, one, AT, 0);
    fy_page_share(&page, two, AT, 4);
    assert_string_equal(one->name, "private");
    assert_int_equal((uintptr_t)&one->counters % 64, 0);
    fy_count(&one->counters.puts, 3);
    fy_count(&two->counters.puts, 4);
    assert_int_equal(puts_in_file(&page, 0), 3);
    assert_int_equal(puts_in_file(&page, 4), 4);
    assert_int_equal(fy_page_channel(&page, 4)->counters.puts, 4);
    assert_int_equal(fy_page_channel(&page, 4)->kind, FERRY_PAGE_CONTEXT);
    fy_page_release(&page, two, AT);
    two = fy_page_object(&page, AT);
    fy_page_share(&page, two, AT, 4); /* the number's next channel starts from 0 */
    assert_int_equal(puts_in_file(&page, 4), 0);
    fy_page_release(&page, one, AT);
    fy_page_release(&page, two, AT);
    fy_page_destroy(&page);
}

static void test_unshared(void **state)
{
    (void)state;
    struct fy_page page;
    assert_true(fy_page_create(&page, 5, false));
    assert_int_equal(page.fd, -1);
    struct thing *thing = fy_page_object(&page, AT);
    fy_page_share(&page, thing, AT, 4);
    fy_count(&thing->counters.puts, 1);
    assert_int_equal(thing->counters.puts, 1);
    assert_null(fy_page_channel(&page, 4));
    fy_page_report(&page, "text", 4, "{}", 2);
    fy_page_wait_over(&page, fy_page_wait(&page, 1, 2, "something"));
    fy_page_release(&page, thing, AT);
    fy_page_destroy(&page);
}

static void test_waits(void **state)
{
    (void)state;
    struct fy_page page;
    struct ferry_page_wait wait;
    uint32_t slots[FERRY_PAGE_WAITS];
    assert_true(fy_page_create(&page, 1, true));
    for (uint32_t i = 0; i < FERRY_PAGE_WAITS; i++) {
        slots[i] = fy_page_wait(&page, (int)i, -1, "a text that is longer than there is room for it");
        assert_int_equal(slots[i], i + 1);
    }
    assert_int_equal(fy_page_wait(&page, 0, 0, "one too many"), 0);
    fy_page_wait_over(&page, 0);
    assert_true(fy_page_wait_read(&page, 3, &wait));
    assert_int_equal(wait.peer, 3);
    assert_int_equal(wait.channel, -1);
    assert_int_equal(wait.thread, gettid());
    assert_memory_equal(wait.doing, "a text that is longer than there is room", 40);
    fy_page_wait_over(&page, slots[3]);
    assert_false(fy_page_wait_read(&page, 3, &wait));
    assert_int_equal(fy_page_wait(&page, 9, 1, "next"), 4);
    fy_page_destroy(&page);
}

static void test_report(void **state)
{
    (void)state;
    struct fy_page page;
    char text[16] = "";
    assert_true(fy_page_create(&page, 1, true));
    fy_page_report(&page, "text", 4, "{json}", 6);
    assert_int_equal(page.head->text_size, 4);
    assert_int_equal(page.head->json_size, 6);
    assert_int_equal(pread(page.fd, text, 10, (off_t)page.head->report_at), 10);
    assert_string_equal(text, "text{json}");
    fy_page_report(&page, "", FY_PAGE_REPORT_ROOM + 1, "", 0); /* what does not fit is not told */
    assert_int_equal(page.head->text_size, 0);
    fy_page_destroy(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_unshared),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
