/* SPDX-License-Identifier: Apache-2.0
 * What every collective call begins with: the PEs tell each other what they were called with and what it would do, and
 * compare. Setup thread only. Nothing changes before the comparison. */
#include "internal.h"
#include <ferry/ferry.h>
#include <stdio.h>
#include <string.h>

#define CALL_TEXT 128

#define NONE UINT32_MAX

/* The calls of all PEs, as far as it takes to compare them: that of the lowest PE, of the lowest that was called otherwise, and of
 * the lowest whose heap stands otherwise. */
struct calls {
    uint32_t first, odd, stale; /* NONE: there is no such */
    uint32_t argument;          /* 1: all failed, by their arguments */
    struct fy_call first_call, odd_call, stale_call;
    struct fy_fate fate;
};

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

static bool same_call(const struct fy_call *a, const struct fy_call *b)
{
    return a->kind == b->kind && a->size == b->size && a->place == b->place && a->memory == b->memory &&
           a->flags == b->flags;
}

static bool same_state(const struct fy_call *a, const struct fy_call *b)
{
    return a->sequence == b->sequence && a->history == b->history && a->grow == b->grow;
}

static void look_at(struct calls *into, uint32_t pe, const struct fy_call *call)
{
    if (pe < into->odd && !same_call(call, &into->first_call)) {
        into->odd = pe;
        into->odd_call = *call;
    }
    if (pe < into->stale && !same_state(call, &into->first_call)) {
        into->stale = pe;
        into->stale_call = *call;
    }
}

/* Of the part with the higher first PE it is enough to look at three: who lies between them is as that first one. */
static void calls_combine(void *a, const void *b)
{
    struct calls *into = a, low;
    const struct calls *other = b;

    if (other->first < into->first) {
        low = *into;
        *into = *other;
        other = &low;
    }
    look_at(into, other->first, &other->first_call);
    if (other->odd != NONE)
        look_at(into, other->odd, &other->odd_call);
    if (other->stale != NONE)
        look_at(into, other->stale, &other->stale_call);
    into->argument &= other->argument;
    fy_fate_combine(&into->fate, &other->fate);
}

static int disagree(const struct fy_heap_state *state, const struct calls *all, uint32_t pe, struct ferry_error *error)
{
    error->peer = (int32_t)(pe == state->heap.config.my_pe ? all->first : pe);
    return error->status;
}

static int compare_calls(const struct fy_heap_state *state, const struct calls *all, struct ferry_error *error)
{
    char first[CALL_TEXT], other[CALL_TEXT];

    if (all->odd == NONE)
        return FERRY_OK;
    describe(&all->first_call, first);
    describe(&all->odd_call, other);
    fy_error_set(error, FERRY_ERR_MISMATCH, "make the same allocation calls, in the same order, on every PE",
                 "pe 0 called %s, pe %u called %s: the heap's calls are collective", first, (unsigned)all->odd, other);
    return disagree(state, all, all->odd, error);
}

static int compare_states(const struct fy_heap_state *state, const struct calls *all, struct ferry_error *error)
{
    const struct fy_call *first = &all->first_call, *call = &all->stale_call;

    if (all->stale == NONE)
        return FERRY_OK;
    if (call->sequence != first->sequence || call->history != first->history)
        fy_error_set(error, FERRY_ERR_MISMATCH, "finalize, and start again",
                     "the heaps of pe 0 and pe %u are not the same since an earlier call failed on one of them "
                     "(calls so far: %llu and %llu)",
                     (unsigned)all->stale, (unsigned long long)first->sequence, (unsigned long long)call->sequence);
    else
        fy_error_set(error, FERRY_ERR_MISMATCH, "give every PE the same values",
                     "pe 0 would grow its heap by %llu bytes, pe %u by %llu: FERRY_HEAP_CHUNK or FERRY_HEAP_SIZE "
                     "differ between them",
                     (unsigned long long)first->grow, (unsigned)all->stale, (unsigned long long)call->grow);
    return disagree(state, all, all->stale, error);
}

int fy_call_agree(struct fy_heap_state *state, struct fy_plan *plan, struct ferry_error *error)
{
    const struct fy_heap_config *config = &state->heap.config;
    struct calls all;
    int rc;

    plan->call.sequence = state->sequence++;
    plan->call.history = state->history;
    memset(&all, 0, sizeof(all)); /* it travels, and padding with it */
    all.first = config->my_pe;
    all.odd = all.stale = NONE;
    all.argument = plan->call.status == FERRY_ERR_ARG;
    all.first_call = plan->call;
    fy_fate_set(&all.fate, config->my_pe, plan->call.status, &plan->error);
    rc = config->up.reduce(config->up.arg, &all, sizeof(all), calls_combine, "allocation on the symmetric heap", error);
    if (!rc)
        rc = compare_calls(state, &all, error);
    if (rc)
        return rc;
    if (all.argument) { /* the same everywhere: each knows it by itself */
        *error = plan->error;
        return plan->call.status;
    }
    rc = fy_fate_tell(&all.fate, "", error);
    return rc ? rc : compare_states(state, &all, error);
}
