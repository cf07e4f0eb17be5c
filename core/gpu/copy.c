/* SPDX-License-Identifier: Apache-2.0
 * Copies by the GPU's engines: each queue is a stream of its own, and events tell how far it is.
 * A queue belongs to one thread at a time; nothing here waits but the end of it. */
#include "gpu.h"
#include <stdlib.h>

#define EVENTS    32u  /* tickets that are open at once */
#define UNDER_WAY 256u /* copies: behind more of them the driver would make the caller wait */

struct ferry_gpu_queue {
    struct fy_gpu *gpu;
    void *stream;
    uint64_t posted, done; /* copies */
    uint32_t first, n;     /* events that are recorded and not seen yet: a ring */
    struct {
        void *event;
        uint64_t covers; /* copies up to this number */
    } events[EVENTS];
};

static int note(struct fy_gpu *gpu, int code, const char *what)
{
    struct ferry_error error;
    int rc = fy_gpu_failed(gpu, code, what, &error);

    pthread_mutex_lock(&gpu->lock);
    gpu->failure = error;
    pthread_mutex_unlock(&gpu->lock);
    return rc;
}

static int make_events(struct ferry_gpu_queue *queue)
{
    int code = queue->gpu->driver.stream(&queue->stream, FY_CU_NON_BLOCKING);

    for (uint32_t i = 0; i < EVENTS && !code; i++)
        code = queue->gpu->driver.event(&queue->events[i].event, FY_CU_NO_TIMING);
    return code;
}

static void release(struct ferry_gpu_queue *queue)
{
    for (uint32_t i = 0; i < EVENTS; i++)
        if (queue->events[i].event)
            queue->gpu->driver.end_event(queue->events[i].event);
    if (queue->stream)
        queue->gpu->driver.end_stream(queue->stream);
    free(queue);
}

int fy_gpu_queue_open(struct fy_gpu *gpu, struct ferry_gpu_queue **out, struct ferry_error *error)
{
    struct ferry_gpu_queue *queue;
    int rc = fy_gpu_open(gpu, error), code;

    if (rc)
        return rc;
    queue = calloc(1, sizeof(*queue));
    if (!queue) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for a queue of copies");
        return FERRY_ERR_NOMEM;
    }
    queue->gpu = gpu;
    code = fy_gpu_enter(gpu);
    if (!code) {
        code = make_events(queue);
        if (code)
            release(queue);
        fy_gpu_leave(gpu);
    } else {
        free(queue);
    }
    if (code)
        return fy_gpu_failed(gpu, code, "make a queue of copies", error);
    *out = queue;
    return FERRY_OK;
}

void fy_gpu_queue_close(struct ferry_gpu_queue *queue)
{
    struct fy_gpu *gpu = queue->gpu;

    if (fy_gpu_enter(gpu)) {
        free(queue); /* the context is gone, and with it what was made in it */
        return;
    }
    if (queue->posted != queue->done)
        gpu->driver.finish(queue->stream);
    release(queue);
    fy_gpu_leave(gpu);
}

/* Sees which events have come about. The context is current. */
static int look(struct ferry_gpu_queue *queue)
{
    while (queue->n) {
        int code = queue->gpu->driver.query(queue->events[queue->first].event);

        if (code == FY_CU_NOT_READY)
            return FERRY_OK;
        if (code)
            return note(queue->gpu, code, "copy");
        queue->done = queue->events[queue->first].covers;
        queue->first = (queue->first + 1) % EVENTS;
        queue->n--;
    }
    return FERRY_OK;
}

/* An event behind everything posted so far, unless there is one or none is left. */
static int mark(struct ferry_gpu_queue *queue)
{
    uint32_t at = (queue->first + queue->n) % EVENTS;
    int code;

    if (queue->posted == queue->done || queue->n == EVENTS)
        return FERRY_OK;
    if (queue->n && queue->events[(at + EVENTS - 1) % EVENTS].covers == queue->posted)
        return FERRY_OK;
    code = queue->gpu->driver.record(queue->events[at].event, queue->stream);
    if (code)
        return note(queue->gpu, code, "mark a copy");
    queue->events[at].covers = queue->posted;
    queue->n++;
    return FERRY_OK;
}

/* Half of what may be under way ends with an event, so that room is seen before all of it is done. */
static int make_room(struct ferry_gpu_queue *queue)
{
    int rc = FERRY_OK;

    if (queue->posted - queue->done < UNDER_WAY / 2)
        return FERRY_OK;
    if (queue->posted % (UNDER_WAY / 2) == 0)
        rc = mark(queue);
    if (!rc)
        rc = look(queue);
    if (!rc && queue->posted - queue->done >= UNDER_WAY)
        rc = mark(queue); /* where no event was left then */
    return !rc && queue->posted - queue->done >= UNDER_WAY ? FERRY_AGAIN : rc;
}

int fy_gpu_copy(struct ferry_gpu_queue *queue, void *to, const void *from, size_t length)
{
    struct fy_gpu *gpu = queue->gpu;
    int code = fy_gpu_enter(gpu), rc;

    if (code)
        return note(gpu, code, "be used by this thread");
    rc = make_room(queue);
    if (!rc) {
        code = gpu->driver.copy((uintptr_t)to, (uintptr_t)from, length, queue->stream);
        rc = code ? note(gpu, code, "start a copy") : FERRY_OK;
        queue->posted += !code;
    }
    fy_gpu_leave(gpu);
    return rc;
}

int fy_gpu_copied(struct ferry_gpu_queue *queue, uint64_t *ticket)
{
    uint64_t wanted = *ticket ? *ticket : queue->posted;
    int rc, code;

    if (wanted <= queue->done) {
        *ticket = wanted ? wanted : 1;
        return FERRY_OK;
    }
    if ((code = fy_gpu_enter(queue->gpu)))
        return note(queue->gpu, code, "be used by this thread");
    rc = look(queue);
    if (!rc && !*ticket && wanted > queue->done)
        rc = mark(queue);
    fy_gpu_leave(queue->gpu);
    if (rc)
        return rc;
    if (wanted <= queue->done || (queue->n && queue->events[(queue->first + queue->n - 1) % EVENTS].covers >= wanted))
        *ticket = wanted; /* else all events are taken: it is drawn at the next call */
    return wanted <= queue->done ? FERRY_OK : FERRY_AGAIN;
}
