/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Writes into GPU memory of another process by RDMA buffer objects. The receiver makes a buffer, and
 * writes its endpoint's address and the buffer's id to its output. The sender reads both.
 *
 *	ssh one buffer_put recv 'tcp;ofi_rxm;ofi_p2p' | buffer_put send 'tcp;ofi_rxm;ofi_p2p'
 *
 * To build it by hand: gcc buffer_put.c -o buffer_put -I CUDA/include -L CUDA/lib64 -lcudart
 * $(pkg-config --cflags --libs libfabric-p2p libfabric)
 */
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cuda_runtime.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_p2p_buffer.h>

#define MR_MODE (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_HMEM)
#define SIZE (1 << 20)
#define TRY(call) try(#call, call)

static void try(const char *call, long ret)
{
	if (ret == -FI_ENODATA)
		warnx("fi_p2p_info -p 'PROVIDER' says why this fails:");
	if (ret)
		errx(1, "%s: %ld %s", call, ret, ret < 0 ? fi_strerror(-ret) : "");
}

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_av *av;
static struct fid_ep *ep;
static struct p2p_buffer_context *context;
static struct fi_context2 message;
static char data[SIZE], got[SIZE];
static struct {
	char name[256], id[P2P_BUFFER_ID_MAX];
	size_t id_len;
} told; /* by the receiver */

static void open_endpoint(const char *provider)
{
	struct fi_info *info, *hints = fi_allocinfo();

	hints->caps = FI_MSG | FI_RMA | FI_HMEM;
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup(provider);
	hints->domain_attr->mr_mode = MR_MODE;           /* the library obeys any */
	hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE; /* of writes: the bytes are there */
	TRY(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	TRY(fi_fabric(info->fabric_attr, &fabric, NULL));
	TRY(fi_domain(fabric, info, &domain, NULL));
	TRY(fi_cq_open(domain, &(struct fi_cq_attr){.format = FI_CQ_FORMAT_CONTEXT}, &cq,
		       NULL));
	TRY(fi_av_open(domain, &(struct fi_av_attr){0}, &av, NULL));
	TRY(fi_endpoint(domain, info, &ep, NULL));
	TRY(fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV));
	TRY(fi_ep_bind(ep, &av->fid, 0));
	TRY(fi_enable(ep));
	TRY(p2p_buffer_context_open(domain, ep, info, &context));
	fi_freeinfo(hints);
	fi_freeinfo(info);
}

static void *completion(void)
{
	struct fi_cq_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
		;
	TRY(ret != 1);
	return entry.op_context;
}

static void receive(void)
{
	size_t len = sizeof told.name;
	struct p2p_buffer *buffer;

	TRY(p2p_buffer_alloc(context, 0, SIZE, &buffer)); /* on GPU 0 */
	told.id_len = sizeof told.id;
	TRY(p2p_buffer_id(buffer, told.id, &told.id_len));
	TRY(fi_getname(&ep->fid, told.name, &len));
	TRY(fi_recv(ep, NULL, 0, NULL, FI_ADDR_UNSPEC, &message));
	TRY(fwrite(&told, sizeof told, 1, stdout) != 1 || fflush(stdout));
	completion();
	TRY(cudaMemcpy(got, p2p_buffer_cdata(buffer), SIZE, cudaMemcpyDeviceToHost));
	TRY(memcmp(got, data, SIZE) != 0);
	fprintf(stderr, "%d bytes came into GPU memory, all as sent\n", SIZE);
	TRY(p2p_buffer_release(buffer));
}

static void put(void)
{
	struct p2p_buffer *local, *remote;
	struct p2p_buffer_op op;
	fi_addr_t peer;
	int ret;

	TRY(fread(&told, sizeof told, 1, stdin) != 1);
	TRY(fi_av_insert(av, told.name, 1, &peer, 0, NULL) != 1);
	TRY(p2p_buffer_attach(context, peer, told.id, told.id_len, &remote));
	TRY(p2p_buffer_wrap(context, P2P_BUFFER_HOST, data, SIZE, &local));
	while ((ret = p2p_buffer_write(local, 0, remote, 0, SIZE, &op)) == -FI_EAGAIN)
		fi_cq_read(cq, NULL, 0);
	while (ret == 1)
		ret = p2p_buffer_op_next(completion(), 0);
	TRY(ret);
	TRY(fi_sendmsg(ep, &(struct fi_msg){.addr = peer, .context = &message}, FI_COMPLETION));
	completion(); /* of an empty message, which tells that all is there */
	TRY(p2p_buffer_release(local));
	TRY(p2p_buffer_release(remote));
}

int main(int argc, char **argv)
{
	bool sends = argc == 3 && !strcmp(argv[1], "send");

	if (argc != 3 || (!sends && strcmp(argv[1], "recv"))) {
		fprintf(stderr, "usage: buffer_put send|recv PROVIDER\n");
		return 2;
	}
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (char) (i * 7 + (i >> 8));
	open_endpoint(argv[2]);
	(sends ? put : receive)();
	TRY(p2p_buffer_context_close(context));
	TRY(fi_close(&ep->fid));
	TRY(fi_close(&av->fid));
	TRY(fi_close(&cq->fid));
	TRY(fi_close(&domain->fid));
	TRY(fi_close(&fabric->fid));
}
