/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The struct fi_info of ofi_p2p, made from a core provider's, and the way back.
 * All functions are pure: they work on structures.
 */
#ifndef P2P_INFO_H
#define P2P_INFO_H

#include <stdbool.h>
#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

/* Receives and sends of the core that an endpoint keeps for itself */
#define INFO_QUEUE_RESERVE 64

/*
 * Is it about reliable datagram endpoints? For these ofi_p2p has a protocol of its own. Endpoints of other types
 * work as with the hook: their buffers may be device memory, and peers need not know.
 */
static inline bool info_is_rdm(const struct fi_info *info)
{
	return !info->ep_attr || info->ep_attr->type == FI_EP_RDM ||
	       info->ep_attr->type == FI_EP_UNSPEC;
}

/*
 * Flags of an operation, as the core is to have them where we see to persistent memory: FI_DELIVERY_COMPLETE
 * for FI_COMMIT_COMPLETE
 */
uint64_t info_flags_to_core(uint64_t flags);

/*
 * Turns hints for us into hints for the core providers. @hints is a copy of the application's,
 * or comes from fi_dupinfo(NULL). The caller sets prov_name. Returns 0, or -FI_ENODATA if the
 * hints ask for something that we do not have (logged).
 */
int info_hints_to_core(struct fi_info *hints);

/*
 * Turns a core's answer into ours. @hints: the application's, or NULL. @version: fi_version().
 * Returns false, with @why, if we cannot use this core.
 */
bool info_from_core(const struct fi_info *hints, struct fi_info *info, uint32_t version,
		    const char **why);

/*
 * Is @info one of ours that says the same as @other, but for fewer tag bits? A core makes two of one endpoint where it needs
 * a bit for collective operations. Peers that took different ones of them would have different internal bits.
 */
bool info_is_lesser(const struct fi_info *info, const struct fi_info *other);

/*
 * Turns one of our answers, which the application may have changed, into the core's answer that
 * it came from. @version: fi_version(). Returns 0 or -FI_ENOMEM.
 */
int info_to_core(struct fi_info *info, uint32_t version);

/*
 * Tells who serves the remote memory of a domain opened with @info. @all: see info_serves_all().
 *
 * @mark is the bit of the keys that we serve, while the core serves the others. 0: there is no
 * such bit.
 *
 * @ours is true if the application chooses the keys. Such keys tell nothing, so we serve all.
 */
void info_keys(const struct fi_info *info, bool all, uint64_t *mark, bool *ours);

/*
 * The core's part of a provider name. It leaves out every "ofi_p2p": "tcp;ofi_rxm;ofi_p2p" gives "tcp;ofi_rxm". Exclusions
 * ("^name") go to @excluded. The caller frees both. Both are NULL if there is no name at all. Returns 0 or -FI_ENOMEM.
 */
int info_name_split(const char *name, char **core, char **excluded);

/* Completes what info_to_core() made for a core with QUIRK_LENDS: the core reads remote memory. */
void info_core_add_lending(struct fi_info *core);

/*
 * Completes what info_to_core() made for a core that takes descriptors of all buffers and reads
 * remote memory. It adds what we need to give device memory to the core's NIC.
 */
void info_core_add_maps(struct fi_info *core);

/*
 * Do we serve all remote memory of a domain opened with @info, host memory too? We do if
 * accesses are to be counted and the core does not count them. We do, too, if operations may wait for
 * such counts: then they are counted once the data is there, over every core, and wake who sleeps.
 * @quirks: quirks_of() the core.
 *
 * Both sides have to agree on that, as on FI_HMEM. So over such a core only an application that
 * asks for FI_RMA_EVENT is offered it.
 */
bool info_serves_all(const struct fi_info *info, uint64_t quirks);

#endif /* P2P_INFO_H */
