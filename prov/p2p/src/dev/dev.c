/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The list of GPU runtimes. See dev.h. */
#include "dev/dev.h"

#include <rdma/fi_errno.h>

#include "config.h"
#include "base/conf.h"
#include "dev/dev_backends.h"
#include "dev/dev_none.h"
#include "dev/dl.h"
#include "base/log.h"
#include "base/process.h"
#include "base/thread.h"

static const struct {
	const struct dev_ops *ops;
	const bool *wanted;
	const char *param;
} dev_known[] = {
#if HAVE_CUDA
	{&dev_cuda_ops, &conf.cuda, "FI_P2P_CUDA"},
#endif
#if HAVE_ROCM
	{&dev_rocr_ops, &conf.rocm, "FI_P2P_ROCM"},
#endif
	{NULL, NULL, NULL}};

#define DEV_KNOWN (sizeof dev_known / sizeof dev_known[0])

/* Those of them that this machine has, and those that are in use; NULL ends the lists */
static const struct dev_ops *dev_installed[DEV_KNOWN], *dev_backends[DEV_KNOWN];
bool dev_present;

/* What dev_news points to where there is nothing to look for, and once what there is is in use */
static void *const dev_never, *const dev_always = (void *) &dev_always;
void *const *dev_news = &dev_never;

static bool dev_in_process(void)
{
	for (int i = 0; dev_installed[i]; i++) {
		if (dl_loaded(dev_installed[i]->soname))
			return true;
	}
	return false;
}

/*
 * Once one of them is in the process all are loaded, so that there is nothing to watch for any
 * more. Where libraries cannot be watched they are loaded at once.
 */
static void dev_look_locked(void)
{
	/* first, so that nothing comes in between unseen */
	void *const *news = dl_watch();
	int found = 0;

	if (news && !dev_in_process()) {
		__atomic_store_n(&dev_news, news, __ATOMIC_RELAXED);
		return;
	}
	for (int i = 0; dev_installed[i]; i++) {
		if (dev_installed[i]->load())
			continue;
		P2P_INFO("%s: buffers are looked up from now on\n", dev_installed[i]->name);
		dev_backends[found++] = dev_installed[i];
	}
	__atomic_store_n(&dev_news, found ? &dev_always : &dev_never, __ATOMIC_RELEASE);
}

/* Tells whether the process is known to use a GPU. */
static bool dev_used(void)
{
	return __atomic_load_n(&dev_news, __ATOMIC_ACQUIRE) == &dev_always;
}

static P2P_APART bool dev_look_news(void)
{
	process_lock(PROCESS_RUNTIMES);
	/* another thread may have looked meanwhile */
	if (!dev_used() && dl_news(dev_news))
		dev_look_locked();
	process_unlock(PROCESS_RUNTIMES);
	return dev_used();
}

bool dev_look(void)
{
	return dev_used() || dev_look_news();
}

void dev_init(void)
{
	static bool tried;
	int found = 0;

	process_lock(PROCESS_RUNTIMES);
	for (int i = 0; !tried && dev_known[i].ops; i++) {
		if (!*dev_known[i].wanted)
			P2P_WARN(
				"%s=no: its device memory is taken for the host's, and the CPU "
				"faults at it. Unset it, if there is any\n",
				dev_known[i].param);
		else if (dl_installed(dev_known[i].ops->libdir, dev_known[i].ops->soname))
			dev_installed[found++] = dev_known[i].ops;
	}
	if (found) {
		dev_present = true;
		dev_look_locked();
	} else if (!tried) {
		P2P_INFO("no GPU runtime on this machine: all buffers are host memory\n");
	}
	tried = true;
	process_unlock(PROCESS_RUNTIMES);
}

int dev_open(int iface)
{
	int ret = -FI_ENOSYS;

	dev_init();
	process_lock(PROCESS_RUNTIMES);
	for (int i = 0; !dev_used() && dev_installed[i]; i++) {
		if (dev_installed[i]->iface == iface && !dev_installed[i]->load())
			dev_look_locked();
	}
	for (int i = 0; dev_used() && dev_backends[i]; i++) {
		if (dev_backends[i]->iface == iface)
			ret = dev_backends[i]->init();
	}
	process_unlock(PROCESS_RUNTIMES);
	return ret;
}

int dev_find(const void *addr, struct dev_mem *mem)
{
	int ret = 0;

	for (int i = 0; !ret && dev_backends[i]; i++)
		ret = dev_backends[i]->find(addr, mem);
	return ret;
}

int dev_identify(const void *addr, uint64_t *id)
{
	int ret = 0;

	*id = 0;
	for (const struct dev_ops *const *ops = dev_backends; !ret && *ops; ops++)
		ret = (*ops)->identify(addr, id);
	return ret;
}

int dev_current(struct dev_mem *mem)
{
	int ret = 0;

	for (int i = 0; !ret && dev_active() && dev_backends[i]; i++)
		ret = dev_backends[i]->current(mem);
	return ret;
}

/* A thread that was served once is none of the runtime's own, which run host functions */
bool dev_lend(void *(*run)(void *arg), void *arg)
{
	static __thread bool served;
	struct dev_mem mem;
	pthread_t thread;

	if (p2p_likely(served))
		return false;
	served = thread_is_ours() || dev_current(&mem) >= 0;
	if (served || thread_start(&thread, "p2p_lent", run, arg))
		return false;
	pthread_join(thread, NULL);
	return true;
}

/* The runtime @iface in this process, or NULL */
static const struct dev_ops *dev_of(int iface)
{
	for (int i = 0; dev_active() && dev_backends[i]; i++) {
		if (dev_backends[i]->iface == iface)
			return dev_backends[i];
	}
	return NULL;
}

bool dev_hosts(int iface, const void *addr)
{
	const struct dev_ops *ops = dev_of(iface);

	return ops && ops->hosts(addr);
}

int dev_by_number(int iface, int ordinal, struct dev_mem *mem)
{
	const struct dev_ops *ops = dev_of(iface);

	return ops ? ops->device(ordinal, mem) : -FI_ENODEV;
}

void dev_sync(void)
{
	for (int i = 0; dev_active() && dev_backends[i]; i++)
		dev_backends[i]->sync();
}

const char *dev_loads_late(void)
{
	const char *remedy = NULL;

	for (int i = 0; !remedy && dev_active() && dev_backends[i]; i++)
		remedy = dev_backends[i]->loads_late();
	return remedy;
}

bool dev_ipc_present(void)
{
	for (int i = 0; dev_installed[i]; i++) {
		if (dev_installed[i]->ipc_open != dev_none_ipc_open)
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
