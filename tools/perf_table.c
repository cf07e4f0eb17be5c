/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: the table of tests, in the order in which `all` runs them. Constant. */
#include "perf.h"

#include <string.h>

#define LATENCIES 1000000u
#define RATES     10000000u
#define MANY      100000000u /* from kernels */

const struct perf_test perf_tests[] = {
    {"put_lat", "put; the target polls the payload's last byte", PERF_NS, PERF_PAIR, PERF_SIZED, 8, LATENCIES,
     perf_put_lat, NULL, NULL},
    {"put_flag_lat", "put, fence, put of a flag that the target waits for", PERF_NS, PERF_PAIR, PERF_SIZED, 8,
     LATENCIES, perf_put_flag_lat, NULL, NULL},
    {"put_quiet_lat", "put and quiet", PERF_NS, PERF_ONE, PERF_SIZED, 8, LATENCIES, perf_put_quiet_lat, NULL, NULL},
    {"get_lat", "get", PERF_NS, PERF_ONE, PERF_SIZED, 8, LATENCIES, perf_get_lat, NULL, NULL},
    {"put_bw", "puts, in windows", PERF_GBS, PERF_ONE, PERF_SIZED | PERF_WINDOWS | PERF_REUSE, 65536, RATES,
     perf_put_bw, NULL, NULL},
    {"get_bw", "gets, in windows", PERF_GBS, PERF_ONE, PERF_SIZED | PERF_WINDOWS | PERF_REUSE, 65536, RATES,
     perf_get_bw, NULL, NULL},
    {"put_rate", "puts, in windows", PERF_MOPS, PERF_ONE, PERF_SIZED | PERF_WINDOWS, 8, RATES, perf_put_rate, NULL,
     NULL},
    {"iput_rate", "puts, as one ferry_iput per window", PERF_MOPS, PERF_ONE, PERF_SIZED | PERF_WINDOWS, 8, RATES,
     perf_iput_rate, NULL, NULL},
    {"p_rate", "puts of an 8-byte value, in windows", PERF_MOPS, PERF_ONE, PERF_WINDOWS, 8, RATES, perf_p_rate, NULL,
     NULL},
    {"put_signal_rate", "puts with signal, in windows", PERF_MOPS, PERF_ONE, PERF_SIZED | PERF_WINDOWS, 8, RATES,
     perf_put_signal_rate, NULL, NULL},
    {"signal_lat", "signal that the target waits for", PERF_NS, PERF_PAIR, 0, 0, LATENCIES, perf_signal_lat, NULL,
     NULL},
    {"put_signal_lat", "put with signal that the target waits for", PERF_NS, PERF_PAIR, PERF_SIZED, 8, LATENCIES,
     perf_put_signal_lat, NULL, NULL},
    {"fetch_add_lat", "atomic fetch-and-add", PERF_NS, PERF_ONE, 0, 0, LATENCIES, perf_fetch_add_lat, NULL, NULL},
    {"add_rate", "atomic adds, in windows", PERF_MOPS, PERF_ONE, PERF_WINDOWS, 0, RATES, perf_add_rate, NULL, NULL},
    {"cswap_lat", "atomic compare-and-swap", PERF_NS, PERF_ONE, 0, 0, LATENCIES, perf_cswap_lat, NULL, NULL},
    {"quiet_idle", "quiet with nothing outstanding", PERF_NS, PERF_ONE, 0, 0, RATES, perf_quiet_idle, NULL, NULL},
    {"barrier_lat", "barrier of all PEs", PERF_NS, PERF_EVERY, 0, 0, LATENCIES, perf_barrier_lat, NULL, NULL},
    {"moe_ht", "rings of tokens: chunks, signals, credits", PERF_GBS, PERF_EVERY, 0, PERF_HT_CHUNK *PERF_HT_RECORD,
     1000, perf_moe_ht, perf_moe_ht_begin, perf_moe_ht_end},
    {"moe_ll", "1024 scattered puts, a signal per expert", PERF_US, PERF_EVERY, 0, PERF_LL_RECORD, 1000, perf_moe_ll,
     perf_moe_ll_begin, perf_moe_ll_end},
    {"gpu_put_lat", "kernel: put and quiet, one thread", PERF_NS, PERF_ONE, PERF_SIZED | PERF_GPU, 8, LATENCIES,
     perf_gpu_put_lat, perf_gpu_begin, perf_gpu_end},
    {"gpu_signal_lat", "kernel: signal to its own PE, and the wait for it", PERF_NS, PERF_ONE, PERF_GPU, 0, LATENCIES,
     perf_gpu_signal_lat, perf_gpu_begin, perf_gpu_end},
    {"gpu_put_rate", "kernel: puts by warps", PERF_MOPS, PERF_ONE, PERF_SIZED | PERF_GPU | PERF_RINGS_8, 8, MANY,
     perf_gpu_put_rate, perf_gpu_begin, perf_gpu_end},
    {"gpu_put_bw", "kernel: long puts by warps", PERF_GBS, PERF_ONE, PERF_SIZED | PERF_GPU | PERF_RINGS_8, 7168, MANY,
     perf_gpu_put_bw, perf_gpu_begin, perf_gpu_end},
    {"gpu_fetch_add_lat", "kernel: atomic fetch-and-add, one thread", PERF_NS, PERF_ONE, PERF_GPU, 0, LATENCIES,
     perf_gpu_fetch_add_lat, perf_gpu_begin, perf_gpu_end},
    {"gpu_command_rate", "kernel: put commands by threads, null transport", PERF_MOPS, PERF_ONE,
     PERF_GPU | PERF_RINGS_8, 8, MANY, perf_gpu_command_rate, perf_gpu_begin, perf_gpu_end},
    {"gpu_moe_ht", "kernel: rings of tokens; the peer's CPU gives credits", PERF_GBS, PERF_PAIR,
     PERF_GPU | PERF_RINGS_8, PERF_HT_CHUNK *PERF_HT_RECORD, MANY, perf_gpu_moe_ht, perf_gpu_begin, perf_gpu_end},
    {"gpu_moe_ll", "kernel: 1024 scattered puts, a signal per expert, quiet", PERF_US, PERF_ONE,
     PERF_GPU | PERF_RINGS_8, PERF_LL_RECORD, MANY, perf_gpu_moe_ll, perf_gpu_begin, perf_gpu_end},
    {0}};

bool perf_selected(const struct perf_options *options, const struct perf_test *test)
{
    if (options->no_gpu && test->flags & PERF_GPU)
        return false;
    return strcmp(options->test, "all") == 0 || strcmp(options->test, test->name) == 0;
}

int perf_channels(const struct perf *perf, const struct perf_test *test)
{
    int own = 1;
    if (test->flags & PERF_GPU) {
        if (!(test->flags & PERF_RINGS_8))
            return 1;
        own = 8;
    } else if (test->batch == perf_moe_ht) {
        /* Rings of both directions take about 2 MB per channel and peer: no more than 64 MB by default. */
        own = 32 / (perf->n_pes - 1);
        own = own > PERF_HT_CHANNELS ? PERF_HT_CHANNELS : own < 1 ? 1 : own;
    } else if (test->batch == perf_moe_ll) {
        own = perf_moe_ll_local(perf);
        own = own > PERF_LL_CHANNELS ? PERF_LL_CHANNELS : own;
    } else if (!(test->flags & PERF_WINDOWS)) {
        return 1;
    }
    return perf->options.channels > 0 ? perf->options.channels : own;
}
