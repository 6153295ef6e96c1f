/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* An endpoint, its thread, and a ring of receives. See service.h. */
#include "service.h"

#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "base/libfabric.h"
#include "base/thread.h"
#include "call.h"

/* Receives that wait at a time */
#define SERVICE_RING 16
/* A core may have work that no descriptor tells of: the thread looks this often [ms]. */
#define SERVICE_LOOK 10
/* While messages wait for room */
#define SERVICE_LOOK_SOON 1

/* A receive. They complete in any order, and are handed on in the order in which they were posted. */
struct service_receive {
	struct fi_context2 context;
	bool done;
	size_t len;
	char data[SERVICE_LONGEST] __attribute__((aligned(16)));
};

struct service_peer {
	SLIST_ENTRY(service_peer) entry;
	struct service_address address;
	fi_addr_t addr;
};

/**
 * @lock:	guards @waiting, @peers and the start
 * @waiting:	messages that have not been posted
 * @next:	the receive that is handed on next
 */
static struct {
	pthread_mutex_t lock;
	bool running, stopping;
	struct service_user user;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct service_address own;
	int cq_fd, wake_fd;
	pthread_t thread;
	STAILQ_HEAD(, service_message) waiting;
	SLIST_HEAD(, service_peer) peers;
	struct service_receive *ring;
	unsigned int next;
} service = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake_fd = -1};

/* ---- messages ---- */

struct service_message *service_message(size_t len)
{
	struct service_message *message = NULL;

	if (posix_memalign((void **) &message, 16, sizeof *message + len))
		return NULL;
	message->len = len;
	return message;
}

static void service_wake(void)
{
	const uint64_t one = 1;

	/* it fails if it has been woken already */
	if (write(service.wake_fd, &one, sizeof one) < 0)
		return;
}

void service_send(struct service_message *message, fi_addr_t to)
{
	bool first;

	message->to = to;
	pthread_mutex_lock(&service.lock);
	first = STAILQ_EMPTY(&service.waiting);
	STAILQ_INSERT_TAIL(&service.waiting, message, entry);
	pthread_mutex_unlock(&service.lock);
	/* for others it is awake, or looks again soon */
	if (first)
		service_wake();
}

static void service_unsent(struct service_message *message)
{
	service.user.unsent(message->data, message->to);
	free(message);
}

/* Posts what waits. Returns whether some still does. */
static bool service_post(void)
{
	struct service_message *message;
	ssize_t ret = 0;

	for (;;) {
		pthread_mutex_lock(&service.lock);
		message = STAILQ_FIRST(&service.waiting);
		if (message)
			STAILQ_REMOVE_HEAD(&service.waiting, entry);
		pthread_mutex_unlock(&service.lock);
		if (!message)
			return false;
		ret = fi_send(service.ep, message->data, message->len, NULL, message->to,
			      message);
		if (ret == -FI_EAGAIN)
			break;
		if (ret)
			service_unsent(message);
	}
	pthread_mutex_lock(&service.lock);
	STAILQ_INSERT_HEAD(&service.waiting, message, entry);
	pthread_mutex_unlock(&service.lock);
	return true;
}

/* ---- receives ---- */

static void service_receive_post(struct service_receive *receive)
{
	receive->len = 0;
	/* the ring does not stop at one that cannot be posted: it is tried again when its turn comes */
	receive->done = fi_recv(service.ep, receive->data, sizeof receive->data, NULL,
				FI_ADDR_UNSPEC, receive);
}

static bool service_is_receive(const void *context)
{
	return (const char *) context >= (const char *) service.ring &&
	       (const char *) context < (const char *) (service.ring + SERVICE_RING);
}

static void service_received(struct service_receive *receive, size_t len)
{
	receive->done = true;
	receive->len = len;
}

/* Hands on what has come, once around the ring at most: maybe nothing can be posted. */
static void service_hand_on(void)
{
	for (int i = 0; i < SERVICE_RING && service.ring[service.next].done; i++) {
		struct service_receive *next = &service.ring[service.next];

		if (next->len)
			service.user.arrived(next->data, next->len);
		service.next = (service.next + 1) % SERVICE_RING;
		service_receive_post(next);
	}
}

/* ---- the thread ---- */

static void service_failed(void)
{
	struct fi_cq_err_entry error = {0};

	if (fi_cq_readerr(service.cq, &error, 0) != 1)
		return;
	if (!service_is_receive(error.op_context))
		service_unsent(error.op_context);
	else if (error.err != FI_ECANCELED)
		service_received(error.op_context, 0);
}

/* Takes what has ended. Returns whether there was anything. */
static bool service_progress(void)
{
	struct fi_cq_msg_entry entries[SERVICE_RING];
	const ssize_t count = fi_cq_read(service.cq, entries, SERVICE_RING);

	if (count == -FI_EAVAIL)
		service_failed();
	for (ssize_t i = 0; i < count; i++) {
		if (service_is_receive(entries[i].op_context))
			service_received(entries[i].op_context, entries[i].len);
		else
			free(entries[i].op_context);
	}
	return count > 0 || count == -FI_EAVAIL;
}

static void service_sleep(bool soon)
{
	struct fid *fids[] = {&service.cq->fid};
	struct pollfd fds[] = {{.fd = service.wake_fd, .events = POLLIN},
			       {.fd = service.cq_fd, .events = POLLIN}};
	uint64_t woken;

	if (fi_trywait(service.fabric, fids, 1))
		return;
	poll(fds, 2, soon ? SERVICE_LOOK_SOON : SERVICE_LOOK);
	if (fds[0].revents && read(service.wake_fd, &woken, sizeof woken) < 0)
		return;
}

static void *service_run(void *unused)
{
	(void) unused;
	/* what the thread calls of MPI's goes straight there */
	call_enter();
	while (!__atomic_load_n(&service.stopping, __ATOMIC_ACQUIRE)) {
		const bool waiting = service_post();

		if (!service_progress())
			service_sleep(waiting);
		/* also without anything new: it may be time to post one again */
		service_hand_on();
	}
	return NULL;
}

/* ---- start and end ---- */

/* The provider that the MPI was told to use: of a list, the first one */
static char *service_provider(void)
{
	const char *found = call_providers();

	if (!found)
		found = getenv("FI_PROVIDER");
	return found && *found && *found != '^' ? strndup(found, strcspn(found, ",")) : NULL;
}

static bool service_find(void)
{
	struct fi_info *hints = lf.dupinfo(NULL);
	int ret;

	if (!hints)
		return false;
	hints->caps = FI_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->fabric_attr->prov_name = service_provider();
	ret = lf.getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, &service.info);
	lf.freeinfo(hints);
	return ret == 0;
}

static bool service_objects(void)
{
	struct fi_av_attr av = {.type = FI_AV_UNSPEC};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};

	service.own.len = sizeof service.own.bytes;
	return fi_fabric(service.info->fabric_attr, &service.fabric, NULL) == 0 &&
	       fi_domain(service.fabric, service.info, &service.domain, NULL) == 0 &&
	       fi_av_open(service.domain, &av, &service.av, NULL) == 0 &&
	       fi_cq_open(service.domain, &cq, &service.cq, NULL) == 0 &&
	       fi_endpoint(service.domain, service.info, &service.ep, NULL) == 0 &&
	       fi_ep_bind(service.ep, &service.av->fid, 0) == 0 &&
	       fi_ep_bind(service.ep, &service.cq->fid, FI_TRANSMIT | FI_RECV) == 0 &&
	       fi_enable(service.ep) == 0 &&
	       fi_getname(&service.ep->fid, service.own.bytes, &service.own.len) == 0 &&
	       fi_control(&service.cq->fid, FI_GETWAIT, &service.cq_fd) == 0;
}

static bool service_thread(void)
{
	service.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (service.wake_fd < 0 ||
	    posix_memalign((void **) &service.ring, 64, SERVICE_RING * sizeof *service.ring))
		return false;
	for (int i = 0; i < SERVICE_RING; i++)
		service_receive_post(&service.ring[i]);
	return thread_start(&service.thread, "p2p-mpi", service_run, NULL) == 0;
}

static void service_close(void)
{
	if (service.ep)
		fi_close(&service.ep->fid);
	if (service.cq)
		fi_close(&service.cq->fid);
	if (service.av)
		fi_close(&service.av->fid);
	if (service.domain)
		fi_close(&service.domain->fid);
	if (service.fabric)
		fi_close(&service.fabric->fid);
	if (service.info)
		lf.freeinfo(service.info);
	if (service.wake_fd >= 0)
		close(service.wake_fd);
	free(service.ring);
	service.ep = NULL;
	service.cq = NULL;
	service.av = NULL;
	service.domain = NULL;
	service.fabric = NULL;
	service.info = NULL;
	service.ring = NULL;
	service.wake_fd = -1;
}

int service_start(const struct service_user *user, struct service_address *own,
		  const char **why)
{
	bool fine;

	pthread_mutex_lock(&service.lock);
	fine = service.running;
	if (!fine) {
		STAILQ_INIT(&service.waiting);
		service.user = *user;
		fine = libfabric_bind() == 0 && service_find() && service_objects() &&
		       service_thread();
		service.running = fine;
		if (!fine)
			service_close();
	}
	*own = service.own;
	pthread_mutex_unlock(&service.lock);
	if (fine)
		return MPI_SUCCESS;
	*why = "libfabric has no reliable datagrams of the MPI's provider, for windows on GPU memory";
	return MPI_ERR_OTHER;
}

void service_stop(void)
{
	struct service_peer *peer;

	if (!service.running)
		return;
	__atomic_store_n(&service.stopping, true, __ATOMIC_RELEASE);
	service_wake();
	pthread_join(service.thread, NULL);
	service_close();
	while ((peer = SLIST_FIRST(&service.peers))) {
		SLIST_REMOVE_HEAD(&service.peers, entry);
		free(peer);
	}
	service.running = false;
}

bool service_peer(const struct service_address *address, fi_addr_t *addr)
{
	struct service_peer *peer;

	pthread_mutex_lock(&service.lock);
	SLIST_FOREACH(peer, &service.peers, entry)
	{
		if (peer->address.len == address->len &&
		    !memcmp(peer->address.bytes, address->bytes, address->len))
			break;
	}
	if (!peer && (peer = malloc(sizeof *peer))) {
		peer->address = *address;
		if (fi_av_insert(service.av, address->bytes, 1, &peer->addr, 0, NULL) == 1) {
			SLIST_INSERT_HEAD(&service.peers, peer, entry);
		} else {
			free(peer);
			peer = NULL;
		}
	}
	if (peer)
		*addr = peer->addr;
	pthread_mutex_unlock(&service.lock);
	return peer;
}
