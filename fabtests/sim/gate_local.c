/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The gate: local sockets (AF_UNIX, SOCK_SEQPACKET) with names that are no files, and the descriptors that travel by
 * them. See gate.h.
 */
#include "gate_file.h"
#include "fiber.h"

#include <fcntl.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define LOCAL_NAME 40
#define LOCAL_MESSAGE 2048

/* @passed: the descriptor that comes with it stands for that; NULL: none does */
struct local_message {
	size_t len;
	struct file *passed;
	uint8_t bytes[LOCAL_MESSAGE];
	TAILQ_ENTRY(local_message) link;
};

/**
 * struct local - an end of a connection, or who listens.
 * @host, @name, @len: where it listens
 * @backlog:	so many may wait there; 0: it does not listen. @ended: it does no longer
 * @waiting:	those that have connected, and wait for accept4()
 * @peer:	the other end; NULL: it is not connected, or the other one is closed
 * @pid:	of the process at the other end
 * @patience:	how long a call waits [ns]: to receive, and to send
 * @blocks:	calls wait at all
 */
struct local {
	struct file *file;
	unsigned int host;
	char name[LOCAL_NAME];
	size_t len;
	unsigned int backlog, count;
	bool ended;
	TAILQ_HEAD(, local) waiting;
	struct local *peer;
	long pid;
	uint64_t patience[2];
	bool blocks;
	TAILQ_HEAD(, local_message) messages;
	TAILQ_ENTRY(local) link;
	LIST_ENTRY(local) all;
};

static LIST_HEAD(, local) locals = LIST_HEAD_INITIALIZER(locals);

static uint64_t local_end(const struct local *local, bool sends)
{
	const uint64_t patience = local->patience[sends];

	return patience ? world.now + patience : UINT64_MAX;
}

static struct local *local_make(struct file *file, bool blocks)
{
	struct local *local = calloc(1, sizeof *local);

	local->file = file;
	local->blocks = blocks;
	local->host = node_host(world.current);
	TAILQ_INIT(&local->waiting);
	TAILQ_INIT(&local->messages);
	LIST_INSERT_HEAD(&locals, local, all);
	file->local = local;
	return local;
}

int local_new(int flags)
{
	struct file *file;
	int fd = file_new(FILE_LOCAL, &file);

	if (fd >= 0)
		local_make(file, !(flags & SOCK_NONBLOCK));
	return fd;
}

void local_free(struct file *file)
{
	struct local *local = file->local;
	struct local_message *message;

	while ((message = TAILQ_FIRST(&local->messages))) {
		TAILQ_REMOVE(&local->messages, message, link);
		if (message->passed)
			file_put(message->passed);
		free(message);
	}
	while (!TAILQ_EMPTY(&local->waiting)) {
		struct local *other = TAILQ_FIRST(&local->waiting);

		TAILQ_REMOVE(&local->waiting, other, link);
		file_put(other->file);
	}
	if (local->peer)
		local->peer->peer = NULL;
	LIST_REMOVE(local, all);
	free(local);
}

/* Something has come, or nothing will */
bool local_readable(const struct file *file)
{
	const struct local *local = file->local;

	if (local->backlog || local->ended)
		return local->ended || !TAILQ_EMPTY(&local->waiting);
	return !TAILQ_EMPTY(&local->messages) || !local->peer;
}

static bool local_ready(const void *file)
{
	return local_readable(file);
}

/* ---- connections ---- */

static size_t local_name(const struct sockaddr *addr, socklen_t len, const char **name)
{
	*name = ((const struct sockaddr_un *) addr)->sun_path;
	return len - offsetof(struct sockaddr_un, sun_path);
}

static struct local *local_find(unsigned int host, const char *name, size_t len)
{
	struct local *local;

	LIST_FOREACH(local, &locals, all) {
		if (len && local->host == host && local->len == len &&
		    !memcmp(local->name, name, len))
			return local;
	}
	return NULL;
}

int local_bind(struct file *file, const struct sockaddr *addr, socklen_t addr_len)
{
	struct local *local = file->local;
	const char *name;
	const size_t len = local_name(addr, addr_len, &name);

	if (len > LOCAL_NAME)
		world_fail("n%u: the name of a local socket is too long", world.current);
	if (local_find(local->host, name, len))
		return gate_failed(EADDRINUSE);
	memcpy(local->name, name, len);
	local->len = len;
	return 0;
}

GATE(int, listen, int fd, int backlog)
{
	struct file *file = file_of(fd);

	if (!file || !file->local)
		return gate_failed(EBADF);
	file->local->backlog = (unsigned int) backlog;
	return 0;
}

struct local_place {
	unsigned int host;
	const char *name;
	size_t len;
};

/* Is there room, or nobody who listens? */
static bool local_has_room(const void *what)
{
	const struct local_place *place = what;
	const struct local *to = local_find(place->host, place->name, place->len);

	return !to || !to->backlog || to->count <= to->backlog;
}

/* Who listens gets the other end by accept4() */
static void local_connect(struct local *local, struct local *to)
{
	struct file *file = file_make(FILE_LOCAL);
	struct local *other = local_make(file, true);

	file->users++;
	other->peer = local;
	other->pid = nodes[world.current].pid;
	local->peer = other;
	local->pid = nodes[to->file->node].pid;
	TAILQ_INSERT_TAIL(&to->waiting, other, link);
	to->count++;
	world.moved = true;
}

GATE(int, connect, int fd, const struct sockaddr *addr, socklen_t len)
{
	struct file *file = file_of(fd);
	struct local_place place;
	struct local *to;

	if (!file || !file->local)
		return gate_failed(EBADF);
	place.host = file->local->host;
	place.len = local_name(addr, len, &place.name);
	if (!local_has_room(&place) &&
	    (!file->local->blocks ||
	     !fiber_wait(local_has_room, &place, local_end(file->local, true))))
		return gate_failed(EAGAIN);
	to = local_find(place.host, place.name, place.len);
	if (!to || !to->backlog)
		return gate_failed(ECONNREFUSED);
	local_connect(file->local, to);
	return 0;
}

GATE(int, accept4, int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct file *file = file_of(fd);
	struct local *other;
	int conn;

	if (!file || !file->local)
		return gate_failed(EBADF);
	if (!fiber_wait(local_ready, file, file->local->blocks ? UINT64_MAX : world.now))
		return gate_failed(EAGAIN);
	gate_closes(flags);
	other = TAILQ_FIRST(&file->local->waiting);
	if (!other)
		return gate_failed(EINVAL);
	conn = fd_new(other->file);
	if (conn < 0)
		return conn;
	TAILQ_REMOVE(&file->local->waiting, other, link);
	file->local->count--;
	other->file->node = world.current;
	file_put(other->file);
	return conn;
}

GATE(int, shutdown, int fd, int how)
{
	struct file *file = file_of(fd);

	if (!file || !file->local)
		return gate_failed(EBADF);
	file->local->ended = true;
	file->local->backlog = 0;
	file->local->len = 0;
	return 0;
}

GATE(int, setsockopt, int fd, int level, int name, const void *value, socklen_t len)
{
	struct file *file = file_of(fd);
	struct timeval span;

	if (!file || !file->local)
		return 0;
	memcpy(&span, value, sizeof span);
	file->local->patience[name == SO_SNDTIMEO] =
		(uint64_t) span.tv_sec * SIM_S + (uint64_t) span.tv_usec * 1000;
	return 0;
}

GATE(int, getsockopt, int fd, int level, int name, void *value, socklen_t *len)
{
	const struct file *file = file_of(fd);
	struct ucred peer = {.uid = 1000, .gid = 1000};

	if (!file || !file->local || level != SOL_SOCKET || name != SO_PEERCRED)
		return gate_failed(ENOPROTOOPT);
	peer.pid = (pid_t) file->local->pid;
	memcpy(value, &peer, sizeof peer);
	return 0;
}

/* ---- messages ---- */

static ssize_t local_send(int fd, const void *bytes, size_t len, struct file *passed)
{
	struct file *file = file_of(fd);
	struct local_message *message;

	if (!file || !file->local)
		return gate_failed(EBADF);
	if (!file->local->peer)
		return gate_failed(EPIPE);
	message = calloc(1, sizeof *message);
	if (len > sizeof message->bytes)
		world_fail("n%u: a message of %zu bytes to a local socket", world.current, len);
	memcpy(message->bytes, bytes, len);
	message->len = len;
	lie_local(message->bytes, &message->len);
	message->passed = passed;
	if (passed)
		passed->users++;
	TAILQ_INSERT_TAIL(&file->local->peer->messages, message, link);
	world.moved = true;
	return (ssize_t) len;
}

GATE(ssize_t, send, int fd, const void *buf, size_t len, int flags)
{
	return local_send(fd, buf, len, NULL);
}

GATE(ssize_t, sendmsg, int fd, const struct msghdr *head, int flags)
{
	const struct cmsghdr *part = head->msg_control ? CMSG_FIRSTHDR(head) : NULL;
	struct file *passed = NULL;
	int what;

	if (part) {
		memcpy(&what, CMSG_DATA(part), sizeof what);
		passed = file_of(what);
		if (!passed)
			return gate_failed(EBADF);
	}
	return local_send(fd, head->msg_iov->iov_base, head->msg_iov->iov_len, passed);
}

/* A descriptor that finds no room is not there, and the kernel says so */
static void local_pass(struct local_message *message, struct msghdr *head, int flags)
{
	struct cmsghdr *part = CMSG_FIRSTHDR(head);
	const int fd = message->passed && part ? fd_new(message->passed) : -1;

	gate_closes(flags & MSG_CMSG_CLOEXEC || fd < 0 ? O_CLOEXEC : 0);
	head->msg_flags = message->passed && fd < 0 ? MSG_CTRUNC : 0;
	if (fd >= 0) {
		part->cmsg_level = SOL_SOCKET;
		part->cmsg_type = SCM_RIGHTS;
		part->cmsg_len = CMSG_LEN(sizeof fd);
		memcpy(CMSG_DATA(part), &fd, sizeof fd);
	}
	head->msg_controllen = fd < 0 ? 0 : CMSG_SPACE(sizeof fd);
}

ssize_t local_receive(struct file *file, struct msghdr *head, int flags)
{
	struct local *local = file->local;
	const bool waits = local->blocks && !(flags & MSG_DONTWAIT);
	struct local_message *message;
	size_t len, room = head->msg_iov->iov_len;

	if (!fiber_wait(local_ready, file, waits ? local_end(local, false) : world.now))
		return gate_failed(EAGAIN);
	message = TAILQ_FIRST(&local->messages);
	if (!message)
		return 0;
	TAILQ_REMOVE(&local->messages, message, link);
	len = message->len;
	memcpy(head->msg_iov->iov_base, message->bytes, len < room ? len : room);
	local_pass(message, head, flags);
	if (message->passed)
		file_put(message->passed);
	free(message);
	return (ssize_t) (flags & MSG_TRUNC || len < room ? len : room);
}

GATE(ssize_t, recv, int fd, void *buf, size_t len, int flags)
{
	struct iovec iov = {buf, len};
	struct msghdr head = {.msg_iov = &iov, .msg_iovlen = 1};
	struct file *file = file_of(fd);

	return file && file->local ? local_receive(file, &head, flags) : gate_failed(EBADF);
}
