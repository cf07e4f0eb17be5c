/* SPDX-License-Identifier: Apache-2.0
 * Host memory that the stand-in's devices may use: pinned ranges, and what kind of memory an address is. Any thread. */
#include "driver.h"
#include "fake.h"

#include <stdlib.h>

#define MOST 1024

static struct range {
    uint64_t address;
    size_t bytes;
} pinned[MOST];

static struct range *pin_of(uint64_t address)
{
    for (int i = 0; i < MOST; i++)
        if (pinned[i].bytes && address >= pinned[i].address && address < pinned[i].address + pinned[i].bytes)
            return &pinned[i];
    return NULL;
}

FAKE_API int cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags)
{
    uint64_t at = (uintptr_t)address;
    int rc = fake_fails("cuMemHostRegister");

    (void)flags;
    if (rc || !bytes)
        return rc ? rc : FAKE_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    rc = FAKE_OUT_OF_MEMORY;
    for (int i = 0; i < MOST; i++)
        if (pinned[i].bytes && at < pinned[i].address + pinned[i].bytes && pinned[i].address < at + bytes) {
            pthread_mutex_unlock(&fake_lock);
            return FAKE_ALREADY_REGISTERED;
        }
    for (int i = 0; i < MOST && rc; i++)
        if (!pinned[i].bytes) {
            pinned[i] = (struct range){at, bytes};
            rc = FAKE_OK;
        }
    pthread_mutex_unlock(&fake_lock);
    return rc;
}

FAKE_API int cuMemHostUnregister(void *address)
{
    struct range *pin;

    pthread_mutex_lock(&fake_lock);
    pin = pin_of((uintptr_t)address);
    if (pin && pin->address == (uintptr_t)address)
        pin->bytes = 0;
    else
        pin = NULL;
    pthread_mutex_unlock(&fake_lock);
    return pin ? FAKE_OK : FAKE_NOT_REGISTERED;
}

FAKE_API int cuMemHostGetDevicePointer_v2(uint64_t *device, void *address, unsigned flags)
{
    struct range *pin;

    pthread_mutex_lock(&fake_lock);
    pin = pin_of((uintptr_t)address);
    pthread_mutex_unlock(&fake_lock);
    *device = (uintptr_t)address + fake_number("FAKECUDA_PIN_SHIFT", 0);
    return pin && !flags ? FAKE_OK : FAKE_INVALID_VALUE;
}

FAKE_API int cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    int rc = fake_fails("cuMemHostAlloc");

    if (rc)
        return rc;
    *address = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    if (!*address)
        return FAKE_OUT_OF_MEMORY;
    rc = cuMemHostRegister_v2(*address, bytes, flags);
    if (rc)
        free(*address);
    return rc;
}

FAKE_API int cuMemFreeHost(void *address)
{
    int rc = cuMemHostUnregister(address);

    if (!rc)
        free(address);
    return rc;
}

/* For tests: ranges that are pinned still. */
FAKE_API int fakecuda_pinned(void)
{
    int n = 0;

    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < MOST; i++)
        n += pinned[i].bytes != 0;
    pthread_mutex_unlock(&fake_lock);
    return n;
}

/* attribute 2: kind of memory, 1: pinned host memory, 2: device memory. */
FAKE_API int cuPointerGetAttribute(void *out, int attribute, uint64_t address)
{
    void *seen;
    struct range *pin;

    if (attribute != 2)
        return FAKE_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    pin = pin_of(address);
    seen = fake_reach(address, 1);
    pthread_mutex_unlock(&fake_lock);
    *(unsigned *)out = pin ? 1 : 2;
    return pin || seen != (void *)(uintptr_t)address ? FAKE_OK : FAKE_INVALID_VALUE; // NOLINT
}
