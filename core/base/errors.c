/* SPDX-License-Identifier: Apache-2.0
 * The failures of one job: the latest of each thread, and the latest that belongs to no call.
 * Any thread, under one mutex: this is never on a path that succeeds. A thread is known by its kernel number and the
 * moment it first failed or asked, so a thread that inherits the number of an ended one does not inherit its failure;
 * the records of ended threads are dropped when the table would have to grow. */
#include "clock.h"
#include "log.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct entry {
    pid_t thread;
    uint64_t since; /* tells threads with the same number apart */
    struct ferry_error record;
};

struct fy_errors {
    pthread_mutex_t lock;
    struct entry *entries;
    size_t n, capacity;
    struct ferry_error job;
    uint64_t n_recorded;
};

/* Belongs to the thread, not to the process: set once, before its first use, and never changed. */
static uint64_t thread_since(void)
{
    static _Thread_local uint64_t since;

    if (since == 0)
        since = fy_now_ns();
    return since;
}

int fy_errors_create(struct fy_errors **errors)
{
    struct fy_errors *made = calloc(1, sizeof(*made));

    *errors = NULL;
    if (!made)
        return FERRY_ERR_NOMEM;
    if (pthread_mutex_init(&made->lock, NULL) != 0) {
        free(made);
        return FERRY_ERR_SYSTEM;
    }
    *errors = made;
    return FERRY_OK;
}

void fy_errors_destroy(struct fy_errors *errors)
{
    if (!errors)
        return;
    pthread_mutex_destroy(&errors->lock);
    free(errors->entries);
    free(errors);
}

/* Records may come from a plugin that was built with a shorter or a longer struct. */
static void keep(struct ferry_error *to, const struct ferry_error *from)
{
    size_t n = from->size < sizeof(*to) ? from->size : sizeof(*to);
    int status = from->status;

    memset(to, 0, sizeof(*to));
    memcpy(to, from, n);
    to->size = sizeof(*to);
    to->status = status;
    to->device[sizeof(to->device) - 1] = '\0';
    to->message[sizeof(to->message) - 1] = '\0';
    to->hint[sizeof(to->hint) - 1] = '\0';
}

static struct entry *find(struct fy_errors *errors, pid_t thread)
{
    for (size_t i = 0; i < errors->n; i++)
        if (errors->entries[i].thread == thread)
            return &errors->entries[i];
    return NULL;
}

static void drop_ended(struct fy_errors *errors)
{
    size_t kept = 0;

    for (size_t i = 0; i < errors->n; i++) {
        if (syscall(SYS_tgkill, getpid(), errors->entries[i].thread, 0) != 0 && errno == ESRCH)
            continue;
        errors->entries[kept++] = errors->entries[i];
    }
    errors->n = kept;
}

static void grow(struct fy_errors *errors)
{
    size_t capacity = errors->capacity ? errors->capacity * 2 : 4;
    struct entry *grown = realloc(errors->entries, capacity * sizeof(*grown));

    if (!grown)
        return;
    errors->entries = grown;
    errors->capacity = capacity;
}

static struct entry *add(struct fy_errors *errors, pid_t thread)
{
    if (errors->n == errors->capacity) {
        drop_ended(errors);
        /* Grows when little was dropped, too, so that looking at every thread stays rare. */
        if (errors->n * 2 >= errors->capacity)
            grow(errors);
        if (errors->n == errors->capacity)
            return NULL;
    }
    errors->entries[errors->n].thread = thread;
    return &errors->entries[errors->n++];
}

int fy_errors_thread(struct fy_errors *errors, const struct ferry_error *record)
{
    pid_t thread = (pid_t)syscall(SYS_gettid);
    int saved = errno;

    pthread_mutex_lock(&errors->lock);
    struct entry *entry = find(errors, thread);
    errors->n_recorded++;
    if (!entry)
        entry = add(errors, thread);
    if (entry) {
        entry->since = thread_since();
        keep(&entry->record, record);
    } else {
        keep(&errors->job, record); /* out of memory: better told to all than to nobody */
    }
    pthread_mutex_unlock(&errors->lock);
    errno = saved;
    return record->status;
}

void fy_errors_job(struct fy_errors *errors, const struct ferry_error *record)
{
    pthread_mutex_lock(&errors->lock);
    errors->n_recorded++;
    keep(&errors->job, record);
    pthread_mutex_unlock(&errors->lock);
}

uint64_t fy_errors_count(struct fy_errors *errors)
{
    pthread_mutex_lock(&errors->lock);
    uint64_t n = errors->n_recorded;
    pthread_mutex_unlock(&errors->lock);
    return n;
}

static void give(struct ferry_error *out, const struct ferry_error *record)
{
    uint32_t size = out->size;

    memcpy(out, record, size < sizeof(*record) ? size : sizeof(*record));
    out->size = size;
}

void fy_errors_last(struct fy_errors *errors, struct ferry_error *out)
{
    static const struct ferry_error none = {.peer = -1, .channel = -1, .operation = -1};
    pid_t thread = (pid_t)syscall(SYS_gettid);

    pthread_mutex_lock(&errors->lock);
    const struct entry *entry = find(errors, thread);
    if (entry && entry->since == thread_since())
        give(out, &entry->record);
    else
        give(out, errors->job.status != FERRY_OK ? &errors->job : &none);
    pthread_mutex_unlock(&errors->lock);
}
