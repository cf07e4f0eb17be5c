/* SPDX-License-Identifier: Apache-2.0
 * ferry_info: what this library finds, what the transports can do, which options there are, for tools.
 * Any thread; makes and unmakes everything it needs. */
#include "api.h"
#include "explain.h"
#include "look.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* Where rows go. */
struct teller {
    void (*row)(void *arg, const ferry_info_row_t *row);
    void *arg;
};

static void tell(const struct teller *teller, const char *what, const char *name, const char *value, const char *state,
                 const char *origin, const char *doc)
{
    ferry_info_row_t row = {what, name, value, state, origin, doc};
    teller->row(teller->arg, &row);
}

static void tell_flags(const struct teller *teller, const char *name, uint32_t flags)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } rows[] = {{FERRY_CAP_GET, "get"}, {FERRY_CAP_PUT_SIGNAL, "put_signal"}, {FERRY_CAP_SIGNAL_STRONG, "strong signals"},
                {FERRY_CAP_FENCED, "fenced flag"}, {FERRY_CAP_FENCE_CALL, "fence call"}, {FERRY_CAP_MORE, "more"},
                {FERRY_CAP_UNREGISTERED_LOCAL, "unregistered local memory"}, {FERRY_CAP_QUIET_PEER, "quiet per peer"},
                {FERRY_CAP_TARGET_PROGRESS, "target makes progress"}, {FERRY_CAP_REMOTE_DATA, "remote completion data"},
                {FERRY_CAP_MUST_ALLOCATE, "must allocate"}, {FERRY_CAP_MAP, "maps peers' memory"},
                {FERRY_CAP_INITIATOR_PROGRESS, "initiator makes progress"}, {FERRY_CAP_DIRECT, "direct loads and stores"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        tell(teller, "capability", name, flags & rows[i].bit ? "yes" : "no", rows[i].name, "", "");
}

static void tell_atomics(const struct teller *teller, const char *name, const char *what, uint32_t bits)
{
    static const char *const kinds[FERRY_AMO_KINDS] = {"set", "add", "and", "or", "xor", "swap", "compare_swap", "fetch"};
    char text[256] = "";
    for (unsigned k = 0; k < FERRY_AMO_KINDS; k++) {
        size_t used = strlen(text);
        if (bits & FERRY_AMO_BIT(k) && k < FERRY_AMO_SWAP)
            snprintf(text + used, sizeof(text) - used, "%s%s", used ? " " : "", kinds[k]);
        used = strlen(text);
        if (bits & FERRY_AMO_FETCH_BIT(k))
            snprintf(text + used, sizeof(text) - used, "%s%s%s", used ? " " : "", k < FERRY_AMO_SWAP ? "fetch_" : "", kinds[k]);
    }
    tell(teller, "capability", name, text[0] ? text : "none", what, "", "");
}

static void tell_size(const struct teller *teller, const char *name, const char *what, size_t value, const char *zero)
{
    char text[32];
    snprintf(text, sizeof(text), "%zu", value);
    if (value == 0)
        snprintf(text, sizeof(text), "%s", zero);
    if (value >= SIZE_MAX / 2)
        snprintf(text, sizeof(text), "any");
    tell(teller, "capability", name, text, what, "", "");
}

static void tell_capabilities(const struct teller *teller, const struct fy_transport *transport)
{
    static const char *const domains[] = {"none", "cpu", "nic", "gpu"};
    const struct ferry_caps *caps = &transport->caps;
    const char *name = transport->name;
    char order[96];
    snprintf(order, sizeof(order), "%s%s%s%s%s", caps->order & FERRY_ORDER_PUT_PUT ? "put-put " : "",
             caps->order & FERRY_ORDER_PUT_AMO ? "put-atomic " : "", caps->order & FERRY_ORDER_AMO_PUT ? "atomic-put " : "",
             caps->order & FERRY_ORDER_AMO_AMO ? "atomic-atomic " : "", caps->order & FERRY_ORDER_ALL ? "" : "none ");
    order[strlen(order) - 1] = '\0';
    tell(teller, "capability", name, order, "order kept", "", "");
    tell_flags(teller, name, caps->flags);
    tell_atomics(teller, name, "4-byte atomics", caps->amo32);
    tell_atomics(teller, name, "8-byte atomics", caps->amo64);
    tell(teller, "capability", name, caps->domain < 4 ? domains[caps->domain] : "unknown", "atomicity domain", "", "");
    tell_size(teller, name, "largest copied put", caps->copy_max, "none");
    tell_size(teller, name, "largest inline put", caps->inline_max, "none");
    tell_size(teller, name, "largest message", caps->message_max, "none");
    tell_size(teller, name, "queue depth", caps->queue_depth, "any");
    tell_size(teller, name, "channels", caps->max_channels, "any");
}

/* The values that an option may have, or may have in its list. */
static void tell_choices(const struct teller *teller, const struct fy_option_value *value)
{
    const char *choice = value->row->choices;
    char word[64];
    if (value->row->type != FERRY_OPTION_CHOICE && value->row->type != FERRY_OPTION_SET)
        return;
    while (choice && *choice) {
        size_t n = strcspn(choice, "|");
        snprintf(word, sizeof(word), "%.*s", (int)n, choice);
        tell(teller, "choice", value->variable, word, "", "", "");
        choice += n + (choice[n] == '|');
    }
}

static void tell_options(const struct teller *teller, const struct fy_options *options, const char *owner)
{
    static const char *const origins[] = {"default", "environment", "attribute"};
    for (size_t i = 0; i < options->n; i++) {
        const struct fy_option_value *value = &options->values[i];
        bool secret = strcmp(value->variable, "FERRY_ID") == 0 && value->text[0];
        tell(teller, "option", value->variable, secret ? "(hidden)" : value->text, owner, origins[value->origin],
             value->row->doc);
        tell_choices(teller, value);
    }
}

/* Opens what can be opened as a job of one, so that capabilities are those of an instance and not of a brochure. */
static void tell_opened(const struct teller *teller, struct fy_route *route)
{
    struct ferry_error error;
    struct ferry_open how = {.size = sizeof(how), .my_pe = 0, .n_pes = 1, .max_channels = 1};
    randombytes_buf(how.secret, sizeof(how.secret));
    if (route->n_chosen == 0 || fy_route_open(route, &how, "", &error) != FERRY_OK)
        return;
    for (size_t i = 0; i < route->n_chosen; i++) {
        tell_capabilities(teller, route->chosen[i]);
        fy_explain(route->chosen[i], teller->row, teller->arg);
    }
}

static int survey(const struct teller *teller, struct fy_route *route, const char *spec, int all)
{
    int rc = fy_route_survey(route, spec, all);
    for (char **folder = route->folders; *folder; folder++)
        tell(teller, "search", *folder, "", "", "", "");
    if (rc == FERRY_OK)
        tell_opened(teller, route);
    for (size_t i = 0; i < route->n_candidates; i++) {
        const struct fy_transport *t = route->candidates[i];
        tell(teller, "plugin", t->name, t->path, fy_outcome_string(t->outcome), t->plugin ? t->plugin->version : "",
             t->reason[0] ? t->reason : t->probe.detail);
        tell_options(teller, &t->options, t->name);
    }
    return rc;
}

int ferry_info(const char *spec, int all, void (*row)(void *arg, const ferry_info_row_t *row), void *arg)
{
    struct teller teller = {row, arg};
    struct fy_look look;
    if (!row)
        return FERRY_ERR_ARG;
    int rc = fy_look_begin(&look, spec);
    if (rc != FERRY_OK)
        return rc;
    tell_options(&teller, &look.options, "core");
    rc = survey(&teller, look.route, look.spec, all);
    fy_look_end(&look);
    return rc;
}
