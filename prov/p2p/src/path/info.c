/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Makes an fi_info of ours from the core's, and the other way round. See info.h. */
#include "path/info.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_p2p.h>

#include "base/base.h"
#include "base/conf.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "path/info_tags.h"
#include "path/quirks.h"

/* The capabilities that we ask every core for, besides those that the application wants */
#define INFO_CORE_CAPS (FI_MSG | FI_TAGGED | FI_SEND | FI_RECV)

/* The capabilities that we hand through from core to application */
#define INFO_REMOTE_CAPS (FI_RMA | FI_ATOMIC)
#define INFO_PRIMARY_CAPS                                                                      \
	(FI_MSG | FI_TAGGED | INFO_REMOTE_CAPS | FI_COLLECTIVE | FI_HMEM | FI_P2P)
#define INFO_REMOTE_KINDS (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define INFO_REMOTE_MODIFIERS (INFO_REMOTE_KINDS | FI_RMA_EVENT)
#define INFO_SECONDARY_CAPS                                                                    \
	(FI_SEND | FI_RECV | INFO_REMOTE_MODIFIERS | FI_DIRECTED_RECV | FI_LOCAL_COMM |        \
	 FI_REMOTE_COMM | FI_MULTI_RECV)
/*
 * Sources cost every message something. So only two kinds of applications get them. One asks
 * for them, as with libfabric 2.x. The other asks for multi-receive buffers, for which sources
 * help: messages for such a buffer wait for earlier ones of the same peer only (multi_recv.h).
 */
#define INFO_SOURCE_CAPS (FI_SOURCE | FI_SOURCE_ERR)
#define INFO_CAPS                                                                              \
	(INFO_PRIMARY_CAPS | INFO_SECONDARY_CAPS | INFO_SOURCE_CAPS | FI_TRIGGER | LF_XPU |    \
	 FI_RMA_PMEM | FI_FENCE)

/*
 * Whether there are these is ours to answer. The core is not asked for them. Cores with FI_RMA_PMEM write
 * back caches, which leaves what is in a file that is no DAX's in the kernel's memory.
 */
#define INFO_OUR_CAPS (FI_HMEM | FI_P2P | FI_TRIGGER | LF_XPU | FI_RMA_PMEM | FI_FENCE)

/* Not for endpoints without a protocol of ours. A core's own triggers would be handed counters of ours. */
#define INFO_PLAIN_NOT (FI_TRIGGER | FI_NAMED_RX_CTX | LF_XPU)

/* Modes of old that say all there is to say */
#define INFO_MR_OLD (FI_MR_BASIC | FI_MR_SCALABLE)

/* The size of keys [bytes] where a NIC can be given device memory (QUIRK_MAPS) */
#define INFO_NIC_KEY_SIZE 4

/* The order that we keep */
#define INFO_ORDER FI_ORDER_SAS

/* Pieces of remote memory in one operation: the owner may have to be asked for it */
#define INFO_RMA_IOV_LIMIT 1

/* The pieces that a core with QUIRK_LENDS reads at once for us. It takes as many. */
#define INFO_READ_PLACES 4

/* The bytes of cq_data that an application may use. The core's other bytes carry marks. */
#define INFO_CQ_DATA_SIZE 4
#define INFO_CORE_CQ_DATA_SIZE 8

/* ---- names ---- */

int info_name_split(const char *name, char **core, char **excluded)
{
	size_t size = name ? strlen(name) + 1 : 0;
	char *copy, *rest, *part, **list;

	*core = *excluded = NULL;
	if (!name)
		return 0;
	copy = strdup(name);
	*core = calloc(1, size);
	*excluded = calloc(1, size);
	if (!copy || !*core || !*excluded) {
		free(copy);
		free(*core);
		free(*excluded);
		*core = *excluded = NULL;
		return -FI_ENOMEM;
	}
	for (rest = copy; (part = strsep(&rest, ";"));) {
		if (!strcasecmp(part, P2P_NAME))
			continue;
		list = *part == '^' ? excluded : core;
		if (**list)
			strcat(*list, ";");
		strcat(*list, part);
	}
	free(copy);
	return 0;
}

/* Takes capabilities away and adds others, everywhere but in the domain's. Hints may lack attributes */
static void info_caps_change(struct fi_info *info, uint64_t away, uint64_t added)
{
	info->caps = (info->caps & ~away) | added;
	if (info->tx_attr)
		info->tx_attr->caps = (info->tx_attr->caps & ~away) | added;
	if (info->rx_attr)
		info->rx_attr->caps = (info->rx_attr->caps & ~away) | added;
}

/* Adds room for our own operations. 0 asks for no number in particular, and stays 0. */
static int info_size_to_core(size_t *size)
{
	if (*size > SIZE_MAX - INFO_QUEUE_RESERVE)
		return -FI_ENODATA;
	if (*size)
		*size += INFO_QUEUE_RESERVE;
	return 0;
}

/*
 * Are contexts asked for that cores with scalable endpoints have? Ours have one of each direction, which no other
 * endpoint shares. FI_SHARED_CONTEXT is the highest number. Without a protocol of ours, receive contexts are shared.
 */
static bool info_ctxs_asked(const struct fi_info *hints)
{
	const struct fi_ep_attr *ep = hints->ep_attr;
	const struct fi_domain_attr *domain = hints->domain_attr;
	const bool rdm = info_is_rdm(hints);

	if (ep && (ep->tx_ctx_cnt > 1 ||
		   (ep->rx_ctx_cnt > 1 && (rdm || ep->rx_ctx_cnt != FI_SHARED_CONTEXT))))
		return true;
	return domain && (domain->max_ep_tx_ctx > 1 || domain->max_ep_rx_ctx > 1 ||
			  domain->max_ep_stx_ctx || (rdm && domain->max_ep_srx_ctx));
}

/* And none of those is promised, nor more pieces than ours */
static void info_ctxs_from_core(struct fi_info *info)
{
	const bool rdm = info_is_rdm(info);

	info->tx_attr->iov_limit = P2P_MIN(info->tx_attr->iov_limit, P2P_IOV_MAX);
	info->rx_attr->iov_limit = P2P_MIN(info->rx_attr->iov_limit, P2P_IOV_MAX);
	info->ep_attr->tx_ctx_cnt = 1;
	if (rdm || info->ep_attr->rx_ctx_cnt != FI_SHARED_CONTEXT)
		info->ep_attr->rx_ctx_cnt = 1;
	info->domain_attr->max_ep_tx_ctx = info->domain_attr->max_ep_rx_ctx = 1;
	info->domain_attr->max_ep_stx_ctx = 0;
	if (rdm)
		info->domain_attr->max_ep_srx_ctx = 0;
}

#define INFO_CTXS_WHY "scalable endpoints or shared contexts are asked for"

/* What is asked for that endpoints without a protocol of ours do not have; 0: nothing */
static uint64_t info_plain_lacks(const struct fi_info *hints)
{
	return INFO_PLAIN_NOT & (hints->caps | (hints->tx_attr ? hints->tx_attr->caps : 0) |
				 (hints->rx_attr ? hints->rx_attr->caps : 0));
}

/* The kinds of memory are ours to answer. All else is the core's. */
static void info_plain_to_core(struct fi_info *info)
{
	const uint64_t wanted = info->caps;

	info_caps_change(info, FI_HMEM, 0);
	info->caps &= ~FI_P2P;
	/* no capabilities would ask for any */
	if (wanted && !info->caps)
		info->caps = FI_MSG;
	if (info->domain_attr) {
		info->domain_attr->mr_mode &= ~(FI_MR_P2P | FI_MR_HMEM);
		info->domain_attr->caps &= ~(FI_HMEM | FI_P2P);
	}
}

/*
 * Peers would have to reach device memory here, too, and that takes a protocol. So device
 * memory and remote memory exclude each other.
 */
static bool info_plain_from_core(const struct fi_info *hints, struct fi_info *info,
				 uint64_t hmem, const char **why)
{
	const int asked_mr = hints->domain_attr ? hints->domain_attr->mr_mode : 0;

	if (info_ctxs_asked(hints)) {
		*why = INFO_CTXS_WHY;
		return false;
	}
	if (hmem && info->caps & INFO_REMOTE_CAPS) {
		*why = "peers cannot reach device memory over endpoints of this type";
		if (hints->caps)
			return false;
		hmem = 0;
	}
	info_ctxs_from_core(info);
	info_caps_change(info, INFO_PLAIN_NOT, hmem);
	info->caps |= hmem ? FI_P2P : 0;
	info->domain_attr->caps &= ~INFO_PLAIN_NOT;
	info->domain_attr->mr_mode |= asked_mr & FI_MR_P2P;
	return true;
}

/* These modes change what a receive's buffer holds, or means. The core would apply them to our own receives, too. */
#define INFO_MODES_NOT (FI_MSG_PREFIX | LF_BUFFERED_RECV)

/*
 * Is it FI_RX_CQ_DATA that the application has in mind, and not all modes that there are? It wants to know who has
 * written, and the memory to be a device's. Operations that wait for counters have no such writes.
 */
static bool info_rx_cq_data(const struct fi_info *hints)
{
	const uint64_t caps = FI_RMA | FI_HMEM | FI_SOURCE;

	return hints && hints->mode & FI_RX_CQ_DATA && (hints->caps & caps) == caps &&
	       !(hints->caps & (FI_TRIGGER | LF_XPU | FI_RMA_EVENT));
}

static void info_modes_to_core(struct fi_info *info)
{
	info->mode &= ~INFO_MODES_NOT;
	if (info->tx_attr)
		info->tx_attr->mode &= ~INFO_MODES_NOT;
	if (info->rx_attr)
		info->rx_attr->mode &= ~INFO_MODES_NOT;
}

/*
 * Operations that wait for counters are ours, whatever the core has. So are the events of remote accesses
 * then: see info_serves_all(). What we serve is known by offsets. The core may want addresses for its own.
 */
static void info_triggers_to_core(struct fi_info *info)
{
	if (!(info->caps & FI_TRIGGER))
		return;
	if (info->caps & FI_RMA_EVENT && info->domain_attr &&
	    !(info->domain_attr->mr_mode & INFO_MR_OLD))
		info->domain_attr->mr_mode |= FI_MR_VIRT_ADDR;
	info_caps_change(info, FI_RMA_EVENT, 0);
	if (info->tx_attr)
		info->tx_attr->op_flags &= ~FI_TRIGGER;
	if (info->rx_attr)
		info->rx_attr->op_flags &= ~FI_TRIGGER;
}

/* And the way back. @wanted: the capabilities that are asked for */
static void info_triggers_from_core(struct fi_info *info, uint64_t wanted)
{
	const uint64_t ours = FI_TRIGGER | (wanted & FI_TRIGGER ? FI_RMA_EVENT : 0);
	const uint64_t added = ours & wanted;

	info_caps_change(info, ours, added);
	if (added & FI_RMA_EVENT && !(info->domain_attr->mr_mode & INFO_MR_OLD))
		info->domain_attr->mr_mode &= ~FI_MR_VIRT_ADDR;
}

/* GPUs communicate over every core, by a thread that calls beside the application. */
static void info_xpu_from_core(struct fi_info *info, uint64_t wanted)
{
	info->caps = (info->caps & ~LF_XPU) | (wanted & LF_XPU);
	info->domain_attr->caps = (info->domain_attr->caps & ~LF_XPU) | (wanted & LF_XPU);
	if (wanted & LF_XPU)
		info->domain_attr->threading = FI_THREAD_SAFE;
}

uint64_t info_flags_to_core(uint64_t flags)
{
	return flags & FI_COMMIT_COMPLETE ? (flags & ~FI_COMMIT_COMPLETE) | FI_DELIVERY_COMPLETE
					  : flags;
}

/* What is to be durable is ours to see to: the core delivers what it carries. */
static void info_commits_to_core(struct fi_info *info)
{
	if (info->caps & FI_RMA_PMEM && info->tx_attr)
		info->tx_attr->op_flags = info_flags_to_core(info->tx_attr->op_flags);
}

/* And the way back */
static void info_commits_from_core(const struct fi_info *hints, struct fi_info *info)
{
	const uint64_t levels = FI_COMMIT_COMPLETE | FI_DELIVERY_COMPLETE;
	const uint64_t asked = hints && hints->tx_attr ? hints->tx_attr->op_flags : 0;

	if (asked & FI_COMMIT_COMPLETE && info->caps & FI_RMA_PMEM)
		info->tx_attr->op_flags =
			(info->tx_attr->op_flags & ~levels) | (asked & levels);
}

int info_hints_to_core(struct fi_info *hints)
{
	if (!info_is_rdm(hints)) {
		if (info_plain_lacks(hints)) {
			P2P_INFO("capabilities 0x%zx are not offered on such endpoints\n",
				 (size_t) info_plain_lacks(hints));
			return -FI_ENODATA;
		}
		info_plain_to_core(hints);
		return 0;
	}
	if (hints->caps & ~INFO_CAPS) {
		P2P_INFO("capabilities 0x%zx are not offered\n",
			 (size_t) (hints->caps & ~INFO_CAPS));
		return -FI_ENODATA;
	}
	if (hints->caps & FI_RMA_PMEM && !(hints->caps & FI_RMA)) {
		P2P_INFO("FI_RMA_PMEM is asked for without FI_RMA\n");
		return -FI_ENODATA;
	}
	info_modes_to_core(hints);
	info_triggers_to_core(hints);
	info_commits_to_core(hints);
	if (hints->domain_attr) {
		if (hints->domain_attr->cq_data_size > INFO_CQ_DATA_SIZE) {
			P2P_INFO("%zu bytes of cq data are asked for, %d are offered\n",
				 hints->domain_attr->cq_data_size, INFO_CQ_DATA_SIZE);
			return -FI_ENODATA;
		}
		/* our buffers have no registration, so the core has to register what it sends */
		hints->domain_attr->mr_mode &=
			~(FI_MR_P2P | FI_MR_LOCAL | FI_MR_HMEM | LF_MR_XPU_DESC);
		hints->domain_attr->cq_data_size = 0;
		hints->domain_attr->caps &= ~(FI_HMEM | FI_P2P | LF_XPU);
	}
	if (hints->ep_attr) {
		/* nobody has these; whether a core has one fewer is seen in its answer */
		if (hints->ep_attr->mem_tag_format & (1ULL << 63)) {
			P2P_INFO("a tag format of 64 bits is asked for, 63 are offered\n");
			return -FI_ENODATA;
		}
		hints->ep_attr->mem_tag_format = 0;
		hints->ep_attr->type = FI_EP_RDM;
	}
	hints->caps &= ~INFO_OUR_CAPS;
	if (hints->caps)
		hints->caps |= INFO_CORE_CAPS;
	if (hints->tx_attr) {
		if (hints->tx_attr->caps & FI_P2P || hints->tx_attr->caps & ~INFO_CAPS)
			return -FI_ENODATA;
		hints->tx_attr->caps &= ~INFO_OUR_CAPS;
		if (hints->tx_attr->caps)
			hints->tx_attr->caps |= INFO_CORE_CAPS & ~FI_RECV;
		if (hints->tx_attr->iov_limit > P2P_IOV_MAX ||
		    hints->tx_attr->rma_iov_limit > INFO_RMA_IOV_LIMIT ||
		    info_size_to_core(&hints->tx_attr->size))
			return -FI_ENODATA;
	}
	if (hints->rx_attr) {
		if (hints->rx_attr->caps & FI_P2P || hints->rx_attr->caps & ~INFO_CAPS)
			return -FI_ENODATA;
		hints->rx_attr->caps &= ~INFO_OUR_CAPS;
		if (hints->rx_attr->caps)
			hints->rx_attr->caps |= INFO_CORE_CAPS & ~FI_SEND;
		if (hints->rx_attr->iov_limit > P2P_IOV_MAX ||
		    info_size_to_core(&hints->rx_attr->size))
			return -FI_ENODATA;
	}
	return 0;
}

/*
 * An answer has primary capabilities and sources if hints ask for them, or for nothing. It has
 * secondary capabilities whenever the core has them; those of remote memory without any, if asked for.
 */
static uint64_t info_caps(uint64_t core_caps, uint64_t wanted)
{
	/* we answer whether device memory and persistent memory may be used, not the core */
	uint64_t caps = core_caps & INFO_CAPS & ~(FI_HMEM | LF_XPU | FI_RMA_PMEM | FI_FENCE);

	if (wanted & FI_MULTI_RECV)
		wanted |= INFO_SOURCE_CAPS;
	if (wanted)
		caps &= wanted | INFO_SECONDARY_CAPS;
	/* collectives take a bit of the tags away, so only an application that wants them gets them */
	caps &= ~FI_COLLECTIVE | wanted;
	/* all operations are followed up for it: ep_set_attr() */
	caps |= wanted & FI_FENCE;
	/* who does not ask for persistent memory does not pay for it: see info_keys() */
	if (caps & FI_RMA)
		caps |= wanted & FI_RMA_PMEM;
	wanted &= INFO_REMOTE_KINDS;
	return caps & INFO_REMOTE_CAPS ? caps : caps & (~INFO_REMOTE_MODIFIERS | wanted);
}

static bool info_order_asked(const struct fi_info *hints)
{
	const struct fi_ep_attr *ep = hints ? hints->ep_attr : NULL;

	return hints && ((hints->tx_attr && hints->tx_attr->msg_order & ~INFO_ORDER) ||
			 (hints->rx_attr && hints->rx_attr->msg_order & ~INFO_ORDER) ||
			 (ep && (ep->max_order_raw_size || ep->max_order_war_size ||
				 ep->max_order_waw_size)));
}

/*
 * FI_P2P_HMEM: may remote memory be a device's, though the application knows nothing of that? An order of accesses
 * that it wants counts for more.
 */
static uint64_t info_hmem_unasked(const struct fi_info *hints)
{
	return conf.hmem && hints && hints->caps & INFO_REMOTE_CAPS && !info_order_asked(hints)
		       ? FI_HMEM
		       : 0;
}

/* Some accesses to remote memory go by the core and others by us. So they have no order. */
static void info_disorder(struct fi_info *info)
{
	info->tx_attr->msg_order &= INFO_ORDER;
	info->rx_attr->msg_order &= INFO_ORDER;
	info->ep_attr->max_order_raw_size = 0;
	info->ep_attr->max_order_war_size = 0;
	info->ep_attr->max_order_waw_size = 0;
}

/* Bytes of remote cq data that messages carry */
static size_t info_core_data_size(const struct fi_info *core, uint64_t quirks)
{
	return quirks & QUIRK_OWN_DATA ? INFO_CORE_CQ_DATA_SIZE
				       : core->domain_attr->cq_data_size;
}

/* Why our protocol does not work over this core; NULL: it does */
static const char *info_core_lacks(const struct fi_info *core, uint64_t quirks)
{
	if (~core->caps & INFO_CORE_CAPS)
		return "it lacks tagged messages";
	if (quirks & QUIRK_NO_DATA)
		return "its completions do not tell of remote cq data";
	if (info_core_data_size(core, quirks) < INFO_CORE_CQ_DATA_SIZE)
		return "its remote cq data is too short for a mark";
	if (!info_tag_bit(info_tag_format(core->ep_attr->mem_tag_format)))
		return "its tags have too few bits";
	if (core->tx_attr->size <= INFO_QUEUE_RESERVE ||
	    core->rx_attr->size <= INFO_QUEUE_RESERVE)
		return "its queues are too short";
	if (core->domain_attr->mr_mode & FI_MR_LOCAL)
		return "it does not register local buffers by itself";
	return NULL;
}

/* What of the hints the core keeps, and we do not; NULL: nothing */
static const char *info_asked_too_much(const struct fi_info *hints, const struct fi_info *core)
{
	uint64_t tags;

	if (!hints)
		return NULL;
	/* a short message may be complete before a long one that was posted ahead of it */
	if ((hints->tx_attr && hints->tx_attr->comp_order) ||
	    (hints->rx_attr && hints->rx_attr->comp_order))
		return "completions have no order here, and one is asked for";
	tags = info_tag_format(core->ep_attr->mem_tag_format);
	if (hints->ep_attr &&
	    hints->ep_attr->mem_tag_format > ~0ULL >> __builtin_clzll(tags | 1))
		return "a tag format is asked for that has more bits";
	if (info_ctxs_asked(hints))
		return INFO_CTXS_WHY;
	return NULL;
}

static void info_caps_from_core(const struct fi_info *hints, struct fi_info *info,
				uint64_t hmem)
{
	uint64_t wanted = hints ? hints->caps : 0, tx = wanted, rx = wanted;

	if (hints && hints->tx_attr && hints->tx_attr->caps)
		tx = hints->tx_attr->caps;
	if (hints && hints->rx_attr && hints->rx_attr->caps)
		rx = hints->rx_attr->caps;
	info->caps = info_caps(info->caps, wanted) | hmem | (hmem ? FI_P2P : 0);
	info->tx_attr->caps = info_caps(info->tx_attr->caps, tx) | hmem;
	info->rx_attr->caps = info_caps(info->rx_attr->caps, rx) | hmem;
	/* a context's capabilities are among the endpoint's (fi_endpoint(3)) */
	info->rx_attr->caps &= (info->caps | ~INFO_SOURCE_CAPS) & ~FI_FENCE;
}

static void info_ep_from_core(struct fi_info *info)
{
	info_ctxs_from_core(info);
	info->tx_attr->size -= INFO_QUEUE_RESERVE;
	info->rx_attr->size -= INFO_QUEUE_RESERVE;
	info->tx_attr->rma_iov_limit =
		P2P_MIN(info->tx_attr->rma_iov_limit, INFO_RMA_IOV_LIMIT);
	info->tx_attr->comp_order = 0;
	info->rx_attr->comp_order = 0;
	info->ep_attr->mem_tag_format = info_tag_format(info->ep_attr->mem_tag_format);
}

/* FI_P2P_INJECT_SIZE. NICs that reach device memory are told by the core's own limit what it copies. */
static void info_inject_from_core(const struct fi_info *hints, struct fi_info *info,
				  uint64_t quirks)
{
	const size_t asked = hints && hints->tx_attr ? hints->tx_attr->inject_size : 0;
	const size_t most = P2P_MAX(asked, conf.inject_size);

	if (!(quirks & QUIRK_DIRECT))
		info->tx_attr->inject_size = P2P_MIN(info->tx_attr->inject_size, most);
}

bool info_from_core(const struct fi_info *hints, struct fi_info *info, uint32_t version,
		    const char **why)
{
	uint64_t quirks = quirks_of(info, version);
	uint64_t wanted = hints ? hints->caps : 0;
	uint64_t hmem = !wanted || wanted & (FI_HMEM | FI_P2P) ? FI_HMEM : 0;
	int asked_mr = hints && hints->domain_attr ? hints->domain_attr->mr_mode : 0;
	bool automatic = hints && hints->domain_attr &&
			 hints->domain_attr->data_progress == FI_PROGRESS_AUTO;
	const char *lacks;
	bool serves;

	/* an application that used the core's own objects would go past us */
	info->fabric_attr->fabric = NULL;
	info->domain_attr->domain = NULL;
	if (info->ep_attr->type != FI_EP_RDM) {
		*why = "it has no reliable datagram endpoints";
		if (!hints || info_is_rdm(hints))
			return false;
		return info_plain_from_core(hints, info, hmem, why);
	}
	lacks = info_core_lacks(info, quirks);
	if (!lacks)
		lacks = info_asked_too_much(hints, info);
	if (!lacks && wanted & LF_XPU && info->mode & (FI_CONTEXT | FI_CONTEXT2))
		lacks = "it wants memory of its own in the contexts of operations";
	if (!lacks && automatic && info->domain_attr->data_progress != FI_PROGRESS_AUTO)
		lacks = "its transfers need calls to progress";
	if (lacks) {
		*why = lacks;
		return false;
	}

	hmem |= info_hmem_unasked(hints);
	info_triggers_from_core(info, wanted);
	/* an application pays for events of remote accesses only if it asks for them: info_serves_all() */
	if (!(wanted & FI_RMA_EVENT) && quirks & QUIRK_UNCOUNTED)
		info_caps_change(info, FI_RMA_EVENT, 0);
	serves = hmem || wanted & FI_RMA_PMEM || info_serves_all(info, quirks);
	if (serves && info_caps(info->caps, wanted) & INFO_REMOTE_CAPS) {
		if (!info_order_asked(hints)) {
			info_disorder(info);
		} else {
			*why = "an order of remote memory operations is asked for";
			if (wanted)
				return false;
			hmem = serves = 0;
		}
	}

	info_caps_from_core(hints, info, hmem);
	info_xpu_from_core(info, wanted);
	info_commits_from_core(hints, info);
	info_ep_from_core(info);
	info_inject_from_core(hints, info, quirks);
	info->domain_attr->cq_data_size = INFO_CQ_DATA_SIZE;
	if (info_rx_cq_data(hints))
		info->mode |= FI_RX_CQ_DATA;
	/* automatic progress takes a thread, which only an application that asks gets */
	info->domain_attr->data_progress = automatic ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
	/* FI_MR_ALLOCATED lets us trust in descriptors of host memory (desc_cache.h) */
	info->domain_attr->mr_mode |= asked_mr & (FI_MR_P2P | FI_MR_ALLOCATED);
	/* longer keys have room for marks beside the core's keys */
	if (quirks & QUIRK_MAPS)
		info->domain_attr->mr_key_size = sizeof(uint64_t);
	/* if we choose the keys, they tell the memory that the core reaches from the rest */
	if (info->caps & INFO_REMOTE_CAPS && serves)
		info->domain_attr->mr_mode |= asked_mr & FI_MR_PROV_KEY;
	return true;
}

void info_keys(const struct fi_info *info, bool all, uint64_t *mark, bool *ours)
{
	bool remote = info->caps & INFO_REMOTE_CAPS &&
		      (all || info->caps & (FI_HMEM | FI_P2P | FI_RMA_PMEM));
	bool chosen = info->domain_attr->mr_mode & (FI_MR_PROV_KEY | FI_MR_BASIC);
	size_t size = info->domain_attr->mr_key_size;

	*mark = remote && chosen ? 1ULL << (8 * (size && size < 8 ? size : 8) - 1) : 0;
	*ours = remote && !chosen;
}

static bool info_same_name(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

bool info_is_lesser(const struct fi_info *info, const struct fi_info *other)
{
	return info->ep_attr->mem_tag_format < other->ep_attr->mem_tag_format &&
	       info->ep_attr->type == other->ep_attr->type && info->caps == other->caps &&
	       info_same_name(info->fabric_attr->prov_name, other->fabric_attr->prov_name) &&
	       info_same_name(info->fabric_attr->name, other->fabric_attr->name) &&
	       info_same_name(info->domain_attr->name, other->domain_attr->name) &&
	       info->src_addrlen == other->src_addrlen &&
	       (!info->src_addrlen ||
		!memcmp(info->src_addr, other->src_addr, info->src_addrlen));
}

/* The core takes keys that nobody can guess, rather than choosing others (mr.c). */
static void info_keys_to_core(struct fi_info *info, uint64_t quirks)
{
	uint64_t mark;
	bool ours;

	if (!info->domain_attr || !(quirks & QUIRK_KEYS))
		return;
	info_keys(info, info_serves_all(info, quirks), &mark, &ours);
	if (mark)
		info->domain_attr->mr_mode &= ~FI_MR_PROV_KEY;
}

int info_to_core(struct fi_info *info, uint32_t version)
{
	char *name, *excluded;
	uint64_t quirks;

	if (info->fabric_attr && info->fabric_attr->prov_name) {
		if (info_name_split(info->fabric_attr->prov_name, &name, &excluded))
			return -FI_ENOMEM;
		free(excluded);
		free(info->fabric_attr->prov_name);
		info->fabric_attr->prov_name = name;
		info->fabric_attr->fabric = NULL;
	}
	if (!info_is_rdm(info)) {
		info_plain_to_core(info);
		return 0;
	}
	info_modes_to_core(info);
	/* ours, not the core's: rma_notice.c */
	info->mode &= ~FI_RX_CQ_DATA;
	quirks = quirks_of(info, version);
	info_keys_to_core(info, quirks);
	info_triggers_to_core(info);
	info_commits_to_core(info);
	if (info->domain_attr && quirks & QUIRK_MAPS)
		info->domain_attr->mr_key_size = INFO_NIC_KEY_SIZE;
	info->caps = (info->caps & ~INFO_OUR_CAPS) | INFO_CORE_CAPS;
	if (quirks & QUIRK_SOURCELESS)
		info->caps |= FI_SOURCE;
	if (info->tx_attr) {
		info->tx_attr->caps =
			(info->tx_attr->caps & ~INFO_OUR_CAPS) | (INFO_CORE_CAPS & ~FI_RECV);
		info->tx_attr->size += INFO_QUEUE_RESERVE;
	}
	if (info->rx_attr) {
		info->rx_attr->caps =
			(info->rx_attr->caps & ~INFO_OUR_CAPS) | (INFO_CORE_CAPS & ~FI_SEND);
		info->rx_attr->size += INFO_QUEUE_RESERVE;
		/* the core would apply it to our own receives, too */
		info->rx_attr->op_flags &= ~FI_MULTI_RECV;
	}
	if (info->ep_attr)
		info->ep_attr->mem_tag_format = 0;
	if (info->domain_attr) {
		if (!(quirks & QUIRK_OWN_DATA))
			info->domain_attr->cq_data_size = INFO_CORE_CQ_DATA_SIZE;
		info->domain_attr->mr_mode &= ~FI_MR_P2P;
		info->domain_attr->caps &= ~LF_XPU;
		/* our thread makes progress automatic, not the core: see QUIRK_AUTO_LOSES */
		info->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	}
	return 0;
}

static void info_core_add_reads(struct fi_info *core)
{
	core->caps |= FI_RMA | FI_READ | FI_REMOTE_READ;
	if (core->tx_attr)
		core->tx_attr->caps |= FI_RMA | FI_READ;
	if (core->rx_attr)
		core->rx_attr->caps |= FI_RMA | FI_REMOTE_READ;
}

void info_core_add_lending(struct fi_info *core)
{
	info_core_add_reads(core);
	if (core->tx_attr)
		core->tx_attr->rma_iov_limit = INFO_READ_PLACES;
}

void info_core_add_maps(struct fi_info *core)
{
	info_core_add_reads(core);
	if (!core->domain_attr)
		return;
	/* the core needs these; an application without remote memory may not have asked for them */
	core->domain_attr->mr_mode |=
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
}

bool info_serves_all(const struct fi_info *info, uint64_t quirks)
{
	return info->caps & FI_RMA_EVENT &&
	       (quirks & QUIRK_UNCOUNTED || info->caps & FI_TRIGGER);
}
