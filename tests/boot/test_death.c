/* SPDX-License-Identifier: Apache-2.0
 * PEs as processes that are killed or stopped: who is told what, and how soon. */
#include "kids.h"
#include <signal.h>

#define SOON 2.0 /* seconds in which everybody knows of a death */

static bool in(uint32_t pe, const uint32_t *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == pe)
            return true;
    return false;
}

struct killing {
    uint32_t n, killed[3], n_killed;
    bool gather; /* the survivors are in a step, which one of them never enters when the killed ones have */
};

static double kill_some(const struct killing *k)
{
    struct kids kids;
    double slowest = 0;
    kids_start(&kids, k->n, 10);
    for (uint32_t pe = 0; k->gather && pe < k->n; pe++)
        if (!in(pe, k->killed, 1))
            kids_order(&kids, pe, "g"); /* the first victim is who they wait for */
    double start = kit_now();
    for (uint32_t i = 0; i < k->n_killed; i++)
        kids_kill(&kids, k->killed[i]);
    for (uint32_t pe = 0; pe < k->n; pe++) {
        if (in(pe, k->killed, k->n_killed))
            continue;
        for (uint32_t i = 0; i < k->n_killed; i++)
            kids_expect(&kids, SOON, "%u dead %u connection", pe, k->killed[i]);
        slowest = kit_now() - start > slowest ? kit_now() - start : slowest;
        if (!k->gather)
            kids_order(&kids, pe, "g"); /* ends at once */
        char *line = kids_take(&kids, SOON, "%u g %d peer", pe, FERRY_ERR_PEER);
        assert_non_null(line);
        uint32_t peer = (uint32_t)atoi(strstr(line, "peer ") + 5);
        assert_true(in(peer, k->killed, k->n_killed));
        free(line);
    }
    kids_quiet(&kids, 0.3); /* each once, and nobody else */
    kids_end(&kids);
    return slowest;
}

static void test_kill(void **state)
{
    (void)state;
    static const struct killing cases[] = {
        {2, {1}, 1, false},    {2, {0}, 1, true},        {5, {4}, 1, false},         {5, {1}, 1, true},
        {7, {0}, 1, false},    {7, {0}, 1, true},        {7, {0, 1}, 2, false},      {7, {1, 4}, 2, true},
        {7, {2, 5}, 2, false}, {16, {0, 1, 2}, 3, true}, {16, {3, 7, 15}, 3, false}, {16, {1, 3, 0}, 3, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double slowest = kill_some(&cases[i]);
        print_message("%u PEs, %u killed (first %u): all told after %.0f ms\n", cases[i].n, cases[i].n_killed,
                      cases[i].killed[0], slowest * 1e3);
    }
}

/* One after another until one is left; whoever lives keeps being told. */
static void test_kill_in_turn(void **state)
{
    (void)state;
    static const uint32_t order[] = {1, 0, 4, 2, 6, 3};
    struct kids kids;
    kids_start(&kids, 7, 10);
    for (uint32_t i = 0; i < 6; i++) {
        kids_kill(&kids, order[i]);
        for (uint32_t pe = 0; pe < 7; pe++)
            if (kids.kid[pe].pid)
                kids_expect(&kids, SOON, "%u dead %u", pe, order[i]);
    }
    kids_quiet(&kids, 0.2);
    kids_end(&kids);
}

/* Abort reaches those who had to attach elsewhere. */
static void test_abort_after_death(void **state)
{
    (void)state;
    struct kids kids;
    kids_start(&kids, 9, 10);
    kids_kill(&kids, 1);
    kids_kill(&kids, 0);
    for (uint32_t pe = 2; pe < 9; pe++) {
        kids_expect(&kids, SOON, "%u dead 1", pe);
        kids_expect(&kids, SOON, "%u dead 0", pe);
    }
    kids_order(&kids, 8, "a");
    for (uint32_t pe = 2; pe < 9; pe++) {
        kids_expect(&kids, SOON, "%u aborted 8 7", pe);
        kids_order(&kids, pe, "g");
        kids_expect(&kids, SOON, "%u g %d", pe, FERRY_ERR_ABORTED);
    }
    kids_end(&kids);
}

/* The abort cannot pass a PE that is stopped; when that one is killed, those below it learn both where they attach. */
static void test_abort_past_stopped(void **state)
{
    (void)state;
    struct kids kids;
    kids_start(&kids, 5, 20);
    kids_stop(&kids, 1);
    kids_order(&kids, 2, "a");
    kids_expect(&kids, SOON, "0 aborted 2 7");
    kids_expect(&kids, SOON, "2 aborted 2 7");
    kids_kill(&kids, 1);
    for (uint32_t pe = 3; pe < 5; pe++) {
        kids_expect(&kids, SOON, "%u dead 1", pe);
        kids_expect(&kids, SOON, "%u aborted 2 7", pe);
    }
    kids_end(&kids);
}

/* A stopped PE says nothing for too long. When it goes on, it learns what the others think of it. */
static void test_stop(void **state)
{
    (void)state;
    static const uint32_t stopped[] = {0, 1, 4};
    for (int i = 0; i < 3; i++) {
        struct kids kids;
        uint32_t victim = stopped[i];
        kids_start(&kids, 5, 1.0);
        kids_quiet(&kids, 1.5); /* heartbeats keep it going */
        double start = kit_now();
        kids_stop(&kids, victim);
        for (uint32_t pe = 0; pe < 5; pe++)
            if (pe != victim)
                kids_expect(&kids, 5, "%u dead %u no sign of life for 1 s", pe, victim);
        print_message("PE %u of 5 stopped, peer timeout 1 s: all told after %.2f s\n", victim, kit_now() - start);
        kids_signal(&kids, victim, SIGCONT);
        for (uint32_t pe = 0; pe < 5; pe++)
            if (pe != victim)
                kids_expect(&kids, 5, "%u dead %u", victim, pe);
        kids_order(&kids, victim, "g");
        kids_expect(&kids, 5, "%u g %d", victim, FERRY_ERR_PEER);
        kids_quiet(&kids, 0.5); /* the others do not believe a word of it about each other */
        kids_end(&kids);
    }
}

/* All stopped, as by Ctrl-Z, and going on later: nobody takes anybody for dead. */
static void test_stop_all(void **state)
{
    (void)state;
    struct kids kids;
    kids_start(&kids, 4, 1.0);
    for (uint32_t pe = 0; pe < 4; pe++)
        kids_stop(&kids, pe);
    kids_quiet(&kids, 2.5);
    for (uint32_t pe = 0; pe < 4; pe++)
        kids_signal(&kids, pe, SIGCONT);
    kids_quiet(&kids, 1.5);
    for (uint32_t pe = 0; pe < 4; pe++)
        kids_order(&kids, pe, "g");
    for (uint32_t pe = 0; pe < 4; pe++)
        kids_expect(&kids, 10, "%u g 0", pe);
    kids_end(&kids);
}

static void expect_lost(struct kids *kids, uint32_t pe, char order)
{
    char *line = kids_take(kids, SOON, "%u %c %d peer 3", pe, order, FERRY_ERR_PEER);
    assert_non_null(line);
    assert_non_null(strstr(line, "PE 1 has lost the connection with it; nobody counts as dead"));
    free(line);
}

/* Verdicts switched off: a killed PE is nobody's death; but steps that need it do not wait for it, whether begun before, after,
 * or without a time limit, and closing does not either. */
static void test_no_verdicts(void **state)
{
    (void)state;
    struct kids kids;
    kids_start(&kids, 5, 0);
    kids_order(&kids, 4, "g"); /* before, and not a neighbour */
    kids_kill(&kids, 3);
    expect_lost(&kids, 4, 'g');
    kids_quiet(&kids, 0.5);
    for (uint32_t pe = 0; pe < 3; pe++)
        kids_order(&kids, pe, pe ? "g" : "t");
    for (uint32_t pe = 0; pe < 3; pe++)
        expect_lost(&kids, pe, pe ? 'g' : 't');
    kids_quiet(&kids, 0.1);
    kids_end(&kids);
}

/* A call to a PE that is stopped ends with its time; one that waits when the PE is killed, with its death. */
static void test_call(void **state)
{
    (void)state;
    struct kids kids;
    kids_start(&kids, 4, 30);
    kids_order(&kids, 3, "c2");
    kids_expect(&kids, 5, "3 c 0");
    kids_stop(&kids, 2);
    kids_order(&kids, 3, "k2");
    kids_expect(&kids, 5, "3 k %d peer 2", FERRY_ERR_TIMEOUT);
    kids_order(&kids, 3, "c2"); /* over the connection that there is */
    kids_order(&kids, 0, "c2"); /* over one that does not come up */
    kids_quiet(&kids, 0.3);
    kids_kill(&kids, 2);
    kids_expect(&kids, SOON, "3 c %d peer 2", FERRY_ERR_PEER);
    kids_expect(&kids, SOON, "0 c %d peer 2", FERRY_ERR_PEER);
    kids_order(&kids, 1, "c2");
    kids_expect(&kids, SOON, "1 c %d peer 2", FERRY_ERR_PEER);
    kids_end(&kids);
}

/* Closing is no death, whoever is first, and whoever is killed meanwhile is one. */
static void test_close(void **state)
{
    (void)state;
    struct kids kids;
    kids_start(&kids, 6, 10);
    kids_close(&kids, 0, 20); /* it waits for the others a while */
    for (uint32_t pe = 1; pe < 6; pe++)
        kids_expect(&kids, SOON, "%u left 0", pe);
    kids_close(&kids, 2, 5);
    for (uint32_t pe = 1; pe < 6; pe++)
        if (pe != 2)
            kids_expect(&kids, SOON, "%u left 2", pe);
    kids_quiet(&kids, 0.5);
    kids_order(&kids, 5, "c1"); /* 5 hung below 2, 2 and 1 below 0 */
    kids_expect(&kids, 5, "5 c 0");
    kids_kill(&kids, 1);
    for (uint32_t pe = 3; pe < 6; pe++)
        kids_expect(&kids, SOON, "%u dead 1", pe);
    kids_quiet(&kids, 0.2);
    kids_end(&kids);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_kill_in_turn),
        cmocka_unit_test(test_abort_after_death),
        cmocka_unit_test(test_abort_past_stopped),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_stop_all),
        cmocka_unit_test(test_no_verdicts),
        cmocka_unit_test(test_call),
        cmocka_unit_test(test_close),
    };
    kids_main(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
