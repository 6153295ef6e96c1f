/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What tests of path/info.c begin with: what an application might ask for, and what a core might answer */
#ifndef UNIT_CORE_INFO_H
#define UNIT_CORE_INFO_H

#include <string.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "path/info.h"

#define R INFO_QUEUE_RESERVE

/* A release of libfabric, and one with net */
#define VERSION FI_VERSION(2, 1)
#define NET_VERSION FI_VERSION(1, 17)
#define NEEDED (FI_MSG | FI_TAGGED | FI_SEND | FI_RECV)
#define SOURCE (FI_SOURCE | FI_SOURCE_ERR)
#define MESSAGES                                                                               \
	(NEEDED | FI_DIRECTED_RECV | SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_MULTI_RECV)
#define REMOTE                                                                                 \
	(FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE |          \
	 FI_RMA_EVENT)
#define TAG_64 0xaaaaaaaaaaaaaaaaULL
#define TAG_63 0x5555555555555555ULL

/* A core that has just what is needed, and more */
static inline struct fi_info *core_make(void)
{
	struct fi_info *core = fi_allocinfo();

	assert_non_null(core);
	core->ep_attr->type = FI_EP_RDM;
	core->ep_attr->mem_tag_format = TAG_64;
	core->caps = MESSAGES | REMOTE | FI_HMEM;
	core->tx_attr->caps = FI_MSG | FI_TAGGED | FI_SEND | FI_RMA | FI_WRITE;
	core->rx_attr->caps =
		FI_MSG | FI_TAGGED | FI_RECV | FI_SOURCE | FI_RMA | FI_REMOTE_READ;
	core->tx_attr->size = 2048;
	core->rx_attr->size = R + 1;
	core->tx_attr->iov_limit = 32;
	core->rx_attr->iov_limit = 4;
	core->tx_attr->comp_order = core->rx_attr->comp_order = FI_ORDER_STRICT;
	core->domain_attr->cq_data_size = 8;
	return core;
}

struct hints_case {
	enum fi_ep_type type;
	uint64_t caps, tx_caps, rx_caps, format;
	size_t data_size, tx_size, rx_size, tx_iov, rx_iov, rma_iov;
	enum fi_progress progress;
};

static inline struct fi_info *hints_make(const struct hints_case *fields)
{
	struct fi_info *hints = fi_allocinfo();

	assert_non_null(hints);
	hints->ep_attr->type = fields->type;
	hints->ep_attr->mem_tag_format = fields->format;
	hints->caps = fields->caps;
	hints->tx_attr->caps = fields->tx_caps;
	hints->tx_attr->size = fields->tx_size;
	hints->tx_attr->iov_limit = fields->tx_iov;
	hints->tx_attr->rma_iov_limit = fields->rma_iov;
	hints->rx_attr->caps = fields->rx_caps;
	hints->rx_attr->size = fields->rx_size;
	hints->rx_attr->iov_limit = fields->rx_iov;
	hints->domain_attr->cq_data_size = fields->data_size;
	hints->domain_attr->data_progress = fields->progress;
	hints->domain_attr->mr_mode = FI_MR_P2P | FI_MR_LOCAL | FI_MR_HMEM | FI_MR_PROV_KEY;
	return hints;
}

#endif /* UNIT_CORE_INFO_H */
