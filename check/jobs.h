/* SPDX-License-Identifier: Apache-2.0
 * Jobs that a rule starts itself, with its PEs as threads; for rules that are called once and without a job. */
#ifndef CHECK_JOBS_H
#define CHECK_JOBS_H

#include "rules.h"

#define JOBS_PES 64

/* One PE of such a job, and what came of it. */
struct job_pe {
    struct pe pe;
    int began, ended;         /* status of init, and of finalize: FERRY_OK while there was none */
    struct ferry_error error; /* why init failed */
    /* the job's own */
    void (*body)(struct pe *pe);
    const ferry_uniqueid_t *id;
    const char *const *options;
    void (*log)(void *arg, int level, const char *line);
    void *log_arg;
};

struct job {
    int n;
    void (*body)(struct pe *pe);
    void *arg;                  /* of pe->arg in the body */
    const char *const *options; /* "NAME=value", ended by NULL; besides FERRY_TRANSPORT; or NULL */
    const char *only_one;       /* PE 1 has this one more; or NULL */
    void (*log)(void *arg, int level, const char *line); /* with log_arg; NULL: nobody hears it */
    void *log_arg;
    struct job_pe pes[JOBS_PES];
};

/* Runs it, with a meeting that is gone afterwards. */
void job_run(struct pe *pe, struct job *job);
/* A job in which PEs do a little of everything; counts what fails. Twice: so that all is there that stays for good. */
void job_good(struct pe *pe, int n);
/* Descriptors, threads and mappings are as before. */
void job_same_usage(struct pe *pe, const struct pes_usage *before);

#endif
