/* SPDX-License-Identifier: Apache-2.0
 * A peer that announces its requests more than once, as one does that did not wait for the answer, is one source still, and
 * what it has sent counts on. One thread. */
#include "../../core/order/mail_source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

static void announced_twice(void **state)
{
    (void)state;
    struct fy_world world = {.n_pes = 2, .max_channels = 3};
    struct fy_mail *mail = calloc(1, sizeof(*mail));
    assert_non_null(mail);
    mail->peers = calloc(2, sizeof(*mail->peers));
    mail->sources = calloc(2, sizeof(*mail->sources));
    mail->active = calloc(2, sizeof(*mail->active));
    pthread_mutex_init(&mail->lock, NULL);
    world.mail = mail;
    assert_int_equal(fy_mail_open(&world, 1), FERRY_OK);
    struct fy_mail_source *source = fy_mail_source_of(mail, 1);
    assert_non_null(source);
    source->next = 5;
    for (int i = 0; i < 3; i++)
        assert_int_equal(fy_mail_open(&world, 1), FERRY_OK);
    assert_ptr_equal(fy_mail_source_of(mail, 1), source);
    assert_true(source->next == 5);
    assert_int_equal(atomic_load(&mail->n_active), 1);
    assert_int_equal(fy_mail_open(&world, 0), FERRY_OK);
    assert_int_equal(atomic_load(&mail->n_active), 2);
    fy_mail_destroy(&world);
    assert_null(world.mail);
    assert_int_equal(fy_mail_open(&world, 1), FERRY_ERR_STATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(announced_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
