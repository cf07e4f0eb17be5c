/* SPDX-License-Identifier: Apache-2.0
 * Opening, hooks, capabilities, services, and that opening and closing again and again leaves nothing behind.
 * One thread. */
#include "fixture.h"
#include <dirent.h>
#include <ferry/ferry.h>
#include <malloc.h>

static const struct ferry_open how = {.size = sizeof(how), .my_pe = 2, .n_pes = 4, .max_channels = 8};

static int choose_and_open(struct fixture *f, const char *spec, const char *hooks,
                           const struct fy_route_services *services)
{
    int status;

    fixture_route(f, services);
    f->lines[0] = '\0';
    status = fy_route_select(f->route, spec, &f->error);
    assert_int_equal(status, FERRY_OK);
    return fy_route_open(f->route, &how, hooks, &f->error);
}

static void expect_endpoint(struct fixture *f, size_t i, const char *expected)
{
    const struct fy_transport *t = f->route->chosen[i];
    char blob[FERRY_ENDPOINT_MAX];
    size_t size = sizeof(blob);

    assert_non_null(t->handle);
    assert_int_equal(t->ops.export_endpoint(t->handle, blob, &size), FERRY_OK);
    assert_string_equal(blob, expected);
}

struct heard {
    int fd;
    int watches, unwatches, errors, deliveries;
    struct ferry_error record;
    uint32_t from;
    uint64_t data;
};

static int hear_watch(void *arg, int fd, void (*fn)(void *arg), void *fn_arg)
{
    struct heard *heard = arg;

    assert_non_null(fn);
    assert_non_null(fn_arg);
    heard->fd = fd;
    heard->watches++;
    return FERRY_OK;
}

static void hear_unwatch(void *arg, int fd)
{
    struct heard *heard = arg;

    assert_int_equal(fd, heard->fd);
    heard->unwatches++;
}

static void hear_error(void *arg, const struct ferry_error *record)
{
    struct heard *heard = arg;

    heard->record = *record;
    heard->errors++;
}

static void hear_delivery(void *arg, uint32_t from, uint64_t data)
{
    struct heard *heard = arg;

    heard->from = from;
    heard->data = data;
    heard->deliveries++;
}

static void test_services(void **state)
{
    struct fixture *f = *state;
    struct heard heard = {0};
    const struct fy_route_services services = {&heard, hear_watch, hear_unwatch, hear_error, hear_delivery, NULL};
    struct fy_transport *t;

    fixture_put(f, "good", NULL);
    fixture_variable(f, "FERRY_GOOD_SPEED=64K");
    fixture_variable(f, "FERRY_GOOD_MODE=safe");
    assert_int_equal(choose_and_open(f, "good", "", &services), FERRY_OK);
    /* Options, an unknown one (-5), the job, and a watch that was passed on. */
    expect_endpoint(f, 0, "speed 65536 mode safe (1) wait 1.5 none -5 pe 2 of 4 watch 0");
    assert_int_equal(heard.watches, 1);
    assert_int_equal(heard.fd, 7);
    /* Once it is open it may warn, and its lines have its name. */
    assert_string_equal(f->lines, "ferry warning: good: opened\n");
    t = f->route->chosen[0];
    assert_int_equal(t->ops.progress(t->handle, FERRY_CHANNEL_SERVICE), FERRY_OK);
    assert_int_equal(heard.errors, 1);
    assert_int_equal(heard.record.status, FERRY_ERR_DEVICE);
    assert_int_equal(heard.record.peer, 3);
    assert_string_equal(heard.record.message, "the port went down");
    assert_int_equal(heard.deliveries, 1);
    assert_int_equal(heard.from, 5);
    assert_int_equal(heard.data, 99);
    assert_int_equal(heard.unwatches, 1);
}

static void test_services_absent(void **state)
{
    struct fixture *f = *state;
    struct fy_transport *t;

    fixture_put(f, "good", NULL);
    assert_int_equal(choose_and_open(f, "good", NULL, NULL), FERRY_OK);
    expect_endpoint(f, 0, "speed 4096 mode fast (0) wait 1.5 none -5 pe 2 of 4 watch -2");
    t = f->route->chosen[0];
    assert_int_equal(t->ops.progress(t->handle, FERRY_CHANNEL_SERVICE), FERRY_OK);
}

static void test_open_fails(void **state)
{
    static const struct {
        const char *name;
        int status;
        const char *reason;
    } rows[] = {
        {"openfails", FERRY_ERR_SYSTEM, "its open: the device is in use by process 7"},
        {"opensilent", FERRY_ERR_LIMIT, "its open failed with FERRY_ERR_LIMIT and no further reason"},
        {"opennull", FERRY_ERR_TRANSPORT, "its open failed with FERRY_ERR_TRANSPORT and no further reason"},
        {"openagain", FERRY_ERR_TRANSPORT, "its open failed with FERRY_AGAIN and no further reason"},
        {"queryfails", FERRY_ERR_DEVICE, "its query for host memory failed with FERRY_ERR_DEVICE"},
        {"nomessage", FERRY_ERR_TRANSPORT, "it declares no largest message size"},
        {"noamo", FERRY_ERR_TRANSPORT, "it declares atomics, but has no amo"},
        {"nofence", FERRY_ERR_TRANSPORT, "it wants fence to be called, but has no such operation"},
    };
    struct fixture *f = *state;
    const struct fy_transport *t;

    for (size_t i = 0; i < FY_COUNT(rows); i++) {
        fixture_put(f, rows[i].name, NULL);
        assert_int_equal(choose_and_open(f, rows[i].name, "", NULL), rows[i].status);
        assert_int_equal(f->error.status, rows[i].status);
        t = fixture_candidate(f, rows[i].name);
        assert_int_equal(t->outcome, FY_OPEN_FAILED);
        assert_null(t->handle);
        assert_contains(t->reason, rows[i].reason);
        assert_contains(f->error.message, t->path);
        assert_contains(f->error.message, rows[i].reason);
        assert_contains(f->lines, "open failed");
        assert_lacks(f->lines, rows[i].reason);
        assert_int_equal(fixture_count(f->lines, "transports that were looked at"), 1);
    }
}

/* The first record that the plugin reports is the cause; its hint and its library's status go up with it. */
static void test_open_reports(void **state)
{
    struct fixture *f = *state;

    fixture_put(f, "openfails", NULL);
    assert_int_equal(choose_and_open(f, "openfails", "", NULL), FERRY_ERR_SYSTEM);
    assert_string_equal(f->error.hint, "plug it in");
    assert_int_equal(f->error.library_status, 13);
    assert_lacks(f->error.message, "consequence");
    assert_lacks(f->lines, "plug it in"); /* once is enough */
}

static void test_open_warns(void **state)
{
    struct fixture *f = *state;

    fixture_put(f, "halfopen", NULL);
    assert_int_equal(choose_and_open(f, "halfopen", "", NULL), FERRY_OK);
    assert_string_equal(f->lines, "ferry warning: transport halfopen: one port of two is down\n");
}

static void test_named_list_that_fails_closes_the_others(void **state)
{
    struct fixture *f = *state;
    char *marks;

    fixture_put(f, "better", "opensilent", NULL);
    assert_int_equal(choose_and_open(f, "better,opensilent", "", NULL), FERRY_ERR_LIMIT);
    assert_int_equal(f->route->n_chosen, 0);
    assert_null(fixture_candidate(f, "better")->handle);
    marks = fixture_marks(f);
    assert_string_equal(marks, "probe probe open close ");
    free(marks);
}

static void test_auto_drops_what_does_not_open(void **state)
{
    struct fixture *f = *state;

    fixture_put(f, "good", "openfails", "better", NULL);
    assert_int_equal(choose_and_open(f, "auto", "", NULL), FERRY_OK);
    assert_int_equal(f->route->n_chosen, 2);
    assert_string_equal(f->route->chosen[0]->name, "better");
    assert_string_equal(f->route->chosen[1]->name, "good");
    assert_contains(f->lines, "the device is in use by process 7; left out\n");
    /* Nothing is left: an error. */
    fixture_close(f);
    fixture_setup((void **)&f);
    fixture_put(f, "openfails", NULL);
    assert_int_equal(choose_and_open(f, "auto", "", NULL), FERRY_ERR_SYSTEM);
    assert_contains(f->error.message, "the device is in use by process 7");
    assert_contains(f->lines, "transports that were looked at");
    fixture_teardown((void **)&f);
}

static void test_caps(void **state)
{
    struct fixture *f = *state;
    const struct ferry_caps *caps;

    /* A strong signal without a native signal is odd, and harmless. */
    fixture_put(f, "lyingsignal", NULL);
    assert_int_equal(choose_and_open(f, "lyingsignal", "", NULL), FERRY_OK);
    caps = &f->route->chosen[0]->caps;
    assert_int_equal(caps->size, sizeof(*caps));
    assert_int_equal(caps->flags, FERRY_CAP_SIGNAL_STRONG);
    assert_int_equal(caps->message_max, 1 << 20);
    /* "any" is bounded by the message. */
    assert_int_equal(caps->copy_max, 1 << 20);
    assert_int_equal(caps->inline_max, 1 << 20);
}

static void test_hooks(void **state)
{
    struct fixture *f = *state;
    char signature[128], *marks;
    const struct fy_transport *t;

    fixture_put(f, "good", "better", "hook", "hooktwo", NULL);
    assert_int_equal(choose_and_open(f, "good,better", "hook,hooktwo", NULL), FERRY_OK);
    assert_int_equal(f->route->n_chosen, 2);
    /* The first is outermost, on every transport. */
    expect_endpoint(f, 0, "hook(hooktwo(speed 4096 mode fast (0) wait 1.5 none -5 pe 2 of 4 watch -2))");
    expect_endpoint(f, 1, "hook(hooktwo())");
    t = f->route->chosen[0];
    assert_string_equal(t->name, "hook");
    assert_string_equal(t->wrapped->name, "hooktwo");
    assert_string_equal(t->wrapped->wrapped->name, "good");
    assert_null(t->wrapped->wrapped->wrapped);
    assert_int_equal(t->caps.message_max, 1 << 20);
    /* What PEs compare is what moves bytes. */
    fy_route_signature(f->route, signature, sizeof(signature));
    assert_string_equal(signature, "good 1.0 abi 1.2, better 1.2.3 abi 1.2");
    fixture_close(f);
    marks = fixture_marks(f);
    assert_string_equal(marks, "probe probe open open close hooktwo-close hook-close close hooktwo-close hook-close ");
    free(marks);
}

static void test_hooks_that_fail(void **state)
{
    struct fixture *f = *state;
    char *marks;

    fixture_put(f, "good", "hook", "hooktwo", "nodevice", "better", NULL);
    assert_int_equal(choose_and_open(f, "good", "hok", NULL), FERRY_ERR_NOT_FOUND);
    assert_string_equal(f->error.message, "no hook named hok; did you mean hook?");
    assert_null(fixture_candidate(f, "good")->handle);
    assert_int_equal(choose_and_open(f, "good", "better", NULL), FERRY_ERR_CONFIG);
    assert_contains(f->error.message, "it is a transport, not a hook");
    assert_string_equal(f->error.hint, "name it in FERRY_TRANSPORT");
    assert_int_equal(choose_and_open(f, "good", "hook,hook", NULL), FERRY_ERR_CONFIG);
    assert_string_equal(f->error.message, "FERRY_HOOKS is 'hook,hook': hook is there twice");
    fixture_close(f);
    /* The inner hook is open when the outer one fails, and closes what it wraps. In auto too a hook that was named
     * counts. */
    assert_int_equal(remove(f->marker), 0);
    fixture_variable(f, "FERRY_HOOK_FAIL=yes");
    assert_int_equal(choose_and_open(f, "auto", "hook,hooktwo", NULL), FERRY_ERR_STATE);
    assert_contains(f->error.message, "hook hook (");
    assert_contains(f->error.message, "its open: hook was told to fail");
    assert_int_equal(fixture_candidate(f, "hook")->outcome, FY_OPEN_FAILED);
    assert_int_equal(f->route->n_chosen, 0);
    marks = fixture_marks(f);
    assert_contains(marks, "close hooktwo-close ");
    assert_int_equal(fixture_count(marks, "open "), 2);
    free(marks);
}

/* A hook that is open but of no use is closed, and with it what it wraps: once. */
static void test_hook_that_is_mute(void **state)
{
    struct fixture *f = *state;
    char *marks;

    fixture_variable(f, "FERRY_HOOK_MUTE=1");
    fixture_put(f, "better", "hook", NULL);
    assert_int_equal(choose_and_open(f, "better", "hook", NULL), FERRY_ERR_DEVICE);
    assert_contains(f->error.message, "its query for host memory failed with FERRY_ERR_DEVICE");
    marks = fixture_marks(f);
    assert_string_equal(marks, "probe open close hook-close ");
    free(marks);
}

static size_t count_entries(const char *path)
{
    size_t n = 0;
    DIR *d = opendir(path);

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Mappings of this build's plugins. */
static size_t count_mappings(void)
{
    char line[1024];
    size_t n = 0;
    FILE *in = fopen("/proc/self/maps", "r");

    assert_non_null(in);
    while (fgets(line, sizeof(line), in))
        n += strstr(line, PLUGINS) != NULL;
    fclose(in);
    return n;
}

static size_t heap_bytes(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0; /* the sanitizer's allocator does not tell */
#else
    return mallinfo2().uordblks;
#endif
}

static void test_again_and_again(void **state)
{
    struct fixture *f = *state;
    size_t fds = 0, mappings = 0, bytes = 0;

    fixture_put(f, "good", "better", "hook", "nodevice", "othermajor", "undefined", "openfails", NULL);
    f->log.level = FERRY_LOG_ERROR;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(choose_and_open(f, "auto", "hook", NULL), FERRY_OK);
        assert_int_equal(f->route->n_chosen, 2);
        fixture_close(f);
        if (i == 20) { /* first the allocator fills its caches */
            fds = count_entries("/proc/self/fd");
            mappings = count_mappings();
            bytes = heap_bytes();
        }
    }
    assert_true(mappings > 0);
    assert_int_equal(count_entries("/proc/self/fd"), fds);
    assert_int_equal(count_mappings(), mappings);
    /* Less than the smallest allocation per round; the allocator's caches move a little. */
    assert_true(heap_bytes() < bytes + 79 * 16);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_services),
        TEST(test_services_absent),
        TEST(test_open_fails),
        TEST(test_open_reports),
        TEST(test_open_warns),
        TEST(test_named_list_that_fails_closes_the_others),
        TEST(test_auto_drops_what_does_not_open),
        TEST(test_caps),
        TEST(test_hooks),
        TEST(test_hooks_that_fail),
        TEST(test_hook_that_is_mute),
        TEST(test_again_and_again),
    };

    return cmocka_run_group_tests_name("route/open", tests, NULL, NULL);
}
