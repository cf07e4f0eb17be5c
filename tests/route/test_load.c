/* SPDX-License-Identifier: Apache-2.0
 * Each way in which a file fails to be a plugin: outcome, status, message; and that nothing of it was called.
 * One thread. */
#include "fixture.h"
#include <signal.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Names `name` as the transport and expects this end; the message names the file, unless there is none. */
static void expect(struct fixture *f, const char *name, enum fy_outcome outcome, int status, const char *reason)
{
    const struct fy_transport *t;

    fixture_route(f, NULL);
    f->lines[0] = '\0';
    assert_int_equal(fy_route_select(f->route, name, &f->error), status);
    assert_int_equal(f->error.status, status);
    t = fixture_candidate(f, name);
    assert_non_null(t);
    assert_string_equal(fy_outcome_string(t->outcome), fy_outcome_string(outcome));
    assert_contains(t->reason, reason);
    assert_contains(f->error.message, reason);
    assert_contains(f->error.message, name);
    if (outcome != FY_REFUSED_OPTION)
        assert_contains(f->error.message, t->path);
    assert_contains(t->path, f->dir);
    assert_true(f->error.hint[0] != '\0');
    assert_int_equal(f->route->n_chosen, 0);
    /* The table went to the log, once, with the file and the outcome; the reason and the advice are in the record. */
    assert_int_equal(fixture_count(f->lines, "transports that were looked at"), 1);
    assert_contains(f->lines, t->path);
    assert_contains(f->lines, fy_outcome_string(outcome));
    assert_lacks(f->lines, t->reason);
    assert_lacks(f->lines, f->error.hint);
}

static void expect_untouched(struct fixture *f, const char *name, enum fy_outcome outcome, int status,
                             const char *reason)
{
    char *marks;

    fixture_put(f, name, NULL);
    expect(f, name, outcome, status, reason);
    marks = fixture_marks(f);
    assert_string_equal(marks, "");
    free(marks);
}

static void test_other_major(void **state)
{
    /* Both numbers. Everything behind abi in this plugin is a wild pointer. */
    expect_untouched(*state, "othermajor", FY_REFUSED_ABI, FERRY_ERR_ABI,
                     "it speaks transport ABI 2.3, this library speaks 1.2");
}

static void test_other_major_symbol(void **state)
{
    expect_untouched(*state, "majorsymbol", FY_REFUSED_ABI, FERRY_ERR_ABI,
                     "it speaks transport ABI 2 (ferry_plugin_v2), this library speaks 1.2");
}

static void test_no_symbol(void **state)
{
    expect_untouched(*state, "nosymbol", FY_REFUSED_NO_PLUGIN, FERRY_ERR_ABI,
                     "it is no Ferry plugin: it has no symbol ferry_plugin_v1");
}

static void test_symbol_of_a_dependency(void **state)
{
    struct fixture *f = *state;

    fixture_put(f, "lender", NULL);
    expect_untouched(f, "borrower", FY_REFUSED_NO_PLUGIN, FERRY_ERR_ABI, "it has no symbol ferry_plugin_v1 of its own");
    /* The one that has it is a plugin. */
    fixture_route(f, NULL);
    assert_int_equal(fy_route_select(f->route, "lender", &f->error), FERRY_OK);
}

static void test_undefined_symbol(void **state)
{
    struct fixture *f = *state;

    expect_untouched(f, "undefined", FY_REFUSED_FILE, FERRY_ERR_ABI, "undefined symbol: nobody_defines_this");
    assert_contains(f->error.message, "it cannot be loaded");
    /* dlerror begins with the path, which stands there already. */
    assert_int_equal(fixture_count(f->error.message, f->dir), 1);
}

static void own_handler(int number)
{
    (void)number;
}

/* Constructors of what a plugin needs do not get the program's signals. */
static void test_handlers_of_a_dependency(void **state)
{
    struct fixture *f = *state;
    struct sigaction is;

    signal(SIGTERM, SIG_DFL);
    signal(SIGUSR2, own_handler);
    fixture_put(f, "handlers", NULL);
    fixture_route(f, NULL);
    assert_int_equal(fy_route_select(f->route, "handlers", &f->error), FERRY_OK);
    assert_int_equal(sigaction(SIGTERM, NULL, &is), 0);
    assert_true(is.sa_handler == SIG_DFL);
    assert_int_equal(sigaction(SIGUSR2, NULL, &is), 0);
    assert_true(is.sa_handler == own_handler);
    signal(SIGUSR2, SIG_DFL);
}

static void test_malformed(void **state)
{
    static const struct {
        const char *name, *reason;
    } rows[] = {
        {"tiny", "malformed: 4 bytes"},
        {"noquiet", "lacks quiet, which is required"},
        {"shortops", "lacks close, which is required"},
        {"smallsize", "its size is 40, the smallest there is is"},
        {"bigsize", "its size is 4096, but the symbol has"},
        {"oddkind", "its kind 7 is neither 0, a transport, nor 1, a hook"},
        {"noversion", "it has no version"},
        {"badname", "its name 'Bad Name' is not"},
        {"misnamed", "the plugin in it is named somebody, so its file must be named somebody.so"},
        {"opttype", "its option x has the unknown type 99"},
        {"optchoices", "its option x has a list type, but no choices"},
        {"optdefault", "the default of its option x: FERRY_OPTDEFAULT_X is '12Q'"},
        {"opttwice", "its option x is there twice"},
        {"optname", "its option 'X Y' is not named in a-z 0-9 _"},
        {"optdoc", "its option x has no doc"},
    };

    for (size_t i = 0; i < FY_COUNT(rows); i++)
        expect_untouched(*state, rows[i].name, FY_REFUSED_NO_PLUGIN, FERRY_ERR_ABI, rows[i].reason);
}

static void *read_plugin(const char *name, size_t *size)
{
    char path[512];
    struct stat st;
    FILE *in;
    void *bytes;

    snprintf(path, sizeof(path), "%s/%s.so", PLUGINS, name);
    in = fopen(path, "r");
    assert_non_null(in);
    assert_int_equal(fstat(fileno(in), &st), 0);
    *size = (size_t)st.st_size;
    bytes = malloc(*size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, in), *size);
    fclose(in);
    return bytes;
}

static void find(const char *path, uint32_t want)
{
    uint32_t word = 0;

    assert_true(fy_elf_symbol(path, "ferry_plugin_v1", &word));
    assert_int_equal(word, want);
    assert_false(fy_elf_symbol(path, "ferry_plugin_v2", &word));
    assert_false(fy_elf_symbol(path, "a_name_that_is_longer_than_32_characters", &word));
}

/* Through either kind of hash table, and what is only used, or is no data, is not found. */
static void test_symbol(void **state)
{
    uint32_t word;

    (void)state;
    find(PLUGINS "/good.so", FERRY_TRANSPORT_ABI);
    find(PLUGINS "/sysvhash.so", FERRY_TRANSPORT_ABI);
    find(PLUGINS "/othermajor.so", 2u << 16 | 3u);
    assert_false(fy_elf_symbol(PLUGINS "/borrower.so", "ferry_plugin_v1", &word));
    assert_false(fy_elf_symbol(PLUGINS "/good.so", "getenv", &word));
    assert_false(fy_elf_symbol(PLUGINS "/sysvhash.so", "getenv", &word));
    assert_false(fy_elf_symbol(PLUGINS "/function.so", "ferry_plugin_v1", &word));
    assert_true(fy_elf_symbol(PLUGINS "/majorsymbol.so", "ferry_plugin_v2", &word));
    assert_false(fy_elf_symbol("/nowhere/at/all.so", "ferry_plugin_v1", &word));
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Changes one to four places: single bytes, or numbers of 4 or 8 bytes that are at the limits. */
static void damage(unsigned char *bytes, size_t size, uint64_t *state)
{
    static const uint64_t limits[] = {0, 1, 0x7fffffff, 0xffffffff, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};

    for (uint64_t n = next_random(state) % 4 + 1; n > 0; n--) {
        size_t at = next_random(state) % (size - 8), width = next_random(state) % 3;
        uint64_t value = limits[next_random(state) % FY_COUNT(limits)];

        if (width == 0)
            bytes[at] = (unsigned char)next_random(state);
        else
            memcpy(bytes + (at & ~(size_t)3), &value, width * 4);
    }
}

/* Whatever the tables of a file say, reading them ends, within the file: a sanitizer would see it do otherwise. The
 * first 4 KiB have the headers and every table of these plugins. */
static void test_damaged_tables(void **state)
{
    static const char *const names[] = {"good", "sysvhash"};
    struct fixture *f = *state;
    uint64_t random = 0x9e3779b97f4a7c15u;
    unsigned found = 0, lost = 0;

    for (size_t i = 0; i < FY_COUNT(names); i++) {
        size_t size;
        unsigned char *bytes = read_plugin(names[i], &size), *copy = malloc(size);
        char path[512], why[256];

        assert_non_null(copy);
        snprintf(path, sizeof(path), "%s/damaged.so", f->dir);
        for (int round = 0; round < 2000; round++) {
            uint32_t word;

            memcpy(copy, bytes, size);
            damage(copy, size < 4096 ? size : 4096, &random);
            fixture_write(f, "damaged.so", copy, size);
            fy_elf_check(path, why, sizeof(why));
            if (fy_elf_symbol(path, "ferry_plugin_v1", &word))
                found++;
            else
                lost++;
        }
        free(copy);
        free(bytes);
    }
    /* Some damage hits, some misses. */
    assert_true(found > 100 && lost > 100);
}

/* At every length: the process lives, and the file is refused. */
static void test_truncated(void **state)
{
    struct fixture *f = *state;
    static const double parts[] = {0, 0.0001, 0.002, 0.01, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99, 0.9999};
    size_t size;
    char *bytes = read_plugin("good", &size);

    for (size_t i = 0; i < FY_COUNT(parts); i++) {
        size_t length = (size_t)((double)size * parts[i]);

        fixture_write(f, "good.so", bytes, length);
        expect(f, "good", FY_REFUSED_FILE, FERRY_ERR_ABI,
               length < SELFMAG ? "without an ELF header" : "it is truncated");
    }
    fixture_write(f, "good.so", bytes, size);
    free(bytes);
    fixture_route(f, NULL);
    assert_int_equal(fy_route_select(f->route, "good", &f->error), FERRY_OK);
}

static void test_other_machine(void **state)
{
    struct fixture *f = *state;
    size_t size;
    char *bytes = read_plugin("good", &size);
    ElfW(Ehdr) *header = (ElfW(Ehdr) *)(void *)bytes;

    header->e_ident[EI_CLASS] = header->e_ident[EI_CLASS] == ELFCLASS64 ? ELFCLASS32 : ELFCLASS64;
    fixture_write(f, "good.so", bytes, size);
    expect(f, "good", FY_REFUSED_FILE, FERRY_ERR_ABI, "it is built for another machine");
    header->e_ident[EI_CLASS] = header->e_ident[EI_CLASS] == ELFCLASS64 ? ELFCLASS32 : ELFCLASS64;
    header->e_type = ET_REL;
    fixture_write(f, "good.so", bytes, size);
    expect(f, "good", FY_REFUSED_FILE, FERRY_ERR_ABI, "it is not a shared object (ELF type 1)");
    header->e_type = ET_DYN;
    header->e_machine = EM_NONE; /* the loader's own check */
    fixture_write(f, "good.so", bytes, size);
    expect(f, "good", FY_REFUSED_FILE, FERRY_ERR_ABI, "it cannot be loaded");
    free(bytes);
}

static void test_text(void **state)
{
    struct fixture *f = *state;

    fixture_write(f, "text.so", "#!/bin/sh\necho a plugin\n", 24);
    expect(f, "text", FY_REFUSED_FILE, FERRY_ERR_ABI, "it is not a shared object (24 bytes without an ELF header)");
}

static void test_directory(void **state)
{
    struct fixture *f = *state;
    char path[512];

    snprintf(path, sizeof(path), "%s/folder.so", f->dir);
    assert_int_equal(mkdir(path, 0755), 0);
    expect(f, "folder", FY_REFUSED_FILE, FERRY_ERR_ABI, "it is a directory");
}

static void test_pipe(void **state)
{
    struct fixture *f = *state;
    char path[512];

    snprintf(path, sizeof(path), "%s/pipe.so", f->dir);
    assert_int_equal(mkfifo(path, 0644), 0);
    expect(f, "pipe", FY_REFUSED_FILE, FERRY_ERR_ABI, "it is not a regular file");
}

static void test_dangling_link(void **state)
{
    struct fixture *f = *state;
    char path[512];

    snprintf(path, sizeof(path), "%s/dangling.so", f->dir);
    assert_int_equal(symlink("/nowhere/at/all.so", path), 0);
    expect(f, "dangling", FY_NOT_FOUND, FERRY_ERR_NOT_FOUND, "there is no such file");
}

/* Root reads everything: a child that is nobody looks. Its exit status is the number of the check that failed. */
static int look_as_nobody(struct fixture *f)
{
    const struct fy_transport *t;

    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
        return 2;
    if (fy_route_select(f->route, "secret", &f->error) != FERRY_ERR_ABI)
        return 3;
    t = fixture_candidate(f, "secret");
    if (!t || t->outcome != FY_REFUSED_FILE)
        return 4;
    return strstr(f->error.message, "secret.so): it cannot be read: Permission denied") ? 0 : 5;
}

static void test_unreadable(void **state)
{
    struct fixture *f = *state;
    char path[512];
    int status = -1;
    pid_t child;

    fixture_write(f, "secret.so", "x", 1);
    snprintf(path, sizeof(path), "%s/secret.so", f->dir);
    assert_int_equal(chmod(path, 0), 0);
    fixture_route(f, NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(look_as_nobody(f));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A later minor: what it has more is left alone, what we know of it is used. */
static void test_later_minor(void **state)
{
    struct fixture *f = *state;
    char signature[64], *marks;
    struct ferry_open how = {.size = sizeof(how), .n_pes = 1};

    fixture_put(f, "future", NULL);
    fixture_route(f, NULL);
    assert_int_equal(fy_route_select(f->route, "future", &f->error), FERRY_OK);
    assert_int_equal(fy_route_open(f->route, &how, "", &f->error), FERRY_OK);
    assert_int_equal(f->route->chosen[0]->ops.size, sizeof(struct ferry_host_ops));
    fy_route_signature(f->route, signature, sizeof(signature));
    assert_string_equal(signature, "future 9.9 abi 1.7");
    fixture_close(f);
    marks = fixture_marks(f);
    assert_string_equal(marks, "open close ");
    free(marks);
}

/* A probe that says no is the plugin's own answer: only its probe was called. */
static void test_no_device(void **state)
{
    struct fixture *f = *state;
    char *marks;

    fixture_put(f, "nodevice", "mute", NULL);
    expect(f, "nodevice", FY_NO_DEVICE, FERRY_ERR_DEVICE, "no card: load the module");
    marks = fixture_marks(f);
    assert_string_equal(marks, "probe ");
    free(marks);
    expect(f, "mute", FY_NO_DEVICE, FERRY_ERR_DEVICE, "its probe failed without a reason (FERRY_ERR_DEVICE)");
}

/* Or to the value of an option: then that is what is said, with another word and another hint. */
static void test_value_refused_by_probe(void **state)
{
    struct fixture *f = *state;

    fixture_put(f, "badvalue", NULL);
    expect(f, "badvalue", FY_REFUSED_OPTION, FERRY_ERR_CONFIG, "FERRY_BADVALUE_SPEED=12 is more than badvalue takes");
    assert_string_equal(f->error.hint, "correct the value, or unset it");
}

static void test_bad_value(void **state)
{
    struct fixture *f = *state;
    char *marks;

    fixture_variable(f, "FERRY_GOOD_SPEED=12Q");
    fixture_put(f, "good", NULL);
    fixture_route(f, NULL);
    assert_int_equal(fy_route_select(f->route, "good", &f->error), FERRY_ERR_CONFIG);
    assert_contains(f->error.message, "FERRY_GOOD_SPEED is '12Q'");
    assert_int_equal(fixture_candidate(f, "good")->outcome, FY_REFUSED_OPTION);
    assert_contains(f->lines, "bad option");
    marks = fixture_marks(f);
    assert_string_equal(marks, "");
    free(marks);
    /* In auto too: who set it wants it to count. */
    fixture_put(f, "better", NULL);
    fixture_route(f, NULL);
    assert_int_equal(fy_route_select(f->route, "auto", &f->error), FERRY_ERR_CONFIG);
    assert_contains(f->error.message, "FERRY_GOOD_SPEED is '12Q'");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_other_major),
        TEST(test_other_major_symbol),
        TEST(test_no_symbol),
        TEST(test_symbol_of_a_dependency),
        TEST(test_undefined_symbol),
        TEST(test_handlers_of_a_dependency),
        TEST(test_malformed),
        TEST(test_symbol),
        TEST(test_damaged_tables),
        TEST(test_truncated),
        TEST(test_other_machine),
        TEST(test_text),
        TEST(test_directory),
        TEST(test_pipe),
        TEST(test_dangling_link),
        TEST(test_unreadable),
        TEST(test_later_minor),
        TEST(test_no_device),
        TEST(test_value_refused_by_probe),
        TEST(test_bad_value),
    };

    return cmocka_run_group_tests_name("route/load", tests, NULL, NULL);
}
