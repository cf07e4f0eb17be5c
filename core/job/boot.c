/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap: start and end of a PE's part in a job, and the collectives as the setup thread calls them.
 * fy_boot_abort and fy_boot_secret may be called by any thread. */
#include "boot_internal.h"
#include "launch.h"
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLOSE_S 5.0 /* most that closing waits for the others to close too */

static int config_check(const struct fy_boot_config *config, struct ferry_error *error)
{
    const char *wrong = NULL;
    if (config->n_pes == 0 || config->n_pes > FY_PES_MAX || config->rank >= config->n_pes)
        wrong = "out of range";
    else if (config->n_pes > 1 && !config->id && !(config->launch && config->launch->plugin->allgather))
        wrong = "it has neither a unique id nor a bootstrap to meet the others by";
    if (!wrong)
        return FERRY_OK;
    fy_error_set(error, FERRY_ERR_ARG, NULL, "PE %u of a job of %u PEs: %s", config->rank, config->n_pes, wrong);
    return FERRY_ERR_ARG;
}

static bool boot_locks(struct fy_boot *boot)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr) != 0)
        return false;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    bool good = pthread_mutex_init(&boot->lock, NULL) == 0;
    if (good && pthread_cond_init(&boot->changed, &attr) != 0) {
        pthread_mutex_destroy(&boot->lock);
        good = false;
    }
    pthread_condattr_destroy(&attr);
    return good;
}

static struct fy_boot *boot_new(const struct fy_boot_config *config)
{
    struct fy_boot *boot = calloc(1, sizeof(*boot));
    if (!boot || sodium_init() < 0 || !boot_locks(boot)) {
        free(boot);
        return NULL;
    }
    fy_log_init(&boot->own_log);
    boot->log = config->log ? config->log : &boot->own_log;
    boot->events = config->events;
    boot->rank = config->rank;
    boot->n = config->n_pes;
    boot->timeout = config->timeout;
    boot->peer_timeout = config->peer_timeout;
    boot->self = (struct fy_identity){.rank = boot->rank, .size = boot->n, .version = FERRY_VERSION_STRING};
    boot->parent = FY_NOBODY;
    boot->wake = boot->hub.epoll = boot->hub.listener = -1;
    boot->table = calloc(boot->n, sizeof(*boot->table));
    boot->state = calloc(boot->n, 1);
    return boot;
}

static void boot_free(struct fy_boot *boot)
{
    fy_hub_close(&boot->hub);
    if (boot->wake >= 0)
        close(boot->wake);
    fy_tree_free(boot);
    fy_place_free(boot);
    fy_watch_free(boot);
    pthread_cond_destroy(&boot->changed);
    pthread_mutex_destroy(&boot->lock);
    sodium_memzero(boot->secret, sizeof(boot->secret));
    free(boot->inquiry.answered);
    free(boot->table);
    free(boot->state);
    free(boot);
}

static int run_step(struct fy_boot *boot, struct fy_op *op, uint32_t copies, const char *step, double timeout,
                    struct ferry_error *error)
{
    op->timeout = timeout;
    op->deadline = fy_deadline(timeout);
    snprintf(op->step, sizeof(op->step), "%s", step);
    if (op->length > FY_WIRE_BIG / 2 / copies) {
        fy_error_set(error, FERRY_ERR_LIMIT, NULL, "'%s': %zu bytes from each of %u PEs are too many", step, op->length,
                     boot->n);
        return FERRY_ERR_LIMIT;
    }
    return fy_tree_run(boot, op, error);
}

/* Addresses of all, control thread up, tree connected. */
static int boot_meet(struct fy_boot *boot, const struct fy_boot_config *config, struct ferry_error *error)
{
    uint32_t ip;
    uint64_t deadline = fy_deadline(boot->timeout);
    int rc;
    if (!config->id)
        rc = fy_exchange_networks(boot, config, deadline, &ip, error);
    else if (fy_net_auto(config->interface_))
        rc = fy_exchange_near(config->id, &ip, error);
    else
        rc = fy_net_address(config->interface_, &ip, error);
    if (rc != FERRY_OK)
        return rc;
    rc = fy_net_listen(ip, &boot->self.addr, &boot->hub.listener, error);
    if (!config->id)
        rc = fy_exchange_addresses(boot, config, deadline, rc, error);
    else if (rc == FERRY_OK)
        rc = fy_exchange_id(boot, config, deadline, error);
    if (rc == FERRY_OK)
        rc = fy_loop_start(boot, error);
    if (rc != FERRY_OK)
        return rc;
    struct fy_op op = {.length = 0};
    return run_step(boot, &op, 1, "connecting the PEs", boot->timeout, error);
}

int fy_boot_start(const struct fy_boot_config *config, struct fy_boot **out, struct ferry_error *error)
{
    struct ferry_error unread = {.size = sizeof(unread)};
    error = error ? error : &unread;
    *out = NULL;
    int rc = config_check(config, error);
    if (rc != FERRY_OK)
        return rc;
    struct fy_boot *boot = boot_new(config);
    if (!boot || !boot->table || !boot->state) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory to bring %u PEs together", config->n_pes);
        if (boot)
            boot_free(boot);
        return FERRY_ERR_NOMEM;
    }
    if (boot->n > 1) {
        rc = boot_meet(boot, config, error);
    } else {
        randombytes_buf(boot->secret, sizeof(boot->secret));
        randombytes_buf(&boot->job_id, sizeof(boot->job_id));
    }
    if (rc != FERRY_OK) {
        fy_boot_close(boot);
        return rc;
    }
    *out = boot;
    return FERRY_OK;
}

static int alone_step(struct fy_boot *boot, const char *step, struct ferry_error *error)
{
    struct fy_op op = {.seq = 1};
    snprintf(op.step, sizeof(op.step), "%s", step);
    pthread_mutex_lock(&boot->lock);
    bool known = fy_fail_known(boot, &op, error);
    pthread_mutex_unlock(&boot->lock);
    return known ? error->status : FERRY_OK;
}

int fy_boot_allgather(struct fy_boot *boot, const void *mine, void *all, size_t length, const char *step,
                      double timeout, struct ferry_error *error)
{
    struct ferry_error unread = {.size = sizeof(unread)};
    error = error ? error : &unread;
    struct fy_op op = {.mine = mine, .all = all, .length = length};
    if (boot->n > 1)
        return run_step(boot, &op, boot->n, step, timeout, error);
    int rc = alone_step(boot, step, error);
    if (rc == FERRY_OK && length)
        memmove(all, mine, length);
    return rc;
}

int fy_boot_reduce(struct fy_boot *boot, void *data, size_t length, fy_combine_fn *combine, const char *step, double timeout,
                   struct ferry_error *error)
{
    struct ferry_error unread = {.size = sizeof(unread)};
    error = error ? error : &unread;
    struct fy_op op = {.mine = data, .all = data, .length = length, .combine = combine};
    return boot->n > 1 ? run_step(boot, &op, 1, step, timeout, error) : alone_step(boot, step, error);
}

int fy_boot_barrier(struct fy_boot *boot, const char *step, double timeout, struct ferry_error *error)
{
    return fy_boot_allgather(boot, NULL, NULL, 0, step, timeout, error);
}

void fy_boot_abort(struct fy_boot *boot, int code)
{
    pthread_mutex_lock(&boot->lock);
    bool fresh = !boot->abort_asked && !boot->aborted, running = boot->running;
    if (fresh) {
        boot->abort_asked = true;
        boot->abort_code = code;
        boot->abort_by = boot->rank;
        if (!running)
            boot->aborted = true;
    }
    pthread_mutex_unlock(&boot->lock);
    if (fresh && running)
        fy_loop_wake(boot);
    else if (fresh && boot->events.aborted)
        boot->events.aborted(boot->events.arg, boot->rank, code);
}

void fy_boot_secret(const struct fy_boot *boot, uint8_t secret[FERRY_SECRET_BYTES], uint64_t *job_id)
{
    memcpy(secret, boot->secret, FERRY_SECRET_BYTES);
    *job_id = boot->job_id;
}

void fy_boot_settle(struct fy_boot *boot)
{
    pthread_mutex_lock(&boot->lock);
    bool together = boot->running && boot->n > 1 && boot->joined && !boot->settled;
    boot->settled = true;
    pthread_mutex_unlock(&boot->lock);
    if (!together)
        return;
    struct ferry_error unread = {.size = sizeof(unread)};
    double bound = boot->timeout > 0 && boot->timeout < CLOSE_S ? boot->timeout : CLOSE_S;
    struct fy_op op = {.closing = true, .step = "closing the job", .timeout = bound, .deadline = fy_deadline(bound)};
    fy_tree_run(boot, &op, &unread);
}

void fy_boot_close(struct fy_boot *boot)
{
    if (!boot)
        return;
    fy_boot_settle(boot); /* so that nobody has to tell closing from dying */
    pthread_mutex_lock(&boot->lock);
    bool running = boot->running;
    boot->stop = true;
    pthread_mutex_unlock(&boot->lock);
    if (running) {
        fy_loop_wake(boot);
        pthread_join(boot->thread, NULL);
    }
    boot_free(boot);
}
