/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Error handlers of the application. MPI calls them within a call; what they call themselves is no call from within MPI. They
 * may also leave by longjmp(), or by an exception of C++, and never return.
 *
 * So MPI has a function of ours in their place, which asks the object that has the error for its handler. A handler that has
 * been freed may live on in objects: it is kept until another one has its handle.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "call.h"

/* @function: whose arguments the handle's maker knows */
struct handler {
	SLIST_ENTRY(handler) entry;
	MPI_Errhandler handle;
	void (*function)(void);
};

static struct {
	pthread_mutex_t lock;
	SLIST_HEAD(, handler) handlers;
} handler_table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct handler *handler_find_locked(MPI_Errhandler handle)
{
	struct handler *handler;

	SLIST_FOREACH(handler, &handler_table.handlers, entry)
	{
		if (handler->handle == handle)
			break;
	}
	return handler;
}

/* The function of @handle, which MPI has returned with @ret, and gets back; or NULL */
static void *handler_function(int ret, MPI_Errhandler *handle)
{
	struct handler *handler;
	void *function;

	if (ret != MPI_SUCCESS)
		return NULL;
	pthread_mutex_lock(&handler_table.lock);
	handler = handler_find_locked(*handle);
	function = handler ? (void *) handler->function : NULL;
	pthread_mutex_unlock(&handler_table.lock);
	PMPI_Errhandler_free(handle);
	return function;
}

static int handler_add(MPI_Errhandler *handle, void (*function)(void))
{
	struct handler *handler;

	pthread_mutex_lock(&handler_table.lock);
	handler = handler_find_locked(*handle);
	if (!handler && (handler = calloc(1, sizeof *handler)))
		SLIST_INSERT_HEAD(&handler_table.handlers, handler, entry);
	if (handler) {
		handler->handle = *handle;
		handler->function = function;
	}
	pthread_mutex_unlock(&handler_table.lock);
	if (handler)
		return MPI_SUCCESS;
	PMPI_Errhandler_free(handle);
	return call_told(MPI_ERR_NO_MEM, "no memory for an error handler");
}

/* Of communicators, windows or files. Open MPI has two pointers more for handlers, a text and NULL, and others have less. */
#define HANDLER(kind)                                                                          \
	static void handler_##kind(MPI_##kind *object, int *code, ...)                         \
	{                                                                                      \
		MPI_Errhandler handle = MPI_ERRHANDLER_NULL;                                   \
		MPI_##kind##_errhandler_function *function =                                   \
			(MPI_##kind##_errhandler_function *)                                   \
				handler_function(PMPI_##kind##_get_errhandler(*object,         \
									      &handle),        \
						 &handle);                                     \
		void *text, *end;                                                              \
		bool within;                                                                   \
		va_list more;                                                                  \
                                                                                               \
		if (!function)                                                                 \
			return;                                                                \
		va_start(more, code);                                                          \
		text = va_arg(more, void *);                                                   \
		end = va_arg(more, void *);                                                    \
		va_end(more);                                                                  \
		within = call_suspend();                                                       \
		function(object, code, text, end);                                             \
		call_resume(within);                                                           \
	}                                                                                      \
                                                                                               \
	CALL_WRAPPER(kind##_create_errhandler,                                                 \
		     (MPI_##kind##_errhandler_function * function, MPI_Errhandler * handle))   \
	{                                                                                      \
		CALL_REAL(kind##_create_errhandler,                                            \
			  (MPI_##kind##_errhandler_function *, MPI_Errhandler *) );            \
		const bool ours = call_wants() && function;                                    \
		const int ret = real(ours ? handler_##kind : function, handle);                \
                                                                                               \
		return ours && ret == MPI_SUCCESS                                              \
			       ? handler_add(handle, (void (*)(void)) function)                \
			       : ret;                                                          \
	}

HANDLER(Comm)
HANDLER(Win)
HANDLER(File)
