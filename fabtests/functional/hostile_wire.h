/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Control messages of versions 7 and 8, one behind the other in one letter. Version 7 is that of commit
 * 088b4a2: so the same attack can be tried on that build and on this one.
 */
#ifndef HOSTILE_WIRE_H
#define HOSTILE_WIRE_H

#include "xfer/wire.h"

/* In version 7 a request for pieces may name the endpoint that is to have them */
#define HOSTILE_ASIDE (1u << 7)

/** struct hostile_letter - as long as a receive for control messages may be */
struct hostile_letter {
	size_t len;
	uint8_t bytes[WIRE_MSG_MAX];
};

/* The version that the first message in @buf is of; 0: it is no control message */
int hostile_version(const void *buf, size_t len);

/* Puts @msg behind what is in the letter. In version 7 it bears the name, too. False: there is no room */
bool hostile_add(struct hostile_letter *letter, int version, const struct wire_msg *msg);

/* Reads the first message of @len bytes. Version 7: announcements, requests and ends alone. False: there is none */
bool hostile_read(const void *buf, size_t len, int version, struct wire_msg *msg);

/* Its offer stands: there is a note on this process's board. 0, or said what fails */
int hostile_stand(struct wire_msg *msg);

#endif /* HOSTILE_WIRE_H */
