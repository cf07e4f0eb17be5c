/* SPDX-License-Identifier: Apache-2.0
 * A bootstrap plugin for a job of one PE, or, by KIND, one that is wrong in one way. Setup thread. */
#include <ferry/bootstrap.h>
#include <stdio.h>
#include <stdlib.h>

enum { GOOD, OTHER_ABI, SHORT, NO_ALLGATHER, BAD_NAME, BAD_PLACE, NO_REASON, REASON };

static int probe(const struct ferry_boot_core *core, char *text, size_t size)
{
    (void)core;
    snprintf(text, size, "it is asked for");
    return FERRY_OK;
}

static int open_fake(const struct ferry_boot_core *core, double timeout, struct ferry_boot_place *place, struct ferry_boot **boot,
                     struct ferry_error *error)
{
    if (KIND == NO_REASON)
        return FERRY_ERR_BOOTSTRAP;
    if (KIND == REASON) {
        snprintf(error->message, sizeof(error->message), "the fake has %g s and no wish to start", timeout);
        return FERRY_ERR_TIMEOUT;
    }
    core->log(core, 2, "the fake opens: size %u, node %s", place->size, place->node == FERRY_BOOT_NO_NODE ? "unknown" : "known");
    place->rank = KIND == BAD_PLACE ? 5 : 0;
    *boot = malloc(1); /* leaks unless it is closed */
    return *boot ? FERRY_OK : FERRY_ERR_NOMEM;
}

static int allgather(struct ferry_boot *boot, const void *mine, void *all, size_t length, double timeout, uint8_t *arrived,
                     struct ferry_error *error)
{
    (void)boot, (void)mine, (void)all, (void)length, (void)timeout, (void)arrived, (void)error;
    return FERRY_ERR_BOOTSTRAP;
}

static void close_fake(struct ferry_boot *boot)
{
    free(boot);
}

__attribute__((visibility("default"))) const struct ferry_boot_plugin ferry_bootstrap_v1 = {
    .abi = KIND == OTHER_ABI ? 2u << 16 | 3u : FERRY_BOOTSTRAP_ABI,
    .size = KIND == SHORT ? 24 : sizeof(ferry_bootstrap_v1),
    .name = KIND == BAD_NAME ? "Fake!" : "fake",
    .version = "1",
    .summary = "for tests",
    .probe = probe,
    .open = open_fake,
    .allgather = KIND == NO_ALLGATHER ? NULL : allgather,
    .close = close_fake,
};
