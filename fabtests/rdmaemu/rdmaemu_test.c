/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Test of rdmaemu, which has to be preloaded. Device memory is registered in both ways. An RDMA
 * device writes and reads it, from one queue pair of this process to another.
 *
 * The cases are in fabtests/rdmaemu.list, with the environment of each. One run does one case.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cudaemu/driver.h"

#define PAGE 4096
#define SIZE (64 * PAGE)
#define PORT 1
#define SECONDS 30
#define SKIP 77
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

#define CHECK(condition)                                                                       \
	do {                                                                                   \
		if (!(condition))                                                              \
			fail(__LINE__, #condition);                                            \
	} while (0)
/* For the driver's functions */
#define OK(call) CHECK((call) == CUDA_SUCCESS)
/* For libibverbs' functions */
#define REFUSED(call, error)                                                                   \
	do {                                                                                   \
		errno = 0;                                                                     \
		CHECK(!(call));                                                                \
		CHECK(errno == (error));                                                       \
	} while (0)

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qps[2]; /* the first sends to the other */

/* Registers @len bytes at @addr, in one of the two ways */
typedef struct ibv_mr *reg_fn(uint64_t addr, size_t len);

static void __attribute__((noreturn)) fail(int line, const char *what)
{
	fprintf(stderr, "rdmaemu_test: line %d: not so: %s (errno: %s)\n", line, what,
		strerror(errno));
	exit(EXIT_FAILURE);
}

static void __attribute__((noreturn)) skip(const char *why)
{
	printf("skip: %s\n", why);
	exit(SKIP);
}

/* ---- the device ---- */

static struct ibv_context *device_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	if (!context)
		skip("there is no such RDMA device");
	ibv_free_device_list(list);
	return context;
}

/* The address that stands for an IPv4 one; there may be no route to the others */
static uint8_t gid_find(struct ibv_context *context, union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	struct ibv_port_attr port;

	CHECK(!ibv_query_port(context, PORT, &port));
	for (int i = 0; i < port.gid_tbl_len; i++)
		if (!ibv_query_gid(context, PORT, i, gid) &&
		    !memcmp(gid->raw, mapped, sizeof(mapped)))
			return (uint8_t) i;
	fail(__LINE__, "the device has an IPv4 address");
}

static struct ibv_qp *qp_create(void)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	CHECK(qp);
	return qp;
}

static void qp_connect(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid,
		       uint8_t index)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = ACCESS,
	};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = PORT,
			    .grh = {.dgid = *gid, .sgid_index = index, .hop_limit = 1}},
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};

	CHECK(!ibv_modify_qp(qp, &init,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     IBV_QP_ACCESS_FLAGS));
	CHECK(!ibv_modify_qp(qp, &rtr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER));
	CHECK(!ibv_modify_qp(qp, &rts,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC));
}

static void device_set_up(const char *name)
{
	struct ibv_context *context = device_open(name);
	union ibv_gid gid;
	uint8_t index = gid_find(context, &gid);

	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(pd && cq);
	qps[0] = qp_create();
	qps[1] = qp_create();
	qp_connect(qps[0], qps[1]->qp_num, &gid, index);
	qp_connect(qps[1], qps[0]->qp_num, &gid, index);
}

/* Does one RDMA operation and waits for its end */
static void rdma(enum ibv_wr_opcode opcode, uint64_t local, const struct ibv_mr *local_mr,
		 uint64_t remote, const struct ibv_mr *remote_mr, size_t len)
{
	struct ibv_sge sge = {local, (uint32_t) len, local_mr->lkey};
	struct ibv_send_wr *bad,
		wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcode,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {.remote_addr = remote, .rkey = remote_mr->rkey},
		};
	struct ibv_wc wc;
	int n;

	CHECK(!ibv_post_send(qps[0], &wr, &bad));
	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		sched_yield();
	CHECK(n == 1);
	CHECK(wc.status == IBV_WC_SUCCESS);
}

/* ---- memory ---- */

static void pattern(unsigned char *p, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (unsigned char) (seed + i + (i >> 8) * 7);
}

static CUdeviceptr device_alloc(void)
{
	CUdeviceptr ptr;

	OK(cuMemAlloc_v2(&ptr, SIZE));
	return ptr;
}

static int dmabuf_export(uint64_t addr, size_t len)
{
	int fd = -1;
	CUresult rc = cuMemGetHandleForAddressRange(&fd, addr, len,
						    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);

	if (rc == CUDA_ERROR_NOT_SUPPORTED)
		skip("no dma-bufs: the kernel has no udmabuf");
	OK(rc);
	return fd;
}

static struct ibv_mr *reg_address(uint64_t addr, size_t len)
{
	return ibv_reg_mr(pd, (void *) (uintptr_t) addr, len, ACCESS);
}

/* Registers the whole pages. The descriptor is not needed afterwards. */
static struct ibv_mr *reg_dmabuf(uint64_t addr, size_t len)
{
	uint64_t first = addr / PAGE * PAGE, end = (addr + len + PAGE - 1) / PAGE * PAGE;
	int fd = dmabuf_export(first, end - first), error;
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, addr - first, len, addr, fd, ACCESS);

	error = errno;
	close(fd);
	errno = error;
	return mr;
}

static void mr_is(const struct ibv_mr *mr, size_t len)
{
	CHECK(mr);
	CHECK(mr->length == len);
	CHECK(mr->pd == pd);
}

/* Fills device memory. The driver's copy from pageable memory returns before its end, and an RDMA device does not wait for it */
static void device_fill(CUdeviceptr ptr, const unsigned char *bytes)
{
	OK(cuMemcpyHtoD_v2(ptr, bytes, SIZE));
	OK(cuCtxSynchronize());
}

/* Compares what is in device memory, by the driver's own copy */
static void device_is(CUdeviceptr ptr, const unsigned char *expected, size_t len)
{
	static unsigned char got[SIZE];

	OK(cuMemcpyDtoH_v2(got, ptr, len));
	for (size_t i = 0; i < len; i++) {
		if (got[i] == expected[i])
			continue;
		fprintf(stderr, "rdmaemu_test: byte %zu is 0x%02x, not 0x%02x\n", i, got[i],
			expected[i]);
		exit(EXIT_FAILURE);
	}
}

/* ---- cases ---- */

/* Moves data from device memory to device memory and on, by write and read, in odd pieces */
static void test_move(reg_fn *reg)
{
	static const struct {
		size_t from, to, len;
	} moves[] = {
		{0, 0, SIZE},     {1, 4095, 1}, {4093, 7, 8190}, {PAGE, 3 * PAGE + 5, 12289},
		{SIZE - 1, 0, 1},
	};
	static unsigned char source[SIZE], expected[SIZE];
	CUdeviceptr from = device_alloc(), to = device_alloc();
	struct ibv_mr *from_mr = reg(from, SIZE), *to_mr = reg(to, SIZE);
	int reading;
	size_t i;

	mr_is(from_mr, SIZE);
	mr_is(to_mr, SIZE);
	for (i = 0; i < 2 * sizeof(moves) / sizeof(moves[0]); i++) {
		reading = i % 2;
		pattern(source, SIZE, 17 + (unsigned int) i);
		memset(expected, 0xee, SIZE);
		device_fill(from, source);
		device_fill(to, expected);
		if (reading)
			rdma(IBV_WR_RDMA_READ, to + moves[i / 2].to, to_mr,
			     from + moves[i / 2].from, from_mr, moves[i / 2].len);
		else
			rdma(IBV_WR_RDMA_WRITE, from + moves[i / 2].from, from_mr,
			     to + moves[i / 2].to, to_mr, moves[i / 2].len);
		memcpy(expected + moves[i / 2].to, source + moves[i / 2].from,
		       moves[i / 2].len);
		device_is(to, expected, SIZE);
		device_is(from, source, SIZE);
	}
	CHECK(!ibv_dereg_mr(to_mr));
	CHECK(!ibv_dereg_mr(from_mr));
}

/* Registers a part of an allocation, at odd addresses. Its keys do not reach the rest. */
static void test_part(reg_fn *reg)
{
	static unsigned char host[SIZE], expected[SIZE];
	const size_t at = 3 * PAGE + 77, len = 2 * PAGE + 3;
	struct ibv_mr *host_mr = ibv_reg_mr(pd, host, SIZE, ACCESS), *mr;
	CUdeviceptr to = device_alloc();
	struct ibv_wc wc;

	mr = reg(to + at, len);
	mr_is(mr, len);
	mr_is(host_mr, SIZE);
	CHECK(host_mr->addr == host);
	pattern(host, SIZE, 5);
	memset(expected, 0xee, SIZE);
	device_fill(to, expected);
	rdma(IBV_WR_RDMA_WRITE, (uintptr_t) host, host_mr, to + at, mr, len);
	memcpy(expected + at, host, len);
	device_is(to, expected, SIZE);

	struct ibv_sge sge = {(uintptr_t) host, 2, host_mr->lkey};
	struct ibv_send_wr *bad,
		wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {.remote_addr = to + at + len - 1, .rkey = mr->rkey},
		};

	CHECK(!ibv_post_send(qps[0], &wr, &bad));
	while (!ibv_poll_cq(cq, 1, &wc))
		sched_yield();
	CHECK(wc.status == IBV_WC_REM_ACCESS_ERR);
	device_is(to, expected, SIZE);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!ibv_dereg_mr(host_mr));
}

/*
 * The memory was freed, and another allocation has it now. The stale registration reaches that
 * one. Nothing crashes.
 */
static void test_stale(reg_fn *reg)
{
	static unsigned char host[SIZE];
	struct ibv_mr *host_mr = ibv_reg_mr(pd, host, SIZE, ACCESS), *mr;
	CUdeviceptr old = device_alloc(), new;

	mr = reg(old, SIZE);
	mr_is(mr, SIZE);
	mr_is(host_mr, SIZE);
	OK(cuMemFree_v2(old));
	pattern(host, SIZE, 91);
	rdma(IBV_WR_RDMA_WRITE, (uintptr_t) host, host_mr, old, mr, SIZE);
	new = device_alloc();
	CHECK(new == old);
	rdma(IBV_WR_RDMA_WRITE, (uintptr_t) host, host_mr, old, mr, SIZE);
	device_is(new, host, SIZE);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!ibv_dereg_mr(host_mr));
	OK(cuMemFree_v2(new));
}

/* Without a peer-memory module the kernel knows nothing of device addresses. */
static void test_absent(reg_fn *reg)
{
	REFUSED(reg(device_alloc(), SIZE), EFAULT);
}

/* Memory that is not the device's, though it may have been */
static void test_foreign(reg_fn *reg)
{
	CUdeviceptr gone = device_alloc(), live = device_alloc();

	OK(cuMemFree_v2(gone));
	REFUSED(reg_address(gone, PAGE), EFAULT);
	REFUSED(reg_address(live, SIZE + PAGE), EINVAL);
	OK(cuMemFree_v2(live));
}

/* Bounds are checked as the kernel does it */
static void test_bounds(reg_fn *reg)
{
	CUdeviceptr ptr = device_alloc();
	int fd = dmabuf_export(ptr, 2 * PAGE);

	REFUSED(ibv_reg_dmabuf_mr(pd, 0, 2 * PAGE + 1, ptr, fd, ACCESS), EINVAL);
	REFUSED(ibv_reg_dmabuf_mr(pd, 3 * PAGE, 1, ptr, fd, ACCESS), EINVAL);
	REFUSED(ibv_reg_dmabuf_mr(pd, 1, PAGE, ptr, fd, ACCESS), EINVAL);
	close(fd);
}

static void test_refused(reg_fn *reg)
{
	REFUSED(reg(device_alloc(), SIZE), EOPNOTSUPP);
}

/* RDMAEMU_FAIL=2:EIO. A registration of other memory than the device's does not count. */
static void test_second(reg_fn *reg)
{
	static unsigned char host[PAGE];
	CUdeviceptr ptr = device_alloc();
	struct ibv_mr *mr = reg(ptr, SIZE), *host_mr;

	mr_is(mr, SIZE);
	host_mr = ibv_reg_mr(pd, host, PAGE, ACCESS);
	mr_is(host_mr, PAGE);
	REFUSED(reg(ptr, SIZE), EIO);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!ibv_dereg_mr(host_mr));
	mr = reg(ptr, SIZE);
	mr_is(mr, SIZE);
	CHECK(!ibv_dereg_mr(mr));
}

/* RDMAEMU_BAR1=SIZE bytes */
static void test_full(reg_fn *reg)
{
	CUdeviceptr ptr = device_alloc();
	struct ibv_mr *mr = reg(ptr, SIZE - PAGE), *last;

	mr_is(mr, SIZE - PAGE);
	REFUSED(reg(ptr, PAGE + 1), ENOMEM);
	last = reg(ptr, PAGE);
	mr_is(last, PAGE);
	REFUSED(reg(ptr, 1), ENOMEM);
	CHECK(!ibv_dereg_mr(last));
	CHECK(!ibv_dereg_mr(mr));
	mr = reg(ptr, SIZE);
	mr_is(mr, SIZE);
	CHECK(!ibv_dereg_mr(mr));
}

static const struct {
	const char *name;
	void (*run)(reg_fn *reg);
} cases[] = {
	{"move", test_move},       {"part", test_part},       {"stale", test_stale},
	{"absent", test_absent},   {"foreign", test_foreign}, {"bounds", test_bounds},
	{"refused", test_refused}, {"second", test_second},   {"full", test_full},
};

int main(int argc, char **argv)
{
	CUcontext context;

	if (argc != 4 || (strcmp(argv[2], "dmabuf") && strcmp(argv[2], "address"))) {
		fprintf(stderr, "usage: rdmaemu_test RDMA-DEVICE dmabuf|address CASE\n");
		return 2;
	}
	alarm(SECONDS);
	device_set_up(argv[1]);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[3]))
			continue;
		cases[i].run(*argv[2] == 'd' ? reg_dmabuf : reg_address);
		printf("passed\n");
		return EXIT_SUCCESS;
	}
	fprintf(stderr, "rdmaemu_test: no case %s\n", argv[3]);
	return 2;
}
