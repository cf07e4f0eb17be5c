/* SPDX-License-Identifier: Apache-2.0
 * What a user reads when there is no provider to use, or a peer cannot be reached. Main thread. */
#include "pair.h"

#include <errno.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>

/* Probing and opening give the same reason, and the status. */
static void refused(const char *const *set, int status, const char *first, const char *second)
{
    struct ferry_probe probe = {.size = sizeof probe};
    struct side s;

    stub_init(&s.stub, set);
    assert_int_equal(plugin()->probe(&s.stub.core, &probe), status);
    assert_says(probe.detail, first);
    assert_int_equal(side_open(&s, 0, set), status);
    assert_int_equal(s.stub.errors, 1);
    assert_int_equal(s.stub.last.status, status);
    assert_says(s.stub.last.message, first);
    assert_says(s.stub.last.message, second);
}
#define SET(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_misspelt(void **state)
{
    (void)state;
    refused(SET("provider", "sockts"), FERRY_ERR_CONFIG, "has no provider sockts (did you mean sockets?): it has ", "shm");
    refused(SET("provider", "tcp;ofi_rmx"), FERRY_ERR_CONFIG, "has no provider ofi_rmx (did you mean ofi_rxm?)", "ofi_rxd");
    refused(SET("provider", "nothing_like_it"), FERRY_ERR_CONFIG, "has no provider nothing_like_it: it has ", "tcp");
}

static void test_refused(void **state)
{
    struct ferry_probe probe = {.size = sizeof probe};
    struct stub stub;

    (void)state;
    refused(SET("provider", "net"), FERRY_ERR_CONFIG, "is refused: it ", "FERRY_LIBFABRIC_USE_REFUSED=yes");
    refused(SET("provider", "udp;ofi_rxd"), FERRY_ERR_CONFIG, "provider udp;ofi_rxd is refused: a fetching atomic kills the target",
            "FERRY_LIBFABRIC_USE_REFUSED=yes");
    stub_init(&stub, SET("provider", "net", "use_refused", "yes"));
    assert_int_equal(plugin()->probe(&stub.core, &probe), FERRY_OK);
    assert_says(probe.detail, "provider net");
}

static void test_interface(void **state)
{
    (void)state;
    refused(SET("provider", "tcp;ofi_rxm", "interface", "lo7"), FERRY_ERR_CONFIG,
            "FERRY_LIBFABRIC_INTERFACE=lo7: there is no such interface (did you mean lo?): there are ", "lo");
    refused(SET("provider", "shm", "interface", "lo"), FERRY_ERR_CONFIG,
            "provider shm has nothing on interface lo (is it up, has it an address?): it has shm", "shm");
}

static void test_interface_chosen(void **state)
{
    struct side s;

    (void)state;
    assert_int_equal(side_open(&s, 0, SET("provider", "tcp;ofi_rxm", "interface", "lo")), FERRY_OK);
    assert_says(s.stub.note, "provider tcp;ofi_rxm, domain lo");
    side_close(&s);
}

static void test_domain(void **state)
{
    (void)state;
    refused(SET("provider", "tcp;ofi_rxm", "domain", "lo0"), FERRY_ERR_CONFIG,
            "provider tcp;ofi_rxm has no domain lo0 (did you mean lo?): it has ", "lo");
    refused(SET("provider", "shm", "domain", "eth7"), FERRY_ERR_CONFIG, "provider shm has no domain eth7: it has shm", "");
}

static void test_bounds(void **state)
{
    (void)state;
    refused(SET("queue_depth", "3"), FERRY_ERR_CONFIG, "FERRY_LIBFABRIC_QUEUE_DEPTH=3 is not between 16 and 32768", "");
    refused(SET("inject_size", "-2"), FERRY_ERR_CONFIG, "FERRY_LIBFABRIC_INJECT_SIZE=-2 is not between -1 and 65536", "");
}

/* Which of the things that were asked for excludes it. */
static void test_excluded(void **state)
{
    (void)state;
    lack = (struct lack){.caps = FI_RMA};
    refused(SET("provider", "sockets"), FERRY_ERR_CONFIG, "provider sockets is there, but excluded by FI_RMA: it has no puts and gets",
            "");
    lack = (struct lack){.rdm = 1};
    refused(SET("provider", "sockets"), FERRY_ERR_CONFIG,
            "provider sockets is there, but excluded by FI_EP_RDM: it has no reliable endpoints without connections", "");
    lack = (struct lack){.rdm = 1, .caps = FI_RMA};
    refused(SET("provider", "sockets"), FERRY_ERR_CONFIG, "excluded by FI_RMA: it has no puts and gets; FI_EP_RDM: it has no", "");
    lack = (struct lack){0};
}

static void test_nothing(void **state)
{
    (void)state;
    lack = (struct lack){.getinfo = -FI_ENODATA};
    refused(SET("provider", "sockets"), FERRY_ERR_DEVICE,
            "provider sockets finds no device or network interface here; fi_info -p 'sockets' shows what it finds", "");
    refused(SET("provider", "shm"), FERRY_ERR_DEVICE, "provider shm does not start: it wants more than the ", "free in /dev/shm");
    refused(SET("provider", ""), FERRY_ERR_DEVICE, "libfabric finds no provider with puts and gets here", "fi_info");
    lack = (struct lack){.getinfo = -FI_ENOMEM};
    refused(SET("provider", "sockets"), FERRY_ERR_DEVICE, "libfabric cannot say which providers there are: Cannot allocate memory", "");
    lack = (struct lack){0};
}

static void test_memlock(void **state)
{
    struct side s;

    (void)state;
    lack = (struct lack){.mr_reg = -FI_ENOMEM}; /* not of a provider that lies over another: its domain would be caught, too */
    assert_int_equal(side_open(&s, 0, SET("provider", "sockets")), FERRY_ERR_NOMEM);
    assert_says(s.stub.last.message, "provider sockets cannot register 4096 bytes at 0x");
    assert_says(s.stub.last.message, ": Cannot allocate memory");
    assert_says(s.stub.last.hint, "RLIMIT_MEMLOCK is ");
    lack = (struct lack){0};
}

static void unreachable(struct side *at, const struct side *peer, const char *words)
{
    char why[256] = "";

    assert_int_equal(ops()->reach(at->t, 1, peer->endpoint, peer->endpoint_size, why, sizeof why), FERRY_ERR_UNREACHABLE);
    assert_says(why, words);
}

static void test_reach(void **state)
{
    struct side tcp, shm, other;

    (void)state;
    assert_int_equal(side_open(&tcp, 0, SET("provider", "tcp;ofi_rxm", "interface", "lo")), FERRY_OK);
    assert_int_equal(side_open(&shm, 0, SET("provider", "shm")), FERRY_OK);
    assert_int_equal(side_open(&other, 0, SET("provider", "shm", "mr_virt_addr", "1")), FERRY_OK);
    unreachable(&shm, &tcp, "it uses provider tcp;ofi_rxm and this PE shm: set FERRY_LIBFABRIC_PROVIDER alike");
    unreachable(&shm, &other, "it uses the other engine of shm: set FERRY_LIBFABRIC_MR_VIRT_ADDR alike");
    shm.endpoint[16] ^= 1; /* the number of the host */
    unreachable(&shm, &shm, "provider shm reaches PEs of one host, with one /dev/shm, only");
    tcp.endpoint[16] ^= 1;
    unreachable(&tcp, &tcp, "its address is one of its own host only: set FERRY_LIBFABRIC_INTERFACE there");
    tcp.endpoint[0] ^= 1;
    unreachable(&tcp, &tcp, "its address is not of this libfabric transport: run the same build on all hosts");
    tcp.endpoint_size--;
    unreachable(&tcp, &tcp, "its address is not of this libfabric transport");
    side_close(&tcp);
    side_close(&shm);
    side_close(&other);
}

static void test_blobs(void **state)
{
    uint8_t blob[FERRY_KEY_MAX] = {0};
    struct ferry_error record = {.size = sizeof record};
    struct ferry_rkey *key;
    struct side s;
    size_t size = 0;

    (void)state;
    assert_int_equal(side_open(&s, 0, SET("provider", "tcp;ofi_rxm")), FERRY_OK);
    assert_int_equal(ops()->import_key(s.t, 1, blob, sizeof blob, &key), FERRY_ERR_MISMATCH);
    assert_int_equal(ops()->query_error(s.t, 0, 1, &record), FERRY_OK);
    assert_says(record.message, "the key from pe 1 is not of libfabric");
    assert_int_equal(ops()->export_key(s.t, s.region, blob, &size), FERRY_OK);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(ops()->import_key(s.t, 1, blob, cut, &key), FERRY_ERR_MISMATCH);
    side_close(&s);
}

static void test_gpu(void **state)
{
    struct ferry_memory memory = {.size = sizeof memory, .kind = FERRY_MEMORY_GPU, .length = 4096, .fd = -1};
    struct ferry_caps caps = {.size = sizeof caps};
    struct ferry_error record = {.size = sizeof record};
    struct ferry_region *region;
    struct side s;

    (void)state;
    assert_int_equal(side_open(&s, 0, SET("provider", "tcp;ofi_rxm")), FERRY_OK);
    assert_int_equal(ops()->query(s.t, FERRY_MEMORY_GPU, &caps), FERRY_ERR_UNSUPPORTED);
    memory.address = s.memory;
    assert_int_equal(ops()->register_memory(s.t, &memory, &region), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(ops()->query_error(s.t, 0, FERRY_PEER_ALL, &record), FERRY_OK);
    assert_says(record.message, "libfabric registers host memory, not kind");
    side_close(&s);
}

struct told {
    char all[8192];
    int problems;
};

static void tell(void *arg, const struct ferry_finding *finding)
{
    struct told *told = arg;
    size_t used = strlen(told->all);

    told->problems += finding->level == FERRY_FINDING_PROBLEM;
    snprintf(told->all + used, sizeof told->all - used, "%s: %s (%s)\n", finding->object, finding->text, finding->advice);
}

static int report(struct told *told, uint32_t kind, const char *const *set)
{
    struct ferry_place places[2] = {{.size = sizeof places[0]}, {.size = sizeof places[0], .pe = 1}};
    struct ferry_report ask = {
        .size = sizeof ask, .kind = kind, .places = places, .n_places = 2, .n_channels = 2, .tell = tell, .arg = told};
    struct stub stub;

    memset(told, 0, sizeof *told);
    stub_init(&stub, set);
    return plugin()->report(&stub.core, &ask);
}

static void test_report(void **state)
{
    struct told told;

    (void)state;
    assert_int_equal(report(&told, FERRY_REPORT_HEALTH, NULL), FERRY_OK);
    assert_int_equal(told.problems, 0);
    assert_says(told.all, "library: libfabric 1.");
    assert_says(told.all, "tcp;ofi_rxm: on ");
    assert_says(told.all, "puts in order kept, atomics behind puts kept, atomics by the target's CPU; completion is known by a read");
    assert_says(told.all, "udp;ofi_rxd is refused: a fetching atomic kills the target");
    assert_says(told.all, "choice: provider ");
    assert_int_equal(report(&told, FERRY_REPORT_HEALTH, SET("provider", "tpc")), FERRY_OK);
    assert_int_equal(told.problems, 1);
    assert_says(told.all, "choice: libfabric 1.");
    assert_int_equal(report(&told, FERRY_REPORT_HEALTH, SET("queue_depth", "1")), FERRY_OK);
    assert_says(told.all, "options: FERRY_LIBFABRIC_QUEUE_DEPTH=1 is not between");
    assert_int_equal(report(&told, FERRY_REPORT_PLAN, SET("provider", "shm", "order", "none")), FERRY_OK);
    assert_says(told.all, "pe 0: provider shm (on shm: puts in order made by waiting or counting");
    assert_says(told.all, "pe 1: provider shm");
    assert_int_equal(report(&told, FERRY_REPORT_PLAN, SET("provider", "tpc")), FERRY_OK);
    assert_says(told.all, "no plan: none (libfabric 1.");
    assert_int_equal(report(&told, 99, NULL), FERRY_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_misspelt), cmocka_unit_test(test_refused),  cmocka_unit_test(test_interface),
        cmocka_unit_test(test_interface_chosen), cmocka_unit_test(test_domain),
        cmocka_unit_test(test_bounds),   cmocka_unit_test(test_excluded), cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_memlock),  cmocka_unit_test(test_reach),    cmocka_unit_test(test_blobs),
        cmocka_unit_test(test_gpu),      cmocka_unit_test(test_report),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
