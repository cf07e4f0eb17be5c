/* SPDX-License-Identifier: Apache-2.0
 * ferry-info --doctor, the GPUs' side: the driver, what each GPU can do for the heap and for NICs, which peers it maps.
 * Any thread; asks the driver, makes no context. */
#include "gpu.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WITHOUT "host memory works without it"

struct look {
    const struct fy_gpu_doctor *to;
    struct fy_gpu *gpu;
    int n;
    /* NULL: the library has none */
    int (*memory)(size_t *bytes, int device);
    int (*peer)(int *can, int device, int peer);
};

__attribute__((format(printf, 5, 6))) static void tell(const struct look *look, uint32_t level, const char *object,
                                                       const char *advice, const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    look->to->tell(look->to->arg, level, object, advice, text);
}

/* The driver is of no use: `level`, or a warning where the options ask for GPU memory. */
static void useless(const struct look *look, uint32_t level, const struct ferry_error *error)
{
    if (look->to->wanted)
        level = FERRY_FINDING_WARNING;
    if (level == FERRY_FINDING_OK)
        tell(look, level, "GPU driver", "", "%s; " WITHOUT, error->message);
    else
        tell(look, level, "GPU driver", error->hint[0] ? error->hint : "look at nvidia-smi; " WITHOUT, "%s",
             error->message);
}

/* 0 as well where the driver does not know the attribute. */
static int attribute(const struct look *look, int which, int device)
{
    int value = 0;

    return look->gpu->driver.attribute(&value, which, device) ? 0 : value;
}

/* ------------------------------------------------------------------ one GPU */

static void device(const struct look *look, const char *object, int device)
{
    char model[64] = "", pci[24] = "", memory[40] = "";
    bool maps = attribute(look, FY_CU_ATTRIBUTE_VMM, device);
    bool exports = attribute(look, FY_CU_ATTRIBUTE_FD, device);
    size_t bytes = 0;

    if (look->gpu->driver.name(model, sizeof(model), device))
        snprintf(model, sizeof(model), "unknown model");
    if (look->gpu->driver.pci(pci, sizeof(pci), device))
        snprintf(pci, sizeof(pci), "unknown address");
    if (look->memory && !look->memory(&bytes, device))
        snprintf(memory, sizeof(memory), ", %zu MiB", bytes >> 20);
    if (maps && exports)
        tell(look, FERRY_FINDING_OK, object, "", "%s, %s%s; the heap can lie in its memory", model, pci, memory);
    else
        tell(look, FERRY_FINDING_WARNING, object, "take another GPU (FERRY_GPU_DEVICE), or host memory",
             "%s, %s%s; the heap cannot lie in its memory: the driver offers no %s for it", model, pci, memory,
             maps ? "file descriptors" : "virtual memory management");
}

static const char *ordering(int value)
{
    if (value >= 200)
        return "kernels of every GPU see their writes in order";
    return value >= 100 ? "kernels of this GPU alone see their writes in order"
                        : "their writes need a flush to be seen";
}

/* What the driver says; the NIC's side is for transports to tell. */
static void nics(const struct look *look, const char *object, int device)
{
    bool dmabuf = attribute(look, FY_CU_ATTRIBUTE_DMABUF, device), rdma = attribute(look, FY_CU_ATTRIBUTE_RDMA, device);
    char name[48];

    snprintf(name, sizeof(name), "%s and NICs", object);
    if (dmabuf || rdma)
        tell(look, FERRY_FINDING_OK, name, "", "its memory may be given to NICs by %s%s; %s",
             dmabuf ? rdma ? "dmabuf or peer memory module" : "dmabuf" : "peer memory module, not by dmabuf",
             attribute(look, FY_CU_ATTRIBUTE_RDMA_VMM, device) ? "" : ", the heap's may not",
             ordering(attribute(look, FY_CU_ATTRIBUTE_ORDERING, device)));
    else
        tell(look, FERRY_FINDING_OK, name, "", "no GPUDirect RDMA: NICs do not reach its memory");
}

static void peers(const struct look *look, const char *object, int device)
{
    char name[48], list[160] = "";
    int n = 0, can;
    size_t at = 0;

    if (!look->peer)
        return;
    for (int i = 0; i < look->n; i++) {
        can = 0;
        if (i == device || look->peer(&can, device, i) || !can)
            continue;
        if (at < sizeof(list))
            at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%d", n ? "," : "", i);
        n++;
    }
    snprintf(name, sizeof(name), "%s and GPUs", object);
    if (n == look->n - 1)
        tell(look, FERRY_FINDING_OK, name, "", "peers: %s", n ? list : "none, there is no other GPU");
    else
        tell(look, FERRY_FINDING_WARNING, name, "nvidia-smi topo -p2p r shows why",
             "peers: %s; it cannot map the memory of the other %d", n ? list : "none", look->n - 1 - n);
}

/* ------------------------------------------------------------------ the driver */

/* Copies an address: ISO C has no cast from data to functions. */
static void find(const struct look *look, const char *symbol, void *function)
{
    void *found = dlsym(look->gpu->library, symbol);

    memcpy(function, &found, sizeof(found));
}

static void devices(struct look *look)
{
    char object[24];
    int handle, version = 0;

    find(look, "cuDeviceTotalMem_v2", &look->memory);
    find(look, "cuDeviceCanAccessPeer", &look->peer);
    look->gpu->driver.version(&version);
    tell(look, FERRY_FINDING_OK, "GPU driver", "", "for CUDA %d.%d and older; it finds %d GPU%s", version / 1000,
         version % 1000 / 10, look->n, look->n == 1 ? "" : "s");
    for (int i = 0; i < look->n; i++) {
        if (look->gpu->driver.device(&handle, i))
            continue;
        snprintf(object, sizeof(object), "GPU %d", i);
        device(look, object, handle);
        nics(look, object, handle);
        peers(look, object, handle);
    }
}

void fy_gpu_doctor(const struct fy_gpu_doctor *to)
{
    struct look look = {.to = to, .gpu = fy_gpu_create(&(struct fy_gpu_config){.device = -1})};
    struct ferry_error error = {.size = sizeof(error)};

    if (!look.gpu)
        return;
    if (fy_gpu_find(look.gpu, &error))
        useless(&look, FERRY_FINDING_OK, &error);
    else if (fy_gpu_bind(look.gpu, &error))
        useless(&look, FERRY_FINDING_WARNING, &error);
    else if (fy_gpu_start(look.gpu, &error) || fy_gpu_count(look.gpu, &look.n, &error))
        useless(&look, error.library_status ? FERRY_FINDING_WARNING : FERRY_FINDING_OK, &error);
    else
        devices(&look);
    fy_gpu_destroy(look.gpu);
}
