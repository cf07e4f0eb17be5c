/* SPDX-License-Identifier: Apache-2.0
 * A cable with delay and loss, for kernels that have no netem: hands each frame from one interface to another, later. Ends with its
 * input. One thread. usage: net_relay IN OUT MILLISECONDS PERCENT, or net_relay plain INTERFACE: no offloads there, so that
 * frames are whole, of the size of the medium, and have their sums. */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <arpa/inet.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 2048, QUEUE = 8192 };

struct held {
    uint64_t due;
    int length, to;
    char bytes[FRAME];
};

/* Equal delay for all, so the first that came is the first to go. */
struct cable {
    int ends[2];
    uint64_t delay;
    double loss;
    struct held *queue;
    size_t first, n;
    unsigned long passed, lost;
};

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int plain(const char *interface)
{
    static const uint32_t commands[] = {ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO, ETHTOOL_STXCSUM};
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = 0;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct ethtool_value off = {.cmd = commands[i]};
        request.ifr_data = (char *)&off;
        if (ioctl(fd, SIOCETHTOOL, &request) != 0 && errno != EOPNOTSUPP)
            rc = 1;
    }
    close(fd);
    return rc;
}

static int end_open(const char *interface)
{
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    int room = 8 << 20, fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
    at.sll_ifindex = (int)if_nametoindex(interface);
    if (fd < 0 || !at.sll_ifindex || bind(fd, (struct sockaddr *)&at, sizeof at) != 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    return fd;
}

static void take(struct cable *c, int from)
{
    for (;;) {
        struct held *held = &c->queue[(c->first + c->n) % QUEUE];
        struct sockaddr_ll who;
        socklen_t size = sizeof who;
        ssize_t length = recvfrom(c->ends[from], held->bytes, FRAME, MSG_TRUNC, (struct sockaddr *)&who, &size);
        if (length < 0)
            return;
        if (who.sll_pkttype == PACKET_OUTGOING)
            continue; /* our own */
        if (length > FRAME || c->n == QUEUE || drand48() * 100 < c->loss) {
            c->lost++;
            continue;
        }
        held->length = (int)length;
        held->to = 1 - from;
        held->due = now() + c->delay;
        c->n++;
    }
}

static void hand_on(struct cable *c)
{
    for (; c->n && c->queue[c->first].due <= now(); c->n--, c->first = (c->first + 1) % QUEUE) {
        const struct held *held = &c->queue[c->first];
        if (send(c->ends[held->to], held->bytes, (size_t)held->length, 0) == held->length)
            c->passed++;
        else
            c->lost++;
    }
}

static void carry(struct cable *c)
{
    struct pollfd fds[3] = {{c->ends[0], POLLIN, 0}, {c->ends[1], POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    while (!fds[2].revents) {
        uint64_t at = now(), due = c->n ? c->queue[c->first].due : at + 1000000000u, left = due > at ? due - at : 0;
        struct timespec rest = {.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)};
        ppoll(fds, 3, &rest, NULL);
        take(c, 0);
        take(c, 1);
        hand_on(c);
    }
}

int main(int argc, char **argv)
{
    struct cable cable = {.queue = calloc(QUEUE, sizeof(struct held))};
    if (argc == 3 && strcmp(argv[1], "plain") == 0)
        return plain(argv[2]);
    if (argc != 5 || !cable.queue)
        return 64;
    srand48(1);
    cable.ends[0] = end_open(argv[1]);
    cable.ends[1] = end_open(argv[2]);
    cable.delay = (uint64_t)(atof(argv[3]) * 1e6);
    cable.loss = atof(argv[4]);
    if (cable.ends[0] < 0 || cable.ends[1] < 0 || plain(argv[1]) != 0 || plain(argv[2]) != 0)
        return 1;
    puts("ready");
    fflush(stdout);
    carry(&cable);
    fprintf(stderr, "relay: %lu frames passed on, %lu lost\n", cable.passed, cable.lost);
    free(cable.queue);
    return 0;
}
