/* SPDX-License-Identifier: Apache-2.0
 * Who this process is, and whether it shares a host with another: endpoint blobs and reach().
 * Setup thread. */
#include "guise.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOOT_FILE "/proc/sys/kernel/random/boot_id"
#define STAT_FILE "/proc/self/stat"
#define NET_FILE  "/proc/self/ns/net"
#define PID_FILE  "/proc/self/ns/pid"

static int read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    int ok;

    if (!file)
        return 0;
    ok = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (!ok)
        errno = EIO;
    return ok;
}

/* Field 22 of /proc/self/stat; the second one is in brackets and may hold anything. */
static int read_start(uint64_t *started)
{
    char line[1024];
    const char *at;

    if (!read_line(STAT_FILE, line, sizeof line))
        return 0;
    at = strrchr(line, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at) {
        errno = EINVAL;
        return 0;
    }
    *started = strtoull(at, NULL, 10);
    return 1;
}

const char *fy_lb_identify(struct fy_lb_identity *self)
{
    struct stat net, pid;

    memset(self, 0, sizeof *self);
    if (!read_line(BOOT_FILE, self->boot, sizeof self->boot))
        return BOOT_FILE;
    self->boot[strcspn(self->boot, "\n")] = 0;
    if (!read_start(&self->process.started))
        return STAT_FILE;
    if (stat(NET_FILE, &net))
        return NET_FILE;
    if (stat(PID_FILE, &pid))
        return PID_FILE;
    self->net_device = net.st_dev;
    self->net_inode = net.st_ino;
    self->uid = geteuid();
    self->process.pid_namespace = pid.st_ino;
    self->process.pid = (uint64_t)getpid();
    return NULL;
}

int fy_lb_same_process(const struct fy_lb_process *a, const struct fy_lb_process *b)
{
    return a->pid_namespace == b->pid_namespace && a->started == b->started && a->pid == b->pid;
}

int fy_lb_export_endpoint(struct ferry_transport *t, void *blob, size_t *size)
{
    struct fy_lb_endpoint out;
    int status = fy_lb_server_start(t);

    if (status)
        return status;
    memset(&out, 0, sizeof out);
    out.process = t->self.process;
    out.net_device = t->self.net_device;
    out.net_inode = t->self.net_inode;
    out.uid = t->self.uid;
    memcpy(out.boot, t->self.boot, sizeof out.boot);
    memcpy(out.token, t->token, sizeof out.token);
    fy_lb_seal(t->secret, FY_LB_ENDPOINT, t->my_pe, &out, sizeof out);
    memcpy(blob, &out, sizeof out);
    *size = sizeof out;
    return FERRY_OK;
}

int fy_lb_reach(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, char *why, size_t why_size)
{
    const struct fy_lb_identity *self = &t->self;
    struct fy_lb_endpoint it;
    const char *wrong = fy_lb_check(t->secret, FY_LB_ENDPOINT, blob, size, sizeof it);

    if (wrong) {
        snprintf(why, why_size, "the endpoint of PE %u cannot be used: %s", peer, wrong);
        return FERRY_ERR_UNREACHABLE;
    }
    memcpy(&it, blob, sizeof it);
    it.boot[sizeof it.boot - 1] = 0;
    if (it.head.pe != peer)
        snprintf(why, why_size, "the endpoint given for PE %u is that of PE %u", peer, it.head.pe);
    else if (strcmp(it.boot, self->boot))
        snprintf(why, why_size, "PE %u runs on another host (boot id %s there, %s here)", peer, it.boot, self->boot);
    else if (it.net_device != self->net_device || it.net_inode != self->net_inode)
        snprintf(why, why_size, "PE %u is in another network namespace (net:[%llu] there, net:[%llu] here)", peer,
                 (unsigned long long)it.net_inode, (unsigned long long)self->net_inode);
    else if (it.uid != self->uid)
        snprintf(why, why_size, "PE %u runs as another user (uid %llu there, %llu here)", peer,
                 (unsigned long long)it.uid, (unsigned long long)self->uid);
    else if (t->guise && peer % t->guise->choice.hosts != t->my_pe % t->guise->choice.hosts)
        snprintf(why, why_size, "PE %u runs on another host (number %u of the guise hosts=%u, %u here)", peer,
                 peer % t->guise->choice.hosts, t->guise->choice.hosts, t->my_pe % t->guise->choice.hosts);
    else
        return FERRY_OK;
    return FERRY_ERR_UNREACHABLE;
}
