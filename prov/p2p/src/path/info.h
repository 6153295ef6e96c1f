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
 * Turns a core's answer into ours; @hints: the application's, or NULL. False when this
 * core is of no use, with @why.
 */
bool info_from_core(const struct fi_info *hints, struct fi_info *info, const char **why);

/*
 * Turns one of our answers, in the application's hands, into the core's it came from.
 * 0 or -FI_ENOMEM.
 */
int info_to_core(struct fi_info *info);

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

/*
 * Does the core provider behind @core (what info_to_core() made) stop reading from a peer
 * at a message that has no receive yet?
 */
bool info_core_stalls(const struct fi_info *core);

/*
 * Does it know FI_PEEK, FI_CLAIM and FI_DISCARD for tagged messages, in this release of
 * libfabric (fi_version())? @data: the completion flag by which a peek tells that a message
 * has cq data; 0 if such data comes without a flag.
 */
bool info_core_peeks(const struct fi_info *core, uint32_t version, uint64_t *data);

/*
 * Does it look for a message that came before its receive among those of all endpoints of a
 * domain? Then these have to have tags of their own.
 */
bool info_core_mixes(const struct fi_info *core);

/*
 * After one of its endpoints was closed, must fi_trywait() not be asked any more about the
 * queues that were bound to it?
 */
bool info_core_litters(const struct fi_info *core);

/* Can the NIC below it be given device memory, by registration? */
bool info_core_maps(const struct fi_info *core);

/* And does its CPU touch nothing of what is sent and received, but short messages? */
bool info_core_direct(const struct fi_info *core);
/* Are all peers that it reaches on this host? */
bool info_core_near(const struct fi_info *core);

/*
 * Are its atomic operations to be avoided? They are its CPU's work, on memory that may be a
 * device's, and make it report the end of other operations than those that have ended.
 */
bool info_core_fails_atomics(const struct fi_info *core);

/* Is a message of middling length better read by its receiver than sent (rndv_lent.h)? */
bool info_core_lends(const struct fi_info *core);

/* Makes what info_to_core() made one for a core that does: it reads remote memory. */
void info_core_add_lending(struct fi_info *core);

/*
 * Makes what info_to_core() made one for a core that takes descriptors of all buffers and
 * reads remote memory: what it takes to give its NIC device memory.
 */
void info_core_add_maps(struct fi_info *core);

/* May its counters be bound to endpoints? */
bool info_core_counts(const struct fi_info *core, uint32_t version);

/* Does it count all that peers do to the memory of an endpoint's process (FI_RMA_EVENT)? */
bool info_core_counts_remote(const struct fi_info *core);

/*
 * Is all remote memory of a domain opened with @info ours to serve, host memory too, since
 * accesses are to be counted and @core does not? Both sides have to agree on that, as on
 * FI_HMEM: FI_RMA_EVENT is offered over such a core to those that ask for it, only.
 */
bool info_serves_all(const struct fi_info *info, const struct fi_info *core);

#endif /* P2P_INFO_H */
