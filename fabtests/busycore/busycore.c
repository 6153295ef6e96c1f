/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Preloaded into tests: core providers whose queues are full every now and then.
 *
 * ofi_p2p opens core providers by fi_fabric(3). So this library puts its own fi_fabric before
 * libfabric's, and then its own calls before those of each endpoint in such a fabric: the sends
 * and the remote memory operations. One of four ends with -FI_EAGAIN, and now and then many in
 * a row. ofi_p2p must expect that at any time. Nothing is lost by it, and no data passes here.
 *
 * BUSYCORE_SEED=N: the seed of the random choices; 1 unless it is set
 *
 * Instead of all that:
 * BUSYCORE_FAIL=N: the N-th call fails with -FI_EIO, and the process says so on stderr. Receives are
 * among those calls then
 * BUSYCORE_LATE, BUSYCORE_CUT, BUSYCORE_LOSE, BUSYCORE_PAUSE: completions are changed; see completions.c
 * BUSYCORE_NULL: writes and reads end at once; see null.c
 *
 * BUSYCORE_CPUS: with any of these, another number of processors; see cpus.c
 */
#include "busycore.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

/* Here this is the name of a function */
#undef fi_fabric
#define BUSY_EXPORT __attribute__((visibility("default")))

#define BUSY_ONE_OF 4      /* one of so many calls is refused */
#define BUSY_SPELL_OF 64   /* one of so many calls begins a spell of refusals */
#define BUSY_SPELL_MAX 256 /* the most refusals in a spell */

/* Is the core full now? */
static bool busy_refuses(void)
{
	static unsigned int seed, spell;
	static bool seeded;
	bool refuses;

	if (!seeded) {
		seed = busy_seed();
		seeded = true;
	}
	if (!spell && rand_r(&seed) % BUSY_SPELL_OF == 0)
		spell = (unsigned int) rand_r(&seed) % BUSY_SPELL_MAX;
	refuses = spell || rand_r(&seed) % BUSY_ONE_OF == 0;
	spell -= spell > 0;
	return refuses;
}

/* Does this call fail? */
static bool busy_fails(const char *wish)
{
	static long calls;

	if (++calls != atol(wish))
		return false;
	fprintf(stderr, "fault: core:%s\n", wish);
	return true;
}

/* What a call ends with that the core is not to have; 0: it has it */
static ssize_t busy_answer(bool receives)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const char *wish = getenv("BUSYCORE_FAIL");
	ssize_t ret;

	pthread_mutex_lock(&lock);
	if (wish)
		ret = busy_fails(wish) ? -FI_EIO : 0;
	else
		ret = !receives && !late_wanted() && !null_wanted() && busy_refuses()
			      ? -FI_EAGAIN
			      : 0;
	pthread_mutex_unlock(&lock);
	return ret;
}

/* ---- an endpoint's calls: those that ofi_p2p sends with ---- */

static ssize_t busy_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	const ssize_t ret = busy_answer(false);

	return ret ? ret : busy_find(ep)->msg->sendmsg(ep, msg, flags);
}

static ssize_t busy_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			       fi_addr_t dest)
{
	const ssize_t ret = busy_answer(false);

	return ret ? ret : busy_find(ep)->msg->injectdata(ep, buf, len, data, dest);
}

static ssize_t busy_tsendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	const ssize_t ret = busy_answer(false);

	return ret ? ret : busy_find(ep)->tagged->sendmsg(ep, msg, flags);
}

static ssize_t busy_tinjectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
				fi_addr_t dest, uint64_t tag)
{
	const ssize_t ret = busy_answer(false);

	return ret ? ret : busy_find(ep)->tagged->injectdata(ep, buf, len, data, dest, tag);
}

static ssize_t busy_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	const ssize_t ret = busy_answer(true);

	return ret ? ret : busy_find(ep)->msg->recvmsg(ep, msg, flags);
}

static ssize_t busy_trecvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	const ssize_t ret = busy_answer(true);

	return ret ? ret : busy_find(ep)->tagged->recvmsg(ep, msg, flags);
}

static ssize_t busy_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	const ssize_t ret = busy_answer(false);

	return ret ? ret : busy_find(ep)->rma->readmsg(ep, msg, flags);
}

static ssize_t busy_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	const ssize_t ret = busy_answer(false);

	return ret ? ret : busy_find(ep)->rma->writemsg(ep, msg, flags);
}

static ssize_t busy_null_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg,
				  uint64_t flags)
{
	return null_write(busy_find(ep), msg, flags);
}

static ssize_t busy_null_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg,
				 uint64_t flags)
{
	return null_end(busy_find(ep), msg->context, FI_READ, flags);
}

static ssize_t busy_null_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest,
				uint64_t addr, uint64_t key)
{
	return null_end(busy_find(ep), NULL, FI_WRITE, 0);
}

/* Once an endpoint is enabled, its tables do not change any more. */
static void busy_enabled(struct busy *busy, struct fid_ep *ep)
{
	busy->msg = ep->msg;
	if (ep->msg) {
		ep->msg = busy_copy(ep->msg);
		ep->msg->sendmsg = busy_sendmsg;
		ep->msg->injectdata = busy_injectdata;
		ep->msg->recvmsg = busy_recvmsg;
	}
	busy->tagged = ep->tagged;
	if (ep->tagged) {
		ep->tagged = busy_copy(ep->tagged);
		ep->tagged->sendmsg = busy_tsendmsg;
		ep->tagged->injectdata = busy_tinjectdata;
		ep->tagged->recvmsg = busy_trecvmsg;
	}
	busy->rma = ep->rma;
	if (ep->rma) {
		ep->rma = busy_copy(ep->rma);
		ep->rma->readmsg = busy_readmsg;
		ep->rma->writemsg = busy_writemsg;
		if (null_wanted()) {
			ep->rma->readmsg = busy_null_readmsg;
			ep->rma->writemsg = busy_null_writemsg;
			ep->rma->inject = busy_null_inject;
		}
	}
}

static int busy_bind(struct fid *fid, struct fid *bound, uint64_t flags)
{
	struct busy *busy = busy_find(fid);

	if (null_wanted() && bound->fclass == FI_CLASS_CQ && flags & FI_TRANSMIT)
		busy->null = busy_find(bound)->null;
	return busy->fid->bind(fid, bound, flags);
}

static int busy_control(struct fid *fid, int command, void *arg)
{
	struct busy *busy = busy_find(fid);
	const int ret = busy->fid->control(fid, command, arg);

	if (!ret && command == FI_ENABLE)
		busy_enabled(busy, (struct fid_ep *) fid);
	return ret;
}

/* ---- the way to it ---- */

static int busy_close(struct fid *fid)
{
	const int ret = busy_find(fid)->fid->close(fid);

	if (!ret)
		late_hurry();
	return ret;
}

static int busy_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			 void *context)
{
	const int ret = busy_find(domain)->domain->endpoint(domain, info, ep, context);

	if (ret)
		return ret;
	busy_new(*ep)->fid = (*ep)->fid.ops;
	(*ep)->fid.ops = busy_copy((*ep)->fid.ops);
	(*ep)->fid.ops->close = busy_close;
	(*ep)->fid.ops->control = busy_control;
	(*ep)->fid.ops->bind = busy_bind;
	return 0;
}

static int busy_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
			void *context)
{
	const int ret = busy_find(domain)->domain->cq_open(domain, attr, cq, context);

	if (!ret && late_wanted())
		late_opened(*cq, attr);
	else if (!ret && null_wanted())
		null_opened(*cq, attr);
	return ret;
}

static int busy_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
			  struct fid_cntr **cntr, void *context)
{
	const int ret = busy_find(domain)->domain->cntr_open(domain, attr, cntr, context);

	if (!ret && late_wanted())
		late_counter_opened(*cntr);
	return ret;
}

static int busy_domain(struct fid_fabric *fabric, struct fi_info *info,
		       struct fid_domain **domain, void *context)
{
	const int ret = busy_find(fabric)->fabric->domain(fabric, info, domain, context);

	if (ret)
		return ret;
	busy_new(*domain)->domain = (*domain)->ops;
	(*domain)->ops = busy_copy((*domain)->ops);
	(*domain)->ops->endpoint = busy_endpoint;
	(*domain)->ops->cq_open = busy_cq_open;
	(*domain)->ops->cntr_open = busy_cntr_open;
	return 0;
}

/* Nobody may sleep while a completion is held back */
static int busy_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	for (int i = 0; i < count; i++)
		if (late_holds(fids[i]))
			return -FI_EAGAIN;
	return busy_find(fabric)->fabric->trywait(fabric, fids, count);
}

/* Does libfabric itself call? ofi_rxm does so, for the provider below it */
static bool busy_within(void *caller, void *real)
{
	Dl_info from, libfabric;

	return dladdr(caller, &from) && dladdr(real, &libfabric) &&
	       from.dli_fbase == libfabric.dli_fbase;
}

BUSY_EXPORT int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
			  void *context)
{
	void *symbol = dlsym(RTLD_NEXT, "fi_fabric");
	int (*const real)(struct fi_fabric_attr *, struct fid_fabric **, void *) =
		(int (*)(struct fi_fabric_attr *, struct fid_fabric **, void *))(
			uintptr_t) symbol;
	const int ret = real(attr, fabric, context);

	if (ret || strstr(attr->prov_name, "ofi_p2p"))
		return ret;
	/* it may rely on an order there */
	if ((late_wanted() || null_wanted()) &&
	    busy_within(__builtin_return_address(0), symbol))
		return 0;
	busy_new(*fabric)->fabric = (*fabric)->ops;
	(*fabric)->ops = busy_copy((*fabric)->ops);
	(*fabric)->ops->domain = busy_domain;
	(*fabric)->ops->trywait = busy_trywait;
	return 0;
}
