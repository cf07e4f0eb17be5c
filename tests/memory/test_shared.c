/* SPDX-License-Identifier: Apache-2.0
 * Memory that is no plain heap: GPU memory, which nobody here may touch, and symmetric buffers of the user.
 * One thread per PE. */
#include "team.h"
#include <ferry/ferry.h>
#include <string.h>

static struct team team;

static int three_pes(void **state)
{
    (void)state;
    team_start(&team, 3, 2);
    return 0;
}

static int end(void **state)
{
    (void)state;
    team_end(&team);
    return 0;
}

static int want(struct member *me, size_t size, uint32_t kind, uint32_t flags, char **address)
{
    const struct fy_want what = {.size = size, .alignment = 64, .kind = kind, .flags = flags};

    return fy_heap_want(me->heap, &what, (void **)address, &me->error);
}

/* ------------------------------------------------------------------ kinds */

static int copies; /* main thread's count of PE 0 */

static int copy(void *arg, void *to, const void *from, size_t length, struct ferry_error *error)
{
    struct member *me = arg;

    EXPECT(me, length == 6400 && fy_heap_find(me->heap, to)->kind == FERRY_MEMORY_GPU &&
                   fy_heap_find(me->heap, from)->kind == FERRY_MEMORY_GPU);
    if (me->rank == 0)
        copies++;
    if (me->rank != 1 || !me->arg)
        return FERRY_OK;
    fy_error_set(error, FERRY_ERR_TRANSPORT, NULL, "cannot copy");
    return FERRY_ERR_TRANSPORT;
}

static void gpu_memory(struct member *me)
{
    char *host, *gpu, *more;

    EXPECT(me, want(me, 6400, FERRY_MEMORY_HOST, 0, &host) == FERRY_OK);
    EXPECT(me, want(me, 6400, FERRY_MEMORY_GPU, 0, &gpu) == FERRY_OK);
    EXPECT(me, want(me, 64, FERRY_MEMORY_GPU, 0, &more) == FERRY_OK);
    EXPECT(me, fy_heap_find(me->heap, host) != fy_heap_find(me->heap, gpu));
    EXPECT(me, me->fake[1].allocations == 1 && me->fake[0].allocations == 0);
    /* transport 0 cannot reach the GPU's memory, and is not asked to register it */
    EXPECT(me, me->fake[0].live_regions == 1 && me->fake[1].live_regions == 2);
    EXPECT(me, fy_heap_region(me->heap, 0, gpu, 64) == NULL && fy_heap_region(me->heap, 1, gpu, 64) != NULL);
    me->arg = me;
    more = gpu;
    EXPECT(me, fy_heap_resize(me->heap, (void **)&more, 3 * MEBIBYTE, copy, me, &me->error) == FERRY_ERR_TRANSPORT);
    EXPECT_MESSAGE(me, "pe 1: cannot copy");
    EXPECT(me, more == gpu);
    me->arg = NULL;
    EXPECT(me, fy_heap_resize(me->heap, (void **)&more, 3 * MEBIBYTE, copy, me, &me->error) == FERRY_OK);
    EXPECT(me, more != gpu && fy_heap_find(me->heap, more)->kind == FERRY_MEMORY_GPU);
    EXPECT(me, fy_heap_free(me->heap, gpu, &me->error) == FERRY_ERR_ARG); /* it moved */
    EXPECT(me, fy_heap_free(me->heap, more, &me->error) == FERRY_OK);
}

static void memory_of_a_gpu(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++)
        team.members[rank].fake[1].gpu = FAKE_ALLOCATES;
    copies = 0;
    team_create(&team);
    team_run(&team, gpu_memory);
    assert_int_equal(copies, 2);
}

static void no_memory_of_a_gpu(struct member *me)
{
    char *address;

    EXPECT(me, want(me, 64, FERRY_MEMORY_GPU, 0, &address) == FERRY_ERR_UNSUPPORTED && !address);
    EXPECT_MESSAGE(me, "no GPU memory can be had: FERRY_GPU_MEMORY is no");
    EXPECT(me, want(me, 64, 2, 0, &address) == FERRY_ERR_ARG);
    EXPECT(me, want(me, 64, FERRY_MEMORY_HOST, 2, &address) == FERRY_ERR_ARG);
    EXPECT(me, want(me, 64, FERRY_MEMORY_HOST, me->rank == 2, &address) == FERRY_ERR_MISMATCH);
    EXPECT_MESSAGE(me, "pe 0 called malloc of 64 bytes, pe 2 called malloc of 64 bytes for a single writer");
}

static void no_gpu(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++)
        team.members[rank].fake[0].gpu = FAKE_REGISTERS; /* reaches it, has none */
    team_create(&team);
    team_run(&team, no_memory_of_a_gpu);
}

static void two_that_allocate(void **state)
{
    struct member *me = &team.members[0];

    (void)state;
    me->fake[0].gpu = me->fake[1].gpu = FAKE_ALLOCATES;
    assert_int_equal(fy_heap_create(&me->config, &me->heap, &me->error), FERRY_ERR_CONFIG);
    assert_non_null(strstr(me->error.message, "transports fake and mock both have to allocate the heap's GPU memory"));
}

/* ------------------------------------------------------------------ symmetric buffers */

static _Alignas(64) char memory[3][2][8192];

static void share_one(struct member *me)
{
    char *mine = memory[me->rank][0];
    struct ferry_buffer *buffer, *again;
    const struct fy_target *target;
    struct fy_segment *segment;
    char *heap;

    EXPECT(me, want(me, 64, FERRY_MEMORY_HOST, 0, &heap) == FERRY_OK);
    EXPECT(me, fy_buffer_share(me->heap, mine, 4096, &buffer, &me->error) == FERRY_OK);
    segment = fy_heap_find(me->heap, mine + 4095);
    EXPECT(me, segment && segment == buffer->segment && segment->index == 1 && segment->address == mine);
    EXPECT(me, (uint64_t)(uintptr_t)mine - (uintptr_t)me->heap->base - segment->start == 0);
    EXPECT(me, !fy_heap_find(me->heap, mine + 4096) && !fy_heap_find(me->heap, mine - 1));
    EXPECT(me, fy_heap_region(me->heap, 1, mine + 96, 4000) == segment->regions[1] && segment->regions[1]);
    EXPECT(me, fy_heap_segment(me->heap, 1) == segment);
    for (uint32_t pe = 0; pe < 3; pe++) {
        EXPECT(me, fy_heap_resolve(me->heap, segment, pe, &target, &me->error) == FERRY_OK);
        EXPECT(me, target->map == (void *)memory[pe][0] && target->length == 4096 && target->segment == 1);
    }
    /* a chunk that comes later takes the next number, and the end of the buffer leaves its own free */
    EXPECT(me, want(me, 3 * MEBIBYTE, FERRY_MEMORY_HOST, 0, &heap) == FERRY_OK);
    EXPECT(me, fy_heap_find(me->heap, heap)->index == 2);
    EXPECT(me, fy_buffer_deregister(buffer) == FERRY_ERR_ARG);
    EXPECT(me, fy_buffer_unshare(buffer, &me->error) == FERRY_OK);
    EXPECT(me, !fy_heap_find(me->heap, mine) && !fy_heap_segment(me->heap, 1) && !fy_heap_region(me->heap, 0, mine, 8));
    EXPECT(me, fy_buffer_share(me->heap, mine, 4096, &buffer, &me->error) == FERRY_OK && buffer->segment->index == 1);
    EXPECT(me, fy_buffer_share(me->heap, memory[me->rank][1], 64, &again, &me->error) == FERRY_OK &&
                   again->segment->index == 3);
    EXPECT(me, fy_buffer_unshare(me->rank ? buffer : again, &me->error) == FERRY_ERR_MISMATCH);
    EXPECT_MESSAGE(
        me, "pe 0 called deregister of symmetric buffer 3 (64 bytes), pe 1 called deregister of symmetric buffer 1");
    EXPECT(me, fy_heap_find(me->heap, mine) == buffer->segment); /* the rest is left to the end of the heap */
}

static void a_buffer_of_the_user(void **state)
{
    (void)state;
    team_create(&team);
    team_run(&team, share_one);
}

static void share_badly(struct member *me)
{
    char *mine = memory[me->rank][0], *heap;
    struct ferry_buffer *buffer, *other;

    EXPECT(me, want(me, 64, FERRY_MEMORY_HOST, 0, &heap) == FERRY_OK);
    EXPECT(me, fy_buffer_share(me->heap, mine + 1, 64, &buffer, &me->error) == FERRY_ERR_ARG && !buffer);
    EXPECT_MESSAGE(me, "register_symmetric: the address is not aligned to 8 bytes");
    EXPECT(me, fy_buffer_share(me->heap, heap, 64, &buffer, &me->error) == FERRY_ERR_ARG);
    EXPECT_MESSAGE(me, "lie in the symmetric heap");
    EXPECT(me, fy_buffer_share(me->heap, mine, me->rank == 2 ? 64 : 128, &buffer, &me->error) == FERRY_ERR_MISMATCH);
    EXPECT(me, fy_buffer_share(me->heap, me->rank == 2 ? NULL : mine, 64, &buffer, &me->error) == FERRY_ERR_ARG);
    EXPECT_MESSAGE(me, "pe 2: register_symmetric: (nil) with length 64 is no buffer");
    /* a local registration may overlap, another symmetric one may not */
    EXPECT(me, fy_buffer_register(me->heap, mine, 4096, &other, &me->error) == FERRY_OK);
    EXPECT(me, fy_buffer_share(me->heap, mine + 64, 64, &buffer, &me->error) == FERRY_OK);
    EXPECT(me, fy_heap_find(me->heap, mine) == NULL && fy_heap_find(me->heap, mine + 64) == buffer->segment);
    EXPECT(me, fy_buffer_share(me->heap, mine, 72, &buffer, &me->error) == FERRY_ERR_ARG);
    EXPECT_MESSAGE(me, "some of the bytes belong to a symmetric buffer already");
    EXPECT(me, fy_buffer_share(me->heap, mine, 64, &buffer, &me->error) == FERRY_OK);
}

static void bad_buffers(void **state)
{
    (void)state;
    team_create(&team);
    team_run(&team, share_badly);
}

/* PE 1 fails in each of its setup calls in turn; nobody keeps anything of it, and then all goes well. */
static void share_with_failures(struct member *me)
{
    struct ferry_buffer *buffer;
    int before, calls = 2 * 2 + 1; /* to register and to export, per transport; to import one key */

    for (int k = 1; k <= calls; k++) {
        for (size_t t = 0; t < 2; t++) {
            me->fake[t].fail_at = 0;
            before = me->fake[t].calls;
            if (me->rank != 1 || (k > 2 * 2 ? t != 0 : t != (size_t)(k - 1) / 2))
                continue;
            me->fake[t].fail_at = before + (k > 4 ? 3 : (k - 1) % 2 + 1);
        }
        EXPECT(me,
               fy_buffer_share(me->heap, memory[me->rank][0], 64, &buffer, &me->error) == FERRY_ERR_LIMIT && !buffer);
        EXPECT_MESSAGE(me, k > 4 ? "pe 1: transport fake cannot import the key of pe 2"
                                 : "bytes of a symmetric buffer: " FAKE_LIMIT);
        EXPECT(me, k <= 4 || strstr(me->error.hint, "use memory from ferry_malloc"));
        EXPECT(me, me->fake[0].live_regions == 0 && me->fake[1].live_regions == 0 && me->fake[0].live_keys == 0);
        EXPECT(me, !fy_heap_find(me->heap, memory[me->rank][0]) && !fy_heap_segment(me->heap, 0));
    }
    EXPECT(me, fy_buffer_share(me->heap, memory[me->rank][0], 64, &buffer, &me->error) == FERRY_OK);
    EXPECT(me, me->fake[0].live_keys == 1); /* the next PE's, and no other's */
}

static void failures_in_every_step(void **state)
{
    (void)state;
    team_create(&team);
    team_run(&team, share_with_failures);
}

static void cannot_share(struct member *me)
{
    struct ferry_buffer *buffer;

    EXPECT(me, fy_buffer_share(me->heap, memory[me->rank][0], 64, &buffer, &me->error) == FERRY_ERR_UNSUPPORTED);
    EXPECT_MESSAGE(me, "peers can only reach memory that this transport has allocated itself: mock");
}

static void a_transport_that_allocates(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++)
        team.members[rank].transport[1].caps.flags |= FERRY_CAP_MUST_ALLOCATE;
    team_create(&team);
    team_run(&team, cannot_share);
}

#define THREE_PES(test) cmocka_unit_test_setup_teardown(test, three_pes, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        THREE_PES(memory_of_a_gpu),
        THREE_PES(no_gpu),
        THREE_PES(two_that_allocate),
        THREE_PES(a_buffer_of_the_user),
        THREE_PES(bad_buffers),
        THREE_PES(failures_in_every_step),
        THREE_PES(a_transport_that_allocates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
