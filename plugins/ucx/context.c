/* SPDX-License-Identifier: Apache-2.0
 * UCX's context: its configuration, what we pin of it, and which transports it found.
 * Setup thread. */
#include "ucx.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <ucs/debug/debug.h>

/* Loading libucs puts handlers of UCX on these; there is no way to have that per context. A library should not take signals
 * from its program, unless the user asked for it. Handlers that are not UCX's stay. */
static void give_signals_back(void)
{
    static const int taken[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
    struct sigaction now;
    Dl_info where, ucs;

    if (getenv("UCX_HANDLE_ERRORS") || getenv("UCX_ERROR_SIGNALS") || !dladdr((void *)(uintptr_t)ucs_debug_disable_signal, &ucs))
        return;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (!sigaction(taken[i], NULL, &now) && dladdr((void *)(uintptr_t)now.sa_handler, &where) &&
            where.dli_fbase == ucs.dli_fbase)
            ucs_debug_disable_signal(taken[i]);
}

int fy_ux_descriptors(int n)
{
    int made[FY_UX_FEW], got = 0;

    while (got < n && got < FY_UX_FEW && (made[got] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        got++;
    for (int i = 0; i < got; i++)
        close(made[i]);
    return got == n;
}

static int is(const char *name, const char *list)
{
    return fy_ux_listed(list, name, strlen(name));
}

static void add_transport(struct fy_ux_context *x, const char *name)
{
    size_t used = strlen(x->tls);

    if (is(name, x->tls))
        return;
    snprintf(x->tls + used, sizeof x->tls - used, "%s%s", used ? "," : "", name);
    if (is(name, "posix,sysv,xpmem"))
        x->shm = 1;
    else if (is(name, "tcp"))
        x->net = 1;
    else if (is(name, "self"))
        x->self = 1;
    else if (!is(name, "cma,knem")) /* these move long messages beside others, and no puts */
        x->other = 1;
}

/* A line of ucp_context_print_info: "#  resource 1 : md 1 dev 1 flags -- tcp/lo". */
static void read_line(struct fy_ux_context *x, char *line)
{
    char *slash = strrchr(line, '/'), *name;

    if (!strstr(line, "resource") || !slash)
        return;
    *slash = '\0';
    name = strrchr(line, ' ');
    if (name && name[1])
        add_transport(x, name + 1);
}

static void read_transports(struct fy_ux_context *x)
{
    char *text = NULL, *rest, *line;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    if (!file)
        return;
    ucp_context_print_info(x->ucp, file);
    fclose(file);
    for (line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
        read_line(x, line);
    free(text);
}

/* The value of one variable, as UCX prints its configuration: from the environment or from its file. */
static void read_value(const ucp_config_t *config, const char *name, char *out, size_t out_size)
{
    char *text = NULL, *rest, *line;
    size_t size = 0, length = strlen(name);
    FILE *file = open_memstream(&text, &size);

    out[0] = '\0';
    if (!file)
        return;
    ucp_config_print(config, file, NULL, UCS_CONFIG_PRINT_CONFIG);
    fclose(file);
    for (line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
        if (!strncmp(line, name, length) && line[length] == '=')
            snprintf(out, out_size, "%s", line + length + 1);
    free(text);
}

/* What the plugin relies on. Keys that the version does not know are not tried: UCX warns of them. */
static ucs_status_t pin(const struct fy_ux_options *o, ucp_config_t *config)
{
    ucs_status_t status = ucp_config_modify(config, "ATOMIC_MODE", o->device ? "device" : "cpu");

    /* Of posix memory other transports can have the file. */
    if (status == UCS_OK && !getenv("UCX_ALLOC_PRIO"))
        status = ucp_config_modify(config, "ALLOC_PRIO", "md:posix,md:sysv,md:*");
    return status;
}

static ucs_status_t initialise(const struct fy_ux_options *o, uint32_t n_pes, struct fy_ux_context *x)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED |
                                         UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME,
                           .features = UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64,
                           .mt_workers_shared = 1,
                           .estimated_num_eps = n_pes ? n_pes : 1,
                           .name = "ferry"};
    char protos[16];
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);

    if (status != UCS_OK)
        return status;
    read_value(config, "UCX_TLS", x->asked, sizeof x->asked);
    read_value(config, "UCX_PROTO_ENABLE", protos, sizeof protos);
    x->protos = protos[0] == 'y' || protos[0] == '1' || protos[0] == 't';
    status = pin(o, config);
    if (status == UCS_OK)
        status = ucp_init(&params, config, &x->ucp);
    ucp_config_release(config);
    return status;
}

int fy_ux_context_open(const struct fy_ux_options *o, uint32_t n_pes, struct fy_ux_context *x, char *why, size_t why_size)
{
    struct fy_ux_heard heard;
    ucs_status_t status;

    memset(x, 0, sizeof *x);
    give_signals_back();
    if (!fy_ux_descriptors(FY_UX_FEW)) {
        snprintf(why, why_size, "it needs %d more file descriptors; raise ulimit -n", FY_UX_FEW);
        return FERRY_ERR_DEVICE;
    }
    fy_ux_listen(&heard);
    status = initialise(o, n_pes, x);
    fy_ux_listened();
    snprintf(why, why_size, "%s", heard.text);
    if (status == UCS_OK) {
        read_transports(x);
        return FERRY_OK;
    }
    x->ucp = NULL;
    snprintf(why, why_size, "%s", fy_ux_reason(&heard, status));
    return status == UCS_ERR_NO_DEVICE ? FERRY_ERR_CONFIG : FERRY_ERR_DEVICE;
}

void fy_ux_context_close(struct fy_ux_context *x)
{
    if (x->ucp)
        ucp_cleanup(x->ucp);
    x->ucp = NULL;
}
