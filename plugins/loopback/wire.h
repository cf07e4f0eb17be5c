/* SPDX-License-Identifier: Apache-2.0
 * What one loopback instance hands to another: the two blobs that the core carries, the three messages of the
 * socket that passes descriptors, and the proofs on all of them. Plain bytes of one host: native byte order.
 * Pure functions; any thread. Blobs and messages may be hostile: opening one checks every field that is trusted later.
 */
#ifndef FY_LOOPBACK_WIRE_H
#define FY_LOOPBACK_WIRE_H

#include <ferry/transport.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#define FY_LB_MAGIC       0x626c7966u
#define FY_LB_FORMAT      3u
#define FY_LB_TOKEN_BYTES 16
#define FY_LB_NONCE_BYTES 32
#define FY_LB_PROOF_BYTES 32
#define FY_LB_BOOT_BYTES  40

enum fy_lb_kind { FY_LB_ENDPOINT = 1, FY_LB_KEY = 2, FY_LB_CHALLENGE = 3, FY_LB_REQUEST = 4, FY_LB_REPLY = 5 };

struct fy_lb_head {
    uint32_t magic;
    uint16_t format;
    uint16_t kind; /* enum fy_lb_kind */
    uint32_t pe;   /* of the sender */
    uint32_t reserved;
};

/* One process of one boot: a pid alone repeats between pid namespaces and over time. */
struct fy_lb_process {
    uint64_t pid_namespace; /* inode of /proc/self/ns/pid */
    uint64_t started;       /* clock ticks after boot */
    uint64_t pid;
};

/* Every blob and message ends with `proof`, a code over all that stands before it under the job's secret. */
struct fy_lb_endpoint {
    struct fy_lb_head head;
    struct fy_lb_process process;
    uint64_t net_device; /* of /proc/self/ns/net: abstract sockets belong to a network namespace */
    uint64_t net_inode;
    uint64_t uid;
    char boot[FY_LB_BOOT_BYTES];
    uint8_t token[FY_LB_TOKEN_BYTES]; /* random, per instance; names its socket */
    uint8_t proof[FY_LB_PROOF_BYTES];
};

struct fy_lb_key {
    struct fy_lb_head head;
    struct fy_lb_process process;
    uint8_t token[FY_LB_TOKEN_BYTES];
    uint64_t region;  /* number that the serving side knows it by */
    uint64_t address; /* in the owner's process */
    uint64_t length;
    uint64_t has_file;    /* 1: the owner's socket gives a descriptor for it */
    uint64_t kind;        /* enum ferry_memory_kind */
    uint64_t page_region; /* the same three of the owner's page (guise.h); 0: it has none */
    uint64_t page_address;
    uint64_t page_length;
    uint8_t proof[FY_LB_PROOF_BYTES];
};

/* Server to client, on accept. The only message without a proof. */
struct fy_lb_challenge {
    struct fy_lb_head head;
    uint8_t nonce[FY_LB_NONCE_BYTES];
};

/* Client to server. The server's nonce and token are part of what is proven, so neither a recorded request nor one
 * meant for another instance is of use. */
struct fy_lb_request {
    struct fy_lb_head head;
    uint8_t server_nonce[FY_LB_NONCE_BYTES];
    uint8_t server_token[FY_LB_TOKEN_BYTES];
    uint8_t nonce[FY_LB_NONCE_BYTES];
    uint64_t region;
    uint8_t proof[FY_LB_PROOF_BYTES];
};

/* Server to client, with the descriptor beside it if status is FERRY_OK. */
struct fy_lb_reply {
    struct fy_lb_head head;
    uint8_t nonce[FY_LB_NONCE_BYTES]; /* the client's */
    uint64_t region;
    uint64_t offset; /* of the region in the file */
    uint64_t length;
    int64_t status;
    uint8_t proof[FY_LB_PROOF_BYTES];
};

/* Fills the head and the proof of a blob or message of `size` bytes that ends with its proof. */
void fy_lb_seal(const uint8_t secret[FERRY_SECRET_BYTES], enum fy_lb_kind kind, uint32_t pe, void *bytes, size_t size);

/* NULL: magic, format, kind, size and proof are right. Else the reason, in words. */
const char *fy_lb_check(const uint8_t secret[FERRY_SECRET_BYTES], enum fy_lb_kind kind, const void *bytes, size_t got,
                        size_t size);

/* The same for a message without a proof. */
const char *fy_lb_check_head(enum fy_lb_kind kind, const void *bytes, size_t got, size_t size);

/* Abstract address of the instance with that token. */
void fy_lb_socket_name(const uint8_t token[FY_LB_TOKEN_BYTES], struct sockaddr_un *name, socklen_t *length);

/* FERRY_OK, or FERRY_ERR_SYSTEM when the kernel has no random numbers. */
int fy_lb_random(void *bytes, size_t size);

#endif
