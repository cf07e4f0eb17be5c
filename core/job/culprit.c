/* SPDX-License-Identifier: Apache-2.0
 * Who waits for whom, followed to its end: the PE that does not answer, or that waits for nobody while others wait for it.
 * Pure functions over the answers; any thread. */
#include "report.h"

#include <stdio.h>

/* The one that it has waited for longest, -1: none that is known. */
static int waits_for(const struct fy_state *state)
{
    const struct fy_state_wait *longest = NULL;
    for (uint32_t i = 0; i < state->n_waits; i++)
        if (state->waits[i].peer >= 0 && (!longest || state->waits[i].age > longest->age))
            longest = &state->waits[i];
    return longest ? longest->peer : -1;
}

static const char *silence(enum fy_answered how)
{
    return how == FY_DEAD ? "is dead" : how == FY_GONE ? "has closed its job" : "does not answer";
}

struct walk {
    int last, before; /* where it ended, and who waits for that one; -1: nobody */
    bool circle;
};

/* From one PE to the one it waits for, as long as that is known. No walk is longer than there are PEs, but for circles. */
static struct walk follow(const struct fy_answer *answers, uint32_t n, uint32_t from)
{
    struct walk walk = {(int)from, -1, false};
    for (uint32_t steps = 0; steps <= n; steps++) {
        const struct fy_answer *at = &answers[walk.last];
        int next = at->how == FY_ANSWERED ? waits_for(at->state) : -1;
        if (next < 0 || (uint32_t)next >= n)
            return walk;
        walk.before = walk.last;
        walk.last = next;
    }
    walk.circle = true;
    return walk;
}

static bool is_lost(const struct fy_answer *answer)
{
    return answer->how == FY_SILENT || answer->how == FY_DEAD || answer->how == FY_GONE;
}

/* Ends of walks: first of those that do not answer, then of those that are in no wait at all. */
static int end_of_walks(const struct fy_answer *answers, uint32_t n, bool lost, char *why, size_t size)
{
    for (uint32_t i = 0; i < n; i++) {
        struct walk walk = follow(answers, n, i);
        const struct fy_answer *end = &answers[walk.last];
        if (walk.circle || walk.before < 0)
            continue;
        if (lost ? !is_lost(end) : end->how != FY_ANSWERED || end->state->n_waits)
            continue;
        snprintf(why, size, "pe %d waits for pe %d, which %s", walk.before, walk.last,
                 lost ? silence(end->how) : "is in no call of ferry that waits");
        return walk.last;
    }
    return -1;
}

static int the_lost(const struct fy_answer *answers, uint32_t n, char *why, size_t size)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!is_lost(&answers[i]) || answers[i].how == FY_GONE)
            continue;
        snprintf(why, size, "pe %u %s", i, silence(answers[i].how));
        return (int)i;
    }
    return -1;
}

/* Where it is not known whom the others wait for: the only one that does not wait. */
static int the_busy(const struct fy_answer *answers, uint32_t n, char *why, size_t size)
{
    int busy = -1;
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (answers[i].how != FY_ANSWERED)
            return -1;
        if (answers[i].state->n_waits)
            waiting++;
        else if (busy >= 0)
            return -1;
        else
            busy = (int)i;
    }
    if (busy >= 0 && waiting)
        snprintf(why, size, "all others wait, and pe %d is in no call of ferry that waits", busy);
    return waiting ? busy : -1;
}

int fy_culprit(const struct fy_answer *answers, uint32_t n, char *why, size_t size)
{
    int who = end_of_walks(answers, n, true, why, size);
    if (who < 0)
        who = the_lost(answers, n, why, size);
    if (who < 0)
        who = end_of_walks(answers, n, false, why, size);
    if (who < 0)
        who = the_busy(answers, n, why, size);
    if (who >= 0)
        return who;
    snprintf(why, size, "nobody is known to keep others waiting");
    for (uint32_t i = 0; i < n; i++) {
        struct walk walk = follow(answers, n, i);
        if (walk.circle) {
            snprintf(why, size, "pes %d and %d wait for each other, perhaps by way of others", walk.before, walk.last);
            break;
        }
    }
    return -1;
}
