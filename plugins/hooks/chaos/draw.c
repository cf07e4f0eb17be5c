/* SPDX-License-Identifier: Apache-2.0
 * Decisions: a hash of seed, stream, operation and question, so that they depend on nothing else, and a run of the same
 * operations meets the same ones. Pure functions. */
#include "chaos.h"

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the input moves about half of the output. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t chaos_key(uint64_t seed, uint32_t pe, uint32_t channel, uint32_t peer)
{
    return mix(mix(mix(mix(seed) + pe) + channel) + peer);
}

uint64_t chaos_draw(const struct chaos_stream *s, uint64_t index, unsigned what)
{
    return mix(mix(s->key + index) + what);
}

bool chaos_chance(const struct chaos_stream *s, uint64_t index, unsigned what, uint32_t percent)
{
    return chaos_draw(s, index, what) % 100 < percent;
}
