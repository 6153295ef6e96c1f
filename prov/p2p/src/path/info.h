/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What ofi_p2p says of itself (struct fi_info), made from what a core provider
 * says, and the way back. Pure functions on structures.
 */
#ifndef P2P_INFO_H
#define P2P_INFO_H

#include <stdbool.h>
#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

/* Receives and sends of the core that an endpoint keeps for itself */
#define INFO_QUEUE_RESERVE 64

/*
 * The tag bit that is ours, for an endpoint that advertises @format (mem_tag_format): the
 * one above those that the application may use. 0: there is none.
 */
uint64_t info_tag_bit(uint64_t format);

/*
 * Does ofi_p2p have a protocol of its own for endpoints of this type? Others are as with the
 * hook: their buffers may be device memory, and the peers need not know.
 */
static inline bool info_layered(const struct fi_info *info)
{
	return !info->ep_attr || info->ep_attr->type == FI_EP_RDM ||
	       info->ep_attr->type == FI_EP_UNSPEC;
}

/*
 * Turns hints for us (a copy of the application's, or what fi_dupinfo(NULL) makes) into
 * hints for the core providers; prov_name is the caller's business. 0, or -FI_ENODATA
 * when something is asked that we do not have (logged).
 */
int info_hints_to_core(struct fi_info *hints);

/*
 * Turns a core's answer into ours; @hints: the application's, or NULL; @version: fi_version().
 * False when this core is of no use, with @why.
 */
bool info_from_core(const struct fi_info *hints, struct fi_info *info, uint32_t version,
		    const char **why);

/*
 * Turns one of our answers, in the application's hands, into the core's it came from.
 * @version: fi_version(). 0 or -FI_ENOMEM.
 */
int info_to_core(struct fi_info *info, uint32_t version);

/*
 * Who serves the remote memory of a domain opened with @info. @mark: the bit of keys that
 * are ours to serve, the core serving the rest; 0: there is none. @ours: the application
 * chooses the keys, so that nothing can be told from them, and all are ours. @all: see
 * info_serves_all().
 */
void info_keys(const struct fi_info *info, bool all, uint64_t *mark, bool *ours);

/*
 * The core's part of a provider name, less every "ofi_p2p" in it: "tcp;ofi_rxm;ofi_p2p"
 * gives "tcp;ofi_rxm". Exclusions ("^name") are kept apart, in @excluded. Both are for the
 * caller to free; NULL when there is no name at all. 0 or -FI_ENOMEM.
 */
int info_name_split(const char *name, char **core, char **excluded);

/* Makes what info_to_core() made one for a core with QUIRK_LENDS: it reads remote memory. */
void info_core_add_lending(struct fi_info *core);

/*
 * Makes what info_to_core() made one for a core that takes descriptors of all buffers and
 * reads remote memory: what it takes to give its NIC device memory.
 */
void info_core_add_maps(struct fi_info *core);

/*
 * Is all remote memory of a domain opened with @info ours to serve, host memory too, since
 * accesses are to be counted and the core does not (@quirks: quirks_of() it)? Both sides have to
 * agree on that, as on FI_HMEM: FI_RMA_EVENT is offered over such a core to those that ask for
 * it, only.
 */
bool info_serves_all(const struct fi_info *info, unsigned int quirks);

#endif /* P2P_INFO_H */
