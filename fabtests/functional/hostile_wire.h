/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Control messages of a liar's, one behind the other in one letter. */
#ifndef HOSTILE_WIRE_H
#define HOSTILE_WIRE_H

#include "xfer/wire.h"

/** struct hostile_letter - as long as a receive for control messages may be */
struct hostile_letter {
	size_t len;
	uint8_t bytes[WIRE_MSG_MAX];
};

/* Puts @msg behind what is in the letter. False: there is no room */
bool hostile_add(struct hostile_letter *letter, const struct wire_msg *msg);

/* Its offer stands: there is a note on this process's board. 0, or said what fails */
int hostile_stand(struct wire_msg *msg);

#endif /* HOSTILE_WIRE_H */
