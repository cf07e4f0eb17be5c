/* SPDX-License-Identifier: Apache-2.0
 * What is worn: reading the option, the capabilities that are left, and what an instance with a guise owns.
 * Setup thread. */
#include "guise.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t worn;
} words[] = {
    {"no-amo", FY_LB_NO_AMO},
    {"no-fetch", FY_LB_NO_FETCH},
    {"no-get", FY_LB_NO_GET},
    {"no-signal", FY_LB_NO_SIGNAL},
    {"unordered", FY_LB_UNORDERED},
    {"no-fenced", FY_LB_NO_FENCED},
    {"cq-data", FY_LB_CQ_DATA},
    {"weak-signal", FY_LB_WEAK_SIGNAL},
    {"max-msg", FY_LB_MAX_MSG},
    {"inline", FY_LB_INLINE},
    {"copy", FY_LB_COPY},
    {"no-unreg", FY_LB_NO_UNREG},
    {"target-progress", FY_LB_TARGET_PROGRESS},
    {"channel-scope", FY_LB_CHANNEL_SCOPE},
    {"depth", FY_LB_DEPTH},
    {"must-alloc", FY_LB_MUST_ALLOC},
    {"gpu-like", FY_LB_GPU_LIKE},
    {"nic", FY_LB_NIC},
    {"hosts", FY_LB_HOSTS},
};

#define NEED_PAGE (FY_LB_CQ_DATA | FY_LB_TARGET_PROGRESS | FY_LB_NIC)

static uint32_t find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].name) == n && !memcmp(words[i].name, name, n))
            return words[i].worn;
    return 0;
}

static int bad_number(struct ferry_transport *t, const char *word, int length, const char *range)
{
    return fy_lb_fail(t, -1, FERRY_ERR_CONFIG, 0, "", "the guise %.*s of loopback is out of range: %s", length, word,
                      range);
}

/* The core has checked names and that numbers are numbers. */
static int take_number(struct ferry_transport *t, struct fy_lb_choice *c, uint32_t worn, const char *word, int length,
                       long long n)
{
    switch (worn) {
    case FY_LB_MAX_MSG:
        c->message_max = (size_t)n;
        return n >= 8 ? FERRY_OK : bad_number(t, word, length, "max-msg takes 8 and more, since a word goes whole");
    case FY_LB_INLINE:
        c->inline_max = (size_t)n;
        return n >= 0 ? FERRY_OK : bad_number(t, word, length, "inline takes 0 and more");
    case FY_LB_COPY:
        c->copy_max = (size_t)n;
        return n >= 0 ? FERRY_OK : bad_number(t, word, length, "copy takes 0 and more");
    case FY_LB_DEPTH:
        c->depth = (uint32_t)n;
        return n >= 1 && n <= 65536 ? FERRY_OK : bad_number(t, word, length, "depth takes 1 to 65536");
    case FY_LB_HOSTS:
        c->hosts = (uint32_t)n;
        return n >= 1 && n <= 65536 ? FERRY_OK : bad_number(t, word, length, "hosts takes 1 to 65536");
    default:
        return FERRY_OK;
    }
}

static int read_choice(struct ferry_transport *t, const char *text, struct fy_lb_choice *c)
{
    *c = (struct fy_lb_choice){.hosts = 1};
    for (const char *word = text; word && *word;) {
        size_t length = strcspn(word, ","), name = strcspn(word, ",=");
        uint32_t worn = find(word, name);
        int status = FERRY_OK;

        if (!worn)
            return fy_lb_fail(t, -1, FERRY_ERR_CONFIG, 0, "", "loopback has no guise %.*s", (int)length, word);
        if (name < length)
            status = take_number(t, c, worn, word, (int)length, strtoll(word + name + 1, NULL, 0));
        if (status)
            return status;
        c->worn |= worn;
        word = word[length] ? word + length + 1 : NULL;
    }
    return FERRY_OK;
}

static void less(uint32_t *flags, uint32_t worn, uint32_t when, uint32_t gone)
{
    if (worn & when)
        *flags &= ~gone;
}

/* A native signal would be an atomic in a domain of its own where the NIC makes atomics or nobody does. */
static void choose_flags(uint32_t worn, struct ferry_caps *caps)
{
    const uint32_t signal = FERRY_CAP_PUT_SIGNAL | FERRY_CAP_SIGNAL_STRONG;

    less(&caps->flags, worn, ~(uint32_t)FY_LB_HOSTS, FERRY_CAP_DIRECT); /* the core would go round the guise */
    less(&caps->flags, worn, FY_LB_NO_GET, FERRY_CAP_GET);
    less(&caps->flags, worn, FY_LB_NO_AMO | FY_LB_NIC | FY_LB_CQ_DATA | FY_LB_NO_SIGNAL, signal);
    less(&caps->flags, worn, FY_LB_WEAK_SIGNAL, FERRY_CAP_SIGNAL_STRONG);
    less(&caps->flags, worn, FY_LB_NO_FENCED | FY_LB_CQ_DATA, FERRY_CAP_FENCED);
    less(&caps->flags, worn, FY_LB_NO_UNREG, FERRY_CAP_UNREGISTERED_LOCAL);
    less(&caps->flags, worn, FY_LB_CHANNEL_SCOPE, FERRY_CAP_QUIET_PEER);
    if (worn & FY_LB_CQ_DATA)
        caps->flags |= FERRY_CAP_REMOTE_DATA | FERRY_CAP_TARGET_PROGRESS;
    if (worn & FY_LB_TARGET_PROGRESS)
        caps->flags |= FERRY_CAP_TARGET_PROGRESS;
    if (worn & FY_LB_MUST_ALLOC)
        caps->flags |= FERRY_CAP_MUST_ALLOCATE;
}

static void choose_atomics(uint32_t worn, struct ferry_caps *caps)
{
    const uint32_t nic =
        FERRY_AMO_BIT(FERRY_AMO_ADD) | FERRY_AMO_FETCH_BIT(FERRY_AMO_ADD) | FERRY_AMO_FETCH_BIT(FERRY_AMO_CSWAP);
    const uint32_t fetching = ((1u << FERRY_AMO_KINDS) - 1u) << 16;

    if (worn & FY_LB_NIC) {
        caps->domain = FERRY_DOMAIN_NIC;
        caps->amo32 = 0;
        caps->amo64 = nic;
    }
    less(&caps->amo32, worn, FY_LB_NO_FETCH, fetching);
    less(&caps->amo64, worn, FY_LB_NO_FETCH, fetching);
    if (worn & FY_LB_NO_AMO)
        caps->amo32 = caps->amo64 = 0;
    if (!caps->amo64)
        caps->domain = FERRY_DOMAIN_NONE;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void choose_limits(const struct fy_lb_choice *c, struct ferry_caps *caps)
{
    if (c->worn & (FY_LB_UNORDERED | FY_LB_CQ_DATA))
        caps->order = 0;
    if (c->worn & FY_LB_MAX_MSG)
        caps->message_max = c->message_max;
    if (c->worn & FY_LB_COPY)
        caps->copy_max = c->copy_max;
    if (c->worn & FY_LB_INLINE)
        caps->inline_max = c->inline_max;
    caps->copy_max = least(caps->copy_max, caps->message_max);
    caps->inline_max = least(caps->inline_max, caps->copy_max);
    caps->queue_depth = c->depth;
}

/* As far as moving goes, like host memory. The CPU cannot touch it: no copy, no mapping, no atomics, no signals. */
static void choose_gpu(const struct ferry_caps *host, struct ferry_caps *gpu)
{
    *gpu = *host;
    gpu->flags &= ~(FERRY_CAP_MAP | FERRY_CAP_UNREGISTERED_LOCAL | FERRY_CAP_PUT_SIGNAL | FERRY_CAP_SIGNAL_STRONG);
    gpu->flags |= FERRY_CAP_MUST_ALLOCATE;
    gpu->domain = FERRY_DOMAIN_NONE;
    gpu->amo32 = gpu->amo64 = 0;
    gpu->copy_max = gpu->inline_max = 0;
}

static int allocate_parts(struct fy_lb_guise *g, const struct ferry_open *how)
{
    size_t pes = how->n_pes ? how->n_pes : 1;

    g->max_channels = how->max_channels;
    g->channels = calloc(how->max_channels ? how->max_channels : 1, sizeof *g->channels);
    g->pages = calloc(pes, sizeof *g->pages);
    g->queues = calloc(how->max_channels ? how->max_channels : 1, sizeof *g->queues);
    g->gone = calloc(pes, sizeof *g->gone);
    g->reserved = calloc(pes, sizeof *g->reserved);
    return g->channels && g->pages && g->queues && g->gone && g->reserved ? FERRY_OK : FERRY_ERR_NOMEM;
}

static int make(struct ferry_transport *t, const struct fy_lb_choice *choice, const struct ferry_open *how)
{
    struct fy_lb_guise *g = calloc(1, sizeof *g);

    if (!g)
        return fy_lb_fail(t, -1, FERRY_ERR_NOMEM, ENOMEM, "", "no memory for a guise of loopback");
    t->guise = g;
    g->choice = *choice;
    pthread_mutex_init(&g->ring_lock, NULL);
    if (allocate_parts(g, how))
        return fy_lb_fail(t, -1, FERRY_ERR_NOMEM, ENOMEM, "", "no memory for a guise of loopback towards %u PEs",
                          how->n_pes);
    fy_lb_plain_caps(&g->caps[FERRY_MEMORY_HOST]);
    choose_flags(choice->worn, &g->caps[FERRY_MEMORY_HOST]);
    choose_atomics(choice->worn, &g->caps[FERRY_MEMORY_HOST]);
    choose_limits(choice, &g->caps[FERRY_MEMORY_HOST]);
    if (choice->worn & FY_LB_GPU_LIKE)
        choose_gpu(&g->caps[FERRY_MEMORY_HOST], &g->caps[FERRY_MEMORY_GPU]);
    if (t->gpu) {
        g->caps[FERRY_MEMORY_HOST].flags &= ~FERRY_CAP_DIRECT; /* the core's stores would pass copies that are under way */
        fy_lb_gpu_caps(&g->caps[FERRY_MEMORY_HOST], &g->caps[FERRY_MEMORY_GPU]);
    }
    g->deferred = (choice->worn & (FY_LB_TARGET_PROGRESS | FY_LB_DEPTH)) != 0;
    return choice->worn & NEED_PAGE ? fy_lb_page_make(t) : FERRY_OK;
}

int fy_lb_guise_open(struct ferry_transport *t, const struct ferry_open *how)
{
    struct ferry_value text = {.string = ""};
    struct fy_lb_choice choice;
    int status;

    if (t->core->option(t->core, "guise", &text))
        return fy_lb_fail(t, -1, FERRY_ERR_CONFIG, 0, "", "loopback cannot get the option guise");
    status = read_choice(t, text.string, &choice);
    if (!status && !(choice.worn & ~(uint32_t)FY_LB_HOSTS)) /* what else is worn knows nothing of copies */
        fy_lb_gpu_open(t);
    if (status || (!choice.worn && !t->gpu))
        return status;
    return make(t, &choice, how);
}

/* Pages of peers are keys of this instance, and its own is one of its regions: both are closed with the rest. */
void fy_lb_guise_close(struct ferry_transport *t)
{
    struct fy_lb_guise *g = t->guise;

    if (!g)
        return;
    for (uint32_t i = 0; g->queues && i < g->max_channels; i++)
        fy_lb_close_channel(t, i);
    for (uint32_t i = 0; g->channels && i < g->max_channels; i++) {
        for (uint32_t pe = 0; g->channels[i] && pe < t->n_pes; pe++)
            free(g->channels[i]->flows[pe].records);
        free(g->channels[i]);
    }
    free(g->channels);
    free(g->pages);
    free(g->queues);
    free(g->gone);
    free(g->reserved);
    pthread_mutex_destroy(&g->ring_lock);
    free(g);
    t->guise = NULL;
}
