/* SPDX-License-Identifier: Apache-2.0
 * The kernels: the exchange of slots, in both phases, and the experts. A block drives a channel, or several in turn, and waits for
 * nobody while it could do something: so it does not matter how many blocks run at once. */
#include "slots.cuh"

static __device__ const uint64_t second_look_ns = 1000000000u;

/* Thread 0's value, for the block. */
__device__ static uint32_t from_first(uint32_t value)
{
    __shared__ uint32_t shared;
    if (threadIdx.x == 0)
        shared = value;
    __syncthreads();
    value = shared;
    __syncthreads(); /* before the next call writes it */
    return value;
}

/* The first failure is the cause. Any thread. */
__device__ static void trouble(const struct work &w, const struct trouble &what)
{
    if (atomicExch(w.stop, 1u) == 0)
        *w.trouble = what;
}

__device__ static void call_failed(const struct work &w, int status, int call, uint32_t channel, uint32_t pe)
{
    struct trouble t = {};
    t.kind = TROUBLE_CALL;
    t.status = status;
    t.call = call;
    t.channel = channel;
    t.pe = pe;
    trouble(w, t);
}

/* One (channel, lane), as a block sees it. */
struct place {
    struct lane_state *state;
    struct lane_words *words;
    char *out, *in; /* its rings of slots */
    uint32_t channel;
};

__device__ static struct place place_of(const struct work &w, uint32_t channel, uint32_t lane)
{
    const size_t i = (size_t)channel * w.lanes + lane, at = i * w.ring * w.slot_bytes;
    return {w.states + i, w.words + i, w.out + at, w.in + at, channel};
}

/* ------------------------------------------------------------------ sending */

/* Slots that may be filled now, a chunk at most. Thread 0. */
__device__ static uint32_t room(const struct work &w, struct ferry_gpu &g, const struct place &p)
{
    struct lane_state *s = p.state;
    const uint64_t left = s->sends - s->posted;
    const uint32_t n = left < w.chunk ? (uint32_t)left : w.chunk;
    const uint64_t end = s->posted + n;
    /* The receiver has taken what lies in these slots of its ring ... */
    if (n == 0 || (end > w.ring && !ferry_gpu_test(&p.words->head, FERRY_CMP_GE, end - w.ring)))
        return 0;
    if (end <= s->reusable)
        return n;
    /* ... and the transport has let go of them in ours: that is what quiet says, and a credit does not. */
    const int rc = ferry_gpu_quiet(g);
    if (rc != FERRY_OK) {
        call_failed(w, rc, CALL_COMPLETE, p.channel, s->to);
        return 0;
    }
    s->reusable = s->posted + w.ring;
    return n;
}

/* The fault goes into the first chunk that PE 0 sends on channel 0: to another PE if there is one. */
__device__ static bool faulty(const struct work &w, const struct place &p, uint64_t posted, unsigned kind)
{
    if (w.inject != kind || w.me != 0 || p.channel != 0 || w.phase != PHASE_DISPATCH || posted != 0)
        return false;
    const struct lane_state *chosen = nullptr;
    for (uint32_t lane = 0; lane < w.lanes; lane++)
        if (w.states[lane].sends > 0)
            chosen = w.states + lane;
    return chosen == p.state && (kind != INJECT_LATE || chosen->to != w.me);
}

/* --inject late: the tail moves first, the data follows once the receiver has noticed. Thread 0. */
__device__ static int ship_late(struct ferry_gpu &g, const struct place &p, char *place, const char *source, uint32_t bytes, uint32_t n)
{
    const int pe = (int)p.state->to;
    int rc = ferry_gpu_signal(g, &p.words->tail, n, FERRY_SIGNAL_ADD, pe);
    if (rc == FERRY_OK)
        rc = ferry_gpu_quiet(g);
    if (rc == FERRY_OK)
        rc = ferry_gpu_wait_until(g, &p.words->suspect, FERRY_CMP_NE, 0, 0);
    if (rc == FERRY_OK)
        rc = ferry_gpu_put(g, place, source, bytes, pe);
    return rc;
}

/* One put for the chunk, which never wraps, then a strong signal: whoever sees the tail sees the chunk. The block. */
__device__ static void ship(const struct work &w, struct ferry_gpu &g, const struct place &p, uint64_t posted, uint32_t n)
{
    const size_t offset = (size_t)(posted % w.ring) * w.slot_bytes;
    char *source = p.out + offset, *target = p.in + offset; /* the peer's ring lies where ours does: symmetric addresses */
    const int pe = (int)p.state->to, strength = w.inject == INJECT_WEAK ? FERRY_SIGNAL_WEAK : 0;
    const bool late = faulty(w, p, posted, INJECT_LATE);
    int rc = FERRY_OK;
    if (threadIdx.x == 0 && faulty(w, p, posted, INJECT_CORRUPT))
        source[w.slot_bytes - 64] ^= 1;
    if (!late)
        rc = ferry_gpu_put_nbi_block(g, target, source, (uint64_t)n * w.slot_bytes, pe);
    __syncthreads(); /* all have read `posted` */
    if (threadIdx.x != 0)
        return;
    if (late)
        rc = ship_late(g, p, target, source, n * w.slot_bytes, n);
    else if (rc == FERRY_OK)
        rc = ferry_gpu_signal(g, &p.words->tail, n, FERRY_SIGNAL_ADD | strength, pe);
    if (rc != FERRY_OK)
        call_failed(w, rc, CALL_SEND, p.channel, p.state->to);
    p.state->posted = posted + n;
}

/* Composed in GPU memory, since the hash reads it again, then copied to where the transport reads it. The block; whether it sent. */
__device__ static bool send_step(const struct work &w, struct ferry_gpu &g, const struct place &p)
{
    const uint32_t n = from_first(threadIdx.x == 0 ? room(w, g, p) : 0);
    if (n == 0)
        return false;
    const uint64_t posted = p.state->posted;
    for (uint32_t i = threadIdx.x / 32; i < n; i += BLOCK_WARPS) {
        char *slot = w.scratch + ((size_t)blockIdx.x * w.chunk + i) * w.slot_bytes;
        const uint32_t token = w.phase == PHASE_DISPATCH ? slot_fill_dispatch(w, p.state, posted + i, slot)
                                                         : slot_fill_combine(w, p.state, posted + i, slot);
        slot_put_stamp(w, slot, p.channel, token, posted + i);
        slot_copy(p.out + (size_t)((posted + i) % w.ring) * w.slot_bytes, slot, w.slot_bytes);
    }
    ship(w, g, p, posted, n);
    return true;
}

/* ------------------------------------------------------------------ receiving */

/* Slots that may be read, a chunk at most. Thread 0. */
__device__ static uint32_t arrived(const struct work &w, const struct place &p)
{
    const struct lane_state *s = p.state;
    if (s->taken == s->comes)
        return 0;
    const uint64_t tail = ferry_gpu_load(&p.words->tail), ring_end = s->credited + w.ring;
    const uint64_t most = s->comes < ring_end ? s->comes : ring_end;
    if (tail <= most)
        return (uint32_t)(tail - s->taken < w.chunk ? tail - s->taken : w.chunk);
    struct trouble t = {};
    t.kind = TROUBLE_TAIL;
    t.channel = p.channel;
    t.pe = s->from;
    t.expected = most;
    t.seen = tail;
    trouble(w, t);
    return 0;
}

/* Gives credits back, but not for every token. Weak: it covers no data, so it need not wait for any. Thread 0. */
__device__ static void release(const struct work &w, struct ferry_gpu &g, const struct place &p)
{
    struct lane_state *s = p.state;
    const uint64_t owed = s->taken - s->credited;
    if (owed == 0 || (owed < w.chunk && s->taken < s->comes))
        return;
    const int rc = ferry_gpu_signal(g, &p.words->head, owed, FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK, (int)s->from);
    if (rc != FERRY_OK)
        call_failed(w, rc, CALL_RELEASE, p.channel, s->from);
    s->credited = s->taken;
}

/* Where slot `sequence` is looked at: dispatch keeps it. */
__device__ static char *copy_of(const struct work &w, const struct place &p, uint64_t sequence, uint32_t i)
{
    return w.phase == PHASE_DISPATCH ? w.arrivals + (p.state->arrival_at + sequence) * w.arrival_bytes
                                     : w.scratch + ((size_t)blockIdx.x * w.chunk + i) * w.slot_bytes;
}

/* A slot is not what its position says: tells the sender, who may be holding the data back on purpose, and looks again for a while.
 * What becomes right was late, what stays wrong was lost or changed. Warp 0. */
__device__ static void complain(const struct work &w, struct ferry_gpu &g, const struct place &p, uint64_t sequence, uint32_t i)
{
    struct trouble t = {};
    const uint32_t from = p.state->from;
    const char *slot = p.in + (size_t)(sequence % w.ring) * w.slot_bytes;
    char *copy = copy_of(w, p, sequence, i);
    int rc = FERRY_OK;
    slot_right(w, copy, p.channel, from, sequence, &t.stamp, &t.body);
    if (threadIdx.x == 0) {
        rc = ferry_gpu_signal(g, &p.words->suspect, 1, FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK, (int)from);
        rc = rc == FERRY_OK ? ferry_gpu_quiet(g) : rc;
        if (rc != FERRY_OK)
            call_failed(w, rc, CALL_TELL, p.channel, from);
    }
    t.kind = TROUBLE_SLOT;
    t.channel = p.channel;
    t.pe = from;
    t.sequence = sequence;
    const uint64_t start = ferry_gpu_clock();
    for (bool again = true; again && t.late_ns == 0;) {
        struct stamp seen;
        uint64_t body;
        slot_copy(copy, slot, w.slot_bytes);
        const bool right = slot_right(w, copy, p.channel, from, sequence, &seen, &body);
        const uint64_t elapsed = __shfl_sync(~0u, ferry_gpu_clock() - start, 0);
        t.late_ns = right ? elapsed + 1 : 0;
        again = elapsed < second_look_ns;
    }
    if (threadIdx.x == 0)
        trouble(w, t);
}

/* A slot that is right: dispatch has it in place already. A warp. */
__device__ static void take(const struct work &w, const struct place &p, uint64_t sequence, const char *slot)
{
    if (w.phase == PHASE_DISPATCH)
        return;
    const uint32_t expected = w.first_token + w.queue[p.state->queue_at + sequence], token = ((const struct stamp *)slot)->token;
    if (token == expected) {
        slot_add(w, p.state, sequence, slot);
    } else if (threadIdx.x % 32 == 0) {
        struct trouble t = {};
        t.kind = TROUBLE_TOKEN;
        t.channel = p.channel;
        t.pe = p.state->from;
        t.expected = expected;
        t.seen = token;
        trouble(w, t);
    }
}

/* The block; whether it received. */
__device__ static bool receive_step(const struct work &w, struct ferry_gpu &g, const struct place &p)
{
    __shared__ uint32_t bad; /* the first slot that is not right */
    if (threadIdx.x == 0)
        bad = ~0u;
    const uint32_t n = from_first(threadIdx.x == 0 ? arrived(w, p) : 0);
    if (n == 0)
        return false;
    const uint64_t taken = p.state->taken;
    for (uint32_t i = threadIdx.x / 32; i < n; i += BLOCK_WARPS) {
        char *copy = copy_of(w, p, taken + i, i);
        struct stamp seen;
        uint64_t body;
        slot_copy(copy, p.in + (size_t)((taken + i) % w.ring) * w.slot_bytes, w.slot_bytes);
        if (slot_right(w, copy, p.channel, p.state->from, taken + i, &seen, &body))
            take(w, p, taken + i, copy);
        else if (threadIdx.x % 32 == 0)
            atomicMin(&bad, i);
    }
    __syncthreads();
    if (bad != ~0u) {
        if (threadIdx.x < 32)
            complain(w, g, p, taken + bad, bad);
    } else if (threadIdx.x == 0) {
        p.state->taken = taken + n;
        release(w, g, p);
    }
    return true;
}

/* ------------------------------------------------------------------ a phase */

__device__ static bool complete(const struct work &w, uint32_t channel)
{
    for (uint32_t lane = 0; lane < w.lanes; lane++) {
        const struct lane_state *s = w.states + (size_t)channel * w.lanes + lane;
        if (s->posted < s->sends || s->taken < s->comes)
            return false;
    }
    return true;
}

/* One turn over all lanes. Each channel begins at another lane, so that not all of them hit one PE at once. */
__device__ static bool turn(const struct work &w, struct ferry_gpu &g, uint32_t channel)
{
    bool active = false;
    for (uint32_t i = 0; i < w.lanes; i++) {
        const struct place p = place_of(w, channel, (i + channel) % w.lanes);
        active |= send_step(w, g, p);
        active |= receive_step(w, g, p);
    }
    return active;
}

/* Whether the block goes on: not when it, or anybody, has failed, nor when all is done. Thread 0. */
__device__ static bool goes_on(const struct work &w, const struct ferry_gpu &g, unsigned idle)
{
    if (*(volatile unsigned *)w.stop)
        return false;
    if (idle % 64 == 63) { /* nothing comes: perhaps since the job is broken */
        const int rc = -(int)ferry_gpu_load(g.ring.alarm);
        if (rc != FERRY_OK) {
            call_failed(w, rc, CALL_TOKENS, blockIdx.x, w.states[(size_t)blockIdx.x * w.lanes].from);
            return false;
        }
    }
    for (uint32_t c = blockIdx.x; c < w.channels; c += gridDim.x)
        if (!complete(w, c))
            return true;
    return false;
}

__global__ void __launch_bounds__(BLOCK_THREADS) exchange(struct work w)
{
    struct ferry_gpu g = w.rings[blockIdx.x];
    unsigned idle = 0;
    while (from_first(threadIdx.x == 0 && goes_on(w, g, idle))) {
        bool active = false;
        for (uint32_t c = blockIdx.x; c < w.channels; c += gridDim.x) {
            if (c != g.ring.channel || gridDim.x < w.channels)
                g = w.rings[c];
            active |= turn(w, g, c);
        }
        idle = active ? 0 : idle + 1;
        if (idle > 4)
            __nanosleep(500);
    }
    for (uint32_t c = blockIdx.x; c < w.channels && threadIdx.x == 0 && !*(volatile unsigned *)w.stop; c += gridDim.x) {
        g = w.rings[c];
        const int rc = ferry_gpu_quiet(g);
        if (rc != FERRY_OK)
            call_failed(w, rc, CALL_QUIET, c, 0);
    }
}

/* Tells each receiver how many tokens will come: a small put and its own signal. A thread for each channel. */
__global__ void announce(struct work w)
{
    const uint32_t channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= w.channels)
        return;
    struct ferry_gpu g = w.rings[channel];
    for (uint32_t lane = 0; lane < w.lanes; lane++) {
        const struct place p = place_of(w, channel, lane);
        p.words->announcement = p.state->sends;
        const int rc = ferry_gpu_put_signal_nbi(g, &p.words->tokens, &p.words->announcement, sizeof(uint64_t), &p.words->announced, 1,
                                                FERRY_SIGNAL_SET | FERRY_SIGNAL_WEAK, (int)p.state->to);
        if (rc != FERRY_OK)
            call_failed(w, rc, CALL_ANNOUNCE, channel, p.state->to);
    }
    const int rc = ferry_gpu_quiet(g);
    if (rc != FERRY_OK)
        call_failed(w, rc, CALL_QUIET, channel, 0);
}

/* ------------------------------------------------------------------ experts */

/* The contribution of one arrival to the checksum: the same for an expert, wherever it lives. */
__device__ static void add_sum(const struct work &w, uint32_t token, const uint16_t *x, const struct choice *choices, uint32_t n)
{
    uint64_t vector = token, sum = 0;
#pragma unroll 8
    for (uint32_t i = 0; i < w.hidden; i++)
        vector = (vector ^ x[i]) * 0x9fb21c651e98df25ull + 1;
    for (uint32_t i = 0; i < n; i++)
        sum += gpu_mix64(vector ^ ((uint64_t)choices[i].expert << 16 | choices[i].weight));
    atomicAdd(w.dispatch_sum, (unsigned long long)sum);
}

/* result[i] = the sum over the choices; exact (model.c), so the order does not matter. */
__device__ static void apply(const struct work &w, const uint16_t *x, const struct choice *choices, uint32_t n, float *result)
{
    for (uint32_t i = threadIdx.x; i < w.hidden; i += blockDim.x) {
        float sum = 0;
        for (uint32_t j = 0; j < n; j++) {
            const uint64_t nature = gpu_mix64(0xe4be47ull + choices[j].expert);
            const uint32_t at = (uint32_t)((i + (nature >> 32) % w.hidden) % w.hidden);
            sum += (float)(choices[j].weight * (1 + nature % 15)) * __uint_as_float((uint32_t)x[at] << 16);
        }
        result[i] = sum;
    }
}

/* An arrival each, in turn. */
__global__ void experts(struct work w)
{
    for (uint64_t a = blockIdx.x; a < w.n_arrivals; a += gridDim.x) {
        const char *slot = w.arrivals + a * w.arrival_bytes, *body = slot + sizeof(struct stamp);
        const uint32_t n = *(const uint32_t *)body;
        const struct choice *choices = (const struct choice *)(body + sizeof(uint32_t));
        const uint16_t *x = (const uint16_t *)(slot + w.payload_offset);
        for (uint32_t j = 0; j < n && threadIdx.x == 0; j++) {
            if (gpu_expert_owner(w, choices[j].expert) != w.me) {
                struct trouble t = {};
                t.kind = TROUBLE_EXPERT;
                t.seen = choices[j].expert;
                trouble(w, t);
            }
        }
        apply(w, x, choices, n, w.results + a * w.hidden);
        if (threadIdx.x == 0)
            add_sum(w, ((const struct stamp *)slot)->token, x, choices, n);
    }
}

cudaError_t announce_start(const struct work *work, cudaStream_t stream)
{
    announce<<<(work->channels + 31) / 32, 32, 0, stream>>>(*work);
    return cudaGetLastError();
}

cudaError_t exchange_start(const struct work *work, unsigned blocks, cudaStream_t stream)
{
    exchange<<<blocks, BLOCK_THREADS, 0, stream>>>(*work);
    return cudaGetLastError();
}

cudaError_t experts_start(const struct work *work, cudaStream_t stream)
{
    if (work->n_arrivals == 0)
        return cudaSuccess;
    experts<<<work->n_arrivals < 2048 ? (unsigned)work->n_arrivals : 2048, 256, 0, stream>>>(*work);
    return cudaGetLastError();
}

cudaError_t exchange_blocks(unsigned *blocks)
{
    int device = 0, processors = 0, each = 0;
    cudaError_t rc = cudaGetDevice(&device);
    if (rc == cudaSuccess)
        rc = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (rc == cudaSuccess)
        rc = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, exchange, BLOCK_THREADS, 0);
    *blocks = rc == cudaSuccess ? (unsigned)(processors * each) : 0;
    return rc;
}
