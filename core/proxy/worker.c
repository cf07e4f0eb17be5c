/* SPDX-License-Identifier: Apache-2.0
 * The proxy's threads: which rings each owns, and how it rests when there is nothing to do: it spins, yields, then sleeps.
 * A producer on a GPU cannot wake a sleeping thread, so sleeping means looking again at intervals. Functions say who calls. */
#include "internal.h"

#include "../base/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define LOOK_EVERY 64u /* idle turns between looks at the clock */

/* Where a thread stands on the way from work to sleep. */
struct rest {
    uint64_t since; /* idle since then; 0: not idle */
    uint32_t turns;
    int stage; /* 0 spins, 1 yields, 2 sleeps */
};

static void rest(struct rest *rest, const struct fy_proxy_config *config)
{
    if (rest->turns++ % LOOK_EVERY == 0 && rest->stage < 2) {
        uint64_t now = fy_now_ns();
        if (!rest->since)
            rest->since = now;
        double idle = (double)(now - rest->since) * 1e-9, spin = config->world->crowded ? 0 : config->spin;
        rest->stage = idle < spin ? 0 : idle < spin + config->spin || config->sleep <= 0 ? 1 : 2;
    }
    if (rest->stage == 0) {
        fy_cpu_relax();
    } else if (rest->stage == 1) {
        sched_yield();
    } else {
        struct timespec interval = {(time_t)config->sleep, (long)((config->sleep - (double)(time_t)config->sleep) * 1e9)};
        nanosleep(&interval, NULL);
    }
}

/* Until there is a ring, or it is over. False: it is over. */
static bool has_rings(struct fy_worker *worker)
{
    struct fy_proxy *proxy = worker->proxy;
    pthread_mutex_lock(&proxy->lock);
    while (!worker->n_rings && !atomic_load(&worker->stop))
        pthread_cond_wait(&proxy->changed, &proxy->lock);
    bool more = !atomic_load(&worker->stop);
    pthread_mutex_unlock(&proxy->lock);
    return more;
}

/* One turn of each ring. *any: there is one at all. True: something moved. */
static bool turn_all(struct fy_worker *worker, bool *any)
{
    bool moved = false;
    uint32_t end = atomic_load_explicit(&worker->end, memory_order_acquire);
    *any = false;
    for (uint32_t i = 0; i < end; i++) {
        struct ferry_ring *ring = atomic_load_explicit(&worker->rings[i], memory_order_acquire);
        if (!ring)
            continue;
        *any = true;
        moved |= fy_ring_turn(ring);
    }
    return moved;
}

static void *worker_main(void *arg)
{
    struct fy_worker *worker = arg;
    struct rest idle = {0};
    bool any = false;
    prctl(PR_SET_TIMERSLACK, 1UL); /* else the kernel adds 50 us to each sleep */
    while (any || has_rings(worker)) {
        bool moved = turn_all(worker, &any);
        fy_count(&worker->load->looks, 1);
        fy_count(&worker->load->worked, moved);
        if (moved)
            idle = (struct rest){0};
        else
            rest(&idle, &worker->proxy->config);
    }
    return NULL;
}

/* On the cores of the process, wherever the caller is bound to. */
static int start_thread(struct fy_worker *worker)
{
    struct fy_cores *cores = &worker->proxy->config.cores;
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc != 0)
        return rc;
    fy_cores_look(cores);
    if (CPU_COUNT(&cores->chosen) > 0)
        rc = pthread_attr_setaffinity_np(&attr, sizeof(cores->chosen), &cores->chosen);
    if (rc == 0)
        rc = pthread_create(&worker->thread, &attr, worker_main, worker);
    pthread_attr_destroy(&attr);
    return rc;
}

static int no_thread(int rc, bool named, struct ferry_error *error)
{
    if (rc == EINVAL && named)
        fy_error_set(error, FERRY_ERR_CONFIG, "FERRY_PROXY_CORES=all takes all of them",
                     "cannot start a proxy thread: FERRY_PROXY_CORES names no core that this process may use");
    else
        fy_error_set(error, FERRY_ERR_SYSTEM, "raise the limit on threads (ulimit -u)", "cannot start a proxy thread: %s", strerror(rc));
    return error->status;
}

static int start(struct fy_proxy *proxy, struct ferry_error *error)
{
    struct fy_worker *worker = &proxy->workers[proxy->n_workers];
    uint32_t most = proxy->config.world->max_channels;
    int rc = ENOMEM;
    *worker = (struct fy_worker){.proxy = proxy, .rings = calloc(most, sizeof(*worker->rings))};
    struct ferry_page *head = proxy->config.world->page.head;
    worker->load = proxy->n_workers < FERRY_PAGE_WORKERS ? &head->workers[proxy->n_workers] : &worker->unseen;
    if (worker->rings)
        rc = start_thread(worker);
    if (rc != 0) {
        free(worker->rings);
        return no_thread(rc, proxy->config.cores.named, error);
    }
    worker->running = true;
    proxy->n_workers++;
    return FERRY_OK;
}

/* The one with the fewest rings; another one is started first, if it is time. */
static struct fy_worker *choose(struct fy_proxy *proxy, struct ferry_error *error)
{
    uint32_t rings = 0, asked = proxy->config.threads;
    for (uint32_t i = 0; i < proxy->n_workers; i++)
        rings += proxy->workers[i].n_rings;
    uint32_t want = asked ? rings + 1 : rings / FY_RINGS_PER_THREAD + 1;
    uint32_t most = asked && asked < proxy->most_workers ? asked : proxy->most_workers;
    if (proxy->n_workers < want && proxy->n_workers < most) {
        int rc = start(proxy, error);
        if (rc != FERRY_OK && !proxy->n_workers)
            return NULL; /* with one thread less it works, too */
    }
    struct fy_worker *least = &proxy->workers[0];
    for (uint32_t i = 1; i < proxy->n_workers; i++)
        if (proxy->workers[i].n_rings < least->n_rings)
            least = &proxy->workers[i];
    return least;
}

/* An application's thread. */
int fy_worker_attach(struct fy_proxy *proxy, struct ferry_ring *ring, struct ferry_error *error)
{
    pthread_mutex_lock(&proxy->lock);
    struct fy_worker *worker = choose(proxy, error);
    if (worker) {
        uint32_t i = 0;
        while (atomic_load(&worker->rings[i]))
            i++;
        ring->worker = worker;
        ring->slot = i;
        worker->n_rings++;
        ring->next = proxy->rings;
        proxy->rings = ring;
        atomic_store_explicit(&worker->rings[i], ring, memory_order_release);
        if (i >= atomic_load(&worker->end))
            atomic_store_explicit(&worker->end, i + 1, memory_order_release);
        pthread_cond_broadcast(&proxy->changed);
    }
    pthread_mutex_unlock(&proxy->lock);
    return worker ? FERRY_OK : error->status;
}

/* Proxy thread: it does not look at the ring any more. */
void fy_worker_detach(struct ferry_ring *ring, int status)
{
    struct fy_worker *worker = ring->worker;
    struct fy_proxy *proxy = worker->proxy;
    atomic_store(&worker->rings[ring->slot], NULL);
    pthread_mutex_lock(&proxy->lock);
    worker->n_rings--;
    ring->closed = status;
    ring->detached = true; /* from here on it may be released */
    pthread_cond_broadcast(&proxy->changed);
    pthread_mutex_unlock(&proxy->lock);
}

uint32_t fy_worker_most(const struct fy_proxy_config *config)
{
    uint32_t most = fy_cores_count(&config->cores);
    if (config->threads && config->threads < most)
        most = config->threads;
    return most < config->world->max_channels ? most : config->world->max_channels;
}
