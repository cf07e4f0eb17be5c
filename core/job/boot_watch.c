/* SPDX-License-Identifier: Apache-2.0
 * Descriptors that others have the control thread watch. Any thread watches and unwatches; the functions that are
 * called run on the control thread. */
#include "boot_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

static int watch_add(struct fy_boot *boot, struct fy_watch *watch)
{
    pthread_mutex_lock(&boot->lock);
    watch->id = boot->watch_id++ * 2 + 1;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = watch->id};
    int rc = epoll_ctl(boot->hub.epoll, EPOLL_CTL_ADD, watch->fd, &event) == 0 ? 0 : errno;
    if (rc == 0) {
        watch->next = boot->watches;
        boot->watches = watch;
    }
    pthread_mutex_unlock(&boot->lock);
    return rc;
}

int fy_boot_watch(struct fy_boot *boot, int fd, void (*fn)(void *arg), void *arg)
{
    struct ferry_error error = {.size = sizeof(error)};
    int rc = fy_loop_start(boot, &error);
    if (rc != FERRY_OK)
        return rc;
    struct fy_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return FERRY_ERR_NOMEM;
    watch->fd = fd;
    watch->fn = fn;
    watch->arg = arg;
    rc = watch_add(boot, watch);
    if (rc == 0)
        return FERRY_OK;
    free(watch);
    fy_log(boot->log, FERRY_LOG_ERROR, "cannot watch descriptor %d: %s", fd, strerror(rc));
    return FERRY_ERR_SYSTEM;
}

void fy_boot_unwatch(struct fy_boot *boot, int fd)
{
    pthread_mutex_lock(&boot->lock);
    struct fy_watch **at = &boot->watches;
    while (*at && (*at)->fd != fd)
        at = &(*at)->next;
    struct fy_watch *watch = *at;
    if (watch) {
        *at = watch->next;
        epoll_ctl(boot->hub.epoll, EPOLL_CTL_DEL, fd, NULL);
        /* fn itself may unwatch: waiting for its own end would be for ever */
        bool self = boot->running && pthread_equal(pthread_self(), boot->thread);
        while (!self && boot->watch_running == watch)
            pthread_cond_wait(&boot->changed, &boot->lock);
    }
    pthread_mutex_unlock(&boot->lock);
    free(watch);
}

void fy_watch_ready(struct fy_boot *boot, uint64_t id)
{
    pthread_mutex_lock(&boot->lock);
    struct fy_watch *watch = boot->watches;
    while (watch && watch->id != id)
        watch = watch->next;
    if (watch) { /* else unwatched since epoll reported it */
        void (*fn)(void *) = watch->fn;
        void *arg = watch->arg;
        boot->watch_running = watch;
        pthread_mutex_unlock(&boot->lock);
        fn(arg);
        pthread_mutex_lock(&boot->lock);
        boot->watch_running = NULL;
        pthread_cond_broadcast(&boot->changed);
    }
    pthread_mutex_unlock(&boot->lock);
}

void fy_watch_free(struct fy_boot *boot)
{
    while (boot->watches) {
        struct fy_watch *watch = boot->watches;
        boot->watches = watch->next;
        free(watch);
    }
}
