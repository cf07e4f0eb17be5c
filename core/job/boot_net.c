/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap addresses: from the name of an interface to a listening socket, and texts for messages.
 * Any thread. */
#include "boot_wire.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* Ports that are tried when the kernel has none to give out. */
#define PORT_FIRST   1024
#define PORT_LAST    65535
#define PORT_TRIES   64
#define LISTEN_TRIES 8

/* "lo (127.0.0.1), eth0 (192.0.2.2)" */
static void list_interfaces(char *out, size_t size)
{
    struct ifaddrs *all = NULL;
    size_t at = 0;
    out[0] = 0;
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *i = all; i && at < size; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
            continue;
        char text[INET_ADDRSTRLEN];
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr, text, sizeof(text));
        int n = snprintf(out + at, size - at, "%s%s (%s)", at ? ", " : "", i->ifa_name, text);
        at += n > 0 ? (size_t)n : 0;
    }
    freeifaddrs(all);
}

static int interface_missing(const char *interface_, const char *reason, struct ferry_error *error)
{
    char list[160];
    list_interfaces(list, sizeof(list));
    fy_error_set(error, FERRY_ERR_CONFIG, "set FERRY_INTERFACE to one of them, or to its address",
                 "interface %s: %s; there are %s", interface_, reason, list[0] ? list : "none");
    return FERRY_ERR_CONFIG;
}

/* 1: found, 0: no such name, -1: it has no IPv4 address. */
static int interface_find(const char *name, uint32_t *ip)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0)
        return 0;
    int found = 0;
    for (const struct ifaddrs *i = all; i && found != 1; i = i->ifa_next) {
        if (strcmp(i->ifa_name, name) != 0)
            continue;
        found = -1;
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET) {
            *ip = ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr.s_addr;
            found = 1;
        }
    }
    freeifaddrs(all);
    return found;
}

bool fy_net_auto(const char *interface_)
{
    return !interface_ || strcmp(interface_, "auto") == 0;
}

uint32_t fy_net_list(struct fy_net *nets, uint32_t room)
{
    struct ifaddrs *all = NULL;
    uint32_t n = 0;
    if (getifaddrs(&all) != 0)
        return 0;
    for (const struct ifaddrs *i = all; i && n < room; i = i->ifa_next) {
        if (!i->ifa_addr || !i->ifa_netmask || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP))
            continue;
        nets[n].ip = ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr.s_addr;
        nets[n].mask = ((const struct sockaddr_in *)(const void *)i->ifa_netmask)->sin_addr.s_addr;
        n += !fy_net_is_loopback(nets[n].ip);
    }
    freeifaddrs(all);
    return n;
}

bool fy_net_is_loopback(uint32_t ip)
{
    return ntohl(ip) >> 24 == IN_LOOPBACKNET;
}

/* A datagram socket that is connected sends nothing, and has the address that a connection would have. */
int fy_net_toward(const struct fy_addr *to, uint32_t *ip, struct ferry_error *error)
{
    char text[FY_ADDR_TEXT], reason[FY_CODE_TEXT];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = to->port, .sin_addr.s_addr = to->ip};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int rc = fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0 ? getsockname(fd, (struct sockaddr *)&at, &size) : -1;
    int code = errno;
    if (fd >= 0)
        close(fd);
    *ip = at.sin_addr.s_addr;
    if (rc == 0)
        return FERRY_OK;
    fy_error_set(error, FERRY_ERR_BOOTSTRAP, "check FERRY_INTERFACE, here and where the id was made, and the network",
                 "meeting at %s: no way there from this host: %s", fy_addr_text(to, text), fy_code_text(code, reason));
    error->library_status = code;
    return FERRY_ERR_BOOTSTRAP;
}

int fy_net_address(const char *interface_, uint32_t *ip, struct ferry_error *error)
{
    *ip = htonl(INADDR_LOOPBACK);
    if (!interface_ || !interface_[0] || strcmp(interface_, "lo") == 0 || fy_net_auto(interface_))
        return FERRY_OK;
    struct in_addr given;
    if (inet_pton(AF_INET, interface_, &given) == 1) {
        if (given.s_addr == htonl(INADDR_ANY) || given.s_addr == htonl(INADDR_NONE))
            return interface_missing(interface_, "no address that other PEs can connect to", error);
        *ip = given.s_addr;
        return FERRY_OK;
    }
    int found = interface_find(interface_, ip);
    if (found == 1)
        return FERRY_OK;
    return interface_missing(interface_, found < 0 ? "it has no IPv4 address" : "there is none of this name", error);
}

/* The kernel gives out ports of its range only, and none that a closed connection still holds (TIME_WAIT). When there is
 * none left, which many short jobs can bring about, any other port will do. */
int fy_net_bind_any(int fd, uint32_t ip)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = ip};
    int on = 1, rc = -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* a port that only closed connections hold is free */
    errno = EADDRINUSE;
    for (int i = 0; rc != 0 && i < PORT_TRIES && errno == EADDRINUSE; i++) {
        at.sin_port = htons((uint16_t)(PORT_FIRST + randombytes_uniform(PORT_LAST - PORT_FIRST + 1)));
        rc = bind(fd, (struct sockaddr *)&at, sizeof(at));
    }
    return rc;
}

static int bind_somewhere(int fd, uint32_t ip)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = ip};
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
        return 0;
    return errno == EADDRINUSE ? fy_net_bind_any(fd, ip) : -1;
}

/* Two may bind one port for re-use; only one can listen there. */
static int listen_somewhere(uint32_t ip)
{
    for (int i = 0;; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0 && bind_somewhere(fd, ip) == 0 && listen(fd, SOMAXCONN) == 0)
            return fd;
        int code = errno;
        if (fd >= 0)
            close(fd);
        errno = code;
        if (code != EADDRINUSE || i == LISTEN_TRIES)
            return -1;
    }
}

int fy_net_listen(uint32_t ip, struct fy_addr *addr, int *fd_out, struct ferry_error *error)
{
    char text[FY_ADDR_TEXT], reason[FY_CODE_TEXT];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = ip};
    socklen_t size = sizeof(at);
    *addr = (struct fy_addr){.ip = ip};
    int fd = listen_somewhere(ip);
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&at, &size) == 0) {
        addr->port = at.sin_port;
        *fd_out = fd;
        return FERRY_OK;
    }
    int code = errno;
    if (fd >= 0)
        close(fd);
    inet_ntop(AF_INET, &at.sin_addr, text, sizeof(text));
    if (code == EADDRNOTAVAIL)
        return interface_missing(text, "it is no address of this machine", error);
    if (code == EADDRINUSE)
        fy_error_set(error, FERRY_ERR_SYSTEM, "see ss -tan: connections that were closed hold a port for a minute",
                     "cannot listen on %s: no port is free, in net.ipv4.ip_local_port_range or elsewhere", text);
    else
        fy_error_set(error, FERRY_ERR_SYSTEM, NULL, "cannot listen on %s: %s", text, fy_code_text(code, reason));
    error->library_status = code;
    return FERRY_ERR_SYSTEM;
}

void fy_net_tune(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only slower without it */
}

const char *fy_addr_text(const struct fy_addr *addr, char out[FY_ADDR_TEXT])
{
    char ip[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &addr->ip, ip, sizeof(ip));
    snprintf(out, FY_ADDR_TEXT, "%s:%u", ip, (unsigned)ntohs(addr->port));
    return out;
}

bool fy_code_exhausted(int code)
{
    return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
}

const char *fy_code_text(int code, char out[FY_CODE_TEXT])
{
    struct rlimit limit;
    char words[48];
    snprintf(words, sizeof(words), "%s", strerror(code));
    if (code == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        snprintf(out, FY_CODE_TEXT, "%s (ulimit -n is %llu)", words, (unsigned long long)limit.rlim_cur);
    else
        snprintf(out, FY_CODE_TEXT, "%s", words);
    return out;
}

/* Appends "5" or "5-7" if that fits and leaves room for the rest; false: it does not. */
static bool append_run(char *out, size_t size, size_t *at, uint32_t from, uint32_t to)
{
    char run[32];
    int n = from == to ? snprintf(run, sizeof(run), "%s%u", *at ? ", " : "", from)
                       : snprintf(run, sizeof(run), "%s%u-%u", *at ? ", " : "", from, to);
    if (n < 0 || *at + (size_t)n + 24 > size)
        return false;
    memcpy(out + *at, run, (size_t)n + 1);
    *at += (size_t)n;
    return true;
}

uint32_t fy_text_missing(char *out, size_t size, const uint8_t *have, uint32_t n, uint32_t *first)
{
    char list[256];
    size_t at = 0;
    uint32_t count = 0, told = 0;
    bool fits = true;
    list[0] = 0;
    *first = FY_NOBODY;
    for (uint32_t pe = 0; pe < n; pe++) {
        if (have[pe])
            continue;
        uint32_t from = pe;
        while (pe + 1 < n && !have[pe + 1])
            pe++;
        if (*first == FY_NOBODY)
            *first = from;
        count += pe - from + 1;
        fits = fits && append_run(list, size < sizeof(list) ? size : sizeof(list), &at, from, pe);
        told = fits ? count : told;
    }
    if (told < count)
        snprintf(out, size, "PEs %s and %u more", list, count - told);
    else
        snprintf(out, size, "%s %s", count == 1 ? "PE" : "PEs", list);
    return count;
}
