/* SPDX-License-Identifier: Apache-2.0
 * The GPU that a job works with: the driver's library, loaded when it is first needed, memory, and copies by its
 * engines. Any thread, unless a function says otherwise; queues belong to one thread at a time. */
#ifndef FY_GPU_GPU_H
#define FY_GPU_GPU_H

#include "../base/log.h"
#include "driver.h"
#include <stdatomic.h>

#define FY_GPU_NAME 96

struct fy_gpu_config {
    const struct fy_log *log;
    int64_t device;      /* -1: by `index` */
    uint32_t index;      /* of this PE among those of its host */
    const char *library; /* NULL: libcuda.so.1 */
};

struct fy_gpu_pin;

struct fy_gpu {
    struct fy_gpu_config config;
    pthread_mutex_t lock; /* over what is not constant once `open` is set */
    _Atomic bool open;
    struct fy_driver driver;
    void *library;
    bool bound; /* the table is whole */
    void *context;
    int device;
    bool retained;          /* the context is the device's own, and is given back */
    bool rdma;              /* a NIC may be let into memory of cuMemCreate */
    char name[FY_GPU_NAME]; /* "GPU 0 (NVIDIA H200, 0000:3b:00.0)" */
    void *stream;           /* of memory.c, under the lock */
    struct fy_gpu_pin *pins;
    struct ferry_error failure; /* the latest of a function that has no record to fill */
};

/* library.c. Loads nothing. NULL: no memory. */
struct fy_gpu *fy_gpu_create(const struct fy_gpu_config *config);
/* Nobody uses it, and what was made of it is gone; the library stays loaded: drivers do not survive dlclose. */
void fy_gpu_destroy(struct fy_gpu *gpu);
/* Loads the library and takes a GPU, once; then this does nothing. Or why not. */
int fy_gpu_open(struct fy_gpu *gpu, struct ferry_error *error);
/* Its steps: the library is loaded, has all functions, works, and finds *n GPUs, more than none. Each needs those
 * before it. Without a GPU the record has no library_status. */
int fy_gpu_find(struct fy_gpu *gpu, struct ferry_error *error);
int fy_gpu_bind(struct fy_gpu *gpu, struct ferry_error *error);
int fy_gpu_start(struct fy_gpu *gpu, struct ferry_error *error);
int fy_gpu_count(struct fy_gpu *gpu, int *n, struct ferry_error *error);
/* The record of a call of the driver that failed: "GPU …: cannot <what>: …"; returns the status. */
int fy_gpu_failed(struct fy_gpu *gpu, int code, const char *what, struct ferry_error *error);
/* The context is current in between. Returns the driver's code. */
int fy_gpu_enter(struct fy_gpu *gpu);
void fy_gpu_leave(struct fy_gpu *gpu);

/* doctor.c: what ferry_doctor says of GPUs, without a context; `level` as in ferry_finding. */
struct fy_gpu_doctor {
    bool wanted; /* the options ask for GPU memory */
    void (*tell)(void *arg, uint32_t level, const char *object, const char *advice, const char *text);
    void *arg;
};
void fy_gpu_doctor(const struct fy_gpu_doctor *to);

/* memory.c. Addresses at which memory of the host or of the GPU can be mapped: the driver takes no others for the
 * GPU's. A multiple of 2 MiB. unreserve: nothing of the GPU's is mapped there any more, and the rest is mapped without
 * access. */
int fy_gpu_reserve(struct fy_gpu *gpu, size_t length, void **base, struct ferry_error *error);
int fy_gpu_unreserve(struct fy_gpu *gpu, void *base, size_t length);
/* Memory of the GPU, zeroed, at `address` within such a range; *fd lets others map it. `length`: whole pieces of 2 MiB.
 */
int fy_gpu_allocate(struct fy_gpu *gpu, void *address, size_t length, int *fd, struct ferry_error *error);
void fy_gpu_free(struct fy_gpu *gpu, void *address, size_t length);
/* Maps memory of another process. */
int fy_gpu_import(struct fy_gpu *gpu, int fd, size_t length, void **address, struct ferry_error *error);
void fy_gpu_unmap(struct fy_gpu *gpu, void *address, size_t length);
/* Lets this GPU reach memory that another job of this process allocated. */
int fy_gpu_share(struct fy_gpu *gpu, void *address, size_t length, struct ferry_error *error);

/* pin.c. Where kernels find `address` in [base, +length) of host memory, which is pinned for them, once, until
 * fy_gpu_unpin. */
int fy_gpu_pin(struct fy_gpu *gpu, void *base, size_t length, const void *address, void **device,
               struct ferry_error *error);
/* Before the memory goes. Nothing where it was not pinned, or where gpu is NULL. */
void fy_gpu_unpin(struct fy_gpu *gpu, const void *base);
void fy_gpu_unpin_all(struct fy_gpu *gpu);

/* copy.c. A queue carries copies out in order, host and GPU memory at either end. */
int fy_gpu_queue_open(struct fy_gpu *gpu, struct ferry_gpu_queue **queue, struct ferry_error *error);
/* Waits for the copies. */
void fy_gpu_queue_close(struct ferry_gpu_queue *queue);
/* FERRY_OK, FERRY_AGAIN: too many are under way, or a negative status with fy_gpu.failure. */
int fy_gpu_copy(struct ferry_gpu_queue *queue, void *to, const void *from, size_t length);
/* As ferry_host_ops.quiet, of all copies of the queue. */
int fy_gpu_copied(struct ferry_gpu_queue *queue, uint64_t *ticket);

#endif
