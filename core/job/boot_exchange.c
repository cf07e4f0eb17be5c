/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap, first contact by a unique id: how PEs learn each other's control addresses and the secret from a meeting.
 * Called by the setup thread before the control thread exists. */
#include "boot_internal.h"
#include <sodium.h>

/* A PE that listens on loopback cannot be reached from other hosts, and mixing means that a setting is missing
 * somewhere. */
int fy_exchange_check(const struct fy_boot *boot, struct ferry_error *error)
{
    char a[FY_ADDR_TEXT], b[FY_ADDR_TEXT];
    for (uint32_t pe = 1; pe < boot->n; pe++) {
        if (fy_net_is_loopback(boot->table[pe].ip) == fy_net_is_loopback(boot->table[0].ip))
            continue;
        fy_error_set(error, FERRY_ERR_MISMATCH, "set FERRY_INTERFACE for every PE, to a network that all of them share",
                     "PE 0 listens on %s, PE %u on %s: one of them is loopback", fy_addr_text(&boot->table[0], a), pe,
                     fy_addr_text(&boot->table[pe], b));
        error->peer = (int32_t)pe;
        return FERRY_ERR_MISMATCH;
    }
    return FERRY_OK;
}

int fy_exchange_near(const ferry_uniqueid_t *bytes, uint32_t *ip, struct ferry_error *error)
{
    struct fy_id id;
    int rc = fy_id_read(bytes, &id, error);
    *ip = id.addr.ip;
    if (rc == FERRY_OK && !fy_net_is_loopback(id.addr.ip))
        rc = fy_net_toward(&id.addr, ip, error);
    sodium_memzero(&id, sizeof(id));
    return rc;
}

int fy_exchange_id(struct fy_boot *boot, const struct fy_boot_config *config, uint64_t deadline,
                   struct ferry_error *error)
{
    struct fy_id id;
    int rc = fy_id_read(config->id, &id, error);
    if (rc != FERRY_OK)
        return rc;
    struct fy_join join = {
        .log = boot->log, .id = &id, .self = boot->self, .timeout = boot->timeout, .deadline = deadline};
    join.self.purpose = FY_PURPOSE_JOIN;
    rc = fy_meeting_join(&join, boot->table, &boot->job_id, error);
    /* a secret for each job, though several may meet by one id */
    crypto_auth(boot->secret, (const unsigned char *)&boot->job_id, sizeof(boot->job_id), id.secret);
    sodium_memzero(&id, sizeof(id));
    return rc == FERRY_OK ? fy_exchange_check(boot, error) : rc;
}
