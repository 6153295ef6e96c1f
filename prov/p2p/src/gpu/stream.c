/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Operations that begin when a stream of the GPU gets there. See stream.h. */
#include "gpu/stream.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_p2p.h>

#include "base/log.h"
#include "gpu/xpu.h"
#include "xfer/progress.h"
#include "xfer/reports.h"

/* Entries of a domain on one device, at most */
#define STREAM_WORDS 8192

/* What is in an entry's word */
enum {
	STREAM_ARMED,
	STREAM_RUNG, /* the stream was there, or is past the wait */
	STREAM_PASS, /* it may go on */
};

/**
 * struct stream_entry - an operation, or a wait.
 * @ep:		an operation's; NULL: the endpoint is closed, or it is a wait
 * @op:		the operation
 * @cntr, @cq:	what a wait is for; both NULL: it is closed, and nothing is waited for
 * @threshold:	of the wait; 0: it is an operation
 * @word:	its word
 * @passed:	the stream has been let go on
 */
struct stream_entry {
	struct p2p_ep *ep;
	struct ring_op op;
	struct p2p_cntr *cntr;
	struct p2p_cq *cq;
	uint64_t threshold;
	uint64_t *word;
	bool passed;
	TAILQ_ENTRY(stream_entry) entry;
};

TAILQ_HEAD(stream_entries, stream_entry);

/* What a graph's waits have used of a counter */
struct stream_used {
	const struct p2p_cntr *cntr;
	uint64_t value;
	LIST_ENTRY(stream_used) entry;
};

/* What a line of a graph and the graph have in common: who ends last frees it. @gone: the graph is */
struct stream_graph {
	unsigned int refs;
	bool gone;
};

/**
 * struct stream_line - what was put into one stream, in that order.
 * @stream:	which; of a graph: the one that was captured
 * @capture:	the graph's number; 0: none
 * @graph:	tells when it is gone; NULL: none
 * @entries:	in order; @next: the one to be looked at
 */
struct stream_line {
	struct stream_dev *dev;
	void *stream;
	uint64_t capture;
	struct stream_graph *graph;
	struct xpu_patience patience;
	struct stream_entries entries;
	struct stream_entry *next;
	LIST_HEAD(, stream_used) used;
	LIST_ENTRY(stream_line) entry;
};

/* Who has entries has one of these, so that its close takes it out of them */
struct stream_user {
	struct fid_export export;
	struct stream_dev *dev;
	const struct fid *fid;
	LIST_ENTRY(stream_user) entry;
};

/**
 * struct stream_dev - a domain's entries on a device. The proxy's lock guards it.
 * @put:	held while something is put into a stream, so that lines have the streams' order. The driver
 *		may wait for the stream then, and the stream for the proxy
 * @words:	STREAM_WORDS of them; @free: those that no entry has, @free_count
 */
struct stream_dev {
	struct fid_export export;
	struct p2p_domain *domain;
	struct gpu_dev gpu;
	struct proxy *proxy;
	struct proxy_source source;
	pthread_mutex_t put;
	struct gpu_host words;
	uint64_t *free[STREAM_WORDS];
	unsigned int free_count;
	LIST_HEAD(, stream_line) lines;
	LIST_HEAD(, stream_user) users;
};

/* ---- what the proxy does ---- */

static void stream_entry_free(struct stream_line *line, struct stream_entry *entry)
{
	TAILQ_REMOVE(&line->entries, entry, entry);
	line->dev->free[line->dev->free_count++] = entry->word;
	free(entry);
}

static void stream_graph_put(struct stream_graph *graph)
{
	if (!__atomic_sub_fetch(&graph->refs, 1, __ATOMIC_ACQ_REL))
		free(graph);
}

static bool stream_line_gone(const struct stream_line *line)
{
	return line->graph && __atomic_load_n(&line->graph->gone, __ATOMIC_ACQUIRE);
}

static void stream_line_free(struct stream_line *line)
{
	struct stream_entry *entry;
	struct stream_used *used;

	while ((entry = TAILQ_FIRST(&line->entries)))
		stream_entry_free(line, entry);
	while ((used = LIST_FIRST(&line->used))) {
		LIST_REMOVE(used, entry);
		free(used);
	}
	LIST_REMOVE(line, entry);
	if (line->graph)
		stream_graph_put(line->graph);
	free(line);
}

/* The next entry; of a graph, after the last one comes the first one again. */
static void stream_line_go_on(struct stream_line *line)
{
	struct stream_entry *entry = line->next;

	line->next = TAILQ_NEXT(entry, entry);
	if (line->capture) {
		__atomic_store_n(entry->word, STREAM_ARMED, __ATOMIC_RELEASE);
		entry->passed = false;
		if (!line->next)
			line->next = TAILQ_FIRST(&line->entries);
	} else {
		stream_entry_free(line, entry);
	}
}

static bool stream_cntr_there(const struct stream_line *line, const struct stream_entry *entry)
{
	const uint64_t value = cntr_value(entry->cntr);
	struct stream_used *used;

	if (cntr_errors(entry->cntr))
		return true;
	if (!line->capture)
		return value >= entry->threshold;
	LIST_FOREACH(used, &line->used, entry) {
		if (used->cntr == entry->cntr)
			break;
	}
	if (value - used->value < entry->threshold)
		return false;
	used->value += entry->threshold;
	return true;
}

static bool stream_cq_there(const struct stream_entry *entry)
{
	struct xfer_cq *cq = &entry->cq->xfer;
	const struct xfer_report *first;
	bool error;

	if (__atomic_load_n(&cq->count, __ATOMIC_RELAXED) >= entry->threshold)
		return true;
	p2p_lock_take(&cq->xfer->lock);
	first = STAILQ_FIRST(&cq->reports);
	error = cq->failed || (first && first->comp.err);
	p2p_lock_drop(&cq->xfer->lock);
	return error;
}

static bool stream_wait_look(struct stream_line *line, struct stream_entry *entry)
{
	const bool there = entry->cntr ? stream_cntr_there(line, entry)
			   : entry->cq ? stream_cq_there(entry)
				       : true;

	if (!there)
		return false;
	entry->passed = true;
	__atomic_store_n(entry->word, STREAM_PASS, __ATOMIC_RELEASE);
	return true;
}

/* Looks at the first entry. True: something was done */
static bool stream_line_look(struct stream_line *line)
{
	struct stream_entry *entry = line->next;
	int ret = 0;

	if (entry->threshold && !entry->passed)
		return stream_wait_look(line, entry);
	if (__atomic_load_n(entry->word, __ATOMIC_ACQUIRE) != STREAM_RUNG)
		return false;
	if (entry->ep)
		ret = xpu_op_patience(&line->patience, entry->op.word[FI_P2P_XPU_W_PEER],
				      xpu_op_post_full(entry->ep, &entry->op));
	if (ret == -FI_EAGAIN)
		return false;
	if (ret)
		xpu_op_fail(entry->ep, &entry->op, ret);
	stream_line_go_on(line);
	return true;
}

static bool stream_look(struct proxy_source *source)
{
	struct stream_dev *dev = container_of(source, struct stream_dev, source);
	struct stream_line *line, *next;
	bool moved = false;

	for (line = LIST_FIRST(&dev->lines); line; line = next) {
		next = LIST_NEXT(line, entry);
		while (line->next && stream_line_look(line))
			moved = true;
		if (stream_line_gone(line) || (!line->capture && !line->next))
			stream_line_free(line);
	}
	source->kernels = !LIST_EMPTY(&dev->lines);
	if (source->kernels || xfer_busy(&dev->domain->xfer))
		xfer_progress(&dev->domain->xfer);
	return moved || xfer_busy(&dev->domain->xfer);
}

/* ---- devices ---- */

/* The domain is closed: no stream may get to its entries any more. */
static void stream_dev_end(struct fid_export *export)
{
	struct stream_dev *dev = container_of(export, struct stream_dev, export);
	struct stream_user *user;

	proxy_remove(dev->proxy, &dev->source);
	fid_export_remove(export);
	while ((user = LIST_FIRST(&dev->users))) {
		LIST_REMOVE(user, entry);
		fid_export_remove(&user->export);
		free(user);
	}
	while (!LIST_EMPTY(&dev->lines))
		stream_line_free(LIST_FIRST(&dev->lines));
	proxy_put(dev->proxy);
	gpu_host_free(&dev->gpu, &dev->words);
	pthread_mutex_destroy(&dev->put);
	free(dev);
}

static int stream_dev_init(struct stream_dev *dev, const struct dev_mem *mem)
{
	unsigned int mode = DEV_CAPTURE_RELAXED;
	int ret;

	dev->gpu.mem = *mem;
	dev->gpu.number = (uint64_t) mem->ordinal;
	/* this may be the first thing that is captured */
	mem->ops->capture_mode(&mode);
	ret = gpu_host_alloc(&dev->gpu, STREAM_WORDS * sizeof(uint64_t), &dev->words);
	mem->ops->capture_mode(&mode);
	if (ret)
		return ret;
	for (unsigned int i = 0; i < STREAM_WORDS; i++)
		dev->free[i] = (uint64_t *) dev->words.host + STREAM_WORDS - 1 - i;
	dev->free_count = STREAM_WORDS;
	ret = proxy_get(&dev->gpu, &dev->proxy);
	if (ret)
		gpu_host_free(&dev->gpu, &dev->words);
	return ret;
}

/* The domain's entries on the device that is current in this thread. 0 or a negative error */
static int stream_dev_get(struct p2p_domain *domain, struct stream_dev **found)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct fid_export *export;
	struct stream_dev *dev;
	struct dev_mem mem;
	int ret = 0;

	if (!dev_current(&mem))
		return -FI_ENODEV;
	pthread_mutex_lock(&lock);
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
	pthread_mutex_unlock(&lock);
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
	struct stream_entry *entry;
	struct stream_line *line;

	proxy_hold(dev->proxy);
	LIST_FOREACH(line, &dev->lines, entry) {
		TAILQ_FOREACH(entry, &line->entries, entry) {
			if (entry->ep && &entry->ep->fid.fid == user->fid)
				entry->ep = NULL;
			if (entry->cntr && &entry->cntr->fid.fid == user->fid)
				entry->cntr = NULL;
			if (entry->cq && &entry->cq->fid.fid == user->fid)
				entry->cq = NULL;
		}
	}
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

/* ---- lines ---- */

/* Called by the driver, perhaps when the line is long gone */
static void stream_graph_end(void *arg)
{
	struct stream_graph *graph = arg;

	__atomic_store_n(&graph->gone, true, __ATOMIC_RELEASE);
	stream_graph_put(graph);
}

/*
 * The line of a stream, or of a stream in a capture, of which @capture is the number. Called with the
 * proxy's lock held. NULL: there is none
 */
static struct stream_line *stream_line_find(struct stream_dev *dev, const void *stream,
					    uint64_t capture)
{
	struct stream_line *line;

	LIST_FOREACH(line, &dev->lines, entry) {
		if (line->stream == stream && line->capture == capture &&
		    !stream_line_gone(line))
			break;
	}
	return line;
}

static struct stream_line *stream_line_new(struct stream_dev *dev, void *stream,
					   uint64_t capture)
{
	struct stream_line *line = calloc(1, sizeof *line);

	if (!line)
		return NULL;
	line->dev = dev;
	line->stream = stream;
	line->capture = capture;
	TAILQ_INIT(&line->entries);
	LIST_INSERT_HEAD(&dev->lines, line, entry);
	return line;
}

/*
 * If a stream is being captured, makes sure that there is a line, and that it ends with the graph.
 * Called without the proxy's lock: this calls the driver. 0 or a negative error
 */
static int stream_capture_get(struct stream_dev *dev, void *stream, uint64_t *capture)
{
	struct stream_graph *shared = NULL;
	struct stream_line *line;
	void *graph = NULL;
	uint64_t id = 0;
	int ret = dev->gpu.mem.ops->stream_captured(stream, &id, &graph);
	bool fresh;

	*capture = ret == 1 ? id : 0;
	if (ret != 1)
		return ret;
	proxy_hold(dev->proxy);
	line = stream_line_find(dev, stream, id);
	fresh = !line;
	if (fresh)
		line = stream_line_new(dev, stream, id);
	if (fresh && line)
		line->graph = shared = calloc(1, sizeof *shared);
	if (shared)
		shared->refs = 2;
	proxy_release(dev->proxy);
	if (!line || (fresh && !shared))
		return -FI_ENOMEM;
	ret = fresh ? dev->gpu.mem.ops->graph_keep(graph, stream_graph_end, shared) : 0;
	if (ret)
		stream_graph_end(shared);
	return ret;
}

/* From where on a graph counts: now, or where its last wait for this counter has ended */
static int stream_used_note(struct stream_line *line, const struct p2p_cntr *cntr)
{
	struct stream_used *used;

	LIST_FOREACH(used, &line->used, entry) {
		if (used->cntr == cntr)
			return 0;
	}
	used = calloc(1, sizeof *used);
	if (!used)
		return -FI_ENOMEM;
	used->cntr = cntr;
	used->value = cntr_value(cntr);
	LIST_INSERT_HEAD(&line->used, used, entry);
	return 0;
}

/*
 * What a stream does at an entry with this @word: 0 or a negative error. A graph may be launched again
 * before the proxy has seen what the last launch has written.
 */
static int stream_put(const struct stream_dev *dev, void *stream, const uint64_t *word,
		      bool waits, bool captured)
{
	const struct dev_ops *ops = dev->gpu.mem.ops;
	char *there = (char *) dev->words.addr +
		      ((const char *) word - (const char *) dev->words.host);
	int ret = 0;

	if (waits || captured)
		ret = ops->stream_wait(&dev->gpu.mem, stream, there,
				       waits ? STREAM_PASS : STREAM_ARMED);
	return ret ? ret : ops->stream_write(&dev->gpu.mem, stream, there, STREAM_RUNG);
}

/* Appends an entry, a copy of @what, to a line. Called with the proxy's lock held */
static int stream_append(struct stream_line *line, const struct stream_entry *what,
			 struct stream_entry **appended)
{
	struct stream_dev *dev = line->dev;
	struct stream_entry *entry;
	int ret;

	if (line->capture && what->cq) {
		P2P_WARN("a graph waits for counters, not for completion queues\n");
		return -FI_EOPNOTSUPP;
	}
	ret = line->capture && what->cntr ? stream_used_note(line, what->cntr) : 0;
	if (ret)
		return ret;
	entry = malloc(sizeof *entry);
	if (!entry)
		return -FI_ENOMEM;
	*entry = *what;
	entry->word = dev->free[--dev->free_count];
	*entry->word = STREAM_ARMED;
	TAILQ_INSERT_TAIL(&line->entries, entry, entry);
	if (!line->next)
		line->next = entry;
	*appended = entry;
	return 0;
}

/* The same, to the line of the stream, which may be new */
static int stream_append_to(struct stream_dev *dev, void *stream, uint64_t capture,
			    const struct stream_entry *what, struct stream_entry **appended)
{
	struct stream_line *line = stream_line_find(dev, stream, capture);

	if (!dev->free_count)
		return -FI_EAGAIN;
	if (!line)
		line = stream_line_new(dev, stream, capture);
	return line ? stream_append(line, what, appended) : -FI_ENOMEM;
}

/* Takes back what no stream will get to. */
static void stream_take_back(struct stream_dev *dev, void *stream, uint64_t capture,
			     struct stream_entry *entry)
{
	struct stream_line *line;

	proxy_hold(dev->proxy);
	line = stream_line_find(dev, stream, capture);
	if (line) {
		if (line->next == entry)
			line->next = NULL;
		stream_entry_free(line, entry);
	}
	proxy_release(dev->proxy);
}

static int stream_add_to(struct stream_dev *dev, struct fid_exports *exports,
			 const struct fid *fid, const struct stream_entry *what, void *stream)
{
	struct stream_entry *entry;
	uint64_t capture;
	int ret = stream_capture_get(dev, stream, &capture);

	if (ret)
		return ret;
	proxy_hold(dev->proxy);
	ret = stream_user_note(dev, exports, fid);
	if (!ret)
		ret = stream_append_to(dev, stream, capture, what, &entry);
	proxy_release(dev->proxy);
	if (ret)
		return ret;
	ret = stream_put(dev, stream, entry->word, !what->ep, capture);
	if (ret)
		stream_take_back(dev, stream, capture, entry);
	return ret;
}

static int stream_add(struct p2p_domain *domain, struct fid_exports *exports,
		      const struct fid *fid, const struct stream_entry *what, void *stream)
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
static bool stream_convert(const struct p2p_ep *ep, const struct fi_p2p_stream_op *op,
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
		.flags = op->flags | (recv ? ep->xfer.rx_flags : ep->tx_flags),
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
	ep = ep_of(&fid->fid);
	if (!stream_convert(ep, op, &what.op))
		return -FI_EINVAL;
	what.ep = ep;
	return stream_add(ep->domain, &ep->exports, &fid->fid, &what, stream);
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

static struct fi_p2p_stream_ops stream_ops = {
	.size = sizeof(struct fi_p2p_stream_ops),
	.post = stream_post,
	.wait = stream_wait,
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
