/* SPDX-License-Identifier: Apache-2.0
 * For MPI programs: ferry_mpi_init starts a job whose PEs are the ranks of a communicator. Everything here is compiled in the
 * program, with its own MPI library; libferry knows none. Called by the thread that may call MPI; MPI 3 and newer. */
#ifndef FERRY_MPI_H
#define FERRY_MPI_H

#include <ferry/ferry.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FERRY_MPI_TAG 0x4645 /* of messages between ranks that wait for others in vain; no others are sent */

struct ferry_mpi {
    MPI_Comm comm;
    double timeout; /* seconds; 0: no bound */
    char why[200];  /* why the latest call failed */
};

static inline const char *ferry_mpi_reason(void *arg)
{
    return ((struct ferry_mpi *)arg)->why[0] ? ((struct ferry_mpi *)arg)->why : NULL;
}

static inline int ferry_mpi_failed(struct ferry_mpi *mpi, const char *call, int rc)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    text[0] = '\0';
    MPI_Error_string(rc, text, &length);
    snprintf(mpi->why, sizeof(mpi->why), "%s: %.150s", call, text);
    return rc ? rc : 1;
}

/* Each rank that waits tells all others that it is there; who is not heard within a second is not. */
static inline void ferry_mpi_missing(struct ferry_mpi *mpi, int rank, int n)
{
    char list[128] = "", word = 1;
    char *here = (char *)calloc((size_t)n, 1);
    double end = MPI_Wtime() + 1;
    int more = 0;
    for (int pe = 0; here && pe < n; pe++) {
        MPI_Request request;
        if (pe != rank && MPI_Isend(&word, 0, MPI_BYTE, pe, FERRY_MPI_TAG, mpi->comm, &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
    }
    while (here && MPI_Wtime() < end) {
        MPI_Status status;
        int there = 0;
        if (MPI_Iprobe(MPI_ANY_SOURCE, FERRY_MPI_TAG, mpi->comm, &there, &status) != MPI_SUCCESS || !there)
            continue;
        here[status.MPI_SOURCE] = 1;
        MPI_Recv(&word, 0, MPI_BYTE, status.MPI_SOURCE, FERRY_MPI_TAG, mpi->comm, MPI_STATUS_IGNORE);
    }
    for (int pe = 0; here && pe < n; pe++) {
        size_t used = strlen(list);
        if (here[pe] || pe == rank)
            continue;
        if (used + 24 < sizeof(list))
            snprintf(list + used, sizeof(list) - used, "%s%d", used ? ", " : "", pe);
        else
            more = 1;
    }
    free(here);
    snprintf(mpi->why, sizeof(mpi->why), "ranks %.128s%s of %d did not arrive within %g s", list[0] ? list : "unknown",
             more ? " and more" : "", n, mpi->timeout);
}

static inline int ferry_mpi_allgather(void *arg, const void *mine, void *all, size_t length)
{
    struct ferry_mpi *mpi = (struct ferry_mpi *)arg;
    MPI_Request request;
    int n, rank, done = 0, rc;
    double end = MPI_Wtime() + mpi->timeout;
    mpi->why[0] = '\0';
    MPI_Comm_size(mpi->comm, &n);
    MPI_Comm_rank(mpi->comm, &rank);
    /* Copies, which a call that never ends keeps: an operation of all ranks cannot be taken back. */
    char *bytes = (char *)malloc(length * ((size_t)n + 1));
    if (!bytes || length > 0x7fffffff) {
        snprintf(mpi->why, sizeof(mpi->why), "no memory for %d times %zu bytes", n, length);
        free(bytes);
        return 1;
    }
    memcpy(bytes, mine, length);
    rc = MPI_Iallgather(bytes, (int)length, MPI_BYTE, bytes + length, (int)length, MPI_BYTE, mpi->comm, &request);
    while (rc == MPI_SUCCESS && !done && (mpi->timeout <= 0 || MPI_Wtime() < end))
        rc = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        return ferry_mpi_failed(mpi, "MPI_Iallgather", rc);
    if (!done) {
        ferry_mpi_missing(mpi, rank, n);
        return 1;
    }
    memcpy(all, bytes + length, length * (size_t)n);
    free(bytes);
    return 0;
}

static inline int ferry_mpi_barrier(void *arg)
{
    struct ferry_mpi *mpi = (struct ferry_mpi *)arg;
    int rc = MPI_Barrier(mpi->comm);
    return rc == MPI_SUCCESS ? 0 : ferry_mpi_failed(mpi, "MPI_Barrier", rc);
}

/* FERRY_TIMEOUT, as ferry_init reads it; what it does not like it says itself. */
static inline double ferry_mpi_timeout(const char *const *options)
{
    const char *text = getenv("FERRY_TIMEOUT");
    char *end = NULL;
    for (; options && *options; options++)
        if (strncmp(*options, "FERRY_TIMEOUT=", 14) == 0)
            text = *options + 14;
    double seconds = text && *text ? strtod(text, &end) : 60;
    return end && strcmp(end, "ms") == 0 ? seconds / 1000 : seconds;
}

static inline int ferry_mpi_refused(const ferry_attr_t *attr, const char *why)
{
    if (attr && attr->log)
        attr->log(attr->log_arg, 0, why);
    else
        fprintf(stderr, "ferry error: cannot start: %s\n", why);
    if (attr && attr->error) {
        attr->error->status = FERRY_ERR_STATE;
        attr->error->peer = -1;
        snprintf(attr->error->message, sizeof(attr->error->message), "%s", why);
        attr->error->hint[0] = '\0';
    }
    return FERRY_ERR_STATE;
}

/* Collective over comm, between MPI_Init and MPI_Finalize: ferry_init whose PE numbers are the ranks in comm. attr: as for
 * ferry_init, or NULL; bootstrap, rank, n_pes and functions in it are set here. MPI is not needed any more when it returns. */
static inline int ferry_mpi_init(MPI_Comm comm, const ferry_attr_t *attr, ferry_job_t **job)
{
    int begun = 0, ended = 0;
    MPI_Initialized(&begun);
    if (begun)
        MPI_Finalized(&ended);
    if (!begun || ended)
        return ferry_mpi_refused(attr, "ferry_mpi_init: MPI is not initialised, or already finalised");
    if (comm == MPI_COMM_NULL)
        return ferry_mpi_refused(attr, "ferry_mpi_init: the communicator is MPI_COMM_NULL");
    struct ferry_mpi mpi;
    ferry_bootstrap_functions_t functions;
    ferry_attr_t own;
    memset(&own, 0, sizeof(own));
    if (attr)
        memcpy(&own, attr, attr->size < sizeof(own) ? attr->size : sizeof(own));
    memset(&mpi, 0, sizeof(mpi));
    mpi.comm = comm;
    mpi.timeout = ferry_mpi_timeout(own.options);
    memset(&functions, 0, sizeof(functions));
    functions.size = sizeof(functions);
    functions.arg = &mpi;
    functions.allgather = ferry_mpi_allgather;
    functions.barrier = ferry_mpi_barrier;
    functions.reason = ferry_mpi_reason;
    own.size = sizeof(own);
    own.bootstrap = FERRY_BOOTSTRAP_FUNCTIONS;
    own.functions = &functions;
    MPI_Comm_rank(comm, &own.rank);
    MPI_Comm_size(comm, &own.n_pes);
    return ferry_init(&own, job);
}

#ifdef __cplusplus
}
#endif
#endif
