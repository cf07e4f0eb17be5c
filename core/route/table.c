/* SPDX-License-Identifier: Apache-2.0
 * What became of every candidate, in words; and the text by which PEs compare their choice.
 * Setup thread; reads a route, changes nothing. */
#include "internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *fy_outcome_string(enum fy_outcome outcome)
{
    switch (outcome) {
    case FY_FOUND:
        return "found";
    case FY_NOT_FOUND:
        return "not found";
    case FY_REFUSED_FILE:
        return "not loadable";
    case FY_REFUSED_NO_PLUGIN:
        return "no plugin";
    case FY_REFUSED_ABI:
        return "other ABI";
    case FY_REFUSED_OPTION:
        return "bad option";
    case FY_NO_DEVICE:
        return "no device";
    case FY_OPEN_FAILED:
        return "open failed";
    case FY_USABLE:
        return "usable";
    case FY_CHOSEN:
        return "chosen";
    }
    return "unknown";
}

const char *fy_route_advice(const struct fy_transport *t)
{
    if (t->open_error.hint[0])
        return t->open_error.hint;
    switch (t->outcome) {
    case FY_NOT_FOUND:
        return t->path[0] ? "correct the path, or put the file there"
                          : "correct the name, or put the plugin's folder in FERRY_PLUGIN_PATH";
    case FY_REFUSED_FILE:
        return "install the file again, with what it depends on";
    case FY_REFUSED_NO_PLUGIN:
        return "name a Ferry plugin, or report it to its maker";
    case FY_REFUSED_ABI:
        return "install the plugin that was built for this version of Ferry";
    case FY_REFUSED_OPTION:
        return "correct the value, or unset it";
    case FY_NO_DEVICE:
    case FY_OPEN_FAILED:
        return "repair that, or choose another transport in FERRY_TRANSPORT";
    default:
        return NULL;
    }
}

/* `told`: its reason and the advice stand elsewhere. */
static void print_row(FILE *out, const struct fy_transport *t, bool told)
{
    bool ok = t->outcome == FY_USABLE || t->outcome == FY_CHOSEN;

    fprintf(out, "  %-16s %-12s %s\n", t->name, fy_outcome_string(t->outcome), t->path[0] ? t->path : "-");
    if (told)
        return;
    if (ok && t->plugin->kind == 1)
        fprintf(out, "  %-16s a hook, version %s\n", "", t->plugin->version);
    else if (ok)
        fprintf(out, "  %-16s score %d, version %s%s%s\n", "", t->probe.score, t->plugin->version,
                t->reason[0] ? ": " : "", t->reason);
    else if (t->reason[0])
        fprintf(out, "  %-16s %s\n", "", t->reason);
    if (!ok && fy_route_advice(t))
        fprintf(out, "  %-16s to do: %s\n", "", fy_route_advice(t));
}

static char *make_table(const struct fy_route *route, const struct fy_transport *told)
{
    char *text = NULL;
    size_t size = 0;
    struct stat st;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    fprintf(out, "  %-16s %-12s %s\n", "candidate", "outcome", "file, reason, what to do");
    for (size_t i = 0; i < route->n_candidates; i++)
        print_row(out, route->candidates[i], route->candidates[i] == told);
    if (route->n_candidates == 0)
        fprintf(out, "  %-16s %-12s there is no plugin in any folder\n", "-", "-");
    fprintf(out, "folders, in the order of search:\n");
    for (size_t i = 0; route->folders[i]; i++)
        fprintf(out, "  %s%s\n", route->folders[i], stat(route->folders[i], &st) == 0 ? "" : " (not there)");
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

char *fy_route_table(const struct fy_route *route)
{
    return make_table(route, NULL);
}

void fy_route_log_table(const struct fy_route *route, int level)
{
    char *text = make_table(route, route->told), *line, *rest = text;

    if (!text)
        return;
    fy_log(route->log, level, "transports that were looked at:");
    while ((line = strsep(&rest, "\n")))
        if (*line)
            fy_log(route->log, level, "%s", line);
    free(text);
}

void fy_route_signature(const struct fy_route *route, char *out, size_t size)
{
    size_t at = 0;

    if (size > 0)
        out[0] = '\0';
    for (size_t i = 0; i < route->n_chosen && at < size; i++) {
        const struct fy_transport *t = route->chosen[i];

        while (t->wrapped)
            t = t->wrapped;
        at += (size_t)snprintf(out + at, size - at, "%s%s %s abi %u.%u", i ? ", " : "", t->name, t->plugin->version,
                               t->plugin->abi >> 16, t->plugin->abi & 0xffff);
    }
}
