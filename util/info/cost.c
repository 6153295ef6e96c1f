/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The provider's table of costs (path/cost.h), and the lengths that each way is for. See info.h. */
#include "info.h"

#include "base/conf.h"
#include "path/cost.h"
#include "xfer/wire.h"

#define COST_BY_COST "cost"
#define COST_BY_WIRE "the protocol"

static const char *cost_eager(void)
{
	return info_text("FI_P2P_EAGER_SIZE=%zu", conf.eager_size);
}

/* A way that is for more than @above bytes, and for no more than @most (0: any) */
static struct info_cost *cost_add(struct info *info, const char *name, size_t above,
				  size_t most, const char *by)
{
	struct info_cost *row = info_append(&info->costs, &info->cost_count, sizeof *row);

	*row = (struct info_cost){
		.way = name,
		.from = above ? above + 1 : 0,
		.to = most,
		.none = most && above >= most,
		.by = by,
	};
	return row;
}

static void cost_row(struct info *info, const char *name, enum cost_way way, size_t above,
		     size_t most, const char *by)
{
	struct info_cost *row = cost_add(info, name, above, most, by);

	row->fixed = cost_table[way].fixed;
	row->kib = cost_table[way].kib;
}

/* Lanes of a message longer than @above, which are never for what goes whole */
static void cost_lanes(struct info *info, const char *name, enum cost_way way, size_t above)
{
	const bool whole = above < conf.eager_size, none = conf.lanes == 1;

	cost_row(info, name, way, P2P_MAX(above, conf.eager_size), 0,
		 none    ? "FI_P2P_LANES=1"
		 : whole ? cost_eager()
			 : COST_BY_COST);
	info->costs[info->cost_count - 1].none = none;
}

/* The length of pieces: as many rows as there are lengths */
static void cost_pieces(struct info *info)
{
	const char *limit = info_text("FI_P2P_CHUNK_SIZE=%zu", conf.chunk_size);
	size_t piece = cost_piece(0, conf.chunk_size), above = conf.eager_size;

	for (; piece < conf.chunk_size; piece *= 2) {
		cost_add(info, info_text("alone, pieces of %zu", piece), above,
			 cost_piece_until(piece), COST_BY_COST);
		above = P2P_MAX(above, cost_piece_until(piece));
	}
	cost_add(info, info_text("alone, pieces of %zu", conf.chunk_size), above, 0, limit);
}

/* What a copy takes on this machine, beside what the table has for it */
static void cost_gpu(struct info *info, size_t number)
{
	const struct info_gpu *gpu = &info->gpus[number];
	struct info_cost *row;

	if (!gpu->copy_fixed)
		return;
	row = cost_add(info, info_text("  of GPU %zu, measured now", number), 0, 0, "-");
	row->fixed = gpu->copy_fixed;
	row->kib = gpu->copy_kib;
}

void info_costs(struct info *info)
{
	const size_t eager = conf.eager_size, lent = P2P_MIN(cost_lend_min(), eager);
	const char *whole = cost_eager();

	cost_row(info, "whole, ofi_rxm over tcp", COST_SENT, 0, lent,
		 lent < eager ? COST_BY_COST : whole);
	cost_row(info, "lent there, among others", COST_LENT, lent, eager, whole);
	cost_row(info, "whole, net and others", COST_WHOLE, 0, eager, whole);
	cost_row(info, "pieces, one connection", COST_PIECES, eager, 0, whole);
	cost_lanes(info, "pieces, lanes", COST_LANES, cost_lanes_min(false) - 1);
	cost_lanes(info, "pieces, lanes of ofi_rxm", COST_LANES_DEAR, cost_lanes_min(true) - 1);
	cost_row(info, "alone, one connection", COST_ALONE, eager, 0, whole);
	cost_lanes(info, "alone, lanes", COST_LANES_ALONE, cost_lanes_alone());
	cost_pieces(info);
	cost_row(info, "device to device, tcp", COST_ACROSS, lent, 0, COST_BY_COST);
	cost_row(info, "device to device, shm", COST_ACROSS_NEAR, WIRE_PLAIN_MAX, 0,
		 COST_BY_WIRE);
	cost_add(info, "read by the NIC", WIRE_PLAIN_MAX, 0, COST_BY_WIRE);
	cost_row(info, "a piece, of the CPUs", COST_PIECE_CPU, 0, 0, "-");
	cost_row(info, "a copy to the host", COST_COPY, 0, 0, "-");
	for (size_t i = 0; i < info->gpu_count; i++)
		cost_gpu(info, i);
}
