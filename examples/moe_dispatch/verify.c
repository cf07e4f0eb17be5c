/* SPDX-License-Identifier: Apache-2.0
 * Computes the answer again, on this PE alone and without a single transfer, and compares. Main thread. */
#include "moe.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(const struct moe *moe, uint32_t own, int8_t *components, uint16_t *x, float *sum)
{
    const struct model *model = &moe->model;
    model_components(model, moe->first_token + own, components);
    model_to_bf16(components, x, model->hidden);
    memset(sum, 0, model->hidden * sizeof *sum);
    for (uint32_t i = 0; i < model->topk; i++)
        model_expert(model, moe->routes[(size_t)own * model->topk + i], x, sum);
}

static void complain(const struct moe *moe, uint32_t own, const float *expected, const float *got)
{
    uint32_t i = 0;
    while (i + 1 < moe->args->hidden && memcmp(&expected[i], &got[i], sizeof *got) == 0)
        i++;
    fprintf(stderr,
            MOE_NAME ": pe %" PRIu32 " token %" PRIu32 " component %" PRIu32 ": expected %.9g, combine gave %.9g\n",
            moe->me, moe->first_token + own, i, (double)expected[i], (double)got[i]);
}

static uint64_t token_sum(const struct moe *moe, uint32_t own, const float *got)
{
    uint64_t h = moe->first_token + own;
    for (uint32_t i = 0; i < moe->args->hidden; i++) {
        uint32_t bits;
        memcpy(&bits, &got[i], sizeof bits);
        h = (h ^ bits) * UINT64_C(0x9fb21c651e98df25) + 1;
    }
    return mix64(h);
}

int verify_run(struct moe *moe, uint64_t *mismatched, uint64_t *checksum)
{
    uint32_t hidden = moe->args->hidden;
    int8_t *components = malloc(hidden);
    uint16_t *x = malloc(hidden * sizeof *x);
    float *expected = malloc(hidden * sizeof *expected);
    int rc = FERRY_OK;
    *mismatched = *checksum = 0;
    if (!components || !x || !expected)
        rc = fail(moe, FERRY_ERR_NOMEM, "no memory for verifying");
    for (uint32_t t = 0; t < moe->own && rc == FERRY_OK; t++) {
        const float *got = moe->combined + (size_t)t * hidden;
        expect(moe, t, components, x, expected);
        if (memcmp(expected, got, hidden * sizeof *got) != 0 && (*mismatched)++ == 0)
            complain(moe, t, expected, got);
        *checksum += token_sum(moe, t, got);
    }
    free(components);
    free(x);
    free(expected);
    return rc;
}
