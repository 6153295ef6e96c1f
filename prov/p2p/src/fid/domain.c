/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Domains. See domain.h. */
#include "fid/domain.h"

#include <stdlib.h>
#include <unistd.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "base/amo.h"
#include "fid/atomic.h"
#include "fid/av.h"
#include "fid/cntr.h"
#include "fid/collective.h"
#include "base/conf.h"
#include "fid/cq.h"
#include "dev/dev.h"
#include "fid/ep.h"
#include "fid/fid.h"
#include "path/info.h"
#include "path/quirks.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "fid/mr.h"
#include "fid/native.h"
#include "fid/pollset.h"
#include "fid/rbuf.h"
#include "fid/table.h"

/*
 * Where operations wait for counters, any counter may be slept on. So every endpoint is bound to the
 * waker, which is there before them.
 */
static void domain_open_waker(struct p2p_domain *domain)
{
	if (domain->triggers && domain->kind->early)
		wait_waker_get(&domain->xfer,
			       domain->xfer.quirks & QUIRK_NO_COUNTERS ? NULL : domain->core);
}

/* 0, or -FI_EBUSY if an endpoint is left */
static int domain_close_waker(struct p2p_domain *domain)
{
	struct xfer *xfer = &domain->xfer;
	bool used;

	if (!domain->triggers || !domain->kind->early)
		return 0;
	p2p_lock_take(&xfer->lock);
	used = !LIST_EMPTY(&xfer->eps);
	p2p_lock_drop(&xfer->lock);
	if (used)
		return -FI_EBUSY;
	wait_waker_put(xfer);
	return 0;
}

static int domain_close(struct fid *fid)
{
	struct p2p_domain *domain = domain_of(fid);
	bool local = domain->xfer.local;
	int ret;

	if (domain_inherited(domain))
		return 0;
	if (__atomic_load_n(&domain->users, __ATOMIC_ACQUIRE) || domain_close_waker(domain))
		return -FI_EBUSY;
	xfer_give_back(&domain->xfer);
	ret = fi_close(&domain->core->fid);
	if (ret) {
		domain_open_waker(domain);
		if (local)
			xfer_want_local(&domain->xfer);
		return ret;
	}
	/* the thread goes on until the close succeeds: from here on it may touch nothing */
	if (domain->automatic)
		auto_stop(&domain->auto_thread);
	/*
	 * no object is left that GPUs could wait for. Until now the core could have refused the close, and
	 * streams gone on
	 */
	fid_exports_end(&domain->exports);
	if (domain->triggers)
		domain->triggers->close(domain);
	survey_close(&domain->xfer.survey);
	xfer_fini(&domain->xfer);
	lf.freeinfo(domain->core_info);
	free(domain);
	return 0;
}

static int domain_control(struct fid *fid, int command, void *arg)
{
	struct p2p_domain *domain = domain_of(fid);

	return domain->triggers ? domain->triggers->control(domain, command, arg)
				: fid_control(fid, command, arg);
}

static int domain_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
			       struct fi_atomic_attr *attr, uint64_t flags)
{
	struct p2p_domain *domain = domain_of(&fid->fid);
	int ret = fi_query_atomic(domain->core, datatype, op, attr, flags);

	if (ret && attr && domain_serves_atomics(domain)) {
		ret = atomic_check_flags(flags);
		if (!ret)
			*attr = (struct fi_atomic_attr){SIZE_MAX, amo_size(datatype)};
	}
	if (!ret)
		attr->count = atomic_count(&domain->xfer, datatype, op, flags, attr->count);
	return !ret && !attr->count ? -FI_EOPNOTSUPP : ret;
}

/* Nothing is posted there, nor bound to it. So the application is given the core's own. */
static int domain_stx_ctx(struct fid_domain *fid, struct fi_tx_attr *attr, struct fid_stx **stx,
			  void *context)
{
	struct p2p_domain *domain = domain_of(&fid->fid);
	int ret = kind_offers(domain->kind, FI_CLASS_STX_CTX);

	return ret ? ret : fi_stx_context(domain->core, attr, stx, context);
}

static int domain_xpu_ctx(struct fid_domain *domain, struct fi_xpu_attr *attr,
			  struct fid_xpu_ctx **ctx, void *context)
{
	return native_calls ? native_calls->ctx(domain, attr, ctx, context) : -FI_ENOSYS;
}

static struct fid_class domain_class = {
	.ops = FID_OPS(.close = domain_close, .bind = fid_bind, .control = domain_control,
		       .ops_set = rbuf_ops_set),
	.core = offsetof(struct p2p_domain, core),
};

static union table_domain domain_table = {
	.ops =
		{
			.av_open = av_open,
			.cq_open = cq_open,
			.endpoint = ep_open,
			.scalable_ep = ep_open_sep,
			.cntr_open = cntr_open,
			.poll_open = pollset_open,
			.stx_ctx = domain_stx_ctx,
			.srx_ctx = ep_open_srx,
			.query_atomic = domain_query_atomic,
			.query_collective = collective_query,
			.endpoint2 = ep_open2,
		},
};

static __attribute__((constructor)) void domain_complete_table(void)
{
	table_complete(domain_table.entry, LF_DOMAIN_XPU_CTX, (table_entry) domain_xpu_ctx);
}

/* Why the core's NIC cannot have device memory; NULL: it can, as far as is known */
static const char *domain_maps_not(uint64_t quirks)
{
	if (!(quirks & QUIRK_MAPS))
		return "the core provider registers no device memory";
	if (!dev_present)
		return "there is no GPU runtime";
	if (conf.path == CONF_PATH_STAGE)
		return "FI_P2P_PATH=stage";
	if (conf.path == CONF_PATH_IPC)
		return "FI_P2P_PATH=ipc";
	return NULL;
}

static const char *domain_core_name(const struct fi_info *core)
{
	const char *name = core->fabric_attr ? core->fabric_attr->prov_name : NULL;

	return name ? name : "the core provider";
}

static void domain_say_quirks(const struct fi_info *core)
{
	const char *name = domain_core_name(core);

	for (size_t i = 0; i < quirks_count; i++) {
		if (quirks_match(&quirks_table[i], name, fi_version()))
			P2P_INFO("%s %s\n", name, quirks_table[i].does);
	}
}

/* Makes the plan. @core_info: the application's, becomes what the core is asked for */
static int domain_plan(struct p2p_domain *domain, const struct fi_info *info,
		       struct fi_info *core_info, struct domain_plan *plan)
{
	const struct fid_kind *fabric = domain->fabric->kind;
	const struct fid_kind *kind = info_is_rdm(info) ? fabric : fabric->plain;
	int ret = kind->to_core ? kind->to_core(core_info) : 0;

	if (ret)
		return ret;
	domain->kind = kind;
	if (info->caps & kind->ours & FI_TRIGGER)
		domain->triggers = domain->fabric->triggers;
	*plan = (struct domain_plan){.quirks =
					     quirks_of(core_info, fi_version()) & kind->quirks};
	domain_say_quirks(core_info);
	plan->why = domain_maps_not(plan->quirks);
	kind->plan(domain, info, core_info, plan);
	/* a thread that calls reads all of the domain's queues */
	if (domain->automatic || info->domain_attr->threading != FI_THREAD_DOMAIN)
		core_info->domain_attr->threading = FI_THREAD_SAFE;
	return 0;
}

/*
 * The core's counters look for messages when they are read, and nobody has the lock then: so we count. Threads of ours
 * make automatic progress, and carry out works.
 */
static void domain_init_serial(struct p2p_domain *domain)
{
	struct xfer *xfer = &domain->xfer;

	if (!dev_present || !xfer->lock.shared)
		xfer->quirks &= ~QUIRK_SERIAL;
	if (!(xfer->quirks & QUIRK_SERIAL))
		return;
	xfer->quirks |= QUIRK_NO_COUNTERS;
	if (domain->automatic || domain->triggers) {
		p2p_lock_take(&xfer->lock);
		xfer_serialise(xfer);
		p2p_lock_drop(&xfer->lock);
	}
}

/* How long the close of an endpoint waits for what is owed to peers: they may have gone [ms] */
#define DOMAIN_FAREWELL 1000

/* Prepares what transfers take, once the core's domain is open. 0 or an error */
static int domain_init_xfer(struct p2p_domain *domain, const struct fi_info *info,
			    const struct fi_info *core_info, const struct domain_plan *plan)
{
	const bool local = plan->local || info->domain_attr->mr_mode & FI_MR_LOCAL;
	const int core_mode = core_info->domain_attr->mr_mode;
	/* where it was added for FI_TRIGGER, ofi_rxm does not tell the core below it, which has the regions */
	const int lent_mode =
		plan->quirks & QUIRK_STALLS ? core_mode : info->domain_attr->mr_mode;
	struct xfer *xfer = &domain->xfer;
	int ret = xfer_init(xfer, domain->kind->protos,
			    core_info->domain_attr->threading != FI_THREAD_DOMAIN,
			    local ? domain->core : NULL);

	if (ret)
		return ret;
	domain->owner = getpid();
	survey_open(&xfer->survey, domain_core_name(core_info));
	xfer->quirks = plan->quirks;
	domain_init_serial(domain);
	xfer->farewell = DOMAIN_FAREWELL;
	/* the staging memory is registered, so that peers may read from it (rndv_lent.h) */
	if (dev_present && xfer->quirks & QUIRK_LENDS)
		xfer->stage.lender = domain->core;
	xfer->wait.fabric = domain->fabric->core;
	nic_map_init(&xfer->map, plan->why ? NULL : domain->core, plan->why,
		     !(xfer->quirks & QUIRK_NO_DMABUF));
	if (plan->why)
		xfer->quirks &= ~QUIRK_DIRECT;
	xfer->virt_addr = core_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC);
	xfer->stage.virt_addr = lent_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC);
	/* a key of the cache's may come twice, and must not: QUIRK_KEY_ONCE */
	if (info->caps & FI_ATOMIC)
		xfer->local_flags = MAP_FLAG_NOCACHE;
	xfer->key_mark = plan->key_mark;
	xfer->keys_ours = plan->keys_ours;
	domain->virt_addr =
		(domain_serves_triggers(domain) ? info->domain_attr->mr_mode : core_mode) &
		(FI_MR_VIRT_ADDR | FI_MR_BASIC);
	ret = plan->local ? xfer_want_local(xfer) : 0;
	if (!ret && domain->triggers)
		ret = domain->triggers->open(domain);
	if (!ret && domain->automatic)
		ret = auto_start(&domain->auto_thread, xfer);
	if (!ret) {
		domain_open_waker(domain);
		return 0;
	}
	if (domain->trigger)
		domain->triggers->close(domain);
	survey_close(&xfer->survey);
	xfer_fini(xfer);
	return ret;
}

/* As libfabric has it: an application of old may know of FI_HMEM. With FI_P2P_HMEM any may have been given it. */
static size_t domain_mr_attr_len(const struct p2p_domain *domain)
{
	const uint32_t version = domain->fabric->fid.api_version;

	if (version >= LF_MR_IFACE_API || (domain->hmem && !conf.hmem))
		return 0;
	return version >= LF_MR_AUTH_KEY_API ? offsetof(struct fi_mr_attr, iface)
					     : offsetof(struct fi_mr_attr, auth_key_size);
}

int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain_fid,
		void *context)
{
	struct domain_plan plan;
	struct p2p_domain *domain;
	struct fi_info *core_info = NULL;
	int ret = -FI_ENOMEM;

	if (!info || !info->domain_attr || !domain_fid)
		return -FI_EINVAL;
	/* not at load time: an application may never open a domain */
	dev_init();
	domain = p2p_new(sizeof *domain);
	if (domain)
		core_info = domain->core_info = libfabric_copy_info(info);
	if (!core_info)
		goto free_both;
	domain->fabric = fabric_of(&fabric->fid);
	domain->source = info->caps & FI_SOURCE;
	domain->contexts = info->mode & (FI_CONTEXT | FI_CONTEXT2);
	domain->av_type = info->domain_attr->av_type;
	domain->hmem = (info->caps | info->domain_attr->caps) & FI_HMEM;
	domain->mr_attr_len = domain_mr_attr_len(domain);
	domain->allocated = info->domain_attr->mr_mode & (FI_MR_ALLOCATED | FI_MR_BASIC);
	ret = domain_plan(domain, info, core_info, &plan);
	if (!ret)
		ret = fi_domain(domain->fabric->core, core_info, &domain->core, domain);
	if (ret)
		goto free_both;
	ret = domain_init_xfer(domain, info, core_info, &plan);
	if (ret)
		goto close_core;
	domain->fid.fid.fclass = FI_CLASS_DOMAIN;
	domain->fid.fid.context = context;
	domain->fid.fid.ops = &domain_class.ops;
	domain->fid.ops = &domain_table.ops;
	domain->fid.mr = &mr_ops;
	domain_meet_devices(domain, info->caps);
	*domain_fid = &domain->fid;
	return 0;

close_core:
	fi_close(&domain->core->fid);
free_both:
	lf.freeinfo(core_info);
	free(domain);
	return ret;
}
