/* SPDX-License-Identifier: Apache-2.0
 * Names in comma lists, and the one that was meant: UCX says which are there, not which is near.
 * Setup thread. */
#include "ucx.h"

#include <stdio.h>
#include <string.h>

#define NAME 32u

int fy_ux_listed(const char *list, const char *name, size_t length)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        if (n == length && !memcmp(list, name, n))
            return 1;
        list += n + (list[n] == ',');
    }
    return 0;
}

/* The next name of "cma, mm" or "'eth0'(tcp), 'lo'(tcp)". 0: the list is over. */
static int next_name(const char **at, char *name)
{
    size_t n;

    *at += strspn(*at, ", '");
    n = strcspn(*at, ",'(; ");
    if (!n)
        return 0;
    snprintf(name, NAME, "%.*s", (int)n, *at);
    *at += n;
    *at += strcspn(*at, ",;");
    return 1;
}

/* UCX: "transport 'posx' is not available, please use one or more of: cma, posix; no usable ...". */
int fy_ux_meant(const char *message, char *meant, size_t size)
{
    const char *wrong = strchr(message, '\''), *list = strstr(message, "one or more of: ");
    char asked[NAME], name[NAME];
    unsigned least = 3, n;

    if (!wrong || !list || wrong > list)
        return 0;
    list += strlen("one or more of: ");
    wrong++;
    snprintf(asked, sizeof asked, "%.*s", (int)strcspn(wrong, "'"), wrong);
    while (next_name(&list, name)) {
        n = fy_plugin_edits(asked, name);
        if (n >= least || n >= strlen(asked))
            continue;
        least = n;
        snprintf(meant, size, "%s", name);
    }
    return least < 3;
}
