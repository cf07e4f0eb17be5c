/* SPDX-License-Identifier: Apache-2.0
 * ferry-top: what its files share. One thread. Pages are other processes' memory: nothing in them is believed before it was
 * checked, and they are read as files, so that what changes under the reader cannot stop it. */
#ifndef FERRY_TOOLS_TOP_H
#define FERRY_TOOLS_TOP_H

#include <ferry/page.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

struct top_options {
    bool once, json;
    double interval; /* seconds */
    pid_t dump;      /* 0: no report is asked for */
};

/* Exits with EX_USAGE on bad input. */
void top_parse(int argc, char **argv, struct top_options *options);

/* ------------------------------------------------------------------ pages (top_pages.c) */

struct top_channel {
    uint32_t number;
    struct ferry_page_channel is;
};

/* One PE, as its page was read. */
struct top_page {
    pid_t pid;            /* as seen from here */
    char program[32];
    char state;           /* of /proc/PID/stat: T is stopped */
    char path[64];        /* /proc/PID/fd/N */
    double at;            /* seconds, monotonic: when it was read */
    struct ferry_page head;
    struct top_channel *channels;
    size_t n_channels;
};

struct top_pages {
    struct top_page *pages; /* by job, then PE */
    size_t n;
};

/* Those of the user's processes; of root, everybody's. Exits if /proc cannot be read. */
void top_pages_read(struct top_pages *pages);
/* The page at a path of an earlier reading; false: it is gone, or makes no sense. */
bool top_page_read(const char *path, pid_t pid, struct top_page *page);
void top_page_release(struct top_page *page);
void top_pages_release(struct top_pages *pages);
double top_now(void);

/* ------------------------------------------------------------------ rates (top_rates.c) */

struct top_rates {
    double seconds; /* between the two readings; 0: it was not there before */
    double puts, gets, atomics, signals, operations, bytes_put, bytes_got, retries;
    uint64_t outstanding; /* operations, at most */
    double oldest;        /* seconds, at least; negative: nothing is outstanding */
};
/* `before` NULL: it is new. */
void top_rates(const struct top_page *before, const struct top_page *after, const struct top_channel *channel, struct top_rates *rates);
/* The same PE in an earlier reading, or NULL. */
const struct top_page *top_before(const struct top_pages *before, const struct top_page *page);
/* Share of the proxy threads' looks that found work; negative: there is no such thread, or it did not look. */
double top_proxy_load(const struct top_page *before, const struct top_page *after);
/* The longest wait; false: nobody waits. */
bool top_longest_wait(const struct top_page *page, struct ferry_page_wait *wait);
const char *top_kind(uint32_t kind);
bool top_internal(uint32_t kind);

/* ------------------------------------------------------------------ forms (top_table.c, top_json.c, top_dump.c) */

void top_table(const struct top_pages *before, const struct top_pages *after);
/* One object on one line. */
void top_json(const struct top_pages *before, const struct top_pages *after);
/* Asks the job of that process for a report, prints it. The exit status. */
int top_dump(pid_t pid, bool json);

#endif
