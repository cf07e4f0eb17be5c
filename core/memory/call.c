/* SPDX-License-Identifier: Apache-2.0
 * What every collective call begins with: the PEs tell each other what they were called with and what it would do, and
 * compare. Setup thread only. Nothing changes before the comparison. */
#include "internal.h"
#include <ferry/ferry.h>
#include <stdio.h>
#include <string.h>

#define CALL_TEXT 128

_Static_assert(sizeof(struct fy_call) <= FY_RECORD_MAX, "scratch is too small");

void fy_call_remember(struct fy_heap_state *state, uint64_t kind, uint64_t offset, uint64_t size)
{
    uint64_t h = state->history;

    h = (h ^ kind) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32 ^ offset) * 0xd6e8feb86659fd93u;
    h = (h ^ h >> 32 ^ size) * 0x9e3779b97f4a7c15u;
    state->history = h ^ h >> 32;
}

/* ------------------------------------------------------------------ comparison */

/* "", or " of GPU memory", …: what distinguishes the class from the plain one. */
static const char *class_text(const struct fy_call *call)
{
    static const char *const texts[FY_CLASSES] = {"", " for a single writer", " of GPU memory",
                                                  " of GPU memory for a single writer"};

    if (call->memory >= FY_KINDS || call->flags > FERRY_ALLOC_SINGLE_WRITER)
        return " of an unknown class";
    return texts[fy_class(call->memory, call->flags)];
}

static void describe_alloc(const struct fy_call *call, char text[CALL_TEXT])
{
    int n = snprintf(text, CALL_TEXT, "malloc of %llu bytes%s", (unsigned long long)call->size, class_text(call));

    if (call->place != FY_ALIGN)
        snprintf(text + n, CALL_TEXT - (size_t)n, " aligned to %llu", (unsigned long long)call->place);
}

static void describe_place(const struct fy_call *call, const char *name, char text[CALL_TEXT])
{
    if (call->place == FY_PLACE_NULL)
        snprintf(text, CALL_TEXT, "%s NULL", name);
    else if (call->place == FY_PLACE_OUTSIDE)
        snprintf(text, CALL_TEXT, "%s an address outside the heap", name);
    else
        snprintf(text, CALL_TEXT, "%s heap offset %llu", name, (unsigned long long)call->place);
}

static void describe(const struct fy_call *call, char text[CALL_TEXT])
{
    char name[64];

    switch (call->kind) {
    case FY_CALL_ALLOC:
        describe_alloc(call, text);
        break;
    case FY_CALL_FREE:
        describe_place(call, "free of", text);
        break;
    case FY_CALL_RESIZE:
        snprintf(name, sizeof(name), "realloc to %llu bytes of", (unsigned long long)call->size);
        describe_place(call, name, text);
        break;
    case FY_CALL_SHARE:
        snprintf(text, CALL_TEXT, "register_symmetric of %llu bytes", (unsigned long long)call->size);
        break;
    default:
        snprintf(text, CALL_TEXT, "deregister of symmetric buffer %llu (%llu bytes)", (unsigned long long)call->place,
                 (unsigned long long)call->size);
    }
}

static int disagree(const struct fy_heap_state *state, uint32_t pe, struct ferry_error *error)
{
    error->peer = (int32_t)(pe == state->heap.config.my_pe ? 0 : pe);
    return error->status;
}

static int compare_calls(const struct fy_heap_state *state, const struct fy_call *all, struct ferry_error *error)
{
    char first[CALL_TEXT], other[CALL_TEXT];

    for (uint32_t pe = 1; pe < state->heap.config.n_pes; pe++) {
        const struct fy_call *call = &all[pe];

        if (call->kind == all->kind && call->size == all->size && call->place == all->place &&
            call->memory == all->memory && call->flags == all->flags)
            continue;
        describe(all, first);
        describe(call, other);
        fy_error_set(error, FERRY_ERR_MISMATCH, "make the same allocation calls, in the same order, on every PE",
                     "pe 0 called %s, pe %u called %s: the heap's calls are collective", first, (unsigned)pe, other);
        return disagree(state, pe, error);
    }
    return FERRY_OK;
}

static int compare_states(const struct fy_heap_state *state, const struct fy_call *all, struct ferry_error *error)
{
    for (uint32_t pe = 1; pe < state->heap.config.n_pes; pe++) {
        const struct fy_call *call = &all[pe];

        if (call->sequence != all->sequence || call->history != all->history) {
            fy_error_set(error, FERRY_ERR_MISMATCH, "finalize, and start again",
                         "the heaps of pe 0 and pe %u are not the same since an earlier call failed on one of them "
                         "(calls so far: %llu and %llu)",
                         (unsigned)pe, (unsigned long long)all->sequence, (unsigned long long)call->sequence);
            return disagree(state, pe, error);
        }
        if (call->grow != all->grow) {
            fy_error_set(error, FERRY_ERR_MISMATCH, "give every PE the same values",
                         "pe 0 would grow its heap by %llu bytes, pe %u by %llu: FERRY_HEAP_CHUNK or FERRY_HEAP_SIZE "
                         "differ between them",
                         (unsigned long long)all->grow, (unsigned)pe, (unsigned long long)call->grow);
            return disagree(state, pe, error);
        }
    }
    return FERRY_OK;
}

/* Some PE cannot, and not because of the arguments, which are the same everywhere: the others need to hear why. */
static bool reasons_needed(const struct fy_heap_state *state, const struct fy_call *all, bool *failed)
{
    bool argument = true;

    *failed = false;
    for (uint32_t pe = 0; pe < state->heap.config.n_pes; pe++) {
        *failed |= all[pe].status < 0;
        argument &= all[pe].status == FERRY_ERR_ARG;
    }
    return *failed && !argument;
}

int fy_call_agree(struct fy_heap_state *state, struct fy_plan *plan, struct ferry_error *error)
{
    const struct fy_call *all = (const struct fy_call *)state->scratch;
    bool failed;
    int rc;

    plan->call.sequence = state->sequence++;
    plan->call.history = state->history;
    rc = fy_exchange(state, &plan->call, sizeof(plan->call), "allocation on the symmetric heap", error);
    if (!rc)
        rc = compare_calls(state, all, error);
    if (rc)
        return rc;
    if (reasons_needed(state, all, &failed))
        return fy_exchange_failure(state, plan->call.status, &plan->error, error);
    if (failed) { /* the arguments, which are the same everywhere */
        *error = plan->error;
        return plan->call.status;
    }
    return compare_states(state, all, error);
}
