/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The thread that carries messages between processes with windows on GPU memory, over a made-up core without room now and then. */
#include "unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "base/libfabric.h"
#include "call.h"
#include "service.h"

#define RING 16
/* Nothing here takes as long [ms] */
#define SOON 5000

/**
 * @receives:	that the core has, in the order in which they were posted
 * @ended:	what the thread has not been told yet; those without a context are errors of @failed
 * @no_receives: so many receives are refused
 * @refused:	what sends return
 * @arrived:	first letters of messages, in their order; @unsent: how many were not sent
 */
static struct {
	pthread_mutex_t lock;
	void *receives[RING], *bufs[RING];
	size_t count, end;
	struct fi_cq_msg_entry ended[RING];
	void *failed;
	int no_receives, fd;
	ssize_t refused;
	char arrived[64];
	size_t letters, unsent;
} core = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the rest of the library ---- */

const char *call_providers(void)
{
	return NULL;
}

bool call_enter(void)
{
	return true;
}

struct lf lf;

static struct fi_info *fake_dupinfo(const struct fi_info *info)
{
	static struct fi_ep_attr ep;
	static struct fi_tx_attr tx;
	static struct fi_rx_attr rx;
	static struct fi_domain_attr domain;
	static struct fi_fabric_attr fabric;
	static struct fi_info all;

	all = (struct fi_info){.ep_attr = &ep,
			       .tx_attr = &tx,
			       .rx_attr = &rx,
			       .domain_attr = &domain,
			       .fabric_attr = &fabric};
	return &all;
}

static int fake_getinfo(uint32_t version, const char *node, const char *name, uint64_t flags,
			const struct fi_info *hints, struct fi_info **info)
{
	*info = fake_dupinfo(NULL);
	return 0;
}

static void fake_freeinfo(struct fi_info *info)
{
	free(info->fabric_attr->prov_name);
	info->fabric_attr->prov_name = NULL;
}

int libfabric_bind(void)
{
	lf.dupinfo = fake_dupinfo;
	lf.getinfo = fake_getinfo;
	lf.freeinfo = fake_freeinfo;
	return 0;
}

/* ---- the core ---- */

static void fake_end(void *context, size_t len)
{
	const uint64_t one = 1;

	core.ended[core.end++] = (struct fi_cq_msg_entry){.op_context = context, .len = len};
	assert_int_equal(write(core.fd, &one, sizeof one), sizeof one);
}

static ssize_t fake_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
			 void *context)
{
	ssize_t ret = -FI_ENOMEM;

	pthread_mutex_lock(&core.lock);
	if (core.no_receives) {
		core.no_receives--;
	} else {
		assert_true(core.count < RING);
		core.bufs[core.count] = buf;
		core.receives[core.count++] = context;
		ret = 0;
	}
	pthread_mutex_unlock(&core.lock);
	return ret;
}

/* With 1 for what it returns, it is taken, and fails later. */
static ssize_t fake_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			 fi_addr_t to, void *context)
{
	ssize_t ret;

	pthread_mutex_lock(&core.lock);
	ret = core.refused;
	if (ret >= 0) {
		core.failed = ret ? context : NULL;
		fake_end(ret ? NULL : context, 0);
		ret = 0;
	}
	pthread_mutex_unlock(&core.lock);
	return ret;
}

static ssize_t fake_read(struct fid_cq *cq, void *buf, size_t count)
{
	ssize_t ret = -FI_EAGAIN;
	uint64_t woken;

	pthread_mutex_lock(&core.lock);
	if (core.failed) {
		ret = -FI_EAVAIL;
	} else if (core.end) {
		ret = (ssize_t) core.end;
		memcpy(buf, core.ended, core.end * sizeof core.ended[0]);
		core.end = 0;
		assert_int_equal(read(core.fd, &woken, sizeof woken), sizeof woken);
	}
	pthread_mutex_unlock(&core.lock);
	return ret;
}

static ssize_t fake_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
	pthread_mutex_lock(&core.lock);
	*entry = (struct fi_cq_err_entry){.op_context = core.failed, .err = FI_EIO};
	core.failed = NULL;
	core.end--;
	pthread_mutex_unlock(&core.lock);
	return 1;
}

static int fake_close(struct fid *fid)
{
	return 0;
}

static int fake_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
	return 0;
}

static int fake_control(struct fid *fid, int command, void *arg)
{
	if (command == FI_GETWAIT)
		*(int *) arg = core.fd;
	return 0;
}

static int fake_getname(struct fid *fid, void *addr, size_t *len)
{
	*len = 1;
	return 0;
}

static int fake_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *to,
		       uint64_t flags, void *context)
{
	*to = *(const char *) addr;
	return 1;
}

static struct fi_ops fake_ops = {.close = fake_close,
				 .bind = fake_bind,
				 .control = fake_control};
static struct fi_ops_msg fake_msg = {.recv = fake_recv, .send = fake_send};
static struct fi_ops_cm fake_cm = {.getname = fake_getname};
static struct fi_ops_cq fake_cq_ops = {.read = fake_read, .readerr = fake_readerr};
static struct fi_ops_av fake_av_ops = {.insert = fake_insert};

static int fake_av(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
		   void *context)
{
	static struct fid_av one = {.fid.ops = &fake_ops, .ops = &fake_av_ops};

	*av = &one;
	return 0;
}

static int fake_cq(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
		   void *context)
{
	static struct fid_cq one = {.fid.ops = &fake_ops, .ops = &fake_cq_ops};

	*cq = &one;
	return 0;
}

static int fake_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
		   void *context)
{
	static struct fid_ep one = {.fid.ops = &fake_ops, .cm = &fake_cm, .msg = &fake_msg};

	*ep = &one;
	return 0;
}

static struct fi_ops_domain fake_domain_ops = {.av_open = fake_av,
					       .cq_open = fake_cq,
					       .endpoint = fake_ep};

static int fake_domain(struct fid_fabric *fabric, struct fi_info *info,
		       struct fid_domain **domain, void *context)
{
	static struct fid_domain one = {.fid.ops = &fake_ops, .ops = &fake_domain_ops};

	*domain = &one;
	return 0;
}

static int fake_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	return 0;
}

static struct fi_ops_fabric fake_fabric_ops = {.domain = fake_domain, .trywait = fake_trywait};

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	static struct fid_fabric one = {.fid.ops = &fake_ops, .ops = &fake_fabric_ops};

	*fabric = &one;
	return 0;
}

/* ---- the user ---- */

static void arrived(const void *data, size_t len)
{
	pthread_mutex_lock(&core.lock);
	core.arrived[core.letters++] = *(const char *) data;
	pthread_mutex_unlock(&core.lock);
}

static void unsent(const void *data, fi_addr_t to)
{
	assert_true(*(const char *) data == 'x' && to == 3);
	pthread_mutex_lock(&core.lock);
	core.unsent++;
	pthread_mutex_unlock(&core.lock);
}

static int setup(void **state)
{
	core.letters = core.unsent = 0;
	return 0;
}

/* A process begins it once. */
static int start(void **state)
{
	static const struct service_user user = {arrived, unsent};
	struct service_address own;
	const char *why;

	core.fd = eventfd(0, EFD_NONBLOCK);
	return service_start(&user, &own, &why);
}

static int stop(void **state)
{
	service_stop();
	close(core.fd);
	return 0;
}

/* A message of one letter takes the @index-th receive. Locked */
static void come(size_t index, char letter)
{
	*(char *) core.bufs[index] = letter;
	fake_end(core.receives[index], 1);
	core.count--;
	memmove(&core.bufs[index], &core.bufs[index + 1],
		(core.count - index) * sizeof core.bufs[0]);
	memmove(&core.receives[index], &core.receives[index + 1],
		(core.count - index) * sizeof core.receives[0]);
}

/* Waits until these letters have come, and so many receives are posted. */
static void expect(const char *letters, size_t posted)
{
	for (int i = 0; i < SOON; i++) {
		bool all;

		pthread_mutex_lock(&core.lock);
		all = core.letters == strlen(letters) && core.count == posted;
		pthread_mutex_unlock(&core.lock);
		if (all)
			break;
		usleep(1000);
	}
	assert_int_equal(core.letters, strlen(letters));
	assert_memory_equal(core.arrived, letters, core.letters);
	assert_int_equal(core.count, posted);
}

/* ---- tests ---- */

static void test_order(void **state)
{
	pthread_mutex_lock(&core.lock);
	come(2, 'c');
	come(1, 'b');
	come(0, 'a');
	pthread_mutex_unlock(&core.lock);
	expect("abc", RING);
}

/* One receive is refused: what has come behind it is handed on all the same. */
static void test_refused(void **state)
{
	pthread_mutex_lock(&core.lock);
	core.no_receives = 1;
	come(1, 'b');
	come(0, 'a');
	pthread_mutex_unlock(&core.lock);
	expect("ab", RING - 1);
	/* it is posted when its turn comes */
	pthread_mutex_lock(&core.lock);
	for (char letter = 'c'; letter < 'a' + RING; letter++)
		come(0, letter);
	pthread_mutex_unlock(&core.lock);
	expect("abcdefghijklmnop", RING);
}

/* All are refused for a while, and nothing ends that could remind of it. */
static void test_all_refused(void **state)
{
	pthread_mutex_lock(&core.lock);
	core.no_receives = 3 * RING;
	for (char letter = 'a'; letter < 'a' + RING; letter++)
		come(0, letter);
	pthread_mutex_unlock(&core.lock);
	expect("abcdefghijklmnop", RING);
	pthread_mutex_lock(&core.lock);
	come(0, 'q');
	pthread_mutex_unlock(&core.lock);
	expect("abcdefghijklmnopq", RING);
}

static void send_one(void)
{
	struct service_message *message = service_message(8);

	assert_non_null(message);
	memset(message->data, 'x', 8);
	service_send(message, 3);
}

/* At once, or later */
static void test_unsent(void **state)
{
	static const ssize_t returns[] = {-FI_ENOMEM, 1};

	for (size_t i = 0; i < UNIT_COUNT(returns); i++) {
		core.unsent = 0;
		core.refused = returns[i];
		send_one();
		for (int ms = 0; ms < SOON && !__atomic_load_n(&core.unsent, __ATOMIC_RELAXED);
		     ms++)
			usleep(1000);
		assert_int_equal(core.unsent, 1);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_order, setup),
		cmocka_unit_test_setup(test_refused, setup),
		cmocka_unit_test_setup(test_all_refused, setup),
		cmocka_unit_test_setup(test_unsent, setup),
	};
	const struct unit unit = {.tests = tests,
				  .test_count = UNIT_COUNT(tests),
				  .setup = start,
				  .teardown = stop};

	return unit_main(argc, argv, &unit);
}
