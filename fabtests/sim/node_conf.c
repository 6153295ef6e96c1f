/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a process's provider finds as it begins: libfabric, and the parameters. See sim.h. */
#include "kernel.h"

#include "base/conf.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "fid/fid.h"
#include "gpu/stream.h"
#include "gpu/xpu.h"
#include <rdma/providers/fi_prov.h>

/* The libfabric that the model is of */
uint32_t fi_version(void)
{
	return world.script->model->version;
}

/* What lanes are made of, beside the application's core: another provider, which may not be there */
static int lanes_getinfo(uint32_t version, const char *node, const char *service,
			 uint64_t flags, const struct fi_info *hints, struct fi_info **info)
{
	const struct model *model = world.script->model;

	if (model->lane)
		model = world.script->noise % 4 ? model_find(model->lane) : NULL;
	if (!model)
		return -FI_ENODATA;
	*info = core_info(world.current, model);
	memcpy((*info)->src_addr, hints->src_addr, hints->src_addrlen);
	(*info)->rx_attr->size = hints->rx_attr->size;
	return 0;
}

/* How its NIC gets device memory */
static void configure_nic(void)
{
	static const enum conf_pin ways[] = {CONF_PIN_AUTO, CONF_PIN_PEERMEM, CONF_PIN_DMABUF};
	const struct script *script = world.script;

	conf.pin = ways[script->ways % SIM_COUNT(ways)];
	if (script->maps)
		conf.map_count = script->maps;
	if (script->staged >> world.current & 1)
		conf.path = CONF_PATH_STAGE;
}

static bool provider_ops(struct fid *fid, const char *name, void **own)
{
	return stream_own_ops(fid, name, own) || xpu_own_ops(fid, name, own);
}

void node_configure(void)
{
	static struct fi_provider provider = {.name = "ofi_p2p"};

	log_prov = &provider;
	fid_more_ops = provider_ops;
	lf.getinfo = lanes_getinfo;
	lf.dupinfo = fi_dupinfo;
	lf.freeinfo = fi_freeinfo;
	/* little of everything, so that it is scarce */
	conf.eager_size = (size_t) (world.script->eager ? world.script->eager : 8) << 10;
	conf.chunk_size = P2P_MAX(conf.eager_size, SIM_CHUNK);
	conf.pinned_size = (size_t) (world.script->pinned ? world.script->pinned : 4096) << 10;
	conf.proxy_spin_us = 0;
	conf.lanes = world.script->lanes ? world.script->lanes : 1;
	conf.peer_timeout = world.script->timeout;
	conf.xpu_rings = SIM_RINGS_OF(world.script);
	conf.xpu_slots = SIM_SLOTS_OF(world.script);
	configure_nic();
}
