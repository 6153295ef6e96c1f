/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The calls that begin requests again and end them, that synchronise windows, and that detach a buffer. MPI ends requests, but
 * those of messages together (parts.h) end here. Then what they have brought is copied to the GPU (later.h). As long as nothing
 * waits for that they cost one load.
 */
#include "base/conf.h"
#include "call.h"
#include "enqueue.h"
#include "hidden.h"
#include "later.h"
#include "report.h"
#include "service.h"
#include "window.h"

/* As CALL_WRAPPER, for the linker alone: of some calls, some mpi.h declare a list as constant, and others do not. */
#define LINKED(name, declared)                                                                 \
	CALL_PUBLIC int complete_P##name declared __asm__("PMPI_" #name);                      \
	CALL_PUBLIC int complete_##name declared __asm__("MPI_" #name)                         \
		__attribute__((alias("PMPI_" #name)));                                         \
	CALL_PUBLIC int complete_P##name declared

/* Is there something to do beside MPI's own? complete_end() follows if there is. */
static bool complete_begin(void)
{
	return later_any() && call_enter();
}

static int complete_end(int ret, const char *why)
{
	ret = call_told(ret, why);
	later_poll(false);
	call_leave();
	return ret;
}

/* ---- calls that end requests ---- */

/* MPI does not see messages end that are of one request together: so these look, again and again. */
static int complete_any(const struct later_list *taken, int count, MPI_Request requests[],
			int *index, MPI_Status *status)
{
	int ret, done = 0;

	do {
		later_messages(taken, false);
		ret = PMPI_Testany(count, requests, index, &done, status);
	} while (ret == MPI_SUCCESS && !done);
	return ret;
}

static int complete_some(const struct later_list *taken, int count, MPI_Request requests[],
			 int *ended, int indices[], MPI_Status statuses[])
{
	int ret;

	do {
		later_messages(taken, false);
		ret = PMPI_Testsome(count, requests, ended, indices, statuses);
	} while (ret == MPI_SUCCESS && *ended == 0);
	return ret;
}

/*
 * One that may end some of @count requests: argument by argument, so that each has the prototype of mpi.h. @wait: all of them;
 * @does: what is done while some of their messages go on; @ends: which ones it has ended, if it has succeeded
 */
#define COMPLETE(name, declared, types, count, requests, wait, does, ends, ...)                \
	CALL_WRAPPER(name, declared)                                                           \
	{                                                                                      \
		CALL_REAL(name, types);                                                        \
		struct later_list taken;                                                       \
		struct later_ends told;                                                        \
		const char *why = NULL;                                                        \
		int ret;                                                                       \
                                                                                               \
		if (!complete_begin())                                                         \
			return real(__VA_ARGS__);                                              \
		later_take(&taken, count, requests);                                           \
		ret = later_messages(&taken, wait) ? real(__VA_ARGS__)                         \
						   : does(&taken, __VA_ARGS__);                \
		told = ret == MPI_SUCCESS ? (struct later_ends) ends                           \
					  : (struct later_ends){.ret = ret};                   \
		ret = later_give_back(&taken, requests, &told, &why);                          \
		ret = later_parts_ended(count, requests, ret, &told, &why);                    \
		return complete_end(ret, why);                                                 \
	}
#define ALL(ended)                                                                             \
	{                                                                                      \
		.all = (ended)                                                                 \
	}
#define THESE(number, list)                                                                    \
	{                                                                                      \
		.count = (number), .indices = (list)                                           \
	}
/* As it is */
#define REAL(taken, ...) real(__VA_ARGS__)

COMPLETE(Wait, (MPI_Request * request, MPI_Status *status), (MPI_Request *, MPI_Status *), 1,
	 request, true, REAL, ALL(true), request, status)
COMPLETE(Test, (MPI_Request * request, int *flag, MPI_Status *status),
	 (MPI_Request *, int *, MPI_Status *), 1, request, false, REAL, ALL(*flag), request,
	 flag, status)
COMPLETE(Waitany, (int count, MPI_Request requests[], int *index, MPI_Status *status),
	 (int, MPI_Request[], int *, MPI_Status *), count, requests, false, complete_any,
	 THESE(*index != MPI_UNDEFINED, index), count, requests, index, status)
COMPLETE(Testany,
	 (int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status),
	 (int, MPI_Request[], int *, int *, MPI_Status *), count, requests, false, REAL,
	 THESE(*index != MPI_UNDEFINED, index), count, requests, index, flag, status)
COMPLETE(Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]),
	 (int, MPI_Request[], MPI_Status[]), count, requests, true, REAL, ALL(true), count,
	 requests, statuses)
COMPLETE(Testall, (int count, MPI_Request requests[], int *flag, MPI_Status statuses[]),
	 (int, MPI_Request[], int *, MPI_Status[]), count, requests, false, REAL, ALL(*flag),
	 count, requests, flag, statuses)
COMPLETE(Waitsome,
	 (int count, MPI_Request requests[], int *ended, int indices[], MPI_Status statuses[]),
	 (int, MPI_Request[], int *, int[], MPI_Status[]), count, requests, false,
	 complete_some, THESE(*ended == MPI_UNDEFINED ? 0 : *ended, indices), count, requests,
	 ended, indices, statuses)
COMPLETE(Testsome,
	 (int count, MPI_Request requests[], int *ended, int indices[], MPI_Status statuses[]),
	 (int, MPI_Request[], int *, int[], MPI_Status[]), count, requests, false, REAL,
	 THESE(*ended == MPI_UNDEFINED ? 0 : *ended, indices), count, requests, ended, indices,
	 statuses)

CALL_WRAPPER(Request_get_status, (MPI_Request request, int *flag, MPI_Status *status))
{
	CALL_REAL(Request_get_status, (MPI_Request, int *, MPI_Status *) );
	const char *why = NULL;
	int ret;

	if (!complete_begin())
		return real(request, flag, status);
	later_look(1, &request);
	ret = real(request, flag, status);
	if (ret == MPI_SUCCESS && *flag)
		ret = later_seen(request, &why);
	return complete_end(ret, why);
}

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
/* What such a call does: @number requests have ended, the i-th of which is @request */
#define SEEN(name, types, number, request, ...)                                                \
	CALL_REAL(name, types);                                                                \
	const char *why = NULL;                                                                \
	int ret;                                                                               \
                                                                                               \
	if (!complete_begin())                                                                 \
		return real(__VA_ARGS__);                                                      \
	later_look(count, requests);                                                           \
	ret = real(__VA_ARGS__);                                                               \
	for (int i = 0, all = ret == MPI_SUCCESS ? (number) : 0; i < all && !ret; i++)         \
		ret = later_seen(request, &why);                                               \
	return complete_end(ret, why)

LINKED(Request_get_status_all,
       (int count, const MPI_Request requests[], int *flag, MPI_Status statuses[]))
{
	SEEN(Request_get_status_all, (int, const MPI_Request[], int *, MPI_Status[]),
	     *flag ? count : 0, requests[i], count, requests, flag, statuses);
}

LINKED(Request_get_status_any,
       (int count, const MPI_Request requests[], int *index, int *flag, MPI_Status *status))
{
	SEEN(Request_get_status_any, (int, const MPI_Request[], int *, int *, MPI_Status *),
	     *flag && *index != MPI_UNDEFINED, requests[*index], count, requests, index, flag,
	     status);
}

LINKED(Request_get_status_some, (int count, const MPI_Request requests[], int *ended,
				 int indices[], MPI_Status statuses[]))
{
	SEEN(Request_get_status_some, (int, const MPI_Request[], int *, int[], MPI_Status[]),
	     *ended == MPI_UNDEFINED ? 0 : *ended, requests[indices[i]], count, requests, ended,
	     indices, statuses);
}
#endif

CALL_WRAPPER(Request_free, (MPI_Request * request))
{
	CALL_REAL(Request_free, (MPI_Request *) );
	int ret = MPI_SUCCESS;

	if (!complete_begin())
		return real(request);
	if (later_give_up(*request))
		ret = real(request);
	else
		*request = MPI_REQUEST_NULL;
	return complete_end(ret, NULL);
}

/* ---- calls that begin them again ---- */

CALL_WRAPPER(Start, (MPI_Request * request))
{
	CALL_REAL(Start, (MPI_Request *) );
	const char *why = NULL;
	int ret;

	if (!complete_begin())
		return real(request);
	ret = later_start(*request, &why);
	if (ret == MPI_SUCCESS)
		ret = real(request);
	return complete_end(ret, why);
}

CALL_WRAPPER(Startall, (int count, MPI_Request requests[]))
{
	CALL_REAL(Startall, (int, MPI_Request[]));
	const char *why = NULL;
	int ret = MPI_SUCCESS;

	if (!complete_begin())
		return real(count, requests);
	for (int i = 0; i < count && ret == MPI_SUCCESS; i++)
		ret = later_start(requests[i], &why);
	if (ret == MPI_SUCCESS)
		ret = real(count, requests);
	return complete_end(ret, why);
}

/* ---- parts of requests ---- */

#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
/* What a call does that says of some parts that they are ready: from @first on to before @end, @part being the i-th one */
#define READY(name, types, request, first, end, part, ...)                                     \
	CALL_REAL(name, types);                                                                \
	const char *why = NULL;                                                                \
	int ret = MPI_SUCCESS;                                                                 \
                                                                                               \
	if (!complete_begin())                                                                 \
		return real(__VA_ARGS__);                                                      \
	for (int i = first; i < (end) && ret == MPI_SUCCESS; i++)                              \
		ret = later_part(request, part, &why);                                         \
	if (ret == MPI_SUCCESS)                                                                \
		ret = real(__VA_ARGS__);                                                       \
	return complete_end(ret, why)

CALL_WRAPPER(Pready, (int part, MPI_Request request))
{
	READY(Pready, (int, MPI_Request), request, part, part + 1, i, part, request);
}

CALL_WRAPPER(Pready_range, (int low, int high, MPI_Request request))
{
	READY(Pready_range, (int, int, MPI_Request), request, low, high + 1, i, low, high,
	      request);
}

LINKED(Pready_list, (int count, const int parts[], MPI_Request request))
{
	READY(Pready_list, (int, const int[], MPI_Request), request, 0, count, parts[i], count,
	      parts, request);
}

/* Open MPI 5.0 says so of parts that have not arrived, in host memory, too: there the end copies all of them. */
#ifndef OPEN_MPI
CALL_WRAPPER(Parrived, (MPI_Request request, int part, int *flag))
{
	CALL_REAL(Parrived, (MPI_Request, int, int *) );
	const char *why = NULL;
	int ret;

	if (!complete_begin())
		return real(request, part, flag);
	ret = real(request, part, flag);
	if (ret == MPI_SUCCESS && *flag)
		ret = later_part(request, part, &why);
	return complete_end(ret, why);
}
#endif
#endif

/* ---- windows ---- */

/*
 * A call that ends what was begun with @target: argument by argument, so that each has the prototype of mpi.h. It is not within
 * the library: MPI_Win_free calls functions of the application's, which may call MPI, on all ranks alike.
 */
#define WINDOW(name, declared, types, win, target, ...)                                        \
	CALL_WRAPPER(name, declared)                                                           \
	{                                                                                      \
		CALL_REAL(name, types);                                                        \
		int(*const does) types = window_find(win) ? window_##name : real;              \
		const MPI_Win handle = win;                                                    \
		const uint64_t until = later_any() ? later_number() : 0;                       \
		const char *why = NULL;                                                        \
		int ret = does(__VA_ARGS__);                                                   \
                                                                                               \
		if (!complete_begin())                                                         \
			return ret;                                                            \
		ret = later_window_ended(handle, target, until, ret, &why);                    \
		return complete_end(ret, why);                                                 \
	}

WINDOW(Win_fence, (int assert, MPI_Win win), (int, MPI_Win), win, LATER_ALL, assert, win)
WINDOW(Win_complete, (MPI_Win win), (MPI_Win), win, LATER_ALL, win)
WINDOW(Win_unlock, (int rank, MPI_Win win), (int, MPI_Win), win, rank, rank, win)
WINDOW(Win_unlock_all, (MPI_Win win), (MPI_Win), win, LATER_ALL, win)
WINDOW(Win_flush, (int rank, MPI_Win win), (int, MPI_Win), win, rank, rank, win)
WINDOW(Win_flush_all, (MPI_Win win), (MPI_Win), win, LATER_ALL, win)
WINDOW(Win_flush_local, (int rank, MPI_Win win), (int, MPI_Win), win, rank, rank, win)
WINDOW(Win_flush_local_all, (MPI_Win win), (MPI_Win), win, LATER_ALL, win)
WINDOW(Win_free, (MPI_Win * win), (MPI_Win *), *win, LATER_ALL, win)

/* ---- the buffer of MPI_Bsend ---- */

/* One for all, or one of a communicator or a session, which is @owner */
#define DETACH(name, declared, types, owner, ...)                                              \
	CALL_WRAPPER(name, declared)                                                           \
	{                                                                                      \
		CALL_REAL(name, types);                                                        \
		void *attached;                                                                \
		int ret;                                                                       \
                                                                                               \
		if (!complete_begin())                                                         \
			return real(__VA_ARGS__);                                              \
		ret = real(__VA_ARGS__);                                                       \
		attached = ret == MPI_SUCCESS ? later_detached((uintptr_t) (owner)) : NULL;    \
		if (attached)                                                                  \
			*(void **) buf = attached;                                             \
		return complete_end(ret, NULL);                                                \
	}

DETACH(Buffer_detach, (void *buf, int *size), (void *, int *), 0, buf, size)
#if MPI_VERSION >= 4
DETACH(Buffer_detach_c, (void *buf, MPI_Count *size), (void *, MPI_Count *), 0, buf, size)
#endif
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
DETACH(Comm_detach_buffer, (MPI_Comm comm, void *buf, int *size), (MPI_Comm, void *, int *),
       comm, comm, buf, size)
DETACH(Comm_detach_buffer_c, (MPI_Comm comm, void *buf, MPI_Count *size),
       (MPI_Comm, void *, MPI_Count *), comm, comm, buf, size)
DETACH(Session_detach_buffer, (MPI_Session session, void *buf, int *size),
       (MPI_Session, void *, int *), session, session, buf, size)
DETACH(Session_detach_buffer_c, (MPI_Session session, void *buf, MPI_Count *size),
       (MPI_Session, void *, MPI_Count *), session, session, buf, size)
#endif

/* ---- the answer to programs that ask, and the end ---- */

/* Programs that ask take the other way if the answer is no. Open MPI declares some in mpi-ext.h, and MPICH others in mpi.h. */
#define ANSWER(name, wanted)                                                                   \
	CALL_PUBLIC int MPIX_Query_##name(void);                                               \
	CALL_PUBLIC int MPIX_Query_##name(void)                                                \
	{                                                                                      \
		return call_wants() && conf.wanted;                                            \
	}

ANSWER(cuda_support, cuda)
ANSWER(rocm_support, rocm)
ANSWER(hip_support, rocm)

#ifdef MPIX_GPU_SUPPORT_CUDA
CALL_PUBLIC int MPIX_GPU_query_support(int kind, int *supported)
{
	static int (*real)(int, int *);

	if (!real)
		*(void **) &real = call_symbol("PMPIX_GPU_query_support");
	if (kind != MPIX_GPU_SUPPORT_CUDA && kind != MPIX_GPU_SUPPORT_HIP)
		return real(kind, supported);
	*supported = kind == MPIX_GPU_SUPPORT_CUDA ? MPIX_Query_cuda_support()
						   : MPIX_Query_hip_support();
	return MPI_SUCCESS;
}
#endif

CALL_WRAPPER(Finalize, (void) )
{
	CALL_REAL(Finalize, (void) );
	int ret;

	enqueue_end();
	if (call_enter()) {
		later_poll(true);
		report_print();
		hidden_end();
		service_stop();
		call_leave();
	}
	ret = real();
	call_end_world();
	return ret;
}
