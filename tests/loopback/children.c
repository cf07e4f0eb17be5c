/* SPDX-License-Identifier: Apache-2.0
 * Child processes of the loopback tests: this program again, with a role and a socket to its parent.
 * Main thread of a test. Started by exec, not fork alone: a sanitizer's threads do not survive a fork. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct child child_start(const char *role)
{
    struct timeval patience = {.tv_sec = (time_t)PATIENCE};
    struct child child;
    char number[16];
    int pair[2];
    char *argv[] = {(char[]){"test"}, (char[]){"--child"}, NULL, number, NULL};

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    fcntl(pair[1], F_SETFD, 0);
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    snprintf(number, sizeof number, "%d", pair[1]);
    argv[2] = strdup(role);
    assert_int_equal(posix_spawn(&child.pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    free(argv[2]);
    close(pair[1]);
    child.socket = pair[0];
    return child;
}

void child_kill(struct child *child)
{
    int status;

    kill(child->pid, SIGKILL);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    assert_true(WIFSIGNALED(status));
    close(child->socket);
}

void child_finish(struct child *child)
{
    double end = seconds() + PATIENCE;
    int status = 0;
    pid_t got;

    while ((got = waitpid(child->pid, &status, WNOHANG)) == 0 && seconds() < end)
        usleep(1000);
    close(child->socket);
    if (got == 0) {
        kill(child->pid, SIGKILL);
        waitpid(child->pid, &status, 0);
        fail_msg("a child does not end");
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("a child ended with wait status 0x%x", status);
}

int child_main(int argc, char **argv, const struct role *roles, size_t n)
{
    if (argc != 4 || strcmp(argv[1], "--child"))
        return -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(roles[i].name, argv[2]))
            return roles[i].run(atoi(argv[3]));
    fprintf(stderr, "no role %s\n", argv[2]);
    return 2;
}

int send_bytes(int socket, const void *bytes, size_t n)
{
    return send(socket, bytes, n, MSG_NOSIGNAL) == (ssize_t)n;
}

int receive_bytes(int socket, void *bytes, size_t n)
{
    ssize_t got;

    do
        got = recv(socket, bytes, n, 0);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)n;
}

int send_hello(int socket, const struct pe *pe)
{
    struct hello hello = {.pe = pe->me, .endpoint = pe->endpoint, .key = pe->key};

    return send_bytes(socket, &hello, sizeof hello);
}

int receive_hello(int socket, struct hello *hello)
{
    return receive_bytes(socket, hello, sizeof *hello);
}
