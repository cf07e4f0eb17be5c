/* SPDX-License-Identifier: Apache-2.0
 * Shared by the bootstrap tests: PEs as threads, a wire client, waiting.
 * Called by the test's thread and by the threads of PEs. */
#include "kit.h"
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

double kit_now(void)
{
    return (double)fy_now_ns() / 1e9;
}

static void nap(void)
{
    struct timespec ms = {.tv_nsec = 1000000};
    nanosleep(&ms, NULL);
}

bool kit_wait(bool (*holds)(void *arg), void *arg, double seconds)
{
    double end = kit_now() + seconds;
    while (!holds(arg)) {
        if (kit_now() > end)
            return false;
        nap();
    }
    return true;
}

bool kit_wait_count(atomic_uint *count, unsigned least, double seconds)
{
    double end = kit_now() + seconds;
    while (atomic_load(count) < least) {
        if (kit_now() > end)
            return false;
        nap();
    }
    return true;
}

unsigned kit_count(const char *folder)
{
    DIR *dir = opendir(folder);
    unsigned count = 0;
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

bool kit_expect(struct kit_pe *pe, bool good, const char *format, ...)
{
    va_list args;
    if (good || pe->wrong[0])
        return good;
    va_start(args, format);
    vsnprintf(pe->wrong, sizeof(pe->wrong), format, args);
    va_end(args);
    return false;
}

static void on_dead(void *arg, uint32_t dead, const char *why)
{
    struct kit_pe *pe = arg;
    (void)why;
    atomic_fetch_add(&pe->dead[dead], 1);
    atomic_fetch_add(&pe->deaths, 1);
}

static void on_aborted(void *arg, uint32_t by, int code)
{
    struct kit_pe *pe = arg;
    atomic_store(&pe->abort_by, (int)by);
    atomic_store(&pe->abort_code, code);
    atomic_fetch_add(&pe->aborts, 1);
}

/* The application's allgather, by memory that the threads share. */
static int share_allgather(void *arg, const void *mine, void *all, size_t length)
{
    struct kit_pe *pe = arg;
    struct kit_job *job = pe->job;
    if (pthread_barrier_wait(&job->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
        job->gathered = realloc(job->gathered, job->n * length);
        job->gathered_length = length;
    }
    pthread_barrier_wait(&job->barrier);
    memcpy(job->gathered + pe->rank * length, mine, length);
    pthread_barrier_wait(&job->barrier);
    memcpy(all, job->gathered, job->n * length);
    pthread_barrier_wait(&job->barrier);
    return 0;
}

struct fy_boot_config kit_config(struct kit_pe *pe)
{
    struct kit_job *job = pe->job;
    return (struct fy_boot_config){
        .rank = pe->rank,
        .n_pes = pe->n,
        .id = job->functions ? NULL : &job->id,
        .timeout = job->timeout,
        .peer_timeout = job->peer_timeout,
        .events = {.arg = pe, .dead = on_dead, .aborted = on_aborted, .serve = job->serve},
    };
}

void kit_by_functions(struct fy_boot_config *config, struct fy_launch *launch, ferry_attr_t *attr,
                      const ferry_bootstrap_functions_t *functions)
{
    *attr = (ferry_attr_t){.size = sizeof(*attr), .rank = (int)config->rank, .n_pes = (int)config->n_pes, .functions = functions};
    *launch = (struct fy_launch){.attr = attr, .plugin = &fy_launch_functions};
    launch->boot = (struct ferry_boot *)launch;
    config->launch = launch;
}

static void *pe_main(void *arg)
{
    struct kit_pe *pe = arg;
    struct kit_job *job = pe->job;
    ferry_bootstrap_functions_t functions = {.size = sizeof(functions), .arg = pe, .allgather = share_allgather};
    struct fy_boot_config config = kit_config(pe);
    struct fy_launch launch;
    ferry_attr_t attr;
    if (job->functions)
        kit_by_functions(&config, &launch, &attr, &functions);
    double start = kit_now();
    pe->rc = fy_boot_start(&config, &pe->boot, &pe->error);
    pe->start_s = kit_now() - start;
    if (pe->rc != FERRY_OK)
        return NULL;
    if (job->body)
        job->body(pe);
    fy_boot_close(pe->boot);
    return NULL;
}

struct kit_job *kit_new(uint32_t n, void (*body)(struct kit_pe *pe), bool functions)
{
    struct kit_job *job = calloc(1, sizeof(*job));
    struct ferry_error error = {.size = sizeof(error)};
    assert_non_null(job);
    assert_in_range(n, 1, KIT_PES);
    job->n = n;
    job->timeout = 60;
    job->peer_timeout = 30;
    job->body = body;
    job->functions = functions;
    pthread_barrier_init(&job->barrier, NULL, n);
    for (uint32_t i = 0; i < n; i++) {
        job->pes[i].job = job;
        job->pes[i].rank = i;
        job->pes[i].n = n;
        job->pes[i].error.size = sizeof(struct ferry_error);
    }
    if (!functions && n > 1)
        assert_int_equal(fy_meeting_create(NULL, NULL, 60, &job->id, &error), FERRY_OK);
    return job;
}

void kit_free(struct kit_job *job)
{
    pthread_barrier_destroy(&job->barrier);
    free(job->gathered);
    free(job);
}

void kit_start(struct kit_job *job)
{
    for (uint32_t i = 0; i < job->n; i++)
        if (!job->pes[i].absent)
            assert_int_equal(pthread_create(&job->pes[i].thread, NULL, pe_main, &job->pes[i]), 0);
}

void kit_join(struct kit_job *job)
{
    for (uint32_t i = 0; i < job->n; i++)
        if (!job->pes[i].absent)
            pthread_join(job->pes[i].thread, NULL);
}

void kit_assert_good(struct kit_job *job)
{
    for (uint32_t i = 0; i < job->n; i++) {
        struct kit_pe *pe = &job->pes[i];
        if (pe->absent)
            continue;
        if (pe->rc != FERRY_OK)
            fail_msg("PE %u did not start: %s", i, pe->error.message);
        if (pe->wrong[0])
            fail_msg("PE %u: %s", i, pe->wrong);
    }
}

void kit_run(struct kit_job *job)
{
    kit_start(job);
    kit_join(job);
    kit_assert_good(job);
}

void kit_client_open(struct kit_client *client, const struct fy_addr *addr, uint32_t server, const uint8_t *secret,
                     uint32_t purpose, uint32_t rank, uint32_t size)
{
    struct fy_identity self = {.purpose = purpose, .rank = rank, .size = size, .version = FERRY_VERSION_STRING};
    kit_client_open_at(client, addr, server, secret, &self);
}

void kit_client_open_at(struct kit_client *client, const struct fy_addr *addr, uint32_t server, const uint8_t *secret,
                        const struct fy_identity *self)
{
    *client = (struct kit_client){.secret = secret};
    assert_int_equal(fy_hub_open(&client->hub, -1), 0);
    client->conn = fy_hub_connect(&client->hub, addr, server, self, UINT64_MAX);
    assert_non_null(client->conn);
}

static void client_frame(void *arg, struct fy_conn *conn, const struct fy_frame *frame, void *body)
{
    struct kit_client *client = arg;
    if (conn->state == FY_CONN_READY) {
        client->frames++;
        client->type = frame->type;
        return;
    }
    enum fy_auth auth = fy_auth_frame(conn, frame, body, client->secret);
    client->ready = client->ready || auth == FY_AUTH_DONE;
    client->ended = client->ended || auth == FY_AUTH_FAIL;
}

/* One event, if any. False: the time is over. */
static bool client_turn(struct kit_client *client, double end)
{
    struct epoll_event event;
    struct fy_conn *conn = client->conn;
    if (kit_now() > end)
        return false;
    if (epoll_wait(client->hub.epoll, &event, 1, 10) <= 0)
        return true;
    if (conn->state == FY_CONN_CONNECTING)
        fy_auth_begin(conn);
    else if (event.events & EPOLLOUT)
        fy_conn_flush(conn);
    if (!fy_conn_read(conn, client_frame, client))
        client->ended = true;
    return true;
}

bool kit_client_run(struct kit_client *client, double seconds, bool until_ended)
{
    double end = kit_now() + seconds;
    while (!client->ended && (until_ended || !client->ready))
        if (!client_turn(client, end))
            return false;
    return true;
}

bool kit_client_frame(struct kit_client *client, double seconds)
{
    double end = kit_now() + seconds;
    while (!client->ended && client->frames == 0)
        if (!client_turn(client, end))
            return false;
    return client->frames > 0;
}

void kit_client_close(struct kit_client *client)
{
    fy_hub_close(&client->hub);
}

int kit_socket(const struct fy_addr *addr)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = addr->port, .sin_addr.s_addr = addr->ip};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
        return fd;
    close(fd);
    return -1;
}
