/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What MPI_Reduce_local() does, for a thread that may not call MPI: below MPI_THREAD_MULTIPLE, Open MPI counts the users of
 * an operation without a lock, in each reduction.
 */
#ifndef P2P_MPI_CALCULATE_H
#define P2P_MPI_CALCULATE_H

#include <mpi.h>
#include <stddef.h>

/* In the order of window_op() */
enum calculation {
	CALCULATE_REPLACE,
	CALCULATE_NO_OP,
	CALCULATE_SUM,
	CALCULATE_PROD,
	CALCULATE_MAX,
	CALCULATE_MIN,
	CALCULATE_LAND,
	CALCULATE_LOR,
	CALCULATE_LXOR,
	CALCULATE_BAND,
	CALCULATE_BOR,
	CALCULATE_BXOR,
	CALCULATE_MAXLOC,
	CALCULATE_MINLOC
};

/* The number of a predefined type, the same in all processes. Negative: it has none */
int calculate_type(MPI_Datatype type);
/* How many bytes its elements have. 0: no type has that number */
size_t calculate_size(int type);

/*
 * @inout = @in and @inout, @count elements of the type of that number, at any addresses. What MPI does not define changes
 * nothing.
 */
void calculate(enum calculation calculation, int type, const void *in, void *inout,
	       size_t count);

#endif /* P2P_MPI_CALCULATE_H */
