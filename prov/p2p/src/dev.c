/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 1: the list of GPU runtimes. See dev.h. */
#include "dev.h"

#include <pthread.h>

#include "config.h"
#include "conf.h"
#include "dev_backends.h"
#include "log.h"

static const struct dev_ops *dev_backends[1];
static pthread_mutex_t dev_lock = PTHREAD_MUTEX_INITIALIZER;
bool dev_present;

void dev_load(void)
{
	static bool tried;

	pthread_mutex_lock(&dev_lock);
#if HAVE_CUDA
	if (!tried && conf.cuda && !dev_cuda_ops.load()) {
		dev_backends[0] = &dev_cuda_ops;
		dev_present = true;
	}
#endif
	if (!tried && !dev_present)
		P2P_INFO("no GPU runtime on this machine: all buffers are host memory\n");
	tried = true;
	pthread_mutex_unlock(&dev_lock);
}

bool dev_find(const void *addr, struct dev_mem *mem)
{
	return dev_present && dev_backends[0]->find(addr, mem);
}

int dev_queue_passed(struct dev_queue *queue, uint32_t mark)
{
	int ret = queue->ops->queue_poll(queue);

	if (ret)
		return ret;
	/* numbers wrap around; fewer than 2^31 marks are ever in flight */
	return (int32_t) (__atomic_load_n(queue->reached, __ATOMIC_ACQUIRE) - mark) >= 0;
}
