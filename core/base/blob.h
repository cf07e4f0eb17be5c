/* SPDX-License-Identifier: Apache-2.0
 * Envelope of everything one PE hands to another as bytes: magic, type, sender, size, checksum.
 * Pure functions over caller-owned buffers; any thread. Input may be hostile: opening checks every field. */
#ifndef FY_BASE_BLOB_H
#define FY_BASE_BLOB_H

#include <stddef.h>
#include <stdint.h>

enum fy_blob_type { FY_BLOB_ENDPOINT = 1, FY_BLOB_KEY = 2, FY_BLOB_CONNECT = 3, FY_BLOB_JOB = 4 };

struct fy_blob {
    uint32_t magic;
    uint16_t type;
    uint16_t size; /* payload bytes that follow */
    uint32_t sender;
    uint32_t check; /* CRC-32C, or similar, over type, size, sender, payload */
};

/* Seals `size` bytes that stand behind the header. */
void fy_blob_seal(struct fy_blob *blob, uint16_t type, uint32_t sender, uint16_t size);
/* NULL: good, *payload and *size set; else a static reason ("checksum", "type", "sender", "size", "magic"). */
const char *fy_blob_open(const void *bytes, size_t available, uint16_t type, uint32_t sender, const void **payload,
                         size_t *size);

#endif
