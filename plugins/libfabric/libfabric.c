/* SPDX-License-Identifier: Apache-2.0
 * The libfabric transport: the plugin's table, opening and closing, capabilities.
 * Setup thread. The data path is quick.c, post.c and poll.c; README.md has the map. */
#include "libfabric.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    uint32_t size = caps->size;
    const struct fy_lf_provider *p = &t->provider;
    struct ferry_caps mine = {
        .flags = FERRY_CAP_GET | FERRY_CAP_QUIET_PEER | FERRY_CAP_TARGET_PROGRESS,
        .order = p->order,
        .domain = t->amo64 ? p->domain : FERRY_DOMAIN_NONE,
        .amo32 = t->amo32,
        .amo64 = t->amo64,
        .copy_max = p->inject > FY_LF_STASH ? p->inject : FY_LF_STASH,
        .inline_max = p->inject ? p->inject : FY_LF_STASH,
        .message_max = t->info->ep_attr->max_msg_size,
        .queue_depth = (uint32_t)t->options.depth,
        .max_channels = t->max_channels,
    };

    if (memory_kind != FERRY_MEMORY_HOST)
        return FERRY_ERR_UNSUPPORTED;
    if (!t->local)
        mine.flags |= FERRY_CAP_UNREGISTERED_LOCAL;
    if (t->manual)
        mine.flags |= FERRY_CAP_INITIATOR_PROGRESS;
    if (t->data)
        mine.flags |= FERRY_CAP_REMOTE_DATA;
    if (p->fence)
        mine.flags |= FERRY_CAP_FENCED;
    if (p->more)
        mine.flags |= FERRY_CAP_MORE;
    memcpy(caps, &mine, size < sizeof mine ? size : sizeof mine);
    caps->size = size;
    return FERRY_OK;
}

static int close_transport(struct ferry_transport *t)
{
    fy_lf_clean(t);
    fy_lf_channels_close(t);
    fy_lf_queue_close(&t->service);
    if (t->count)
        fi_close(&t->count->fid);
    fy_lf_memory_close(t);
    if (t->domain)
        fi_close(&t->domain->fid);
    if (t->fabric)
        fi_close(&t->fabric->fid);
    if (t->info)
        fi_freeinfo(t->info);
    if (t->each)
        fi_freeinfo(t->each);
    free(t->processes);
    free(t->scratch);
    pthread_mutex_destroy(&t->lock);
    free(t);
    return FERRY_OK;
}

/* Addresses of one name space, and memory files of one folder, are what PEs of a host share. */
static uint64_t host_number(void)
{
    uint64_t number = 14695981039346656037u; /* FNV-1a */
    static const char *const files[] = {"/dev/shm", "/proc/self/ns/net", "/proc/self/ns/pid"};
    char boot[64] = "";
    struct stat st;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        ssize_t n = read(fd, boot, sizeof boot - 1);
        close(fd);
        for (ssize_t i = 0; i < n; i++)
            number = (number ^ (unsigned char)boot[i]) * 1099511628211u;
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (!stat(files[i], &st))
            number = ((number ^ st.st_dev) * 1099511628211u ^ st.st_ino) * 1099511628211u;
    return number;
}

/* fi_… that failed while an instance is made. */
static int lacks(struct ferry_transport *t, const char *call, int rc)
{
    return fy_lf_fail(t, -1, rc == -FI_ENOMEM ? FERRY_ERR_NOMEM : FERRY_ERR_DEVICE, -rc,
                      "run with FI_LOG_LEVEL=warn to see what the provider says", "provider %s: %s: %s", t->name, call,
                      fi_strerror(-rc));
}

/* Peers' puts and gets complete without an entry in the queue. Something has to tell the service thread that it is being
 * used, or it goes to sleep for a millisecond between two of them. */
static int open_service(struct ferry_transport *t)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
    int counts = (t->info->caps & FI_RMA_EVENT) != 0, rc = -FI_ENOSYS;

    t->bell = -1;
    if (!counts && t->manual)
        rc = fy_lf_queue_open(t, &t->service, 4096, FI_WAIT_FD);
    if (!rc && fi_control(&t->service.cq->fid, FI_GETWAIT, &t->bell))
        t->bell = -1;
    if (rc)
        rc = fy_lf_queue_open(t, &t->service, 4096, FI_WAIT_NONE);
    if (!rc && counts && !fi_cntr_open(t->domain, &attr, &t->count, NULL))
        t->service.count = t->count;
    t->alternate = t->count && t->manual;
    return rc ? rc : fy_lf_endpoint_open(&t->service, t->info, &t->service.ep, &t->service.av);
}

static int open_domain(struct ferry_transport *t)
{
    uint64_t mode = (uint64_t)t->info->domain_attr->mr_mode;
    int rc = fi_fabric(t->info->fabric_attr, &t->fabric, NULL);

    if (rc)
        return lacks(t, "fi_fabric", rc);
    rc = fi_domain(t->fabric, t->info, &t->domain, NULL);
    if (rc)
        return lacks(t, "fi_domain", rc);
    t->virt = (mode & FI_MR_VIRT_ADDR) != 0;
    t->local = (mode & FI_MR_LOCAL) != 0;
    t->data = t->info->domain_attr->cq_data_size >= 8; /* the sender's number and 32 bits of its own */
    t->manual = t->info->domain_attr->data_progress != FI_PROGRESS_AUTO;
    rc = open_service(t);
    if (rc)
        return rc;
    if (t->info->caps & FI_ATOMIC)
        fy_lf_atomics(t, t->service.ep);
    return FERRY_OK;
}

/* An endpoint is not made with longer queues than its provider has: shm of 1.17 has room for 1024 operations. */
static void bound_depth(struct ferry_transport *t)
{
    size_t most = t->info->tx_attr->size;

    if ((size_t)t->options.depth + 2 <= most || most < 4)
        return;
    t->core->log(t->core, FERRY_LOG_WARN,
                 "FERRY_LIBFABRIC_QUEUE_DEPTH=%d is more than provider %s has room for: %zu are in flight per channel and peer",
                 t->options.depth, t->name, most - 2);
    t->options.depth = (int)most - 2;
}

/* Endpoints for one peer each: what comes in there are answers, at most as many as questions. */
static int each(struct ferry_transport *t)
{
    if (!t->provider.apart)
        return FERRY_OK;
    bound_depth(t);
    t->each = fi_dupinfo(t->info);
    t->processes = calloc(t->n_pes, sizeof *t->processes);
    if (!t->each || !t->processes)
        return fy_lf_fail(t, -1, FERRY_ERR_NOMEM, ENOMEM, "", "no memory for a libfabric instance");
    t->each->tx_attr->size = 1;
    while (t->each->tx_attr->size < (size_t)t->options.depth + 2)
        t->each->tx_attr->size *= 2;
    t->each->rx_attr->size = 64;
    return FERRY_OK;
}

static int set_up(struct ferry_transport *t)
{
    struct ferry_memory scratch = {.size = sizeof scratch, .kind = FERRY_MEMORY_HOST, .length = 4096, .fd = -1, .remote = 1};
    char why[sizeof t->failure.message] = "";
    int rc = fy_lf_options(t->core, &t->options, why, sizeof why);

    if (rc)
        return fy_lf_fail(t, -1, rc, 0, "docs/configuration.md has the bounds", "%s", why);
    t->channels = calloc(t->max_channels, sizeof(struct fy_lf_channel *));
    t->scratch = aligned_alloc(4096, 4096);
    if (!t->channels || !t->scratch)
        return fy_lf_fail(t, -1, FERRY_ERR_NOMEM, ENOMEM, "", "no memory for a libfabric instance");
    memset(t->scratch, 0, 4096);
    t->host = host_number();
    rc = fy_lf_select(&t->options, &t->info, why, sizeof why);
    if (rc)
        return fy_lf_fail(t, -1, rc, 0, "", "%s", why);
    snprintf(t->name, sizeof t->name, "%s", t->info->fabric_attr->prov_name);
    fy_lf_found(t->info, &t->options, &t->provider);
    rc = each(t);
    if (!rc)
        rc = open_domain(t);
    scratch.address = t->scratch;
    return rc ? rc : fy_lf_register(t, &scratch, &t->scratch_region);
}

static void log_choice(struct ferry_transport *t)
{
    static const char *const quiet[] = {"auto", "dc", "fence_dc", "raw_read"};

    t->core->log(t->core, FERRY_LOG_INFO,
                 "provider %s, domain %s, %s addressing, quiet by %s, order 0x%x, puts up to %zu bytes by inject", t->name,
                 t->info->domain_attr->name ? t->info->domain_attr->name : "?", t->virt ? "virtual" : "offset",
                 quiet[t->provider.quiet], t->provider.order, t->provider.inject);
}

static int open_transport(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **out)
{
    struct ferry_transport *t = calloc(1, sizeof *t);
    int rc;

    if (!t) {
        struct ferry_error e = {.size = sizeof e,
                                .status = FERRY_ERR_NOMEM,
                                .peer = -1,
                                .channel = -1,
                                .operation = -1,
                                .library_status = ENOMEM,
                                .message = "no memory for a libfabric instance"};
        core->error(core, &e);
        return FERRY_ERR_NOMEM;
    }
    t->core = core;
    t->my_pe = how->my_pe;
    t->n_pes = how->n_pes;
    t->max_channels = how->max_channels;
    pthread_mutex_init(&t->lock, NULL);
    rc = set_up(t);
    if (rc) {
        core->error(core, &t->failure);
        close_transport(t);
        return rc;
    }
    log_choice(t);
    *out = t;
    return FERRY_OK;
}

static const struct ferry_host_ops ops = {
    .size = sizeof ops,
    .export_endpoint = fy_lf_export_endpoint,
    .reach = fy_lf_reach,
    .open_channel = fy_lf_open_channel,
    .close_channel = fy_lf_close_channel,
    .connect = fy_lf_connect,
    .disconnect = fy_lf_disconnect,
    .register_memory = fy_lf_register,
    .deregister_memory = fy_lf_deregister,
    .export_key = fy_lf_export_key,
    .import_key = fy_lf_import_key,
    .release_key = fy_lf_release_key,
    .rma = fy_lf_rma,
    .amo = fy_lf_amo,
    .quiet = fy_lf_quiet,
    .progress = fy_lf_progress,
    .query = query,
    .query_error = fy_lf_query_error,
    .describe = fy_lf_describe,
    .close = close_transport,
};

const struct ferry_plugin ferry_plugin_v1 = {
    .abi = FERRY_TRANSPORT_ABI,
    .size = sizeof(struct ferry_plugin),
    .name = "libfabric",
    .summary = "EFA, Slingshot, Omni-Path, TCP and whatever libfabric has a provider for",
    .version = "0.1.0",
    .options = fy_lf_option_rows,
    .ops = &ops,
    .probe = fy_lf_probe,
    .open = open_transport,
    .report = fy_lf_report,
};
