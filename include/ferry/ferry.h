/* SPDX-License-Identifier: Apache-2.0
 * Ferry's interface for applications: one-sided communication between the PEs of a job.
 * Lengths are in bytes. Functions return FERRY_OK or a negative enum ferry_status, unless said otherwise;
 * the reason in words is in ferry_last_error. docs/semantics.md has the ordering and completion rules. */
#ifndef FERRY_FERRY_H
#define FERRY_FERRY_H

#include <ferry/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FERRY_VERSION_MAJOR 0
#define FERRY_VERSION_MINOR 1
#define FERRY_VERSION_PATCH 0
#define FERRY_VERSION_STRING "0.1.0"

#define FERRY_API __attribute__((visibility("default")))

/* A job as one of its PEs sees it. A process may hold several, of one or of many jobs. Where a function takes a
 * job, NULL means the default job: the one most recently initialised with `job` NULL and not yet finalised. */
typedef struct ferry_job ferry_job_t;
/* A context: one channel, the unit of ordering and of concurrency. Used by one thread at a time, except the default
 * context, which takes a lock. NULL means the default context of the default job. */
typedef struct ferry_ctx ferry_ctx_t;
/* A registered buffer of this PE. */
typedef struct ferry_buffer ferry_buffer_t;

/* Name of a status, "FERRY_ERR_PEER"; static, never NULL. Any thread. */
FERRY_API const char *ferry_status_string(int status);
/* Version of the library that is loaded, "0.1.0". Any thread. */
FERRY_API const char *ferry_version(void);

/* ------------------------------------------------------------------ start and end */

#define FERRY_UNIQUEID_BYTES 128
/* Where the PEs of one job meet, with the secret that lets them in: keep it from other users. Plain bytes. */
typedef struct ferry_uniqueid {
    uint8_t bytes[FERRY_UNIQUEID_BYTES];
} ferry_uniqueid_t;

/* Makes an id. This process then serves the meeting from a thread of its own, until every PE has arrived or
 * FERRY_TIMEOUT has passed. The id is for one job and one use. Distribute it by any means. */
FERRY_API int ferry_uniqueid_create(ferry_uniqueid_t *id);
/* Text form (hexadecimal), for environments and files; `text` holds FERRY_UNIQUEID_TEXT bytes. */
#define FERRY_UNIQUEID_TEXT (2 * FERRY_UNIQUEID_BYTES + 1)
FERRY_API int ferry_uniqueid_to_text(const ferry_uniqueid_t *id, char *text);
FERRY_API int ferry_uniqueid_from_text(const char *text, ferry_uniqueid_t *id);

/* For launchers: a meeting that serves any number of jobs by one id, one after another. A job is complete when all of
 * its ranks have arrived; who comes then begins the next. FERRY_TIMEOUT counts for each, from its first PE on. */
typedef struct ferry_meeting ferry_meeting_t;
/* Makes the id, and the thread of this process that serves it until ferry_meeting_close. */
FERRY_API int ferry_meeting_open(ferry_uniqueid_t *id, ferry_meeting_t **meeting);
/* The process of this rank has ended, well or not: a job that still waits for it fails at once, with that reason, and
 * so do those that begin later. Any thread. */
FERRY_API int ferry_meeting_lost(ferry_meeting_t *meeting, int rank);
/* Ends the thread; a job that stands goes on. No other call may use the meeting any more. */
FERRY_API int ferry_meeting_close(ferry_meeting_t *meeting);

/* The application's own way to exchange bytes, called by ferry_init in the calling thread only, by all PEs in the same order,
 * and not after it has returned. 0 is success. */
typedef struct ferry_bootstrap_functions {
    size_t size; /* sizeof */
    void *arg;
    /* all[i * length] = contribution of PE i */
    int (*allgather)(void *arg, const void *mine, void *all, size_t length);
    int (*barrier)(void *arg);
    /* Why the latest call failed, for the message; NULL: no words for it. May itself be NULL. */
    const char *(*reason)(void *arg);
} ferry_bootstrap_functions_t;

enum ferry_bootstrap {
    /* What FERRY_BOOTSTRAP names, else what the environment shows: FERRY_RANK, FERRY_SIZE, FERRY_ID, as ferry-run sets them;
     * a launcher that speaks PMIx (mpirun, srun --mpi=pmix); nothing: a job of 1. A program may begin a job after the end of
     * another. */
    FERRY_BOOTSTRAP_ENV = 0,
    FERRY_BOOTSTRAP_UNIQUEID = 1,  /* rank, n_pes and id below */
    FERRY_BOOTSTRAP_FUNCTIONS = 2  /* rank, n_pes and functions below */
};

/* What ferry_init is told. Zero it, set size, then what you need: every zero is a default. */
typedef struct ferry_attr {
    size_t size; /* sizeof */
    int bootstrap; /* enum ferry_bootstrap */
    int rank;
    int n_pes;
    const ferry_uniqueid_t *id;
    const ferry_bootstrap_functions_t *functions;
    /* "NAME=value" strings that take precedence over the environment (FERRY_HEAP_SIZE=1G), ended by NULL; or NULL */
    const char *const *options;
    /* Receives log lines (without newline) instead of stderr; called from any thread; or NULL */
    void (*log)(void *arg, int level, const char *line);
    void *log_arg;
    /* Receives the record when ferry_init fails; or NULL */
    struct ferry_error *error;
} ferry_attr_t;

/* Collective. Joins the job. attr NULL: all defaults. job NULL: it becomes the default job. On failure *job is NULL,
 * the reason is in attr->error and in the log. */
FERRY_API int ferry_init(const ferry_attr_t *attr, ferry_job_t **job);
/* Collective. Completes everything outstanding, waits for the others, releases everything. Contexts, memory and pointers of
 * the job are gone then. Returns an error, but still releases everything, if a peer is dead or the job was aborted. */
FERRY_API int ferry_finalize(ferry_job_t *job);
/* -1 without a job. */
FERRY_API int ferry_my_pe(ferry_job_t *job);
FERRY_API int ferry_n_pes(ferry_job_t *job);
/* Ends the job everywhere: every blocked or later call on every PE returns FERRY_ERR_ABORTED. Does not exit. */
FERRY_API int ferry_abort(ferry_job_t *job, int code);
/* The latest failure of the calling thread in this job; else the latest failure of the job (a peer's death, an error of
 * the transport); else a record with status FERRY_OK. */
FERRY_API int ferry_last_error(ferry_job_t *job, struct ferry_error *record);
/* After a peer died, waits and barriers end with FERRY_ERR_PEER. This says that the caller knows of all deaths so far:
 * waits on local memory, and operations with the living, go on. Barriers stay broken. */
FERRY_API int ferry_acknowledge_failures(ferry_job_t *job);
/* 1: alive as far as known, 0: dead, negative: bad argument. */
FERRY_API int ferry_pe_alive(ferry_job_t *job, int pe);

/* ------------------------------------------------------------------ symmetric heap */

/* Collective, same arguments everywhere, an implied barrier. Memory at the same offset of every PE's heap, aligned to
 * 64 bytes at least. NULL on failure (ferry_last_error says why) or for size 0. Contents: zero the first time, else
 * undefined; of GPU memory always undefined. The kind of memory is what FERRY_HEAP_KIND says. */
FERRY_API void *ferry_malloc(ferry_job_t *job, size_t size);
FERRY_API void *ferry_calloc(ferry_job_t *job, size_t count, size_t size);
FERRY_API void *ferry_align(ferry_job_t *job, size_t alignment, size_t size);

/* flags of an allocation. SINGLE_WRITER: each word has at most one remote writer at a time, as cumulative counters have,
 * so that every writer may use the fastest atomics it has. */
#define FERRY_ALLOC_SINGLE_WRITER (1u << 0)
#define FERRY_MEMORY_DEFAULT (-1) /* kind of memory: what FERRY_HEAP_KIND says */

/* What ferry_alloc is told. Zero it, set size, then what you need. */
typedef struct ferry_alloc_attr {
    size_t size; /* sizeof */
    size_t bytes;
    size_t alignment; /* a power of two up to 2 MiB; 0: 64 */
    int kind;         /* enum ferry_memory_kind, or FERRY_MEMORY_DEFAULT */
    unsigned flags;   /* FERRY_ALLOC_… */
} ferry_alloc_attr_t;
/* Like ferry_malloc. GPU memory can be had where a transport allocates it. */
FERRY_API void *ferry_alloc(ferry_job_t *job, const ferry_alloc_attr_t *attr);
/* Collective, same arguments everywhere, an implied barrier. The block at `address` with the new size, in place or elsewhere,
 * of the same kind and flags, aligned to 64 bytes. Each PE keeps its own bytes up to the smaller size: what peers put into
 * the block must be complete. NULL on failure: the block is as before. address NULL: ferry_malloc; size 0: ferry_free, and
 * NULL. */
FERRY_API void *ferry_realloc(ferry_job_t *job, void *address, size_t size);
/* Collective. NULL is allowed. */
FERRY_API int ferry_free(ferry_job_t *job, void *address);
/* Address at which this process can load and store the counterpart of `address` on `pe`; NULL if it cannot.
 * Stores through it are ordered by fence and quiet like puts. */
FERRY_API void *ferry_ptr(ferry_job_t *job, const void *address, int pe);
/* Address at which kernels on this PE's GPU load and store the counterpart of `address` on `pe`: in GPU memory, this PE's or a
 * peer's that is mapped here (FERRY_P2P), or in host memory, which the call pins for the GPU. NULL if they cannot, and
 * ferry_last_error says why. The address holds as long as the block. Opens CUDA if that was not done yet, so call it before kernels
 * run that others wait for. Kernels order their own loads and stores: fence and quiet know nothing of them. Any thread. */
FERRY_API void *ferry_device_ptr(ferry_job_t *job, const void *address, int pe);
/* Local. Registers memory of this PE as a source or destination, for transports that want that; never required.
 * It must stay mapped until deregistered. */
FERRY_API int ferry_register(ferry_job_t *job, void *address, size_t length, ferry_buffer_t **buffer);
/* Collective, same length everywhere. Memory of the program (8-byte aligned, each PE its own address) that peers then reach
 * like the heap: an address in this PE's buffer names the same offset in the others' buffers. Fails on every PE where a
 * transport cannot share such memory: loopback shares it among threads of a process, not among processes. */
FERRY_API int ferry_register_symmetric(ferry_job_t *job, void *address, size_t length, ferry_buffer_t **buffer);
/* Collective for a symmetric buffer, and operations on it must be complete; local for any other. On failure the buffer stays
 * as it is. */
FERRY_API int ferry_deregister(ferry_buffer_t *buffer);

/* ------------------------------------------------------------------ contexts */

/* Local. flags: 0. FERRY_ERR_LIMIT when FERRY_CHANNELS are in use. */
FERRY_API int ferry_ctx_create(ferry_job_t *job, unsigned flags, ferry_ctx_t **ctx);
/* Completes what is outstanding (quiet), then releases. The default context cannot be destroyed. */
FERRY_API int ferry_ctx_destroy(ferry_ctx_t *ctx);
FERRY_API ferry_ctx_t *ferry_ctx_default(ferry_job_t *job);

/* ------------------------------------------------------------------ put, get, signal
 * `dest` of a put and `src` of a get are symmetric addresses: this PE's own, naming the counterpart on `pe`.
 * The other buffer is any memory of this PE. Length 0 does nothing. No two buffers may overlap. */

/* Returns when `src` may be reused; delivered after quiet. */
FERRY_API int ferry_put(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe);
/* `src` may be reused after quiet. */
FERRY_API int ferry_put_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe);
/* Returns when `dest` holds the data. */
FERRY_API int ferry_get(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe);
/* `dest` holds the data after quiet. */
FERRY_API int ferry_get_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe);

enum ferry_signal_op { FERRY_SIGNAL_SET = 0, FERRY_SIGNAL_ADD = 1 };
/* Or-ed to the operation: covers only its own data, not the puts before it. */
#define FERRY_SIGNAL_WEAK 0x100

/* A put, and then an update of the 64-bit word `signal` on the same PE. Whoever sees the update (wait_until, test) sees the
 * data, and every earlier put of this context to this PE. Length 0 is allowed. */
FERRY_API int ferry_put_signal(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal,
                               uint64_t value, int op, int pe);
FERRY_API int ferry_put_signal_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal,
                                   uint64_t value, int op, int pe);
/* The signal alone; covers every earlier put of this context to this PE. */
FERRY_API int ferry_signal(ferry_ctx_t *ctx, uint64_t *signal, uint64_t value, int op, int pe);

/* ------------------------------------------------------------------ 64-bit atomics, on symmetric words, 8-aligned
 * Those without a result complete at quiet. Those with one return when *old holds it. */

FERRY_API int ferry_atomic_set(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe);
FERRY_API int ferry_atomic_add(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe);
FERRY_API int ferry_atomic_inc(ferry_ctx_t *ctx, uint64_t *dest, int pe);
FERRY_API int ferry_atomic_and(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe);
FERRY_API int ferry_atomic_or(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe);
FERRY_API int ferry_atomic_xor(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe);
FERRY_API int ferry_atomic_fetch(ferry_ctx_t *ctx, const uint64_t *src, uint64_t *old, int pe);
FERRY_API int ferry_atomic_swap(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe);
/* Stores `value` if the word equals `compare`; *old is the word before, either way. */
FERRY_API int ferry_atomic_compare_swap(ferry_ctx_t *ctx, uint64_t *dest, uint64_t compare, uint64_t value, uint64_t *old,
                                        int pe);
FERRY_API int ferry_atomic_fetch_add(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe);
FERRY_API int ferry_atomic_fetch_inc(ferry_ctx_t *ctx, uint64_t *dest, uint64_t *old, int pe);
FERRY_API int ferry_atomic_fetch_and(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe);
FERRY_API int ferry_atomic_fetch_or(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe);
FERRY_API int ferry_atomic_fetch_xor(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe);

/* ------------------------------------------------------------------ ordering and completion */

/* Puts, atomics and signals of this context issued later are not visible at a PE before those issued earlier to that PE. */
FERRY_API int ferry_fence(ferry_ctx_t *ctx);
/* Everything issued on this context so far (to `pe`) is complete and visible to all; gets and fetched values are in place. */
FERRY_API int ferry_quiet(ferry_ctx_t *ctx);
FERRY_API int ferry_quiet_pe(ferry_ctx_t *ctx, int pe);

/* ------------------------------------------------------------------ waiting for this PE's own memory
 * Words are 64-bit, in the symmetric heap. A condition that was seen orders later loads after it (acquire). */

enum ferry_cmp { FERRY_CMP_EQ = 0, FERRY_CMP_NE, FERRY_CMP_GT, FERRY_CMP_GE, FERRY_CMP_LT, FERRY_CMP_LE };

/* Unsigned comparison `*word cmp value`. No time limit; ends with FERRY_ERR_PEER when a PE died, FERRY_ERR_ABORTED after an
 * abort. */
FERRY_API int ferry_wait_until(ferry_job_t *job, const uint64_t *word, int cmp, uint64_t value);
/* Words with mask[i] != 0 are left out; mask may be NULL. *index: which one holds; SIZE_MAX if none is left to wait for. */
FERRY_API int ferry_wait_until_any(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                                   uint64_t value, size_t *index);
FERRY_API int ferry_wait_until_all(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                                   uint64_t value);
/* 1: holds, 0: does not, negative: error; FERRY_ERR_PEER or FERRY_ERR_ABORTED if it does not hold and a wait would end so. */
FERRY_API int ferry_test(ferry_job_t *job, const uint64_t *word, int cmp, uint64_t value);
FERRY_API int ferry_test_any(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp, uint64_t value,
                             size_t *index);
FERRY_API int ferry_test_all(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp, uint64_t value);

/* ------------------------------------------------------------------ collective */

/* Quiet on the default context, then a barrier. Contexts of your own: quiet them before. One thread per PE. */
FERRY_API int ferry_barrier(ferry_job_t *job);
/* A barrier that completes nothing. */
FERRY_API int ferry_sync(ferry_job_t *job);

/* ------------------------------------------------------------------ looking in */

/* Counters of this PE's job, monotonic. Any thread; values of other threads may lag. */
typedef struct ferry_stats {
    uint32_t size; /* sizeof, set by the caller */
    uint32_t channels;
    uint64_t puts, gets, atomics, signals;
    uint64_t bytes_put, bytes_got;
    uint64_t fences, fenced_operations, drains; /* drains: fences that had to wait for completion */
    uint64_t quiets, again;                     /* quiets that had something to complete; posts that had to be repeated */
    uint64_t mailed;                            /* operations that the target's CPU was asked to do */
} ferry_stats_t;
FERRY_API int ferry_stats_get(ferry_job_t *job, ferry_stats_t *stats);

/* The ways from this PE to another one, as the job chose them at init. Names of transports; of atomics also "mailbox", the
 * target's CPU on request, or both, as "loopback, mailbox", where the transport lacks kinds. Any thread. */
typedef struct ferry_path {
    uint32_t size; /* sizeof, set by the caller */
    int32_t same_host;  /* 1: of ferry_team_shared */
    char data[32];      /* puts, gets, and signals that SET */
    char atomic64[48];
    char atomic32[48];
} ferry_path_t;
FERRY_API int ferry_path_get(ferry_job_t *job, int pe, ferry_path_t *path);

/* The plugins and options that this library knows, as a document for tools: calls `row` for each. Needs no job.
 * what: "plugin" (name, path, state, reason), "capability" (plugin, capability, value), "option" (name, value, origin, doc),
 * "choice" (option, accepted value), "explain" (transport, feature in value, native or made in state, memory kind in origin,
 * cost in doc: for a job whose only transport it is), "search" (path). Unused fields are empty. `spec` names the transports to look at, NULL: FERRY_TRANSPORT; all != 0: also
 * everything found in the search folders. */
typedef struct ferry_info_row {
    const char *what, *name, *value, *state, *origin, *doc;
} ferry_info_row_t;
FERRY_API int ferry_info(const char *spec, int all, void (*row)(void *arg, const ferry_info_row_t *row), void *arg);
/* Checks this host, for the library and for the transports of `spec` (auto: every one in the folders). Rows "finding": owner
 * ("core", or a transport) in name, what was looked at in value, "ok", "warning" or "problem" in state, what was found in
 * doc, what to do in origin. A problem: its owner cannot be used. */
FERRY_API int ferry_doctor(const char *spec, void (*row)(void *arg, const ferry_info_row_t *row), void *arg);
/* Which devices n_local PEs of this host would use. nodes[i]: bits of the NUMA nodes that PE i runs on; NULL: all run where the
 * caller may. Rows "plan": transport in name, the PE in value, its devices in state, why in doc; none from transports
 * that have nothing to choose. */
FERRY_API int ferry_plan(const char *spec, int n_local, const uint64_t *nodes,
                         void (*row)(void *arg, const ferry_info_row_t *row), void *arg);

/* ------------------------------------------------------------------ 32-bit atomics, on symmetric words, 4-aligned
 * As the 64-bit ones; not atomic towards 64-bit operations on the same memory. */

FERRY_API int ferry_atomic32_set(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, int pe);
FERRY_API int ferry_atomic32_add(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, int pe);
FERRY_API int ferry_atomic32_inc(ferry_ctx_t *ctx, uint32_t *dest, int pe);
FERRY_API int ferry_atomic32_and(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, int pe);
FERRY_API int ferry_atomic32_or(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, int pe);
FERRY_API int ferry_atomic32_xor(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, int pe);
FERRY_API int ferry_atomic32_fetch(ferry_ctx_t *ctx, const uint32_t *src, uint32_t *old, int pe);
FERRY_API int ferry_atomic32_swap(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, uint32_t *old, int pe);
FERRY_API int ferry_atomic32_compare_swap(ferry_ctx_t *ctx, uint32_t *dest, uint32_t compare, uint32_t value,
                                          uint32_t *old, int pe);
FERRY_API int ferry_atomic32_fetch_add(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, uint32_t *old, int pe);
FERRY_API int ferry_atomic32_fetch_inc(ferry_ctx_t *ctx, uint32_t *dest, uint32_t *old, int pe);
FERRY_API int ferry_atomic32_fetch_and(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, uint32_t *old, int pe);
FERRY_API int ferry_atomic32_fetch_or(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, uint32_t *old, int pe);
FERRY_API int ferry_atomic32_fetch_xor(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, uint32_t *old, int pe);

/* ------------------------------------------------------------------ single values, strided data
 * Rules of put and get: threads, errors, and which side is symmetric, are theirs. */

/* A put of one value; delivered after quiet. */
FERRY_API int ferry_p(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe);
FERRY_API int ferry_p32(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, int pe);
/* A get of one value; returns when it is in *value. */
FERRY_API int ferry_g(ferry_ctx_t *ctx, const uint64_t *src, uint64_t *value, int pe);
FERRY_API int ferry_g32(ferry_ctx_t *ctx, const uint32_t *src, uint32_t *value, int pe);
/* `count` elements of `element` bytes; element i goes from src + i * src_stride to dest + i * dest_stride. Strides
 * count elements, and may be negative or zero (a stride of 0 at the destination: which element stays is undefined). The
 * symmetric side lies in one allocation, or FERRY_ERR_ARG and nothing is written. iput returns when `src` may be
 * reused, iget when `dest` holds the data. */
FERRY_API int ferry_iput(ferry_ctx_t *ctx, void *dest, const void *src, ptrdiff_t dest_stride, ptrdiff_t src_stride,
                         size_t element, size_t count, int pe);
FERRY_API int ferry_iget(ferry_ctx_t *ctx, void *dest, const void *src, ptrdiff_t dest_stride, ptrdiff_t src_stride,
                         size_t element, size_t count, int pe);

/* ------------------------------------------------------------------ waiting for several words
 * As ferry_wait_until_any and its relatives: own words, masks, unsigned comparison, any thread, no time limit.
 * `some`: at least one holds, or none is left to wait for. indices[0 .. *count) are those that hold, in order; there is
 * room for n.
 * `_vector`: word i is compared with values[i]. */

FERRY_API int ferry_wait_until_some(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                                    uint64_t value, size_t *indices, size_t *count);
FERRY_API int ferry_test_some(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                              uint64_t value, size_t *indices, size_t *count);
FERRY_API int ferry_wait_until_any_vector(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                                          const uint64_t *values, size_t *index);
FERRY_API int ferry_wait_until_all_vector(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                                          const uint64_t *values);
FERRY_API int ferry_wait_until_some_vector(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                                           const uint64_t *values, size_t *indices, size_t *count);
/* 1: holds, 0: does not (*index SIZE_MAX, *count 0), negative: as ferry_test. */
FERRY_API int ferry_test_any_vector(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                                    const uint64_t *values, size_t *index);
FERRY_API int ferry_test_all_vector(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                                    const uint64_t *values);
FERRY_API int ferry_test_some_vector(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                                     const uint64_t *values, size_t *indices, size_t *count);

/* ------------------------------------------------------------------ teams
 * An ordered set of PEs, numbered from 0 within it. Operations on memory take the job's numbers: ferry_team_translate
 * gives them. A null team is refused. A team is its job's: ferry_finalize releases those that are left. */

typedef struct ferry_team ferry_team_t;

/* All PEs of the job, in order; the PEs on the host of this one. They belong to the job: never destroyed. NULL without
 * a job. */
FERRY_API ferry_team_t *ferry_team_world(ferry_job_t *job);
FERRY_API ferry_team_t *ferry_team_shared(ferry_job_t *job);
/* Collective over `parent`, same arguments. The team of its members start, start + stride, … (`size` of them, all below
 * the parent's size); stride may be negative. *team is NULL on a PE that is not among them. Making and destroying
 * teams: one thread per PE at a time. FERRY_ERR_LIMIT on all when some PE of the parent is in as many teams as it can
 * be (22 of your own). */
FERRY_API int ferry_team_split_strided(ferry_team_t *parent, int start, int stride, int size, ferry_team_t **team);
/* Collective over the team. It is gone then, in any case. */
FERRY_API int ferry_team_destroy(ferry_team_t *team);
/* This PE's number in the team; how many there are; -1 for a null team. Any thread. */
FERRY_API int ferry_team_my_pe(ferry_team_t *team);
FERRY_API int ferry_team_n_pes(ferry_team_t *team);
/* The number in team `to` of PE `pe` of team `from`; -1 if it is not in it, or `pe` is out of range. Any thread. */
FERRY_API int ferry_team_translate(ferry_team_t *from, int pe, ferry_team_t *to);

/* ------------------------------------------------------------------ collective over a team
 * Called by every member, with the same sizes and other scalars, in the same order for each team; by one thread per PE
 * and team at a time (different teams may be used by different threads). Buffers are any memory of this PE, symmetric
 * or not, of any alignment; they are the caller's again on return, and `dest` is complete. They do not overlap, except
 * where "in place" is allowed. Size 0 moves nothing and waits for nobody. These calls order nothing else: quiet what
 * the others shall see. FERRY_ERR_PEER when a member died, FERRY_ERR_ABORTED after an abort, FERRY_ERR_MISMATCH where
 * members are seen to call differently; contents of `dest` are undefined then, and later calls on the team fail. */

/* Quiet on the default context, then a barrier of the members. */
FERRY_API int ferry_team_barrier(ferry_team_t *team);
/* A barrier that completes nothing. */
FERRY_API int ferry_team_sync(ferry_team_t *team);
/* `length` bytes of member `root` (its `src`; not read on others) to everybody's `dest`. In place: dest == src on the
 * root. */
FERRY_API int ferry_broadcast(ferry_team_t *team, void *dest, const void *src, size_t length, int root);
/* Member i's `length` bytes go to dest + i * length, on every member. In place: src == dest + my_pe * length. */
FERRY_API int ferry_allgather(ferry_team_t *team, void *dest, const void *src, size_t length);
/* src + j * length goes to member j, to its dest + i * length, i being the sender. In place: dest == src. */
FERRY_API int ferry_alltoall(ferry_team_t *team, void *dest, const void *src, size_t length);

enum ferry_type {
    FERRY_TYPE_INT32 = 0,
    FERRY_TYPE_INT64 = 1,
    FERRY_TYPE_UINT32 = 2,
    FERRY_TYPE_UINT64 = 3,
    FERRY_TYPE_FLOAT = 4,
    FERRY_TYPE_DOUBLE = 5
};
enum ferry_reduce_op { FERRY_REDUCE_SUM = 0, FERRY_REDUCE_MIN = 1, FERRY_REDUCE_MAX = 2 };

/* Combines `count` elements, one by one, over all members; every member gets the result, with the same bits. Integer
 * sums wrap; the order of a floating sum depends on the number of members only; a NaN makes sum, min and max NaN. In
 * place: dest == src. */
FERRY_API int ferry_reduce(ferry_team_t *team, void *dest, const void *src, size_t count, int type, int op);

/* ------------------------------------------------------------------ being told */

/* Called with the record of each failure that belongs to no call: a PE died, another PE aborted, a transport reports an
 * error. It runs on a thread of the library, and holds up the job's heartbeat: it returns soon, waits for nothing, and
 * of Ferry calls only ferry_abort, ferry_pe_alive, ferry_last_error, ferry_set_error_handler. The record is valid
 * during the call. */
typedef void (*ferry_error_handler_t)(void *arg, const struct ferry_error *record);
/* Local, any thread. From now on; one handler per job, NULL: none. On return the previous one is not running (unless it
 * is the caller) and will not run. */
FERRY_API int ferry_set_error_handler(ferry_job_t *job, ferry_error_handler_t handler, void *arg);

/* ------------------------------------------------------------------ command rings
 * A ring takes operations from threads that make no calls of this library, of which there may be many: they write commands
 * (ferry/ring.h), and the library's proxy threads carry them out, each ring in order, on a context of its own, which counts among
 * FERRY_CHANNELS. Rules of fence, quiet and signals are those of a context. docs/gpu.md says how it works. */

typedef struct ferry_ring ferry_ring_t;
struct ferry_ring_handle; /* ferry/ring.h */

/* Local, any thread. slots: a power of two from FERRY_RING_SLOTS_MIN to FERRY_RING_SLOTS_MAX; 0: 4096. flags: 0. */
FERRY_API int ferry_ring_create(ferry_job_t *job, size_t slots, unsigned flags, ferry_ring_t **ring);
/* What producers need; each gets a copy of its own. layout: FERRY_RING_LAYOUT, as the caller was built with; FERRY_ERR_ABI if the
 * library has another. */
FERRY_API int ferry_ring_export(ferry_ring_t *ring, uint32_t layout, struct ferry_ring_handle *handle);
/* Carries out and completes what was posted. Producers may be in calls: those that post meanwhile, or later, are told
 * (FERRY_ERR_STATE), and none stays in a wait. The status of the first failure that ferry_ring_error has not taken. */
FERRY_API int ferry_ring_close(ferry_ring_t *ring);
/* The same, then releases: no producer may be in a call, or use its handle any more. ferry_finalize does it with rings that are
 * left. */
FERRY_API int ferry_ring_destroy(ferry_ring_t *ring);
/* Takes the record of the first command that failed since the last call; its status is FERRY_OK if none did. Producers see the
 * failure, by ferry_ring_status and from waits, until it is taken. Any thread. */
FERRY_API int ferry_ring_error(ferry_ring_t *ring, struct ferry_error *record);

#ifdef __cplusplus
}
#endif
#endif
