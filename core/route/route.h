/* SPDX-License-Identifier: Apache-2.0
 * Finds, loads, probes, opens and orders transports; keeps the reason for every candidate that lost.
 * Setup thread only; the opened transports are then read by all. */
#ifndef FY_ROUTE_ROUTE_H
#define FY_ROUTE_ROUTE_H

#include "../base/log.h"
#include "../base/option.h"
#include "../gpu/gpu.h"
#include <ferry/transport.h>

/* Every kind of atomic: the plain ones up to SWAP, and the fetching form of all. */
#define FY_AMO_ALL (((1u << FERRY_AMO_SWAP) - 1u) | ((1u << FERRY_AMO_KINDS) - 1u) << 16)
static inline bool fy_amo_has_all(uint32_t kinds)
{
    return (kinds & FY_AMO_ALL) == FY_AMO_ALL;
}
/* Every kind can be had, some perhaps by compare-and-swap. 4 bytes: only if every kind is native. */
static inline bool fy_amo_makes_all(const struct ferry_caps *caps, unsigned width)
{
    if (width == 4)
        return fy_amo_has_all(caps->amo32);
    return fy_amo_has_all(caps->amo64) || caps->amo64 & FERRY_AMO_FETCH_BIT(FERRY_AMO_CSWAP);
}

enum fy_outcome {
    FY_FOUND,             /* file exists, not looked into */
    FY_NOT_FOUND,         /* no such file in any folder */
    FY_REFUSED_FILE,      /* dlopen failed: reason has dlerror */
    FY_REFUSED_NO_PLUGIN, /* no ferry_plugin_v1 of its own, or a malformed one */
    FY_REFUSED_ABI,       /* other major: reason has both numbers */
    FY_REFUSED_OPTION,    /* a FERRY_<NAME>_… value is bad, by its row or by probe */
    FY_NO_DEVICE,         /* probe said no */
    FY_OPEN_FAILED,
    FY_USABLE, /* probed, not asked for */
    FY_CHOSEN
};
const char *fy_outcome_string(enum fy_outcome outcome);

/* What the services in struct ferry_core need from the layers above. NULL members are answered with UNSUPPORTED. */
struct fy_route_services {
    void *arg;
    int (*watch_fd)(void *arg, int fd, void (*fn)(void *arg), void *fn_arg);
    void (*unwatch_fd)(void *arg, int fd);
    void (*error)(void *arg, const struct ferry_error *record);
    void (*deliver)(void *arg, uint32_t from_pe, uint64_t data);
    struct fy_gpu *gpu; /* whose memory the job's PEs may share; NULL: none */
};

/* One candidate, and when it was opened, one transport. Its ops table is complete: every member may be called. */
struct fy_transport {
    char name[32];
    char path[512];
    enum fy_outcome outcome;
    char reason[512];
    struct ferry_probe probe;
    const struct ferry_plugin *plugin; /* NULL until accepted */
    struct fy_options options;
    struct ferry_core core; /* what the plugin was given */
    struct fy_route *route;
    void *library;                  /* dlopen handle; kept until fy_route_close */
    struct ferry_transport *handle; /* NULL until opened */
    struct ferry_host_ops ops;      /* plugin's table over the defaults */
    struct ferry_caps caps;         /* host memory */
    struct ferry_error open_error;  /* what the plugin reported while opening */
    struct fy_transport *wrapped;   /* for a hook: what it wraps */
    int by_path;                    /* named by a path: the plugin's own name counts, not the file's */
    int examined;
    int phase; /* enum fy_phase of internal.h; atomic */
};

struct fy_route {
    const struct fy_log *log;
    const struct fy_source *source;
    struct fy_route_services services;
    char *folders[34];                /* search order, NULL-ended */
    struct fy_transport **candidates; /* all that were looked at */
    size_t n_candidates;
    struct fy_transport **chosen; /* outermost instance per choice, in order of preference */
    size_t n_chosen;
    const struct fy_transport *told; /* whose reason and advice are in the record that is handed out; NULL: nobody's */
    int asked;                       /* 1: the user named transports, 0: auto */
    bool one_host;                   /* all PEs run on one host, as one user: set before opening */
    int secure;                      /* set-uid program: paths in the environment are ignored */
    pthread_mutex_t lock;            /* guards every open_error */
};

/* `error` is never NULL below.
 * Folders: FERRY_PLUGIN_PATH (not from the environment of a set-uid program), the folder beside the core library
 * (ferry/plugins-v1 of an installation, else plugins of a build tree), the compiled-in folder. */
int fy_route_create(const struct fy_log *log, const struct fy_source *source, const struct fy_route_services *services,
                    struct fy_route **route);
/* Loads what `spec` names (auto: every plugin in the folders), checks ABI and options, probes. Fails with a record
 * whose message says which name and why (and the nearest name), and logs the table, if a named one is not usable.
 * Nothing is open yet. */
int fy_route_select(struct fy_route *route, const char *spec, struct ferry_error *error);
/* Opens the chosen ones, wraps them in `hooks` (comma list or ""). In auto, those that fail to open are dropped. */
int fy_route_open(struct fy_route *route, const struct ferry_open *how, const char *hooks, struct ferry_error *error);
/* unknown.c: warns about variables that are no option, of the core or of a plugin that was loaded. */
void fy_route_warn_unknown(const struct fy_route *route, const struct fy_options *core, const struct fy_log *log);
/* For ferry_info: everything in the folders, or what spec names, loaded and probed; no error for what is unusable. What
 * would be chosen is in `chosen`, and may be opened. `all`: also the rest of the folders, files hidden by an earlier
 * folder included. FERRY_ERR_CONFIG, logged, for a spec that cannot be read. */
int fy_route_survey(struct fy_route *route, const char *spec, int all);
/* Has it a connect of its own, which wants the peer's endpoint? */
bool fy_transport_connects(const struct fy_transport *transport);
/* The reasons table, lines ended by newline, to be freed by the caller: candidate, outcome, file, reason, what to do.
 */
char *fy_route_table(const struct fy_route *route);
/* "loopback 0.1.0 abi 1.0, ibrc …": what PEs compare. Without hooks: one PE alone may be watched or disturbed. */
void fy_route_signature(const struct fy_route *route, char *out, size_t size);
/* Posts a batch: by the transport's own post, or one by one where it has none. Channel thread, like host_ops.post. */
int fy_transport_post(struct fy_transport *t, uint32_t channel, const struct ferry_op *ops, size_t n, size_t *done);
/* What a plugin that was loaded says of itself; FERRY_ERR_UNSUPPORTED: nothing of that kind. */
int fy_transport_report(struct fy_transport *t, const struct ferry_report *ask);
/* What to do about a candidate that is not usable; NULL: nothing. */
const char *fy_route_advice(const struct fy_transport *t);
/* Closes the chosen ones from number n on: nobody needs them. */
void fy_route_keep(struct fy_route *route, size_t n);
/* Closes transports, then frees; libraries stay loaded (drivers do not survive dlclose). */
void fy_route_close(struct fy_route *route);

#endif
