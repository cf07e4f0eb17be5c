/* SPDX-License-Identifier: Apache-2.0
 * The model: embedding, router, experts. Integer arithmetic, and FP32 sums that are exact, so that every PE computes
 * the same bits however the work is split. Any thread; the model does not change after model_create. */
#include "moe.h"
#include <stdlib.h>
#include <string.h>

enum { TAPS_MAX = 256, WEIGHT_MAX = 16, GAIN_MAX = 15 };

/* The largest sum counts MAX_TOPK * WEIGHT_MAX * GAIN_MAX * 96 units of 1/64; FP32 holds 2^24 of them exactly. */
_Static_assert(MAX_TOPK *WEIGHT_MAX *GAIN_MAX * 96 < 1 << 24, "sums would be rounded");

/* A mixing function of the splitmix64 family: every bit of the input moves half of the output. */
uint64_t mix64(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

int model_create(struct model *model, const struct moe_args *args, const struct text *text)
{
    model->text = text;
    model->hidden = args->hidden;
    model->topk = args->topk;
    model->experts = args->experts;
    model->taps = args->hidden < TAPS_MAX ? args->hidden : TAPS_MAX;
    size_t n = (size_t)model->experts * model->taps;
    model->projection = malloc(n);
    if (!model->projection)
        return -1;
    for (size_t i = 0; i < n; i++)
        model->projection[i] = (int8_t)((int)(mix64(i) % 31) - 15);
    return 0;
}

/* A word contributes -64..63, its place in the text -32..31: equal words are alike, but not the same. */
void model_components(const struct model *model, uint32_t token, int8_t *components)
{
    uint64_t word = model->text->words[token % model->text->n_words];
    uint64_t place = mix64(~(uint64_t)token);
    uint64_t a = 0, b = 0;
    for (uint32_t i = 0; i < model->hidden; i++) {
        if (i % 8 == 0) {
            a = mix64(word + i);
            b = mix64(place + i);
        }
        components[i] = (int8_t)((int)(a & 127) - 64 + (int)(b & 63) - 32);
        a >>= 8;
        b >>= 8;
    }
}

void model_to_bf16(const int8_t *components, uint16_t *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float value = (float)components[i] / 64.0f;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        out[i] = (uint16_t)(bits >> 16); /* at most 7 significant bits: nothing is cut off */
    }
}

static float from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int32_t score(const struct model *model, const int8_t *components, uint32_t expert)
{
    const int8_t *row = model->projection + (size_t)expert * model->taps;
    int32_t sum = 0;
    for (uint32_t i = 0; i < model->taps; i++)
        sum += row[i] * components[i];
    return sum;
}

void model_route(const struct model *model, const int8_t *components, const uint8_t *allowed, struct choice *out)
{
    int32_t best[MAX_TOPK];
    uint32_t n = 0;
    for (uint32_t e = 0; e < model->experts; e++) {
        if (!allowed[e])
            continue;
        int32_t s = score(model, components, e);
        if (n == model->topk && s <= best[n - 1])
            continue;
        uint32_t at = n < model->topk ? n++ : n - 1;
        for (; at > 0 && best[at - 1] < s; at--) {
            best[at] = best[at - 1];
            out[at] = out[at - 1];
        }
        best[at] = s;
        out[at].expert = (uint16_t)e;
    }
    /* The gate: the better the rank, the larger the weight. Then by number, so that lists can be compared. */
    for (uint32_t i = 0; i < n; i++) {
        struct choice c = {out[i].expert, (uint16_t)(WEIGHT_MAX - i * (WEIGHT_MAX - 1) / model->topk)};
        uint32_t at = i;
        for (; at > 0 && out[at - 1].expert > c.expert; at--)
            out[at] = out[at - 1];
        out[at] = c;
    }
}

/* An expert turns the vector by some places and scales it. */
void model_expert(const struct model *model, struct choice choice, const uint16_t *x, float *sum)
{
    uint64_t nature = mix64(UINT64_C(0xe4be47) + choice.expert);
    float gain = (float)(choice.weight * (1 + nature % GAIN_MAX));
    uint32_t turn = (uint32_t)((nature >> 32) % model->hidden);
    uint32_t rest = model->hidden - turn;
    for (uint32_t i = 0; i < rest; i++)
        sum[i] += gain * from_bf16(x[turn + i]);
    for (uint32_t i = 0; i < turn; i++)
        sum[rest + i] += gain * from_bf16(x[i]);
}
