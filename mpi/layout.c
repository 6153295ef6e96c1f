/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Takes datatypes apart, as MPI_Type_get_contents() tells them. See layout.h. */
#include "layout.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Types keep their layouts as attributes. */
static int layout_key = MPI_KEYVAL_INVALID;
/* Nobody drops one that another thread is about to hold. */
static pthread_mutex_t layout_lock = PTHREAD_MUTEX_INITIALIZER;

struct layout *layout_hold(struct layout *layout)
{
	__atomic_fetch_add(&layout->refs, 1, __ATOMIC_RELAXED);
	return layout;
}

void layout_put(struct layout *layout)
{
	if (layout && __atomic_sub_fetch(&layout->refs, 1, __ATOMIC_ACQ_REL) == 0) {
		free(layout->runs);
		free(layout);
	}
}

bool layout_dense(const struct layout *layout)
{
	return layout->count == 0 ||
	       (layout->count == 1 && (MPI_Aint) layout->runs[0].len == layout->extent);
}

/* ---- runs ---- */

static bool layout_run(struct layout *layout, MPI_Aint at, size_t len)
{
	struct layout_run *last = layout->count ? &layout->runs[layout->count - 1] : NULL;

	if (len == 0)
		return true;
	layout->size += len;
	if (last && last->at + (MPI_Aint) last->len == at) {
		last->len += len;
		return true;
	}
	if (layout->count == layout->room) {
		const size_t room = layout->room ? 2 * layout->room : 4;
		struct layout_run *runs = realloc(layout->runs, room * sizeof *runs);

		if (!runs)
			return false;
		layout->runs = runs;
		layout->room = room;
	}
	layout->runs[layout->count++] = (struct layout_run){at, len};
	return true;
}

/* @count elements of @part, the first one @at */
static bool layout_elements(struct layout *layout, const struct layout *part, MPI_Aint at,
			    size_t count)
{
	size_t len;

	layout->shifted |= part->shifted || (part->count && part->runs[0].at != 0);
	if (count && part->size)
		layout->leaf = layout->size == 0 || layout->leaf == part->leaf
				       ? part->leaf
				       : MPI_DATATYPE_NULL;
	if (part->count == 1 && layout_dense(part))
		return !__builtin_mul_overflow(count, part->runs[0].len, &len) &&
		       layout_run(layout, at + part->runs[0].at, len);
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < part->count; k++) {
			if (!layout_run(layout,
					at + (MPI_Aint) i * part->extent + part->runs[k].at,
					part->runs[k].len))
				return false;
		}
	}
	return true;
}

/* ---- constructors ---- */

/* What a type was made of: integers, or counts of MPI 4; addresses, or again counts */
struct layout_made {
	int combiner;
	MPI_Count *numbers;
	const MPI_Count *addresses;
	MPI_Datatype *types;
	struct layout *part;
};

static bool layout_vector(struct layout *layout, const struct layout_made *made,
			  MPI_Aint stride)
{
	for (MPI_Count i = 0; i < made->numbers[0]; i++) {
		if (!layout_elements(layout, made->part, i * stride, (size_t) made->numbers[1]))
			return false;
	}
	return true;
}

/* Blocks of @lengths, or all of @length; displaced by @displs extents, or by the addresses */
static bool layout_indexed(struct layout *layout, const struct layout_made *made,
			   const MPI_Count *lengths, MPI_Count length, const MPI_Count *displs)
{
	for (MPI_Count i = 0; i < made->numbers[0]; i++) {
		const MPI_Aint at =
			displs ? displs[i] * made->part->extent : made->addresses[i];

		if (!layout_elements(layout, made->part, at,
				     (size_t) (lengths ? lengths[i] : length)))
			return false;
	}
	return true;
}

static bool layout_struct(struct layout *layout, const struct layout_made *made)
{
	for (MPI_Count i = 0; i < made->numbers[0]; i++) {
		struct layout *part = layout_get(made->types[i]);
		bool fine = part && layout_elements(layout, part, made->addresses[i],
						    (size_t) made->numbers[1 + i]);

		layout_put(part);
		if (!fine)
			return false;
	}
	return true;
}

/* Rows of the array that @dims says, outermost first, from @at on */
static bool layout_rows(struct layout *layout, const struct layout_made *made, int dim,
			MPI_Aint at)
{
	const int dims = (int) made->numbers[0];
	const MPI_Count *sizes = made->numbers + 1, *parts = sizes + dims,
			*starts = parts + dims;
	const bool rows_first = made->numbers[1 + 3 * dims] == MPI_ORDER_C;
	const int k = rows_first ? dim : dims - 1 - dim;

	at = at * sizes[k] + starts[k];
	if (dim == dims - 1)
		return layout_elements(layout, made->part, at * made->part->extent,
				       (size_t) parts[k]);
	for (MPI_Count i = 0; i < parts[k]; i++) {
		if (!layout_rows(layout, made, dim + 1, at + i))
			return false;
	}
	return true;
}

/*
 * Whatever else there is: as MPI packs it. Each byte of one element gets a label, a byte of its place at a time, and where
 * it is in what was packed tells the order.
 */
static bool layout_packed(struct layout *layout, MPI_Datatype type, size_t size)
{
	const size_t span = (size_t) (layout->high - layout->low);
	unsigned char *memory = malloc(span), *packed = malloc(size);
	MPI_Aint *places = calloc(size, sizeof *places);
	MPI_Datatype own = MPI_DATATYPE_NULL;
	/* parts of types need not be committed */
	bool fine = memory && packed && places &&
		    PMPI_Type_contiguous(1, type, &own) == MPI_SUCCESS &&
		    PMPI_Type_commit(&own) == MPI_SUCCESS;

	for (int shift = 0; fine && (span - 1) >> shift; shift += 8) {
		int position = 0;

		for (size_t i = 0; i < span; i++)
			memory[i] = (unsigned char) (i >> shift);
		fine = PMPI_Pack(memory - layout->low, 1, own, packed, (int) size, &position,
				 MPI_COMM_SELF) == MPI_SUCCESS;
		for (size_t i = 0; i < size; i++)
			places[i] |= (MPI_Aint) packed[i] << shift;
	}
	for (size_t i = 0; fine && i < size; i++)
		fine = layout_run(layout, layout->low + places[i], 1);
	if (own != MPI_DATATYPE_NULL)
		PMPI_Type_free(&own);
	free(memory);
	free(packed);
	free(places);
	return fine;
}

/* ---- a type ---- */

static bool layout_of_parts(struct layout *layout, MPI_Datatype type,
			    const struct layout_made *made)
{
	const MPI_Count count = made->numbers ? made->numbers[0] : 0;
	int size;

	switch (made->combiner) {
	case MPI_COMBINER_DUP:
	case MPI_COMBINER_RESIZED:
		return layout_elements(layout, made->part, 0, 1);
	case MPI_COMBINER_CONTIGUOUS:
		return layout_elements(layout, made->part, 0, (size_t) count);
	case MPI_COMBINER_VECTOR:
		return layout_vector(layout, made, made->numbers[2] * made->part->extent);
	case MPI_COMBINER_HVECTOR:
		return layout_vector(layout, made, made->addresses[0]);
	case MPI_COMBINER_INDEXED:
		return layout_indexed(layout, made, made->numbers + 1, 0,
				      made->numbers + 1 + count);
	case MPI_COMBINER_HINDEXED:
		return layout_indexed(layout, made, made->numbers + 1, 0, NULL);
	case MPI_COMBINER_INDEXED_BLOCK:
		return layout_indexed(layout, made, NULL, made->numbers[1], made->numbers + 2);
	case MPI_COMBINER_HINDEXED_BLOCK:
		return layout_indexed(layout, made, NULL, made->numbers[1], NULL);
	case MPI_COMBINER_STRUCT:
		return layout_struct(layout, made);
	case MPI_COMBINER_SUBARRAY:
		return layout_rows(layout, made, 0, 0);
	default:
		layout->leaf = type;
		if (PMPI_Type_size(type, &size) != MPI_SUCCESS || size < 0)
			return false;
		/* of the predefined ones, pairs have gaps */
		if (layout->low == 0 && layout->high == size && layout->extent == size)
			return layout_run(layout, 0, (size_t) size);
		return size == 0 || layout_packed(layout, type, (size_t) size);
	}
}

static bool layout_of_types(struct layout *layout, MPI_Datatype type, struct layout_made *made,
			    MPI_Count count)
{
	bool fine;

	if (count > 0 && made->combiner != MPI_COMBINER_STRUCT) {
		made->part = layout_get(made->types[0]);
		if (!made->part)
			return false;
	}
	fine = layout_of_parts(layout, type, made);
	layout_put(made->part);
	return fine;
}

/* How many integers, addresses, counts of MPI 4 and types a type was made of */
struct layout_envelope {
	MPI_Count integers, addresses, counts, types;
	int combiner;
};

#if MPI_VERSION >= 4
static bool layout_ask(MPI_Datatype type, struct layout_envelope *envelope)
{
	return PMPI_Type_get_envelope_c(type, &envelope->integers, &envelope->addresses,
					&envelope->counts, &envelope->types,
					&envelope->combiner) == MPI_SUCCESS;
}
#else
static bool layout_ask(MPI_Datatype type, struct layout_envelope *envelope)
{
	int integers, addresses, types;
	const int ret = PMPI_Type_get_envelope(type, &integers, &addresses, &types,
					       &envelope->combiner);

	envelope->integers = integers;
	envelope->addresses = addresses;
	envelope->counts = 0;
	envelope->types = types;
	return ret == MPI_SUCCESS;
}
#endif

/* Those that are made of no others are predefined: the ones of Fortran, too, which have combiners. */
static void layout_free_type(MPI_Datatype type)
{
	struct layout_envelope envelope;

	if (layout_ask(type, &envelope) && envelope.types > 0)
		PMPI_Type_free(&type);
}

/* By integers and addresses */
static bool layout_contents(MPI_Datatype type, const struct layout_envelope *envelope,
			    struct layout_made *made)
{
	const int integers = (int) envelope->integers, addresses = (int) envelope->addresses;
	int *integer = calloc((size_t) integers + 1, sizeof *integer);
	MPI_Aint *address = calloc((size_t) addresses + 1, sizeof *address);
	const bool fine =
		integer && address &&
		PMPI_Type_get_contents(type, integers, addresses, (int) envelope->types,
				       integer, address, made->types) == MPI_SUCCESS;

	for (int i = 0; fine && i < integers; i++)
		made->numbers[i] = integer[i];
	made->addresses = made->numbers + integers;
	for (int i = 0; fine && i < addresses; i++)
		made->numbers[integers + i] = address[i];
	free(integer);
	free(address);
	return fine;
}

#if MPI_VERSION >= 4
/* By counts: they have all but the number of dimensions and the order of an array. */
static bool layout_contents_c(MPI_Datatype type, const struct layout_envelope *envelope,
			      struct layout_made *made)
{
	const bool array = made->combiner == MPI_COMBINER_SUBARRAY;
	MPI_Count *const number = made->numbers + array;
	int *integer = calloc((size_t) envelope->integers + 1, sizeof *integer);
	const bool fine = integer && envelope->addresses == 0 &&
			  PMPI_Type_get_contents_c(type, envelope->integers, 0,
						   envelope->counts, envelope->types, integer,
						   NULL, number, made->types) == MPI_SUCCESS;

	if (fine && array) {
		number[-1] = integer[0];
		number[envelope->counts] = integer[1];
	}
	made->addresses = number + 2;
	if (fine &&
	    (made->combiner == MPI_COMBINER_HINDEXED || made->combiner == MPI_COMBINER_STRUCT))
		made->addresses = number + 1 + number[0];
	free(integer);
	return fine;
}
#else
static bool layout_contents_c(MPI_Datatype type, const struct layout_envelope *envelope,
			      struct layout_made *made)
{
	(void) type;
	(void) envelope;
	(void) made;
	return false;
}
#endif

static bool layout_fill(struct layout *layout, MPI_Datatype type)
{
	struct layout_envelope envelope;
	struct layout_made made = {0};
	MPI_Aint low, len;
	bool fine;

	if (PMPI_Type_get_extent(type, &low, &layout->extent) != MPI_SUCCESS ||
	    PMPI_Type_get_true_extent(type, &layout->low, &len) != MPI_SUCCESS ||
	    !layout_ask(type, &envelope))
		return false;
	layout->high = layout->low + len;
	made.combiner = envelope.combiner;
	if (made.combiner == MPI_COMBINER_NAMED)
		return layout_of_parts(layout, type, &made);
	/* an array's counts have two numbers around them */
	made.numbers =
		calloc((size_t) (envelope.integers + envelope.addresses + envelope.counts + 2),
		       sizeof *made.numbers);
	made.types = calloc((size_t) envelope.types + 1, sizeof *made.types);
	fine = made.numbers && made.types &&
	       (envelope.counts ? layout_contents_c(type, &envelope, &made)
				: layout_contents(type, &envelope, &made));
	if (fine) {
		fine = layout_of_types(layout, type, &made, envelope.types);
		for (MPI_Count i = 0; i < envelope.types; i++)
			layout_free_type(made.types[i]);
	}
	free(made.numbers);
	free(made.types);
	return fine;
}

/* MPI frees a type. */
static int layout_deleted(MPI_Datatype type, int key, void *layout, void *extra)
{
	(void) type;
	(void) key;
	(void) extra;
	layout_put(layout);
	return MPI_SUCCESS;
}

static void layout_key_make(void)
{
	PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, layout_deleted, &layout_key, NULL);
}

struct layout *layout_get(MPI_Datatype type)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct layout *layout = NULL;
	int found = 0;

	pthread_once(&once, layout_key_make);
	if (layout_key == MPI_KEYVAL_INVALID || type == MPI_DATATYPE_NULL)
		return NULL;
	pthread_mutex_lock(&layout_lock);
	if (PMPI_Type_get_attr(type, layout_key, &layout, &found) == MPI_SUCCESS && found)
		layout_hold(layout);
	pthread_mutex_unlock(&layout_lock);
	if (found)
		return layout;
	layout = calloc(1, sizeof *layout);
	if (!layout)
		return NULL;
	layout->refs = 1;
	layout->leaf = MPI_DATATYPE_NULL;
	if (!layout_fill(layout, type)) {
		layout_put(layout);
		return NULL;
	}
	/* two threads may do so: MPI drops the first one */
	pthread_mutex_lock(&layout_lock);
	if (PMPI_Type_set_attr(type, layout_key, layout) == MPI_SUCCESS)
		layout_hold(layout);
	pthread_mutex_unlock(&layout_lock);
	return layout;
}
