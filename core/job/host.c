/* SPDX-License-Identifier: Apache-2.0
 * Which machine, and which host on it, this process runs on. A container with a network of its own is a host.
 * Any thread. */
#include "host.h"

#include <ferry/bootstrap.h>

#include <stdio.h>
#include <sys/stat.h>

/* FNV-1a */
static uint64_t hash_of(uint64_t hash, const void *bytes, size_t size)
{
    for (const uint8_t *c = bytes; size-- > 0; c++)
        hash = (hash ^ *c) * 0x100000001b3u;
    return hash;
}

/* The boot id: the host name is no proof of being the same machine. */
uint64_t fy_machine_number(void)
{
    char id[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t size = file ? fread(id, 1, sizeof(id), file) : 0;
    if (file)
        fclose(file);
    return hash_of(0xcbf29ce484222325u, id, size);
}

uint64_t fy_host_number(void)
{
    struct stat net;
    uint64_t name[2] = {0, 0};
    if (stat("/proc/self/ns/net", &net) == 0) {
        name[0] = net.st_dev;
        name[1] = net.st_ino;
    }
    return hash_of(fy_machine_number(), name, sizeof(name));
}

uint64_t fy_host_number_of(uint32_t node)
{
    uint64_t host = fy_host_number();
    return node == FERRY_BOOT_NO_NODE ? host : hash_of(host, &node, sizeof(node));
}
