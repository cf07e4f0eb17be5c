/* SPDX-License-Identifier: Apache-2.0
 * Seals and opens the envelope of bytes that PEs exchange.
 * Works on the caller's buffers only; any thread. What is opened may come from anybody: nothing in it is believed. */
#include "blob.h"
#include <string.h>

#define BLOB_MAGIC 0x46524231u

/* CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), four bits at a time. */
static uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                       0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    const uint8_t *p = bytes;

    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

static uint32_t check(const struct fy_blob *head, const void *payload)
{
    uint32_t crc = ~0u;

    crc = crc32c(crc, &head->type, sizeof(head->type));
    crc = crc32c(crc, &head->size, sizeof(head->size));
    crc = crc32c(crc, &head->sender, sizeof(head->sender));
    return ~crc32c(crc, payload, head->size);
}

void fy_blob_seal(struct fy_blob *blob, uint16_t type, uint32_t sender, uint16_t size)
{
    blob->magic = BLOB_MAGIC;
    blob->type = type;
    blob->size = size;
    blob->sender = sender;
    blob->check = check(blob, blob + 1);
}

const char *fy_blob_open(const void *bytes, size_t available, uint16_t type, uint32_t sender, const void **payload,
                         size_t *size)
{
    struct fy_blob head;
    const char *behind = (const char *)bytes + sizeof(head);

    if (available < sizeof(head))
        return "size";
    memcpy(&head, bytes, sizeof(head)); /* received bytes have no alignment */
    if (head.magic != BLOB_MAGIC)
        return "magic";
    if (head.size > available - sizeof(head))
        return "size";
    /* Before type and sender: a damaged blob is to be called damaged, not foreign. */
    if (head.check != check(&head, behind))
        return "checksum";
    if (head.type != type)
        return "type";
    if (head.sender != sender)
        return "sender";
    *payload = behind;
    *size = head.size;
    return NULL;
}
