/* SPDX-License-Identifier: Apache-2.0
 * Devices of the stand-in, their attributes, primary contexts, and which of these a thread has current. Any thread. */
#include "driver.h"
#include "fake.h"

#include <stdio.h>
#include <string.h>

#define DEVICES 8
#define DEPTH   16

static struct context {
    int device;
    int retained;
} contexts[DEVICES];
static _Thread_local struct context *stack[DEPTH];
static _Thread_local int depth;
static bool begun;

int fake_devices(void)
{
    uint64_t n = fake_number("FAKECUDA_DEVICES", 1);

    return n < DEVICES ? (int)n : DEVICES;
}

int fake_current(void)
{
    return depth && stack[depth - 1] ? stack[depth - 1]->device : -1;
}

FAKE_API int cuInit(unsigned flags)
{
    int rc = fake_fails("cuInit");

    if (rc || flags)
        return rc ? rc : FAKE_INVALID_VALUE;
    if (fake_devices() == 0)
        return FAKE_NO_DEVICE;
    pthread_mutex_lock(&fake_lock);
    begun = true;
    pthread_mutex_unlock(&fake_lock);
    return FAKE_OK;
}

static int usable(int device)
{
    bool is;

    pthread_mutex_lock(&fake_lock);
    is = begun;
    pthread_mutex_unlock(&fake_lock);
    if (!is)
        return FAKE_NOT_INITIALIZED;
    return device < 0 || device >= fake_devices() ? FAKE_INVALID_DEVICE : FAKE_OK;
}

FAKE_API int cuDriverGetVersion(int *version)
{
    *version = (int)fake_number("FAKECUDA_VERSION", 13000);
    return FAKE_OK;
}

FAKE_API int cuDeviceGetCount(int *count)
{
    int rc = fake_fails("cuDeviceGetCount");

    if (!rc)
        rc = usable(0);
    *count = rc ? 0 : fake_devices();
    return rc;
}

FAKE_API int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return usable(ordinal);
}

FAKE_API int cuDeviceGetName(char *name, int length, int device)
{
    snprintf(name, (size_t)length, "Stand-in %d", device);
    return usable(device);
}

FAKE_API int cuDeviceGetPCIBusId(char *name, int length, int device)
{
    snprintf(name, (size_t)length, "0000:%02X:00.0", 0x3b + device);
    return usable(device);
}

FAKE_API int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    *bytes = fake_number("FAKECUDA_MEMORY", 1u << 30);
    return usable(device);
}

/* Numbers of enum CUdevice_attribute. */
FAKE_API int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    switch (attribute) {
    case 33:
        *value = 0x3b + device;
        break; /* PCI bus */
    case 34:
        *value = 0;
        break; /* PCI device */
    case 50:
        *value = 0;
        break; /* PCI domain */
    case 41:   /* unified addresses */
    case 91:   /* registered host memory under its own address */
    case 102:  /* virtual memory management */
        *value = (int)fake_number("FAKECUDA_VMM", 1);
        break;
    case 103: /* … by descriptors */
        *value = (int)fake_number("FAKECUDA_DESCRIPTORS", 1);
        break;
    case 75:
        *value = 9;
        break; /* compute capability */
    case 76:
        *value = 0;
        break;
    case 110: /* GPUDirect RDMA with that */
        *value = (int)fake_number("FAKECUDA_RDMA_VMM", 1);
        break;
    case 116:
        *value = (int)fake_number("FAKECUDA_RDMA", 1);
        break;
    case 118:
        *value = (int)fake_number("FAKECUDA_WRITES_ORDERING", 200);
        break;
    case 124:
        *value = (int)fake_number("FAKECUDA_DMABUF", 0);
        break;
    default:
        return FAKE_INVALID_VALUE;
    }
    return usable(device);
}

FAKE_API int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    int rc = usable(device);

    *can = device != peer && (fake_number("FAKECUDA_PEERS", 255) >> peer & 1);
    return rc ? rc : usable(peer);
}

FAKE_API int cuDevicePrimaryCtxRetain(void **context, int device)
{
    int rc = fake_fails("cuDevicePrimaryCtxRetain");

    if (!rc)
        rc = usable(device);
    if (rc)
        return rc;
    pthread_mutex_lock(&fake_lock);
    contexts[device].device = device;
    contexts[device].retained++;
    pthread_mutex_unlock(&fake_lock);
    *context = &contexts[device];
    return FAKE_OK;
}

FAKE_API int cuDevicePrimaryCtxRelease_v2(int device)
{
    int rc = usable(device);

    if (rc)
        return rc;
    pthread_mutex_lock(&fake_lock);
    rc = contexts[device].retained > 0 ? FAKE_OK : FAKE_INVALID_CONTEXT;
    contexts[device].retained -= rc == FAKE_OK;
    pthread_mutex_unlock(&fake_lock);
    return rc;
}

/* For tests: contexts that are retained still. */
FAKE_API int fakecuda_retained(void)
{
    int n = 0;

    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < DEVICES; i++)
        n += contexts[i].retained;
    pthread_mutex_unlock(&fake_lock);
    return n;
}

FAKE_API int cuCtxGetCurrent(void **context)
{
    *context = depth ? stack[depth - 1] : NULL;
    return usable(0);
}

FAKE_API int cuCtxSetCurrent(void *context)
{
    if (!depth)
        depth = 1;
    stack[depth - 1] = context;
    return usable(0);
}

FAKE_API int cuCtxPushCurrent_v2(void *context)
{
    if (!context || depth == DEPTH)
        return FAKE_INVALID_CONTEXT;
    stack[depth++] = context;
    return FAKE_OK;
}

FAKE_API int cuCtxPopCurrent_v2(void **context)
{
    if (!depth)
        return FAKE_INVALID_CONTEXT;
    depth--;
    if (context)
        *context = stack[depth];
    return FAKE_OK;
}

FAKE_API int cuCtxGetDevice(int *device)
{
    *device = fake_current();
    return *device < 0 ? FAKE_INVALID_CONTEXT : FAKE_OK;
}

FAKE_API int cuGetErrorName(int code, const char **name)
{
    static const struct {
        int code;
        const char *name;
    } names[] = {{0, "CUDA_SUCCESS"},
                 {1, "CUDA_ERROR_INVALID_VALUE"},
                 {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                 {3, "CUDA_ERROR_NOT_INITIALIZED"},
                 {100, "CUDA_ERROR_NO_DEVICE"},
                 {101, "CUDA_ERROR_INVALID_DEVICE"},
                 {201, "CUDA_ERROR_INVALID_CONTEXT"},
                 {400, "CUDA_ERROR_INVALID_HANDLE"},
                 {600, "CUDA_ERROR_NOT_READY"},
                 {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
                 {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
                 {719, "CUDA_ERROR_LAUNCH_FAILED"},
                 {801, "CUDA_ERROR_NOT_SUPPORTED"}};

    *name = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].code == code)
            *name = names[i].name;
    return *name ? FAKE_OK : FAKE_INVALID_VALUE;
}

FAKE_API int cuGetErrorString(int code, const char **text)
{
    return cuGetErrorName(code, text);
}
