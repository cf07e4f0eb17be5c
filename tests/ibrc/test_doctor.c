/* SPDX-License-Identifier: Apache-2.0
 * ferry-info --doctor of the plugin, over the stand-in and a tree of files that stands for /: each finding, good and
 * bad. Main thread. */
#include "told.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];
static const struct host alone = {"0", NULL};

static void path_of(char *out, size_t size, const char *path)
{
    snprintf(out, size, "%s%s", root, path);
}

static void put(const char *path, const char *text)
{
    char whole[400];
    FILE *file;

    path_of(whole, sizeof whole, path);
    for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(whole, 0755);
        *slash = '/';
    }
    file = fopen(whole, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void gone(const char *path)
{
    char whole[400];

    path_of(whole, sizeof whole, path);
    assert_int_equal(unlink(whole), 0);
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s, (void)kind, (void)at;
    return remove(path);
}

/* A host with one RDMA device, all in order. */
static int healthy_host(void **state)
{
    (void)state;
    strcpy(root, "/tmp/ferry-doctor-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    put("/sys/class/infiniband/fake0/ports/1/gid_attrs/ndevs/1", "eth7\n");
    put("/sys/class/infiniband_verbs/abi_version", "6\n");
    put("/sys/class/infiniband_verbs/uverbs0/ibdev", "fake0\n");
    put("/sys/class/infiniband_verbs/uverbs0/abi_version", "1\n");
    put("/sys/class/net/eth7/mtu", "4200\n");
    put("/dev/infiniband/uverbs0", "");
    put("/proc/self/cgroup", "0::/job/step\n");
    put("/proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n");
    fakeverbs_devices(1);
    return 0;
}

static int no_host(void **state)
{
    (void)state;
    fakeverbs_shape(0, NULL);
    fakeverbs_shape(1, NULL);
    fakeverbs_offers(~0u);
    fakeverbs_atomics(IBV_ATOMIC_HCA);
    fakeverbs_fail("", 0, 0);
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void ask(struct told *t)
{
    told_ask(t, FERRY_REPORT_HEALTH, &alone, (const char *const[]){"root", root, NULL});
}

static void ask_with(struct told *t, const char *name, const char *value)
{
    told_ask(t, FERRY_REPORT_HEALTH, &alone, (const char *const[]){"root", root, name, value, NULL});
}

static void test_healthy(void **state)
{
    struct told t;

    (void)state;
    ask(&t);
    told_is(&t, "driver", FERRY_FINDING_OK, "the kernel has 1 RDMA device", "");
    told_is(&t, "ib_uverbs", FERRY_FINDING_OK, "verbs ABI 6", "");
    told_is(&t, "fake0", FERRY_FINDING_OK, "/dev/infiniband/uverbs0 can be opened; driver ABI 1", "");
    told_is(&t, "cgroup", FERRY_FINDING_OK, "no limit", "");
    told_is(&t, "fake0:1", FERRY_FINDING_OK, "active; RoCE v2, 10.0.0.1 (gid index 1)", "");
    told_is(&t, "fake0:1 MTU", FERRY_FINDING_OK, "packets carry 4096 bytes, interface eth7 has an MTU of 4200", "");
    told_is(&t, "fake0 GPU memory", FERRY_FINDING_OK, "registers dmabufs", "");
    for (size_t i = 0; i < t.n; i++)
        if (t.rows[i].level != FERRY_FINDING_OK && strcmp(t.rows[i].object, "locked memory") != 0)
            fail_msg("%s: %s", t.rows[i].object, t.rows[i].text);
}

static void test_no_driver(void **state)
{
    struct told t;

    (void)state;
    fakeverbs_devices(0);
    ask(&t);
    told_is(&t, "fake0", FERRY_FINDING_PROBLEM, "libibverbs does not offer it", "install ibverbs-providers");
    fakeverbs_devices(1);
    assert_int_equal(no_host(NULL), 0);
    strcpy(root, "/tmp/ferry-doctor-XXXXXX");
    assert_non_null(mkdtemp(root));
    ask(&t);
    told_is(&t, "driver", FERRY_FINDING_WARNING, "libibverbs has 1 device", "mount /sys");
    fakeverbs_devices(0);
    ask(&t);
    told_is(&t, "driver", FERRY_FINDING_PROBLEM, "/sys/class/infiniband is not there", "modprobe mlx5_ib");
    assert_false(told_has(&t, "ib_uverbs")); /* one cause, one finding */
    put("/sys/class/infiniband/.keep", "");
    ask(&t);
    told_is(&t, "driver", FERRY_FINDING_PROBLEM, "/sys/class/infiniband is empty", "rdma link add rxe0");
}

static void test_kernel_interface(void **state)
{
    struct told t;

    (void)state;
    put("/sys/class/infiniband_verbs/abi_version", "7\n");
    ask(&t);
    told_is(&t, "ib_uverbs", FERRY_FINDING_PROBLEM, "verbs ABI 7, libibverbs 3 to 6", "rdma-core");
    gone("/sys/class/infiniband_verbs/abi_version");
    ask(&t);
    told_is(&t, "ib_uverbs", FERRY_FINDING_PROBLEM, "no verbs", "modprobe ib_uverbs");
}

/* A pipe below the root is not waited for: the test would run out of time. */
static void test_pipes(void **state)
{
    struct told t;
    char whole[400];

    (void)state;
    gone("/sys/class/infiniband_verbs/abi_version");
    path_of(whole, sizeof whole, "/sys/class/infiniband_verbs/abi_version");
    assert_int_equal(mkfifo(whole, 0644), 0);
    gone("/dev/infiniband/uverbs0");
    path_of(whole, sizeof whole, "/dev/infiniband/uverbs0");
    assert_int_equal(mkfifo(whole, 0644), 0);
    ask(&t);
    told_is(&t, "ib_uverbs", FERRY_FINDING_PROBLEM, "no verbs", "modprobe ib_uverbs");
}

static void test_device_file(void **state)
{
    struct told t;
    char whole[400];

    (void)state;
    gone("/dev/infiniband/uverbs0");
    ask(&t);
    told_is(&t, "fake0", FERRY_FINDING_PROBLEM, "uverbs0 cannot be opened: No such file", "--device=/dev/infiniband");
    path_of(whole, sizeof whole, "/dev/infiniband/uverbs0");
    assert_int_equal(mkdir(whole, 0755), 0); /* what even root cannot open for writing */
    ask(&t);
    told_is(&t, "fake0", FERRY_FINDING_PROBLEM, "uverbs0 cannot be opened: Is a directory", "kernel log");
    assert_int_equal(rmdir(whole), 0);
}

/* Of another user, who may not open it. */
static void test_device_rights(void **state)
{
    struct told t;
    char whole[400];
    uid_t before = geteuid();

    (void)state;
    path_of(whole, sizeof whole, "/dev/infiniband/uverbs0");
    assert_int_equal(chmod(root, 0755), 0);
    assert_int_equal(chmod(whole, 0), 0);
    if (before == 0)
        assert_int_equal(seteuid(65534), 0);
    ask(&t);
    if (before == 0)
        assert_int_equal(seteuid(before), 0);
    told_is(&t, "fake0", FERRY_FINDING_PROBLEM, "uverbs0 cannot be opened: Permission denied", "udev rule");
}

static void test_groups(void **state)
{
    struct told t;

    (void)state;
    put("/sys/fs/cgroup/job/step/rdma.max", "fake0 hca_handle=max hca_object=max\n");
    ask(&t);
    told_is(&t, "cgroup", FERRY_FINDING_OK, "no limit", "");
    put("/sys/fs/cgroup/job/rdma.max", "card1 hca_handle=2 hca_object=100000\ncard2 hca_handle=max hca_object=40\n");
    put("/sys/fs/cgroup/job/step/rdma.max", "card3 hca_handle=0 hca_object=max\n");
    ask(&t);
    told_is(&t, "card1", FERRY_FINDING_OK, "allows enough", "");
    told_is(&t, "card2", FERRY_FINDING_WARNING, "allows 40 queues", "rdma.max");
    told_is(&t, "card3", FERRY_FINDING_PROBLEM, "allows none", "rdma.max");
    assert_false(told_has(&t, "cgroup"));
    put("/proc/self/cgroup", "9:cpu:/other\n5:rdma:/old\n");
    put("/sys/fs/cgroup/rdma/old/rdma.max", "card4 hca_handle=1 hca_object=0\n");
    ask(&t);
    told_is(&t, "card4", FERRY_FINDING_PROBLEM, "allows none", "rdma.max");
}

static void memlock(rlim_t soft, const struct rlimit *before)
{
    struct rlimit now = *before;

    now.rlim_cur = soft;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &now), 0);
}

static void test_locked_memory(void **state)
{
    struct rlimit before;
    struct told t;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    memlock(65536, &before);
    ask(&t);
    told_is(&t, "locked memory", FERRY_FINDING_PROBLEM, "RLIMIT_MEMLOCK is 64 KiB", "ulimit -l unlimited");
    put("/proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\n");
    ask(&t);
    told_is(&t, "locked memory", FERRY_FINDING_OK, "CAP_IPC_LOCK", "");
    put("/proc/self/uid_map", "         0          0 4294967295\n");
    ask(&t);
    told_is(&t, "locked memory", FERRY_FINDING_OK, "CAP_IPC_LOCK", "");
    put("/proc/self/uid_map", "         0       1000          1\n"); /* the capability is that of a user namespace */
    ask(&t);
    told_is(&t, "locked memory", FERRY_FINDING_PROBLEM, "RLIMIT_MEMLOCK is 64 KiB", "ulimit -l unlimited");
    put("/proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n");
    if (before.rlim_max == RLIM_INFINITY || before.rlim_max >= (rlim_t)1 << 30) {
        memlock((rlim_t)1 << 30, &before);
        ask(&t);
        told_is(&t, "locked memory", FERRY_FINDING_WARNING, "1048576 KiB", "ulimit -l unlimited");
    }
    if (before.rlim_max == RLIM_INFINITY) {
        memlock(RLIM_INFINITY, &before);
        ask(&t);
        told_is(&t, "locked memory", FERRY_FINDING_OK, "not limited", "");
    }
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

static void test_ports(void **state)
{
    struct fakeverbs_shape s = {.state = IBV_PORT_DOWN, .phys_state = 3};
    struct told t;

    (void)state;
    fakeverbs_devices(2);
    fakeverbs_shape(1, &s);
    ask(&t);
    told_is(&t, "fake0:1", FERRY_FINDING_OK, "active", "");
    told_is(&t, "fake1:1", FERRY_FINDING_WARNING, "skipped: it is down (port state 1, physical state 3)",
            "ip link set");
    assert_false(told_has(&t, "ports"));
    s = (struct fakeverbs_shape){.state = IBV_PORT_INIT, .phys_state = 5, .link_layer = IBV_LINK_LAYER_INFINIBAND};
    fakeverbs_shape(1, &s);
    ask(&t);
    told_is(&t, "fake1:1", FERRY_FINDING_WARNING, "is down", "start opensm");
    s.phys_state = 2;
    fakeverbs_shape(0, &s);
    ask(&t);
    told_is(&t, "fake0:1", FERRY_FINDING_WARNING, "is down", "cable");
    told_is(&t, "ports", FERRY_FINDING_PROBLEM, "none of 2 can be used", "");
    s = (struct fakeverbs_shape){.other_kind = 1};
    fakeverbs_shape(0, &s);
    fakeverbs_shape(1, NULL);
    ask_with(&t, "devices", "^fake1");
    told_is(&t, "fake0:1", FERRY_FINDING_WARNING, "no InfiniBand or RoCE device", "ibv_devinfo");
    told_is(&t, "fake1:1", FERRY_FINDING_OK, "left out: it is not in FERRY_IBRC_DEVICES", "");
    told_is(&t, "ports", FERRY_FINDING_PROBLEM, "none of 2", "");
    ask_with(&t, "devices", "fake1,fake5");
    told_is(&t, "FERRY_IBRC_DEVICES", FERRY_FINDING_WARNING, "fake5, which is no device here", "correct");
}

static void test_addresses(void **state)
{
    struct fakeverbs_shape s = {.n_gids = 1, .gids = {{.raw = {0xfe, 0x80, [15] = 1}, .type = IBV_GID_TYPE_ROCE_V2}}};
    struct told t;

    (void)state;
    fakeverbs_shape(0, &s);
    ask(&t);
    told_is(&t, "fake0:1", FERRY_FINDING_WARNING, "RoCE v2, fe80::1 (gid index 0): a link-local address", "IP address");
    s.gids[0].type = IBV_GID_TYPE_ROCE_V1;
    s.gids[0].raw[0] = 0x20;
    fakeverbs_shape(0, &s);
    ask(&t);
    told_is(&t, "fake0:1", FERRY_FINDING_WARNING, "version 1 is not routed", "RoCE v2");
    s.gids[0].silent = 1;
    fakeverbs_shape(0, &s);
    ask(&t);
    told_is(&t, "fake0:1", FERRY_FINDING_PROBLEM, "active, but none of the", "FERRY_IBRC_DEVICES");
    assert_false(told_has(&t, "fake0:1 MTU"));
    fakeverbs_shape(0, NULL);
    ask_with(&t, "gid_index", "3");
    told_is(&t, "fake0:1", FERRY_FINDING_PROBLEM, "there is no GID at index 3", "FERRY_IBRC_GID_INDEX");
    ask_with(&t, "pkey_index", "1");
    told_is(&t, "fake0:1", FERRY_FINDING_OK, "active", "");
    assert_int_equal(t.rows[told_find(&t, "fake0:1") + 1].level, FERRY_FINDING_PROBLEM);
    assert_non_null(strstr(t.rows[told_find(&t, "fake0:1") + 1].text, "no partition key at index 1"));
    put("/sys/class/infiniband/fake0/ports/1/pkeys/0", "0x8000\n");
    ask(&t);
    assert_non_null(strstr(t.rows[told_find(&t, "fake0:1") + 1].text, "no partition key at index 0"));
    put("/sys/class/infiniband/fake0/ports/1/pkeys/0", "0xffff\n");
    ask(&t);
    assert_null(strstr(t.rows[told_find(&t, "fake0:1") + 1].text, "partition key"));
    s = (struct fakeverbs_shape){.link_layer = IBV_LINK_LAYER_INFINIBAND, .lid = 9};
    fakeverbs_shape(0, &s);
    ask(&t);
    told_is(&t, "fake0:1", FERRY_FINDING_OK, "active; InfiniBand, lid 9", "");
    s.lid = 0;
    fakeverbs_shape(0, &s);
    ask(&t);
    told_is(&t, "fake0:1", FERRY_FINDING_PROBLEM, "no LID", "opensm");
}

static void test_mtu(void **state)
{
    struct fakeverbs_shape s = {.active_mtu = IBV_MTU_1024, .max_mtu = IBV_MTU_4096};
    struct told t;

    (void)state;
    put("/sys/class/net/eth7/mtu", "1500\n");
    ask(&t); /* the device says 4096 */
    told_is(&t, "fake0:1 MTU", FERRY_FINDING_PROBLEM, "exceed the 1500 of interface eth7",
            "ip link set dev eth7 mtu 4200");
    ask_with(&t, "mtu", "1024");
    told_is(&t, "fake0:1 MTU", FERRY_FINDING_WARNING, "1024 of at most 4096", "mtu 4200");
    fakeverbs_shape(0, &s);
    ask(&t);
    told_is(&t, "fake0:1 MTU", FERRY_FINDING_WARNING,
            "packets carry 1024 of at most 4096 bytes, since interface eth7 has", "4096 bytes need 4200");
    put("/sys/class/net/eth7/mtu", "9000\n");
    ask(&t);
    told_is(&t, "fake0:1 MTU", FERRY_FINDING_OK, "packets carry 1024 bytes, interface eth7 has an MTU of 9000", "");
    gone("/sys/class/net/eth7/mtu");
    ask(&t);
    told_is(&t, "fake0:1 MTU", FERRY_FINDING_OK, "its interface is not known", "");
    s.link_layer = IBV_LINK_LAYER_INFINIBAND;
    s.lid = 1;
    fakeverbs_shape(0, &s);
    ask(&t);
    told_is(&t, "fake0:1 MTU", FERRY_FINDING_WARNING, "1024 of at most 4096", "subnet manager");
    s.active_mtu = IBV_MTU_4096;
    fakeverbs_shape(0, &s);
    ask(&t);
    told_is(&t, "fake0:1 MTU", FERRY_FINDING_OK, "packets carry 4096", "");
}

static void test_atomics_and_gpu(void **state)
{
    struct told t;
    size_t i;

    (void)state;
    fakeverbs_atomics(IBV_ATOMIC_NONE);
    fakeverbs_offers(0);
    ask(&t);
    told_is(&t, "fake0 GPU memory", FERRY_FINDING_OK, "no GPU's driver is here either", "");
    put("/proc/driver/nvidia/version", "NVRM version: x\n");
    ask(&t);
    told_is(&t, "fake0 GPU memory", FERRY_FINDING_WARNING, "neither dmabufs nor a peer memory module",
            "nvidia_peermem");
    for (i = told_find(&t, "fake0:1"); i < t.n && strcmp(t.rows[i].object, "fake0") != 0; i++) {
    }
    assert_true(i < t.n);
    assert_int_equal(t.rows[i].level, FERRY_FINDING_WARNING);
    assert_non_null(strstr(t.rows[i].text, "the device has no atomics"));
    put("/sys/module/nvidia_peermem/refcnt", "0\n");
    ask(&t);
    told_is(&t, "fake0 GPU memory", FERRY_FINDING_OK, "nvidia_peermem is loaded", "");
    fakeverbs_offers(FAKEVERBS_DMABUF);
    ask(&t);
    told_is(&t, "fake0 GPU memory", FERRY_FINDING_OK, "registers dmabufs; also by peer memory, nvidia_peermem", "");
}

/* What fails on the way is a finding, and nothing is left open. */
static void test_failing_calls(void **state)
{
    static const struct {
        const char *call;
        int nth;
        const char *says;
    } calls[] = {{"open_device", 1, "may not be opened"},
                 {"open_device", 2, "active, but the device cannot be opened"},
                 {"query_port", 2, "active, but the port cannot be queried"},
                 {"alloc_pd", 1, "active, but the device cannot be opened"}};
    struct told t;

    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        fakeverbs_fail(calls[i].call, calls[i].nth, EACCES);
        ask(&t);
        if (!strstr(t.rows[told_find(&t, "fake0:1")].text, calls[i].says))
            fail_msg("%s %d: %s", calls[i].call, calls[i].nth, t.rows[told_find(&t, "fake0:1")].text);
        assert_int_not_equal(t.rows[told_find(&t, "fake0:1")].level, FERRY_FINDING_OK);
    }
}

/* What cannot be opened has not to do with addresses. */
static void test_no_descriptors(void **state)
{
    struct told t;

    (void)state;
    fakeverbs_fail("open_device", 2, EMFILE);
    ask(&t);
    told_is(&t, "fake0:1", FERRY_FINDING_PROBLEM, "active, but the device cannot be opened: Too many open files",
            "ulimit -n");
}

static void test_root_that_is_not_there(void **state)
{
    struct told t;

    (void)state;
    told_ask(&t, FERRY_REPORT_HEALTH, &alone, (const char *const[]){"root", "/tmp/ferry-no-such", NULL});
    told_is(&t, "FERRY_IBRC_ROOT", FERRY_FINDING_PROBLEM, "/tmp/ferry-no-such/sys cannot be opened: No such file",
            "unset it");
}

static void test_bad_options(void **state)
{
    struct told t;

    (void)state;
    ask_with(&t, "timeout", "40");
    assert_int_equal(t.n, 1);
    told_is(&t, "options", FERRY_FINDING_PROBLEM, "FERRY_IBRC_TIMEOUT=40 is not between", "docs/configuration.md");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, healthy_host, no_host)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_healthy),          TEST(test_no_driver),
        TEST(test_kernel_interface), TEST(test_device_file),
        TEST(test_device_rights),    TEST(test_groups),
        TEST(test_locked_memory),    TEST(test_ports),
        TEST(test_addresses),        TEST(test_mtu),
        TEST(test_atomics_and_gpu),  TEST(test_failing_calls),
        TEST(test_no_descriptors),   TEST(test_root_that_is_not_there),
        TEST(test_bad_options),      TEST(test_pipes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
