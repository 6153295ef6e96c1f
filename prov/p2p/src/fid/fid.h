/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What all objects have in common.
 *
 * libfabric calls an object by the struct fid that it begins with. Each file has one function,
 * such as ep_of(), that leads from there to the structure around it. Where the file does not
 * matter, the object's class tells what there is to know.
 */
#ifndef P2P_FID_H
#define P2P_FID_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <rdma/fabric.h>

/**
 * struct fid_class - what is the same for all objects of a kind.
 * @ops:	libfabric's table, to which struct fid.ops points (FID_OPS)
 * @core:	offset of the object's pointer to the core provider's object; 0: it has none
 * @own_ops:	sets *@ops to a table of ours and returns true, if @name is one's; may be NULL
 * @trywait:	answers fi_trywait(); NULL: the core's object is asked
 */
struct fid_class {
	struct fi_ops ops;
	size_t core;
	bool (*own_ops)(struct fid *fid, const char *name, void **ops);
	int (*trywait)(struct fid *fid);
};

/* Tables that ranks above offer, beside those of a class: as fid_class.own_ops; NULL: none */
extern bool (*fid_more_ops)(struct fid *fid, const char *name, void **ops);

/* A use of an object by a GPU. @end: the object is about to be closed; takes this off its list */
struct fid_export {
	void (*end)(struct fid_export *export);
	LIST_ENTRY(fid_export) entry;
};

LIST_HEAD(fid_exports, fid_export);

/* Any thread may call these. fid_export_find(): the use that ends in this way, or NULL */
void fid_export_add(struct fid_exports *exports, struct fid_export *export);
void fid_export_remove(struct fid_export *export);
struct fid_export *fid_export_find(const struct fid_exports *exports,
				   void (*end)(struct fid_export *export));

/* In a close, once nothing that we know of refuses it: what has ended does not begin again */
void fid_exports_end(struct fid_exports *exports);

/* The class of @fid; NULL: @fid is NULL or not ours */
const struct fid_class *fid_class(const struct fid *fid);

/* The core's object behind @fid if that is ours, else @fid itself */
struct fid *fid_core(struct fid *fid);

/* Which object of ours is around one of the core's. It lies in ours */
struct fid_pair {
	struct fid *core;
	struct fid *user;
	LIST_ENTRY(fid_pair) entry;
};

/*
 * The way back, for objects that events tell of. Any value may be asked for: applications
 * write events of their own. fid_pair_remove() returns the pair, or NULL where there is none;
 * fid_close_core() takes it out, too. Any thread may call these.
 */
void fid_pair_add(struct fid_pair *pair, struct fid *core, struct fid *user);
struct fid_pair *fid_pair_remove(struct fid *core);
struct fid *fid_user(struct fid *core);

/*
 * Refuses FI_TRIGGER, of which gpu/trigger_ep.c lets nothing come here. The core would take our counter for one of
 * its own. -FI_ENOSYS (logged)
 */
int fid_refuse_trigger(void);

/* Entries of struct fi_ops: the core's object answers, if it may see the arguments */
int fid_control(struct fid *fid, int command, void *arg);
int fid_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int fid_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int fid_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int fid_no_control(struct fid *fid, int command, void *arg);

/* The table of a class: its own entries, and what tells that an object is ours */
#define FID_OPS(...)                                                                           \
	{                                                                                      \
		.size = sizeof(struct fi_ops), .ops_open = fid_ops_open, __VA_ARGS__           \
	}

/* fi_close() of a core's object; and, if that went well, freeing of ours */
int fid_close_core(struct fid *core);
int fid_close(struct fid *fid);

#endif /* P2P_FID_H */
