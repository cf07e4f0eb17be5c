/* SPDX-License-Identifier: Apache-2.0
 * The functions of the CUDA driver that the library uses, as it declares them itself: it is built without CUDA.
 * A table of a job's, constant once it is filled. */
#ifndef FY_GPU_DRIVER_H
#define FY_GPU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#define FY_CU_OUT_OF_MEMORY 2
#define FY_CU_NO_DEVICE 100
#define FY_CU_NOT_READY 600
#define FY_CU_ALREADY_REGISTERED 712
#define FY_CU_NOT_SUPPORTED 801

#define FY_CU_ATTRIBUTE_VMM 102  /* CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
#define FY_CU_ATTRIBUTE_FD  103  /* CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */
#define FY_CU_ATTRIBUTE_RDMA_VMM 110 /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
#define FY_CU_ATTRIBUTE_RDMA 116     /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED */
#define FY_CU_ATTRIBUTE_ORDERING 118 /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING */
#define FY_CU_ATTRIBUTE_DMABUF 124   /* CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED */
#define FY_CU_HANDLE_FD 1        /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */
#define FY_CU_PINNED 1           /* CU_MEM_ALLOCATION_TYPE_PINNED */
#define FY_CU_ON_DEVICE 1        /* CU_MEM_LOCATION_TYPE_DEVICE */
#define FY_CU_READ_WRITE 3       /* CU_MEM_ACCESS_FLAGS_PROT_READWRITE */
#define FY_CU_NON_BLOCKING 1     /* CU_STREAM_NON_BLOCKING */
#define FY_CU_NO_TIMING 2        /* CU_EVENT_DISABLE_TIMING */
#define FY_CU_PORTABLE 1         /* CU_MEMHOSTREGISTER_PORTABLE */
#define FY_CU_DEVICE_MAP 2       /* CU_MEMHOSTREGISTER_DEVICEMAP */

typedef unsigned long long fy_cu_pointer; /* CUdeviceptr */
typedef unsigned long long fy_cu_memory;  /* CUmemGenericAllocationHandle */

struct fy_cu_location {
    int type, id;
};

struct fy_cu_property { /* CUmemAllocationProp */
    int type, handles;
    struct fy_cu_location location;
    void *unused;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
};

struct fy_cu_access { /* CUmemAccessDesc */
    struct fy_cu_location location;
    int flags;
};

/* Name in the library, member, arguments. All of them have to be there. */
#define FY_CU_FUNCTIONS(X) \
    X(cuInit, init, (unsigned flags)) \
    X(cuDriverGetVersion, version, (int *version)) \
    X(cuDeviceGetCount, count, (int *count)) \
    X(cuDeviceGet, device, (int *device, int ordinal)) \
    X(cuDeviceGetAttribute, attribute, (int *value, int attribute, int device)) \
    X(cuDeviceGetName, name, (char *name, int length, int device)) \
    X(cuDeviceGetPCIBusId, pci, (char *name, int length, int device)) \
    X(cuDevicePrimaryCtxRetain, retain, (void **context, int device)) \
    X(cuDevicePrimaryCtxRelease_v2, release, (int device)) \
    X(cuCtxGetCurrent, current, (void **context)) \
    X(cuCtxGetDevice, current_device, (int *device)) \
    X(cuCtxPushCurrent_v2, push, (void *context)) \
    X(cuCtxPopCurrent_v2, pop, (void **context)) \
    X(cuGetErrorString, error, (int code, const char **text)) \
    X(cuMemGetInfo_v2, left, (size_t *available, size_t *total)) \
    X(cuMemAddressReserve, reserve, (fy_cu_pointer *at, size_t length, size_t alignment, fy_cu_pointer hint, unsigned long long flags)) \
    X(cuMemAddressFree, unreserve, (fy_cu_pointer at, size_t length)) \
    X(cuMemCreate, create, (fy_cu_memory *memory, size_t length, const struct fy_cu_property *property, unsigned long long flags)) \
    X(cuMemRelease, drop, (fy_cu_memory memory)) \
    X(cuMemMap, map, (fy_cu_pointer at, size_t length, size_t offset, fy_cu_memory memory, unsigned long long flags)) \
    X(cuMemUnmap, unmap, (fy_cu_pointer at, size_t length)) \
    X(cuMemSetAccess, access, (fy_cu_pointer at, size_t length, const struct fy_cu_access *access, size_t n)) \
    X(cuMemExportToShareableHandle, export_fd, (void *out, fy_cu_memory memory, int type, unsigned long long flags)) \
    X(cuMemImportFromShareableHandle, import_fd, (fy_cu_memory *memory, void *fd, int type)) \
    X(cuMemsetD8Async, set, (fy_cu_pointer at, unsigned char value, size_t length, void *stream)) \
    X(cuMemcpyAsync, copy, (fy_cu_pointer to, fy_cu_pointer from, size_t length, void *stream)) \
    X(cuStreamCreate, stream, (void **stream, unsigned flags)) \
    X(cuStreamSynchronize, finish, (void *stream)) \
    X(cuStreamDestroy_v2, end_stream, (void *stream)) \
    X(cuEventCreate, event, (void **event, unsigned flags)) \
    X(cuEventRecord, record, (void *event, void *stream)) \
    X(cuEventQuery, query, (void *event)) \
    X(cuEventDestroy_v2, end_event, (void *event)) \
    X(cuMemHostRegister_v2, pin, (void *at, size_t length, unsigned flags)) \
    X(cuMemHostUnregister, unpin, (void *at)) \
    X(cuMemHostGetDevicePointer_v2, pinned, (fy_cu_pointer *device, void *at, unsigned flags))

#define FY_CU_MEMBER(symbol, member, arguments) int(*member) arguments;
struct fy_driver {
    FY_CU_FUNCTIONS(FY_CU_MEMBER)
};
#undef FY_CU_MEMBER

#endif
