/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The calls that begin requests again and end them, and that synchronise windows. MPI ends requests; then what they have
 * brought is copied to the GPU (later.h). As long as nothing waits for that they cost one load.
 */
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "later.h"

/* Defines MPI_@name and PMPI_@name, and says MPI's own @real */
#define WRAPPER(name, declared)                                                                \
	CALL_PUBLIC int MPI_##name declared __attribute__((alias("PMPI_" #name)));             \
	CALL_PUBLIC int PMPI_##name declared

#define REAL(name, declared)                                                                   \
	static int(*real) declared;                                                            \
                                                                                               \
	if (!real)                                                                             \
	*(void **) &real = call_symbol("PMPI_" #name)

/* Is there something to do beside MPI's own? complete_end() follows if there is. */
static bool complete_begin(void)
{
	if (!later_any() || !call_enter())
		return false;
	later_poll(false);
	return true;
}

static int complete_end(int ret, const char *why)
{
	ret = call_told(ret, why);
	call_leave();
	return ret;
}

/* ---- one ---- */

WRAPPER(Wait, (MPI_Request * request, MPI_Status *status))
{
	REAL(Wait, (MPI_Request *, MPI_Status *) );
	const MPI_Request handle = *request;
	const char *why = NULL;
	int ret;

	if (!complete_begin())
		return real(request, status);
	ret = real(request, status);
	return complete_end(later_ended(handle, ret, &why), why);
}

WRAPPER(Test, (MPI_Request * request, int *flag, MPI_Status *status))
{
	REAL(Test, (MPI_Request *, int *, MPI_Status *) );
	const MPI_Request handle = *request;
	const char *why = NULL;
	int ret;

	if (!complete_begin())
		return real(request, flag, status);
	ret = real(request, flag, status);
	if (*flag || ret != MPI_SUCCESS)
		ret = later_ended(handle, ret, &why);
	return complete_end(ret, why);
}

WRAPPER(Request_get_status, (MPI_Request request, int *flag, MPI_Status *status))
{
	REAL(Request_get_status, (MPI_Request, int *, MPI_Status *) );
	const char *why = NULL;
	int ret;

	if (!complete_begin())
		return real(request, flag, status);
	ret = real(request, flag, status);
	if (ret == MPI_SUCCESS && *flag)
		ret = later_seen(request, &why);
	return complete_end(ret, why);
}

WRAPPER(Request_free, (MPI_Request * request))
{
	REAL(Request_free, (MPI_Request *) );
	int ret = MPI_SUCCESS;

	if (!complete_begin())
		return real(request);
	if (later_give_up(*request))
		ret = real(request);
	else
		*request = MPI_REQUEST_NULL;
	return complete_end(ret, NULL);
}

WRAPPER(Start, (MPI_Request * request))
{
	REAL(Start, (MPI_Request *) );
	const char *why = NULL;
	int ret;

	if (!complete_begin())
		return real(request);
	ret = later_start(*request, &why);
	if (ret == MPI_SUCCESS)
		ret = real(request);
	return complete_end(ret, why);
}

/* ---- several ---- */

/* A copy of the handles, which MPI clears. NULL: there is no memory, and the call has not begun. */
static MPI_Request *complete_handles(int count, const MPI_Request requests[])
{
	MPI_Request *handles = malloc(((size_t) count + 1) * sizeof *handles);

	if (handles)
		memcpy(handles, requests, (size_t) count * sizeof *handles);
	return handles;
}

static int complete_no_memory(void)
{
	return complete_end(MPI_ERR_NO_MEM, "no memory for the list of requests");
}

WRAPPER(Startall, (int count, MPI_Request requests[]))
{
	REAL(Startall, (int, MPI_Request[]));
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

WRAPPER(Waitany, (int count, MPI_Request requests[], int *index, MPI_Status *status))
{
	REAL(Waitany, (int, MPI_Request[], int *, MPI_Status *) );
	const char *why = NULL;
	MPI_Request *handles;
	int ret;

	if (!complete_begin())
		return real(count, requests, index, status);
	handles = complete_handles(count, requests);
	if (!handles)
		return complete_no_memory();
	ret = real(count, requests, index, status);
	if (*index != MPI_UNDEFINED)
		ret = later_ended(handles[*index], ret, &why);
	free(handles);
	return complete_end(ret, why);
}

WRAPPER(Testany, (int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status))
{
	REAL(Testany, (int, MPI_Request[], int *, int *, MPI_Status *) );
	const char *why = NULL;
	MPI_Request *handles;
	int ret;

	if (!complete_begin())
		return real(count, requests, index, flag, status);
	handles = complete_handles(count, requests);
	if (!handles)
		return complete_no_memory();
	ret = real(count, requests, index, flag, status);
	if (*flag && *index != MPI_UNDEFINED)
		ret = later_ended(handles[*index], ret, &why);
	free(handles);
	return complete_end(ret, why);
}

/* All of @count have ended, or those that @indices names. Returns @ret, or the first error of a copy */
static int complete_each(const MPI_Request handles[], const int indices[], int count,
			 const MPI_Status statuses[], int ret, const char **why)
{
	int first = ret;

	for (int i = 0; i < count; i++) {
		const MPI_Request handle = handles[indices ? indices[i] : i];
		const char *told = NULL;
		int error = ret == MPI_ERR_IN_STATUS ? statuses[i].MPI_ERROR : ret;

		/* it is still under way */
		if (error == MPI_ERR_PENDING || handle == MPI_REQUEST_NULL)
			continue;
		error = later_ended(handle, error, &told);
		if (told && !*why) {
			*why = told;
			first = error;
		}
	}
	return first;
}

/* Statuses that tell which request has failed, in the place of none */
static MPI_Status *complete_statuses(int count, MPI_Status statuses[], MPI_Status **own)
{
	*own = NULL;
	if (statuses == MPI_STATUSES_IGNORE)
		statuses = *own = calloc((size_t) count + 1, sizeof **own);
	return statuses;
}

WRAPPER(Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]))
{
	REAL(Waitall, (int, MPI_Request[], MPI_Status[]));
	const char *why = NULL;
	MPI_Request *handles;
	MPI_Status *own;
	int ret;

	if (!complete_begin())
		return real(count, requests, statuses);
	handles = complete_handles(count, requests);
	statuses = complete_statuses(count, statuses, &own);
	if (!handles || !statuses) {
		free(handles);
		free(own);
		return complete_no_memory();
	}
	ret = real(count, requests, statuses);
	ret = complete_each(handles, NULL, count, statuses, ret, &why);
	free(handles);
	free(own);
	return complete_end(ret, why);
}

WRAPPER(Testall, (int count, MPI_Request requests[], int *flag, MPI_Status statuses[]))
{
	REAL(Testall, (int, MPI_Request[], int *, MPI_Status[]));
	const char *why = NULL;
	MPI_Request *handles;
	MPI_Status *own;
	int ret;

	if (!complete_begin())
		return real(count, requests, flag, statuses);
	handles = complete_handles(count, requests);
	statuses = complete_statuses(count, statuses, &own);
	if (!handles || !statuses) {
		free(handles);
		free(own);
		return complete_no_memory();
	}
	ret = real(count, requests, flag, statuses);
	if (*flag || ret != MPI_SUCCESS)
		ret = complete_each(handles, NULL, count, statuses, ret, &why);
	free(handles);
	free(own);
	return complete_end(ret, why);
}

/* Both have the same arguments, and the same rules */
static int complete_some(int (*real)(int, MPI_Request[], int *, int[], MPI_Status[]), int count,
			 MPI_Request requests[], int *ended, int indices[],
			 MPI_Status statuses[])
{
	const char *why = NULL;
	MPI_Request *handles = complete_handles(count, requests);
	MPI_Status *own;
	int ret;

	statuses = complete_statuses(count, statuses, &own);
	if (!handles || !statuses) {
		free(handles);
		free(own);
		return complete_no_memory();
	}
	ret = real(count, requests, ended, indices, statuses);
	if (*ended != MPI_UNDEFINED)
		ret = complete_each(handles, indices, *ended, statuses, ret, &why);
	free(handles);
	free(own);
	return complete_end(ret, why);
}

WRAPPER(Waitsome,
	(int count, MPI_Request requests[], int *ended, int indices[], MPI_Status statuses[]))
{
	REAL(Waitsome, (int, MPI_Request[], int *, int[], MPI_Status[]));

	if (!complete_begin())
		return real(count, requests, ended, indices, statuses);
	return complete_some(real, count, requests, ended, indices, statuses);
}

WRAPPER(Testsome,
	(int count, MPI_Request requests[], int *ended, int indices[], MPI_Status statuses[]))
{
	REAL(Testsome, (int, MPI_Request[], int *, int[], MPI_Status[]));

	if (!complete_begin())
		return real(count, requests, ended, indices, statuses);
	return complete_some(real, count, requests, ended, indices, statuses);
}

/* ---- windows ---- */

/* A call that ends what was begun with @target: argument by argument, so that each has the prototype of mpi.h */
#define WINDOW(name, declared, types, win, target, ...)                                        \
	WRAPPER(name, declared)                                                                \
	{                                                                                      \
		REAL(name, types);                                                             \
		const char *why = NULL;                                                        \
		int ret;                                                                       \
                                                                                               \
		if (!complete_begin())                                                         \
			return real(__VA_ARGS__);                                              \
		const MPI_Win handle = win;                                                    \
		ret = real(__VA_ARGS__);                                                       \
		return complete_end(later_window_ended(handle, target, ret, &why), why);       \
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

/* ---- the end ---- */

WRAPPER(Finalize, (void) )
{
	REAL(Finalize, (void) );

	if (later_any() && call_enter()) {
		later_poll(true);
		call_leave();
	}
	return real();
}
