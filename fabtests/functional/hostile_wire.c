/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Control messages of a liar's. See hostile_wire.h. */
#include "hostile_wire.h"

#include "ft_test.h"
#include "mem/board.h"
#include "xfer/xfer.h"

bool hostile_add(struct hostile_letter *letter, const struct wire_msg *msg)
{
	if (letter->len + wire_size(msg) > sizeof letter->bytes)
		return false;
	letter->len += wire_encode(msg, letter->bytes + letter->len);
	return true;
}

int hostile_stand(struct wire_msg *msg)
{
	static struct board board;
	const uint64_t id = msg->id | WIRE_MARK;
	const uint64_t place = board_open(&board, xfer_board_owner(msg->id));

	FT_CHECK(place && board_note(&board, id), "the liar has no board");
	board_show(&board, id, 1);
	msg->flags |= WIRE_OFFERED;
	msg->transfer = (uint32_t) (place >> 32);
	msg->count = (uint32_t) place;
	return 0;
}
