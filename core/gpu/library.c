/* SPDX-License-Identifier: Apache-2.0
 * Loads the driver's library behind a table of functions, and takes a GPU.
 * Any thread; whoever comes first does it, under the lock. */
#include "gpu.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY    "libcuda.so.1"
#define HOST_WORKS "host memory works without it (FERRY_HEAP_KIND=host)"

static const char *const symbols[] = {
#define FY_CU_SYMBOL(symbol, member, arguments) #symbol,
    FY_CU_FUNCTIONS(FY_CU_SYMBOL)
#undef FY_CU_SYMBOL
};
#define N_SYMBOLS (sizeof(symbols) / sizeof(*symbols))
_Static_assert(sizeof(struct fy_driver) == N_SYMBOLS * sizeof(void *), "the table holds functions only");

struct fy_gpu *fy_gpu_create(const struct fy_gpu_config *config)
{
    struct fy_gpu *gpu = calloc(1, sizeof(*gpu));

    if (!gpu)
        return NULL;
    gpu->config = *config;
    pthread_mutex_init(&gpu->lock, NULL);
    return gpu;
}

void fy_gpu_destroy(struct fy_gpu *gpu)
{
    if (!gpu)
        return;
    if (atomic_load(&gpu->open)) {
        if (gpu->stream && !fy_gpu_enter(gpu)) {
            gpu->driver.end_stream(gpu->stream);
            fy_gpu_leave(gpu);
        }
        if (gpu->retained)
            gpu->driver.release(gpu->device);
    }
    pthread_mutex_destroy(&gpu->lock);
    free(gpu);
}

int fy_gpu_enter(struct fy_gpu *gpu)
{
    return gpu->driver.push(gpu->context);
}

void fy_gpu_leave(struct fy_gpu *gpu)
{
    void *context;

    gpu->driver.pop(&context);
}

static const char *text_of(const struct fy_gpu *gpu, int code)
{
    const char *text = NULL;

    return gpu->driver.error(code, &text) == 0 && text ? text : "unknown";
}

int fy_gpu_failed(struct fy_gpu *gpu, int code, const char *what, struct ferry_error *error)
{
    int status = code == FY_CU_OUT_OF_MEMORY ? FERRY_ERR_NOMEM : FERRY_ERR_DEVICE;

    fy_error_set(error, status, NULL, "%s: cannot %s: %s (CUDA error %d)",
                 gpu->name[0] ? gpu->name : "the GPU's driver", what, text_of(gpu, code), code);
    error->library_status = code;
    return status;
}

/* ------------------------------------------------------------------ the library */

int fy_gpu_find(struct fy_gpu *gpu, struct ferry_error *error)
{
    const char *name = gpu->config.library ? gpu->config.library : LIBRARY;

    gpu->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!gpu->library) {
        fy_error_set(error, FERRY_ERR_UNSUPPORTED, "install the GPU's driver; " HOST_WORKS, LIBRARY " not found: %s",
                     dlerror());
        return FERRY_ERR_UNSUPPORTED;
    }
    return FERRY_OK;
}

int fy_gpu_bind(struct fy_gpu *gpu, struct ferry_error *error)
{
    void *found;

    for (size_t i = 0; i < N_SYMBOLS; i++) {
        found = dlsym(gpu->library, symbols[i]);
        if (found) {
            memcpy((char *)&gpu->driver + i * sizeof(found), &found, sizeof(found));
            continue;
        }
        fy_error_set(error, FERRY_ERR_UNSUPPORTED, "install a newer driver; " HOST_WORKS,
                     LIBRARY " is too old: it has no function %s", symbols[i]);
        dlclose(gpu->library); /* nothing of it was called */
        gpu->library = NULL;
        return FERRY_ERR_UNSUPPORTED;
    }
    gpu->bound = true;
    return FERRY_OK;
}

static int load(struct fy_gpu *gpu, struct ferry_error *error)
{
    int rc = gpu->library ? FERRY_OK : fy_gpu_find(gpu, error);

    return rc || gpu->bound ? rc : fy_gpu_bind(gpu, error);
}

/* ------------------------------------------------------------------ the device */

static int no_device(struct ferry_error *error)
{
    fy_error_set(error, FERRY_ERR_DEVICE, "look at nvidia-smi, and at CUDA_VISIBLE_DEVICES; " HOST_WORKS,
                 "the driver finds no GPU");
    return FERRY_ERR_DEVICE;
}

int fy_gpu_start(struct fy_gpu *gpu, struct ferry_error *error)
{
    int code = gpu->driver.init(0);

    if (code)
        return code == FY_CU_NO_DEVICE ? no_device(error) : fy_gpu_failed(gpu, code, "start", error);
    return FERRY_OK;
}

int fy_gpu_count(struct fy_gpu *gpu, int *n, struct ferry_error *error)
{
    int code = gpu->driver.count(n);

    if (code || *n < 1)
        return code && code != FY_CU_NO_DEVICE ? fy_gpu_failed(gpu, code, "count GPUs", error) : no_device(error);
    return FERRY_OK;
}

/* Without a context of the caller's: the device that the options name, or one for each PE of the host in turn. */
static int choose(struct fy_gpu *gpu, struct ferry_error *error)
{
    const struct fy_driver *driver = &gpu->driver;
    int n = 0, code, rc = fy_gpu_count(gpu, &n, error);

    if (rc)
        return rc;
    if (gpu->config.device >= n) {
        fy_error_set(error, FERRY_ERR_CONFIG, "count from 0, among those in CUDA_VISIBLE_DEVICES",
                     "FERRY_GPU_DEVICE is %lld, but the driver finds %d GPUs", (long long)gpu->config.device, n);
        return FERRY_ERR_CONFIG;
    }
    code = driver->device(&gpu->device,
                          gpu->config.device < 0 ? (int)(gpu->config.index % (uint32_t)n) : (int)gpu->config.device);
    if (!code)
        code = driver->retain(&gpu->context, gpu->device);
    if (code)
        return fy_gpu_failed(gpu, code, "use a GPU", error);
    gpu->retained = true;
    return FERRY_OK;
}

static void name_device(struct fy_gpu *gpu)
{
    char model[48] = "", pci[24] = "";

    if (gpu->driver.name(model, sizeof(model), gpu->device))
        model[0] = '\0';
    if (gpu->driver.pci(pci, sizeof(pci), gpu->device))
        pci[0] = '\0';
    snprintf(gpu->name, sizeof(gpu->name), "GPU %d (%s, %s)", gpu->device, model, pci);
}

static int examine(struct fy_gpu *gpu, struct ferry_error *error)
{
    int maps = 0, rdma = 0;

    name_device(gpu);
    if (gpu->driver.attribute(&maps, FY_CU_ATTRIBUTE_VMM, gpu->device) || !maps) {
        fy_error_set(error, FERRY_ERR_UNSUPPORTED, HOST_WORKS,
                     "%s has no virtual memory management, which the heap needs", gpu->name);
        return FERRY_ERR_UNSUPPORTED;
    }
    gpu->rdma = !gpu->driver.attribute(&rdma, FY_CU_ATTRIBUTE_RDMA_VMM, gpu->device) && rdma;
    fy_log(gpu->config.log, FERRY_LOG_INFO, "%s is used", gpu->name);
    return FERRY_OK;
}

static int take(struct fy_gpu *gpu, struct ferry_error *error)
{
    int code, rc = fy_gpu_start(gpu, error);

    if (rc)
        return rc;
    if (!gpu->driver.current(&gpu->context) && gpu->context)
        rc = (code = gpu->driver.current_device(&gpu->device))
                 ? fy_gpu_failed(gpu, code, "name the device in use", error)
                 : FERRY_OK;
    else
        rc = choose(gpu, error);
    if (!rc)
        rc = examine(gpu, error);
    if (rc && gpu->retained) {
        gpu->driver.release(gpu->device);
        gpu->retained = false;
    }
    return rc;
}

int fy_gpu_open(struct fy_gpu *gpu, struct ferry_error *error)
{
    int rc;

    if (atomic_load_explicit(&gpu->open, memory_order_acquire))
        return FERRY_OK;
    pthread_mutex_lock(&gpu->lock);
    rc = atomic_load(&gpu->open) ? FERRY_OK : load(gpu, error);
    if (!rc && !atomic_load(&gpu->open))
        rc = take(gpu, error);
    if (!rc)
        atomic_store_explicit(&gpu->open, true, memory_order_release);
    pthread_mutex_unlock(&gpu->lock);
    return rc;
}
