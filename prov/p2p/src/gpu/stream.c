/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Operations that begin when a stream of the GPU gets there. See stream.h. */
#include "gpu/stream.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_p2p.h>

#include "base/log.h"
#include "base/process.h"
#include "gpu/stream_line.h"
#include "gpu/stream_map.h"
#include "xfer/progress.h"

/* Who has entries has one of these, so that its close takes it out of them */
struct stream_user {
	struct fid_export export;
	struct stream_dev *dev;
	const struct fid *fid;
	LIST_ENTRY(stream_user) entry;
};

/**
 * struct stream_dev - a domain's entries on a device. The proxy's lock guards it.
 * @domain:	NULL: it is closed
 * @put:	held while something is put into a stream, so that lines have the streams' order. The driver
 *		may wait for the stream then, and the stream for the proxy
 * @words:	of the lines
 * @maps:	what streams copy themselves
 */
struct stream_dev {
	struct fid_export export;
	struct p2p_domain *domain;
	struct gpu_dev gpu;
	struct proxy *proxy;
	struct proxy_source source;
	pthread_mutex_t put;
	struct gpu_host words;
	struct stream_lines lines;
	LIST_HEAD(, stream_user) users;
	struct stream_maps maps;
};

static bool stream_look(struct proxy_source *source)
{
	struct stream_dev *dev = container_of(source, struct stream_dev, source);
	const bool moved = stream_lines_look(&dev->lines);

	source->kernels = stream_lines_live(&dev->lines);
	if (!dev->domain)
		return moved;
	if (source->kernels || xfer_busy(&dev->domain->xfer))
		xfer_progress(&dev->domain->xfer);
	return moved || xfer_busy(&dev->domain->xfer);
}

/* ---- devices ---- */

/* Entries of one object, or of all (NULL), do nothing from now on. Called with the proxy's lock held */
static void stream_forget(struct stream_dev *dev, const struct fid *fid)
{
	struct stream_entry *entry;
	struct stream_line *line;

	LIST_FOREACH(line, &dev->lines.lines, entry) {
		TAILQ_FOREACH(entry, &line->entries, entry) {
			if (!fid || (entry->ep && &entry->ep->fid.fid == fid))
				entry->ep = NULL;
			if (!fid || (entry->cntr && &entry->cntr->fid.fid == fid))
				entry->cntr = NULL;
			if (!fid || (entry->cq && &entry->cq->fid.fid == fid))
				entry->cq = NULL;
		}
	}
}

/* The domain is closed: no stream may get to its entries any more, but one may still be before a wait. */
static void stream_dev_end(struct fid_export *export)
{
	struct stream_dev *dev = container_of(export, struct stream_dev, export);
	struct p2p_domain *domain = dev->domain;
	struct stream_user *user;

	proxy_hold(dev->proxy);
	stream_forget(dev, NULL);
	dev->domain = NULL;
	stream_lines_look(&dev->lines);
	proxy_release(dev->proxy);
	/* this may wait for streams, which the proxy lets go on */
	gpu_host_unpin(&dev->gpu, &dev->words);
	stream_maps_close(&dev->maps, domain);
	proxy_remove(dev->proxy, &dev->source);
	fid_export_remove(export);
	while ((user = LIST_FIRST(&dev->users))) {
		LIST_REMOVE(user, entry);
		fid_export_remove(&user->export);
		free(user);
	}
	stream_lines_free(&dev->lines);
	proxy_put(dev->proxy);
	gpu_host_free(&dev->gpu, &dev->words);
	pthread_mutex_destroy(&dev->put);
	free(dev);
}

static int stream_dev_init(struct stream_dev *dev, const struct dev_mem *mem)
{
	int ret;

	dev->gpu.mem = *mem;
	dev->gpu.number = (uint64_t) mem->ordinal;
	ret = gpu_host_alloc(&dev->gpu, STREAM_WORDS * sizeof(uint64_t), &dev->words);
	if (ret)
		return ret;
	stream_lines_init(&dev->lines, dev->words.host);
	ret = proxy_get(&dev->gpu, &dev->proxy);
	if (ret)
		gpu_host_free(&dev->gpu, &dev->words);
	return ret;
}

/* The domain's entries on the device that is current in this thread. 0 or a negative error */
static int stream_dev_get(struct p2p_domain *domain, struct stream_dev **found)
{
	struct fid_export *export;
	struct stream_dev *dev;
	struct dev_mem mem;
	int ret = 0;

	if (dev_current(&mem) <= 0)
		return -FI_ENODEV;
	process_lock(PROCESS_STREAMS);
	LIST_FOREACH(export, &domain->exports, entry) {
		dev = container_of(export, struct stream_dev, export);
		if (export->end == stream_dev_end && dev->gpu.mem.ops == mem.ops &&
		    dev->gpu.mem.ctx == mem.ctx)
			goto unlock;
	}
	ret = proxy_may_serve(domain);
	dev = ret ? NULL : calloc(1, sizeof *dev);
	if (!dev) {
		ret = ret ? ret : -FI_ENOMEM;
		goto unlock;
	}
	ret = stream_dev_init(dev, &mem);
	if (ret) {
		free(dev);
		goto unlock;
	}
	dev->domain = domain;
	pthread_mutex_init(&dev->put, NULL);
	dev->source.look = stream_look;
	dev->export.end = stream_dev_end;
	fid_export_add(&domain->exports, &dev->export);
	proxy_add(dev->proxy, &dev->source);
unlock:
	process_unlock(PROCESS_STREAMS);
	if (!ret)
		*found = dev;
	return ret;
}

/* ---- users: objects that entries name ---- */

/* Entries of an object that is closed do nothing, and hold no stream. */
static void stream_user_end(struct fid_export *export)
{
	struct stream_user *user = container_of(export, struct stream_user, export);
	struct stream_dev *dev = user->dev;

	proxy_hold(dev->proxy);
	stream_forget(dev, user->fid);
	stream_maps_forget(&dev->maps, user->fid);
	LIST_REMOVE(user, entry);
	fid_export_remove(export);
	proxy_release(dev->proxy);
	free(user);
}

/* Called with the proxy's lock held. 0 or -FI_ENOMEM */
static int stream_user_note(struct stream_dev *dev, struct fid_exports *exports,
			    const struct fid *fid)
{
	struct stream_user *user;

	LIST_FOREACH(user, &dev->users, entry) {
		if (user->fid == fid)
			return 0;
	}
	user = calloc(1, sizeof *user);
	if (!user)
		return -FI_ENOMEM;
	user->dev = dev;
	user->fid = fid;
	user->export.end = stream_user_end;
	LIST_INSERT_HEAD(&dev->users, user, entry);
	fid_export_add(exports, &user->export);
	return 0;
}

/* ---- putting something into a stream ---- */

/*
 * If a stream is being captured, makes sure that there is a line, and that it ends with the graph.
 * Called without the proxy's lock: this calls the driver. 0 or a negative error
 */
static int stream_capture_get(struct stream_dev *dev, void *stream, uint64_t *capture)
{
	struct stream_graph *fresh = NULL;
	struct stream_line *line;
	void *graph = NULL;
	uint64_t id = 0;
	int ret = dev->gpu.mem.ops->stream_captured(stream, &id, &graph);

	*capture = ret == 1 ? id : 0;
	if (ret != 1)
		return ret;
	proxy_hold(dev->proxy);
	ret = stream_line_get(&dev->lines, stream, id, &line);
	if (!ret && !line->graph->kept) {
		fresh = line->graph;
		fresh->kept = true;
		fresh->refs++;
	}
	proxy_release(dev->proxy);
	if (fresh)
		ret = dev->gpu.mem.ops->graph_keep(graph, stream_graph_end, fresh);
	if (fresh && ret)
		stream_graph_end(fresh);
	return ret;
}

/* Appends an entry to the line of the stream, which may be new. Called with the proxy's lock held */
static int stream_append(struct stream_dev *dev, void *stream, uint64_t capture,
			 const struct stream_entry *what, struct stream_line **line,
			 struct stream_entry **entry, struct dev_step *steps, size_t *count)
{
	int ret = stream_line_get(&dev->lines, stream, capture, line);

	if (ret)
		return ret;
	return stream_line_append(&dev->lines, *line, what, entry, steps, count);
}

/* Is it a copy of the stream's own? */
static bool stream_copies(struct stream_dev *dev, const struct stream_entry *what,
			  struct dev_copy *copy)
{
	bool found;

	if (!what->ep || SLIST_EMPTY(&dev->maps))
		return false;
	proxy_hold(dev->proxy);
	found = stream_maps_find(&dev->maps, what->ep, &what->op, copy);
	proxy_release(dev->proxy);
	/* last, as it asks the driver */
	return found && stream_map_suits(&what->op, &dev->gpu.mem);
}

static int stream_add_to(struct stream_dev *dev, struct fid_exports *exports,
			 const struct fid *fid, struct stream_entry *what, void *stream)
{
	const struct dev_ops *ops = dev->gpu.mem.ops;
	struct dev_step steps[DEV_STEPS];
	struct stream_entry *entry;
	struct stream_line *line;
	struct dev_copy copy;
	uint64_t capture;
	size_t count;
	int ret = stream_capture_get(dev, stream, &capture);

	if (ret)
		return ret;
	what->copied = stream_copies(dev, what, &copy);
	proxy_hold(dev->proxy);
	ret = stream_user_note(dev, exports, fid);
	if (!ret)
		ret = stream_append(dev, stream, capture, what, &line, &entry, steps, &count);
	proxy_release(dev->proxy);
	if (ret)
		return ret;
	/* where the stream finds the words */
	for (size_t i = 0; i < count; i++)
		steps[i].word = (uint64_t *) dev->words.addr +
				(steps[i].word - (uint64_t *) dev->words.host);
	if (what->copied)
		ret = ops->stream_copy(&dev->gpu.mem, stream, &copy);
	if (!ret)
		ret = ops->stream_steps(&dev->gpu.mem, stream, steps, count);
	if (ret) {
		proxy_hold(dev->proxy);
		stream_line_take_back(&dev->lines, line, entry);
		proxy_release(dev->proxy);
	}
	return ret;
}

static int stream_add(struct p2p_domain *domain, struct fid_exports *exports,
		      const struct fid *fid, struct stream_entry *what, void *stream)
{
	struct stream_dev *dev;
	int ret = stream_dev_get(domain, &dev);

	if (ret)
		return ret;
	pthread_mutex_lock(&dev->put);
	ret = stream_add_to(dev, exports, fid, what, stream);
	pthread_mutex_unlock(&dev->put);
	return ret;
}

/* ---- the table ---- */

/* The operation as a kernel's. False: it makes no sense */
static bool stream_convert(struct fid_ep *ep, const struct fi_p2p_stream_op *op,
			   struct ring_op *ring_op)
{
	static const unsigned int ops[] = {
		[FI_P2P_STREAM_SEND] = FI_P2P_XPU_OP_SEND,
		[FI_P2P_STREAM_RECV] = FI_P2P_XPU_OP_RECV,
		[FI_P2P_STREAM_TSEND] = FI_P2P_XPU_OP_TSEND,
		[FI_P2P_STREAM_TRECV] = FI_P2P_XPU_OP_TRECV,
		[FI_P2P_STREAM_WRITE] = FI_P2P_XPU_OP_WRITE,
		[FI_P2P_STREAM_READ] = FI_P2P_XPU_OP_READ,
		[FI_P2P_STREAM_ATOMIC] = FI_P2P_XPU_OP_ATOMIC,
	};
	const bool tagged = op->kind == FI_P2P_STREAM_TSEND || op->kind == FI_P2P_STREAM_TRECV;
	const bool recv = op->kind == FI_P2P_STREAM_RECV || op->kind == FI_P2P_STREAM_TRECV;

	if ((unsigned int) op->kind > FI_P2P_STREAM_ATOMIC || op->datatype < 0 || op->op < 0)
		return false;
	*ring_op = (struct ring_op){
		.kind = FI_P2P_XPU_KIND_OP,
		.op = ops[op->kind],
		.datatype = (unsigned int) op->datatype,
		.atomic = (unsigned int) op->op,
		.flags = op->flags |
			 (recv ? ep_rx_flags(ep_of(&ep->fid), tagged ? FI_OP_TRECV : FI_OP_RECV)
			       : ep_of(&ep->fid)->tx_flags),
	};
	ring_op->word[FI_P2P_XPU_W_BUF] = (uintptr_t) op->buf;
	ring_op->word[FI_P2P_XPU_W_LEN] = op->len;
	ring_op->word[FI_P2P_XPU_W_DESC] = (uintptr_t) op->desc;
	ring_op->word[FI_P2P_XPU_W_PEER] = op->peer;
	ring_op->word[FI_P2P_XPU_W_ADDR] = tagged ? op->tag : op->addr;
	ring_op->word[FI_P2P_XPU_W_KEY] = tagged ? op->ignore : op->key;
	ring_op->word[FI_P2P_XPU_W_CONTEXT] = (uintptr_t) op->context;
	ring_op->word[FI_P2P_XPU_W_DATA] = op->data;
	return true;
}

static int stream_post(struct fid_ep *fid, const struct fi_p2p_stream_op *op, void *stream)
{
	struct stream_entry what = {NULL};
	struct p2p_ep *ep;

	if (!fid || !op || !fid_class(&fid->fid) || fid->fid.fclass != FI_CLASS_EP)
		return -FI_EINVAL;
	if (!stream_convert(fid, op, &what.op))
		return -FI_EINVAL;
	/* what is special about an alias are the flags: it may be closed before the stream gets there */
	ep = ep_itself(&fid->fid);
	what.ep = ep;
	return stream_add(ep->domain, &ep->exports, &ep->fid.fid, &what, stream);
}

static int stream_wait(struct fid *fid, uint64_t threshold, void *stream)
{
	struct stream_entry what = {.threshold = threshold};

	if (!fid || !fid_class(fid))
		return -FI_EINVAL;
	/* nothing is waited for, and an entry without a threshold is none of these */
	if (!threshold)
		return 0;
	if (fid->fclass == FI_CLASS_CNTR) {
		what.cntr = cntr_of(fid);
		return stream_add(what.cntr->domain, &what.cntr->exports, fid, &what, stream);
	}
	if (fid->fclass != FI_CLASS_CQ)
		return -FI_EINVAL;
	what.cq = cq_of(fid);
	return stream_add(what.cq->domain, &what.cq->exports, fid, &what, stream);
}

static int stream_map(struct fid_ep *fid, fi_addr_t peer, const void *share, size_t len)
{
	struct stream_dev *dev;
	struct stream_map *map;
	struct xpu_share read;
	struct p2p_ep *ep;
	int ret;

	if (!fid || !share || !fid_class(&fid->fid) || fid->fid.fclass != FI_CLASS_EP)
		return -FI_EINVAL;
	ep = ep_itself(&fid->fid);
	ret = stream_dev_get(ep->domain, &dev);
	if (!ret)
		ret = xpu_share_read(share, len, &read);
	if (ret)
		return ret;
	proxy_hold(dev->proxy);
	stream_maps_forget_others(&dev->maps, ep, peer, read.offer.process);
	proxy_release(dev->proxy);
	ret = stream_map_open(ep, peer, &read, &dev->gpu.mem,
			      (uintptr_t) dev->words.host + peer, &map);
	if (ret)
		return ret;
	pthread_mutex_lock(&dev->put);
	proxy_hold(dev->proxy);
	SLIST_INSERT_HEAD(&dev->maps, map, entry);
	ret = stream_user_note(dev, &ep->exports, &ep->fid.fid);
	if (ret)
		map->ep = NULL;
	proxy_release(dev->proxy);
	pthread_mutex_unlock(&dev->put);
	return ret;
}

static struct fi_p2p_stream_ops stream_ops = {
	.size = sizeof(struct fi_p2p_stream_ops),
	.post = stream_post,
	.wait = stream_wait,
	.map = stream_map,
};

bool stream_own_ops(struct fid *fid, const char *name, void **ops)
{
	if ((fid->fclass != FI_CLASS_EP && fid->fclass != FI_CLASS_CQ &&
	     fid->fclass != FI_CLASS_CNTR) ||
	    strcmp(name, FI_P2P_STREAM_OPS))
		return false;
	*ops = &stream_ops;
	return true;
}
