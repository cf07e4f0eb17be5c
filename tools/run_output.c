/* SPDX-License-Identifier: Apache-2.0
 * ferry-run: carries the PEs' output to stdout and stderr in whole lines, without ever blocking on them.
 * Called from the loop only. */
#include "run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SINK_FULL ((size_t)1 << 20)
/* A longer line is passed on in pieces, between which other lines may come: memory has to end somewhere. */
#define LINE_MAX_BYTES ((size_t)64 << 20)

/* Room for `more` bytes at the end. */
static void buffer_reserve(struct run_buffer *buffer, size_t more)
{
    if (buffer->head == buffer->end)
        buffer->head = buffer->end = 0;
    if (buffer->capacity - buffer->end >= more)
        return;
    if (buffer->head > 0) {
        memmove(buffer->data, buffer->data + buffer->head, buffer->end - buffer->head);
        buffer->end -= buffer->head;
        buffer->head = 0;
    }
    if (buffer->capacity - buffer->end >= more)
        return;
    size_t capacity = buffer->capacity * 2 > buffer->end + more ? buffer->capacity * 2 : buffer->end + more;
    char *data = realloc(buffer->data, capacity);
    if (!data) {
        /* Leaving closes the guard's pipe, and so ends the job. */
        fprintf(stderr, "ferry-run: out of memory for %zu bytes of output\n", capacity);
        _exit(71);
    }
    buffer->data = data;
    buffer->capacity = capacity;
}

static void buffer_append(struct run_buffer *buffer, const char *bytes, size_t length)
{
    if (length == 0)
        return;
    buffer_reserve(buffer, length);
    memcpy(buffer->data + buffer->end, bytes, length);
    buffer->end += length;
}

static void buffer_drop(struct run_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct run_buffer){0};
}

void run_sink_open(struct run_sink *sink, int fd)
{
    struct stat st;
    *sink = (struct run_sink){.fd = fd, .piece = RUN_CHUNK};
    /* After POLLOUT a pipe takes a page for sure. It may be shared with others, so that O_NONBLOCK is not ours to set.
     */
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        sink->piece = 4096;
}

bool run_sink_pending(const struct run_sink *sink)
{
    return sink->buffer.end > sink->buffer.head;
}

bool run_sink_full(const struct run_sink *sink)
{
    return sink->buffer.end - sink->buffer.head >= SINK_FULL;
}

void run_sink_append(struct run_sink *sink, const struct run_source *from, const char *bytes, size_t length)
{
    if (sink->error || length == 0)
        return;
    if (sink->midway && sink->midway != from)
        buffer_append(&sink->buffer, "\n", 1);
    buffer_append(&sink->buffer, bytes, length);
    sink->midway = bytes[length - 1] == '\n' ? NULL : from;
}

void run_sink_flush(struct run_sink *sink)
{
    struct run_buffer *buffer = &sink->buffer;
    while (run_sink_pending(sink)) {
        struct pollfd ready = {.fd = sink->fd, .events = POLLOUT};
        if (poll(&ready, 1, 0) <= 0)
            return;
        size_t length = buffer->end - buffer->head < sink->piece ? buffer->end - buffer->head : sink->piece;
        ssize_t n = write(sink->fd, buffer->data + buffer->head, length);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            return;
        if (n < 0) {
            sink->error = errno;
            buffer_drop(buffer);
            return;
        }
        buffer->head += (size_t)n;
    }
}

/* Passes on bytes that are whole lines, or the last piece of one. */
static void pass_on(struct run_source *source, const char *bytes, size_t length)
{
    if (!source->tag) {
        run_sink_append(source->sink, source, bytes, length);
        return;
    }
    char tag[16];
    int tag_length = snprintf(tag, sizeof tag, "[%d] ", source->rank);
    while (length > 0) {
        const char *newline = memchr(bytes, '\n', length);
        size_t line = newline ? (size_t)(newline - bytes) + 1 : length;
        if (!source->midline)
            run_sink_append(source->sink, source, tag, (size_t)tag_length);
        run_sink_append(source->sink, source, bytes, line);
        source->midline = !newline;
        bytes += line;
        length -= line;
    }
}

/* Passes on the kept beginning of a line with `length` bytes of `bytes` after it. */
static void pass_on_kept(struct run_source *source, const char *bytes, size_t length)
{
    struct run_buffer *line = &source->line;
    if (line->end > line->head) {
        buffer_append(line, bytes, length);
        pass_on(source, line->data + line->head, line->end - line->head);
        buffer_drop(line);
        return;
    }
    pass_on(source, bytes, length);
}

void run_source_finish(struct run_source *source)
{
    if (source->fd < 0)
        return;
    pass_on_kept(source, "", 0);
    close(source->fd);
    source->fd = -1;
}

void run_source_read(struct run_source *source, char chunk[RUN_CHUNK])
{
    ssize_t n = read(source->fd, chunk, source->left < RUN_CHUNK ? source->left : RUN_CHUNK);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        run_source_finish(source);
        return;
    }
    if (source->left != SIZE_MAX)
        source->left -= (size_t)n;

    const char *newline = memrchr(chunk, '\n', (size_t)n);
    size_t whole = newline ? (size_t)(newline - chunk) + 1 : 0;
    if (whole > 0)
        pass_on_kept(source, chunk, whole);
    buffer_append(&source->line, chunk + whole, (size_t)n - whole);
    if (source->line.end - source->line.head >= LINE_MAX_BYTES)
        pass_on_kept(source, "", 0);
    if (source->left == 0)
        run_source_finish(source);
}
