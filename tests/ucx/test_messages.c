/* SPDX-License-Identifier: Apache-2.0
 * What a user reads who has set something wrong, or whose machine lacks something. Main thread. */
#include "command.h"

#include "../base/cmocka_headers.h"

#include <stdlib.h>
#include <string.h>

/* Runs two PEs of hello by a line of a shell in which $RUN and $HELLO stand for the programs. */
static void run(struct command *c, const char *line)
{
    memset(c, 0, sizeof *c);
    setenv("RUN", getenv("TEST_RUN"), 1);
    setenv("HELLO", getenv("TEST_HELLO"), 1);
    setenv("INFO", getenv("TEST_INFO"), 1);
    c->err_to_out = true;
    command_run(c, ARGS("/bin/sh", "-c", line));
}

static void expect(const char *line, int status, const char *piece)
{
    struct command c;

    run(&c, line);
    if (c.status != status || !count_pieces(c.text, c.length, piece))
        fail_msg("%s\nended with %d, not %d with '%s':\n%.*s", line, c.status, status, piece, (int)c.length, c.text);
    command_release(&c);
}

static void test_names(void **state)
{
    (void)state;
    expect("UCX_TLS=posx $RUN -n 2 $HELLO", 1, "transport 'posx' is not available, please use one or more of: ");
    expect("UCX_TLS=posx $RUN -n 2 $HELLO", 1, "; did you mean posix?");
    expect("UCX_TLS=posix,sefl $RUN -n 2 $HELLO", 0, "transport 'sefl' is not available");
    expect("UCX_TLS=posix,sefl $RUN -n 2 $HELLO", 0, "; did you mean self?");
    expect("UCX_TLS=tcp UCX_NET_DEVICES=lp $RUN -n 2 $HELLO", 1, "network device 'lp' is not available");
    expect("UCX_TLS=tcp UCX_NET_DEVICES=lp $RUN -n 2 $HELLO", 1, "; did you mean lo?");
}

static void test_values(void **state)
{
    (void)state;
    expect("UCX_TLS=tcp UCX_TCP_TX_SEG_SIZE=much $RUN -n 2 $HELLO", 1, "Invalid value for TX_SEG_SIZE: 'much'");
    expect("UCX_TLS=tcp FERRY_UCX_MEMORY=allocate $RUN -n 2 $HELLO", 1,
           "FERRY_UCX_MEMORY=allocate has no use with UCX's tcp (set FERRY_UCX_MEMORY=auto)");
    expect("FERRY_UCX_MEMORY=alocate $RUN -n 2 $HELLO", 1, "which is not one of auto|allocate|register");
}

static void test_peers(void **state)
{
    (void)state;
    expect("$RUN -n 2 /bin/sh -c 'if [ \"$FERRY_RANK\" = 0 ]; then export UCX_TLS=posix,self; else export UCX_TLS=sysv,self; fi; exec $HELLO'", 1,
           "UCX has self,posix here and self,sysv there, which do not reach each other; set UCX_TLS alike");
    expect("UCX_TLS=self $RUN -n 2 $HELLO", 1, "UCX has self here and self there, which do not reach each other");
    expect("UCX_TLS=posix FERRY_UCX_PEER_ERRORS=yes $RUN -n 2 $HELLO", 1, "UCX cannot connect to pe ");
}

static void test_limits(void **state)
{
    (void)state;
    expect("$RUN -n 2 /bin/sh -c 'ulimit -n 20; exec $HELLO'", 1, "it needs 32 more file descriptors; raise ulimit -n");
    expect("$RUN -n 2 /bin/sh -c 'ulimit -n 48; exec $HELLO'", 1, "too few file descriptors are left for ");
    expect("$RUN -n 2 /bin/sh -c 'ulimit -n 48; exec $HELLO'", 1, "(raise ulimit -n)");
}

/* In a namespace whose /dev/shm is small. */
static void test_small_shm(void **state)
{
    static const char *const small = "unshare -m /bin/sh -c 'mount -t tmpfs -o size=24m none /dev/shm || exit 77; "
                                     "UCX_TLS=posix,self FERRY_HEAP_CHUNK=64M exec $RUN -n 1 $HELLO'";
    struct command c;

    (void)state;
    run(&c, "unshare -m /bin/sh -c 'mount -t tmpfs -o size=24m none /dev/shm'");
    if (c.status) {
        print_message("cannot mount a /dev/shm of its own: %.*s\n", (int)c.length, c.text);
        command_release(&c);
        skip();
    }
    command_release(&c);
    expect(small, 1, "UCX cannot allocate 67108864 bytes: ");
    expect(small, 1, "Please check that /dev/shm");
}

static void test_reports(void **state)
{
    (void)state;
    expect("$INFO --doctor", 0, "lo");
    expect("UCX_TLS=posix,self UCX_ATOMIC_MODE=cpu $INFO --doctor", 0, "Ferry does not heed it");
    expect("UCX_TLS=posix,self $INFO --doctor", 0, "there is no lane to other hosts");
    expect("UCX_TLS=posix,self $INFO --doctor", 0, "MiB are free");
    expect("UCX_TLS=posix,self $INFO --explain", 0, "posix/memory");
    expect("UCX_TLS=posix,self FERRY_LOG=info $RUN -n 2 $HELLO", 0, "with self/memory0, posix/memory; memory is allocated by UCX");
    expect("UCX_TLS=tcp FERRY_LOG=info $RUN -n 2 $HELLO", 0, "channel 1 to pe 1: tcp/");
}

/* What no PE needs is closed, and memory that UCX allocates is shared by others. */
static void test_beside_loopback(void **state)
{
    (void)state;
    expect("UCX_TLS=posix,self FERRY_TRANSPORT=loopback,ucx FERRY_LOG=info $RUN -n 2 $HELLO", 0, "transport ucx: no PE needs it, closed");
    expect("UCX_TLS=posix,self FERRY_TRANSPORT=ucx,loopback FERRY_LOG=info $RUN -n 2 $HELLO", 0, "transport loopback: no PE needs it, closed");
    expect("FERRY_TRANSPORT=loopback,ucx FERRY_LOOPBACK_GUISE=hosts=2 FERRY_LOG=info $RUN -n 4 $HELLO", 0, "memory is allocated by UCX");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),  cmocka_unit_test(test_values),    cmocka_unit_test(test_peers),   cmocka_unit_test(test_limits),
        cmocka_unit_test(test_small_shm), cmocka_unit_test(test_reports), cmocka_unit_test(test_beside_loopback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
