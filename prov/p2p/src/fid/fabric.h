/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Fabrics. */
#ifndef P2P_FABRIC_H
#define P2P_FABRIC_H

#include <stdbool.h>
#include <rdma/fabric.h>

#include "base/base.h"
#include "base/process.h"
#include "fid/fid.h"
#include "fid/kind.h"

struct domain_triggers;

/**
 * struct p2p_fabric - a fabric.
 * @core:	the core provider's
 * @kind:	ofi_p2p's, or that of a hook around another provider's fabric
 * @owner:	the process that opened it (base/process.h)
 * @triggers:	what serves FI_TRIGGER in its domains, or NULL
 */
struct p2p_fabric {
	struct fid_fabric fid;
	struct fid_fabric *core;
	struct fid_pair pair;
	const struct fid_kind *kind;
	pid_t owner;
	const struct domain_triggers *triggers;
};

static inline struct p2p_fabric *fabric_of(struct fid *fid)
{
	return container_of(fid, struct p2p_fabric, fid.fid);
}

/* Is it the parent's? Then neither it nor what is the fabric's alone is closed here. */
static inline bool fabric_inherited(const struct p2p_fabric *fabric)
{
	return process_inherited(fabric->owner);
}

/* Wraps @core, which the fabric owns from then on. 0 or -FI_ENOMEM */
int fabric_open(struct fid_fabric *core, const struct fid_kind *kind,
		const struct domain_triggers *triggers, void *context,
		struct fid_fabric **fabric);

#endif /* P2P_FABRIC_H */
