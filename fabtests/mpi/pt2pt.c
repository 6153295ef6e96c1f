/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_pt2pt: MPI_Send, MPI_Ssend and MPI_Rsend to MPI_Recv, with every pair of
 * memory kinds and every length, into receives that fit and into longer ones.
 */
#include "mpi_test.h"

#define TAG 11
#define SLACK 1000

typedef int (*send_fn)(const void *buf, int count, MPI_Datatype type, int dst, int tag,
		       MPI_Comm comm);

static const struct variant {
	const char *name;
	send_fn send;
	bool ready; /* wants the receive posted before */
} variants[] = {
	{"MPI_Send", MPI_Send, false},
	{"MPI_Ssend", MPI_Ssend, false},
	{"MPI_Rsend", MPI_Rsend, true},
};

static int receive(struct mpi_msg *msg, bool ready)
{
	MPI_Status status;

	if (ready) {
		MPI_Irecv(mpi_addr(&msg->rx), msg->room, MPI_BYTE, msg->src, msg->tag,
			  MPI_COMM_WORLD, &msg->req);
		MPI_Send(NULL, 0, MPI_BYTE, msg->src, TAG + 1, MPI_COMM_WORLD);
		MPI_Wait(&msg->req, &status);
	} else {
		MPI_Recv(mpi_addr(&msg->rx), msg->room, MPI_BYTE, msg->src, msg->tag,
			 MPI_COMM_WORLD, &status);
	}
	return mpi_msg_check(msg, &msg->rx, &status);
}

static int send_one(const struct mpi_msg *msg, const struct variant *variant)
{
	if (variant->ready)
		MPI_Recv(NULL, 0, MPI_BYTE, msg->dst, TAG + 1, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
	variant->send(mpi_addr(&msg->tx), msg->len, MPI_BYTE, msg->dst, msg->tag,
		      MPI_COMM_WORLD);
	/* The data is still there, and nothing around it was touched. */
	return ft_slot_check(&msg->tx, (size_t) msg->len, msg->key, "the sender's buffer");
}

static int one(struct mpi_run *run, const struct variant *variant, int src, size_t len,
	       size_t from, size_t to)
{
	struct mpi_msg msg;

	mpi_stage(run, "%s, %zu bytes, kind %zu to kind %zu", variant->name, len, from, to);
	mpi_msg_init(run, &msg, src, (src + 1) % run->ranks, TAG, len);
	msg.from = from;
	msg.to = to;
	msg.room += (int) mpi_random(run, 2) * SLACK;
	FT_TRY(mpi_msg_ready(run, &msg));
	if (run->rank == msg.src)
		return send_one(&msg, variant);
	if (run->rank == msg.dst)
		return receive(&msg, variant->ready);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	int src = 0;

	for (size_t v = 0; v < FT_COUNT(variants); v++)
		for (size_t i = 0; i < mpi_test_size_count; i++)
			for (size_t from = 0; from < run->kinds; from++)
				for (size_t to = 0; to < run->kinds; to++)
					FT_TRY(one(run, &variants[v], src++ % run->ranks,
						   mpi_test_sizes[i], from, to));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "MPI_Send, MPI_Ssend and MPI_Rsend to MPI_Recv",
		.ranks = 2,
		.pool = 2 * MPI_TEST_LONGEST,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
