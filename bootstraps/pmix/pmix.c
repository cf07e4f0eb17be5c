/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap by PMIx: mpirun of Open MPI, prterun, srun --mpi=pmix. Who this process is, begin and end.
 * Runs on the thread in ferry_init, and on threads of its own that do nothing but wait for libpmix. */
#include "pmix.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE_S 5.0 /* most that PMIx_Finalize may take */

void pmix_fail(struct ferry_error *error, int status, const char *hint, const char *format, ...)
{
    va_list args;
    error->status = status;
    va_start(args, format);
    vsnprintf(error->message, sizeof(error->message), format, args);
    va_end(args);
    snprintf(error->hint, sizeof(error->hint), "%s", hint ? hint : "");
}

int pmix_failed(struct ferry_error *error, const char *what, pmix_status_t rc)
{
    bool gone = rc == PMIX_ERR_UNREACH || rc == PMIX_ERR_LOST_CONNECTION || rc == PMIX_ERR_COMM_FAILURE;
    pmix_fail(error, FERRY_ERR_BOOTSTRAP, gone ? "see whether the launcher is still there" : NULL, "%s: %s%s", what,
              gone ? "the PMIx server is gone: " : "", PMIx_Error_string(rc));
    error->library_status = rc;
    return FERRY_ERR_BOOTSTRAP;
}

static int probe(const struct ferry_boot_core *core, char *text, size_t size)
{
    const char *name = getenv("PMIX_NAMESPACE"), *rank = getenv("PMIX_RANK");
    (void)core;
    if (!name || !*name || !rank || !*rank) {
        snprintf(text, size, "%s is not set", name && *name ? "PMIX_RANK" : "PMIX_NAMESPACE");
        return FERRY_ERR_NOT_FOUND;
    }
    snprintf(text, size, "PMIX_RANK is %.10s of PMIX_NAMESPACE %.100s", rank, name);
    return FERRY_OK;
}

/* ------------------------------------------------------------------ open and close, which may hang */

struct start {
    pmix_proc_t me;
    pmix_status_t rc;
};

static void init(void *arg)
{
    struct start *start = arg;
    start->rc = PMIx_Init(&start->me, NULL, 0);
}

/* It came up after all, when nobody wanted it any more. */
static void init_late(void *arg)
{
    struct start *start = arg;
    if (start->rc == PMIX_SUCCESS)
        PMIx_Finalize(NULL, 0);
    free(start);
}

static void finalize(void *arg)
{
    (void)arg;
    PMIx_Finalize(NULL, 0);
}

static void finalize_late(void *arg)
{
    (void)arg;
}

static void close_session(const struct ferry_boot_core *core)
{
    if (!pmix_bounded(finalize, finalize_late, NULL, CLOSE_S))
        core->log(core, 1, "pmix: the server does not answer; the launcher may take this process for one that ended badly");
}

static int no_server(struct ferry_error *error, pmix_status_t rc)
{
    const char *name = getenv("PMIX_NAMESPACE");
    pmix_fail(error, FERRY_ERR_BOOTSTRAP, "unset the PMIX_ variables if they are left over from another job; FERRY_BOOTSTRAP=env starts a job of one PE",
              name ? "no PMIx server answers, though PMIX_NAMESPACE is %.100s: %s" : "no PMIx server started this process (%.0s%s)",
              name ? name : "", PMIx_Error_string(rc));
    error->library_status = rc;
    return FERRY_ERR_BOOTSTRAP;
}

static int begin(double timeout, pmix_proc_t *me, struct ferry_error *error)
{
    struct start *start = calloc(1, sizeof(*start));
    if (!start) {
        pmix_fail(error, FERRY_ERR_NOMEM, NULL, "no memory to begin PMIx");
        return FERRY_ERR_NOMEM;
    }
    if (!pmix_bounded(init, init_late, start, timeout)) {
        pmix_fail(error, FERRY_ERR_TIMEOUT, "see what the launcher, or its daemon on this host, does",
                  "the PMIx server did not answer within %g s", timeout);
        return FERRY_ERR_TIMEOUT;
    }
    pmix_status_t rc = start->rc;
    *me = start->me;
    free(start);
    return rc == PMIX_SUCCESS ? FERRY_OK : no_server(error, rc);
}

/* Numbers come in several types, by launcher. */
static bool number(const pmix_proc_t *proc, const char *key, uint32_t *out)
{
    pmix_value_t *value = NULL;
    pmix_info_t info;
    bool yes = true, known = true;
    PMIX_INFO_LOAD(&info, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    if (PMIx_Get(proc, key, &info, 1, &value) != PMIX_SUCCESS || !value)
        return false;
    if (value->type == PMIX_UINT32)
        *out = value->data.uint32;
    else if (value->type == PMIX_INT && value->data.integer >= 0)
        *out = (uint32_t)value->data.integer;
    else if (value->type == PMIX_UINT16)
        *out = value->data.uint16;
    else
        known = false;
    PMIX_VALUE_RELEASE(value);
    return known;
}

static int open_boot(const struct ferry_boot_core *core, double timeout, struct ferry_boot_place *place, struct ferry_boot **out,
                     struct ferry_error *error)
{
    struct ferry_boot *boot = calloc(1, sizeof(*boot));
    pmix_proc_t all;
    if (!boot) {
        pmix_fail(error, FERRY_ERR_NOMEM, NULL, "no memory for a bootstrap");
        return FERRY_ERR_NOMEM;
    }
    boot->core = core;
    int rc = begin(timeout, &boot->me, error);
    if (rc != FERRY_OK) {
        free(boot);
        return rc;
    }
    PMIX_LOAD_PROCID(&all, boot->me.nspace, PMIX_RANK_WILDCARD);
    if (!number(&all, PMIX_JOB_SIZE, &boot->n_pes)) {
        pmix_fail(error, FERRY_ERR_BOOTSTRAP, NULL, "the PMIx server does not say how many processes the job has (PMIX_JOB_SIZE)");
        close_session(core);
        free(boot);
        return FERRY_ERR_BOOTSTRAP;
    }
    place->rank = boot->me.rank;
    place->n_pes = boot->n_pes;
    if (!number(&boot->me, PMIX_NODEID, &place->node))
        place->node = FERRY_BOOT_NO_NODE;
    *out = boot;
    return FERRY_OK;
}

static void close_boot(struct ferry_boot *boot)
{
    close_session(boot->core);
    free(boot);
}

__attribute__((visibility("default"))) const struct ferry_boot_plugin ferry_bootstrap_v1 = {
    .abi = FERRY_BOOTSTRAP_ABI,
    .size = sizeof(ferry_bootstrap_v1),
    .name = "pmix",
    .version = "0.1.0",
    .summary = "PMIx: mpirun of Open MPI, prterun, srun --mpi=pmix",
    .probe = probe,
    .open = open_boot,
    .allgather = pmix_allgather,
    .close = close_boot,
};
