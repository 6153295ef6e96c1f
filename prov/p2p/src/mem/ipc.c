/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Device memory shared within a host. See ipc.h. */
#include "mem/ipc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/process.h"
#include "mem/ipc_share.h"
#include "base/log.h"
#include "base/trace.h"

/* How long an answer is waited for, though nobody waits [ms] */
#define IPC_PATIENCE 2000

/* ---- who we are ---- */

static void ipc_hash(uint64_t *hash, const void *data, size_t len)
{
	const unsigned char *byte = data;

	/* FNV-1a */
	for (size_t i = 0; i < len; i++)
		*hash = (*hash ^ byte[i]) * 0x100000001b3;
}

static uint32_t ipc_space(const char *path)
{
	struct stat ns;

	return stat(path, &ns) ? 0 : (uint32_t) ns.st_ino;
}

/* As in struct ipc_offer; 0: it is not known now */
static uint64_t ipc_host(void)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	uint64_t hash = 0xcbf29ce484222325, machine;
	uid_t user = geteuid();
	char boot[64];
	size_t len;

	if (!file)
		return 0;
	len = fread(boot, 1, sizeof boot, file);
	fclose(file);
	ipc_hash(&hash, boot, len);
	machine = hash;
	ipc_hash(&hash, &user, sizeof user);
	return (machine & ~(uint64_t) UINT32_MAX) | (uint32_t) hash;
}

void ipc_init(struct ipc *ipc, uint64_t random)
{
	static uint64_t host, process;
	static pid_t owner;
	const uint64_t here = ipc_host();

	*ipc = (struct ipc){.look.number = -1};
	for (unsigned int i = 0; i < IPC_FAILURES; i++)
		ipc->failures[i].question = -1;
	TAILQ_INIT(&ipc->exported);
	TAILQ_INIT(&ipc->imported);
	process_lock(PROCESS_TABLES);
	/* a child has its parent's variables, which are not true for it */
	if (process_inherited(owner)) {
		owner = getpid();
		process = (random & ~(uint64_t) UINT32_MAX) | (uint32_t) owner;
		host = 0;
	}
	if (!host)
		host = here;
	ipc->host = host ? host : random;
	ipc->process = process;
	ipc->spaces = (struct ipc_spaces){ipc_space("/proc/self/ns/pid"),
					  ipc_space("/proc/self/ns/net")};
	process_unlock(PROCESS_TABLES);
}

/* ---- our memory ---- */

static void ipc_export_free(struct ipc *ipc, struct ipc_export *export)
{
	TAILQ_REMOVE(&ipc->exported, export, used);
	HASH_DELETE(hh, ipc->exports, export);
	if (export->share)
		ipc_share_revoke(export->share);
	free(export);
}

/* For memory without a handle: can the runtime share it, and can others ask for it? */
static int ipc_export_shared(const struct ipc *ipc, const struct dev_mem *mem,
			     struct ipc_export *export)
{
	int fd, ret;

	ret = mem->ops->ipc_share(mem, &fd, &export->why);
	if (ret)
		return ret;
	close(fd);
	export->why = "nobody could ask for it";
	ret = ipc_share_start(ipc->process);
	return ret ? ret : ipc_share_grant(mem->id, -1, &export->share, export->handle);
}

/* Asks the runtime, and notes what it says */
static void ipc_export_try(const struct ipc *ipc, const struct dev_mem *mem,
			   struct ipc_export *export)
{
	int ret = mem->mapped ? ipc_export_shared(ipc, mem, export)
			      : mem->ops->ipc_export(mem, export->handle, &export->why);

	if (!ret) {
		export->why = NULL;
		/* whoever opens it may ask whether it is still there, and does not need to */
		ipc_share_start(ipc->process);
		return;
	}
	if (!export->why)
		export->why = "its runtime does not share this memory with other processes";
	retry_failed(&export->retry);
}

static struct ipc_export *ipc_export_new(struct ipc *ipc, const struct dev_mem *mem)
{
	struct ipc_export *export;

	while (HASH_COUNT(ipc->exports) >= conf.map_count)
		ipc_export_free(ipc, TAILQ_FIRST(&ipc->exported));
	export = calloc(1, sizeof *export);
	if (!export)
		return NULL;
	export->id = mem->id;
	HASH_ADD(hh, ipc->exports, id, sizeof export->id, export);
	if (!export->hh.tbl) {
		free(export);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&ipc->exported, export, used);
	ipc_export_try(ipc, mem, export);
	return export;
}

const struct ipc_export *ipc_export(struct ipc *ipc, const struct dev_mem *mem,
				    const void *addr, size_t len, const char **why)
{
	struct ipc_export *export;

	if (mem->mapped && (uintptr_t) addr - mem->base + len > mem->size) {
		*why = "the buffer lies in several mappings";
		return NULL;
	}
	export = TAILQ_LAST(&ipc->exported, ipc_exports);
	if (!export || export->id != mem->id)
		HASH_FIND(hh, ipc->exports, &mem->id, sizeof mem->id, export);
	if (!export) {
		export = ipc_export_new(ipc, mem);
	} else {
		if (export->why && retry_due(&export->retry))
			ipc_export_try(ipc, mem, export);
		if (TAILQ_NEXT(export, used)) {
			TAILQ_REMOVE(&ipc->exported, export, used);
			TAILQ_INSERT_TAIL(&ipc->exported, export, used);
		}
	}
	*why = export ? export->why : "out of memory";
	return *why ? NULL : export;
}

void ipc_describe(const struct ipc *ipc, const struct ipc_export *export,
		  const struct dev_mem *mem, const void *addr, struct ipc_offer *offer)
{
	*offer = (struct ipc_offer){
		.host = ipc->host,
		.process = ipc->process,
		.id = mem->id,
		.base = mem->base,
		.size = mem->size,
		.offset = (uintptr_t) addr - mem->base,
		.device = (uint32_t) mem->ordinal,
		.shared = mem->mapped,
	};
	memcpy(offer->handle, export->handle, sizeof offer->handle);
}

/* ---- the others' ---- */

/* Kernels of this process may wait for a message that is to come: its domains share the device's context */
static bool ipc_kernels;

void ipc_kernels_wait(void)
{
	__atomic_store_n(&ipc_kernels, true, __ATOMIC_RELAXED);
}

/* May it be closed now? To close what was opened waits for kernels; to detach what was attached does not. */
static bool ipc_import_may_close(const struct ipc_import *import)
{
	return !import->users &&
	       (import->shared || (conf.cuda_api != CONF_API_ASYNC &&
				   !__atomic_load_n(&ipc_kernels, __ATOMIC_RELAXED)));
}

static void ipc_import_close(const struct ipc_import *import)
{
	if (import->shared)
		import->ops->ipc_detach(import->addr, import->size);
	else
		import->ops->ipc_close(import->key.ctx, import->addr);
}

/* One import more, or less */
static void ipc_count(struct ipc *ipc, int change, size_t size)
{
	__atomic_store_n(&ipc->kept, ipc->kept + change, __ATOMIC_RELAXED);
	ipc->bytes += change < 0 ? -size : size;
}

static void ipc_import_free(struct ipc *ipc, struct ipc_import *import)
{
	P2P_TRACE(import_close, import->addr, import->size);
	ipc_import_close(import);
	TAILQ_REMOVE(&ipc->imported, import, used);
	HASH_DELETE(hh, ipc->imports, import);
	ipc_count(ipc, -1, import->size);
	if (import->gone)
		ipc->gone -= import->size;
	free(import);
}

/* Has the imported memory been freed? No two allocations of a process are in one place. */
static bool ipc_is_stale(const struct ipc_import *import, const struct ipc_offer *offer)
{
	return import->key.process == offer->process && import->key.id != offer->id &&
	       import->key.base < offer->base + offer->size &&
	       offer->base < import->key.base + import->size;
}

/* Closes imports that may be closed: those that lie where @offer does, or all if it is NULL. False: some of them stay. */
static bool ipc_close_unused(struct ipc *ipc, const struct ipc_offer *offer)
{
	struct ipc_import *import, *next;
	bool all = true;

	for (import = TAILQ_FIRST(&ipc->imported); import; import = next) {
		next = TAILQ_NEXT(import, used);
		if (offer && !ipc_is_stale(import, offer))
			continue;
		if (ipc_import_may_close(import))
			ipc_import_free(ipc, import);
		else
			all = false;
	}
	return all;
}

static void ipc_close_gone(struct ipc *ipc)
{
	struct ipc_import *import, *next;

	for (import = TAILQ_FIRST(&ipc->imported); ipc->gone && import; import = next) {
		next = TAILQ_NEXT(import, used);
		if (import->gone && ipc_import_may_close(import))
			ipc_import_free(ipc, import);
	}
}

/* Closes the import that was unused for longest, of those that may be closed. False: there is none */
static bool ipc_evict(struct ipc *ipc)
{
	struct ipc_import *import;

	TAILQ_FOREACH(import, &ipc->imported, used) {
		if (ipc_import_may_close(import)) {
			ipc_import_free(ipc, import);
			return true;
		}
	}
	return false;
}

/* Makes room for one more import, of @size bytes. False: too many stay. */
static bool ipc_make_room(struct ipc *ipc, size_t size)
{
	if (ipc->gone > IPC_GONE_MOST) {
		ipc_close_gone(ipc);
		if (ipc->gone > IPC_GONE_MOST)
			return false;
	}
	if (ipc->kept >= conf.map_count && !ipc_evict(ipc))
		return false;
	/* one that is longer than that is opened alone */
	while (ipc->bytes && ipc->bytes + size > conf.map_size) {
		if (!ipc_evict(ipc))
			return false;
	}
	return true;
}

/* ---- what is gone ---- */

/* Who uses it knows better: it is offered, so it is there */
static void ipc_import_gone(struct ipc *ipc, struct ipc_import *import, bool gone)
{
	if (import->gone == gone || (gone && import->users))
		return;
	import->gone = gone;
	ipc->gone += gone ? import->size : -import->size;
}

/* Of @process: all of them are gone */
static void ipc_process_gone(struct ipc *ipc, uint64_t process)
{
	struct ipc_import *import;

	TAILQ_FOREACH(import, &ipc->imported, used) {
		if (import->key.process == process)
			ipc_import_gone(ipc, import, true);
	}
}

static void ipc_place_gone(struct ipc *ipc, const struct ipc_place *place)
{
	struct ipc_import *import;

	TAILQ_FOREACH(import, &ipc->imported, used) {
		if (import->key.process == ipc->look.process && import->key.id == place->id &&
		    import->key.base == place->base)
			ipc_import_gone(ipc, import, true);
	}
}

/* What is in use is offered, so it is there */
static bool ipc_may_ask(const struct ipc_import *import)
{
	return !import->users && !import->gone && !import->shared;
}

/* What nobody has asked about for longest, of what may be asked about; NULL: there is no such */
static struct ipc_import *ipc_look_first(const struct ipc *ipc)
{
	struct ipc_import *import, *first = NULL;

	TAILQ_FOREACH(import, &ipc->imported, used) {
		if (ipc_may_ask(import) && (!first || import->looked < first->looked))
			first = import;
	}
	return first;
}

/* Takes up to IPC_PLACES of a process's, with those first that were asked about at @looked */
static void ipc_look_fill(struct ipc *ipc, uint64_t looked)
{
	struct ipc_look *look = &ipc->look;
	struct ipc_import *import;

	look->count = 0;
	look->turn++;
	for (int pass = 0; pass < 2; pass++) {
		TAILQ_FOREACH(import, &ipc->imported, used) {
			if (look->count == IPC_PLACES)
				return;
			if (import->key.process != look->process || !ipc_may_ask(import) ||
			    import->looked == look->turn || (!pass && import->looked != looked))
				continue;
			import->looked = look->turn;
			look->places[look->count++] =
				(struct ipc_place){import->key.id, import->key.base};
		}
	}
}

static void ipc_look_ask(struct ipc *ipc)
{
	const struct ipc_import *first = ipc_look_first(ipc);
	struct ipc_look *look = &ipc->look;

	if (!first) {
		retry_failed(&look->pace);
		return;
	}
	look->process = first->key.process;
	ipc_look_fill(ipc, first->looked);
	look->asked = clock_coarse_ms();
	look->number = ipc_share_look(look->process, look->places, look->count);
	/* what is there after all is opened again when it is offered */
	if (look->number == -FI_ECONNREFUSED)
		ipc_process_gone(ipc, look->process);
	if (look->number < 0)
		retry_failed(&look->pace);
}

/* Is the question under way over? */
static bool ipc_look_heard(struct ipc *ipc)
{
	struct ipc_look *look = &ipc->look;
	uint64_t gone = 0;
	int ret;

	if (look->number < 0)
		return true;
	ret = ipc_share_seen(look->number, look->count, &gone);
	if (ret == -FI_EAGAIN && clock_coarse_ms() - look->asked < IPC_PATIENCE)
		return false;
	if (ret == -FI_EAGAIN)
		close(look->number);
	look->number = -1;
	if (!gone)
		retry_failed(&look->pace);
	for (uint32_t i = 0; i < look->count; i++) {
		if (gone >> i & 1)
			ipc_place_gone(ipc, &look->places[i]);
	}
	return true;
}

static void ipc_look(struct ipc *ipc)
{
	if (ipc_look_heard(ipc) && retry_due(&ipc->look.pace))
		ipc_look_ask(ipc);
}

static void ipc_detach_unused(struct ipc *ipc)
{
	const uint64_t now = clock_coarse_ms();
	struct ipc_import *import, *next;
	size_t unused = 0;

	TAILQ_FOREACH(import, &ipc->imported, used)
		unused += import->shared && !import->users ? import->size : 0;
	for (import = TAILQ_FIRST(&ipc->imported); unused && import; import = next) {
		next = TAILQ_NEXT(import, used);
		if (!import->shared || import->users ||
		    now - import->used_at < (unused > IPC_GONE_MOST ? IPC_BRIEF : IPC_QUIET))
			continue;
		unused -= import->size;
		ipc_import_free(ipc, import);
	}
}

void ipc_tend(struct ipc *ipc, bool still)
{
	if (!ipc->kept)
		return;
	ipc_detach_unused(ipc);
	ipc_look(ipc);
	if (still && clock_coarse_ms() - ipc->used_at >= IPC_QUIET)
		ipc_close_gone(ipc);
}

/* ---- opening ---- */

/* What of this kind has failed here before, or NULL */
static struct ipc_failure *ipc_failure_find(struct ipc *ipc, const struct ipc_claim *claim,
					    const void *ctx)
{
	const struct ipc_offer *offer = claim->offer;

	for (unsigned int i = 0; i < IPC_FAILURES; i++) {
		struct ipc_failure *failure = &ipc->failures[i];

		if (failure->peer == claim->peer && failure->process == offer->process &&
		    failure->device == offer->device && failure->shared == offer->shared &&
		    failure->ctx == ctx)
			return failure;
	}
	return NULL;
}

/* Has its owner answered, and is it time to try it again? */
static bool ipc_failure_passed(struct ipc_failure *failure)
{
	uint64_t unused;

	if (failure->question >= 0 &&
	    ipc_share_seen(failure->question, 0, &unused) == -FI_EAGAIN)
		return false;
	failure->question = -1;
	return retry_due(&failure->retry);
}

/* @question: to the owner, which has not answered; or negative */
static void ipc_fail(struct ipc *ipc, const struct ipc_claim *claim,
		     const struct dev_mem *local, int question, const char *why)
{
	const struct ipc_offer *offer = claim->offer;
	struct ipc_failure *failure = ipc_failure_find(ipc, claim, local->ctx);

	P2P_INFO("memory of device %u of another process cannot be opened for %s device %d: "
		 "%s\n",
		 offer->device, local->ops->name, local->ordinal, why);
	if (!failure) {
		failure = &ipc->failures[ipc->next_failure++ % IPC_FAILURES];
		if (failure->question >= 0)
			close(failure->question);
		*failure = (struct ipc_failure){
			.peer = claim->peer,
			.process = offer->process,
			.device = offer->device,
			.shared = offer->shared,
			.ctx = local->ctx,
		};
	}
	failure->question = question;
	retry_failed(&failure->retry);
}

/* @fd: the memory's descriptor, if it is shared */
static int ipc_import_open(struct ipc_import *import, const struct ipc_offer *offer,
			   const struct dev_mem *local, int fd, const char **why)
{
	return offer->shared
		       ? local->ops->ipc_attach(local, fd, offer->size, &import->addr, why)
		       : local->ops->ipc_open(local, offer->handle, &import->addr, why);
}

/*
 * Does what has been opened have the length that the peer says? An owner's offset leads past
 * its end otherwise. What is attached has, as it was mapped in this length.
 */
static bool ipc_import_fits(const struct ipc_import *import)
{
	uintptr_t offset;
	struct dev_mem mem;

	if (import->shared)
		return true;
	if (import->ops->find(import->addr, &mem) != 1)
		return false;
	offset = (uintptr_t) import->addr - mem.base;
	return offset <= mem.size && import->size <= mem.size - offset;
}

/* Opens it, and puts it among the others. Nothing of it is left otherwise. */
static int ipc_import_add(struct ipc *ipc, struct ipc_import *import,
			  const struct ipc_claim *claim, const struct dev_mem *local, int fd)
{
	const char *why;
	int ret = ipc_import_open(import, claim->offer, local, fd, &why);

	if (ret && ret != -FI_ENOSYS && ipc->imports) {
		/* other imports may be in its way, or more than there is room for */
		ipc_close_unused(ipc, NULL);
		ret = ipc_import_open(import, claim->offer, local, fd, &why);
	}
	P2P_TRACE(import_open, import->addr, import->size, ret);
	if (ret) {
		ipc_fail(ipc, claim, local, -1, why);
		return -FI_EOPNOTSUPP;
	}
	ret = -FI_EOPNOTSUPP;
	if (!ipc_import_fits(import)) {
		P2P_WARN("a peer offers memory that is shorter than it says\n");
		goto close;
	}
	HASH_ADD(hh, ipc->imports, key, sizeof import->key, import);
	ret = -FI_EAGAIN;
	if (!import->hh.tbl)
		goto close;
	TAILQ_INSERT_TAIL(&ipc->imported, import, used);
	ipc_count(ipc, 1, import->size);
	import->looked = ipc->look.turn;
	/* there is news to ask for */
	ipc->look.pace = (struct retry){.delay = 0};
	return 0;

close:
	ipc_import_close(import);
	return ret;
}

static int ipc_import_new(struct ipc *ipc, const struct ipc_claim *claim,
			  const struct dev_mem *local, const struct ipc_key *key,
			  struct ipc_import **result)
{
	struct ipc_failure *failure = ipc_failure_find(ipc, claim, local->ctx);
	const struct ipc_offer *offer = claim->offer;
	struct ipc_import *import;
	const char *why;
	int ret, fd = -1;

	if (failure && !ipc_failure_passed(failure))
		return -FI_EOPNOTSUPP;
	ipc_detach_unused(ipc);
	ipc_look(ipc);
	if (!ipc_close_unused(ipc, offer) || !ipc_make_room(ipc, offer->size))
		return -FI_EAGAIN;
	import = calloc(1, sizeof *import);
	if (!import)
		return -FI_EAGAIN;
	import->key = *key;
	import->ops = local->ops;
	import->size = offer->size;
	import->shared = offer->shared;
	ret = offer->shared ? ipc_share_get(offer, &fd, &why) : 0;
	if (ret) {
		/* an owner that has answered may have another answer next time */
		if (ret == -FI_EOPNOTSUPP)
			P2P_INFO("virtual memory of another process: %s\n", why);
		else
			ipc_fail(ipc, claim, local, fd, why);
		free(import);
		return -FI_EOPNOTSUPP;
	}
	ret = ipc_import_add(ipc, import, claim, local, fd);
	if (fd >= 0)
		close(fd);
	if (ret)
		free(import);
	else
		*result = import;
	return ret;
}

/* Finds it open, or opens it */
static int ipc_import_get(struct ipc *ipc, const struct ipc_claim *claim,
			  const struct dev_mem *local, struct ipc_import **result)
{
	const struct ipc_offer *offer = claim->offer;
	struct ipc_key key = {offer->process, offer->id, offer->base, local->ctx, {0}};
	struct ipc_import *import;

	memcpy(key.handle, offer->handle, sizeof key.handle);
	import = TAILQ_LAST(&ipc->imported, ipc_imports);
	if (!import || memcmp(&import->key, &key, sizeof key))
		HASH_FIND(hh, ipc->imports, &key, sizeof key, import);
	if (!import)
		return ipc_import_new(ipc, claim, local, &key, result);
	if (import->size != offer->size) {
		P2P_WARN("memory of another process is offered in two sizes\n");
		return -FI_EOPNOTSUPP;
	}
	if (TAILQ_NEXT(import, used)) {
		TAILQ_REMOVE(&ipc->imported, import, used);
		TAILQ_INSERT_TAIL(&ipc->imported, import, used);
	}
	*result = import;
	return 0;
}

int ipc_open(struct ipc *ipc, const struct ipc_claim *claim, const struct dev_mem *local,
	     struct ipc_import **import, void **addr)
{
	const struct ipc_offer *offer = claim->offer;
	const struct ipc_own like = {.id = offer->id,
				     .addr = offer->base + offer->offset,
				     .len = claim->len};
	bool own = offer->process == ipc->process;
	int ret;

	if (own && !ipc_own_stands(claim->number, &like)) {
		P2P_WARN("a peer offers memory of this process, which has not offered it\n");
		return -FI_EOPNOTSUPP;
	}
	/* shared memory may be mapped for one device, and be opened for another */
	if (own && (!offer->shared || offer->device == (uint32_t) local->ordinal)) {
		*import = NULL;
		*addr = (void *) (uintptr_t) (offer->base + offer->offset);
		return 0;
	}
	ret = ipc_import_get(ipc, claim, local, import);
	if (ret)
		return ret;
	ipc_import_gone(ipc, *import, false);
	(*import)->users++;
	*addr = (char *) (*import)->addr + offer->offset;
	return 0;
}

void ipc_close(struct ipc *ipc, struct ipc_import *import)
{
	import->users--;
	import->used_at = ipc->used_at = clock_coarse_ms();
	/* somebody has to look when it was unused for long enough */
	if (import->shared)
		ipc->look.pace = (struct retry){.delay = 0};
}

void ipc_trim(struct ipc *ipc)
{
	struct ipc_import *import, *next;

	for (import = TAILQ_FIRST(&ipc->imported); import; import = next) {
		next = TAILQ_NEXT(import, used);
		if (!import->users)
			ipc_import_free(ipc, import);
	}
}

void ipc_fini(struct ipc *ipc)
{
	struct ipc_export *export;

	ipc_trim(ipc);
	if (ipc->look.number >= 0)
		close(ipc->look.number);
	for (unsigned int i = 0; i < IPC_FAILURES; i++) {
		if (ipc->failures[i].question >= 0)
			close(ipc->failures[i].question);
	}
	while ((export = TAILQ_FIRST(&ipc->exported)))
		ipc_export_free(ipc, export);
}
