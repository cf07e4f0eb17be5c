/* SPDX-License-Identifier: Apache-2.0
 * Seals and checks blobs and messages; names sockets. See wire.h.
 * Pure functions; any thread. */
#include "wire.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/random.h>

_Static_assert(sizeof(struct fy_lb_endpoint) <= FERRY_ENDPOINT_MAX, "endpoint does not fit");
_Static_assert(sizeof(struct fy_lb_key) <= FERRY_KEY_MAX, "key does not fit");
_Static_assert(FY_LB_PROOF_BYTES == crypto_verify_32_BYTES, "proofs are compared by crypto_verify_32");
_Static_assert(FERRY_SECRET_BYTES >= crypto_generichash_KEYBYTES_MIN && FERRY_SECRET_BYTES <= crypto_generichash_KEYBYTES_MAX,
               "the secret is a key of crypto_generichash");

/* Keyed BLAKE2b. A PE checks the endpoint of every other one when it starts, so in a large job this is what starting costs. */
static void prove(const uint8_t secret[FERRY_SECRET_BYTES], const void *bytes, size_t size, uint8_t proof[FY_LB_PROOF_BYTES])
{
    crypto_generichash(proof, FY_LB_PROOF_BYTES, bytes, size, secret, FERRY_SECRET_BYTES);
}

void fy_lb_seal(const uint8_t secret[FERRY_SECRET_BYTES], enum fy_lb_kind kind, uint32_t pe, void *bytes, size_t size)
{
    struct fy_lb_head head = {.magic = FY_LB_MAGIC, .format = FY_LB_FORMAT, .kind = (uint16_t)kind, .pe = pe};
    size_t covered = size - FY_LB_PROOF_BYTES;

    memcpy(bytes, &head, sizeof head);
    prove(secret, bytes, covered, (uint8_t *)bytes + covered);
}

const char *fy_lb_check_head(enum fy_lb_kind kind, const void *bytes, size_t got, size_t size)
{
    struct fy_lb_head head;

    if (got < sizeof head)
        return "it is too short";
    memcpy(&head, bytes, sizeof head);
    if (head.magic != FY_LB_MAGIC)
        return "it was not made by loopback";
    if (head.format != FY_LB_FORMAT)
        return "it was made by another version of loopback";
    if (head.kind != kind)
        return "it is of another kind";
    if (got != size)
        return "it has another size than its kind has";
    return NULL;
}

const char *fy_lb_check(const uint8_t secret[FERRY_SECRET_BYTES], enum fy_lb_kind kind, const void *bytes, size_t got,
                        size_t size)
{
    const char *why = fy_lb_check_head(kind, bytes, got, size);
    size_t covered = size - FY_LB_PROOF_BYTES;
    uint8_t proof[FY_LB_PROOF_BYTES];

    if (why)
        return why;
    prove(secret, bytes, covered, proof);
    if (crypto_verify_32(proof, (const uint8_t *)bytes + covered))
        return "it is damaged, or comes from outside the job";
    return NULL;
}

void fy_lb_socket_name(const uint8_t token[FY_LB_TOKEN_BYTES], struct sockaddr_un *name, socklen_t *length)
{
    static const char prefix[] = "ferry-loopback-";
    char hex[2 * FY_LB_TOKEN_BYTES + 1];

    memset(name, 0, sizeof *name); /* sun_path[0] stays 0: abstract, so it vanishes with its last descriptor */
    name->sun_family = AF_UNIX;
    sodium_bin2hex(hex, sizeof hex, token, FY_LB_TOKEN_BYTES);
    memcpy(name->sun_path + 1, prefix, sizeof prefix - 1);
    memcpy(name->sun_path + sizeof prefix, hex, sizeof hex - 1);
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof prefix + sizeof hex - 1);
}

int fy_lb_random(void *bytes, size_t size)
{
    size_t have = 0;

    while (have < size) {
        ssize_t n = getrandom((char *)bytes + have, size - have, 0);

        if (n < 0 && errno != EINTR)
            return FERRY_ERR_SYSTEM;
        if (n > 0)
            have += (size_t)n;
    }
    return FERRY_OK;
}
