/* SPDX-License-Identifier: Apache-2.0
 * Functions of the driver API that the stand-in has, by their names in the library; handles are numbers or pointers
 * here. And those for tests, fakecuda_… */
#ifndef FAKECUDA_DRIVER_H
#define FAKECUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* device.c */
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetName(char *name, int length, int device);
int cuDeviceGetPCIBusId(char *name, int length, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceCanAccessPeer(int *can, int device, int peer);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int fakecuda_retained(void);
int cuCtxGetCurrent(void **context);
int cuCtxSetCurrent(void *context);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuCtxGetDevice(int *device);
int cuGetErrorName(int code, const char **name);
int cuGetErrorString(int code, const char **text);

/* memory.c */
void *fakecuda_alias(uint64_t address);
void fakecuda_left(int *reserved, int *mapped, uint64_t *bytes);
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
int cuMemGetAllocationGranularity(size_t *granularity, const void *prop, int option);
int cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t hint, unsigned long long flags);
int cuMemAddressFree(uint64_t address, size_t bytes);
int cuMemCreate(uint64_t *out, size_t bytes, const void *prop, unsigned long long flags);
int cuMemRelease(uint64_t handle);
int cuMemExportToShareableHandle(void *out, uint64_t handle, int type, unsigned long long flags);
int cuMemImportFromShareableHandle(uint64_t *out, void *shared, int type);
int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags);
int cuMemUnmap(uint64_t address, size_t bytes);
int cuMemSetAccess(uint64_t address, size_t bytes, const void *descs, size_t n);
int cuMemGetHandleForAddressRange(void *out, uint64_t address, size_t bytes, int type, unsigned long long flags);

/* host.c */
int cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags);
int cuMemHostUnregister(void *address);
int cuMemHostGetDevicePointer_v2(uint64_t *device, void *address, unsigned flags);
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags);
int cuMemFreeHost(void *address);
int fakecuda_pinned(void);
int cuPointerGetAttribute(void *out, int attribute, uint64_t address);

/* stream.c */
int cuStreamCreate(void **out, unsigned flags);
int cuStreamSynchronize(void *handle);
int cuStreamQuery(void *handle);
int cuStreamDestroy_v2(void *handle);
int cuEventCreate(void **out, unsigned flags);
int cuEventRecord(void *event, void *stream);
int cuEventQuery(void *handle);
int cuEventSynchronize(void *handle);
int cuEventDestroy_v2(void *handle);
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream);
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream);
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream);
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream);
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *stream);
int cuMemcpy(uint64_t to, uint64_t from, size_t bytes);
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);

#endif
