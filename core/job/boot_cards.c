/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap, first contact by a bootstrap's allgather: two rounds of cards, first with the networks that each PE has, so that all
 * can listen on one they share, then with the addresses and the secret. Setup thread, before the control thread exists. */
#include "boot_internal.h"
#include "host.h"
#include "launch.h"
#include <arpa/inet.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fy_card card_new(const struct fy_boot *boot)
{
    struct fy_card card;
    memset(&card, 0, sizeof(card));
    memcpy(card.magic, FY_CARD_MAGIC, sizeof(card.magic));
    card.protocol = FY_WIRE_PROTOCOL;
    card.self = boot->self;
    card.host = fy_host_number();
    return card;
}

/* Who is missing, in words; the bootstrap itself knows only numbers. */
static int late(const struct fy_boot *boot, const struct fy_launch *launch, const uint8_t *arrived, const char *step,
                struct ferry_error *error)
{
    char list[160];
    uint32_t first, missing = fy_text_missing(list, sizeof(list), arrived, boot->n, &first);
    struct ferry_error reason = *error;
    if (missing > 0)
        fy_error_set(error, FERRY_ERR_TIMEOUT, "see whether those PEs were started, and what they do; FERRY_TIMEOUT sets the time",
                     "bootstrap %s: '%s': %s of %u did not arrive within %g s", launch->plugin->name, step, list, boot->n,
                     boot->timeout);
    else
        fy_error_set(error, FERRY_ERR_TIMEOUT, "see what the launcher does; FERRY_TIMEOUT sets the time",
                     "bootstrap %s: '%s': not done within %g s, though every PE has been seen: %.140s", launch->plugin->name, step,
                     boot->timeout, reason.message);
    error->peer = missing > 0 ? (int32_t)first : -1;
    error->library_status = reason.library_status;
    return FERRY_ERR_TIMEOUT;
}

/* NULL: good. */
static const char *card_wrong(const struct fy_boot *boot, const struct fy_card *card, uint32_t pe, const char *by, char *text,
                              size_t size)
{
    if (memcmp(card->magic, FY_CARD_MAGIC, sizeof(card->magic)) != 0)
        snprintf(text, size, "%s gave other bytes for PE %u than it sent", by, pe);
    else if (card->protocol != FY_WIRE_PROTOCOL ||
             strncmp(card->self.version, FERRY_VERSION_STRING, sizeof(card->self.version)) != 0)
        snprintf(text, size, "PE %u runs ferry %.31s (protocol %u), this PE %s (protocol %u)", pe, card->self.version,
                 card->protocol, FERRY_VERSION_STRING, FY_WIRE_PROTOCOL);
    else if (card->self.rank != pe)
        snprintf(text, size, "%s gave PE %u's bytes in the place of PE %u", by, card->self.rank, pe);
    else if (card->self.size != boot->n)
        snprintf(text, size, "PE %u says that the job has %u PEs, this PE says %u", pe, card->self.size, boot->n);
    else
        return NULL;
    return text;
}

static int cards_check(const struct fy_boot *boot, const struct fy_launch *launch, const struct fy_card *cards,
                       struct ferry_error *error)
{
    char text[256], by[64] = "the application's allgather";
    if (launch->plugin != &fy_launch_functions)
        snprintf(by, sizeof(by), "bootstrap %.31s", launch->plugin->name);
    for (uint32_t pe = 0; pe < boot->n; pe++) {
        if (card_wrong(boot, &cards[pe], pe, by, text, sizeof(text))) {
            fy_error_set(error, FERRY_ERR_MISMATCH, "give every PE its own rank, one size and one version", "%s", text);
            error->peer = (int32_t)pe;
            return FERRY_ERR_MISMATCH;
        }
    }
    for (uint32_t pe = 0; pe < boot->n; pe++) {
        if (cards[pe].status == FERRY_OK || pe == boot->rank)
            continue;
        fy_error_set(error, cards[pe].status < 0 ? cards[pe].status : FERRY_ERR_BOOTSTRAP, NULL, "PE %u could not start: %.199s", pe,
                     cards[pe].why);
        error->peer = (int32_t)pe;
        return error->status;
    }
    return FERRY_OK;
}

/* One round. *all is the caller's to free. */
static int exchange(struct fy_boot *boot, const struct fy_launch *launch, const struct fy_card *mine, const char *step,
                    uint64_t deadline, struct fy_card **all, struct ferry_error *error)
{
    uint64_t now = fy_now_ns();
    double left = boot->timeout <= 0 ? 0 : deadline > now ? (double)(deadline - now) / 1e9 : 0.001;
    uint8_t *arrived = calloc(boot->n, 1);
    *all = calloc(boot->n, sizeof(**all));
    if (!arrived || !*all) {
        free(arrived);
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the addresses of %u PEs", boot->n);
        return FERRY_ERR_NOMEM;
    }
    fy_error_set(error, FERRY_ERR_BOOTSTRAP, NULL, "bootstrap %s failed without a reason", launch->plugin->name);
    int rc = launch->plugin->allgather(launch->boot, mine, *all, sizeof(*mine), left, arrived, error);
    error->status = rc;
    if (rc == FERRY_ERR_TIMEOUT)
        late(boot, launch, arrived, step, error);
    if (rc == FERRY_OK)
        rc = cards_check(boot, launch, *all, error);
    free(arrived);
    return rc;
}

static void cards_free(const struct fy_boot *boot, struct fy_card *cards)
{
    if (cards)
        sodium_memzero(cards, boot->n * sizeof(*cards));
    free(cards);
}

/* ------------------------------------------------------------------ networks */

/* The same address on two hosts is one that each has made for itself, for containers and the like. */
static bool has_net(const struct fy_card *card, const struct fy_card *first, uint32_t k, uint32_t *ip)
{
    const struct fy_net *net = &first->nets[k];
    for (uint32_t i = 0; i < card->n_nets && i < FY_CARD_NETS; i++) {
        *ip = card->nets[i].ip;
        if (card->nets[i].mask == net->mask && (*ip & net->mask) == (net->ip & net->mask))
            return card->host == first->host || *ip != net->ip;
    }
    return false;
}

static void net_text(const struct fy_card *card, char *out, size_t size)
{
    size_t at = 0;
    snprintf(out, size, "none");
    for (uint32_t i = 0; i < card->n_nets && i < FY_CARD_NETS && at + 24 < size; i++) {
        char ip[INET_ADDRSTRLEN];
        inet_ntop(AF_INET, &card->nets[i].ip, ip, sizeof(ip));
        at += (size_t)snprintf(out + at, size - at, "%s%s/%d", at ? ", " : "", ip, __builtin_popcount(card->nets[i].mask));
    }
}

/* The first network of PE 0 in which everybody has an address, if not everybody was told which to take. All PEs judge the same
 * cards, so all come to the same. */
static int choose_net(const struct fy_boot *boot, const struct fy_card *cards, uint32_t *ip, struct ferry_error *error)
{
    char first[100], other[100];
    uint32_t lacking = 0, unread;
    for (uint32_t i = 0; i < cards[0].n_nets && i < FY_CARD_NETS; i++) {
        uint32_t pe = 0;
        while (pe < boot->n && has_net(&cards[pe], &cards[0], i, &unread))
            pe++;
        if (pe == boot->n && has_net(&cards[boot->rank], &cards[0], i, ip))
            return FERRY_OK;
        lacking = pe < boot->n && !lacking ? pe : lacking;
    }
    lacking = lacking ? lacking : 1;
    net_text(&cards[0], first, sizeof(first));
    net_text(&cards[lacking], other, sizeof(other));
    fy_error_set(error, FERRY_ERR_MISMATCH, "set FERRY_INTERFACE for every PE, to an interface by which all others reach it",
                 "the PEs run on several hosts, and share no network: PE 0 has %s, PE %u has %s", first, lacking, other);
    error->peer = (int32_t)lacking;
    return FERRY_ERR_MISMATCH;
}

static int judge_networks(const struct fy_boot *boot, const struct fy_card *cards, uint32_t *ip, struct ferry_error *error)
{
    bool one_host = true, all_given = true, near = true;
    for (uint32_t pe = 0; pe < boot->n; pe++) {
        one_host = one_host && cards[pe].host == cards[0].host;
        all_given = all_given && cards[pe].given;
        near = near && (!cards[pe].given || fy_net_is_loopback(cards[pe].self.addr.ip));
    }
    if (all_given)
        return FERRY_OK;
    if (one_host && near)
        return FERRY_OK; /* loopback, which is what auto begins with */
    return choose_net(boot, cards, ip, error);
}

static void only_given(struct fy_card *card, uint32_t ip)
{
    uint32_t n = card->n_nets;
    card->n_nets = 0;
    for (uint32_t i = 0; i < n && !card->n_nets; i++) {
        if (card->nets[i].ip != ip)
            continue;
        card->nets[0] = card->nets[i];
        card->n_nets = 1;
    }
}

int fy_exchange_networks(struct fy_boot *boot, const struct fy_boot_config *config, uint64_t deadline, uint32_t *ip,
                         struct ferry_error *error)
{
    struct ferry_error own, other;
    struct fy_card mine = card_new(boot), *cards;
    mine.status = fy_net_address(config->interface_, ip, &own);
    mine.given = !fy_net_auto(config->interface_) && config->interface_ && config->interface_[0];
    if (mine.status != FERRY_OK)
        snprintf(mine.why, sizeof(mine.why), "%.199s", own.message);
    mine.self.addr.ip = *ip;
    mine.n_nets = fy_net_list(mine.nets, FY_CARD_NETS);
    if (mine.given)
        only_given(&mine, *ip);
    int rc = exchange(boot, config->launch, &mine, "exchange of networks", deadline, &cards, &other);
    if (rc == FERRY_OK && mine.status == FERRY_OK)
        rc = judge_networks(boot, cards, ip, &other);
    *error = mine.status != FERRY_OK ? own : other;
    cards_free(boot, cards);
    return mine.status != FERRY_OK ? mine.status : rc;
}

/* ------------------------------------------------------------------ addresses */

/* PEs of two hosts that all listen on loopback would each connect to whoever is at that port of their own host. */
static int hosts_check(const struct fy_boot *boot, const struct fy_card *cards, struct ferry_error *error)
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

int fy_exchange_addresses(struct fy_boot *boot, const struct fy_boot_config *config, uint64_t deadline, int own,
                          struct ferry_error *error)
{
    struct ferry_error reason = *error;
    struct fy_card mine = card_new(boot), *cards;
    mine.status = own;
    if (own != FERRY_OK)
        snprintf(mine.why, sizeof(mine.why), "%.199s", reason.message);
    if (boot->rank == 0) { /* one PE's are used; the others' would only be copied about */
        randombytes_buf(mine.secret, sizeof(mine.secret));
        randombytes_buf(&mine.job_id, sizeof(mine.job_id));
    }
    int rc = exchange(boot, config->launch, &mine, "exchange of addresses", deadline, &cards, error);
    if (rc == FERRY_OK) {
        for (uint32_t pe = 0; pe < boot->n; pe++)
            boot->table[pe] = cards[pe].self.addr;
        memcpy(boot->secret, cards[0].secret, sizeof(boot->secret));
        boot->job_id = cards[0].job_id;
        rc = fy_exchange_check(boot, error);
    }
    if (rc == FERRY_OK)
        rc = hosts_check(boot, cards, error);
    cards_free(boot, cards);
    sodium_memzero(&mine, sizeof(mine));
    if (own != FERRY_OK)
        *error = reason;
    return own != FERRY_OK ? own : rc;
}
