/* SPDX-License-Identifier: Apache-2.0
 * Log lines and error records of one job. No process-wide state: everybody who logs holds a struct fy_log.
 * Any thread may log; a log is set up before it is shared and not changed after. */
#ifndef FY_BASE_LOG_H
#define FY_BASE_LOG_H

#include <ferry/status.h>
#include <ferry/transport.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>

/* Where lines go and which. A line is "ferry [pe 3] error: …" on stderr, written by one write(2). */
struct fy_log {
    int level;                                            /* enum ferry_log_level: lines above it are dropped */
    int pe;                                               /* -1: not known yet */
    void (*sink)(void *arg, int level, const char *line); /* NULL: stderr */
    void *sink_arg;
};

void fy_log_init(struct fy_log *log); /* level WARN, pe -1, stderr */
void fy_log(const struct fy_log *log, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
void fy_log_v(const struct fy_log *log, int level, const char *format, va_list args);

/* Logs a record: `what` (may be ""), the message, and the hint in brackets. */
void fy_log_record(const struct fy_log *log, int level, const char *what, const struct ferry_error *record);

/* Fills a record: status, no peer, channel, operation. hint may be NULL. The format is the message. */
void fy_error_set(struct ferry_error *error, int status, const char *hint, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The failures of a job: one record per thread that failed, and the job's latest. */
struct fy_errors;
int fy_errors_create(struct fy_errors **errors);
void fy_errors_destroy(struct fy_errors *errors);
/* Records the failure of the calling thread; returns record->status. */
int fy_errors_thread(struct fy_errors *errors, const struct ferry_error *record);
/* Records a failure that belongs to no call; the first one of a PE is kept per peer by who calls this. */
void fy_errors_job(struct fy_errors *errors, const struct ferry_error *record);
/* Failures recorded so far, of any thread or of none. */
uint64_t fy_errors_count(struct fy_errors *errors);
/* The calling thread's latest, else the job's latest, else FERRY_OK. Copies at most out->size bytes. */
void fy_errors_last(struct fy_errors *errors, struct ferry_error *out);

#endif
