/* SPDX-License-Identifier: Apache-2.0
 * Prints where the core that is linked in here would look for plugins, and what becomes of the spec in argv[1]: so that
 * tests can run it from another folder, and as another user. */
#include <route/route.h>
#include <ferry/ferry.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct fy_source source = {NULL, environ};
    struct ferry_error error = {0};
    struct fy_route *route;
    struct fy_log log;

    fy_log_init(&log);
    if (fy_route_create(&log, &source, NULL, &route) != FERRY_OK)
        return 2;
    printf("secure %d\n", route->secure);
    for (size_t i = 0; route->folders[i]; i++)
        printf("folder %s\n", route->folders[i]);
    if (argc > 1) {
        int status = fy_route_select(route, argv[1], &error);

        printf("%s %s\n", ferry_status_string(status), error.message);
    }
    fy_route_close(route);
    return 0;
}
