/* SPDX-License-Identifier: Apache-2.0
 * ferry-run: what its files share. One thread runs all of it; the thread that serves the PEs' meeting belongs to
 * the library and touches nothing here. */
#ifndef FERRY_TOOLS_RUN_H
#define FERRY_TOOLS_RUN_H

#include <ferry/ferry.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_MAX_PES      4096
#define RUN_EXIT_TIMEOUT 124
#define RUN_EXIT_PIPE    141 /* 128 + SIGPIPE */
#define RUN_CHUNK        ((size_t)64 << 10)

struct run_options {
    int n;
    bool prefix;
    double grace;   /* seconds the others have after the first failure */
    double timeout; /* seconds the job may take; 0: no limit */
    char **argv;    /* the program and its arguments, NULL-ended */
};

/* Exits with EX_USAGE on bad input. */
void run_parse(int argc, char **argv, struct run_options *options);

/* ------------------------------------------------------------------ output (run_output.c) */

/* Bytes from `head` to `end` of `data` are waiting. */
struct run_buffer {
    char *data;
    size_t head, end, capacity;
};

struct run_source;

/* Where lines go: ferry-run's stdout or stderr. Never blocks; what cannot be written yet waits in the buffer. */
struct run_sink {
    int fd;
    size_t piece; /* most bytes of a write that cannot block after POLLOUT */
    int error;    /* errno of the write that failed; everything is dropped from then on */
    struct run_buffer buffer;
    const struct run_source *midway; /* who wrote the last byte, if it was no newline */
};

/* One end of a PE's pipe: its stdout or stderr. */
struct run_source {
    int fd;       /* -1: ended */
    int rank;     /* -1: ferry-run itself */
    bool tag;     /* put [rank] before each line */
    bool midline; /* a piece of the present line was already passed on */
    size_t left;  /* bytes it may still bring once all PEs are gone */
    struct run_sink *sink;
    struct run_buffer line; /* the beginning of a line */
};

void run_sink_open(struct run_sink *sink, int fd);
/* Appends bytes of one writer; lines that another left open are ended first. */
void run_sink_append(struct run_sink *sink, const struct run_source *from, const char *bytes, size_t length);
void run_sink_flush(struct run_sink *sink);
bool run_sink_pending(const struct run_sink *sink);
/* Too much is waiting: do not read more. */
bool run_sink_full(const struct run_sink *sink);
/* Reads once, into `chunk`, and passes whole lines on; at the end of the stream also the rest. */
void run_source_read(struct run_source *source, char chunk[RUN_CHUNK]);
void run_source_finish(struct run_source *source);

/* ------------------------------------------------------------------ processes (run_launch.c, run_guard.c) */

struct run_pe {
    pid_t pid;
    bool alive;
};

enum run_stage { RUN_GOING, RUN_GRACE, RUN_TERMINATING, RUN_KILLED };

struct run_job {
    struct run_options options;
    struct run_pe *pes;
    struct run_source *sources; /* stdout of PE i is 2 i, its stderr 2 i + 1 */
    struct run_sink sinks[2];   /* the second is unused when both are the same file */
    struct run_source self;     /* ferry-run's own messages */
    int alive;
    pid_t group;     /* process group of all PEs; its leader is the guard */
    int guard_fd;    /* the guard kills the group when this closes */
    bool guard_gone; /* it was collected already */
    int signal_fd;
    sigset_t old_mask;
    enum run_stage stage;
    double deadline;     /* of the stage; 0: none */
    double failed_at;    /* moment of the first failure */
    double overtime;     /* moment at which --timeout strikes; 0: never */
    bool terminal_given; /* the group has the terminal */
    bool reader_left;    /* nobody reads standard output any more */
    bool give_up;        /* leave, even if output is waiting */
    ferry_meeting_t *meeting;
    int exit_status;
    bool exit_by_signal; /* the first failure was a death by signal */
};

/* Starts the process that outlives ferry-run and then kills what is left of the job. Called before any thread
 * exists. Exits on failure. */
void run_guard_start(struct run_job *job);
/* Waits for the guard, and kills what PEs left behind, also in sessions of their own. */
void run_guard_end(struct run_job *job);

/* Starts all PEs. 0, or the exit status after the reason was printed. */
int run_launch(struct run_job *job);

/* ------------------------------------------------------------------ watching (run_watch.c, run_loop.c) */

double run_now(void);
/* printf to stderr as ferry-run, through the sink. */
void run_say(struct run_job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* To every PE, also those that left the group. */
void run_signal_all(struct run_job *job, int number);
/* Collects PEs that ended. */
void run_reap(struct run_job *job);
/* Looks at PEs that were stopped: one that wants the terminal gets it. */
void run_take_stops(struct run_job *job);
/* Reads the signals that came, passes them on. */
void run_take_signals(struct run_job *job);
/* SIGUSR1 (run_report.c): has a report made. False: the program uses the signal itself. */
bool run_report(struct run_job *job);
/* Moves on to ending the job when a deadline has passed. */
void run_check_deadlines(struct run_job *job);
/* Nobody reads standard output any more: ends the job. */
void run_reader_left(struct run_job *job);
/* Seconds until the next deadline, negative: none. */
double run_next_deadline(const struct run_job *job);
void run_loop(struct run_job *job);

#endif
