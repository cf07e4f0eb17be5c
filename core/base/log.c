/* SPDX-License-Identifier: Apache-2.0
 * Makes log lines and error records.
 * Any thread; keeps no state, and leaves errno as it was, so that a caller may log before it looks at errno. */
#include "log.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX   4096 /* bytes of one message; longer ones end in "..." */
#define PREFIX_MAX 48

static const char *level_name(int level)
{
    static const char *const names[] = {"error", "warning", "info", "debug", "trace"};

    if (level < FERRY_LOG_ERROR)
        return names[FERRY_LOG_ERROR];
    return level > FERRY_LOG_TRACE ? names[FERRY_LOG_TRACE] : names[level];
}

void fy_log_init(struct fy_log *log)
{
    *log = (struct fy_log){.level = FERRY_LOG_WARN, .pe = -1};
}

/* One write(2) per line, so that lines of several PEs on one terminal or pipe do not mix. */
static void write_stderr(const char *line, size_t n)
{
    while (n > 0) {
        ssize_t done = write(STDERR_FILENO, line, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return; /* nowhere left to complain */
        line += done;
        n -= (size_t)done;
    }
}

/* Messages quote what users and peers wrote: no escape sequence may reach the terminal. */
static void copy_printable(char *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)text[i] < ' ' || text[i] == 127 ? '?' : text[i];
}

static void emit_line(const struct fy_log *log, int level, const char *text, size_t n)
{
    char line[PREFIX_MAX + TEXT_MAX + 1];
    int prefix;

    if (log->pe >= 0)
        prefix = snprintf(line, PREFIX_MAX, "ferry [pe %d] %s: ", log->pe, level_name(level));
    else
        prefix = snprintf(line, PREFIX_MAX, "ferry %s: ", level_name(level));
    copy_printable(line + prefix, text, n);
    n += (size_t)prefix;
    if (log->sink) {
        line[n] = '\0';
        log->sink(log->sink_arg, level, line);
        return;
    }
    line[n] = '\n';
    write_stderr(line, n + 1);
}

void fy_log_v(const struct fy_log *log, int level, const char *format, va_list args)
{
    char text[TEXT_MAX];
    char *line = text;
    int saved = errno;

    if (!log || level > log->level)
        return;
    int n = vsnprintf(text, sizeof(text), format, args);
    if (n < 0)
        snprintf(text, sizeof(text), "a message could not be formatted: %s", format);
    else if ((size_t)n >= sizeof(text))
        memcpy(text + sizeof(text) - 4, "...", 4);
    for (;;) {
        size_t length = strcspn(line, "\n");
        bool last = line[length] == '\0' || line[length + 1] == '\0';

        emit_line(log, level, line, length);
        if (last)
            break;
        line += length + 1;
    }
    errno = saved;
}

void fy_log(const struct fy_log *log, int level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fy_log_v(log, level, format, args);
    va_end(args);
}

void fy_error_set(struct ferry_error *error, int status, const char *hint, const char *format, ...)
{
    va_list args;
    int saved = errno;

    if (!error)
        return;
    memset(error, 0, sizeof(*error));
    error->size = sizeof(*error);
    error->status = status;
    error->peer = error->channel = error->operation = -1;
    errno = saved; /* for %m */
    va_start(args, format);
    vsnprintf(error->message, sizeof(error->message), format, args);
    va_end(args);
    snprintf(error->hint, sizeof(error->hint), "%s", hint ? hint : "");
    for (char *p = error->message; (p = strchr(p, '\n'));)
        *p = ' ';
    errno = saved;
}

void fy_log_record(const struct fy_log *log, int level, const char *what, const struct ferry_error *record)
{
    bool hint = record->hint[0] != '\0';

    fy_log(log, level, "%s%s%s%s%s", what, record->message, hint ? " (" : "", record->hint, hint ? ")" : "");
}
