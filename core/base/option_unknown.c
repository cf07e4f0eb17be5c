/* SPDX-License-Identifier: Apache-2.0
 * Finds variables that look like options but are none, and the name that was probably meant.
 * The thread in init. Values are never printed: one of them holds the job's secret. */
#include "option.h"
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_ 63 /* longer names are nobody's typo */

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, replacements, and swaps of neighbours, that turn one into the other; case does not count. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t rows[3][NAME_MAX_ + 1];
    size_t *before = rows[0], *above = rows[1], *now = rows[2];

    for (size_t j = 0; j <= nb; j++)
        above[j] = j;
    for (size_t i = 1; i <= na; i++) {
        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);

            now[j] = least(least(above[j], now[j - 1]) + 1, above[j - 1] + !same);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
                now[j] = least(now[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = above;
        above = now;
        now = oldest;
    }
    return above[nb];
}

const char *fy_nearest(const char *name, const char *const *names, size_t n)
{
    size_t length = strnlen(name, NAME_MAX_ + 1);
    size_t best = length / 3 > 2 ? length / 3 : least(2, length / 2);
    const char *nearest = NULL;

    if (length == 0 || length > NAME_MAX_)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t other = strnlen(names[i], NAME_MAX_ + 1);

        if (other > NAME_MAX_)
            continue;
        size_t d = distance(name, length, names[i], other);
        if (d < best || (d == best && !nearest)) {
            best = d;
            nearest = names[i];
        }
    }
    return nearest;
}

/* What all tables of one call know, without the FERRY_ that every name starts with. */
struct names {
    const char **list;
    size_t n;
};

#define PREFIX "FERRY_"

static bool gather(const struct fy_options *const *known, struct names *names)
{
    size_t n = 0;

    for (size_t t = 0; known[t]; t++)
        n += known[t]->n;
    *names = (struct names){.list = malloc((n + 1) * sizeof(*names->list))};
    if (!names->list)
        return false;
    for (size_t t = 0; known[t]; t++)
        for (size_t i = 0; i < known[t]->n; i++)
            names->list[names->n++] = known[t]->values[i].variable + strlen(PREFIX);
    return true;
}

static bool is_known(const struct names *names, const char *name, size_t n)
{
    for (size_t i = 0; i < names->n; i++)
        if (strncmp(names->list[i], name, n) == 0 && names->list[i][n] == '\0')
            return true;
    return false;
}

static bool is_foreign(const char *const *foreign, const char *assignment)
{
    for (; foreign && *foreign; foreign++)
        if (strncmp(assignment, *foreign, strlen(*foreign)) == 0)
            return true;
    return false;
}

/* Is the name of strings[at] that of an earlier one? */
static bool is_repeated(const char *const *strings, size_t at, size_t n)
{
    for (size_t i = 0; i < at; i++)
        if (strncmp(strings[i], strings[at], n) == 0 && (strings[i][n] == '=' || strings[i][n] == '\0'))
            return true;
    return false;
}

static void warn(const struct names *names, const char *assignment, size_t n, const struct fy_log *log)
{
    char name[NAME_MAX_ + 1];
    size_t shown = least(n, NAME_MAX_);

    memcpy(name, assignment, shown);
    name[shown] = '\0';
    const char *bare = strncmp(name, PREFIX, strlen(PREFIX)) == 0 ? name + strlen(PREFIX) : name;
    const char *near = n > NAME_MAX_ ? NULL : fy_nearest(bare, names->list, names->n);
    if (near)
        fy_log(log, FERRY_LOG_WARN, "no option is called %s; did you mean " PREFIX "%s", name, near);
    else
        fy_log(log, FERRY_LOG_WARN, "no option is called %s; it has no effect (ferry-info lists those that do)", name);
}

/* An override is meant for Ferry whatever its name; a variable of the environment only if it starts with FERRY_. */
static void look_through(const char *const *strings, bool all, const struct names *names, const char *const *foreign,
                         const struct fy_log *log)
{
    for (size_t i = 0; strings && strings[i]; i++) {
        bool ours = strncmp(strings[i], PREFIX, strlen(PREFIX)) == 0;
        size_t n = strcspn(strings[i], "=");

        if ((!ours && !all) || is_foreign(foreign, strings[i]))
            continue;
        if (strings[i][n] == '\0') {
            /* What stands here may be a value: say where it is, not what. */
            if (all)
                fy_log(log, FERRY_LOG_WARN,
                       "entry %zu of the attribute options is not of the form NAME=value and has no effect", i);
            continue;
        }
        if (ours && is_known(names, strings[i] + strlen(PREFIX), n - strlen(PREFIX)))
            continue;
        if (!is_repeated(strings, i, n))
            warn(names, strings[i], n, log);
    }
}

void fy_options_warn_unknown(const struct fy_source *source, const struct fy_options *const *known,
                             const char *const *foreign, const struct fy_log *log)
{
    struct names names;

    if (!gather(known, &names))
        return;
    look_through(source->overrides, true, &names, foreign, log);
    look_through((const char *const *)source->environ_, false, &names, foreign, log);
    free(names.list);
}
