/* SPDX-License-Identifier: Apache-2.0
 * Strangers on the control port of a running job, and damaged frames of all kinds: the job goes on, or at least nothing
 * crashes and nothing is believed that does not fit. Random numbers are seeded: a failure repeats. */
#include "kit.h"
#include <sys/socket.h>
#include <unistd.h>

enum { SILENT = 300, ROUNDS = 400 };

static void steps(struct kit_pe *pe, int count)
{
    for (int i = 0; i < count; i++) {
        uint64_t mine = pe->rank + 10u * (unsigned)i, all[KIT_PES];
        int rc = fy_boot_allgather(pe->boot, &mine, all, sizeof(mine), "beside strangers", 30, &pe->error);
        kit_expect(pe, rc == FERRY_OK, "step %d: %s", i, pe->error.message);
        for (uint32_t other = 0; rc == FERRY_OK && other < pe->n; other++)
            kit_expect(pe, all[other] == other + 10u * (unsigned)i, "step %d: PE %u", i, other);
    }
}

/* Everybody steps on until PE 0, who plays the stranger too, is done. */
static void with_stranger(struct kit_pe *pe, void (*stranger)(struct kit_pe *pe, const struct fy_addr *addr))
{
    for (uint32_t target = 0; target < pe->n; target++) {
        if (pe->rank == 0)
            stranger(pe, &pe->boot->table[target]);
        steps(pe, 5);
    }
    kit_expect(pe, pe->deaths == 0, "%u deaths", pe->deaths);
}

static void be_silent(struct kit_pe *pe, const struct fy_addr *addr)
{
    static int fds[SILENT]; /* PE 0's alone */
    for (int i = 0; i < SILENT; i++)
        fds[i] = kit_socket(addr);
    steps(pe, 5); /* the next call of steps would be too early: all of these are open now */
    for (int i = 0; i < SILENT; i++)
        close(fds[i]);
}

static void body_silent(struct kit_pe *pe)
{
    for (uint32_t target = 0; target < pe->n; target++) {
        if (pe->rank == 0)
            be_silent(pe, &pe->boot->table[target]);
        else
            steps(pe, 5);
        uint32_t echo = 0;
        size_t size;
        int rc = fy_boot_call(pe->boot, target, 1, &target, sizeof(target), &echo, sizeof(echo), &size, 30, &pe->error);
        kit_expect(pe, rc == FERRY_OK && echo == target, "call to PE %u: %s", target, pe->error.message);
    }
    kit_expect(pe, pe->deaths == 0, "%u deaths", pe->deaths);
}

static int serve(void *arg, uint32_t from, uint32_t type, const void *request, size_t size, void *reply,
                 size_t capacity, size_t *reply_size)
{
    (void)arg, (void)from, (void)type, (void)capacity;
    memcpy(reply, request, size);
    *reply_size = size;
    return FERRY_OK;
}

static void test_silent(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(4, body_silent, true);
    job->serve = serve;
    kit_run(job);
    kit_free(job);
}

static void wrong_secret(struct kit_pe *pe, const struct fy_addr *addr)
{
    uint8_t secret[FERRY_SECRET_BYTES];
    uint64_t job;
    fy_boot_secret(pe->boot, secret, &job);
    secret[31] ^= 0x80;
    for (uint32_t purpose = FY_PURPOSE_TREE; purpose <= FY_PURPOSE_CALL; purpose++) {
        for (uint32_t server = 0; server < pe->n; server++) {
            struct kit_client client;
            kit_client_open(&client, addr, server, secret, purpose, pe->n - 1, pe->n);
            kit_expect(pe, kit_client_run(&client, 10, false) && !client.ready, "a wrong secret was welcome");
            kit_client_close(&client);
        }
    }
}

static void body_wrong_secret(struct kit_pe *pe)
{
    with_stranger(pe, wrong_secret);
}

static void test_wrong_secret(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(3, body_wrong_secret, true);
    kit_run(job);
    kit_free(job);
}

/* --- before anything is proven */

struct hello_frame {
    struct fy_frame frame;
    struct fy_hello hello;
    uint8_t more[200];
};

/* Random bytes; or good frames with some bits turned, cut or prolonged. */
static size_t make_garbage(uint64_t *seed, uint8_t *out, size_t room)
{
    struct hello_frame hello = {{FY_WIRE_MAGIC, (uint16_t)(1 + kit_random(seed) % 20), 0, sizeof(struct fy_hello), 0},
                                {.protocol = FY_WIRE_PROTOCOL},
                                {0}};
    size_t size = sizeof(hello.frame) + sizeof(hello.hello) + kit_random(seed) % sizeof(hello.more);
    if (kit_random(seed) % 3 == 0) {
        for (size_t i = 0; i < room; i++)
            out[i] = (uint8_t)kit_random(seed);
        return kit_random(seed) % room;
    }
    if (kit_random(seed) % 2)
        hello.frame.type = FY_FRAME_HELLO;
    if (kit_random(seed) % 4 == 0)
        hello.frame.size = (uint32_t)kit_random(seed);
    memcpy(out, &hello, size);
    for (uint64_t turns = kit_random(seed) % 4; turns > 0; turns--)
        out[kit_random(seed) % size] ^= (uint8_t)(1u << (kit_random(seed) % 8));
    return kit_random(seed) % 5 ? size : kit_random(seed) % size;
}

static void send_garbage(struct kit_pe *pe, const struct fy_addr *addr)
{
    uint64_t seed = 0x5eed + addr->port;
    uint8_t bytes[2048], answer[512];
    for (int i = 0; i < ROUNDS; i++) {
        int fd = kit_socket(addr);
        if (!kit_expect(pe, fd >= 0, "nobody listens any more"))
            return;
        size_t size = make_garbage(&seed, bytes, sizeof(bytes));
        if (send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size && kit_random(&seed) % 2) {
            while (recv(fd, answer, sizeof(answer), MSG_DONTWAIT) > 0)
                ;
        }
        close(fd);
    }
}

static void body_garbage(struct kit_pe *pe)
{
    with_stranger(pe, send_garbage);
}

static void test_garbage(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(3, body_garbage, true);
    kit_run(job);
    kit_free(job);
}

/* A frame that claims a gigabyte is refused by its head, before anything is proven. */
static void huge_claim(struct kit_pe *pe, const struct fy_addr *addr)
{
    struct fy_frame frame = {.magic = FY_WIRE_MAGIC, .type = FY_FRAME_HELLO, .size = FY_WIRE_BIG};
    char byte;
    int fd = kit_socket(addr);
    kit_expect(pe, send(fd, &frame, sizeof(frame), MSG_NOSIGNAL) == sizeof(frame), "send");
    kit_expect(pe, recv(fd, &byte, 1, 0) <= 0, "an answer");
    close(fd);
}

static void body_huge(struct kit_pe *pe)
{
    with_stranger(pe, huge_claim);
}

static void test_huge(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(2, body_huge, true);
    kit_run(job);
    kit_free(job);
}

/* --- after the proof: one that knows the secret and sends nonsense, as a PE with a defect would */

static size_t make_nonsense(uint64_t *seed, uint8_t *out, size_t room)
{
    size_t sizes[] = {sizeof(struct fy_up),
                      sizeof(struct fy_fail),
                      sizeof(struct fy_query),
                      sizeof(struct fy_here),
                      sizeof(struct fy_news),
                      sizeof(struct fy_message),
                      0,
                      kit_random(seed) % 900};
    size_t size = sizes[kit_random(seed) % 8] + (kit_random(seed) % 4 == 0 ? kit_random(seed) % 64 : 0);
    struct fy_frame frame = {FY_WIRE_MAGIC, (uint16_t)(6 + kit_random(seed) % 15), 0, (uint32_t)size, 0};
    memcpy(out, &frame, sizeof(frame));
    for (size_t i = 0; i < size && i + sizeof(frame) < room; i++)
        out[sizeof(frame) + i] = (uint8_t)(kit_random(seed) % 3 ? kit_random(seed) % 3 : kit_random(seed));
    return sizeof(frame) + size;
}

/* PE 0 of three, without a meeting; the two others are played by the test. */
static struct fy_boot *lonely(struct kit_job *job, int *deaf)
{
    struct fy_boot_config config = kit_config(&job->pes[0]);
    struct ferry_error error = {.size = sizeof(error)};
    struct fy_boot *boot;
    config.n_pes = 1; /* starts alone, and is then told that it is one of three */
    assert_int_equal(fy_boot_start(&config, &boot, &error), FERRY_OK);
    boot->n = boot->self.size = 3;
    boot->table = realloc(boot->table, 3 * sizeof(*boot->table));
    boot->state = realloc(boot->state, 3);
    memset(boot->state, 0, 3);
    boot->timeout = 0.05;
    assert_int_equal(fy_net_listen(0x0100007f, &boot->table[0], &boot->hub.listener, &error), FERRY_OK);
    boot->table[1] = boot->table[0]; /* who looks for the others finds a stranger; */
    if (deaf)                        /* or gets no answer, and no verdict for long */
        assert_int_equal(fy_net_listen(0x0100007f, &boot->table[1], deaf, &error), FERRY_OK);
    boot->table[2] = boot->table[1];
    assert_int_equal(fy_loop_start(boot, &error), FERRY_OK);
    return boot;
}

static void test_nonsense(void **state)
{
    (void)state;
    uint64_t seed = 0xf00d;
    for (int round = 0; round < 100; round++) {
        struct kit_job *job = kit_new(3, NULL, true);
        struct fy_boot *boot = lonely(job, NULL);
        struct ferry_error error = {.size = sizeof(error)};
        struct kit_client client;
        uint32_t purpose = FY_PURPOSE_TREE + (uint32_t)(kit_random(&seed) % 3), rank = 1 + (uint32_t)(round % 2);
        kit_client_open(&client, &boot->table[0], 0, boot->secret, purpose, rank, 3);
        assert_true(kit_client_run(&client, 10, false));
        for (int i = 0; i < 20 && client.ready; i++) {
            uint8_t bytes[2048];
            size_t size = make_nonsense(&seed, bytes, sizeof(bytes));
            if (send(client.conn->fd, bytes, size, MSG_NOSIGNAL) < 0)
                break;
        }
        fy_boot_barrier(boot, "with nonsense", 0.05, &error); /* any end is right, but it ends */
        assert_true(error.status < 0);
        kit_client_close(&client);
        fy_boot_close(boot);
        kit_free(job);
    }
}

/* The right step of the right PE, but not the bytes that it claims: nothing of it is taken. */
static void claim(uint32_t count, uint64_t length, size_t bytes)
{
    struct kit_job *job = kit_new(3, NULL, true);
    int deaf;
    struct fy_boot *boot = lonely(job, &deaf);
    struct ferry_error error = {.size = sizeof(error)};
    struct fy_up up = {.seq = 1, .count = count, .length = length, .step = "claims"};
    static uint8_t all[3 * 4096], data[4096];
    struct iovec parts[2] = {{&up, sizeof(up)}, {data, bytes}};
    struct kit_client client;
    kit_client_open(&client, &boot->table[0], 0, boot->secret, FY_PURPOSE_TREE, 1, 3);
    assert_true(kit_client_run(&client, 10, false));
    assert_true(client.ready);
    fy_conn_send(client.conn, FY_FRAME_UP, 1, parts, 2);
    assert_int_equal(fy_boot_allgather(boot, data, all, 4096, "claims", 20, &error), FERRY_ERR_PEER);
    assert_non_null(strstr(error.message, "makes no sense"));
    assert_int_equal(error.peer, 1);
    kit_client_close(&client);
    fy_boot_close(boot);
    close(deaf);
    kit_free(job);
}

static void test_claims(void **state)
{
    (void)state;
    claim(1, 4096, 4095);
    claim(1, 4096, 0);
    claim(2, 4096, 4096);
    claim(1, UINT64_MAX, 4096);
    claim(0, 4096, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent), cmocka_unit_test(test_wrong_secret), cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_huge),   cmocka_unit_test(test_nonsense),     cmocka_unit_test(test_claims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
