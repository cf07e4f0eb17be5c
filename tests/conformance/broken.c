/* SPDX-License-Identifier: Apache-2.0
 * Stands before the library (LD_PRELOAD) and breaks one promise, the one that BREAK names: a rule has to notice. The
 * library's own calls stay right. Any thread of the program under test. */
#include <ferry/ferry.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool broken(const char *what)
{
    const char *name = getenv("BREAK");

    return name && strcmp(name, what) == 0;
}

/* The library's function of this name. */
static void *real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

int ferry_fence(ferry_ctx_t *ctx)
{
    int (*next)(ferry_ctx_t *) = real("ferry_fence");

    return broken("fence") ? FERRY_OK : next(ctx);
}

int ferry_quiet(ferry_ctx_t *ctx)
{
    int (*next)(ferry_ctx_t *) = real("ferry_quiet");

    return broken("quiet") ? FERRY_OK : next(ctx);
}

int ferry_quiet_pe(ferry_ctx_t *ctx, int pe)
{
    int (*next)(ferry_ctx_t *, int) = real("ferry_quiet_pe");

    return next(ctx, broken("quiet-wrong-pe") ? pe ^ 1 : pe);
}

/* A barrier that completes nothing. */
int ferry_barrier(ferry_job_t *job)
{
    int (*next)(ferry_job_t *) = real(broken("barrier") ? "ferry_sync" : "ferry_barrier");

    return next(job);
}

int ferry_team_barrier(ferry_team_t *team)
{
    int (*next)(ferry_team_t *) = real(broken("barrier") ? "ferry_team_sync" : "ferry_team_barrier");

    return next(team);
}

/* The context is left as it is. */
int ferry_ctx_destroy(ferry_ctx_t *ctx)
{
    int (*next)(ferry_ctx_t *) = real("ferry_ctx_destroy");

    return broken("destroy") ? FERRY_OK : next(ctx);
}

/* Returns while the source is in use. */
int ferry_put(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    int (*next)(ferry_ctx_t *, void *, const void *, size_t, int) =
        real(broken("put-early") ? "ferry_put_nbi" : "ferry_put");

    if (broken("null") && length == 0)
        return FERRY_ERR_ARG;
    if (broken("read-only") && length)
        *(volatile uint8_t *)(uintptr_t)src = *(const volatile uint8_t *)src;
    return next(ctx, dest, src, length, pe);
}

int ferry_put_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    int (*next)(ferry_ctx_t *, void *, const void *, size_t, int) = real("ferry_put_nbi");

    if (broken("last-byte") && length > 4000)
        length--;
    if (broken("one-more") && length % 8 == 5)
        length++;
    if (broken("32-bits"))
        length = (uint32_t)length;
    if (broken("own-pe") && length > 1000)
        pe = 0;
    return next(ctx, dest, src, length, pe);
}

int ferry_get_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    int (*next)(ferry_ctx_t *, void *, const void *, size_t, int) = real("ferry_get_nbi");

    if (broken("get-lost") && length == 17)
        return FERRY_OK;
    return next(ctx, dest, src, length, pe);
}

int ferry_get(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    int (*next)(ferry_ctx_t *, void *, const void *, size_t, int) =
        real(broken("get-early") ? "ferry_get_nbi" : "ferry_get");

    return next(ctx, dest, src, length, pe);
}

/* The signal is there long before the data. */
int ferry_put_signal_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value,
                         int op, int pe)
{
    int (*next)(ferry_ctx_t *, void *, const void *, size_t, uint64_t *, uint64_t, int, int) =
        real("ferry_put_signal_nbi");
    int (*put)(ferry_ctx_t *, void *, const void *, size_t, int) = real("ferry_put_nbi");
    int (*alone)(ferry_ctx_t *, uint64_t *, uint64_t, int, int) = real("ferry_signal");
    int (*quiet)(ferry_ctx_t *) = real("ferry_quiet");

    if (!broken("signal-first"))
        return next(ctx, dest, src, length, signal, value, op, pe);
    alone(ctx, signal, value, op | FERRY_SIGNAL_WEAK, pe);
    quiet(ctx);
    usleep(1000);
    return put(ctx, dest, src, length, pe);
}

int ferry_put_signal(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value,
                     int op, int pe)
{
    int (*next)(ferry_ctx_t *, void *, const void *, size_t, uint64_t *, uint64_t, int, int) =
        real(broken("put-signal-early") ? "ferry_put_signal_nbi" : "ferry_put_signal");

    return next(ctx, dest, src, length, signal, value, op, pe);
}

int ferry_signal(ferry_ctx_t *ctx, uint64_t *signal, uint64_t value, int op, int pe)
{
    int (*next)(ferry_ctx_t *, uint64_t *, uint64_t, int, int) = real("ferry_signal");

    if (broken("signal-narrow"))
        value = (uint32_t)value;
    return next(ctx, signal, value, op, pe);
}

/* Read, change, write. */
int ferry_atomic_fetch_add(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe)
{
    int (*next)(ferry_ctx_t *, uint64_t *, uint64_t, uint64_t *, int) = real("ferry_atomic_fetch_add");
    int (*get)(ferry_ctx_t *, const uint64_t *, uint64_t *, int) = real("ferry_atomic_fetch");
    int (*set)(ferry_ctx_t *, uint64_t *, uint64_t, int) = real("ferry_atomic_set");

    if (!broken("not-atomic"))
        return next(ctx, dest, value, old, pe);
    get(ctx, dest, old, pe);
    return set(ctx, dest, *old + value, pe);
}

int ferry_atomic32_fetch_add(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, uint32_t *old, int pe)
{
    int (*next)(ferry_ctx_t *, uint32_t *, uint32_t, uint32_t *, int) = real("ferry_atomic32_fetch_add");
    int (*get)(ferry_ctx_t *, const uint32_t *, uint32_t *, int) = real("ferry_atomic32_fetch");
    int (*set)(ferry_ctx_t *, uint32_t *, uint32_t, int) = real("ferry_atomic32_set");

    if (!broken("not-atomic"))
        return next(ctx, dest, value, old, pe);
    get(ctx, dest, old, pe);
    return set(ctx, dest, *old + value, pe);
}

/* The neighbour of a narrow word is written, too. */
int ferry_atomic32_add(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, int pe)
{
    int (*next)(ferry_ctx_t *, uint32_t *, uint32_t, int) = real("ferry_atomic32_add");
    int (*get)(ferry_ctx_t *, void *, const void *, size_t, int) = real("ferry_get");
    int (*put)(ferry_ctx_t *, void *, const void *, size_t, int) = real("ferry_put");
    uint32_t pair[2], *first = (uint32_t *)((uintptr_t)dest & ~(uintptr_t)7);

    if (!broken("neighbour"))
        return next(ctx, dest, value, pe);
    get(ctx, pair, first, 8, pe);
    pair[dest - first] += value;
    return put(ctx, first, pair, 8, pe);
}

int ferry_atomic_compare_swap(ferry_ctx_t *ctx, uint64_t *dest, uint64_t compare, uint64_t value, uint64_t *old, int pe)
{
    int (*next)(ferry_ctx_t *, uint64_t *, uint64_t, uint64_t, uint64_t *, int) = real("ferry_atomic_compare_swap");
    int rc = next(ctx, dest, compare, value, old, pe);

    if (broken("cswap-old") && *old != compare)
        *old = compare;
    return rc;
}

int ferry_atomic32_xor(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, int pe)
{
    int (*next)(ferry_ctx_t *, uint32_t *, uint32_t, int) =
        real(broken("xor-or") ? "ferry_atomic32_or" : "ferry_atomic32_xor");

    return next(ctx, dest, value, pe);
}

/* As if it were of another domain: what others add meanwhile is lost. */
int ferry_atomic_add(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe)
{
    int (*next)(ferry_ctx_t *, uint64_t *, uint64_t, int) = real("ferry_atomic_add");
    int (*get)(ferry_ctx_t *, const uint64_t *, uint64_t *, int) = real("ferry_atomic_fetch");
    int (*set)(ferry_ctx_t *, uint64_t *, uint64_t, int) = real("ferry_atomic_set");
    uint64_t old;

    if (!broken("domain"))
        return next(ctx, dest, value, pe);
    get(ctx, dest, &old, pe);
    return set(ctx, dest, old + value, pe);
}

int ferry_team_translate(ferry_team_t *from, int pe, ferry_team_t *to)
{
    int (*next)(ferry_team_t *, int, ferry_team_t *) = real("ferry_team_translate");

    return broken("translate") ? pe : next(from, pe, to);
}

int ferry_iput(ferry_ctx_t *ctx, void *dest, const void *src, ptrdiff_t dest_stride, ptrdiff_t src_stride,
               size_t element, size_t count, int pe)
{
    int (*next)(ferry_ctx_t *, void *, const void *, ptrdiff_t, ptrdiff_t, size_t, size_t, int) = real("ferry_iput");

    if (broken("stride") && dest_stride < 0)
        dest_stride = -dest_stride;
    return next(ctx, dest, src, dest_stride, src_stride, element, count, pe);
}

int ferry_p32(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, int pe)
{
    static _Atomic unsigned calls;
    int (*next)(ferry_ctx_t *, uint32_t *, uint32_t, int) = real("ferry_p32");

    return broken("lost-value") && ++calls % 100 == 0 ? FERRY_OK : next(ctx, dest, value, pe);
}

int ferry_wait_until(ferry_job_t *job, const uint64_t *word, int cmp, uint64_t value)
{
    int (*next)(ferry_job_t *, const uint64_t *, int, uint64_t) = real("ferry_wait_until");

    return next(job, word, cmp, broken("wait-early") && value > 0 && cmp == FERRY_CMP_GE ? value - 1 : value);
}
