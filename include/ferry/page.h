/* SPDX-License-Identifier: Apache-2.0
 * The page of counters that each PE keeps, for those who look in from outside: ferry-top, or a monitor of your own. It is an
 * unnamed file (memfd) of the process, found as a link in /proc/PID/fd, and ends with the process. Read it with pread. */
#ifndef FERRY_PAGE_H
#define FERRY_PAGE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the link in /proc/PID/fd reads. */
#define FERRY_PAGE_NAME "ferry-counters"
#define FERRY_PAGE_LINK "/memfd:" FERRY_PAGE_NAME " (deleted)"

#define FERRY_PAGE_MAGIC  UINT64_C(0x6567617079727265)
#define FERRY_PAGE_LAYOUT 1u /* another number: another layout, of another version of Ferry */

/* Of one channel, since it was created; only grow. Written by the thread that uses the channel, each word as a whole. */
struct ferry_counters {
    uint64_t puts, gets, atomics, signals; /* a put with signal counts as both */
    uint64_t bytes_put, bytes_got;
    uint64_t fences, fenced_operations, drains;
    uint64_t quiets, again; /* again: the transport had no room, and the post was repeated */
    uint64_t mailed;
    uint64_t completed; /* puts + gets + atomics + signals at the moment when nothing was outstanding */
    uint64_t reserved[3];
};

enum ferry_page_kind {
    FERRY_PAGE_FREE = 0,
    FERRY_PAGE_DEFAULT = 1, /* of the default context */
    FERRY_PAGE_CONTEXT = 2,
    FERRY_PAGE_RING = 3,
    FERRY_PAGE_BARRIER = 4,
    FERRY_PAGE_MAILBOX = 5
};

/* At channels_at + i * channel_stride. What follows the counters is written by the control thread, once a second. */
struct ferry_page_channel {
    struct ferry_counters counters;
    uint32_t kind;        /* enum ferry_page_kind */
    uint32_t outstanding; /* peers to which something is not known to be complete */
    uint64_t busy_since;  /* CLOCK_MONOTONIC, ns: nothing that is outstanding is older; 0: nothing is */
};

/* A thread that has been waiting for longer than a moment. */
struct ferry_page_wait {
    uint32_t state;   /* 0 free, 1 being written, 2 valid */
    int32_t peer;     /* whom it waits for; -1: not known, or nobody in particular */
    int32_t channel;  /* -1: none */
    uint32_t thread;  /* its number, of the kernel */
    uint64_t since;   /* CLOCK_MONOTONIC, ns */
    uint64_t doing[5]; /* text, ended by 0 unless it fills all 40 bytes */
};
#define FERRY_PAGE_WAITS 16

/* A proxy thread: how often it looked at its rings, and how often something was to be done. */
struct ferry_page_worker {
    uint64_t looks, worked;
};
#define FERRY_PAGE_WORKERS 16

struct ferry_page {
    uint64_t magic;
    uint32_t layout;
    uint32_t size;           /* of this struct */
    uint32_t pid;            /* as the process itself sees it */
    int32_t pe;
    uint32_t n_pes;
    uint32_t n_channels;
    uint64_t job;            /* equal in all PEs of a job */
    uint64_t channels_at, channel_stride;
    uint64_t report_at, report_room;
    uint64_t looked;         /* CLOCK_MONOTONIC, ns, of the control thread's last look; 0: it has not looked yet */
    uint64_t errors;         /* failures that were recorded */
    uint32_t dead;           /* PEs that died */
    uint32_t aborted;
    char transports[64];     /* names, with commas */

    /* Whoever wants a report of the whole job adds 1 to `asked`. The PE answers with an odd `report` (it is at it), then an even
     * one: at report_at are a text of text_size and then a JSON object of json_size bytes. */
    uint32_t asked, report;
    uint32_t text_size, json_size;

    struct ferry_page_wait waits[FERRY_PAGE_WAITS];
    struct ferry_page_worker workers[FERRY_PAGE_WORKERS];
};

#ifdef __cplusplus
}
#endif
#endif
