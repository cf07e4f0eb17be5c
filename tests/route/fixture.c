/* SPDX-License-Identifier: Apache-2.0
 * What the tests of core/route share: a folder of chosen plugins, a captured log, an injected environment.
 * One thread. */
#include "fixture.h"
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static void keep_line(void *arg, int level, const char *line)
{
    struct fixture *f = arg;
    size_t at = strlen(f->lines);

    (void)level;
    snprintf(f->lines + at, sizeof(f->lines) - at, "%s\n", line);
}

int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    strcpy(f->dir, "/tmp/ferry-route-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    assert_int_equal(chmod(f->dir, 0755), 0);
    snprintf(f->marker, sizeof(f->marker), "%s/marker", f->dir);
    assert_int_equal(setenv("FERRY_TEST_MARKER", f->marker, 1), 0);
    snprintf(f->path_variable, sizeof(f->path_variable), "FERRY_PLUGIN_PATH=%s", f->dir);
    f->variables[0] = f->path_variable;
    f->source.overrides = f->variables;
    fy_log_init(&f->log);
    f->log.sink = keep_line;
    f->log.sink_arg = f;
    *state = f;
    return 0;
}

static void remove_all(const char *dir)
{
    char path[512];
    struct dirent *entry;
    DIR *d = opendir(dir);

    while (d && (entry = readdir(d))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (unlink(path) != 0)
            remove_all(path);
    }
    if (d)
        closedir(d);
    rmdir(dir);
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;

    fixture_close(f);
    remove_all(f->dir);
    free(f);
    return 0;
}

void fixture_put_as(struct fixture *f, const char *name, const char *as)
{
    char from[512], to[512];

    snprintf(from, sizeof(from), "%s/%s.so", PLUGINS, name);
    snprintf(to, sizeof(to), "%s/%s.so", f->dir, as);
    assert_int_equal(access(from, R_OK), 0);
    assert_int_equal(symlink(from, to), 0);
}

void fixture_put(struct fixture *f, const char *name, ...)
{
    va_list names;

    va_start(names, name);
    for (; name; name = va_arg(names, const char *))
        fixture_put_as(f, name, name);
    va_end(names);
}

void fixture_write(struct fixture *f, const char *file, const void *bytes, size_t size)
{
    char path[512];
    FILE *out;

    snprintf(path, sizeof(path), "%s/%s", f->dir, file);
    out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

void fixture_variable(struct fixture *f, const char *assignment)
{
    size_t n = 0;

    while (f->variables[n])
        n++;
    assert_true(n + 1 < FY_COUNT(f->variables));
    f->variables[n] = assignment;
}

struct fy_route *fixture_route(struct fixture *f, const struct fy_route_services *services)
{
    fixture_close(f);
    assert_int_equal(fy_route_create(&f->log, &f->source, services, &f->route), FERRY_OK);
    /* Not what happens to be installed on this machine. */
    for (size_t i = 1; f->route->folders[i]; i++) {
        free(f->route->folders[i]);
        f->route->folders[i] = NULL;
    }
    assert_string_equal(f->route->folders[0], f->dir);
    return f->route;
}

void fixture_close(struct fixture *f)
{
    fy_route_close(f->route);
    f->route = NULL;
}

const struct fy_transport *fixture_candidate(const struct fixture *f, const char *name)
{
    for (size_t i = 0; i < f->route->n_candidates; i++)
        if (strcmp(f->route->candidates[i]->name, name) == 0)
            return f->route->candidates[i];
    return NULL;
}

char *fixture_marks(const struct fixture *f)
{
    char *text = calloc(1, 4096);
    FILE *in = fopen(f->marker, "r");

    assert_non_null(text);
    if (in) {
        text[fread(text, 1, 4095, in)] = '\0';
        fclose(in);
    }
    return text;
}

size_t fixture_count(const char *text, const char *part)
{
    size_t n = 0;

    for (; (text = strstr(text, part)); text += strlen(part))
        n++;
    return n;
}
