/* SPDX-License-Identifier: Apache-2.0
 * PEs as processes: the test starts itself again once per PE, sends each one-letter orders and reads what they report.
 * Used by the test's thread. */
#ifndef BOOT_KIDS_H
#define BOOT_KIDS_H

#include "kit.h"
#include <sys/types.h>

#define KIDS       32
#define KIDS_LINES 4096

struct kids {
    uint32_t n;
    struct {
        pid_t pid; /* 0: reaped */
        int orders;
    } kid[KIDS];
    int reports;
    char text[4096]; /* not a whole line yet */
    size_t filled;
    char *lines[KIDS_LINES]; /* NULL once taken */
    size_t n_lines;
};

/* A PE: never returns when the arguments say so. */
void kids_main(int argc, char **argv);
/* Starts n PEs and waits until all are up. */
void kids_start(struct kids *kids, uint32_t n, double peer_timeout);
/* Orders: g enter a step without a time limit; t one of 0.5 s; a abort with 7; c<pe> call that PE with a bound of 20 s,
 * k<pe> of 0.3 s; q close and end. */
void kids_order(struct kids *kids, uint32_t pe, const char *order);
void kids_signal(struct kids *kids, uint32_t pe, int signal);
/* Stops one and waits until it has stopped. */
void kids_stop(struct kids *kids, uint32_t pe);
/* Waits for a line that starts so, and takes it; NULL: not within `seconds`. The caller frees. */
char *kids_take(struct kids *kids, double seconds, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same, and asserts that it came. */
void kids_expect(struct kids *kids, double seconds, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Asserts that nobody reports a death for so long. */
void kids_quiet(struct kids *kids, double seconds);
/* Kills one and waits until it is gone. */
void kids_kill(struct kids *kids, uint32_t pe);
/* One closes in good order while the others go on. */
void kids_close(struct kids *kids, uint32_t pe, double seconds);
/* All that are left close in good order. */
void kids_end(struct kids *kids);

#endif
