/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The part of the HSA runtime's binary interface (ROCm's lowest library, which HIP is built
 * on) that the ROCm backend, the tests and their emulation use: under HSA's own names, so
 * that the same source compiles with <hsa/hsa.h> and <hsa/hsa_ext_amd.h> in this header's
 * place. The functions are declared for their types; the backend looks them up at run time.
 *
 * As in p2p_cuda_abi.h there are lists, which fabtests/rocmemu/abi_check.c compares with
 * the real headers: it defines P2P_HSA_ABI_LISTS_ONLY.
 */
#ifndef P2P_P2P_HSA_ABI_H
#define P2P_P2P_HSA_ABI_H

#define P2P_HSA_STATUSES(X)                                                                    \
	X(HSA_STATUS_SUCCESS, 0x0)                                                             \
	X(HSA_STATUS_INFO_BREAK, 0x1)                                                          \
	X(HSA_STATUS_ERROR, 0x1000)                                                            \
	X(HSA_STATUS_ERROR_INVALID_ARGUMENT, 0x1001)                                           \
	X(HSA_STATUS_ERROR_INVALID_ALLOCATION, 0x1003)                                         \
	X(HSA_STATUS_ERROR_INVALID_AGENT, 0x1004)                                              \
	X(HSA_STATUS_ERROR_OUT_OF_RESOURCES, 0x1008)                                           \
	X(HSA_STATUS_ERROR_NOT_INITIALIZED, 0x100b)

#define P2P_HSA_AGENT_INFOS(X)                                                                 \
	X(HSA_AGENT_INFO_NAME, 0)                                                              \
	X(HSA_AGENT_INFO_DEVICE, 17)

#define P2P_HSA_AMD_AGENT_INFOS(X)                                                             \
	X(HSA_AMD_AGENT_INFO_BDFID, 0xa006)                                                    \
	X(HSA_AMD_AGENT_INFO_PRODUCT_NAME, 0xa009)                                             \
	X(HSA_AMD_AGENT_INFO_DOMAIN, 0xa00f)

#define P2P_HSA_DEVICE_TYPES(X)                                                                \
	X(HSA_DEVICE_TYPE_CPU, 0)                                                              \
	X(HSA_DEVICE_TYPE_GPU, 1)

#define P2P_HSA_SIGNAL_CONDITIONS(X)                                                           \
	X(HSA_SIGNAL_CONDITION_EQ, 0)                                                          \
	X(HSA_SIGNAL_CONDITION_NE, 1)                                                          \
	X(HSA_SIGNAL_CONDITION_LT, 2)                                                          \
	X(HSA_SIGNAL_CONDITION_GTE, 3)

#define P2P_HSA_WAIT_STATES(X) X(HSA_WAIT_STATE_BLOCKED, 0)

#define P2P_HSA_SIGNAL_ATTRIBUTES(X) X(HSA_AMD_SIGNAL_AMD_GPU_ONLY, 1)

#define P2P_HSA_POINTER_TYPES(X)                                                               \
	X(HSA_EXT_POINTER_TYPE_UNKNOWN, 0)                                                     \
	X(HSA_EXT_POINTER_TYPE_HSA, 1)                                                         \
	X(HSA_EXT_POINTER_TYPE_LOCKED, 2)                                                      \
	X(HSA_EXT_POINTER_TYPE_GRAPHICS, 3)                                                    \
	X(HSA_EXT_POINTER_TYPE_IPC, 4)

#define P2P_HSA_SEGMENTS(X) X(HSA_AMD_SEGMENT_GLOBAL, 0)

#define P2P_HSA_POOL_INFOS(X)                                                                  \
	X(HSA_AMD_MEMORY_POOL_INFO_SEGMENT, 0)                                                 \
	X(HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, 5)

/* Every list of enumerators, for whoever wants to walk them all */
#define P2P_HSA_ENUMS(X)                                                                       \
	P2P_HSA_STATUSES(X)                                                                    \
	P2P_HSA_AGENT_INFOS(X)                                                                 \
	P2P_HSA_AMD_AGENT_INFOS(X)                                                             \
	P2P_HSA_DEVICE_TYPES(X)                                                                \
	P2P_HSA_SIGNAL_CONDITIONS(X)                                                           \
	P2P_HSA_WAIT_STATES(X)                                                                 \
	P2P_HSA_SIGNAL_ATTRIBUTES(X)                                                           \
	P2P_HSA_POINTER_TYPES(X)                                                               \
	P2P_HSA_SEGMENTS(X)                                                                    \
	P2P_HSA_POOL_INFOS(X)

/* Sizes and offsets that compiled programs rely on; pointer_info grows at its end */
#define P2P_HSA_SIZES(X)                                                                       \
	X(sizeof(hsa_status_t), 4)                                                             \
	X(sizeof(hsa_agent_t), 8)                                                              \
	X(sizeof(hsa_signal_t), 8)                                                             \
	X(sizeof(hsa_signal_value_t), 8)                                                       \
	X(sizeof(hsa_amd_memory_pool_t), 8)                                                    \
	X(sizeof(hsa_agent_info_t), 4)                                                         \
	X(sizeof(hsa_device_type_t), 4)                                                        \
	X(sizeof(hsa_amd_segment_t), 4)                                                        \
	X(offsetof(hsa_amd_pointer_info_t, type), 4)                                           \
	X(offsetof(hsa_amd_pointer_info_t, agentBaseAddress), 8)                               \
	X(offsetof(hsa_amd_pointer_info_t, hostBaseAddress), 16)                               \
	X(offsetof(hsa_amd_pointer_info_t, sizeInBytes), 24)                                   \
	X(offsetof(hsa_amd_pointer_info_t, userData), 32)                                      \
	X(offsetof(hsa_amd_pointer_info_t, agentOwner), 40)                                    \
	X(offsetof(hsa_amd_pointer_info_t, global_flags), 48)

/* X(type returned, name, parameters) */
#define P2P_HSA_FUNCTIONS(X)                                                                   \
	X(hsa_status_t, hsa_init, (void) )                                                     \
	X(hsa_status_t, hsa_shut_down, (void) )                                                \
	X(hsa_status_t, hsa_status_string, (hsa_status_t status, const char **text))           \
	X(hsa_status_t, hsa_iterate_agents,                                                    \
	  (hsa_status_t(*callback)(hsa_agent_t agent, void *data), void *data))                \
	X(hsa_status_t, hsa_agent_get_info,                                                    \
	  (hsa_agent_t agent, hsa_agent_info_t info, void *value))                             \
	X(hsa_status_t, hsa_memory_copy, (void *dst, const void *src, size_t size))            \
	X(hsa_status_t, hsa_signal_destroy, (hsa_signal_t signal))                             \
	X(hsa_signal_value_t, hsa_signal_load_scacquire, (hsa_signal_t signal))                \
	X(void, hsa_signal_add_relaxed, (hsa_signal_t signal, hsa_signal_value_t value))       \
	X(hsa_signal_value_t, hsa_signal_wait_scacquire,                                       \
	  (hsa_signal_t signal, hsa_signal_condition_t condition, hsa_signal_value_t value,    \
	   uint64_t timeout, hsa_wait_state_t how))                                            \
	X(hsa_status_t, hsa_amd_signal_create,                                                 \
	  (hsa_signal_value_t initial, uint32_t num_consumers, const hsa_agent_t *consumers,   \
	   uint64_t attributes, hsa_signal_t *signal))                                         \
	X(hsa_status_t, hsa_amd_pointer_info,                                                  \
	  (const void *ptr, hsa_amd_pointer_info_t *info, void *(*alloc)(size_t),              \
	   uint32_t *num_accessible, hsa_agent_t **accessible))                                \
	X(hsa_status_t, hsa_amd_pointer_info_set_userdata, (const void *ptr, void *data))      \
	X(hsa_status_t, hsa_amd_memory_lock,                                                   \
	  (void *host, size_t size, hsa_agent_t *agents, int count, void **agent_ptr))         \
	X(hsa_status_t, hsa_amd_memory_unlock, (void *host))                                   \
	X(hsa_status_t, hsa_amd_memory_async_copy,                                             \
	  (void *dst, hsa_agent_t dst_agent, const void *src, hsa_agent_t src_agent,           \
	   size_t size, uint32_t num_after, const hsa_signal_t *after,                         \
	   hsa_signal_t completion))                                                           \
	X(hsa_status_t, hsa_amd_agent_iterate_memory_pools,                                    \
	  (hsa_agent_t agent, hsa_status_t(*callback)(hsa_amd_memory_pool_t pool, void *data), \
	   void *data))                                                                        \
	X(hsa_status_t, hsa_amd_memory_pool_get_info,                                          \
	  (hsa_amd_memory_pool_t pool, hsa_amd_memory_pool_info_t info, void *value))          \
	X(hsa_status_t, hsa_amd_memory_pool_allocate,                                          \
	  (hsa_amd_memory_pool_t pool, size_t size, uint32_t flags, void **ptr))               \
	X(hsa_status_t, hsa_amd_memory_pool_free, (void *ptr))

#ifndef P2P_HSA_ABI_LISTS_ONLY

#include <stddef.h>
#include <stdint.h>

#define P2P_HSA_ENUMERATOR(name, value) name = value,

typedef enum { P2P_HSA_STATUSES(P2P_HSA_ENUMERATOR) } hsa_status_t;

typedef enum { P2P_HSA_AGENT_INFOS(P2P_HSA_ENUMERATOR) } hsa_agent_info_t;

typedef enum { P2P_HSA_AMD_AGENT_INFOS(P2P_HSA_ENUMERATOR) } hsa_amd_agent_info_t;

typedef enum { P2P_HSA_DEVICE_TYPES(P2P_HSA_ENUMERATOR) } hsa_device_type_t;

typedef enum { P2P_HSA_SIGNAL_CONDITIONS(P2P_HSA_ENUMERATOR) } hsa_signal_condition_t;

typedef enum { P2P_HSA_WAIT_STATES(P2P_HSA_ENUMERATOR) } hsa_wait_state_t;

typedef enum { P2P_HSA_SIGNAL_ATTRIBUTES(P2P_HSA_ENUMERATOR) } hsa_amd_signal_attribute_t;

typedef enum { P2P_HSA_POINTER_TYPES(P2P_HSA_ENUMERATOR) } hsa_amd_pointer_type_t;

typedef enum { P2P_HSA_SEGMENTS(P2P_HSA_ENUMERATOR) } hsa_amd_segment_t;

typedef enum { P2P_HSA_POOL_INFOS(P2P_HSA_ENUMERATOR) } hsa_amd_memory_pool_info_t;

typedef struct hsa_agent_s {
	uint64_t handle;
} hsa_agent_t;

typedef struct hsa_signal_s {
	uint64_t handle;
} hsa_signal_t;

typedef struct hsa_amd_memory_pool_s {
	uint64_t handle;
} hsa_amd_memory_pool_t;

typedef int64_t hsa_signal_value_t;

typedef struct hsa_amd_pointer_info_s {
	uint32_t size;
	hsa_amd_pointer_type_t type;
	void *agentBaseAddress;
	void *hostBaseAddress;
	size_t sizeInBytes;
	void *userData;
	hsa_agent_t agentOwner;
	uint32_t global_flags;
} hsa_amd_pointer_info_t;

#define P2P_HSA_PROTOTYPE(type, name, parameters) type name parameters;
P2P_HSA_FUNCTIONS(P2P_HSA_PROTOTYPE)

#endif /* P2P_HSA_ABI_LISTS_ONLY */

#endif /* P2P_P2P_HSA_ABI_H */
