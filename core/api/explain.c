/* SPDX-License-Identifier: Apache-2.0
 * What a transport does itself, what the core makes of the rest, and what that costs: the rows of ferry-info --explain.
 * Derived from the same capabilities, by the same rules, as the lanes of a job whose only transport it is. Any thread. */
#include "explain.h"

#include <stdio.h>

struct teller {
    void (*row)(void *arg, const ferry_info_row_t *row);
    void *arg;
    const char *transport;
    const struct ferry_caps *caps;
};

static void tell(const struct teller *t, const char *feature, const char *how, const char *cost)
{
    ferry_info_row_t row = {"explain", t->transport, feature, how, "host", cost};
    t->row(t->arg, &row);
}

static bool has(const struct teller *t, uint32_t flag)
{
    return t->caps->flags & flag;
}

static void explain_messages(const struct teller *t)
{
    char text[128];
    snprintf(text, sizeof(text), "longer ones are cut into messages of %zu bytes", t->caps->message_max);
    tell(t, "put", "native", t->caps->message_max >= SIZE_MAX / 2 ? "" : text);
    if (has(t, FERRY_CAP_GET))
        tell(t, "get", "native", t->caps->message_max >= SIZE_MAX / 2 ? "" : text);
    else
        tell(t, "get", "made", "a request to the target's mailbox, answered by a put: a round trip, and its CPU");
}

/* How something is kept behind what the transport does not order. */
static void explain_border(const struct teller *t, const char *feature, bool ordered, bool signal)
{
    if (ordered)
        tell(t, feature, "native", "the transport keeps the order: a fence costs nothing");
    else if (has(t, FERRY_CAP_FENCED))
        tell(t, feature, "native", "by its fenced flag, on the operation behind the fence");
    else if (has(t, FERRY_CAP_FENCE_CALL))
        tell(t, feature, "native", "by its fence call, which does not wait");
    else if (signal && has(t, FERRY_CAP_REMOTE_DATA))
        tell(t, feature, "made", "arrivals are counted by remote completion data; the signal goes by mailbox and waits at the target");
    else
        tell(t, feature, "made", "a wait for that channel and peer alone, once per fence");
}

/* Without the transport's own: SET is a put of a word, ADD an atomic add, whoever does it. */
static void explain_signals(const struct teller *t)
{
    bool native = has(t, FERRY_CAP_PUT_SIGNAL) && has(t, FERRY_CAP_SIGNAL_STRONG);
    bool adds = t->caps->domain != FERRY_DOMAIN_NONE && t->caps->amo64 & FERRY_AMO_BIT(FERRY_AMO_ADD);
    if (native) {
        tell(t, "put with signal SET", "native", "");
        tell(t, "put with signal ADD", "native", "");
        return;
    }
    explain_border(t, "put with signal SET", t->caps->order & FERRY_ORDER_PUT_PUT, true);
    if (adds)
        explain_border(t, "put with signal ADD", t->caps->order & FERRY_ORDER_PUT_AMO, true);
    else
        tell(t, "put with signal ADD", "made", "a request to the mailbox behind the put: a round trip, and the target's CPU");
}

static void explain_order(const struct teller *t)
{
    explain_border(t, "put after fence after put", t->caps->order & FERRY_ORDER_PUT_PUT, false);
    explain_border(t, "atomic after fence after put", t->caps->order & FERRY_ORDER_PUT_AMO, false);
    explain_border(t, "put after fence after atomic", t->caps->order & FERRY_ORDER_AMO_PUT, false);
    explain_signals(t);
    tell(t, "put with weak signal", has(t, FERRY_CAP_PUT_SIGNAL) ? "native" : "made",
         has(t, FERRY_CAP_PUT_SIGNAL) ? "" : "as a strong one");
}

/* "set, fetch_and" */
static void name_kinds(uint32_t kinds, char *out, size_t size)
{
    static const char *const names[FERRY_AMO_KINDS] = {"set", "add", "and", "or", "xor", "swap", "compare_swap", "fetch"};
    size_t used = 0;
    out[0] = '\0';
    for (unsigned k = 0; k < FERRY_AMO_KINDS; k++) {
        if (kinds & FERRY_AMO_BIT(k))
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", names[k]);
        if (kinds & FERRY_AMO_FETCH_BIT(k) && k != FERRY_AMO_SET) /* which is swap */
            used += (size_t)snprintf(out + used, size - used, "%s%s%s", used ? ", " : "", k < FERRY_AMO_SWAP ? "fetch_" : "",
                                     names[k]);
    }
}

/* Other kinds than the native ones, by the rule of domains. */
static void explain_atomics(const struct teller *t, const char *feature, uint32_t kinds, bool wide)
{
    bool card = t->caps->domain == FERRY_DOMAIN_NIC;
    uint32_t own = t->caps->domain == FERRY_DOMAIN_NONE ? 0 : kinds & FY_AMO_ALL;
    char lacking[160], text[256];
    name_kinds(FY_AMO_ALL & ~own, lacking, sizeof(lacking));
    if (fy_amo_has_all(own)) {
        tell(t, feature, "native", "");
    } else if (card && wide && own & FERRY_AMO_FETCH_BIT(FERRY_AMO_CSWAP)) {
        snprintf(text, sizeof(text), "%s: a loop of compare-and-swaps, at least one round trip each", lacking);
        tell(t, feature, "native, made", text);
    } else if (own && !card) {
        snprintf(text, sizeof(text), "%s: by mailbox, a round trip and the target's CPU", lacking);
        tell(t, feature, "native, made", text);
    } else {
        tell(t, feature, "made", own ? "by mailbox, all of them: a card's few and a CPU's would not be exclusive"
                                     : "by mailbox: a round trip and the target's CPU");
    }
}

static void explain_local(const struct teller *t)
{
    if (has(t, FERRY_CAP_UNREGISTERED_LOCAL))
        tell(t, "unregistered local memory", "native", "");
    else
        tell(t, "unregistered local memory", "made",
             "copied through registered memory up to FERRY_BOUNCE_SIZE, longer ones registered until quiet");
    if (t->caps->copy_max)
        tell(t, "source free on return", "native", t->caps->copy_max >= SIZE_MAX / 2 ? "" : "longer ones: a wait for completion");
    else
        tell(t, "source free on return", "made", "a blocking put waits for its completion");
}

static void explain_completion(const struct teller *t)
{
    tell(t, "quiet of one peer", has(t, FERRY_CAP_QUIET_PEER) ? "native" : "made",
         has(t, FERRY_CAP_QUIET_PEER) ? "" : "quiet of the whole channel");
    tell(t, "progress at the target", has(t, FERRY_CAP_TARGET_PROGRESS) ? "made" : "native",
         has(t, FERRY_CAP_TARGET_PROGRESS) ? "a service thread per PE" : "");
    tell(t, "progress at the initiator", has(t, FERRY_CAP_INITIATOR_PROGRESS) ? "made" : "native",
         has(t, FERRY_CAP_INITIATOR_PROGRESS) ? "waits and a service thread push every busy channel, under its lock" : "");
    tell(t, "small operations", has(t, FERRY_CAP_DIRECT) ? "made" : "native",
         has(t, FERRY_CAP_DIRECT) ? "the core's own loads and stores: no call into the transport" : "");
}

void fy_explain(const struct fy_transport *transport, void (*row)(void *arg, const ferry_info_row_t *row), void *arg)
{
    const struct teller t = {row, arg, transport->name, &transport->caps};
    explain_messages(&t);
    explain_order(&t);
    explain_atomics(&t, "8-byte atomics", t.caps->amo64, true);
    explain_atomics(&t, "4-byte atomics", t.caps->amo32, false);
    explain_local(&t);
    explain_completion(&t);
}
