/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_any: receives from any source and with any tag, posted before and after the
 * messages; the status tells what came, and each sender's messages come in order.
 */
#include "mpi_test.h"

#define COUNT 12 /* messages of each sender */
#define LONGEST 1048577

static const struct variant {
	const char *name;
	bool any_source, any_tag, early;
} variants[] = {
	{"any source and tag, posted before", true, true, true},
	{"any source and tag, posted after", true, true, false},
	{"any source, posted before", true, false, true},
	{"any source, posted after", true, false, false},
	{"any tag, posted before", false, true, true},
	{"any tag, posted after", false, true, false},
};

/*
 * Receive number @index got what @status says. Receives alike take the messages of one
 * sender in the order of their sending, so it has to be the next of @sent.
 */
static int judge(const struct mpi_msg *msg, int *sent, int senders, int index,
		 const struct ft_slot *slot, const MPI_Status *status)
{
	const int source = status->MPI_SOURCE;
	int next;

	FT_CHECK(source >= 1 && source <= senders, "receive %d: from rank %d", index, source);
	next = sent[source]++;
	FT_CHECK(next < COUNT, "receive %d: one message too many from rank %d", index, source);
	return mpi_msg_check(&msg[(source - 1) * COUNT + next], slot, status);
}

/* One round of messages from all other ranks to rank 0 */
struct round {
	const struct variant *variant;
	int senders, total;
	struct mpi_msg *msg;
	struct ft_slot *slot;
	MPI_Request *req;
};

static void send_all(struct mpi_run *run, struct round *round)
{
	for (int i = 0; i < round->total; i++) {
		const struct mpi_msg *msg = &round->msg[i];

		if (run->rank == msg->src)
			MPI_Isend(mpi_addr(&msg->tx), msg->len, MPI_BYTE, 0, msg->tag,
				  MPI_COMM_WORLD, &round->req[i]);
	}
}

static int post_all(struct mpi_run *run, struct round *round)
{
	const struct variant *variant = round->variant;

	for (int i = 0; run->rank == 0 && i < round->total; i++) {
		struct ft_slot *slot = &round->slot[i];

		FT_TRY(mpi_slot_take(run, (size_t) i % run->kinds, LONGEST, slot));
		FT_TRY(ft_slot_arm(slot));
		MPI_Irecv(mpi_addr(slot), LONGEST, MPI_BYTE,
			  variant->any_source ? MPI_ANY_SOURCE : 1 + i % round->senders,
			  variant->any_tag ? MPI_ANY_TAG : COUNT, MPI_COMM_WORLD,
			  &round->req[i]);
	}
	return 0;
}

static int gather(struct mpi_run *run, const struct variant *variant)
{
	const int senders = run->ranks - 1, total = senders * COUNT;
	int sent[run->ranks];
	struct mpi_msg msg[total];
	struct ft_slot slot[total];
	MPI_Request req[total];
	MPI_Status status[total];
	struct round round = {variant, senders, total, msg, slot, req};

	mpi_stage(run, "%s", variant->name);
	for (int i = 0; i < total; i++) {
		mpi_msg_any(run, &msg[i], 1 + i / COUNT, 0,
			    variant->any_tag ? (int) mpi_random(run, 1000) : COUNT, LONGEST);
		req[i] = MPI_REQUEST_NULL;
	}
	for (int i = 0; i < run->ranks; i++)
		sent[i] = 0;
	if (run->rank)
		FT_TRY(mpi_msgs_ready(run, msg, (size_t) total));
	if (variant->early)
		FT_TRY(post_all(run, &round));
	else
		send_all(run, &round);
	MPI_Barrier(MPI_COMM_WORLD);
	if (variant->early)
		send_all(run, &round);
	else
		FT_TRY(post_all(run, &round));
	MPI_Waitall(total, req, status);
	for (int i = 0; run->rank == 0 && i < total; i++)
		FT_TRY(judge(msg, sent, senders, i, &slot[i], &status[i]));
	/* The next round's messages would match these receives. */
	MPI_Barrier(MPI_COMM_WORLD);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	for (size_t i = 0; i < FT_COUNT(variants); i++)
		FT_TRY(gather(run, &variants[i]));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "receives from any source and with any tag",
		.ranks = 2,
		.pool = 8 * COUNT * (LONGEST + FT_ROOM),
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
