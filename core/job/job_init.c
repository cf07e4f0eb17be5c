/* SPDX-License-Identifier: Apache-2.0
 * ferry_init, step by step: options, transports, meeting, agreement, opening, wiring, heap, channels.
 * Setup thread. A failure that only this PE sees is carried to the others, so that all end together. */
#include "descriptors.h"
#include "job.h"
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char **copy_strings(const char *const *from)
{
    size_t n = 0;
    while (from && from[n])
        n++;
    char **copy = calloc(n + 1, sizeof(*copy));
    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = strdup(from[i]);
        if (!copy[i])
            break;
    }
    return copy;
}

static int no_memory(struct ferry_error *error, const char *what)
{
    fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for %s", what);
    return FERRY_ERR_NOMEM;
}

int fy_job_bounds(const struct fy_options *options, struct ferry_error *error)
{
    long long queue_ops = fy_options_number(options, "queue_ops"), channels = fy_options_number(options, "channels");
    long long bounce = fy_options_number(options, "bounce_size"), threads = fy_options_number(options, "proxy_threads");
    if (queue_ops < 0 || queue_ops > INT32_MAX)
        fy_error_set(error, FERRY_ERR_CONFIG, NULL, "FERRY_QUEUE_OPS is %lld, accepted are 0 to %d", queue_ops,
                     INT32_MAX);
    else if (channels < 1 || channels > 65534)
        fy_error_set(error, FERRY_ERR_CONFIG, NULL, "FERRY_CHANNELS is %lld, accepted are 1 to 65534", channels);
    else if (threads < 0 || threads > 65534)
        fy_error_set(error, FERRY_ERR_CONFIG, NULL, "FERRY_PROXY_THREADS is %lld, accepted are 0 to 65534", threads);
    else if (bounce < 8192)
        fy_error_set(error, FERRY_ERR_CONFIG, NULL, "FERRY_BOUNCE_SIZE is %lld, the least is 8192", bounce);
    else
        return FERRY_OK;
    return FERRY_ERR_CONFIG;
}

static int read_options(struct ferry_job *job, const ferry_attr_t *attr, struct ferry_error *error)
{
    fy_log_init(&job->log);
    job->log.sink = attr->log;
    job->log.sink_arg = attr->log_arg;
    job->overrides = copy_strings(attr->options);
    if (!job->overrides)
        return no_memory(error, "options");
    job->source = (struct fy_source){(const char *const *)job->overrides, environ};
    int rc = fy_options_load(&job->options, fy_core_options, NULL, &job->source, error);
    if (rc != FERRY_OK)
        return rc;
    job->log.level = (int)fy_options_number(&job->options, "log");
    job->world.timeout = fy_options_seconds(&job->options, "timeout");
    rc = fy_job_bounds(&job->options, error);
    if (rc != FERRY_OK)
        return rc;
    job->world.queue_ops = (uint32_t)fy_options_number(&job->options, "queue_ops");
    const char *gpu = fy_options_string(&job->options, "gpu");
    char address[sizeof(((struct ferry_place *)0)->gpu)];
    if (!fy_job_gpu(gpu, address, sizeof(address))) {
        fy_error_set(error, FERRY_ERR_CONFIG, "nvidia-smi --query-gpu=pci.bus_id --format=csv prints them",
                     "FERRY_GPU is '%.40s', which is no PCI address like 0000:3b:00.0", gpu);
        return FERRY_ERR_CONFIG;
    }
    const char *cores = fy_options_string(&job->options, "proxy_cores");
    if (!fy_cores_create(cores, address, &job->cores)) {
        fy_error_set(error, FERRY_ERR_CONFIG, "or set it to all, or leave it empty",
                     "FERRY_PROXY_CORES is '%.40s', which is no list of cores like 0-3,8", cores);
        return FERRY_ERR_CONFIG;
    }
    job->look.stall = fy_options_seconds(&job->options, "stall_seconds");
    job->world.queue_bytes = (uint64_t)fy_options_number(&job->options, "queue_bytes");
    job->world.user_channels = (uint32_t)fy_options_number(&job->options, "channels");
    job->world.max_channels = job->world.user_channels + 2; /* the barrier has one of its own, and the mailbox */
    job->world.bounce = (size_t)fy_options_number(&job->options, "bounce_size") & ~(size_t)127;
    return FERRY_OK;
}

static int make_world(struct ferry_job *job, const struct ferry_boot_place *place, struct ferry_error *error)
{
    struct fy_world *world = &job->world;
    world->log = &job->log;
    world->errors = job->errors;
    world->my_pe = place->rank;
    world->n_pes = place->n_pes;
    job->node = place->node;
    job->log.pe = (int)place->rank;
    world->call = fy_job_call;
    world->announce = fy_job_announce;
    world->endpoint = fy_job_endpoint;
    world->arg = job;
    world->peers = calloc(world->n_pes, sizeof(*world->peers));
    world->channels = calloc(world->max_channels, sizeof(*world->channels));
    job->look.channels = calloc(world->max_channels, sizeof(*job->look.channels));
    if (!world->peers || !world->channels || !job->look.channels)
        return no_memory(error, "the table of pes");
    if (!fy_page_create(&world->page, world->max_channels, fy_options_number(&job->options, "counters_page") != 0))
        return no_memory(error, "the page of counters");
    if (world->page.fd < 0)
        fy_log(&job->log, FERRY_LOG_DEBUG, "ferry-top does not see this PE: no page of counters that others can read");
    atomic_store(&world->last_dead, -1);
    return FERRY_OK;
}

static int watch_fd(void *job, int fd, void (*fn)(void *arg), void *arg)
{
    return fy_boot_watch(((struct ferry_job *)job)->boot, fd, fn, arg);
}

static void unwatch_fd(void *job, int fd)
{
    fy_boot_unwatch(((struct ferry_job *)job)->boot, fd);
}

static bool wants_gpu(const struct ferry_job *job)
{
    return fy_options_number(&job->options, "gpu_memory") != 0 || fy_options_number(&job->options, "heap_kind") != 0;
}

static int select_transports(struct ferry_job *job, struct ferry_error *error)
{
    const struct fy_gpu_config gpu = {.log = &job->log, .device = fy_options_number(&job->options, "gpu_device")};
    job->gpu = fy_gpu_create(&gpu);
    if (!job->gpu)
        return no_memory(error, "the GPU");
    struct fy_route_services services = {.arg = job,
                                         .watch_fd = watch_fd,
                                         .unwatch_fd = unwatch_fd,
                                         .error = fy_job_transport_error,
                                         .deliver = fy_job_deliver,
                                         .gpu = wants_gpu(job) ? job->gpu : NULL};
    int rc = fy_route_create(&job->log, &job->source, &services, &job->route);
    if (rc != FERRY_OK)
        return no_memory(error, "the table of transports");
    rc = fy_route_select(job->route, fy_options_string(&job->options, "transport"), error);
    if (job->world.my_pe == 0) /* all PEs share an environment, as a rule: once is enough */
        fy_route_warn_unknown(job->route, &job->options, &job->log);
    return rc;
}

static int meet(struct ferry_job *job, const struct fy_launch *launch, struct ferry_error *error)
{
    ferry_uniqueid_t id;
    if (launch->place.id)
        memcpy(id.bytes, launch->place.id, sizeof(id.bytes));
    struct fy_boot_config config = {
        .log = &job->log,
        .rank = job->world.my_pe,
        .n_pes = job->world.n_pes,
        .id = launch->place.id ? &id : NULL,
        .launch = launch,
        .interface_ = fy_options_string(&job->options, "interface"),
        .timeout = job->world.timeout,
        .peer_timeout = fy_options_seconds(&job->options, "peer_timeout"),
        .events = {job, fy_job_dead, fy_job_aborted, fy_job_serve, fy_job_left, fy_job_tick},
    };
    int rc = fy_boot_start(&config, &job->boot, error);
    if (rc == FERRY_OK)
        fy_boot_secret(job->boot, job->secret, &job->job_id);
    return rc;
}

static int open_transports(struct ferry_job *job, struct ferry_error *error)
{
    struct ferry_open how = {.size = sizeof(how),
                             .my_pe = job->world.my_pe,
                             .n_pes = job->world.n_pes,
                             .max_channels = job->world.max_channels,
                             .job_id = job->job_id,
                             .places = job->places,
                             .n_places = job->local_pes,
                             .my_place = job->my_place};
    memcpy(how.secret, job->secret, sizeof(how.secret));
    job->route->one_host = job->one_host;
    int rc = fy_route_open(job->route, &how, fy_options_string(&job->options, "hooks"), error);
    free(job->places); /* for that only */
    job->places = NULL;
    if (rc == FERRY_OK)
        fy_world_lanes(&job->world, job->route->chosen, job->route->n_chosen);
    return fy_job_same_fate(job, rc, "opening of transports", error);
}

static int heap_reduce(void *arg, void *data, size_t length, fy_combine_fn *combine, const char *step, struct ferry_error *error)
{
    struct ferry_job *job = arg;
    uint32_t told = fy_page_wait(&job->world.page, -1, -1, step);
    int rc = fy_boot_reduce(job->boot, data, length, combine, step, job->running ? 0 : job->world.timeout, error);
    fy_page_wait_over(&job->world.page, told);
    return rc;
}

static int heap_transport_of(void *arg, uint32_t pe)
{
    struct ferry_job *job = arg;
    return job->world.peers[pe].lane;
}

static int heap_alive(void *arg, uint32_t pe, struct ferry_error *error)
{
    struct ferry_job *job = arg;
    int rc = fy_world_check(&job->world, (int)pe, "first contact");
    if (rc != FERRY_OK) {
        error->size = sizeof(*error);
        fy_errors_last(job->errors, error);
    }
    return rc;
}

static int make_heap(struct ferry_job *job, struct ferry_error *error)
{
    struct fy_heap_config config = {
        .log = &job->log,
        .my_pe = job->world.my_pe,
        .n_pes = job->world.n_pes,
        .local_pes = job->local_pes,
        .reserve = (size_t)fy_options_number(&job->options, "heap_size"),
        .chunk = (size_t)fy_options_number(&job->options, "heap_chunk"),
        .transports = job->route->chosen,
        .n_transports = job->route->n_chosen,
        .up = {job, heap_reduce, heap_transport_of, fy_job_way_of, fy_job_key, heap_alive},
        .timeout = job->world.timeout,
        .crowded = job->world.crowded != 0,
        .setup = &job->world.setup,
        .direct = fy_options_number(&job->options, "direct") != 0,
        .pages = (enum fy_pages)fy_options_number(&job->options, "heap_pages"),
        .gpu = job->gpu,
        .gpu_memory = wants_gpu(job),
        .no_peers = fy_options_number(&job->options, "p2p") != 0, /* all, off */
    };
    job->gpu->config.index = job->my_place; /* nobody has used it yet */
    int rc = fy_heap_create(&config, &job->heap, error);
    job->world.heap = job->heap;
    return fy_job_same_fate(job, rc, "reservation of the heap", error);
}

static int make_proxy(struct ferry_job *job, struct ferry_error *error)
{
    const struct fy_proxy_config config = {
        .world = &job->world,
        .cores = job->cores,
        .threads = (uint32_t)fy_options_number(&job->options, "proxy_threads"),
        .spin = fy_options_seconds(&job->options, "proxy_spin"),
        .sleep = fy_options_seconds(&job->options, "proxy_sleep"),
        .tell = fy_job_transport_error,
        .retire = fy_job_retire,
        .arg = job,
    };
    return fy_proxy_create(&config, &job->proxy) == FERRY_OK ? FERRY_OK : no_memory(error, "the proxy");
}

static int make_channels(struct ferry_job *job, struct ferry_error *error)
{
    void *words;
    int rc = fy_heap_alloc(job->heap, FY_BARRIER_BYTES + fy_teams_bytes(job->world.n_pes), 64, &words, error);
    if (rc != FERRY_OK)
        return rc;
    job->barrier.words = words;
    rc = fy_channel_create(&job->world, true, true, &job->default_ctx, error);
    if (rc == FERRY_OK)
        rc = fy_channel_create(&job->world, true, true, &job->barrier.ctx,
                               error); /* threads of several teams share it */
    if (job->default_ctx)
        job->default_ctx->job = job;
    job->world.waiters = job->default_ctx;
    if (rc == FERRY_OK)
        rc = fy_teams_create(&job->world, job->barrier.ctx, job, (char *)words + FY_BARRIER_BYTES, &job->teams, error);
    if (rc == FERRY_OK)
        rc = fy_job_mailbox(job, error);
    if (rc == FERRY_OK)
        rc = make_proxy(job, error);
    if (rc == FERRY_OK)
        rc = fy_job_service_start(job, error);
    return fy_job_same_fate(job, rc, "first contexts", error);
}

/* The launcher is needed until the PEs are connected, and not a moment longer. */
static int gather(struct ferry_job *job, struct fy_launch *launch, int *selected, struct ferry_error *error)
{
    struct ferry_error meeting;
    int rc = make_world(job, &launch->place, error);
    if (rc == FERRY_OK) {
        *selected = select_transports(job, error);
        rc = meet(job, launch, &meeting);
        if (rc != FERRY_OK && *selected == FERRY_OK)
            *error = meeting;
        else if (rc != FERRY_OK)
            rc = *selected;
    }
    fy_launch_close(launch);
    return rc;
}

static int join(struct ferry_job *job, const ferry_attr_t *attr, struct ferry_error *error)
{
    struct fy_launch launch = {.log = &job->log, .source = &job->source, .options = &job->options, .attr = attr};
    int selected, rc = read_options(job, attr, error);
    launch.timeout = job->world.timeout;
    if (rc == FERRY_OK)
        rc = fy_launch_open(&launch, error);
    if (rc == FERRY_OK)
        rc = gather(job, &launch, &selected, error);
    if (rc != FERRY_OK)
        return rc;
    rc = fy_job_agree(job, selected, error);
    if (rc == FERRY_OK)
        rc = open_transports(job, error);
    if (rc == FERRY_OK)
        rc = fy_job_wire(job, error);
    if (rc == FERRY_OK)
        rc = make_heap(job, error);
    if (rc == FERRY_OK)
        rc = make_channels(job, error);
    return rc;
}

/* From here on others may read the page. */
static void show(struct ferry_job *job)
{
    struct ferry_page *head = job->world.page.head;
    size_t n = 0;
    head->pe = (int32_t)job->world.my_pe;
    head->n_pes = job->world.n_pes;
    head->job = job->job_id;
    for (size_t i = 0; i < job->route->n_chosen && n < sizeof(head->transports); i++)
        n += (size_t)snprintf(head->transports + n, sizeof(head->transports) - n, "%s%s", i ? "," : "", job->route->chosen[i]->name);
    __atomic_store_n(&head->magic, FERRY_PAGE_MAGIC, __ATOMIC_RELEASE);
    atomic_store(&job->look.on, true);
}

/* Recursive, since a handler may abort the job, or set another handler. */
static void handler_lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_settype(&how, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(lock, &how);
    pthread_mutexattr_destroy(&how);
}

int fy_job_init(const ferry_attr_t *attr, struct ferry_job **out)
{
    struct ferry_error error;
    fy_error_set(&error, FERRY_ERR_NOMEM, NULL, "no memory for a job");
    int rc = FERRY_ERR_NOMEM;
    fy_descriptors_reserve();
    struct ferry_job *job = calloc(1, sizeof(*job));
    if (job) {
        pthread_mutex_init(&job->world.lock, NULL);
        pthread_mutex_init(&job->world.setup, NULL);
        pthread_mutex_init(&job->world.serving, NULL);
        handler_lock_init(&job->handler_lock);
        fy_report_init(&job->report);
        rc = fy_errors_create(&job->errors);
    }
    if (rc == FERRY_OK)
        rc = join(job, attr, &error);
    if (rc == FERRY_OK)
        fy_error_set(&error, FERRY_OK, NULL, "%s", "");
    if (attr->error) {
        uint32_t size = attr->error->size;
        error.size = size && size < sizeof(error) ? size : sizeof(error);
        memcpy(attr->error, &error, error.size);
    }
    if (rc == FERRY_OK) {
        show(job);
        job->running = true;
        *out = job;
        return rc;
    }
    if (job) {
        fy_log_record(&job->log, FERRY_LOG_ERROR, "cannot start: ", &error);
        fy_job_release(job);
    }
    return rc;
}
