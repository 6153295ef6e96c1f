/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends GPU memory from one process to another by plain libfabric calls. The receiver writes its
 * address to its output. The sender reads that from its input.
 *
 *	ssh one send_gpu recv 'tcp;ofi_rxm;ofi_p2p' | send_gpu send 'tcp;ofi_rxm;ofi_p2p'
 *
 * To build it by hand: gcc send_gpu.c -o send_gpu -I CUDA/include -L CUDA/lib64 -lcudart -lfabric
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda_runtime.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#define SIZE (1 << 20)
#define TRY(call) try(#call, call)

/* Calls of CUDA return 0 or a positive error, those of libfabric a negative one. */
static void try(const char *call, long ret)
{
	if (!ret)
		return;
	fprintf(stderr, "send_gpu: %s: %ld %s\n", call, ret, ret < 0 ? fi_strerror(-ret) : "");
	if (ret == -FI_ENODATA)
		fprintf(stderr, "send_gpu: fi_p2p_info -p 'PROVIDER' says why\n");
	exit(1);
}

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq; /* tells which operations have ended */
static struct fid_av *av; /* lists the peers */
static struct fid_ep *ep;

/* An endpoint that sends messages from and to GPU memory, and needs no connection */
static void open_endpoint(const char *provider)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
	struct fi_av_attr av_attr = {0};
	struct fi_info *hints = fi_allocinfo();

	hints->caps = FI_MSG | FI_HMEM;
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup(provider);
	TRY(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	fi_freeinfo(hints);

	TRY(fi_fabric(info->fabric_attr, &fabric, NULL));
	TRY(fi_domain(fabric, info, &domain, NULL));
	TRY(fi_cq_open(domain, &cq_attr, &cq, NULL));
	TRY(fi_av_open(domain, &av_attr, &av, NULL));
	TRY(fi_endpoint(domain, info, &ep, NULL));
	TRY(fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV));
	TRY(fi_ep_bind(ep, &av->fid, 0));
	TRY(fi_enable(ep));
}

/* The receiver tells its address. The sender makes that a peer. */
static fi_addr_t exchange_address(bool sends)
{
	fi_addr_t peer = FI_ADDR_UNSPEC;
	char name[256] = "";
	size_t len = sizeof name;

	if (sends) {
		TRY(read(STDIN_FILENO, name, sizeof name) <= 0);
		TRY(fi_av_insert(av, name, 1, &peer, 0, NULL) != 1);
	} else {
		TRY(fi_getname(&ep->fid, name, &len));
		TRY(write(STDOUT_FILENO, name, len) != (ssize_t) len);
	}
	return peer;
}

/* -FI_EAGAIN means "not now". Reads of the queue move transfers on. */
static void transfer(bool sends, void *gpu, fi_addr_t peer)
{
	struct fi_cq_err_entry error = {0};
	struct fi_cq_entry entry;
	ssize_t ret;

	while ((ret = sends ? fi_send(ep, gpu, SIZE, NULL, peer, NULL)
			    : fi_recv(ep, gpu, SIZE, NULL, peer, NULL)) == -FI_EAGAIN)
		fi_cq_read(cq, NULL, 0);
	TRY(ret);
	do
		ret = fi_cq_read(cq, &entry, 1);
	while (ret == -FI_EAGAIN);
	if (ret == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1)
		ret = -error.err;
	TRY(ret == 1 ? 0 : ret);
}

int main(int argc, char **argv)
{
	bool sends = argc == 3 && !strcmp(argv[1], "send");
	static char data[SIZE], got[SIZE];
	void *gpu;

	if (argc != 3 || (!sends && strcmp(argv[1], "recv"))) {
		fprintf(stderr, "usage: send_gpu send|recv PROVIDER\n");
		return 2;
	}
	open_endpoint(argv[2]);

	/* The buffer is GPU memory. Its address says so, and nobody has to be told. */
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (char) (i * 7 + (i >> 8));
	TRY(cudaMalloc(&gpu, SIZE));
	if (sends)
		TRY(cudaMemcpy(gpu, data, SIZE, cudaMemcpyHostToDevice));
	transfer(sends, gpu, exchange_address(sends));

	/* The completion says that the data is in GPU memory. Is it what was sent? */
	if (!sends) {
		TRY(cudaMemcpy(got, gpu, SIZE, cudaMemcpyDeviceToHost));
		TRY(memcmp(got, data, SIZE) != 0);
		fprintf(stderr, "received %d bytes of GPU memory, all as sent\n", SIZE);
	}

	TRY(fi_close(&ep->fid));
	TRY(fi_close(&av->fid));
	TRY(fi_close(&cq->fid));
	TRY(fi_close(&domain->fid));
	TRY(fi_close(&fabric->fid));
	fi_freeinfo(info);
	TRY(cudaFree(gpu));
	return 0;
}
