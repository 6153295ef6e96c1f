/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What peers may say. See unit_states.h. */
#include "unit_states.h"

#include <rdma/fi_errno.h>

static const uint64_t operand = 1;

_Static_assert(sizeof operand == SCENE_SHORT, "it is what scenes ask for");

#define ANNOUNCED_LEN .len = SCENE_LEN, .chunk = SCENE_PIECE
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
				 .flags = WIRE_LENT | WIRE_WANT_FIN,
				 .key = 5}},
	[SAID_CTS_PIECE] = {"CTS for a piece",
			    {.type = WIRE_CTS, ANNOUNCED_LEN, .count = 1, .transfer = 9}},
	[SAID_CTS_ALL] = {"CTS for all pieces",
			  {.type = WIRE_CTS, ANNOUNCED_LEN, .count = SCENE_PIECES}},
	[SAID_CTS_SMALL] = {"CTS for one piece of one byte",
			    {.type = WIRE_CTS, .len = 1, .chunk = 1, .count = 1}},
	[SAID_CTS_NOTHING] = {"CTS for nothing", {.type = WIRE_CTS}},
	[SAID_CTS_PLAIN] = {"CTS for it whole", {.type = WIRE_CTS, .flags = WIRE_PLAIN}},
	[SAID_CTS_TOO_LONG] =
		{"CTS for more than there is",
		 {.type = WIRE_CTS, .len = SCENE_LEN + 1, .chunk = SCENE_PIECE, .count = 1}},
	[SAID_CTS_TOO_LARGE] = {"CTS for larger pieces",
				{.type = WIRE_CTS, .len = 5, .chunk = UINT32_MAX, .count = 1}},
	[SAID_CTS_LANES] = {"CTS over lanes that nobody knows",
			    {.type = WIRE_CTS,
			     ANNOUNCED_LEN,
			     .count = 1,
			     .flags = 1u << WIRE_CTS_LANES_SHIFT}},
	[SAID_CREDIT] = {"CREDIT", {.type = WIRE_CREDIT, .count = 1}},
	[SAID_CREDIT_MOST] = {"CREDIT for all", {.type = WIRE_CREDIT, .count = UINT32_MAX}},
	[SAID_FIN] = {"FIN", {.type = WIRE_FIN}},
	[SAID_FIN_ERROR] = {"FIN with an error", {.type = WIRE_FIN, .status = -FI_EIO}},
	[SAID_ABORT_TO_SENDER] = {"ABORT to the sender",
				  {.type = WIRE_ABORT, .status = -FI_EIO, .to_sender = true}},
	[SAID_ABORT] = {"ABORT", {.type = WIRE_ABORT, .status = -FI_EIO}},
	[SAID_PROBE] = {"PROBE", {.type = WIRE_PROBE}},
	[SAID_PROBE_ASKS] = {"PROBE that asks", {.type = WIRE_PROBE, .flags = WIRE_ASKS}},
	[SAID_WRITE] = {"WRITE", {.type = WIRE_WRITE, REACHED, SHORT}},
	[SAID_WRITE_LONG] = {"a long WRITE", {.type = WIRE_WRITE, REACHED, ANNOUNCED_LEN}},
	[SAID_WRITE_LENT] = {"a WRITE of a copy",
			     {.type = WIRE_WRITE,
			      REACHED,
			      ANNOUNCED_LEN,
			      .flags = WIRE_LENT | WIRE_WANT_FIN,
			      .lent_key = 5}},
	[SAID_READ] = {"READ", {.type = WIRE_READ, REACHED, .len = 8}},
	[SAID_READ_LONG] = {"a long READ", {.type = WIRE_READ, REACHED, .len = SCENE_LEN}},
	[SAID_SUPPLY] = {"SUPPLY", {.type = WIRE_SUPPLY, ANNOUNCED_LEN}},
	[SAID_SUPPLY_LENT] = {"SUPPLY of a copy",
			      {.type = WIRE_SUPPLY,
			       ANNOUNCED_LEN,
			       .flags = WIRE_LENT | WIRE_WANT_FIN,
			       .lent_key = 5}},
	[SAID_SUPPLY_OTHER] = {"SUPPLY of another length",
			       {.type = WIRE_SUPPLY,
				.len = SCENE_LEN - 1,
				.chunk = SCENE_PIECE}},
	[SAID_ATOMIC] = {"ATOMIC",
			 {.type = WIRE_ATOMIC,
			  REACHED,
			  SHORT,
			  .op = FI_SUM,
			  .datatype = FI_UINT64,
			  .flags = WIRE_FETCH}},
	[SAID_FIN_BYTES] = {"FIN with bytes",
			    {.type = WIRE_FIN,
			     .payload = &operand,
			     .payload_len = sizeof operand}},
	[SAID_CTS_TINY] = {"CTS for tiny pieces",
			   {.type = WIRE_CTS,
			    .len = SCENE_LEN,
			    .chunk = SCENE_TINY,
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
