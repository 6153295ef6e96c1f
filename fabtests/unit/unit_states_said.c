/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What peers may say. See unit_states.h. */
#include "unit_states.h"

#include <rdma/fi_errno.h>

static const uint64_t operand = 1;

_Static_assert(sizeof operand == SCENE_SHORT, "it is what scenes ask for");

#define ANNOUNCED_LEN .len = SCENE_LEN, .chunk = SCENE_PIECE
#define TAKES .type = WIRE_TAKE, .to_sender = true, .transfer = 9
#define READS .type = WIRE_CALL, .op = FI_ATOMIC_READ, .flags = WIRE_FETCH
#define SUPPLIES .type = WIRE_ANNOUNCE, .to_sender = true
#define REACHED .key = SCENE_KEY_HERE
#define SHORT .len = sizeof operand, .payload = &operand, .payload_len = sizeof operand

static const struct {
	const char *name;
	struct wire_msg msg;
} said_all[] = {
	[SAID_ANNOUNCE] = {"ANNOUNCE", {.type = WIRE_ANNOUNCE, ANNOUNCED_LEN}},
	[SAID_ANNOUNCE_LENT] = {"ANNOUNCE of a copy",
				{.type = WIRE_ANNOUNCE,
				 .len = SCENE_LEN,
				 .chunk = SCENE_PIECE,
				 .flags = WIRE_LENT | WIRE_WANT_DONE,
				 .lent_key = 5}},
	[SAID_TAKE_PIECE] = {"TAKE of a piece", {TAKES, ANNOUNCED_LEN, .count = 1}},
	[SAID_TAKE_ALL] = {"TAKE of all pieces", {TAKES, ANNOUNCED_LEN, .count = SCENE_PIECES}},
	[SAID_TAKE_SMALL] = {"TAKE of one piece of one byte",
			     {TAKES, .len = 1, .chunk = 1, .count = 1}},
	[SAID_TAKE_NOTHING] = {"TAKE of nothing", {TAKES}},
	[SAID_TAKE_PLAIN] = {"TAKE of it whole", {TAKES, .flags = WIRE_PLAIN}},
	[SAID_TAKE_TOO_LONG] = {"TAKE of more than there is",
				{TAKES, .len = SCENE_LEN + 1, .chunk = SCENE_PIECE,
				 .count = 1}},
	[SAID_TAKE_TOO_LARGE] = {"TAKE of larger pieces",
				 {TAKES, .len = 5, .chunk = UINT32_MAX, .count = 1}},
	[SAID_TAKE_LANES] = {"TAKE over lanes that nobody knows",
			     {TAKES, ANNOUNCED_LEN, .count = 1,
			      .flags = 1u << WIRE_TAKE_LANES_SHIFT}},
	[SAID_TAKE_MORE] = {"TAKE of the next piece",
			    {TAKES, ANNOUNCED_LEN, .data = 1, .count = 1}},
	[SAID_TAKE_REST] = {"TAKE of all other pieces",
			    {TAKES, ANNOUNCED_LEN, .data = 1, .count = UINT32_MAX}},
	[SAID_DONE] = {"DONE", {.type = WIRE_DONE, .to_sender = true}},
	[SAID_REFUSED] = {"DONE with an error",
			  {.type = WIRE_DONE, .status = -FI_EIO, .to_sender = true}},
	[SAID_GIVEN_UP] = {"DONE of the sender", {.type = WIRE_DONE, .status = -FI_EIO}},
	[SAID_PROBE] = {"PROBE", {.type = WIRE_PROBE}},
	[SAID_PROBE_ASKS] = {"PROBE that asks", {.type = WIRE_PROBE, .flags = WIRE_ASKS}},
	[SAID_WRITE] = {"CALL to write",
			{.type = WIRE_CALL, .op = FI_ATOMIC_WRITE, REACHED, SHORT}},
	[SAID_WRITE_LONG] =
		{"a long CALL to write",
		 {.type = WIRE_CALL, .op = FI_ATOMIC_WRITE, REACHED, ANNOUNCED_LEN}},
	[SAID_WRITE_LENT] = {"a CALL to write a copy",
			     {.type = WIRE_CALL,
			      .op = FI_ATOMIC_WRITE,
			      REACHED,
			      ANNOUNCED_LEN,
			      .flags = WIRE_LENT | WIRE_WANT_DONE,
			      .lent_key = 5}},
	[SAID_READ] = {"CALL to read", {READS, REACHED, .len = 8}},
	[SAID_READ_LONG] = {"a long CALL to read", {READS, REACHED, .len = SCENE_LEN}},
	[SAID_SUPPLY] = {"ANNOUNCE of a read", {SUPPLIES, ANNOUNCED_LEN}},
	[SAID_SUPPLY_LENT] = {"ANNOUNCE of a read's copy",
			      {SUPPLIES, ANNOUNCED_LEN, .flags = WIRE_LENT | WIRE_WANT_DONE,
			       .lent_key = 5}},
	[SAID_SUPPLY_OTHER] = {"ANNOUNCE of a read, of another length",
			       {SUPPLIES, .len = SCENE_LEN - 1, .chunk = SCENE_PIECE}},
	[SAID_ATOMIC] = {"CALL to add",
			 {.type = WIRE_CALL,
			  REACHED,
			  SHORT,
			  .op = FI_SUM,
			  .datatype = FI_UINT64,
			  .flags = WIRE_FETCH}},
	[SAID_DONE_BYTES] = {"DONE with bytes",
			     {.type = WIRE_DONE,
			      .to_sender = true,
			      .payload = &operand,
			      .payload_len = sizeof operand}},
	[SAID_TAKE_TINY] = {"TAKE of tiny pieces",
			    {TAKES, .len = SCENE_LEN, .chunk = SCENE_TINY,
			     .count = UINT32_MAX}},
	[SAID_HELLO] = {"HELLO",
			{.type = WIRE_HELLO,
			 .flags = WIRE_ASKS | WIRE_FOLLOWS,
			 .grant = 9,
			 .newest = WIRE_VERSION,
			 .name = "peer",
			 .name_len = 4}},
};

const char *said_name(enum said said)
{
	return said_all[said].name;
}

const struct wire_msg *said_msg(enum said said)
{
	return &said_all[said].msg;
}

enum wire_type said_type(enum said said)
{
	return said_all[said].msg.type;
}
