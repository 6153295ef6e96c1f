/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Event queues, passive endpoints and connections. See eq.h. */
#include "fid/eq.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "fid/collective.h"
#include "fid/ep.h"
#include "fid/fid.h"
#include "path/info.h"
#include "base/libfabric.h"
#include "base/log.h"

/* ---- event queues: the core's, with the objects in the events exchanged ---- */

/* The core's info of a request becomes such as the application had for its listener. */
static void eq_request(struct fi_info *info, const struct p2p_pep *pep)
{
	const char *why = "no memory";
	char *name;

	/* a second look at the same event (FI_PEEK) finds it done */
	if (!pep->info ||
	    !strcmp(info->fabric_attr->prov_name, pep->info->fabric_attr->prov_name))
		return;
	name = strdup(pep->info->fabric_attr->prov_name);
	if (!name || !info_from_core(pep->info, info, fi_version(), &why)) {
		P2P_WARN("a connection request has the core provider's info: %s\n", why);
		free(name);
		return;
	}
	free(info->fabric_attr->prov_name);
	info->fabric_attr->prov_name = name;
}

static ssize_t eq_translate(ssize_t ret, uint32_t event, void *buf)
{
	/* every event begins with the object that it is about */
	struct fi_eq_entry *entry = buf;

	/* but for what applications write: that is theirs */
	if (event == FI_NOTIFY || ret < (ssize_t) sizeof entry->fid)
		return ret;
	entry->fid = fid_user(entry->fid);
	if (event == FI_CONNREQ && fid_core(entry->fid) != entry->fid)
		eq_request(((struct fi_eq_cm_entry *) buf)->info, pep_of(entry->fid));
	return ret;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len,
		       uint64_t flags)
{
	ssize_t ret = fi_eq_read(eq_of(&fid->fid)->core, event, buf, len, flags);

	return ret > 0 ? eq_translate(ret, *event, buf) : ret;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
			uint64_t flags)
{
	struct p2p_eq *eq = eq_of(&fid->fid);
	ssize_t ret;

	/* who sleeps in a set's fi_wait() */
	if (eq->member.set)
		return -FI_ENOSYS;
	ret = fi_eq_sread(eq->core, event, buf, len, timeout, flags);
	return ret > 0 ? eq_translate(ret, *event, buf) : ret;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	ssize_t ret = fi_eq_readerr(eq_of(&fid->fid)->core, buf, flags);

	return eq_translate(ret, FI_SHUTDOWN, buf);
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len,
			uint64_t flags)
{
	return fi_eq_write(eq_of(&fid->fid)->core, event, buf, len, flags);
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data,
			       char *buf, size_t len)
{
	return fi_eq_strerror(eq_of(&fid->fid)->core, prov_errno, err_data, buf, len);
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	return waitset_control(fid, &eq_of(fid)->member, NULL, FI_WAIT_NONE, command, arg);
}

static int eq_close(struct fid *fid)
{
	struct p2p_eq *eq = eq_of(fid);
	int ret;

	waitset_hold(&eq->member);
	ret = fi_close(&eq->core->fid);
	waitset_drop(&eq->member, !ret);
	if (!ret)
		free(eq);
	return ret;
}

static struct fid_class eq_class = {
	.ops =
		{
			.size = sizeof(struct fi_ops),
			.close = eq_close,
			.bind = fid_no_bind,
			.control = eq_control,
			.ops_open = fid_ops_open,
		},
	.core = offsetof(struct p2p_eq, core),
};

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

int eq_open(struct fid_fabric *fabric_fid, struct fi_eq_attr *attr, struct fid_eq **eq_fid,
	    void *context)
{
	struct p2p_fabric *fabric = fabric_of(&fabric_fid->fid);
	struct fi_eq_attr core_attr;
	struct p2p_waitset *set;
	struct p2p_eq *eq;
	int ret, fd;

	if (!attr || !eq_fid)
		return -FI_EINVAL;
	eq = calloc(1, sizeof *eq);
	if (!eq)
		return -FI_ENOMEM;
	eq->fid.fid.fclass = FI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &eq_class.ops;
	eq->fid.ops = &eq_ops;
	core_attr = *attr;
	ret = waitset_choose(fabric, &core_attr.wait_obj, core_attr.wait_set, &set);
	if (!ret)
		ret = fi_eq_open(fabric->core, &core_attr, &eq->core, eq);
	if (ret)
		goto free_eq;
	if (set)
		ret = fi_control(&eq->core->fid, FI_GETWAIT, &fd);
	if (set && !ret)
		ret = waitset_add(set, fd);
	if (ret)
		goto close_core;
	waitset_join(set, &eq->member, &eq->fid.fid);
	*eq_fid = &eq->fid;
	return 0;

close_core:
	fi_close(&eq->core->fid);
free_eq:
	free(eq);
	return ret;
}

/* ---- connections, of endpoints active and passive ---- */

static struct fid_ep *cm_core_ep(struct fid_ep *ep)
{
	return ep_of(&ep->fid)->xfer.core;
}

static int cm_setname(fid_t fid, void *addr, size_t addrlen)
{
	return fi_setname(fid_core(fid), addr, addrlen);
}

static int cm_getname(fid_t fid, void *addr, size_t *addrlen)
{
	return fi_getname(fid_core(fid), addr, addrlen);
}

static int cm_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
	return fi_getpeer(cm_core_ep(ep), addr, addrlen);
}

static int cm_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
	return fi_connect(cm_core_ep(ep), addr, param, paramlen);
}

static int cm_listen(struct fid_pep *pep)
{
	return fi_listen(pep_of(&pep->fid)->core);
}

static int cm_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
	return fi_accept(cm_core_ep(ep), param, paramlen);
}

static int cm_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
	return fi_reject(pep_of(&pep->fid)->core, handle, param, paramlen);
}

static int cm_shutdown(struct fid_ep *ep, uint64_t flags)
{
	return fi_shutdown(cm_core_ep(ep), flags);
}

struct fi_ops_cm cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = cm_setname,
	.getname = cm_getname,
	.getpeer = cm_getpeer,
	.connect = cm_connect,
	.listen = cm_listen,
	.accept = cm_accept,
	.reject = cm_reject,
	.shutdown = cm_shutdown,
	.join = collective_join,
};

/* ---- passive endpoints ---- */

static int pep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	return fi_pep_bind(pep_of(fid)->core, fid_core(bfid), flags);
}

static int pep_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
	return fi_getopt(fid_core(fid), level, name, value, len);
}

static int pep_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
	return fi_setopt(fid_core(fid), level, name, value, len);
}

static int pep_close(struct fid *fid)
{
	struct fi_info *info = pep_of(fid)->info;
	int ret = fid_close(fid);

	if (!ret && info)
		lf.freeinfo(info);
	return ret;
}

static struct fid_class pep_class = {
	.ops =
		{
			.size = sizeof(struct fi_ops),
			.close = pep_close,
			.bind = pep_bind,
			.control = fid_control,
			.ops_open = fid_ops_open,
		},
	.core = offsetof(struct p2p_pep, core),
};

static struct fi_ops_ep pep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.getopt = pep_getopt,
	.setopt = pep_setopt,
};

int pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep_fid,
	     void *context)
{
	const bool layered = fabric_of(&fabric->fid)->layered;
	struct fi_info *core_info;
	struct p2p_pep *pep;
	int ret = -FI_ENOMEM;

	if (!info)
		return -FI_EINVAL;
	pep = calloc(1, sizeof *pep);
	core_info = lf.dupinfo(info);
	if (!pep || !core_info)
		goto free_both;
	if (layered && info->fabric_attr && info->fabric_attr->prov_name) {
		pep->info = lf.dupinfo(info);
		if (!pep->info)
			goto free_both;
	}
	ret = layered ? info_to_core(core_info, fi_version()) : 0;
	if (!ret)
		ret = fi_passive_ep(fabric_of(&fabric->fid)->core, core_info, &pep->core, pep);
	if (!ret) {
		ret = fid_pair_add(&pep->core->fid, &pep->fid.fid);
		if (ret)
			fi_close(&pep->core->fid);
	}
	if (ret)
		goto free_both;
	lf.freeinfo(core_info);
	pep->fid.fid.fclass = FI_CLASS_PEP;
	pep->fid.fid.context = context;
	pep->fid.fid.ops = &pep_class.ops;
	pep->fid.ops = &pep_ops;
	pep->fid.cm = &cm_ops;
	*pep_fid = &pep->fid;
	return 0;

free_both:
	if (core_info)
		lf.freeinfo(core_info);
	if (pep && pep->info)
		lf.freeinfo(pep->info);
	free(pep);
	return ret;
}
