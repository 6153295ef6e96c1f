/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Event queues: the core's, with the objects in the events exchanged. See eq.h. */
#include "fid/eq.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "fid/fid.h"
#include "path/info.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "fid/pep.h"

/* Turns the core's info of a request into one such as the application has opened @pep with. */
static void eq_request(struct fi_info *info, const struct p2p_pep *pep)
{
	const char *why = "no memory", *core = info->fabric_attr->prov_name;
	char *name;

	/* a second look at the same event (FI_PEEK) finds it turned already. sockets names no provider */
	if (!pep->info || (core && !strcmp(core, pep->info->fabric_attr->prov_name)))
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

	/* but not those that applications write */
	if (event == FI_NOTIFY || ret < (ssize_t) sizeof entry->fid)
		return ret;
	entry->fid = fid_user(entry->fid);
	/* where there was no room for the info, it is not there */
	if (event == FI_CONNREQ && ret >= (ssize_t) sizeof(struct fi_eq_cm_entry) &&
	    fid_core(entry->fid) != entry->fid)
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

	/* who sleeps does so in fi_wait() of the set */
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

	if (fabric_inherited(eq->fabric))
		return 0;
	waitset_hold(&eq->member);
	ret = fi_close(&eq->core->fid);
	waitset_drop(&eq->member, !ret);
	if (!ret)
		free(eq);
	return ret;
}

static struct fid_class eq_class = {
	.ops = FID_OPS(.close = eq_close, .bind = fid_no_bind, .control = eq_control),
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
	eq->fabric = fabric;
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
