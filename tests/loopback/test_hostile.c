/* SPDX-License-Identifier: Apache-2.0
 * What the loopback plugin does with strangers on its socket, and with false servers behind its peers' names.
 * Main thread; imports use foreign(), so that one process plays both ends of the socket. */
#include "harness.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct pe_options plain;

/* ---- strangers */

static void token_of(const struct blob *endpoint, uint8_t token[FY_LB_TOKEN_BYTES])
{
    struct fy_lb_endpoint e;

    memcpy(&e, endpoint->bytes, sizeof e);
    memcpy(token, e.token, sizeof e.token);
}

static int stranger_connect(const struct blob *endpoint)
{
    uint8_t token[FY_LB_TOKEN_BYTES];
    struct sockaddr_un name;
    socklen_t length;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    token_of(endpoint, token);
    fy_lb_socket_name(token, &name, &length);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, length), 0);
    return fd;
}

/* Waits for the peer to close; data that comes first is thrown away, descriptors must not come. */
static int closed_within(int fd, double limit)
{
    double end = seconds() + limit;
    char bytes[1024];

    while (seconds() < end) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        ssize_t n = poll(&p, 1, 100) > 0 ? recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) : 1;

        if (n == 0 || (n < 0 && errno != EAGAIN))
            return 1;
    }
    return 0;
}

static struct fy_lb_challenge challenge_of(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct fy_lb_challenge c;

    assert_int_equal(poll(&p, 1, (int)(PATIENCE * 1000)), 1);
    assert_int_equal(recv(fd, &c, sizeof c, 0), sizeof c);
    return c;
}

static struct fy_lb_request request_for(const struct pe *server, const struct fy_lb_challenge *challenge,
                                        const uint8_t *secret)
{
    struct fy_lb_request r;
    struct fy_lb_key key;

    memset(&r, 0, sizeof r);
    memcpy(&key, server->key.bytes, sizeof key);
    memcpy(r.server_nonce, challenge->nonce, sizeof r.server_nonce);
    memcpy(r.server_token, key.token, sizeof r.server_token);
    r.region = key.region;
    fy_lb_seal(secret, FY_LB_REQUEST, 1, &r, sizeof r);
    return r;
}

/* The service works for those who belong to the job. */
static void expect_service(struct pe *client, struct pe *server)
{
    struct blob key = foreign(&server->key);
    struct ferry_rkey *rkey = pe_must_import(client, server->me, &key);
    void *map = NULL;

    assert_int_equal(ops()->map_key(client->t, rkey, &map), FERRY_OK);
    assert_ptr_not_equal(map, server->memory);
    put(client, rkey, 64, "served", 7, 0);
    assert_string_equal(server->memory + 64, "served");
    memset(server->memory + 64, 0, 7);
    assert_int_equal(ops()->release_key(client->t, rkey), FERRY_OK);
}

static struct pe client, server;

static int open_pair(void **state)
{
    (void)state;
    pe_open(&client, 0, &plain);
    pe_open(&server, 1, &plain);
    return 0;
}

static int close_pair(void **state)
{
    (void)state;
    pe_close(&client);
    pe_close(&server);
    return 0;
}

static void test_garbage(void **state)
{
    static const size_t sizes[] = {1,
                                   15,
                                   16,
                                   100,
                                   sizeof(struct fy_lb_request) - 1,
                                   sizeof(struct fy_lb_request),
                                   sizeof(struct fy_lb_request) + 1,
                                   60000};
    static uint8_t bytes[60000];
    unsigned dropped = __atomic_load_n(&server.stub.dropped, __ATOMIC_RELAXED);

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int fd = stranger_connect(&server.endpoint);

        fill(bytes, sizeof bytes, i);
        assert_int_equal(send(fd, bytes, sizes[i], MSG_NOSIGNAL), sizes[i]);
        assert_true(closed_within(fd, 1.9)); /* at once, not when its time is over */
        close(fd);
        expect_service(&client, &server);
    }
    assert_int_equal(__atomic_load_n(&server.stub.dropped, __ATOMIC_RELAXED), dropped + sizeof sizes / sizeof *sizes);
}

static void expect_refused(int fd, const struct fy_lb_request *request)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    char bytes[512];
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct pollfd p = {.fd = fd, .events = POLLIN};

    assert_int_equal(send(fd, request, sizeof *request, MSG_NOSIGNAL), sizeof *request);
    assert_int_equal(poll(&p, 1, (int)(PATIENCE * 1000)), 1);
    assert_true(recvmsg(fd, &message, MSG_CMSG_CLOEXEC) <= 0); /* closed without a word */
    close(fd);
    expect_service(&client, &server);
}

static void test_wrong_proofs(void **state)
{
    uint8_t other[FERRY_SECRET_BYTES];
    struct fy_lb_challenge challenge, earlier;
    struct fy_lb_request request;
    int fd, fd2;

    (void)state;
    memcpy(other, test_secret, sizeof other);
    other[31] ^= 1;
    fd = stranger_connect(&server.endpoint);
    earlier = challenge = challenge_of(fd);
    request = request_for(&server, &challenge, other);
    expect_refused(fd, &request); /* another secret */

    fd = stranger_connect(&server.endpoint);
    challenge = challenge_of(fd);
    assert_memory_not_equal(challenge.nonce, earlier.nonce, sizeof earlier.nonce);
    request = request_for(&server, &earlier, test_secret);
    expect_refused(fd, &request); /* the right secret, recorded on another connection */

    fd = stranger_connect(&server.endpoint);
    challenge = challenge_of(fd);
    request = request_for(&client, &challenge, test_secret);
    expect_refused(fd, &request); /* meant for another instance */

    fd = stranger_connect(&server.endpoint);
    challenge = challenge_of(fd);
    request = request_for(&server, &challenge, test_secret);
    request.region++;
    expect_refused(fd, &request); /* changed on the way */

    fd2 = stranger_connect(&server.endpoint); /* and the proof that all this is refused for its contents */
    challenge = challenge_of(fd2);
    request = request_for(&server, &challenge, test_secret);
    assert_int_equal(send(fd2, &request, sizeof request, MSG_NOSIGNAL), sizeof request);
    assert_int_equal(recv(fd2, &(struct fy_lb_reply){0}, sizeof(struct fy_lb_reply), 0), sizeof(struct fy_lb_reply));
    close(fd2);
}

/* More silent strangers than there are slots: they are dropped in time, and whoever waits behind them is served. */
static void test_silence(void **state)
{
    enum { N = 150 };
    int fds[N];

    (void)state;
    for (int i = 0; i < N; i++)
        fds[i] = stranger_connect(&server.endpoint);
    expect_service(&client, &server);
    for (int i = 0; i < N; i++) {
        assert_true(closed_within(fds[i], PATIENCE));
        close(fds[i]);
    }
    assert_in_range(__atomic_load_n(&server.stub.served, __ATOMIC_RELAXED), 1, 1000); /* waiting is not spinning */
    expect_service(&client, &server);
}

static void test_gone_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++)
        close(stranger_connect(&server.endpoint));
    expect_service(&client, &server);
}

static int run_other_user(int socket)
{
    struct blob endpoint;
    char c;
    int fd;

    if (!receive_bytes(socket, &endpoint, sizeof endpoint))
        return 1;
    if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
        return send_bytes(socket, "x", 1) ? 0 : 1;
    fd = stranger_connect(&endpoint);
    if (recv(fd, &c, 1, 0) > 0) /* not even a challenge */
        return 2;
    return send_bytes(socket, "k", 1) ? 0 : 1;
}

static void test_other_user(void **state)
{
    struct child child = child_start("other_user");
    char answer = 0;

    (void)state;
    assert_true(send_bytes(child.socket, &server.endpoint, sizeof server.endpoint));
    assert_true(receive_bytes(child.socket, &answer, 1));
    child_finish(&child);
    if (answer == 'x') {
        print_message("not run: this needs root\n");
        skip();
    }
    expect_service(&client, &server);
}

/* ---- false servers */

struct false_server {
    int fd;
    struct blob key;
    struct fy_lb_key open;
};

static void false_open(struct false_server *f)
{
    struct sockaddr_un name;
    socklen_t length;

    memcpy(&f->open, server.key.bytes, sizeof f->open);
    f->open.process.pid++;
    fill(f->open.token, sizeof f->open.token, (uint64_t)getpid());
    fy_lb_seal(test_secret, FY_LB_KEY, 1, &f->open, sizeof f->open);
    f->key.size = sizeof f->open;
    memcpy(f->key.bytes, &f->open, sizeof f->open);
    fy_lb_socket_name(f->open.token, &name, &length);
    f->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->fd, (struct sockaddr *)&name, length), 0);
    assert_int_equal(listen(f->fd, 8), 0);
}

static int false_import(struct false_server *f)
{
    struct ferry_rkey *key = NULL;

    return ops()->import_key(client.t, 1, f->key.bytes, f->key.size, &key);
}

/* Answers one request with `reply`, sealed by `secret`, and with a descriptor if fd is one. */
static void false_answer(struct false_server *f, struct fy_lb_reply *reply, const uint8_t *secret, int fd)
{
    struct fy_lb_challenge challenge = {
        .head = {.magic = FY_LB_MAGIC, .format = FY_LB_FORMAT, .kind = FY_LB_CHALLENGE}};
    struct fy_lb_request request;
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.space = {0}};
    struct iovec part = {.iov_base = reply, .iov_len = sizeof *reply};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    int c;

    assert_int_equal(false_import(f), FERRY_AGAIN);
    c = accept(f->fd, NULL, NULL);
    assert_true(c >= 0);
    assert_int_equal(send(c, &challenge, sizeof challenge, 0), sizeof challenge);
    assert_int_equal(false_import(f), FERRY_AGAIN);
    assert_int_equal(recv(c, &request, sizeof request, 0), sizeof request);
    memcpy(reply->nonce, request.nonce, sizeof reply->nonce);
    reply->region += request.region;
    fy_lb_seal(secret, FY_LB_REPLY, 1, reply, sizeof *reply);
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    }
    assert_int_equal(sendmsg(c, &message, 0), sizeof *reply);
    close(c);
}

static void test_false_answers(void **state)
{
    static const struct {
        uint64_t region, offset, length; /* region, length: added to the right value */
        int with_file, right_secret;
    } cases[] = {
        {0, 0, 0, 1, 0},                /* nobody of the job */
        {1, 0, 0, 1, 1},                /* another region */
        {0, 0, 4096, 1, 1},             /* another length */
        {0, 0, 0, 0, 1},                /* no descriptor */
        {0, 4096, 0, 1, 1},             /* past the end of the file */
        {0, UINT64_MAX - 4095, 0, 1, 1} /* wraps around */
    };
    struct false_server f;
    unsigned fds;

    (void)state;
    false_open(&f);
    fds = count_fds();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fy_lb_reply reply = {
            .region = cases[i].region, .offset = cases[i].offset, .length = server.length + cases[i].length};
        uint8_t wrong[FERRY_SECRET_BYTES] = {1};

        false_answer(&f, &reply, cases[i].right_secret ? test_secret : wrong, cases[i].with_file ? server.fd : -1);
        assert_int_equal(false_import(&f), FERRY_ERR_ACCESS);
        assert_int_equal(count_fds(), fds);
    }
    close(f.fd);
}

static void test_no_server_at_all(void **state)
{
    struct false_server f;
    unsigned fds;

    (void)state;
    false_open(&f);
    fds = count_fds();
    assert_int_equal(false_import(&f), FERRY_AGAIN); /* somebody listens, and speaks another language */
    for (int c = accept(f.fd, NULL, NULL); c >= 0; c = -1) {
        assert_int_equal(send(c, "220 welcome", 11, 0), 11);
        assert_int_equal(false_import(&f), FERRY_ERR_ACCESS);
        close(c);
    }
    for (int i = 0; i < 2; i++) { /* hangs up */
        assert_int_equal(false_import(&f), FERRY_AGAIN);
        close(accept(f.fd, NULL, NULL));
        assert_int_equal(false_import(&f), FERRY_AGAIN);
    }
    assert_int_equal(false_import(&f), FERRY_AGAIN);
    close(accept(f.fd, NULL, NULL));
    assert_int_equal(false_import(&f), FERRY_ERR_PEER);
    assert_non_null(strstr(pe_error(&client, 1).message, "closed the connection"));
    close(f.fd);
    assert_int_equal(false_import(&f), FERRY_ERR_PEER);
    assert_int_equal(count_fds(), fds - 1);
}

int main(int argc, char **argv)
{
    static const struct role roles[] = {{"other_user", run_other_user}};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_garbage, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(test_wrong_proofs, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(test_silence, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(test_gone_at_once, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(test_other_user, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(test_false_answers, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(test_no_server_at_all, open_pair, close_pair),
    };
    int status = child_main(argc, argv, roles, sizeof roles / sizeof *roles);

    if (status >= 0)
        return status;
    return cmocka_run_group_tests_name("loopback hostile", tests, NULL, NULL);
}
