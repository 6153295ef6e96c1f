/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The gate: descriptors, and what waits for them. See gate.h.
 *
 * A host is a number of processes: they have its loopback address, its ports, and see each other's numbers. Each process
 * has an IP address of its own besides.
 */
#include "gate_file.h"
#include "exhaust.h"
#include "fiber.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Datagrams that no one has read are lost from so many on */
#define SOCKET_ROOM 256

static TAILQ_HEAD(, file) files = TAILQ_HEAD_INITIALIZER(files);
static struct file *fds[SIM_NODES][SIM_FDS];
/* Free numbers from there on are the application's, which has files there */
static int tops[SIM_NODES] = {[0 ... SIM_NODES - 1] = SIM_FDS};
static struct datagrams under_way = TAILQ_HEAD_INITIALIZER(under_way);
static uint64_t lost_until;
static uint16_t last_port;

/* ---- the table ---- */

struct file *file_of(int fd)
{
	return fd < 0 || fd >= SIM_FDS ? NULL : fds[world.current][fd];
}

/* The lowest free number, as the kernel has it */
void gate_closes(int flags)
{
	if (!(flags & O_CLOEXEC))
		world_fail("n%u: it opens a descriptor that exec() does not close",
			   world.current);
}

int fd_new(struct file *file)
{
	int fd = 3;

	while (fd < tops[world.current] && fds[world.current][fd])
		fd++;
	if (fd == tops[world.current])
		return gate_failed(EMFILE);
	fds[world.current][fd] = file;
	file->users++;
	return fd;
}

static void datagrams_free(struct datagrams *queue)
{
	struct datagram *datagram;

	while ((datagram = TAILQ_FIRST(queue))) {
		TAILQ_REMOVE(queue, datagram, link);
		free(datagram);
	}
}

/* It leaves all sets */
static void file_unwatch(const struct file *file)
{
	struct file *set;

	TAILQ_FOREACH(set, &files, link) {
		struct watch *watch, *next;

		for (watch = LIST_FIRST(&set->watches); watch; watch = next) {
			next = LIST_NEXT(watch, link);
			if (watch->file != file && set != file)
				continue;
			LIST_REMOVE(watch, link);
			free(watch);
		}
	}
}

static void file_free(struct file *file)
{
	file_unwatch(file);
	exhaust_forget(file);
	datagrams_free(&file->queue);
	datagrams_free(&file->errors);
	if (file->real >= 0)
		close(file->real);
	if (file->memory)
		gpu_memory_put(file->memory);
	if (file->local)
		local_free(file);
	TAILQ_REMOVE(&files, file, link);
	free(file);
}

struct file *file_make(enum file_kind kind)
{
	struct file *file = calloc(1, sizeof *file);

	file->kind = kind;
	file->node = world.current;
	file->real = -1;
	LIST_INIT(&file->watches);
	TAILQ_INIT(&file->queue);
	TAILQ_INIT(&file->errors);
	TAILQ_INSERT_TAIL(&files, file, link);
	return file;
}

int file_new(enum file_kind kind, struct file **to)
{
	struct file *file = file_make(kind);
	int fd = fd_new(file);

	if (fd < 0)
		file_free(file);
	else
		*to = file;
	return fd;
}

void file_put(struct file *file)
{
	if (!--file->users)
		file_free(file);
}

static void fd_close(unsigned int node, int fd)
{
	struct file *file = fds[node][fd];

	fds[node][fd] = NULL;
	file_put(file);
}

GATE(int, close, int fd)
{
	if (!file_of(fd))
		world_fail("n%u: it closes descriptor %d, which is not open", world.current,
			   fd);
	fd_close(world.current, fd);
	return 0;
}

/* The application has opened so much that no more than @spare numbers are free; negative: not any more */
void gate_fill(unsigned int node, int spare)
{
	int top = SIM_FDS;

	for (int fd = 3; spare >= 0 && fd < top; fd++) {
		if (!fds[node][fd] && --spare < 0)
			top = fd;
	}
	tops[node] = top;
}

unsigned int gate_open_count(unsigned int node)
{
	unsigned int count = 0;

	for (int fd = 0; fd < SIM_FDS; fd++)
		count += fds[node][fd] != NULL;
	return count;
}

void gate_close_all(unsigned int node)
{
	tops[node] = SIM_FDS;
	for (int fd = 0; fd < SIM_FDS; fd++) {
		if (fds[node][fd])
			fd_close(node, fd);
	}
}

/* ---- waiting ---- */

static bool file_readable(const struct file *file)
{
	const struct watch *watch;

	switch (file->kind) {
	case FILE_EVENT:
		return file->count;
	case FILE_TIMER:
		return file->until && world.now >= file->until;
	case FILE_SET:
		LIST_FOREACH(watch, &file->watches, link) {
			if (file_readable(watch->file))
				return true;
		}
		return false;
	case FILE_SOCKET:
		return !TAILQ_EMPTY(&file->queue) || !TAILQ_EMPTY(&file->errors);
	case FILE_LOCAL:
		return local_readable(file);
	case FILE_PROCESS:
		return nodes[file->process].state == NODE_DEAD ||
		       nodes[file->process].life != file->life;
	case FILE_CORE:
		return file->readable(file->of);
	default:
		return true;
	}
}

/* The first moment at which a timer of what is looked at is due [ns] */
static uint64_t file_due(const struct file *file)
{
	const struct watch *watch;
	uint64_t due = file->kind == FILE_TIMER && file->until ? file->until : UINT64_MAX;

	LIST_FOREACH(watch, &file->watches, link) {
		const uint64_t at = file_due(watch->file);

		due = at < due ? at : due;
	}
	return due;
}

struct polled {
	struct pollfd *fds;
	nfds_t count;
};

static int poll_look(const struct polled *polled)
{
	int ready = 0;

	for (nfds_t i = 0; i < polled->count; i++) {
		struct pollfd *at = &polled->fds[i];
		const struct file *file = file_of(at->fd);

		at->revents = 0;
		if (at->fd >= 0 && at->fd < tops[world.current] && !file)
			at->revents = POLLNVAL;
		else if (file && at->events & POLLIN && file_readable(file))
			at->revents = POLLIN;
		ready += at->revents != 0;
	}
	return ready;
}

static bool poll_ready(const void *polled)
{
	return poll_look(polled);
}

GATE(int, poll, struct pollfd *fds_, nfds_t count, int timeout)
{
	const struct polled polled = {fds_, count};
	const uint64_t end = gate_until(timeout);
	int ready = poll_look(&polled);

	while (!ready && world.now < end) {
		uint64_t until = end;

		for (nfds_t i = 0; i < count; i++) {
			const struct file *file = file_of(fds_[i].fd);
			const uint64_t due = file ? file_due(file) : UINT64_MAX;

			until = due < until ? due : until;
		}
		fiber_wait(poll_ready, &polled, until);
		ready = poll_look(&polled);
	}
	return ready;
}

/* ---- epoll ---- */

GATE(int, epoll_create1, int flags)
{
	struct file *set;

	gate_closes(flags);
	return file_new(FILE_SET, &set);
}

static struct watch *watch_find(const struct file *set, int fd)
{
	struct watch *watch;

	LIST_FOREACH(watch, &set->watches, link) {
		if (watch->fd == fd && watch->file == file_of(fd))
			return watch;
	}
	return NULL;
}

GATE(int, epoll_ctl, int set_fd, int op, int fd, struct epoll_event *event)
{
	struct file *set = file_of(set_fd), *file = file_of(fd);
	struct watch *watch;

	if (!set || !file)
		return gate_failed(EBADF);
	watch = watch_find(set, fd);
	if (op == EPOLL_CTL_ADD && watch)
		return gate_failed(EEXIST);
	if (op != EPOLL_CTL_ADD && !watch)
		return gate_failed(ENOENT);
	if (op == EPOLL_CTL_DEL) {
		LIST_REMOVE(watch, link);
		free(watch);
		return 0;
	}
	if (!watch) {
		watch = calloc(1, sizeof *watch);
		LIST_INSERT_HEAD(&set->watches, watch, link);
	}
	watch->file = file;
	watch->fd = fd;
	watch->events = event->events;
	watch->data = event->data;
	return 0;
}

static bool set_ready(const void *set)
{
	return file_readable(set);
}

GATE(int, epoll_wait, int set_fd, struct epoll_event *events, int room, int timeout)
{
	struct file *set = file_of(set_fd);
	const struct watch *watch;
	int count = 0;

	if (!set)
		return gate_failed(EBADF);
	/* another thread may close it meanwhile */
	set->users++;
	fiber_wait(set_ready, set, gate_until(timeout));
	LIST_FOREACH(watch, &set->watches, link) {
		if (count < room && file_readable(watch->file))
			events[count++] =
				(struct epoll_event){.events = EPOLLIN, .data = watch->data};
	}
	file_put(set);
	return count;
}

/* ---- events and timers ---- */

GATE(int, eventfd, unsigned int count, int flags)
{
	struct file *file;
	int fd = file_new(FILE_EVENT, &file);

	gate_closes(flags);
	if (fd >= 0)
		file->count = count;
	return fd;
}

GATE(ssize_t, write, int fd, const void *buf, size_t len)
{
	struct file *file = file_of(fd);
	uint64_t add;

	if (!file)
		return gate_failed(EBADF);
	if (file->kind != FILE_EVENT || len != sizeof add)
		world_fail("n%u: it writes to descriptor %d", world.current, fd);
	memcpy(&add, buf, sizeof add);
	file->count += add;
	world.moved = true;
	return (ssize_t) len;
}

GATE(ssize_t, read, int fd, void *buf, size_t len)
{
	struct file *file = file_of(fd);
	uint64_t count;

	if (!file)
		return gate_failed(EBADF);
	if (len != sizeof count || (file->kind != FILE_EVENT && file->kind != FILE_TIMER))
		world_fail("n%u: it reads from descriptor %d", world.current, fd);
	if (!file_readable(file))
		return gate_failed(EAGAIN);
	count = file->kind == FILE_EVENT ? file->count : 1;
	memcpy(buf, &count, sizeof count);
	file->count = 0;
	file->until = 0;
	return (ssize_t) len;
}

GATE(int, eventfd_write, int fd, eventfd_t add)
{
	return sim_write(fd, &add, sizeof add) == sizeof add ? 0 : -1;
}

GATE(int, eventfd_read, int fd, eventfd_t *count)
{
	return sim_read(fd, count, sizeof *count) == sizeof *count ? 0 : -1;
}

GATE(int, timerfd_create, int clock, int flags)
{
	struct file *timer;

	gate_closes(flags);
	return file_new(FILE_TIMER, &timer);
}

GATE(int, timerfd_settime, int fd, int flags, const struct itimerspec *value,
     struct itimerspec *before)
{
	const uint64_t span =
		(uint64_t) value->it_value.tv_sec * SIM_S + (uint64_t) value->it_value.tv_nsec;

	file_of(fd)->until = span ? world.now + span : 0;
	return 0;
}

/* ---- the core ---- */

int gate_core_fd(bool (*readable)(void *of), void *of)
{
	struct file *file;
	int fd = file_new(FILE_CORE, &file);

	if (fd >= 0) {
		file->readable = readable;
		file->of = of;
	}
	return fd;
}

/* ---- processes ---- */

int sim_pidfd(long pid);
int sim_pidfd(long pid)
{
	const unsigned int node = gate_node(pid);
	struct file *file;
	int fd;

	if (node == SIM_NODES)
		return gate_failed(ESRCH);
	fd = file_new(FILE_PROCESS, &file);
	if (fd >= 0) {
		file->process = node;
		file->life = nodes[node].life;
	}
	return fd;
}

/* ---- shared pages ---- */

int gate_real_fd(int fd)
{
	const struct file *file = file_of(fd);

	return file && file->kind == FILE_PAGES ? file->real : -1;
}

bool gate_is_own(int fd)
{
	const struct file *file = file_of(fd);

	return file && file->node == world.current;
}

GATE(int, memfd_create, const char *name, unsigned int flags)
{
	struct file *file;
	int fd = file_new(FILE_PAGES, &file);

	gate_closes(flags & MFD_CLOEXEC ? O_CLOEXEC : 0);
	if (fd >= 0)
		file->real = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

/* Pages are short, for so long */
static uint64_t short_until;

void gate_short(uint64_t until)
{
	short_until = until;
}

GATE(int, posix_fallocate, int fd, off_t from, off_t len)
{
	if (world.now < short_until)
		return ENOSPC;
	return posix_fallocate(gate_real_fd(fd), from, len);
}

GATE(int, fcntl, int fd, int command, ...)
{
	va_list list;
	int arg;

	va_start(list, command);
	arg = va_arg(list, int);
	va_end(list);
	if (command == F_DUPFD_CLOEXEC && file_of(fd))
		return fd_new(file_of(fd));
	return fcntl(gate_real_fd(fd), command, arg);
}

GATE(int, fstat, int fd, struct stat *stat)
{
	return gate_real_fd(fd) < 0 ? gate_failed(EBADF) : fstat(gate_real_fd(fd), stat);
}

/* What a process of the host has open */
GATE(int, open, const char *path, int flags, ...)
{
	unsigned int pid, fd, node;
	const bool self = sscanf(path, "/proc/self/fd/%u", &fd) == 1;

	gate_closes(flags);
	if (!self && sscanf(path, "/proc/%u/fd/%u", &pid, &fd) != 2)
		return gate_failed(ENOENT);
	node = self ? world.current : gate_node(pid);
	if (node == SIM_NODES || fd >= SIM_FDS || !fds[node][fd])
		return gate_failed(ENOENT);
	return fd_new(fds[node][fd]);
}

/* ---- the GPU's memory ---- */

int gate_memory(void *memory)
{
	struct file *file;
	int fd = file_new(FILE_MEMORY, &file);

	if (fd >= 0)
		file->memory = memory;
	return fd;
}

void *gate_memory_of(int fd)
{
	const struct file *file = file_of(fd);

	return file ? file->memory : NULL;
}

/* ---- datagrams ---- */

/* An address in either form, with the host that has it as the current process sees that */
static struct place place_get(const void *addr)
{
	const struct sockaddr_in6 *in6 = addr;
	const struct sockaddr_in *in = addr;
	struct place place;
	unsigned int node;

	if (in6->sin6_family == AF_INET6) {
		place.port = ntohs(in6->sin6_port);
		memcpy(&place.ip, in6->sin6_addr.s6_addr + 12, sizeof place.ip);
	} else {
		place.port = ntohs(in->sin_port);
		place.ip = in->sin_addr.s_addr;
	}
	node = ntohl(place.ip) - SIM_IP;
	place.host = node_host(node < SIM_NODES ? node : world.current);
	return place;
}

static void place_put(const struct place *place, sa_family_t family, void *addr)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(place->port)};
	const struct sockaddr_in in = {.sin_family = AF_INET,
				       .sin_port = htons(place->port),
				       .sin_addr.s_addr = place->ip};

	if (family == AF_INET) {
		memcpy(addr, &in, sizeof in);
		return;
	}
	memset(in6.sin6_addr.s6_addr + 10, 0xff, 2);
	memcpy(in6.sin6_addr.s6_addr + 12, &place->ip, sizeof place->ip);
	memcpy(addr, &in6, sizeof in6);
}

static struct file *socket_at(const struct place *place)
{
	struct file *file;

	TAILQ_FOREACH(file, &files, link) {
		if (file->kind == FILE_SOCKET && file->place.port == place->port &&
		    file->place.host == place->host && file->place.ip == place->ip)
			return file;
	}
	return NULL;
}

GATE(int, socket, int family, int type, int protocol)
{
	struct file *file;
	int fd;

	gate_closes(type);
	if (family == AF_UNIX)
		return local_new(type);
	fd = file_new(FILE_SOCKET, &file);
	if (fd >= 0)
		file->family = (sa_family_t) family;
	return fd;
}

GATE(int, bind, int fd, const struct sockaddr *addr, socklen_t len)
{
	struct file *file = file_of(fd);

	if (file->local)
		return local_bind(file, addr, len);
	file->place = place_get(addr);
	/* few, so that another process soon has the port of one that has ended */
	do {
		last_port = last_port % SIM_PORTS + 1;
		file->place.port = (uint16_t) (20000 + last_port);
	} while (socket_at(&file->place) != file);
	return 0;
}

GATE(int, getsockname, int fd, struct sockaddr *addr, socklen_t *len)
{
	const struct file *file = file_of(fd);

	place_put(&file->place, file->family, addr);
	return 0;
}

static void datagram_send(struct file *from, struct datagram datagram)
{
	const bool near = datagram.from.host == datagram.to.host;
	struct datagram *copy;

	if (!near && !world.calm && !exhaust_on && (world.now < lost_until || !world_upto(12)))
		return;
	datagram.at = exhaust_on ? exhaust_ticket(TICKET_DATAGRAM, from)
		      : near     ? world.now
				 : world.now + 20000 + world_upto(200000);
	copy = malloc(sizeof *copy);
	*copy = datagram;
	TAILQ_INSERT_TAIL(&under_way, copy, link);
	/* within a host it is there at once */
	if (near)
		world_datagrams();
}

GATE(ssize_t, sendto, int fd, const void *buf, size_t len, int flags,
     const struct sockaddr *addr, socklen_t addr_len)
{
	struct file *file = file_of(fd);
	struct datagram datagram;

	if (!file)
		return gate_failed(EBADF);
	if (world.child)
		world_fail("n%u: a child of fork() sends", world.current);
	if (file->failed) {
		const int err = file->failed;

		file->failed = 0;
		return gate_failed(err);
	}
	datagram = (struct datagram){.from = file->place, .to = place_get(addr), .len = len};
	if (len > sizeof datagram.bytes)
		return gate_failed(EMSGSIZE);
	memcpy(datagram.bytes, buf, len);
	datagram.lied = lie_datagram(datagram.bytes, &datagram.len);
	datagram_send(file, datagram);
	return (ssize_t) len;
}

/* It gets to its host. Where nobody is there the host says so */
static void datagram_arrive(struct datagram *datagram)
{
	struct file *file = socket_at(&datagram->to), *from;
	unsigned int waiting = 0;
	struct datagram *other;

	if (!file) {
		from = datagram->error ? NULL : socket_at(&datagram->from);
		datagram->error = true;
		if (from) {
			const struct place to = datagram->to;

			datagram->to = datagram->from;
			datagram->from = to;
			datagram_send(from, *datagram);
		}
		free(datagram);
		return;
	}
	TAILQ_FOREACH(other, &file->queue, link)
		waiting++;
	world.moved = true;
	if (datagram->error) {
		file->failed = ECONNREFUSED;
		TAILQ_INSERT_TAIL(&file->errors, datagram, link);
	} else if (waiting < SOCKET_ROOM) {
		TAILQ_INSERT_TAIL(&file->queue, datagram, link);
	} else {
		free(datagram);
	}
}

void world_datagrams(void)
{
	struct datagram *datagram, *next;

	for (datagram = TAILQ_FIRST(&under_way); datagram; datagram = next) {
		next = TAILQ_NEXT(datagram, link);
		if (world_later(datagram->at))
			continue;
		TAILQ_REMOVE(&under_way, datagram, link);
		datagram_arrive(datagram);
		/* an answer may have changed the list */
		next = TAILQ_FIRST(&under_way);
	}
}

void world_lose_datagrams(uint64_t span)
{
	lost_until = world.now + span;
}

uint64_t world_datagrams_due(void)
{
	const struct datagram *datagram;
	uint64_t due = UINT64_MAX;

	TAILQ_FOREACH(datagram, &under_way, link) {
		if (datagram->at < due)
			due = datagram->at;
	}
	return due;
}

/* What came back tells what it was, and why */
static void error_put(struct msghdr *head, sa_family_t family)
{
	const struct sock_extended_err error = {.ee_errno = ECONNREFUSED};
	struct cmsghdr *part = CMSG_FIRSTHDR(head);

	part->cmsg_level = family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP;
	part->cmsg_type = family == AF_INET6 ? IPV6_RECVERR : IP_RECVERR;
	part->cmsg_len = CMSG_LEN(sizeof error);
	memcpy(CMSG_DATA(part), &error, sizeof error);
	head->msg_controllen = CMSG_SPACE(sizeof error);
}

GATE(ssize_t, recvmsg, int fd, struct msghdr *head, int flags)
{
	struct file *file = file_of(fd);
	struct datagrams *queue;
	struct datagram *datagram;
	size_t len;

	if (!file)
		return gate_failed(EBADF);
	if (file->local)
		return local_receive(file, head, flags);
	queue = flags & MSG_ERRQUEUE ? &file->errors : &file->queue;
	if (file->failed && queue == &file->queue) {
		file->failed = 0;
		return gate_failed(ECONNREFUSED);
	}
	datagram = TAILQ_FIRST(queue);
	if (!datagram)
		return gate_failed(EAGAIN);
	TAILQ_REMOVE(queue, datagram, link);
	len = datagram->len < head->msg_iov->iov_len ? datagram->len : head->msg_iov->iov_len;
	memcpy(head->msg_iov->iov_base, datagram->bytes, len);
	place_put(&datagram->from, file->family, head->msg_name);
	head->msg_controllen = 0;
	if (datagram->error) {
		head->msg_controllen = 512;
		error_put(head, file->family);
	} else if (!datagram->lied) {
		node_heard(datagram->bytes, datagram->len, datagram->to.port,
			   socket_at(&datagram->from) ? socket_at(&datagram->from)->node
						      : SIM_NODES,
			   datagram->from.port);
	}
	free(datagram);
	return (ssize_t) len;
}
