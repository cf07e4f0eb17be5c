/* SPDX-License-Identifier: Apache-2.0
 * Where plugins are looked for: the order of folders, hidden files, the folder beside the library, set-uid programs.
 * One thread, and child processes of tests/route/folders.c. */
#include "fixture.h"
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void make_folder(const struct fixture *f, const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", f->dir, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static void link_plugin(const char *name, const char *folder)
{
    char from[512], to[512];

    snprintf(from, sizeof(from), "%s/%s.so", PLUGINS, name);
    snprintf(to, sizeof(to), "%s/%s.so", folder, name);
    assert_int_equal(symlink(from, to), 0);
}

static void test_order_and_hidden(void **state)
{
    struct fixture *f = *state;
    char a[100], b[100], c[100];
    const struct fy_transport *first = NULL, *second = NULL;

    make_folder(f, "a", a, sizeof(a));
    make_folder(f, "b", b, sizeof(b));
    snprintf(c, sizeof(c), "%s/nowhere", f->dir);
    link_plugin("good", a);
    link_plugin("good", b);
    link_plugin("better", b);
    snprintf(f->path_variable, sizeof(f->path_variable), "FERRY_PLUGIN_PATH=%s:%s::%s:%s:", a, c, b, a);
    assert_int_equal(fy_route_create(&f->log, &f->source, NULL, &f->route), FERRY_OK);
    /* In their order, each once, empty ones left out. */
    assert_string_equal(f->route->folders[0], a);
    assert_string_equal(f->route->folders[1], c);
    assert_string_equal(f->route->folders[2], b);
    for (size_t i = 3; f->route->folders[i]; i++) {
        assert_string_not_equal(f->route->folders[i], a);
        free(f->route->folders[i]);
        f->route->folders[i] = NULL;
    }
    assert_int_equal(fy_route_survey(f->route, "auto", 1), FERRY_OK);
    assert_int_equal(f->route->n_candidates, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct fy_transport *t = f->route->candidates[i];

        if (strncmp(t->path, a, strlen(a)) == 0)
            first = t;
        else if (strcmp(t->name, "good") == 0)
            second = t;
    }
    /* The second good is there, not loaded, and says which file hides it. */
    assert_int_equal(first->outcome, FY_CHOSEN);
    assert_int_equal(second->outcome, FY_FOUND);
    assert_null(second->library);
    assert_contains(second->reason, "hidden by ");
    assert_contains(second->reason, first->path);
    char *table = fy_route_table(f->route);
    assert_contains(table, second->reason);
    assert_contains(table, "/nowhere (not there)\n");
    free(table);
}

static void test_two_names_of_one_folder(void **state)
{
    struct fixture *f = *state;
    char a[100], b[100];

    make_folder(f, "a", a, sizeof(a));
    snprintf(b, sizeof(b), "%s/b", f->dir);
    assert_int_equal(symlink(a, b), 0);
    snprintf(f->path_variable, sizeof(f->path_variable), "FERRY_PLUGIN_PATH=%s:%s", b, a);
    assert_int_equal(fy_route_create(&f->log, &f->source, NULL, &f->route), FERRY_OK);
    assert_string_equal(f->route->folders[0], b);
    assert_true(!f->route->folders[1] || strcmp(f->route->folders[1], a) != 0);
}

static void test_too_many_folders(void **state)
{
    struct fixture *f = *state;
    char variable[1024] = "FERRY_PLUGIN_PATH=";
    size_t n = 0;

    for (int i = 0; i < 40; i++)
        snprintf(variable + strlen(variable), sizeof(variable) - strlen(variable), "/nowhere/%d:", i);
    f->variables[0] = variable;
    assert_int_equal(fy_route_create(&f->log, &f->source, NULL, &f->route), FERRY_OK);
    while (f->route->folders[n])
        n++;
    /* Those that belong to the library have their place still. */
    assert_true(n > 31 && n < FY_COUNT(f->route->folders));
    assert_contains(f->route->folders[n - 1], "plugins");
    assert_contains(f->lines, "plugin folder /nowhere/31 is left out: more than 31 folders");
}

static void test_names(void **state)
{
    char path[512];
    struct fixture *f = *state;

    assert_true(fy_name_valid("a"));
    assert_true(fy_name_valid("my_own-transport2"));
    assert_false(fy_name_valid(""));
    assert_false(fy_name_valid("Upper"));
    assert_false(fy_name_valid("a b"));
    assert_false(fy_name_valid("a.b"));
    assert_true(fy_name_valid("abcdefghijabcdefghijabcdefghija"));
    assert_false(fy_name_valid("abcdefghijabcdefghijabcdefghijab"));
    /* A name is no way out of the folder. */
    fixture_put(f, "good", NULL);
    fixture_route(f, NULL);
    assert_true(fy_search_name(f->route, "good", path, sizeof(path)));
    assert_false(fy_search_name(f->route, "..", path, sizeof(path)));
    assert_string_equal(path, "");
}

/* Raised privileges: nothing of the environment leads to a file; what the program itself set does. */
static void test_secure(void **state)
{
    struct fixture *f = *state;
    char *env[] = {f->path_variable, (char *)(uintptr_t) "FERRY_TRANSPORT=/tmp/evil.so", NULL};
    struct ferry_error error;

    fixture_put(f, "good", NULL);
    f->source = (struct fy_source){NULL, env};
    assert_int_equal(fy_route_create(&f->log, &f->source, NULL, &f->route), FERRY_OK);
    assert_string_equal(f->route->folders[0], f->dir);
    fy_search_free(f->route);
    f->route->secure = 1;
    assert_int_equal(fy_search_folders(f->route), FERRY_OK);
    for (size_t i = 0; f->route->folders[i]; i++)
        assert_string_not_equal(f->route->folders[i], f->dir);
    assert_contains(f->lines, "FERRY_PLUGIN_PATH is ignored: this program runs with raised privileges");
    assert_int_equal(fy_route_select(f->route, "/tmp/evil.so", &error), FERRY_ERR_ABI);
    assert_contains(error.message, "a program with raised privileges takes no path from its environment");
    fixture_close(f);
    /* The program's own attribute is its own decision. */
    f->source = (struct fy_source){f->variables, env};
    fixture_variable(f, "FERRY_TRANSPORT=/tmp/mine.so");
    assert_int_equal(fy_route_create(&f->log, &f->source, NULL, &f->route), FERRY_OK);
    fy_search_free(f->route);
    f->route->secure = 1;
    assert_int_equal(fy_search_folders(f->route), FERRY_OK);
    assert_string_equal(f->route->folders[0], f->dir);
    assert_int_equal(fy_route_select(f->route, "/tmp/mine.so", &error), FERRY_ERR_NOT_FOUND);
}

static void copy_program(const char *to, mode_t mode)
{
    char command[1100];

    snprintf(command, sizeof(command), "cp '%s' '%s'", FOLDERS, to);
    assert_int_equal(system(command), 0);
    assert_int_equal(chmod(to, mode), 0);
}

/* What it printed; to be freed. */
static char *run_program(const char *program, const char *arguments)
{
    char command[1100], *text = calloc(1, 8192);
    FILE *in;

    assert_non_null(text);
    snprintf(command, sizeof(command), "%s %s 2>&1", program, arguments);
    in = popen(command, "r");
    assert_non_null(in);
    text[fread(text, 1, 8191, in)] = '\0';
    assert_int_equal(pclose(in), 0);
    return text;
}

/* A build tree has plugins beside the library; an installation has ferry/plugins-v1, and then nothing else there
 * counts. */
static void test_beside(void **state)
{
    struct fixture *f = *state;
    char bin[128], program[160], built[160], installed[200], expected[256], *text;

    make_folder(f, "bin", bin, sizeof(bin));
    snprintf(program, sizeof(program), "%s/prog", bin);
    copy_program(program, 0755);
    make_folder(f, "bin/plugins", built, sizeof(built));
    link_plugin("good", built);
    text = run_program(program, "good");
    snprintf(expected, sizeof(expected), "folder %s\n", built);
    assert_contains(text, "secure 0\n");
    assert_contains(text, expected);
    assert_contains(text, "FERRY_OK \n");
    free(text);
    make_folder(f, "bin/ferry", installed, sizeof(installed));
    make_folder(f, "bin/ferry/plugins-v1", installed, sizeof(installed));
    text = run_program(program, "good");
    assert_lacks(text, expected);
    snprintf(expected, sizeof(expected), "folder %s\n", installed);
    assert_contains(text, expected);
    assert_contains(text, "no transport named good");
    free(text);
}

/* The compiled-in folder is the last. */
static void test_compiled_in(void **state)
{
    char *text = run_program(FOLDERS, "");
    const char *last = NULL;

    (void)state;
    for (const char *at = text; (at = strstr(at, "folder ")); at++)
        last = at;
    assert_non_null(last);
    assert_contains(last, "/ferry/plugins-v1\n");
    free(text);
}

/* The real thing, where this user can make a set-uid program and the file system honours it. */
static void test_set_uid(void **state)
{
    struct fixture *f = *state;
    char program[128], variable[300], *text;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* a sanitizer's runtime does not start in a set-uid program */
#endif
    snprintf(program, sizeof(program), "%s/prog", f->dir);
    copy_program(program, 0755);
    if (geteuid() != 0 || chown(program, 65534, 65534) != 0 || chmod(program, 04755) != 0)
        skip();
    fixture_put(f, "good", NULL);
    snprintf(variable, sizeof(variable), "FERRY_PLUGIN_PATH=%s %s", f->dir, program);
    text = run_program(variable, "good");
    bool honoured = strstr(text, "secure 0\n") == NULL;
    if (honoured) {
        assert_contains(text, "secure 1\n");
        assert_contains(text, "FERRY_PLUGIN_PATH is ignored");
        snprintf(variable, sizeof(variable), "folder %s\n", f->dir);
        assert_lacks(text, variable);
        assert_contains(text, "no transport named good");
    }
    free(text);
    if (!honoured)
        skip();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_order_and_hidden), TEST(test_two_names_of_one_folder),
        TEST(test_too_many_folders), TEST(test_names),
        TEST(test_secure),           TEST(test_beside),
        TEST(test_compiled_in),      TEST(test_set_uid),
    };

    return cmocka_run_group_tests_name("route/search", tests, NULL, NULL);
}
