/* SPDX-License-Identifier: Apache-2.0
 * Public puts and gets of one value.
 * Any thread, one at a time for a context of its own. */
#include "api.h"

int ferry_p(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe)
{
    return ferry_put(ctx, dest, &value, sizeof(value), pe);
}

int ferry_p32(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, int pe)
{
    return ferry_put(ctx, dest, &value, sizeof(value), pe);
}

int ferry_g(ferry_ctx_t *ctx, const uint64_t *src, uint64_t *value, int pe)
{
    return ferry_get(ctx, value, src, sizeof(*value), pe);
}

int ferry_g32(ferry_ctx_t *ctx, const uint32_t *src, uint32_t *value, int pe)
{
    return ferry_get(ctx, value, src, sizeof(*value), pe);
}
