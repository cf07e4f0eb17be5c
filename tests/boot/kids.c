/* SPDX-License-Identifier: Apache-2.0
 * PEs as processes, for tests in which they are killed or stopped.
 * The child's part reports from its control thread too: one write per line. */
#include "kids.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the child */

static void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void report(const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof(line) - 1, format, args);
    va_end(args);
    n = n < (int)sizeof(line) - 2 ? n : (int)sizeof(line) - 2;
    line[n] = '\n';
    if (write(STDOUT_FILENO, line, (size_t)n + 1) < 0)
        _exit(9); /* nobody listens */
}

static void on_dead(void *arg, uint32_t pe, const char *why)
{
    report("%u dead %u %s", *(uint32_t *)arg, pe, why);
}

static void on_aborted(void *arg, uint32_t by, int code)
{
    report("%u aborted %u %d", *(uint32_t *)arg, by, code);
}

static void on_left(void *arg, uint32_t pe)
{
    report("%u left %u", *(uint32_t *)arg, pe);
}

static int on_serve(void *arg, uint32_t from, uint32_t type, const void *request, size_t size, void *reply,
                    size_t capacity, size_t *reply_size)
{
    (void)arg, (void)from, (void)type, (void)capacity;
    memcpy(reply, request, size);
    *reply_size = size;
    return FERRY_OK;
}

static void obey(struct fy_boot *boot, uint32_t rank, const char *order)
{
    struct ferry_error error = {.peer = -1};
    size_t size;
    int rc = FERRY_OK;
    uint32_t pe = (uint32_t)strtoul(order + 1, NULL, 10);
    if (order[0] == 'g' || order[0] == 't')
        rc = fy_boot_barrier(boot, "gather", order[0] == 't' ? 0.5 : 0, &error);
    else if (order[0] == 'c' || order[0] == 'k')
        rc = fy_boot_call(boot, pe, 1, NULL, 0, NULL, 0, &size, order[0] == 'c' ? 20 : 0.3, &error);
    else if (order[0] == 'a')
        fy_boot_abort(boot, 7);
    report("%u %c %d peer %d %s", rank, order[0], rc, rc ? error.peer : -1, rc ? error.message : "");
}

static int child(char **argv)
{
    static uint32_t rank; /* read by the events until the process ends */
    ferry_uniqueid_t id;
    struct ferry_error error;
    struct fy_boot *boot;
    char order[16];
    size_t at = 0;
    rank = (uint32_t)atoi(argv[2]);
    for (size_t i = 0; i < sizeof(id.bytes); i++)
        sscanf(argv[5] + 2 * i, "%2hhx", &id.bytes[i]);
    struct fy_boot_config config = {.rank = rank, .n_pes = (uint32_t)atoi(argv[3]), .id = &id, .timeout = 30};
    config.peer_timeout = atof(argv[4]);
    config.events = (struct fy_boot_events){&rank, on_dead, on_aborted, on_serve, on_left, NULL};
    if (fy_boot_start(&config, &boot, &error) != FERRY_OK) {
        report("%u failed %s", rank, error.message);
        return 1;
    }
    report("%u up", rank);
    while (read(STDIN_FILENO, order + at, 1) == 1 && order[0] != 'q') {
        at = order[at] == '\n' || at + 2 >= sizeof(order) ? (order[at] = 0, obey(boot, rank, order), 0) : at + 1;
    }
    fy_boot_close(boot);
    report("%u closed", rank);
    return 0;
}

void kids_main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "--pe") == 0)
        exit(child(argv));
    signal(SIGPIPE, SIG_IGN); /* orders to a killed PE */
}

/* --- the parent */

static void kid_start(struct kids *kids, uint32_t pe, const char *peer_timeout, const char *id, int out)
{
    extern char **environ;
    char rank[16], n[16], exe[] = "/proc/self/exe", flag[] = "--pe", timeout[32], hex[2 * FERRY_UNIQUEID_BYTES + 1];
    int orders[2];
    posix_spawn_file_actions_t actions;
    snprintf(rank, sizeof(rank), "%u", pe);
    snprintf(n, sizeof(n), "%u", kids->n);
    snprintf(timeout, sizeof(timeout), "%s", peer_timeout);
    snprintf(hex, sizeof(hex), "%s", id);
    char *argv[] = {exe, flag, rank, n, timeout, hex, NULL};
    assert_int_equal(pipe2(orders, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, orders[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    assert_int_equal(posix_spawn(&kids->kid[pe].pid, exe, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(orders[0]);
    kids->kid[pe].orders = orders[1];
}

void kids_start(struct kids *kids, uint32_t n, double peer_timeout)
{
    char hex[2 * FERRY_UNIQUEID_BYTES + 1], timeout[32];
    ferry_uniqueid_t id;
    struct ferry_error error;
    int reports[2];
    memset(kids, 0, sizeof(*kids));
    kids->n = n;
    assert_in_range(n, 1, KIDS);
    assert_int_equal(fy_meeting_create(NULL, NULL, 30, &id, &error), FERRY_OK);
    for (size_t i = 0; i < sizeof(id.bytes); i++)
        snprintf(hex + 2 * i, 3, "%02x", id.bytes[i]);
    snprintf(timeout, sizeof(timeout), "%g", peer_timeout);
    assert_int_equal(pipe2(reports, O_CLOEXEC), 0);
    kids->reports = reports[0];
    for (uint32_t pe = 0; pe < n; pe++)
        kid_start(kids, pe, timeout, hex, reports[1]);
    close(reports[1]);
    for (uint32_t pe = 0; pe < n; pe++)
        kids_expect(kids, 30, "%u up", pe);
}

void kids_order(struct kids *kids, uint32_t pe, const char *order)
{
    char line[16];
    int n = snprintf(line, sizeof(line), "%s\n", order);
    assert_int_equal(write(kids->kid[pe].orders, line, (size_t)n), n);
}

void kids_signal(struct kids *kids, uint32_t pe, int signal)
{
    assert_int_equal(kill(kids->kid[pe].pid, signal), 0);
}

void kids_stop(struct kids *kids, uint32_t pe)
{
    int status;
    kids_signal(kids, pe, SIGSTOP);
    assert_int_equal(waitpid(kids->kid[pe].pid, &status, WUNTRACED), kids->kid[pe].pid);
    assert_true(WIFSTOPPED(status));
}

void kids_kill(struct kids *kids, uint32_t pe)
{
    kids_signal(kids, pe, SIGKILL);
    assert_int_equal(waitpid(kids->kid[pe].pid, NULL, 0), kids->kid[pe].pid);
    kids->kid[pe].pid = 0;
    close(kids->kid[pe].orders);
}

/* Splits what has been read into lines. */
static void lines_split(struct kids *kids)
{
    char *end;
    while ((end = memchr(kids->text, '\n', kids->filled))) {
        size_t size = (size_t)(end - kids->text);
        assert_true(kids->n_lines < KIDS_LINES);
        kids->lines[kids->n_lines++] = strndup(kids->text, size);
        kids->filled -= size + 1;
        memmove(kids->text, end + 1, kids->filled);
    }
}

static void lines_read(struct kids *kids, int ms)
{
    struct pollfd poll_fd = {.fd = kids->reports, .events = POLLIN};
    if (poll(&poll_fd, 1, ms) <= 0)
        return;
    ssize_t got = read(kids->reports, kids->text + kids->filled, sizeof(kids->text) - kids->filled);
    if (got <= 0)
        return;
    kids->filled += (size_t)got;
    lines_split(kids);
}

static char *line_take(struct kids *kids, const char *prefix)
{
    for (size_t i = 0; i < kids->n_lines; i++) {
        char *line = kids->lines[i];
        if (!line || strncmp(line, prefix, strlen(prefix)) != 0)
            continue;
        kids->lines[i] = NULL;
        return line;
    }
    return NULL;
}

static char *take(struct kids *kids, double seconds, const char *prefix)
{
    double end = kit_now() + seconds;
    char *line;
    while (!(line = line_take(kids, prefix)) && kit_now() < end)
        lines_read(kids, 10);
    return line;
}

char *kids_take(struct kids *kids, double seconds, const char *format, ...)
{
    char prefix[128];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof(prefix), format, args);
    va_end(args);
    return take(kids, seconds, prefix);
}

void kids_expect(struct kids *kids, double seconds, const char *format, ...)
{
    char prefix[128];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof(prefix), format, args);
    va_end(args);
    char *line = take(kids, seconds, prefix);
    if (line) {
        free(line);
        return;
    }
    for (size_t i = 0; i < kids->n_lines; i++)
        if (kids->lines[i])
            print_message("not taken: %s\n", kids->lines[i]);
    fail_msg("'%s' was not reported within %g s", prefix, seconds);
}

void kids_quiet(struct kids *kids, double seconds)
{
    double end = kit_now() + seconds;
    do {
        for (size_t i = 0; i < kids->n_lines; i++)
            if (kids->lines[i] && strstr(kids->lines[i], " dead ") && kids->kid[atoi(kids->lines[i])].pid)
                fail_msg("unexpected: %s", kids->lines[i]); /* of one that still lives */
        lines_read(kids, 10);
    } while (kit_now() < end);
}

static void kid_reap(struct kids *kids, uint32_t pe, double seconds)
{
    int status = 0;
    kids_expect(kids, seconds, "%u closed", pe);
    assert_int_equal(waitpid(kids->kid[pe].pid, &status, 0), kids->kid[pe].pid);
    assert_int_equal(status, 0); /* sanitizers report by it too */
    close(kids->kid[pe].orders);
    kids->kid[pe].pid = 0;
}

void kids_close(struct kids *kids, uint32_t pe, double seconds)
{
    kids_order(kids, pe, "q");
    kid_reap(kids, pe, seconds);
}

void kids_end(struct kids *kids)
{
    for (uint32_t pe = 0; pe < kids->n; pe++)
        if (kids->kid[pe].pid)
            kids_order(kids, pe, "q");
    for (uint32_t pe = 0; pe < kids->n; pe++)
        if (kids->kid[pe].pid)
            kid_reap(kids, pe, 20);
    for (size_t i = 0; i < kids->n_lines; i++)
        free(kids->lines[i]);
    close(kids->reports);
}
