/* SPDX-License-Identifier: Apache-2.0
 * The core's option table: every FERRY_… variable that the core itself reads. docs/configuration.md is made from it.
 * Constant data; any thread. */
#include "option.h"

const struct ferry_option fy_core_options[] = {
    {"transport", FERRY_OPTION_STRING, 0, "auto", NULL,
     "Transport to use: a name, a path to a plugin (.so), a comma list tried in order for each peer, or auto. A name "
     "that is given never falls back to another."},
    {"plugin_path", FERRY_OPTION_STRING, 0, "", NULL,
     "Folders, separated by ':', searched for plugins before the ones that belong to the library."},
    {"hooks", FERRY_OPTION_STRING, 0, "", NULL,
     "Comma list of hooks that wrap the chosen transports, the first outermost."},
    {"heap_size", FERRY_OPTION_SIZE, 0, "64G", NULL,
     "Address space reserved for the symmetric heap of a PE, in bytes; memory is taken as it is allocated."},
    {"heap_chunk", FERRY_OPTION_SIZE, 0, "16M", NULL,
     "Smallest piece, in bytes, by which the heap grows; each piece is registered as one segment."},
    {"heap_kind", FERRY_OPTION_CHOICE, 0, "host", "host|gpu|cuda",
     "Kind of memory that ferry_malloc gives; gpu, or cuda, which is the same, includes FERRY_GPU_MEMORY=yes."},
    {"gpu_memory", FERRY_OPTION_BOOL, 0, "no", NULL,
     "Whether memory of GPUs can be allocated, by ferry_alloc; the same on every PE. Operations on host memory cost a little more "
     "then."},
    {"gpu_device", FERRY_OPTION_INT, 0, "-1", NULL,
     "Number of the GPU to use, as the driver counts them, where the thread that first needs one has made none current; -1: the PEs "
     "of a host take them in turn."},
    {"p2p", FERRY_OPTION_CHOICE, 0, "all", "all|off",
     "Whether ferry_device_ptr gives kernels addresses of peers' memory; off: of the PE's own only, so that they use rings."},
    {"heap_pages", FERRY_OPTION_CHOICE, 0, "auto", "auto|small|huge",
     "Pages behind the heap. auto: huge pages of the kernel's pool if enough of them are free, else transparent ones where "
     "the kernel makes them, else small; huge: of the pool, or an error."},
    {"channels", FERRY_OPTION_INT, 0, "64", NULL,
     "Most contexts that exist at once in a PE, the default one included."},
    {"timeout", FERRY_OPTION_SECONDS, 0, "60", NULL,
     "Bound, in seconds, on init, connecting and operations already posted; waits on memory, barriers and other collective "
     "calls have none. 0: no bound."},
    {"peer_timeout", FERRY_OPTION_SECONDS, 0, "10", NULL,
     "Seconds without a sign of life after which a PE counts as dead; 0: none does, and a lost connection ends only what all "
     "PEs have to take part in, as finalize."},
    {"queue_ops", FERRY_OPTION_INT, 0, "0", NULL,
     "Most operations in flight per channel and peer; 0: what the transport takes."},
    {"queue_bytes", FERRY_OPTION_SIZE, 0, "0", NULL, "Most bytes in flight per channel and peer; 0: no bound."},
    {"bounce_size", FERRY_OPTION_SIZE, 0, "256K", NULL,
     "Bytes of registered memory per context through which local memory that is not registered is copied, for transports that "
     "want theirs registered; longer operations register the memory until quiet."},
    {"direct", FERRY_OPTION_BOOL, 0, "yes", NULL,
     "Whether small operations go by the library's own loads and stores where a transport maps the peer's memory and allows it; "
     "no sends every operation through the transport."},
    {"proxy_threads", FERRY_OPTION_INT, 0, "0", NULL,
     "Most threads that carry out the commands of rings; 0: one for every 4 rings. Never more than there are cores to use."},
    {"proxy_cores", FERRY_OPTION_STRING, 0, "", NULL,
     "Cores on which the threads that carry out the commands of rings run, as 0-3,8; all: those of the process's cpuset; empty: "
     "those that any thread of the process may use, near FERRY_GPU if that is set."},
    {"proxy_spin", FERRY_OPTION_SECONDS, 0, "2ms", NULL,
     "Seconds without work until a proxy thread stops spinning and yields its core between looks, and as long again until it "
     "sleeps. Where there are more PEs than cores it does not spin."},
    {"proxy_sleep", FERRY_OPTION_SECONDS, 0, "0.1ms", NULL,
     "Seconds that a proxy thread sleeps between looks when it has had no work for long; a command waits that long at most. 0: "
     "it never sleeps."},
    {"counters_page", FERRY_OPTION_BOOL, 0, "yes", NULL,
     "Whether other processes of the same user can read this PE's counters, and ask it for a report: ferry-top shows it."},
    {"stall_seconds", FERRY_OPTION_SECONDS, 0, "0", NULL,
     "Seconds that a call may wait until the job's state is reported, with the PE that the others wait for; nothing is ended. "
     "0: no report."},
    {"gpu", FERRY_OPTION_STRING, 0, "", NULL,
     "PCI address of the GPU that this PE works with, as 0000:3b:00.0: transports take a device near it; empty: near the "
     "PE's cores."},
    {"log", FERRY_OPTION_CHOICE, 0, "warn", "error|warn|info|debug|trace", "How much is logged to stderr."},
    {"rank", FERRY_OPTION_INT, 0, "-1", NULL, "This PE's number; set by the launcher."},
    {"size", FERRY_OPTION_INT, 0, "0", NULL, "Number of PEs in the job; set by the launcher."},
    {"id", FERRY_OPTION_STRING, 0, "", NULL,
     "The job's unique id in hexadecimal; set by the launcher. Holds a secret."},
    {"bootstrap", FERRY_OPTION_STRING, 0, "auto", NULL,
     "How a program that does not say it itself learns which PE it is, and meets the others: env (FERRY_RANK, FERRY_SIZE, FERRY_ID), "
     "pmix (mpirun of Open MPI, prterun, srun --mpi=pmix), the path of a bootstrap plugin, or auto: what the environment shows. A name "
     "that is given never falls back to another."},
    {"interface", FERRY_OPTION_STRING, 0, "auto", NULL,
     "Network interface, or IPv4 address, on which PEs meet. auto: a job's id is made on lo, which keeps the job on one host, "
     "and a PE listens where it reaches its id; for a job across hosts, set it where the id is made. Without an id (pmix, a program's "
     "functions): lo on one host, else the first network that all PEs have an address in."},
    {NULL, 0, 0, NULL, NULL, NULL}};
