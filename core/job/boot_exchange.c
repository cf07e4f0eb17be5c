/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap, first contact: how PEs learn each other's control addresses and the secret, by a meeting or by the
 * application's functions. Called by the setup thread before the control thread exists. */
#include "boot_internal.h"
#include "host.h"
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What each PE contributes to the application's allgather. */
struct card {
    char magic[8];
    uint32_t protocol;
    struct fy_identity self;
    uint8_t secret[FERRY_SECRET_BYTES];
    uint64_t job_id;
    uint64_t host;
};
#define CARD_MAGIC "FERRYPE"

/* A PE that listens on loopback cannot be reached from other hosts, and mixing means that a setting is missing
 * somewhere. */
static int table_check(const struct fy_boot *boot, struct ferry_error *error)
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
    return rc == FERRY_OK ? table_check(boot, error) : rc;
}

/* PEs of two hosts that all listen on loopback would each connect to whoever is at that port of their own host. */
static int hosts_check(const struct fy_boot *boot, const struct card *cards, struct ferry_error *error)
{
    for (uint32_t pe = 1; pe < boot->n && fy_net_is_loopback(boot->table[0].ip); pe++) {
        if (cards[pe].host == cards[0].host)
            continue;
        fy_error_set(error, FERRY_ERR_MISMATCH, "set FERRY_INTERFACE for every PE, to a network that all of them share",
                     "PEs 0 and %u run on different hosts, and listen on loopback", pe);
        error->peer = (int32_t)pe;
        return FERRY_ERR_MISMATCH;
    }
    return FERRY_OK;
}

/* NULL: good. */
static const char *card_wrong(const struct fy_boot *boot, const struct card *card, uint32_t pe, char *text, size_t size)
{
    if (memcmp(card->magic, CARD_MAGIC, sizeof(card->magic)) != 0)
        snprintf(text, size, "the application's allgather gave other bytes for PE %u than it sent", pe);
    else if (card->protocol != FY_WIRE_PROTOCOL ||
             strncmp(card->self.version, FERRY_VERSION_STRING, sizeof(card->self.version)) != 0)
        snprintf(text, size, "PE %u runs ferry %.31s (protocol %u), this PE %s (protocol %u)", pe, card->self.version,
                 card->protocol, FERRY_VERSION_STRING, FY_WIRE_PROTOCOL);
    else if (card->self.rank != pe)
        snprintf(text, size, "the application's allgather gave PE %u's bytes in the place of PE %u", card->self.rank,
                 pe);
    else if (card->self.size != boot->n)
        snprintf(text, size, "PE %u says that the job has %u PEs, this PE says %u", pe, card->self.size, boot->n);
    else
        return NULL;
    return text;
}

static int cards_read(struct fy_boot *boot, const struct card *cards, struct ferry_error *error)
{
    char text[256];
    for (uint32_t pe = 0; pe < boot->n; pe++) {
        if (card_wrong(boot, &cards[pe], pe, text, sizeof(text))) {
            fy_error_set(error, FERRY_ERR_MISMATCH, "give every PE its own rank, one size and one version", "%s", text);
            error->peer = (int32_t)pe;
            return FERRY_ERR_MISMATCH;
        }
        boot->table[pe] = cards[pe].self.addr;
    }
    memcpy(boot->secret, cards[0].secret, sizeof(boot->secret));
    boot->job_id = cards[0].job_id;
    int rc = table_check(boot, error);
    return rc == FERRY_OK ? hosts_check(boot, cards, error) : rc;
}

int fy_exchange_functions(struct fy_boot *boot, const struct fy_boot_config *config, struct ferry_error *error)
{
    struct card mine;
    memset(&mine, 0, sizeof(mine));
    memcpy(mine.magic, CARD_MAGIC, sizeof(mine.magic));
    mine.protocol = FY_WIRE_PROTOCOL;
    mine.self = boot->self;
    mine.host = fy_host_number();
    if (boot->rank == 0) { /* one PE's are used; the others' would only be copied about */
        randombytes_buf(mine.secret, sizeof(mine.secret));
        randombytes_buf(&mine.job_id, sizeof(mine.job_id));
    }
    struct card *cards = calloc(boot->n, sizeof(*cards));
    if (!cards) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the addresses of %u PEs", boot->n);
        return FERRY_ERR_NOMEM;
    }
    int rc = config->functions->allgather(config->functions->arg, &mine, cards, sizeof(mine));
    if (rc == 0) {
        rc = cards_read(boot, cards, error);
    } else {
        fy_error_set(error, FERRY_ERR_BOOTSTRAP, NULL, "the application's allgather failed: it returned %d", rc);
        error->library_status = rc;
        rc = FERRY_ERR_BOOTSTRAP;
    }
    sodium_memzero(cards, boot->n * sizeof(*cards));
    sodium_memzero(&mine, sizeof(mine));
    free(cards);
    return rc;
}
