/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What all wrappers do: open a call, replace buffers, close it. See call.h. */
#include "call.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "hidden.h"
#include "later.h"
#include "mem/mem.h"
#include "window.h"

/* ---- whether ---- */

/* The user has not switched it off, and the GPU gate is ready. */
static bool call_wanted;
/* See call_carried() */
static bool call_carries;
static pthread_once_t call_once = PTHREAD_ONCE_INIT;
/* This thread is within a call */
static __thread bool call_within __attribute__((tls_model("initial-exec")));

const char *call_providers(void)
{
	static const char *const names[] = {"OMPI_MCA_mtl_ofi_provider_include",
					    "OMPI_MCA_opal_common_ofi_provider_include"};
	const char *found = NULL;

	for (size_t i = 0; i < sizeof names / sizeof names[0] && !found; i++) {
		found = getenv(names[i]);
		if (found && (!*found || *found == '^'))
			found = NULL;
	}
	return found;
}

/* Are all of them ours? The hook is in none of the names, nor are we where we have another provider's (FI_P2P_AS). */
static bool call_names_ours(const char *names)
{
	const char *hook = getenv("FI_HOOK");

	if (!names || getenv("FI_P2P_AS") || (hook && strcasestr(hook, "p2p")))
		return true;
	while (*names) {
		const size_t len = strcspn(names, ",");
		const char *ours = strstr(names, "ofi_p2p");

		if (!ours || ours >= names + len)
			return false;
		names += len + (names[len] == ',');
	}
	return true;
}

static void call_init(void)
{
	static struct fi_provider log = {.name = "p2p_mpi"};

	if (!log_prov)
		log_prov = &log;
	conf_read();
	if (!conf.mpi)
		return;
	dev_init();
	call_carries = call_names_ours(call_providers());
	call_wanted = true;
}

bool call_wants(void)
{
	pthread_once(&call_once, call_init);
	return call_wanted;
}

bool call_carried(void)
{
	pthread_once(&call_once, call_init);
	return call_carries;
}

bool call_reports(void)
{
	return call_wants() && conf.mpi == CONF_MPI_REPORT;
}

/* MPI_Init() has been called, and sessions have been begun */
#define CALL_WORLD 1
#define CALL_SESSIONS 2
static int call_begun;

void call_session(void)
{
	__atomic_or_fetch(&call_begun, CALL_SESSIONS, __ATOMIC_RELAXED);
}

void call_end_world(void)
{
	__atomic_and_fetch(&call_begun, ~CALL_WORLD, __ATOMIC_RELAXED);
}

/* Before MPI begins, and when it has ended, MPI says which call is wrong there: so it must be the application's own. */
static bool call_runs(void)
{
	int begun = 0, ended = 0;

	if (__atomic_load_n(&call_begun, __ATOMIC_RELAXED))
		return true;
	PMPI_Initialized(&begun);
	PMPI_Finalized(&ended);
	if (begun && !ended)
		__atomic_or_fetch(&call_begun, CALL_WORLD, __ATOMIC_RELAXED);
	return begun && !ended;
}

bool call_enter(void)
{
	if (call_within || !call_runs())
		return false;
	call_within = true;
	return true;
}

void call_leave(void)
{
	call_within = false;
}

bool call_suspend(void)
{
	const bool within = call_within;

	call_within = false;
	return within;
}

void call_resume(bool within)
{
	call_within = within;
}

bool call_open(struct call *call, unsigned int number, struct call_reporter reporter)
{
	/* what MPI calls within is let through on all ranks, or on none */
	if (!call_wants() || !(dev_active() || hidden_any()) || !call_enter())
		return false;
	/* not all of it: clearing what nobody reads took a third of the time of a call without GPU buffers */
	call->number = number;
	call->reporter = reporter;
	call->gpu = call->in_place = call->sparable = false;
	call->count = 0;
	call->error = MPI_SUCCESS;
	call->why = NULL;
	call->flow = NULL;
	return true;
}

void *call_symbol(const char *name)
{
	void *symbol = dlsym(RTLD_NEXT, name);

	if (!symbol) {
		fprintf(stderr,
			"libp2p-mpi: no %s in this process: load this library before MPI's\n",
			name);
		abort();
	}
	return symbol;
}

/* ---- buffers ---- */

static const char call_no_type[] =
	"this is no datatype, or there is no memory to take it apart";

/* Takes @parts, of which @count are complete. */
static void call_parts(struct call *call, int access, void **buf, struct mirror_part *parts,
		       size_t count)
{
	struct mirror *mirror;
	const char *why = NULL;
	size_t bytes;
	const int ways = call_carries ? 0 : CALL_DIRECT | CALL_PARTS;
	int ret = mirror_make(&mirror, *buf, parts, count, access & ~ways, &bytes, &why);

	if (ret != MPI_SUCCESS)
		call_fail(call, ret, why);
	if (bytes) {
		report_count(call->number, !call->gpu,
			     mirror ? REPORT_BY_HOST : REPORT_AS_IT_IS, bytes);
		if (mirror && (call->sparable || access & CALL_DIRECT))
			report_count(call->number, false, REPORT_SPARABLE, bytes);
		call->gpu = true;
	}
	if (!mirror)
		return;
	mirror->reads = access & CALL_READ || call->in_place;
	mirror->writes = access & CALL_WRITE;
	call->mirrors[call->count++] = mirror;
	*buf = mirror->host;
}

/* Has the call this buffer at all? */
static bool call_has(struct call *call, void *const *buf)
{
	if (*buf == MPI_IN_PLACE)
		call->in_place = true;
	return *buf != MPI_IN_PLACE && call->error == MPI_SUCCESS && dev_active();
}

/* Where the parts of a buffer are: each array by itself, or NULL */
struct call_shape {
	size_t peers;
	const int *counts, *displs;
	const MPI_Count *long_counts;
	const MPI_Aint *long_displs;
	MPI_Datatype type;
	const MPI_Datatype *types;
};

static void call_shape(struct call *call, int access, void **buf, struct call_shape shape)
{
	struct mirror_part *parts;
	size_t count = 0;

	/* what is no list MPI says better */
	if (!call_has(call, buf) || !(shape.counts || shape.long_counts) ||
	    !(shape.displs || shape.long_displs))
		return;
	parts = calloc(shape.peers + 1, sizeof *parts);
	if (!parts)
		return call_fail(call, MPI_ERR_NO_MEM, "no memory for what it is about");
	for (size_t i = 0; i < shape.peers; i++) {
		struct mirror_part *part = &parts[count];
		const MPI_Count elements =
			shape.long_counts ? shape.long_counts[i] : shape.counts[i];

		/* types that nothing is of may be no types */
		if (elements <= 0)
			continue;
		part->layout = layout_get(shape.types ? shape.types[i] : shape.type);
		if (!part->layout) {
			call_fail(call, MPI_ERR_TYPE, call_no_type);
			break;
		}
		part->count = (size_t) elements;
		count++;
		part->at = shape.long_displs ? shape.long_displs[i] : shape.displs[i];
		if (!shape.types &&
		    __builtin_mul_overflow(part->at, part->layout->extent, &part->at)) {
			call_fail(call, MPI_ERR_COUNT, mirror_overflows);
			break;
		}
	}
	if (count)
		call_parts(call, access, buf, parts, count);
	else
		free(parts);
}

/* Most buffers are, and these need neither a question nor memory. */
static bool call_is_hosts(const char *buf, size_t count, const struct layout *layout)
{
	size_t len;

	return layout->count == 1 && layout_dense(layout) &&
	       !__builtin_mul_overflow(count, layout->size, &len) &&
	       (mem_in_heap(buf + layout->runs[0].at, len) ||
		mem_in_stack(buf + layout->runs[0].at, len));
}

void call_block(struct call *call, int access, void **buf, size_t count, MPI_Datatype type)
{
	struct mirror_part *part;
	struct layout *layout;

	/* what is no count MPI says better */
	if (!call_has(call, buf) || count == 0 || (ptrdiff_t) count < 0)
		return;
	layout = layout_get(type);
	if (!layout)
		return call_fail(call, MPI_ERR_TYPE, call_no_type);
	if (call_is_hosts(*buf, count, layout))
		return layout_put(layout);
	part = calloc(1, sizeof *part);
	if (part) {
		*part = (struct mirror_part){.count = count, .layout = layout};
		return call_parts(call, access, buf, part, 1);
	}
	layout_put(layout);
	call_fail(call, MPI_ERR_NO_MEM, "no memory for what it is about");
}

void call_vector(struct call *call, int access, void **buf, size_t peers, const int counts[],
		 const int displs[], MPI_Datatype type)
{
	call_shape(call, access, buf,
		   (struct call_shape){.peers = peers,
				       .counts = counts,
				       .displs = displs,
				       .type = type});
}

void call_vectors(struct call *call, int access, void **buf, size_t peers, const int counts[],
		  const int displs[], const MPI_Datatype types[])
{
	call_shape(call, access, buf,
		   (struct call_shape){.peers = peers,
				       .counts = counts,
				       .displs = displs,
				       .types = types});
}

void call_vectors_long(struct call *call, int access, void **buf, size_t peers,
		       const int counts[], const MPI_Aint displs[], const MPI_Datatype types[])
{
	call_shape(call, access, buf,
		   (struct call_shape){.peers = peers,
				       .counts = counts,
				       .long_displs = displs,
				       .types = types});
}

void call_vector_c(struct call *call, int access, void **buf, size_t peers,
		   const MPI_Count counts[], const MPI_Aint displs[], MPI_Datatype type)
{
	call_shape(call, access, buf,
		   (struct call_shape){.peers = peers,
				       .long_counts = counts,
				       .long_displs = displs,
				       .type = type});
}

void call_vectors_c(struct call *call, int access, void **buf, size_t peers,
		    const MPI_Count counts[], const MPI_Aint displs[],
		    const MPI_Datatype types[])
{
	call_shape(call, access, buf,
		   (struct call_shape){.peers = peers,
				       .long_counts = counts,
				       .long_displs = displs,
				       .types = types});
}

void call_blocks(struct call *call, int access, void **buf, size_t blocks, MPI_Count count,
		 MPI_Datatype type)
{
	struct mirror_part *parts;
	struct layout *layout;
	MPI_Aint len;

	if (!call_has(call, buf) || blocks == 0 || count <= 0)
		return;
	parts = calloc(blocks, sizeof *parts);
	layout = layout_get(type);
	if (!parts || !layout || __builtin_mul_overflow(layout->extent, count, &len) ||
	    __builtin_mul_overflow(len, blocks, &(MPI_Aint){0})) {
		call_fail(call, layout ? MPI_ERR_COUNT : MPI_ERR_TYPE,
			  layout ? mirror_overflows : call_no_type);
		layout_put(layout);
		free(parts);
		return;
	}
	for (size_t i = 0; i < blocks; i++)
		parts[i] = (struct mirror_part){(MPI_Aint) i * len, (size_t) count,
						layout_hold(layout)};
	layout_put(layout);
	call_parts(call, access, buf, parts, blocks);
}

void call_partitions(struct call *call, int access, void **buf, int partitions, MPI_Count count,
		     MPI_Datatype type)
{
	const int before = call->count;

	call_blocks(call, access, buf, partitions > 0 ? (size_t) partitions : 0, count, type);
	if (call->count > before && !mirror_divide(call->mirrors[before]))
		call_fail(call, MPI_ERR_NO_MEM, "no memory for what it is about");
}

/* ---- communicators ---- */

static bool call_between_groups(MPI_Comm comm)
{
	int between = 0;

	return PMPI_Comm_test_inter(comm, &between) == MPI_SUCCESS && between;
}

size_t call_own(MPI_Comm comm)
{
	int size = 0;

	return PMPI_Comm_size(comm, &size) == MPI_SUCCESS ? (size_t) size : 0;
}

size_t call_peers(MPI_Comm comm)
{
	int size = 0;

	if (!call_between_groups(comm))
		return call_own(comm);
	return PMPI_Comm_remote_size(comm, &size) == MPI_SUCCESS ? (size_t) size : 0;
}

size_t call_rank(MPI_Comm comm)
{
	int rank = 0;

	return PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS ? (size_t) rank : 0;
}

int call_direct(MPI_Comm comm, int peer)
{
#ifdef OMPI_MAJOR_VERSION
	(void) comm;
	(void) peer;
#else
	if (peer == MPI_ANY_SOURCE || peer == (int) call_rank(comm))
		return 0;
#endif
	return CALL_DIRECT;
}

size_t call_bytes(size_t count, MPI_Datatype type)
{
	size_t bytes;
	int size;

	return (ptrdiff_t) count > 0 && type != MPI_DATATYPE_NULL &&
			       PMPI_Type_size(type, &size) == MPI_SUCCESS && size > 0 &&
			       !__builtin_mul_overflow(count, (size_t) size, &bytes)
		       ? bytes
		       : 0;
}

/* Two ranks have one message, which is copied once either way. */
int call_direct_all(MPI_Comm comm, size_t count, MPI_Datatype type)
{
	const size_t bytes = call_own(comm) > 2 ? call_bytes(count, type) : 0;

	return bytes && bytes <= hidden_tree(comm) ? 0 : CALL_DIRECT;
}

int call_role(MPI_Comm comm, int root)
{
	if (call_between_groups(comm))
		return root == MPI_ROOT        ? ROLE_ROOT
		       : root == MPI_PROC_NULL ? 0
					       : ROLE_OTHER | ROLE_MEMBER;
	return ROLE_MEMBER | ((int) call_rank(comm) == root ? ROLE_ROOT : ROLE_OTHER);
}

size_t call_neighbors(MPI_Comm comm, bool in)
{
	int kind = MPI_UNDEFINED, into = 0, out = 0, weighted;

	if (PMPI_Topo_test(comm, &kind) != MPI_SUCCESS)
		return 0;
	if (kind == MPI_CART && PMPI_Cartdim_get(comm, &into) == MPI_SUCCESS)
		into = out = 2 * into;
	else if (kind == MPI_GRAPH &&
		 PMPI_Graph_neighbors_count(comm, (int) call_rank(comm), &into) == MPI_SUCCESS)
		out = into;
	else if (kind == MPI_DIST_GRAPH)
		PMPI_Dist_graph_neighbors_count(comm, &into, &out, &weighted);
	return (size_t) (in ? into : out);
}

size_t call_sum(const int counts[], size_t count)
{
	size_t sum = 0;

	for (size_t i = 0; counts && i < count; i++)
		sum += counts[i] > 0 ? (size_t) counts[i] : 0;
	return sum;
}

size_t call_sum_c(const MPI_Count counts[], size_t count)
{
	size_t sum = 0;

	for (size_t i = 0; counts && i < count; i++) {
		if (__builtin_add_overflow(sum, counts[i] > 0 ? (size_t) counts[i] : 0, &sum))
			return PTRDIFF_MAX;
	}
	return sum < PTRDIFF_MAX ? sum : PTRDIFF_MAX;
}

size_t call_times(size_t ranks, MPI_Count count)
{
	size_t all = (size_t) count;

	if (count > 0 && (__builtin_mul_overflow(ranks, all, &all) || all > PTRDIFF_MAX))
		return PTRDIFF_MAX;
	return all;
}

/* ---- errors ---- */

void call_fail(struct call *call, int error, const char *why)
{
	if (call->error == MPI_SUCCESS) {
		call->error = error;
		call->why = why;
	}
}

bool call_check(struct call *call, int ret)
{
	int class = MPI_ERR_OTHER;

	if (ret == MPI_SUCCESS)
		return false;
	PMPI_Error_class(ret, &class);
	call_fail(call, class, "a message of a collective call has failed");
	return true;
}

/* An error code of the class, with our text and the call's @name or NULL; the class itself if MPI has no more codes */
static int call_code(int error, const char *name, const char *why)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct {
		int error, code;
		const char *name, *why;
	} known[64];
	char text[MPI_MAX_ERROR_STRING];
	int code = error;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		if (known[i].why == why && known[i].name == name && known[i].error == error) {
			code = known[i].code;
			break;
		}
		if (known[i].why)
			continue;
		snprintf(text, sizeof text, "libp2p-mpi: %s%s%s%s", name ? "MPI_" : "",
			 name ? name : "", name ? ": " : "", why);
		if (PMPI_Add_error_code(error, &code) == MPI_SUCCESS) {
			PMPI_Add_error_string(code, text);
			known[i].error = error;
			known[i].code = code;
			known[i].name = name;
			known[i].why = why;
		}
		break;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

/* @name: the call's, or NULL */
static int call_report_as(const struct call_reporter *reporter, const char *name, int error,
			  const char *why)
{
	const int code = call_code(error, name, why);

	if (reporter->comm != MPI_COMM_NULL)
		PMPI_Comm_call_errhandler(reporter->comm, code);
	else if (reporter->win != MPI_WIN_NULL)
		PMPI_Win_call_errhandler(reporter->win, code);
	else
		PMPI_File_call_errhandler(reporter->file, code);
	return code;
}

int call_report(const struct call_reporter *reporter, int error, const char *why)
{
	return call_report_as(reporter, NULL, error, why);
}

int call_failed(const struct call *call, int error, const char *why)
{
	return call_report_as(&call->reporter, report_names[call->number], error, why);
}

int call_told(int ret, const char *why)
{
	return why ? call_report(&CALL_COMM(MPI_COMM_WORLD), ret, why) : ret;
}

int call_error(struct call *call)
{
	return call->error == MPI_SUCCESS ? MPI_SUCCESS
					  : call_failed(call, call->error, call->why);
}

int call_ready(struct call *call)
{
	for (int i = 0; i < call->count && call->error == MPI_SUCCESS; i++) {
		const char *why = NULL;
		int ret = mirror_fill(call->mirrors[i], &why);

		if (ret != MPI_SUCCESS)
			call_fail(call, ret, why);
	}
	return call_error(call);
}

/* ---- ends ---- */

static int call_end(struct call *call, int ret)
{
	for (int i = 0; i < call->count; i++)
		mirror_free(call->mirrors[i]);
	call_leave();
	return ret;
}

static int call_forgotten(struct call *call)
{
	/* MPI may go on with the mirrors, so they stay */
	call->count = 0;
	return call_failed(call, MPI_ERR_NO_MEM,
			   "no memory for what is left to do: the data is lost");
}

int call_close(struct call *call, int ret)
{
	for (int i = 0; i < call->count && ret == MPI_SUCCESS; i++) {
		const char *why = NULL;

		ret = mirror_drain(call->mirrors[i], &why);
		if (ret != MPI_SUCCESS)
			ret = call_failed(call, ret, why);
	}
	return call_end(call, ret);
}

int call_keep(struct call *call, int ret, const MPI_Request *request)
{
	int done = 0;

	if (ret != MPI_SUCCESS || (call->count == 0 && !call->flow))
		return call_end(call, ret);
	/* MPI may give the same handle to all that are done at once */
	if (!call->flow &&
	    PMPI_Request_get_status(*request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done)
		return call_close(call, ret);
	if (!later_request(call, *request, false))
		ret = call_forgotten(call);
	return call_end(call, ret);
}

int call_persist(struct call *call, int ret, const MPI_Request *request)
{
	if (ret == MPI_SUCCESS && call->count && !later_request(call, *request, true))
		ret = call_forgotten(call);
	return call_end(call, ret);
}

int call_window(struct call *call, int ret, MPI_Win win, int target)
{
	bool writes = false;

	for (int i = 0; i < call->count; i++)
		writes |= call->mirrors[i]->writes;
	/* what it reads, a window of ours has read */
	if (ret == MPI_SUCCESS && call->count && (writes || !window_find(win)) &&
	    !later_window(call, win, target))
		ret = call_forgotten(call);
	return call_end(call, ret);
}

int call_split(struct call *call, int ret, MPI_File file)
{
	if (ret == MPI_SUCCESS && call->count && !later_file(call, file))
		ret = call_forgotten(call);
	return call_end(call, ret);
}

int call_attach(struct call *call, int ret, uintptr_t owner)
{
	if (ret == MPI_SUCCESS && call->count && !later_attached(call, owner))
		ret = call_forgotten(call);
	return call_end(call, ret);
}

int call_split_end(MPI_File file, int ret)
{
	const char *why = NULL;
	int end = later_any() ? later_file_ended(file, ret, &why) : ret;

	return why ? call_report(&CALL_FILE(file), end, why) : end;
}
