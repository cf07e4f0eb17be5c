/* SPDX-License-Identifier: Apache-2.0
 * Reports of a job that hangs: who keeps the others waiting, and the text and JSON that say so. Pure; one thread. */
#include "job/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define N 5

struct job {
    struct fy_state states[N];
    struct fy_answer answers[N];
};

/* waits[i]: whom PE i waits for; W: somebody, not known whom; R: nobody; S, D, G: it does not answer, is dead, is gone. */
enum { W = -1, R = -2, S = -3, D = -4, G = -5 };

static void make(struct job *job, const int waits[N])
{
    memset(job, 0, sizeof *job);
    for (int i = 0; i < N; i++) {
        struct fy_state *state = &job->states[i];
        *state = (struct fy_state){.size = sizeof *state, .pe = (uint32_t)i, .pid = 100 + (uint32_t)i, .host = "a\"b\\c\td"};
        job->answers[i] = (struct fy_answer){FY_ANSWERED, state};
        if (waits[i] <= S)
            job->answers[i] = (struct fy_answer){waits[i] == S ? FY_SILENT : waits[i] == D ? FY_DEAD : FY_GONE, NULL};
        else if (waits[i] != R)
            state->waits[state->n_waits++] = (struct fy_state_wait){"barrier", waits[i], 1, 2500000000u};
    }
}

static void test_culprits(void **state)
{
    static const struct {
        int waits[N], culprit;
        const char *why;
    } cases[] = {
        {{1, 2, 3, S, 0}, 3, "pe 2 waits for pe 3, which does not answer"},
        {{1, 2, 3, D, 0}, 3, "pe 2 waits for pe 3, which is dead"},
        {{1, 2, 3, G, 0}, 3, "pe 2 waits for pe 3, which has closed its job"},
        {{R, 0, 1, S, 2}, 3, "pe 3 does not answer"},         /* rather than one that works */
        {{1, 2, R, 2, R}, 2, "pe 1 waits for pe 2, which is in no call of ferry that waits"},
        {{W, W, R, W, W}, 2, "all others wait, and pe 2 is in no call of ferry that waits"},
        {{W, W, R, R, W}, -1, "nobody is known to keep others waiting"},
        {{R, R, R, R, R}, -1, "nobody is known to keep others waiting"},
        {{W, W, W, W, W}, -1, "nobody is known to keep others waiting"},
        {{1, 2, 0, W, W}, -1, "wait for each other"},
        {{1, 0, 3, R, W}, 3, "pe 2 waits for pe 3"},           /* a circle elsewhere is another matter */
        {{0, W, W, W, W}, -1, "wait for each other"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job job;
        char why[256] = "";
        make(&job, cases[i].waits);
        int culprit = fy_culprit(job.answers, N, why, sizeof why);
        if (culprit != cases[i].culprit || !strstr(why, cases[i].why))
            fail_msg("case %zu: %d, %s", i, culprit, why);
    }
}

/* Of several waits the longest counts. */
static void test_longest(void **state)
{
    (void)state;
    struct job job;
    char why[256];
    make(&job, (const int[N]){1, R, R, W, W});
    job.states[0].waits[job.states[0].n_waits++] = (struct fy_state_wait){"quiet", 2, 0, 9000000000u};
    assert_int_equal(fy_culprit(job.answers, N, why, sizeof why), 2);
}

static void test_forms(void **state)
{
    (void)state;
    struct job job;
    struct fy_text text = {0}, json = {0};
    make(&job, (const int[N]){1, S, R, W, W});
    job.answers[4] = (struct fy_answer){FY_NOT_ASKED, NULL};
    job.states[2].channels[job.states[2].n_channels++] =
        (struct fy_state_channel){.id = 7, .kind = FERRY_PAGE_RING, .posted = 10, .completed = 4, .again = 3, .age = 1500000000u, .busy = 9,
                                  .n_peers = 1, .peers = {{3, FY_DID_PUT | FY_DID_AMO}}, .ring_head = 12, .ring_consumed = 11, .ring_completed = 5};
    job.states[2].lanes[job.states[2].n_lanes++] = (struct fy_state_lane){6, 3, "of another channel"};
    job.states[2].lanes[job.states[2].n_lanes++] = (struct fy_state_lane){7, 3, "queue pair 0x11 \"RTS\""};
    struct fy_account account = {.job = 0xab, .n = N, .answers = job.answers, .reason = "a test", .culprit = 1, .why = "it \"is\""};
    fy_report_text(&text, &account);
    fy_report_json(&json, &account);
    assert_false(text.failed || json.failed);
    assert_non_null(strstr(text.data, "report of job 00000000000000ab, 5 pes: a test\n"));
    assert_non_null(strstr(text.data, "  barrier: for 2.5 s, waiting for pe 1, channel 1\n"));
    assert_non_null(strstr(text.data, "pe 1: does not answer\n"));
    assert_non_null(strstr(text.data, "pe 4: was not asked\n"));
    assert_non_null(strstr(text.data, "  channel 7 (ring): posted 10, complete 4, the oldest for 1.5 s, repeated 3 times, outstanding at pe 3 "
                                      "(put, atomic) and 8 more; ring: reserved up to 12, taken 11, complete 5\n    to pe 3: queue pair 0x11 \"RTS\"\n"));
    assert_null(strstr(text.data, "another channel"));
    assert_non_null(strstr(json.data, "{\"pe\":3,\"kinds\":\"put, atomic\",\"transport\":\"queue pair 0x11 \\\"RTS\\\"\"}"));
    assert_non_null(strstr(text.data, "culprit: pe 1: it \"is\"\n"));
    assert_non_null(strstr(json.data, "\"culprit\":1,\"why\":\"it \\\"is\\\"\""));
    assert_non_null(strstr(json.data, "\"host\":\"a\\\"b\\\\c?d\""));
    assert_non_null(strstr(json.data, "{\"doing\":\"barrier\",\"peer\":null,\"channel\":1,\"seconds\":2.500}"));
    assert_null(strchr(json.data, '\t'));
    free(text.data);
    free(json.data);
}

static void test_bad_states(void **state)
{
    (void)state;
    struct fy_state good = {.size = sizeof good, .n_waits = 1}, bad;
    assert_true(fy_state_good(&good, sizeof good, N));
    assert_false(fy_state_good(&good, sizeof good - 1, N));
    bad = good, bad.size++;
    assert_false(fy_state_good(&bad, sizeof bad, N));
    bad = good, bad.n_waits = FERRY_PAGE_WAITS + 1;
    assert_false(fy_state_good(&bad, sizeof bad, N));
    bad = good, bad.n_channels = FY_STATE_CHANNELS + 1;
    assert_false(fy_state_good(&bad, sizeof bad, N));
    bad = good, bad.waits[0].peer = N;
    assert_false(fy_state_good(&bad, sizeof bad, N));
    bad = good, memset(bad.host, 'x', sizeof bad.host);
    assert_false(fy_state_good(&bad, sizeof bad, N));
    bad = good, memset(bad.waits[0].doing, 'x', sizeof bad.waits[0].doing);
    assert_false(fy_state_good(&bad, sizeof bad, N));
    bad = good, bad.n_channels = 1, bad.channels[0].n_peers = FY_STATE_PEERS + 1;
    assert_false(fy_state_good(&bad, sizeof bad, N));
    bad = good, bad.n_lanes = FY_STATE_LANES + 1;
    assert_false(fy_state_good(&bad, sizeof bad, N));
    bad = good, bad.n_lanes = 1, memset(bad.lanes[0].text, 'x', sizeof bad.lanes[0].text);
    assert_false(fy_state_good(&bad, sizeof bad, N));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_culprits),
        cmocka_unit_test(test_longest),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_bad_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
