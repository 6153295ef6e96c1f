/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages between the processes of a job that need nobody within MPI: one endpoint of libfabric's, and one thread that
 * alone uses it. Messages are in host memory. Those from one process to another arrive in the order in which they were
 * given to service_send().
 */
#ifndef P2P_MPI_SERVICE_H
#define P2P_MPI_SERVICE_H

#include <rdma/fabric.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

/* Bytes of a message, at most */
#define SERVICE_LONGEST (256u << 10)

/* A process's address, as bytes that others may be told */
struct service_address {
	size_t len;
	char bytes[120];
};

/**
 * struct service_message - on its way; service_send() takes it.
 * @context:	libfabric's
 */
struct service_message {
	struct fi_context2 context;
	STAILQ_ENTRY(service_message) entry;
	fi_addr_t to;
	size_t len;
	char data[] __attribute__((aligned(16)));
};

/* The thread calls these: a message has come; one could not be sent. */
struct service_user {
	void (*arrived)(const void *data, size_t len);
	void (*unsent)(const void *data, fi_addr_t to);
};

/* Begins, if it has not begun. Returns an error class with @why, or MPI_SUCCESS with this process's address. */
int service_start(const struct service_user *user, struct service_address *own,
		  const char **why);
void service_stop(void);

/* How to reach a process: the same for the same address. False: libfabric cannot. */
bool service_peer(const struct service_address *address, fi_addr_t *peer);

/* Memory for a message of @len bytes, or NULL */
struct service_message *service_message(size_t len);
void service_send(struct service_message *message, fi_addr_t to);

#endif /* P2P_MPI_SERVICE_H */
