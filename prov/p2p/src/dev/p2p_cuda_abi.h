/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The part of the CUDA driver's binary interface that the CUDA backend and the emulator
 * use: types, enumerators and constants under CUDA's own names, so that the same source
 * compiles with NVIDIA's <cuda.h> in this header's place. No functions: the backend looks
 * them up at run time.
 *
 * Enumerators are kept as lists, X(name, value), so that the emulator can print names and
 * fabtests/cudaemu/abi_check.c can compare every value and size with the real header.
 * That program defines P2P_CUDA_ABI_LISTS_ONLY to get the lists without the types.
 */
#ifndef P2P_P2P_CUDA_ABI_H
#define P2P_P2P_CUDA_ABI_H

#define P2P_CUDA_RESULTS(X)                                                                    \
	X(CUDA_SUCCESS, 0)                                                                     \
	X(CUDA_ERROR_INVALID_VALUE, 1)                                                         \
	X(CUDA_ERROR_OUT_OF_MEMORY, 2)                                                         \
	X(CUDA_ERROR_NOT_INITIALIZED, 3)                                                       \
	X(CUDA_ERROR_DEINITIALIZED, 4)                                                         \
	X(CUDA_ERROR_NO_DEVICE, 100)                                                           \
	X(CUDA_ERROR_INVALID_DEVICE, 101)                                                      \
	X(CUDA_ERROR_INVALID_CONTEXT, 201)                                                     \
	X(CUDA_ERROR_ALREADY_MAPPED, 208)                                                      \
	X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                                                   \
	X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217)                                             \
	X(CUDA_ERROR_INVALID_PTX, 218)                                                         \
	X(CUDA_ERROR_OPERATING_SYSTEM, 304)                                                    \
	X(CUDA_ERROR_INVALID_HANDLE, 400)                                                      \
	X(CUDA_ERROR_ILLEGAL_STATE, 401)                                                       \
	X(CUDA_ERROR_NOT_FOUND, 500)                                                           \
	X(CUDA_ERROR_NOT_READY, 600)                                                           \
	X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                                     \
	X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704)                                         \
	X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705)                                             \
	X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)                                                \
	X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712)                                      \
	X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713)                                          \
	X(CUDA_ERROR_LAUNCH_FAILED, 719)                                                       \
	X(CUDA_ERROR_NOT_PERMITTED, 800)                                                       \
	X(CUDA_ERROR_NOT_SUPPORTED, 801)                                                       \
	X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)                                          \
	X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)                                          \
	X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902)                                                \
	X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903)                                            \
	X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904)                                             \
	X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905)                                            \
	X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)                                             \
	X(CUDA_ERROR_CAPTURED_EVENT, 907)                                                      \
	X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908)                                         \
	X(CUDA_ERROR_TIMEOUT, 909)                                                             \
	X(CUDA_ERROR_UNKNOWN, 999)

#define P2P_CUDA_POINTER_ATTRIBUTES(X)                                                         \
	X(CU_POINTER_ATTRIBUTE_CONTEXT, 1)                                                     \
	X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                 \
	X(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 3)                                              \
	X(CU_POINTER_ATTRIBUTE_HOST_POINTER, 4)                                                \
	X(CU_POINTER_ATTRIBUTE_P2P_TOKENS, 5)                                                  \
	X(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 6)                                                 \
	X(CU_POINTER_ATTRIBUTE_BUFFER_ID, 7)                                                   \
	X(CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)                                                  \
	X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                              \
	X(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 10)                                 \
	X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)                                           \
	X(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)                                                 \
	X(CU_POINTER_ATTRIBUTE_MAPPED, 13)                                                     \
	X(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, 14)                                       \
	X(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, 15)                                 \
	X(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, 16)                                               \
	X(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 17)                                             \
	X(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, 18)                                               \
	X(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, 19)                                          \
	X(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, 20)

#define P2P_CUDA_DEVICE_ATTRIBUTES(X)                                                          \
	X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)                                        \
	X(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 10)                                                   \
	X(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13)                                                  \
	X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                                        \
	X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 39)                              \
	X(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 19)                                         \
	X(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 31)                                          \
	X(CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 32)                                                 \
	X(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 33)                                                  \
	X(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 34)                                               \
	X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36)                                           \
	X(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37)                                     \
	X(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 40)                                          \
	X(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                                          \
	X(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 50)                                               \
	X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                                    \
	X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                                    \
	X(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 78)                                 \
	X(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 83)                                              \
	X(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 88)                                      \
	X(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 89)                                   \
	X(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 91)                     \
	X(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 99)                                     \
	X(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)                        \
	X(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103)                \
	X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 110)                    \
	X(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115)                                     \
	X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 116)                                  \
	X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 117)                       \
	X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 118)                            \
	X(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 119)                             \
	X(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 122)                              \
	X(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 123)                              \
	X(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 124)

#define P2P_CUDA_MEMORY_TYPES(X)                                                               \
	X(CU_MEMORYTYPE_HOST, 1)                                                               \
	X(CU_MEMORYTYPE_DEVICE, 2)                                                             \
	X(CU_MEMORYTYPE_ARRAY, 3)                                                              \
	X(CU_MEMORYTYPE_UNIFIED, 4)

#define P2P_CUDA_MEM_OP_TYPES(X)                                                               \
	X(CU_STREAM_MEM_OP_WAIT_VALUE_32, 1)                                                   \
	X(CU_STREAM_MEM_OP_WRITE_VALUE_32, 2)                                                  \
	X(CU_STREAM_MEM_OP_WAIT_VALUE_64, 4)                                                   \
	X(CU_STREAM_MEM_OP_WRITE_VALUE_64, 5)                                                  \
	X(CU_STREAM_MEM_OP_BARRIER, 6)                                                         \
	X(CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 3)

#define P2P_CUDA_RANGE_HANDLE_TYPES(X) X(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1)

#define P2P_CUDA_HANDLE_TYPES(X) X(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1)

#define P2P_CUDA_ACCESS_FLAGS(X)                                                               \
	X(CU_MEM_ACCESS_FLAGS_PROT_NONE, 0)                                                    \
	X(CU_MEM_ACCESS_FLAGS_PROT_READ, 1)                                                    \
	X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)

#define P2P_CUDA_LOCATION_TYPES(X) X(CU_MEM_LOCATION_TYPE_DEVICE, 1)

#define P2P_CUDA_ALLOCATION_TYPES(X) X(CU_MEM_ALLOCATION_TYPE_PINNED, 1)

#define P2P_CUDA_GRANULARITY_FLAGS(X) X(CU_MEM_ALLOC_GRANULARITY_MINIMUM, 0)

#define P2P_CUDA_POOL_ATTRIBUTES(X)                                                            \
	X(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1)                                  \
	X(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 2)                                        \
	X(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 3)                                \
	X(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4)                                                \
	X(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 5)                                             \
	X(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 6)                                                \
	X(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 7)                                                 \
	X(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 8)

#define P2P_CUDA_SRC_ACCESS_ORDERS(X)                                                          \
	X(CU_MEMCPY_SRC_ACCESS_ORDER_INVALID, 0)                                               \
	X(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, 1)                                                \
	X(CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL, 2)                                       \
	X(CU_MEMCPY_SRC_ACCESS_ORDER_ANY, 3)

#define P2P_CUDA_FLUSH_TARGETS(X) X(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, 0)

#define P2P_CUDA_FLUSH_SCOPES(X)                                                               \
	X(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER, 100)                                       \
	X(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES, 200)

#define P2P_CUDA_CAPTURE_STATUSES(X)                                                           \
	X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                                                    \
	X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                                                  \
	X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)

#define P2P_CUDA_CAPTURE_MODES(X)                                                              \
	X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0)                                                    \
	X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                              \
	X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)

#define P2P_CUDA_LOADING_MODES(X)                                                              \
	X(CU_MODULE_EAGER_LOADING, 1)                                                          \
	X(CU_MODULE_LAZY_LOADING, 2)

#define P2P_CUDA_PROC_ADDRESS_RESULTS(X)                                                       \
	X(CU_GET_PROC_ADDRESS_SUCCESS, 0)                                                      \
	X(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1)                                             \
	X(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, 2)

/* Flags and other numbers, which calls take as integers. Some are no enumerators in cuda.h */
#define P2P_CUDA_FLAGS(X)                                                                      \
	X(CU_CTX_SCHED_SPIN, 1)                                                                \
	X(CU_CTX_SCHED_YIELD, 2)                                                               \
	X(CU_CTX_SCHED_MASK, 7)                                                                \
	X(CU_CTX_MAP_HOST, 8)                                                                  \
	X(CU_CTX_SYNC_MEMOPS, 128)                                                             \
	X(CU_CTX_FLAGS_MASK, 255)                                                              \
	X(CU_STREAM_DEFAULT, 0)                                                                \
	X(CU_STREAM_NON_BLOCKING, 1)                                                           \
	X(CU_EVENT_BLOCKING_SYNC, 1)                                                           \
	X(CU_EVENT_DISABLE_TIMING, 2)                                                          \
	X(CU_EVENT_INTERPROCESS, 4)                                                            \
	X(CU_STREAM_WAIT_VALUE_GEQ, 0)                                                         \
	X(CU_STREAM_WAIT_VALUE_EQ, 1)                                                          \
	X(CU_STREAM_WAIT_VALUE_AND, 2)                                                         \
	X(CU_STREAM_WAIT_VALUE_NOR, 3)                                                         \
	X(CU_STREAM_WAIT_VALUE_FLUSH, 0x40000000)                                              \
	X(CU_STREAM_WRITE_VALUE_DEFAULT, 0)                                                    \
	X(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER, 1)                                          \
	X(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, 1)                                               \
	X(CU_MEM_ATTACH_GLOBAL, 1)                                                             \
	X(CU_MEM_ATTACH_HOST, 2)                                                               \
	X(CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE, 1)                                      \
	X(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST, 1)                                      \
	X(CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE, 0)                                          \
	X(CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER, 100)                                       \
	X(CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES, 200)                                 \
	X(CU_EVENT_RECORD_EXTERNAL, 1)                                                         \
	X(CU_EVENT_WAIT_EXTERNAL, 1)                                                           \
	X(CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, 1)                                                \
	X(CU_GRAPH_USER_OBJECT_MOVE, 1)                                                        \
	X(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, 1)                                  \
	X(CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH, 4)                                        \
	X(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY, 8)                                    \
	X(CU_IPC_HANDLE_SIZE, 64)                                                              \
	X(CU_MEMHOSTALLOC_PORTABLE, 1)                                                         \
	X(CU_MEMHOSTALLOC_DEVICEMAP, 2)                                                        \
	X(CU_MEMHOSTALLOC_WRITECOMBINED, 4)                                                    \
	X(CU_MEMHOSTREGISTER_PORTABLE, 1)                                                      \
	X(CU_MEMHOSTREGISTER_DEVICEMAP, 2)                                                     \
	X(CU_MEMHOSTREGISTER_IOMEMORY, 4)                                                      \
	X(CU_MEMHOSTREGISTER_READ_ONLY, 8)

/* Every list of enumerators, for whoever wants to walk them all */
#define P2P_CUDA_ENUMS(X)                                                                      \
	P2P_CUDA_FLAGS(X)                                                                      \
	P2P_CUDA_RESULTS(X)                                                                    \
	P2P_CUDA_POINTER_ATTRIBUTES(X)                                                         \
	P2P_CUDA_DEVICE_ATTRIBUTES(X)                                                          \
	P2P_CUDA_MEMORY_TYPES(X)                                                               \
	P2P_CUDA_MEM_OP_TYPES(X)                                                               \
	P2P_CUDA_RANGE_HANDLE_TYPES(X)                                                         \
	P2P_CUDA_HANDLE_TYPES(X)                                                               \
	P2P_CUDA_ACCESS_FLAGS(X)                                                               \
	P2P_CUDA_LOCATION_TYPES(X)                                                             \
	P2P_CUDA_ALLOCATION_TYPES(X)                                                           \
	P2P_CUDA_GRANULARITY_FLAGS(X)                                                          \
	P2P_CUDA_POOL_ATTRIBUTES(X)                                                            \
	P2P_CUDA_SRC_ACCESS_ORDERS(X)                                                          \
	P2P_CUDA_FLUSH_TARGETS(X)                                                              \
	P2P_CUDA_FLUSH_SCOPES(X)                                                               \
	P2P_CUDA_CAPTURE_STATUSES(X)                                                           \
	P2P_CUDA_CAPTURE_MODES(X)                                                              \
	P2P_CUDA_LOADING_MODES(X)                                                              \
	P2P_CUDA_PROC_ADDRESS_RESULTS(X)

/* Sizes and offsets that compiled programs rely on */
#define P2P_CUDA_SIZES(X)                                                                      \
	X(sizeof(CUdeviceptr), 8)                                                              \
	X(sizeof(CUdevice), 4)                                                                 \
	X(sizeof(CUresult), 4)                                                                 \
	X(sizeof(CUuuid), 16)                                                                  \
	X(sizeof(CUipcMemHandle), 64)                                                          \
	X(sizeof(CUipcEventHandle), 64)                                                        \
	X(sizeof(CUstreamBatchMemOpParams), 48)                                                \
	X(offsetof(CUstreamBatchMemOpParams, waitValue.address), 8)                            \
	X(offsetof(CUstreamBatchMemOpParams, waitValue.value64), 16)                           \
	X(offsetof(CUstreamBatchMemOpParams, waitValue.flags), 24)                             \
	X(offsetof(CUstreamBatchMemOpParams, writeValue.flags), 24)                            \
	X(offsetof(CUstreamBatchMemOpParams, memoryBarrier.flags), 4)                          \
	X(sizeof(CUmemLocation), 8)                                                            \
	X(sizeof(CUmemAllocationProp), 32)                                                     \
	X(offsetof(CUmemAllocationProp, location), 8)                                          \
	X(offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable), 25)                  \
	X(sizeof(CUmemAccessDesc), 12)                                                         \
	X(sizeof(CUmemPoolProps), 88)                                                          \
	X(offsetof(CUmemPoolProps, maxSize), 24)                                               \
	X(sizeof(CUmemcpyAttributes), 24)                                                      \
	X(offsetof(CUmemcpyAttributes, flags), 20)                                             \
	X(sizeof(CUgraphEdgeData), 8)                                                          \
	X(sizeof(CUDA_MEMCPY2D), 128)                                                          \
	X(offsetof(CUDA_MEMCPY2D, dstXInBytes), 56)                                            \
	X(offsetof(CUDA_MEMCPY2D, Height), 120)

#ifndef P2P_CUDA_ABI_LISTS_ONLY

#include <stddef.h>
#include <stdint.h>

/* What a cuda.h of this vintage would say; 13.0 is the newest interface used */
#define CUDA_VERSION 13000

#define P2P_CUDA_ENUMERATOR(name, value) name = value,

enum { P2P_CUDA_FLAGS(P2P_CUDA_ENUMERATOR) };

typedef enum cudaError_enum { P2P_CUDA_RESULTS(P2P_CUDA_ENUMERATOR) } CUresult;

typedef enum CUpointer_attribute_enum {
	P2P_CUDA_POINTER_ATTRIBUTES(P2P_CUDA_ENUMERATOR)
} CUpointer_attribute;

typedef enum CUdevice_attribute_enum {
	P2P_CUDA_DEVICE_ATTRIBUTES(P2P_CUDA_ENUMERATOR)
} CUdevice_attribute;

typedef enum CUmemorytype_enum { P2P_CUDA_MEMORY_TYPES(P2P_CUDA_ENUMERATOR) } CUmemorytype;

typedef enum CUstreamBatchMemOpType_enum {
	P2P_CUDA_MEM_OP_TYPES(P2P_CUDA_ENUMERATOR)
} CUstreamBatchMemOpType;

typedef enum CUmemRangeHandleType_enum {
	P2P_CUDA_RANGE_HANDLE_TYPES(P2P_CUDA_ENUMERATOR)
} CUmemRangeHandleType;

typedef enum CUmemAllocationHandleType_enum {
	P2P_CUDA_HANDLE_TYPES(P2P_CUDA_ENUMERATOR)
} CUmemAllocationHandleType;

typedef enum CUmemAccess_flags_enum {
	P2P_CUDA_ACCESS_FLAGS(P2P_CUDA_ENUMERATOR)
} CUmemAccess_flags;

typedef enum CUmemLocationType_enum {
	P2P_CUDA_LOCATION_TYPES(P2P_CUDA_ENUMERATOR)
} CUmemLocationType;

typedef enum CUmemAllocationType_enum {
	P2P_CUDA_ALLOCATION_TYPES(P2P_CUDA_ENUMERATOR)
} CUmemAllocationType;

typedef enum CUmemAllocationGranularity_flags_enum {
	P2P_CUDA_GRANULARITY_FLAGS(P2P_CUDA_ENUMERATOR)
} CUmemAllocationGranularity_flags;

typedef enum CUmemPool_attribute_enum {
	P2P_CUDA_POOL_ATTRIBUTES(P2P_CUDA_ENUMERATOR)
} CUmemPool_attribute;

typedef enum CUmemcpySrcAccessOrder_enum {
	P2P_CUDA_SRC_ACCESS_ORDERS(P2P_CUDA_ENUMERATOR)
} CUmemcpySrcAccessOrder;

typedef enum CUflushGPUDirectRDMAWritesTarget_enum {
	P2P_CUDA_FLUSH_TARGETS(P2P_CUDA_ENUMERATOR)
} CUflushGPUDirectRDMAWritesTarget;

typedef enum CUflushGPUDirectRDMAWritesScope_enum {
	P2P_CUDA_FLUSH_SCOPES(P2P_CUDA_ENUMERATOR)
} CUflushGPUDirectRDMAWritesScope;

typedef enum CUdriverProcAddressQueryResult_enum {
	P2P_CUDA_PROC_ADDRESS_RESULTS(P2P_CUDA_ENUMERATOR)
} CUdriverProcAddressQueryResult;

typedef enum CUstreamCaptureStatus_enum {
	P2P_CUDA_CAPTURE_STATUSES(P2P_CUDA_ENUMERATOR)
} CUstreamCaptureStatus;

typedef enum CUstreamCaptureMode_enum {
	P2P_CUDA_CAPTURE_MODES(P2P_CUDA_ENUMERATOR)
} CUstreamCaptureMode;

typedef enum CUmoduleLoadingMode_enum {
	P2P_CUDA_LOADING_MODES(P2P_CUDA_ENUMERATOR)
} CUmoduleLoadingMode;

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUarray_st *CUarray;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUuserObject_st *CUuserObject;

/* Stand-ins for stream handles that exist without being created */
#define CU_STREAM_LEGACY ((CUstream) 0x1)
#define CU_STREAM_PER_THREAD ((CUstream) 0x2)

typedef void (*CUhostFn)(void *data);
typedef void (*CUstreamCallback)(CUstream stream, CUresult status, void *data);

typedef struct CUuuid_st {
	char bytes[16];
} CUuuid;

typedef struct CUipcMemHandle_st {
	char reserved[CU_IPC_HANDLE_SIZE];
} CUipcMemHandle;

typedef struct CUipcEventHandle_st {
	char reserved[CU_IPC_HANDLE_SIZE];
} CUipcEventHandle;

/* All members begin with the operation, which says which member counts */
typedef union CUstreamBatchMemOpParams_union {
	CUstreamBatchMemOpType operation;
	struct CUstreamMemOpWaitValueParams_st {
		CUstreamBatchMemOpType operation;
		CUdeviceptr address;
		union {
			cuuint32_t value;
			cuuint64_t value64;
		};
		unsigned int flags;
		CUdeviceptr alias;
	} waitValue;
	struct CUstreamMemOpWriteValueParams_st {
		CUstreamBatchMemOpType operation;
		CUdeviceptr address;
		union {
			cuuint32_t value;
			cuuint64_t value64;
		};
		unsigned int flags;
		CUdeviceptr alias;
	} writeValue;
	struct CUstreamMemOpFlushRemoteWritesParams_st {
		CUstreamBatchMemOpType operation;
		unsigned int flags;
	} flushRemoteWrites;
	struct CUstreamMemOpMemoryBarrierParams_st {
		CUstreamBatchMemOpType operation;
		unsigned int flags;
	} memoryBarrier;
	cuuint64_t pad[6];
} CUstreamBatchMemOpParams;

typedef struct CUmemLocation_st {
	CUmemLocationType type;
	int id;
} CUmemLocation;

typedef struct CUmemAllocationProp_st {
	CUmemAllocationType type;
	CUmemAllocationHandleType requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType;
		unsigned char gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
} CUmemAllocationProp;

typedef struct CUmemAccessDesc_st {
	CUmemLocation location;
	CUmemAccess_flags flags;
} CUmemAccessDesc;

typedef struct CUmemPoolProps_st {
	CUmemAllocationType allocType;
	CUmemAllocationHandleType handleTypes;
	CUmemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize;
	unsigned short usage;
	unsigned char reserved[54];
} CUmemPoolProps;

typedef struct CUmemcpyAttributes_st {
	CUmemcpySrcAccessOrder srcAccessOrder;
	CUmemLocation srcLocHint;
	CUmemLocation dstLocHint;
	unsigned int flags;
} CUmemcpyAttributes;

typedef struct CUgraphEdgeData_st {
	unsigned char from_port;
	unsigned char to_port;
	unsigned char type;
	unsigned char reserved[5];
} CUgraphEdgeData;

typedef struct CUDA_MEMCPY2D_st {
	size_t srcXInBytes;
	size_t srcY;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	size_t srcPitch;
	size_t dstXInBytes;
	size_t dstY;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	size_t dstPitch;
	size_t WidthInBytes;
	size_t Height;
} CUDA_MEMCPY2D;

#define P2P_CUDA_ASSERT(expr, value) _Static_assert((expr) == (value), #expr);
P2P_CUDA_SIZES(P2P_CUDA_ASSERT)
#undef P2P_CUDA_ASSERT

#endif /* P2P_CUDA_ABI_LISTS_ONLY */
#endif /* P2P_P2P_CUDA_ABI_H */
