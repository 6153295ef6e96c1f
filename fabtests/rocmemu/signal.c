/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Emulated HSA: signals. A handle is the address of a number. */
#include "rocm.h"

#include <stdlib.h>

static pthread_mutex_t rocm_signal_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t rocm_signal_changed = PTHREAD_COND_INITIALIZER;

static hsa_signal_value_t *rocm_signal_value(hsa_signal_t signal)
{
	return (hsa_signal_value_t *) (uintptr_t) signal.handle;
}

hsa_status_t hsa_amd_signal_create(hsa_signal_value_t initial, uint32_t num_consumers,
				   const hsa_agent_t *consumers, uint64_t attributes,
				   hsa_signal_t *signal)
{
	hsa_signal_value_t *value;

	ROCM_ENTER();
	value = malloc(sizeof(*value));
	if (!value)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	*value = initial;
	signal->handle = (uintptr_t) value;
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_signal_destroy(hsa_signal_t signal)
{
	ROCM_ENTER();
	if (!signal.handle)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	/* whoever counted down last may still hold the lock */
	pthread_mutex_lock(&rocm_signal_lock);
	free(rocm_signal_value(signal));
	pthread_mutex_unlock(&rocm_signal_lock);
	return HSA_STATUS_SUCCESS;
}

hsa_signal_value_t hsa_signal_load_scacquire(hsa_signal_t signal)
{
	return __atomic_load_n(rocm_signal_value(signal), __ATOMIC_SEQ_CST);
}

/* With what was there times @keep */
static void rocm_signal_set(hsa_signal_t signal, int keep, hsa_signal_value_t add)
{
	hsa_signal_value_t *value = rocm_signal_value(signal);

	pthread_mutex_lock(&rocm_signal_lock);
	__atomic_store_n(value, *value * keep + add, __ATOMIC_SEQ_CST);
	pthread_cond_broadcast(&rocm_signal_changed);
	pthread_mutex_unlock(&rocm_signal_lock);
}

void hsa_signal_add_relaxed(hsa_signal_t signal, hsa_signal_value_t value)
{
	rocm_signal_set(signal, 1, value);
}

static bool rocm_signal_is(hsa_signal_value_t now, hsa_signal_condition_t condition,
			   hsa_signal_value_t value)
{
	switch (condition) {
	case HSA_SIGNAL_CONDITION_EQ:
		return now == value;
	case HSA_SIGNAL_CONDITION_NE:
		return now != value;
	case HSA_SIGNAL_CONDITION_LT:
		return now < value;
	case HSA_SIGNAL_CONDITION_GTE:
		return now >= value;
	}
	abort();
}

/* Never gives up before the condition holds: the timeout is a hint */
hsa_signal_value_t hsa_signal_wait_scacquire(hsa_signal_t signal,
					     hsa_signal_condition_t condition,
					     hsa_signal_value_t value, uint64_t timeout,
					     hsa_wait_state_t how)
{
	hsa_signal_value_t now;

	pthread_mutex_lock(&rocm_signal_lock);
	while (!rocm_signal_is(now = hsa_signal_load_scacquire(signal), condition, value))
		pthread_cond_wait(&rocm_signal_changed, &rocm_signal_lock);
	pthread_mutex_unlock(&rocm_signal_lock);
	return now;
}

void rocm_copy_ends(void *value)
{
	hsa_signal_t signal = {(uintptr_t) value};

	rocm_signal_set(signal, emu_enter("hsa_copy_ends", EMU_NEED_NOTHING) == CUDA_SUCCESS,
			-1);
}
