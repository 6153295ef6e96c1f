/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory that its owner has freed stays in use until the last process that has it open closes it, as on
 * a device (rules.h200). The owner learns of that by looking.
 *
 * Locks of open file descriptions tell: each import has a description of its own, which lives as long
 * as its mapping. So no process has to say that it ends.
 */
#define _GNU_SOURCE
#include "emu.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static struct flock emu_ghost_lock(short type, uint64_t at, uint64_t len)
{
	return (struct flock){
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = (off_t) at,
		.l_len = (off_t) len,
	};
}

/* For the one that opens memory. The description must have no other use. */
bool emu_ghost_hold(int fd, uint64_t at, uint64_t len)
{
	struct flock lock = emu_ghost_lock(F_RDLCK, at, len);

	return !fcntl(fd, F_OFD_SETLK, &lock);
}

/* For the owner, whose description has no lock */
bool emu_ghost_held(int fd, uint64_t at, uint64_t len)
{
	struct flock lock = emu_ghost_lock(F_WRLCK, at, len);

	return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

/* Called with the lock held, in place of giving the charge back */
void emu_ghost_add(struct emu_device *dev, const struct emu_ghost *ghost)
{
	struct emu_ghost *copy = malloc(sizeof(*copy));

	if (!copy)
		emu_die("what stays charged");
	*copy = *ghost;
	copy->next = dev->ghosts;
	dev->ghosts = copy;
}

/* Called with the lock held, by whoever wants to know how much is free */
void emu_ghosts_sweep(struct emu_device *dev)
{
	struct emu_ghost **link = &dev->ghosts, *ghost;

	while ((ghost = *link)) {
		if (emu_ghost_held(ghost->fd, ghost->at, ghost->len)) {
			link = &ghost->next;
			continue;
		}
		*link = ghost->next;
		dev->used -= ghost->charge;
		if (ghost->slot)
			__atomic_store_n(&dev->slots[ghost->slot], 0, __ATOMIC_RELEASE);
		if (ghost->close_fd >= 0)
			close(ghost->close_fd);
		free(ghost);
	}
}
