/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Hidden communicators, and the calls that make communicators. See hidden.h. */
#include "hidden.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"

/* What a rank says before one is made */
#define HIDDEN_GPU 1    /* this machine has a GPU's runtime */
#define HIDDEN_REFUSE 2 /* not with me */
#define HIDDEN_FAR 4    /* some may not copy from GPU to GPU */
#define HIDDEN_STAGED 8 /* this MPI may not be given GPU memory */

/* Communicators keep theirs as attributes. */
static int hidden_key = MPI_KEYVAL_INVALID;
static int hidden_count;
static bool hidden_part;

bool hidden_any(void)
{
	return hidden_key != MPI_KEYVAL_INVALID &&
	       __atomic_load_n(&hidden_count, __ATOMIC_RELAXED) != 0;
}

bool hidden_partly(void)
{
	return hidden_part;
}

/* What an attribute is. @near: all ranks are on one host, and may copy from GPU to GPU there */
struct hidden {
	MPI_Comm comm;
	bool near;
};

static struct hidden *hidden_find(MPI_Comm comm)
{
	struct hidden *hidden;
	int found = 0;

	if (hidden_key == MPI_KEYVAL_INVALID ||
	    PMPI_Comm_get_attr(comm, hidden_key, (void *) &hidden, &found) != MPI_SUCCESS ||
	    !found)
		return NULL;
	return hidden;
}

MPI_Comm hidden_of(MPI_Comm comm)
{
	const struct hidden *hidden = hidden_find(comm);

	return hidden ? hidden->comm : MPI_COMM_NULL;
}

bool hidden_far(MPI_Comm comm)
{
	const struct hidden *hidden = hidden_find(comm);

	return hidden && !hidden->near;
}

size_t hidden_piece(MPI_Comm comm)
{
	return hidden_far(comm) ? HIDDEN_PIECE_FAR : HIDDEN_PIECE_NEAR;
}

size_t hidden_tree(MPI_Comm comm)
{
	return hidden_far(comm) ? HIDDEN_TREE_FAR : HIDDEN_TREE_NEAR;
}

/* The application's is freed. */
static int hidden_deleted(MPI_Comm comm, int key, void *value, void *extra)
{
	struct hidden *hidden = value;
	int ret = PMPI_Comm_free(&hidden->comm);

	(void) comm;
	(void) key;
	(void) extra;
	__atomic_sub_fetch(&hidden_count, 1, __ATOMIC_RELAXED);
	free(hidden);
	return ret;
}

/* ---- one more ---- */

/* A number of this host's */
static int hidden_host(void)
{
	char name[MPI_MAX_PROCESSOR_NAME] = "";
	unsigned int hash = 0;
	int len = 0;

	PMPI_Get_processor_name(name, &len);
	/* FNV-1a */
	for (int i = 0; i < len; i++)
		hash = (hash ^ (unsigned char) name[i]) * 0x01000193;
	return (int) hash;
}

/* May it copy from GPU to GPU? */
static bool hidden_copies(void)
{
	const char *path = getenv("FI_P2P_PATH");

	return !path || strcmp(path, "stage") != 0;
}

/* How long the ranks of MPI_COMM_WORLD may take to answer before the user hears of it [s] */
#define HIDDEN_PATIENCE 10

/*
 * Ranks without this library, of nodes with an older release, never answer. Their own calls, which block, do not match this
 * one.
 */
static int hidden_ask_world(int said[3])
{
	const double begun = PMPI_Wtime();
	MPI_Request request;
	int done = 0, told = 0;
	int ret = PMPI_Iallreduce(MPI_IN_PLACE, said, 3, MPI_INT, MPI_BOR, MPI_COMM_WORLD,
				  &request);

	while (ret == MPI_SUCCESS && !done) {
		ret = PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
		if (!done && !told && PMPI_Wtime() - begun > HIDDEN_PATIENCE) {
			fprintf(stderr,
				"libp2p-mpi: MPI_Init has waited %d s for all ranks to answer. Those of nodes "
				"without this library never do: install the same release on all nodes\n",
				HIDDEN_PATIENCE);
			told = 1;
		}
	}
	return ret;
}

/* What ranks of @comm say; @bits: what this one does. Without HIDDEN_FAR all are on one host, whose number has one form */
static int hidden_asked(MPI_Comm comm, int bits)
{
	const int host = hidden_host();
	int said[] = {bits | (hidden_copies() ? 0 : HIDDEN_FAR), host, ~host};

	if ((comm == MPI_COMM_WORLD ? hidden_ask_world(said)
				    : PMPI_Allreduce(MPI_IN_PLACE, said, 3, MPI_INT, MPI_BOR,
						     comm)) != MPI_SUCCESS)
		return HIDDEN_REFUSE;
	return said[0] | (said[1] & said[2] ? HIDDEN_FAR : 0);
}

/*
 * A duplicate would call the application's functions for its attributes: so this is another communicator of the same group.
 * MPI fails on all ranks or on none.
 */
static MPI_Comm hidden_twin(MPI_Comm comm)
{
	MPI_Comm twin = MPI_COMM_NULL;
	MPI_Group group;

	if (PMPI_Comm_group(comm, &group) != MPI_SUCCESS)
		return MPI_COMM_NULL;
	if (PMPI_Comm_create(comm, group, &twin) != MPI_SUCCESS)
		twin = MPI_COMM_NULL;
	PMPI_Group_free(&group);
	return twin;
}

/* Has an error code if only this rank has failed: the others may think that all is well. */
static int hidden_make(MPI_Comm comm, int bits)
{
	struct hidden *hidden = malloc(sizeof *hidden);
	MPI_Comm twin = MPI_COMM_NULL;
	MPI_Errhandler handler;
	int ret = MPI_SUCCESS;

	if (__atomic_load_n(&hidden_count, __ATOMIC_RELAXED) >= HIDDEN_MOST)
		bits |= HIDDEN_REFUSE;
	/* the application is not told that there is none */
	PMPI_Comm_get_errhandler(comm, &handler);
	PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	bits = hidden_asked(comm, bits | (hidden ? 0 : HIDDEN_REFUSE));
	if (hidden && (bits & ~HIDDEN_FAR) == HIDDEN_GPU)
		twin = hidden_twin(comm);
	if (twin != MPI_COMM_NULL) {
		*hidden = (struct hidden){twin, !(bits & HIDDEN_FAR)};
		PMPI_Comm_set_errhandler(twin, MPI_ERRORS_RETURN);
		ret = PMPI_Comm_set_attr(comm, hidden_key, hidden);
		__atomic_add_fetch(&hidden_count, ret == MPI_SUCCESS, __ATOMIC_RELAXED);
	}
	if (twin == MPI_COMM_NULL || ret != MPI_SUCCESS)
		free(hidden);
	PMPI_Comm_set_errhandler(comm, handler);
	PMPI_Errhandler_free(&handler);
	return ret;
}

/* The programs of one mpirun need not all have this library, and mpirun-p2p gives it to the first one. */
static bool hidden_one_program(void)
{
	const char *programs = getenv("OMPI_NUM_APP_CTX");

	return !programs || strcmp(programs, "1") == 0;
}

void hidden_begin(void)
{
	const bool wanted = call_wants();
	int bits = 0;

	hidden_part = !hidden_one_program();
	if (hidden_part || !call_enter())
		return;
	/* before any rank may return */
	if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, hidden_deleted, &hidden_key, NULL) !=
	    MPI_SUCCESS)
		hidden_key = MPI_KEYVAL_INVALID;
	if (dev_present)
		bits |= call_carried() ? HIDDEN_GPU : HIDDEN_STAGED;
	if (!wanted || hidden_key == MPI_KEYVAL_INVALID)
		bits |= HIDDEN_REFUSE;
	bits = hidden_asked(MPI_COMM_WORLD, bits);
	hidden_part = bits & HIDDEN_REFUSE;
	if ((bits & ~HIDDEN_FAR) == HIDDEN_GPU)
		hidden_make(MPI_COMM_WORLD, HIDDEN_GPU);
	call_leave();
}

void hidden_end(void)
{
	if (hidden_of(MPI_COMM_WORLD) != MPI_COMM_NULL)
		PMPI_Comm_delete_attr(MPI_COMM_WORLD, hidden_key);
	/* communicators that the application has not freed keep theirs */
	hidden_key = MPI_KEYVAL_INVALID;
}

/* ---- the calls that make communicators ---- */

/* @made has come from @parent, with @ret. */
static int hidden_follow(MPI_Comm parent, const MPI_Comm *made, int ret)
{
	struct call call = {.error = MPI_ERR_NO_MEM,
			    .why = "no memory for a communicator of the library's own",
			    .reporter = CALL_COMM(parent)};

	if (ret != MPI_SUCCESS || *made == MPI_COMM_NULL ||
	    hidden_of(parent) == MPI_COMM_NULL || !call_enter())
		return ret;
	ret = hidden_make(*made, HIDDEN_GPU) == MPI_SUCCESS ? MPI_SUCCESS : call_error(&call);
	call_leave();
	return ret;
}

/* A call that makes one out of @parent: argument by argument, so that each has the prototype of mpi.h */
#define MAKE(name, declared, types, parent, made, ...)                                         \
	CALL_WRAPPER(name, declared)                                                           \
	{                                                                                      \
		CALL_REAL(name, types);                                                        \
		int ret = real(__VA_ARGS__);                                                   \
                                                                                               \
		return hidden_any() ? hidden_follow(parent, made, ret) : ret;                  \
	}

MAKE(Comm_dup, (MPI_Comm comm, MPI_Comm *made), (MPI_Comm, MPI_Comm *), comm, made, comm, made)
MAKE(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *made),
     (MPI_Comm, MPI_Info, MPI_Comm *), comm, made, comm, info, made)
MAKE(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made),
     (MPI_Comm, MPI_Group, MPI_Comm *), comm, made, comm, group, made)
MAKE(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made),
     (MPI_Comm, int, int, MPI_Comm *), comm, made, comm, color, key, made)
MAKE(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made),
     (MPI_Comm, int, int, MPI_Info, MPI_Comm *), comm, made, comm, type, key, info, made)
MAKE(Cart_create,
     (MPI_Comm comm, int dims, const int sizes[], const int periods[], int reorder,
      MPI_Comm *made),
     (MPI_Comm, int, const int[], const int[], int, MPI_Comm *), comm, made, comm, dims, sizes,
     periods, reorder, made)
MAKE(Cart_sub, (MPI_Comm comm, const int remain[], MPI_Comm *made),
     (MPI_Comm, const int[], MPI_Comm *), comm, made, comm, remain, made)
MAKE(Graph_create,
     (MPI_Comm comm, int nodes, const int index[], const int edges[], int reorder,
      MPI_Comm *made),
     (MPI_Comm, int, const int[], const int[], int, MPI_Comm *), comm, made, comm, nodes, index,
     edges, reorder, made)
MAKE(Dist_graph_create,
     (MPI_Comm comm, int count, const int sources[], const int degrees[],
      const int destinations[], const int weights[], MPI_Info info, int reorder,
      MPI_Comm *made),
     (MPI_Comm, int, const int[], const int[], const int[], const int[], MPI_Info, int,
      MPI_Comm *),
     comm, made, comm, count, sources, degrees, destinations, weights, info, reorder, made)
MAKE(Dist_graph_create_adjacent,
     (MPI_Comm comm, int in, const int sources[], const int in_weights[], int out,
      const int destinations[], const int out_weights[], MPI_Info info, int reorder,
      MPI_Comm *made),
     (MPI_Comm, int, const int[], const int[], int, const int[], const int[], MPI_Info, int,
      MPI_Comm *),
     comm, made, comm, in, sources, in_weights, out, destinations, out_weights, info, reorder,
     made)

/* ---- the beginning ---- */

CALL_WRAPPER(Init, (int *count, char ***arguments))
{
	CALL_REAL(Init, (int *, char ***) );
	int ret = real(count, arguments);

	if (ret == MPI_SUCCESS)
		hidden_begin();
	return ret;
}

CALL_WRAPPER(Init_thread, (int *count, char ***arguments, int required, int *provided))
{
	CALL_REAL(Init_thread, (int *, char ***, int, int *) );
	int ret = real(count, arguments, required, provided);

	if (ret == MPI_SUCCESS)
		hidden_begin();
	return ret;
}

#if MPI_VERSION >= 4
CALL_WRAPPER(Session_init, (MPI_Info info, MPI_Errhandler handler, MPI_Session *session))
{
	CALL_REAL(Session_init, (MPI_Info, MPI_Errhandler, MPI_Session *) );
	int ret = real(info, handler, session);

	if (ret == MPI_SUCCESS)
		call_session();
	return ret;
}
#endif
