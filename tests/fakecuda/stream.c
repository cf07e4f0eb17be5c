/* SPDX-License-Identifier: Apache-2.0
 * Streams and events of the stand-in. What is put into a stream is done only when somebody finds it done: by an event
 * behind it that was asked FAKECUDA_EVENT_POLLS times, or by waiting; so a caller that believes too early reads old
 * bytes. Any thread. */
#include "driver.h"
#include "fake.h"

#include <stdlib.h>
#include <string.h>

/* One copy or fill, or the place of an event. */
struct work {
    struct work *next;
    uint64_t to, from;
    size_t bytes;
    struct event *event;
    unsigned char fill;
    bool is_fill;
    int device;
};

struct stream {
    struct work *first, **last;
    int error;
};

struct event {
    struct stream *stream; /* NULL: done, or never recorded */
    uint64_t asked;
    int error;
};

/* Copies may reach over the borders of mappings. */
static int one_page_after_another(const struct work *w)
{
    enum { PIECE = 4096 };

    for (size_t at = 0, n; at < w->bytes; at += n) {
        size_t to_border = PIECE - (w->to + at) % PIECE, from_border = PIECE - (w->from + at) % PIECE;
        void *to, *from;

        n = to_border < from_border ? to_border : from_border;
        n = n < w->bytes - at ? n : w->bytes - at;
        to = fake_reach(w->to + at, n);
        from = w->is_fill ? to : fake_reach(w->from + at, n);
        if (!to || !from)
            return FAKE_INVALID_VALUE;
        if (w->is_fill)
            memset(to, w->fill, n);
        else
            memmove(to, from, n);
    }
    return FAKE_OK;
}

/* Until `event`, or all of it. */
static void carry_out(struct stream *stream, const struct event *event)
{
    while (stream->first) {
        struct work *w = stream->first;
        struct event *e = w->event;

        stream->first = w->next;
        if (!stream->first)
            stream->last = &stream->first;
        if (!e && !stream->error)
            stream->error = one_page_after_another(w);
        if (e) {
            e->stream = NULL;
            e->error = stream->error;
        }
        free(w);
        if (e && e == event)
            return;
    }
}

static int append(void *handle, struct work work)
{
    struct stream *stream = handle;
    struct work *w = malloc(sizeof(*w));

    if (fake_current() < 0 || !w) {
        free(w);
        return fake_current() < 0 ? FAKE_INVALID_CONTEXT : FAKE_OUT_OF_MEMORY;
    }
    *w = work;
    w->next = NULL;
    pthread_mutex_lock(&fake_lock);
    *stream->last = w;
    stream->last = &w->next;
    if (w->event) {
        w->event->stream = stream;
        w->event->asked = 0;
    }
    pthread_mutex_unlock(&fake_lock);
    return FAKE_OK;
}

FAKE_API int cuStreamCreate(void **out, unsigned flags)
{
    int rc = fake_fails("cuStreamCreate");
    struct stream *stream;

    (void)flags;
    if (rc)
        return rc;
    if (fake_current() < 0)
        return FAKE_INVALID_CONTEXT;
    stream = calloc(1, sizeof(*stream));
    if (stream)
        stream->last = &stream->first;
    *out = stream;
    return stream ? FAKE_OK : FAKE_OUT_OF_MEMORY;
}

FAKE_API int cuStreamSynchronize(void *handle)
{
    struct stream *stream = handle;
    int rc;

    if (!stream)
        return FAKE_INVALID_HANDLE;
    pthread_mutex_lock(&fake_lock);
    carry_out(stream, NULL);
    rc = stream->error;
    pthread_mutex_unlock(&fake_lock);
    return rc ? rc : fake_fails("cuStreamSynchronize");
}

FAKE_API int cuStreamQuery(void *handle)
{
    struct stream *stream = handle;
    int rc;

    pthread_mutex_lock(&fake_lock);
    rc = stream->first ? FAKE_NOT_READY : stream->error;
    pthread_mutex_unlock(&fake_lock);
    return rc;
}

FAKE_API int cuStreamDestroy_v2(void *handle)
{
    if (!handle)
        return FAKE_INVALID_HANDLE;
    cuStreamSynchronize(handle);
    free(handle);
    return FAKE_OK;
}

FAKE_API int cuEventCreate(void **out, unsigned flags)
{
    int rc = fake_fails("cuEventCreate");

    (void)flags;
    if (rc)
        return rc;
    *out = calloc(1, sizeof(struct event));
    return *out ? FAKE_OK : FAKE_OUT_OF_MEMORY;
}

FAKE_API int cuEventRecord(void *event, void *stream)
{
    int rc = fake_fails("cuEventRecord");

    return rc ? rc : append(stream, (struct work){.event = event});
}

FAKE_API int cuEventQuery(void *handle)
{
    struct event *event = handle;
    int rc = fake_fails("cuEventQuery");

    if (rc)
        return rc;
    pthread_mutex_lock(&fake_lock);
    if (event->stream && event->asked++ >= fake_number("FAKECUDA_EVENT_POLLS", 0))
        carry_out(event->stream, event);
    rc = event->stream ? FAKE_NOT_READY : event->error;
    pthread_mutex_unlock(&fake_lock);
    return rc;
}

FAKE_API int cuEventSynchronize(void *handle)
{
    struct event *event = handle;
    int rc;

    pthread_mutex_lock(&fake_lock);
    if (event->stream)
        carry_out(event->stream, event);
    rc = event->error;
    pthread_mutex_unlock(&fake_lock);
    return rc;
}

/* An event that is still in a stream must be found done first: that is asked of callers here, though not by CUDA. */
FAKE_API int cuEventDestroy_v2(void *handle)
{
    int rc = cuEventSynchronize(handle);

    free(handle);
    return rc == FAKE_OK ? FAKE_OK : rc;
}

/* ------------------------------------------------------------------ copies */

FAKE_API int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    int rc = fake_fails("cuMemcpyAsync");

    return rc ? rc : append(stream, (struct work){.to = to, .from = from, .bytes = bytes});
}

FAKE_API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
    return cuMemcpyAsync(to, (uintptr_t)from, bytes, stream);
}

FAKE_API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
    return cuMemcpyAsync((uintptr_t)to, from, bytes, stream);
}

FAKE_API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    return cuMemcpyAsync(to, from, bytes, stream);
}

FAKE_API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *stream)
{
    int rc = fake_fails("cuMemsetD8Async");

    return rc ? rc : append(stream, (struct work){.to = to, .bytes = bytes, .is_fill = true, .fill = value});
}

static int at_once(struct work work)
{
    int rc;

    if (fake_current() < 0)
        return FAKE_INVALID_CONTEXT;
    pthread_mutex_lock(&fake_lock);
    rc = one_page_after_another(&work);
    pthread_mutex_unlock(&fake_lock);
    return rc;
}

FAKE_API int cuMemcpy(uint64_t to, uint64_t from, size_t bytes)
{
    int rc = fake_fails("cuMemcpy");

    return rc ? rc : at_once((struct work){.to = to, .from = from, .bytes = bytes});
}

FAKE_API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    return cuMemcpy(to, (uintptr_t)from, bytes);
}

FAKE_API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    return cuMemcpy((uintptr_t)to, from, bytes);
}
