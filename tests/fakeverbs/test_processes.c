/* SPDX-License-Identifier: Apache-2.0
 * The stand-in between two processes, by verbs alone: memory that the other maps, and memory that it does not.
 * Main thread of a parent and of a child. */
#include "fakeverbs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LENGTH = 65536, ADDS = 2000, ROUNDS = 20000 };

/* What one end tells the other. */
struct card {
    uint32_t qpn, rkey;
    uint64_t address;
};

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char *memory;
    struct card other;
    int in, out; /* pipes */
};

static int step(struct end *e, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state,
                               .port_num = 1,
                               .dest_qp_num = e->other.qpn,
                               .path_mtu = IBV_MTU_4096,
                               .qp_access_flags =
                                   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
    int mask = state == IBV_QPS_INIT  ? IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS
               : state == IBV_QPS_RTR ? IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
                                      : IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

    return ibv_modify_qp(e->qp, &attr, mask);
}

static void *make_memory(int file)
{
    int fd = file ? memfd_create("test", MFD_CLOEXEC) : -1;
    void *at;

    if (file && (fd < 0 || ftruncate(fd, LENGTH) != 0))
        return MAP_FAILED;
    at = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    return at;
}

/* 0, or the line that failed. */
static int open_end(struct end *e, int file)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 16, .max_send_sge = 1}};
    unsigned access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    struct card own;
    char ready;

    e->context = list && list[0] ? ibv_open_device(list[0]) : NULL;
    ibv_free_device_list(list);
    e->pd = e->context ? ibv_alloc_pd(e->context) : NULL;
    e->memory = make_memory(file);
    if (!e->pd || e->memory == MAP_FAILED)
        return __LINE__;
    e->cq = ibv_create_cq(e->context, 64, NULL, NULL, 0);
    attr.send_cq = attr.recv_cq = e->cq;
    e->qp = ibv_create_qp(e->pd, &attr);
    e->mr = ibv_reg_mr(e->pd, e->memory, LENGTH, (int)access);
    if (!e->qp || !e->mr)
        return __LINE__;
    own = (struct card){e->qp->qp_num, e->mr->rkey, (uintptr_t)e->memory};
    if (write(e->out, &own, sizeof own) != sizeof own || read(e->in, &e->other, sizeof e->other) <= 0)
        return __LINE__;
    if (step(e, IBV_QPS_INIT) || step(e, IBV_QPS_RTR) || step(e, IBV_QPS_RTS))
        return __LINE__;
    /* what is sent before the other end is ready would not arrive */
    return write(e->out, "r", 1) != 1 || read(e->in, &ready, 1) != 1 ? __LINE__ : 0;
}

static void close_end(struct end *e)
{
    ibv_destroy_qp(e->qp);
    ibv_dereg_mr(e->mr);
    ibv_destroy_cq(e->cq);
    ibv_dealloc_pd(e->pd);
    ibv_close_device(e->context);
    munmap(e->memory, LENGTH);
    close(e->in);
    close(e->out);
}

/* One request and its completion. `from`, `to`: offsets in the own memory and in the other's. */
static enum ibv_wc_status request(struct end *e, enum ibv_wr_opcode opcode, size_t from, size_t to, uint32_t length,
                                  uint64_t first, uint64_t swap)
{
    struct ibv_sge sge = {.addr = (uintptr_t)e->memory + from, .length = length, .lkey = e->mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_wc wc;

    if (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_READ) {
        wr.wr.rdma.remote_addr = e->other.address + to;
        wr.wr.rdma.rkey = e->other.rkey;
    } else {
        wr.wr.atomic.remote_addr = e->other.address + to;
        wr.wr.atomic.rkey = e->other.rkey;
        wr.wr.atomic.compare_add = first;
        wr.wr.atomic.swap = swap;
    }
    if (ibv_post_send(e->qp, &wr, &bad) != 0 || ibv_poll_cq(e->cq, 1, &wc) != 1)
        return IBV_WC_GENERAL_ERR;
    return wc.status;
}

static uint64_t *word(struct end *e, size_t at)
{
    return (uint64_t *)(void *)(e->memory + at);
}

/* Adds to a word of the parent, and looks for torn words in its own memory until the last one that the parent writes.
 * Its exit status is the line or number of what failed. */
static int child(struct end *e, int file)
{
    int line;

    alarm(30); /* should the parent fail */
    line = open_end(e, file);
    if (line)
        return line & 0xff;
    for (int i = 0; i < ADDS; i++)
        if (request(e, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, 8, 1, 0) != IBV_WC_SUCCESS)
            return 101;
    for (;;) {
        uint64_t seen = __atomic_load_n(word(e, 64), __ATOMIC_ACQUIRE);
        if (seen == 42)
            break;
        if ((uint32_t)seen != (uint32_t)(seen >> 32))
            return 102;
    }
    for (int i = 0; i < 1000; i++) /* what was written before is there */
        if (e->memory[4096 + i] != (char)(i * 7))
            return 103;
    if (write(e->out, "x", 1) != 1)
        return 104;
    char c;
    if (read(e->in, &c, 1) == 1 && c == 'k') /* the other end of the pipe closes, or this is killed */
        raise(SIGKILL);
    close_end(e);
    return fakeverbs_live() == 0 ? 0 : 105;
}

static pid_t start(struct end *e, int file)
{
    int down[2], up[2];
    pid_t pid;

    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    pid = fork();
    assert_true(pid >= 0);
    e->in = pid ? up[0] : down[0];
    e->out = pid ? down[1] : up[1];
    close(pid ? down[0] : down[1]);
    close(pid ? up[1] : up[0]);
    if (!pid)
        _exit(child(e, file));
    assert_int_equal(open_end(e, file), 0);
    return pid;
}

static void work(struct end *e)
{
    char c;

    for (uint32_t i = 0; i < ROUNDS; i++) { /* both halves of the word are alike */
        *word(e, 16) = (uint64_t)(i * 2654435761u) << 32 | i * 2654435761u;
        if (*word(e, 16) == 42)
            continue;
        assert_int_equal(request(e, IBV_WR_RDMA_WRITE, 16, 64, 8, 0, 0), IBV_WC_SUCCESS);
    }
    for (int i = 0; i < 1000; i++)
        e->memory[8192 + i] = (char)(i * 7);
    assert_int_equal(request(e, IBV_WR_RDMA_WRITE, 8192, 4096, 1000, 0, 0), IBV_WC_SUCCESS);
    *word(e, 16) = 42;
    assert_int_equal(request(e, IBV_WR_RDMA_WRITE, 16, 64, 8, 0, 0), IBV_WC_SUCCESS);
    assert_int_equal(read(e->in, &c, 1), 1);
    assert_int_equal(__atomic_load_n(word(e, 0), __ATOMIC_ACQUIRE), ADDS);
    assert_int_equal(request(e, IBV_WR_RDMA_READ, 20000, 4096, 1000, 0, 0), IBV_WC_SUCCESS);
    assert_memory_equal(e->memory + 20000, e->memory + 8192, 1000);
    assert_int_equal(request(e, IBV_WR_ATOMIC_CMP_AND_SWP, 24, 64, 8, 42, 43), IBV_WC_SUCCESS);
    assert_int_equal(*word(e, 24), 42);
    assert_int_equal(request(e, IBV_WR_ATOMIC_CMP_AND_SWP, 24, 64, 8, 42, 44), IBV_WC_SUCCESS);
    assert_int_equal(*word(e, 24), 43);
}

static void test_both_kinds(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        struct end e = {0};
        int status;
        pid_t pid = start(&e, file);
        work(&e);
        assert_int_equal(request(&e, IBV_WR_RDMA_WRITE, 16, LENGTH - 4, 8, 0, 0), IBV_WC_REM_ACCESS_ERR);
        close_end(&e);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(fakeverbs_live(), 0);
        assert_int_not_equal(access(getenv("FAKEVERBS_SHARED"), F_OK), 0); /* the last removed it */
    }
}

/* As soon as it is gone, and before anybody waited for it. */
static void test_killed(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        struct end e = {0};
        siginfo_t info;
        int status;
        pid_t pid = start(&e, file);
        work(&e);
        assert_int_equal(write(e.out, "k", 1), 1);
        assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
        assert_int_equal(request(&e, IBV_WR_RDMA_WRITE, 16, 64, 8, 0, 0), IBV_WC_RETRY_EXC_ERR);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        close_end(&e);
        assert_int_equal(fakeverbs_live(), 0);
        assert_int_not_equal(access(getenv("FAKEVERBS_SHARED"), F_OK), 0);
    }
}

/* Killed while it had the file: the next ones find it as it should be. */
static void test_left_behind(void **state)
{
    struct end e = {0};
    pid_t pid;
    int status;

    (void)state;
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        struct ibv_device **list = ibv_get_device_list(NULL);
        struct ibv_context *context = ibv_open_device(list[0]);
        if (context && ibv_alloc_pd(context))
            raise(SIGKILL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(access(getenv("FAKEVERBS_SHARED"), F_OK), 0);
    pid = start(&e, 1);
    work(&e);
    close_end(&e);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_not_equal(access(getenv("FAKEVERBS_SHARED"), F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_kinds),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_left_behind),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
