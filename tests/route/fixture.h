/* SPDX-License-Identifier: Apache-2.0
 * What the tests of core/route share: a folder of chosen plugins, a captured log, an injected environment.
 * One thread. */
#ifndef ROUTE_FIXTURE_H
#define ROUTE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <route/internal.h>

struct fixture {
    char dir[64];
    char marker[96]; /* FERRY_TEST_MARKER: what plugins wrote when they were called */
    char path_variable[512];
    const char *variables[8];
    struct fy_source source;
    struct fy_log log;
    char lines[65536]; /* everything logged, one line each */
    struct fy_route *route;
    struct ferry_error error;
};

int fixture_setup(void **state);
int fixture_teardown(void **state);
/* Puts plugins of this build into the folder, under their own names: "good", "hook", …, NULL. */
void fixture_put(struct fixture *f, const char *name, ...) __attribute__((sentinel));
/* As another name. */
void fixture_put_as(struct fixture *f, const char *name, const char *as);
/* A file of these bytes. */
void fixture_write(struct fixture *f, const char *file, const void *bytes, size_t size);
/* One more variable, "FERRY_GOOD_SPEED=1K"; before fixture_route. */
void fixture_variable(struct fixture *f, const char *assignment);
/* A route that looks into the folder and nowhere else. */
struct fy_route *fixture_route(struct fixture *f, const struct fy_route_services *services);
void fixture_close(struct fixture *f);
const struct fy_transport *fixture_candidate(const struct fixture *f, const char *name);
/* What plugins wrote; empty: none was called. To be freed. */
char *fixture_marks(const struct fixture *f);
size_t fixture_count(const char *text, const char *part);

#define assert_contains(text, part)                                                                                    \
    do {                                                                                                               \
        if (!strstr(text, part))                                                                                       \
            fail_msg("\"%s\" lacks \"%s\"", text, part);                                                               \
    } while (0)
#define assert_lacks(text, part)                                                                                       \
    do {                                                                                                               \
        if (strstr(text, part))                                                                                        \
            fail_msg("\"%s\" has \"%s\"", text, part);                                                                 \
    } while (0)

#endif
