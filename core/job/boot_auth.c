/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap authentication: both ends prove by a keyed hash over fresh nonces that they know the job's secret, which
 * never crosses the wire. Later frames rely on the connection. Called by the thread that owns the connection. */
#include "boot_wire.h"
#include <sodium.h>
#include <stdio.h>
#include <string.h>

_Static_assert(crypto_auth_KEYBYTES == FERRY_SECRET_BYTES, "the secret is the key");
_Static_assert(crypto_auth_BYTES == 32, "size of a proof");

/* What is hashed. The role keeps an answer of one end from being played back as an answer of the other. */
struct transcript {
    uint32_t role, server;
    uint8_t nonce_client[32], nonce_server[32];
    struct fy_identity identity;
};
enum { ROLE_SERVER = 0x53, ROLE_CLIENT = 0x43 };

static struct transcript transcript_of(const struct fy_conn *conn, uint32_t role, const struct fy_identity *identity)
{
    struct transcript text;
    memset(&text, 0, sizeof(text)); /* padding is hashed too */
    text.role = role;
    text.server = conn->server;
    memcpy(text.nonce_client, conn->nonce_client, sizeof(text.nonce_client));
    memcpy(text.nonce_server, conn->nonce_server, sizeof(text.nonce_server));
    if (identity)
        memcpy(&text.identity, identity, sizeof(*identity));
    return text;
}

static void mac_make(uint8_t mac[32], const struct transcript *text, const uint8_t *secret)
{
    crypto_auth(mac, (const unsigned char *)text, sizeof(*text), secret);
}

static bool mac_good(const uint8_t mac[32], const struct transcript *text, const uint8_t *secret)
{
    return crypto_auth_verify(mac, (const unsigned char *)text, sizeof(*text), secret) == 0;
}

static enum fy_auth auth_fail(struct fy_conn *conn, const char *why)
{
    snprintf(conn->why, sizeof(conn->why), "%s", why);
    return FY_AUTH_FAIL;
}

void fy_auth_begin(struct fy_conn *conn)
{
    struct fy_hello hello = {.protocol = FY_WIRE_PROTOCOL};
    randombytes_buf(hello.nonce, sizeof(hello.nonce));
    memcpy(conn->nonce_client, hello.nonce, sizeof(hello.nonce));
    conn->state = FY_CONN_CHALLENGE;
    fy_conn_send1(conn, FY_FRAME_HELLO, conn->identity.rank, &hello, sizeof(hello));
}

static enum fy_auth server_hello(struct fy_conn *conn, const struct fy_hello *hello, const uint8_t *secret)
{
    if (hello->protocol != FY_WIRE_PROTOCOL) {
        char text[96];
        snprintf(text, sizeof(text), "it speaks protocol %u, this side %u", hello->protocol, FY_WIRE_PROTOCOL);
        fy_auth_refuse(conn, FERRY_ERR_MISMATCH, -1, text);
        return auth_fail(conn, "another protocol version");
    }
    struct fy_challenge challenge = {.server = conn->server};
    randombytes_buf(challenge.nonce, sizeof(challenge.nonce));
    memcpy(conn->nonce_client, hello->nonce, sizeof(hello->nonce));
    memcpy(conn->nonce_server, challenge.nonce, sizeof(challenge.nonce));
    struct transcript text = transcript_of(conn, ROLE_SERVER, NULL);
    mac_make(challenge.mac, &text, secret);
    conn->state = FY_CONN_PROOF;
    fy_conn_send1(conn, FY_FRAME_CHALLENGE, conn->server, &challenge, sizeof(challenge));
    return FY_AUTH_GO_ON;
}

static enum fy_auth server_proof(struct fy_conn *conn, const struct fy_proof *proof, const uint8_t *secret)
{
    struct transcript text = transcript_of(conn, ROLE_CLIENT, &proof->identity);
    if (!mac_good(proof->mac, &text, secret))
        return auth_fail(conn, "a wrong secret");
    conn->identity = proof->identity;
    conn->identity.version[sizeof(conn->identity.version) - 1] = 0;
    conn->state = FY_CONN_VERDICT;
    return FY_AUTH_DONE;
}

static enum fy_auth client_challenge(struct fy_conn *conn, const struct fy_challenge *challenge, const uint8_t *secret)
{
    memcpy(conn->nonce_server, challenge->nonce, sizeof(challenge->nonce));
    struct transcript text = transcript_of(conn, ROLE_SERVER, NULL);
    if (challenge->server != conn->server || !mac_good(challenge->mac, &text, secret)) {
        conn->absent = true;
        return auth_fail(conn, "another program answers at this address");
    }
    struct fy_proof proof = {.identity = conn->identity};
    text = transcript_of(conn, ROLE_CLIENT, &proof.identity);
    mac_make(proof.mac, &text, secret);
    conn->state = FY_CONN_VERDICT;
    fy_conn_send1(conn, FY_FRAME_PROOF, conn->identity.rank, &proof, sizeof(proof));
    return FY_AUTH_GO_ON;
}

static enum fy_auth client_refused(struct fy_conn *conn, const struct fy_refusal *refusal)
{
    conn->absent = conn->state != FY_CONN_VERDICT; /* it has not proven itself: only for messages */
    conn->refusal = *refusal;
    conn->refusal.text[sizeof(conn->refusal.text) - 1] = 0;
    if (conn->refusal.status >= 0) /* never a success by mistake */
        conn->refusal.status = FERRY_ERR_BOOTSTRAP;
    return auth_fail(conn, "refused");
}

enum fy_auth fy_auth_frame(struct fy_conn *conn, const struct fy_frame *frame, const void *body,
                           const uint8_t secret[FERRY_SECRET_BYTES])
{
    enum fy_conn_state state = conn->state;
    if (!conn->client && state == FY_CONN_HELLO && frame->type == FY_FRAME_HELLO &&
        frame->size == sizeof(struct fy_hello))
        return server_hello(conn, body, secret);
    if (!conn->client && state == FY_CONN_PROOF && frame->type == FY_FRAME_PROOF &&
        frame->size == sizeof(struct fy_proof))
        return server_proof(conn, body, secret);
    if (conn->client && state == FY_CONN_CHALLENGE && frame->type == FY_FRAME_CHALLENGE &&
        frame->size == sizeof(struct fy_challenge))
        return client_challenge(conn, body, secret);
    if (conn->client && frame->type == FY_FRAME_REFUSE && frame->size == sizeof(struct fy_refusal))
        return client_refused(conn, body);
    if (conn->client && state == FY_CONN_VERDICT && frame->type == FY_FRAME_WELCOME && frame->size == 0) {
        conn->state = FY_CONN_READY;
        return FY_AUTH_DONE;
    }
    conn->absent = conn->client;
    return auth_fail(conn, "a frame that is not its turn");
}

void fy_auth_welcome(struct fy_conn *conn, uint32_t limit)
{
    conn->state = FY_CONN_READY;
    conn->limit = limit;
    fy_conn_send(conn, FY_FRAME_WELCOME, conn->server, NULL, 0);
}

void fy_auth_refuse(struct fy_conn *conn, int status, int peer, const char *text)
{
    struct fy_refusal refusal = {.status = status, .peer = peer};
    snprintf(refusal.text, sizeof(refusal.text), "%s", text);
    fy_conn_send1(conn, FY_FRAME_REFUSE, conn->server, &refusal, sizeof(refusal));
}
