/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 1: the list of GPU runtimes. See dev.h. */
#include "dev.h"

#include <pthread.h>
#include <stdio.h>

#include "config.h"
#include "conf.h"
#include "dev_backends.h"
#include "log.h"

static const struct {
	const struct dev_ops *ops;
	const bool *wanted;
} dev_known[] = {
#if HAVE_CUDA
	{&dev_cuda_ops, &conf.cuda},
#endif
#if HAVE_ROCM
	{&dev_rocr_ops, &conf.rocm},
#endif
	{NULL, NULL}};

/* Those of them that this machine has; NULL ends the list */
static const struct dev_ops *dev_backends[sizeof dev_known / sizeof dev_known[0]];
static pthread_mutex_t dev_lock = PTHREAD_MUTEX_INITIALIZER;
bool dev_present;

void dev_load(void)
{
	static bool tried;
	int found = 0;

	pthread_mutex_lock(&dev_lock);
	for (int i = 0; !tried && dev_known[i].ops; i++) {
		if (*dev_known[i].wanted && !dev_known[i].ops->load())
			dev_backends[found++] = dev_known[i].ops;
	}
	if (found)
		dev_present = true;
	else if (!tried)
		P2P_INFO("no GPU runtime on this machine: all buffers are host memory\n");
	tried = true;
	pthread_mutex_unlock(&dev_lock);
}

bool dev_find(const void *addr, struct dev_mem *mem)
{
	for (int i = 0; dev_backends[i]; i++) {
		if (dev_backends[i]->find(addr, mem))
			return true;
	}
	return false;
}

int dev_pci_node(int domain, int bus, int device)
{
	char path[64];
	int node = -1;
	FILE *file;

	snprintf(path, sizeof path, "/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node", domain,
		 bus, device);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%d", &node) != 1)
		node = -1;
	fclose(file);
	return node;
}

bool dev_ipc_present(void)
{
	for (int i = 0; dev_backends[i]; i++) {
		if (dev_backends[i]->ipc_open)
			return true;
	}
	return false;
}

int dev_queue_passed(struct dev_queue *queue, uint32_t mark)
{
	int ret = queue->ops->queue_poll(queue);

	if (ret)
		return ret;
	/* numbers wrap around; fewer than 2^31 marks are ever in flight */
	return (int32_t) (__atomic_load_n(queue->reached, __ATOMIC_ACQUIRE) - mark) >= 0;
}
