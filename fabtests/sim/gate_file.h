/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What descriptors stand for: gate_fd.c has the most of it, gate_local.c local sockets. See gate.h. */
#ifndef P2P_SIM_GATE_FILE_H
#define P2P_SIM_GATE_FILE_H

#include "gate.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

struct local;

enum file_kind {
	FILE_EVENT,
	FILE_TIMER,
	FILE_SET,
	FILE_SOCKET,
	FILE_PAGES,
	FILE_PROCESS,
	FILE_MEMORY,
	FILE_LOCAL,
	FILE_CORE
};

/* Where datagrams come from and go to */
struct place {
	unsigned int host;
	in_addr_t ip;
	uint16_t port;
};

/* @error: the host that it was for says that nobody is there; @lied: it was changed (lie.c) */
struct datagram {
	uint64_t at;
	struct place from, to;
	bool error, lied;
	size_t len;
	uint8_t bytes[64];
	TAILQ_ENTRY(datagram) link;
};

TAILQ_HEAD(datagrams, datagram);

struct watch {
	struct file *file;
	int fd;
	uint32_t events;
	epoll_data_t data;
	LIST_ENTRY(watch) link;
};

/**
 * struct file - what a descriptor stands for.
 * @users:	descriptors; @sets: epoll instances that watch it
 * @count:	of an eventfd; @until: of a timerfd [ns], 0: it is not set
 * @watches:	of an epoll instance
 * @node, @place, @family: of a socket; @failed: its next call says so; @errors: what came back
 * @real:	the system's descriptor, of shared pages
 * @process, @life: of a process's descriptor
 * @memory:	of the GPU's
 * @local:	of a local socket
 * @readable, @of: of a descriptor of the core's
 */
struct file {
	enum file_kind kind;
	unsigned int users;
	uint64_t count;
	uint64_t until;
	LIST_HEAD(, watch) watches;
	unsigned int node;
	struct place place;
	sa_family_t family;
	int failed;
	struct datagrams queue, errors;
	int real;
	unsigned int process, life;
	void *memory;
	struct local *local;
	bool (*readable)(void *of);
	void *of;
	TAILQ_ENTRY(file) link;
};

/* The current process's, or NULL */
struct file *file_of(int fd);
/* A new descriptor of the current process's; negative: errno says why there is none */
int file_new(enum file_kind kind, struct file **to);
int fd_new(struct file *file);
/* One that no descriptor stands for yet */
struct file *file_make(enum file_kind kind);
/* Somebody has it no more */
void file_put(struct file *file);

/* ---- local sockets (gate_local.c) ---- */

int local_new(int flags);
void local_free(struct file *file);
bool local_readable(const struct file *file);
int local_bind(struct file *file, const struct sockaddr *addr, socklen_t len);
ssize_t local_receive(struct file *file, struct msghdr *head, int flags);

#endif /* P2P_SIM_GATE_FILE_H */
