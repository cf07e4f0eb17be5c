/* SPDX-License-Identifier: Apache-2.0
 * UCX's context: its configuration, what we pin of it, and which transports it found.
 * Setup thread. */
#include "ucx.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    if (is(name, "xpmem"))
        x->attaches = 1;
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
    name = strrchr(line, ' ');
    if (name)
        snprintf(x->lanes + strlen(x->lanes), sizeof x->lanes - strlen(x->lanes), "%s%s", x->lanes[0] ? ", " : "", name + 1);
    *slash = '\0';
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
static ucs_status_t pin(const struct fy_ux_options *o, struct fy_ux_context *x, ucp_config_t *config)
{
    ucs_status_t status = ucp_config_modify(config, "ATOMIC_MODE", o->device ? "device" : "cpu");

    /* Those of the second generation (the default from 1.16 on) find no way for atomics by tcp. */
    if (status == UCS_OK && x->protos && !getenv("UCX_PROTO_ENABLE")) {
        status = ucp_config_modify(config, "PROTO_ENABLE", "n");
        x->protos = 0;
    }
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
    status = pin(o, x, config);
    if (status == UCS_OK)
        status = ucp_init(&params, config, &x->ucp);
    ucp_config_release(config);
    return status;
}

/* What UCX said, without the sentence that only repeats it; and which name may have been meant. */
static void tell_reason(struct fy_ux_heard *heard, ucs_status_t status, char *why, size_t why_size)
{
    char *again = strstr(heard->text, "; no usable transports"), meant[32];

    if (again)
        *again = '\0';
    snprintf(why, why_size, "%s", status == UCS_OK ? heard->text : fy_ux_reason(heard, status));
    if (fy_ux_meant(heard->text, meant, sizeof meant))
        snprintf(why + strlen(why), why_size - strlen(why), "; did you mean %s?", meant);
}

int fy_ux_context_open(const struct fy_ux_options *o, uint32_t n_pes, struct fy_ux_context *x, char *why, size_t why_size)
{
    struct fy_ux_heard heard;
    ucs_status_t status;

    memset(x, 0, sizeof *x);
    if (!fy_ux_descriptors(FY_UX_FEW)) {
        snprintf(why, why_size, "it needs %d more file descriptors; raise ulimit -n", FY_UX_FEW);
        return FERRY_ERR_DEVICE;
    }
    fy_ux_listen(&heard);
    status = initialise(o, n_pes, x);
    fy_ux_listened();
    tell_reason(&heard, status, why, why_size);
    if (status == UCS_OK) {
        read_transports(x);
        return FERRY_OK;
    }
    x->ucp = NULL;
    return status == UCS_ERR_NO_DEVICE ? FERRY_ERR_CONFIG : FERRY_ERR_DEVICE;
}

void fy_ux_context_close(struct fy_ux_context *x)
{
    if (x->ucp)
        ucp_cleanup(x->ucp);
    x->ucp = NULL;
}
