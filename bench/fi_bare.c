/* SPDX-License-Identifier: Apache-2.0
 * What a libfabric provider does by itself: loops of fi_write and fi_fetch_atomic between two processes, each on a core.
 * One thread per process; the target reads its completion queue all the time, as most providers need.
 * usage: fi_bare PROVIDER VIRT_ADDR put_lat|put_lat_apart|put_rate|fetch_add|put_bw|count BYTES ITERATIONS [BATCHES]
 * Prints ns per operation: the median of the batches, and the best. put_lat_apart: each process is addressed at an
 * endpoint of its own, and posts from another, as a library must that has contexts; count: 32 puts at a time under callgrind. */
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT ((void)0)
#endif

#define WINDOW  64u
#define WINDOW_BYTES (64u << 20) /* and no more than this in flight, as ferry-perf */
#define COUNTED 32u
#define BATCHES 64

struct bare {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_ep *to;    /* what the peer addresses: `ep`, or (put_lat_apart) one of its own, with its own queue */
    struct fid_cq *to_cq; /* NULL: it is `cq` */
    struct fid_av *av;
    struct fid_mr *mr;
    fi_addr_t peer;
    uint64_t base, key; /* of the peer's memory */
    void *descriptor;
    char *memory; /* the first half is written by the peer, the second is what this one writes from */
    size_t bytes, half;
    struct fi_context2 contexts[WINDOW];
    uint64_t posted, completed, sequence;
};

static int failed(const char *what, ssize_t status)
{
    fprintf(stderr, "fi_bare: %s: %s\n", what, fi_strerror((int)-status));
    exit(1);
}

static void check(const char *what, ssize_t status)
{
    if (status < 0)
        failed(what, status);
}

static void *own(const struct bare *b)
{
    return b->memory + b->half;
}

static void turn(struct bare *b)
{
    struct fi_cq_entry entries[WINDOW];
    ssize_t n = fi_cq_read(b->cq, entries, WINDOW);

    if (n > 0) {
        b->completed += (uint64_t)n;
    } else if (n != -FI_EAGAIN) {
        struct fi_cq_err_entry error = {0};
        fi_cq_readerr(b->cq, &error, 0);
        failed("an operation", -error.err);
    }
}

/* What comes in apart has no completions here: reading the queue moves it along. */
static void turn_to(struct bare *b)
{
    struct fi_cq_entry entry;

    fi_cq_read(b->to_cq, &entry, 1);
}

static void drain(struct bare *b, uint64_t left)
{
    while (b->posted - b->completed > left)
        turn(b);
}

static void write_once(struct bare *b, size_t bytes)
{
    ssize_t rc;

    while ((rc = fi_write(b->ep, own(b), bytes, b->descriptor, b->peer, b->base, b->key,
                          &b->contexts[b->posted % WINDOW])) == -FI_EAGAIN)
        turn(b);
    check("fi_write", rc);
    b->posted++;
}

/* What was written is in place when a read behind it has returned. */
static void flush(struct bare *b)
{
    ssize_t rc;

    drain(b, 0);
    while ((rc = fi_read(b->ep, (char *)own(b) + b->bytes - 8, 8, b->descriptor, b->peer, b->base + b->half - 8, b->key,
                         &b->contexts[0])) == -FI_EAGAIN)
        turn(b);
    check("fi_read", rc);
    b->posted++;
    drain(b, 0);
}

static void windows(struct bare *b, uint64_t n)
{
    const uint64_t fit = WINDOW_BYTES / b->bytes, window = fit < 1 ? 1 : fit < WINDOW ? fit : WINDOW;

    while (n--) {
        drain(b, window - 1);
        write_once(b, b->bytes);
    }
    flush(b);
}

static void fetch_add(struct bare *b, uint64_t n)
{
    while (n--) {
        ssize_t rc;
        while ((rc = fi_fetch_atomic(b->ep, own(b), 1, b->descriptor, (uint64_t *)own(b) + 1, b->descriptor, b->peer, b->base,
                                     b->key, FI_UINT64, FI_SUM, &b->contexts[0])) == -FI_EAGAIN)
            turn(b);
        check("fi_fetch_atomic", rc);
        b->posted++;
        drain(b, 0);
    }
}

static void await(struct bare *b, uint64_t number)
{
    while (__atomic_load_n((uint64_t *)(void *)b->memory, __ATOMIC_ACQUIRE) < number)
        b->to_cq ? turn_to(b) : turn(b);
}

static void exchange(struct bare *b, uint64_t n, int first)
{
    while (n--) {
        b->sequence++;
        if (!first)
            await(b, b->sequence);
        drain(b, WINDOW - 1);
        *(uint64_t *)own(b) = b->sequence;
        write_once(b, 8);
        if (first)
            await(b, b->sequence);
        else
            drain(b, 0);
    }
    drain(b, 0);
}

static void counted(struct bare *b, uint64_t n)
{
    for (uint64_t left = n; left > 0; left -= COUNTED) {
        CALLGRIND_TOGGLE_COLLECT;
        for (unsigned i = 0; i < COUNTED; i++)
            write_once(b, 8);
        CALLGRIND_TOGGLE_COLLECT;
        flush(b);
    }
}

static void pin(int last)
{
    cpu_set_t all, one;
    int cpu = -1;

    sched_getaffinity(0, sizeof all, &all);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all) && (cpu < 0 || last))
            cpu = i;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void choose(struct bare *b, const char *provider, int virt_addr)
{
    struct fi_info *hints = fi_allocinfo();
    int tcp = strncmp(provider, "tcp", 3) == 0;

    if (!hints)
        failed("fi_allocinfo", -FI_ENOMEM);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_RMA | FI_ATOMIC;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->fabric_attr->prov_name = strdup(provider);
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | (virt_addr ? FI_MR_VIRT_ADDR : 0);
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    check("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), tcp ? "127.0.0.1" : NULL, NULL, tcp ? FI_SOURCE : 0, hints, &b->info));
    fi_freeinfo(hints);
}

static void open_one(struct bare *b, struct fid_ep **ep, struct fid_cq **queue)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .size = 4096};

    check("fi_endpoint", fi_endpoint(b->domain, b->info, ep, NULL));
    check("fi_cq_open", fi_cq_open(b->domain, &cq, queue, NULL));
    check("fi_ep_bind", fi_ep_bind(*ep, &(*queue)->fid, FI_TRANSMIT | FI_RECV));
    check("fi_ep_bind", fi_ep_bind(*ep, &b->av->fid, 0));
    check("fi_enable", fi_enable(*ep));
}

static void open_endpoints(struct bare *b, int apart)
{
    struct fi_av_attr av = {.type = FI_AV_TABLE};

    check("fi_fabric", fi_fabric(b->info->fabric_attr, &b->fabric, NULL));
    check("fi_domain", fi_domain(b->fabric, b->info, &b->domain, NULL));
    check("fi_av_open", fi_av_open(b->domain, &av, &b->av, NULL));
    open_one(b, &b->ep, &b->cq);
    b->to = b->ep;
    if (apart)
        open_one(b, &b->to, &b->to_cq);
}

static void open_memory(struct bare *b)
{
    b->half = b->bytes < 4096 ? 4096 : b->bytes;
    b->memory = mmap(NULL, 2 * b->half, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (b->memory == MAP_FAILED)
        failed("mmap", -FI_ENOMEM);
    check("fi_mr_reg", fi_mr_reg(b->domain, b->memory, 2 * b->half,
                                 FI_REMOTE_WRITE | FI_REMOTE_READ | FI_WRITE | FI_READ, 0, 7, 0, &b->mr, NULL));
    b->descriptor = fi_mr_desc(b->mr);
}

/* Address, key and base of both, over the socket. */
static void meet(struct bare *b, int socket)
{
    struct {
        uint64_t base, key;
        size_t size;
        char name[512];
    } mine = {.size = sizeof mine.name}, theirs;

    check("fi_getname", fi_getname(&b->to->fid, mine.name, &mine.size));
    mine.key = fi_mr_key(b->mr);
    mine.base = b->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)b->memory : 0;
    if (write(socket, &mine, sizeof mine) != sizeof mine || recv(socket, &theirs, sizeof theirs, MSG_WAITALL) != sizeof theirs)
        failed("the other process", -FI_EIO);
    b->base = theirs.base;
    b->key = theirs.key;
    if (fi_av_insert(b->av, theirs.name, 1, &b->peer, 0, NULL) != 1)
        failed("fi_av_insert", -FI_EINVAL);
}

/* Keeps reading the queue until the other process has said something. */
static int heard(struct bare *b, int socket)
{
    char word;
    ssize_t n;

    while ((n = recv(socket, &word, 1, MSG_DONTWAIT)) < 0) {
        turn(b);
        if (b->to_cq)
            turn_to(b);
    }
    return n == 1 && word == 'b';
}

static void target(struct bare *b, int socket, const char *test, uint64_t n)
{
    while (heard(b, socket)) /* b: a batch of the exchange, which takes both */
        if (strncmp(test, "put_lat", 7) == 0)
            exchange(b, n, 0);
    fi_close(&b->ep->fid); /* takes its file out of /dev/shm */
    _Exit(0);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void batch(struct bare *b, int socket, const char *test, uint64_t n)
{
    int exchanges = strncmp(test, "put_lat", 7) == 0;

    if (exchanges && write(socket, "b", 1) != 1)
        failed("the other process", -FI_EIO);
    if (exchanges)
        exchange(b, n, 1);
    else if (strcmp(test, "fetch_add") == 0)
        fetch_add(b, n);
    else if (strcmp(test, "count") == 0)
        counted(b, n);
    else
        windows(b, n);
}

static void initiator(struct bare *b, int socket, const char *test, uint64_t n, int batches)
{
    double ns[BATCHES];
    int halves = strncmp(test, "put_lat", 7) == 0 ? 2 : 1;

    flush(b); /* connects */
    if (strcmp(test, "count") != 0)
        batch(b, socket, test, n);
    for (int i = 0; i < batches; i++) {
        double start = now_ns();
        batch(b, socket, test, n);
        ns[i] = (now_ns() - start) / (double)n / halves;
    }
    qsort(ns, (size_t)batches, sizeof *ns, by_value);
    printf("%s %zu %.2f %.2f\n", test, b->bytes, ns[batches / 2], ns[0]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static struct bare b;
    int sockets[2], first;

    if (argc < 6) {
        fprintf(stderr, "usage: fi_bare PROVIDER VIRT_ADDR put_lat|put_lat_apart|put_rate|fetch_add|put_bw|count BYTES ITERATIONS [BATCHES]\n");
        return 64;
    }
    int batches = argc > 6 ? atoi(argv[6]) : 9;
    if (batches < 1 || batches > BATCHES || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
        return 64;
    pid_t child = fork();
    first = child != 0;
    pin(!first);
    b.bytes = strtoull(argv[4], NULL, 0);
    choose(&b, argv[1], atoi(argv[2]));
    open_endpoints(&b, strcmp(argv[3], "put_lat_apart") == 0);
    open_memory(&b);
    close(sockets[!first]);
    meet(&b, sockets[first]);
    if (!first)
        target(&b, sockets[first], argv[3], strtoull(argv[5], NULL, 0));
    initiator(&b, sockets[first], argv[3], strtoull(argv[5], NULL, 0), batches);
    close(sockets[first]);
    fi_close(&b.ep->fid);
    waitpid(child, NULL, 0);
    _Exit(0);
}
