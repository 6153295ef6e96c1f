/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One of the two endpoints that questions are put to. See conform.h. */
#include "conform.h"

#define MUST(call)                                                                             \
	do {                                                                                   \
		const int must = (int) (call);                                                 \
		if (must) {                                                                    \
			fprintf(stderr, "%s: %s\n", #call, fi_strerror(-must));                \
			exit(2);                                                               \
		}                                                                              \
	} while (0)

static void player_set_least(struct player *player)
{
	const size_t least = LEAST;

	fi_setopt(&player->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
		  sizeof least);
}

void player_open(struct player *player, struct fid_fabric *fabric, struct fi_info *info)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 2 * IDS};
	struct fi_av_attr av_attr = {.type = FI_AV_UNSPEC};

	player->rooms = calloc(ROOMS, ROOM);
	player->source = calloc(ROOMS, ROOM);
	player->shown = calloc(1, ROOM);
	player->virt_addr = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
	MUST(fi_domain(fabric, info, &player->domain, NULL));
	MUST(fi_av_open(player->domain, &av_attr, &player->av, NULL));
	MUST(fi_cq_open(player->domain, &cq_attr, &player->cq, NULL));
	MUST(fi_mr_reg(player->domain, player->shown, ROOM, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
		       1, 0, &player->mr, NULL));
	MUST(fi_endpoint(player->domain, info, &player->ep, NULL));
	MUST(fi_ep_bind(player->ep, &player->av->fid, 0));
	MUST(fi_ep_bind(player->ep, &player->cq->fid, FI_TRANSMIT | FI_RECV));
	/* shm of 1.17 crashes before; and later releases look only then */
	if (FI_MAJOR(fi_version()) > 1)
		player_set_least(player);
	MUST(fi_enable(player->ep));
	if (FI_MAJOR(fi_version()) == 1)
		player_set_least(player);
}

void player_show(struct player *player, struct card *card)
{
	size_t len = sizeof card->name;

	memset(card, 0, sizeof *card);
	MUST(fi_getname(&player->ep->fid, card->name, &len));
	card->addr = player->virt_addr ? (uintptr_t) player->shown : 0;
	card->key = fi_mr_key(player->mr);
}

void player_meet(struct player *player, const struct card *card)
{
	struct card own;

	player->far = *card;
	MUST(fi_av_insert(player->av, card->name, 1, &player->peer, 0, NULL) != 1);
	if (player->met)
		return;
	player->met = true;
	player_show(player, &own);
	MUST(fi_av_insert(player->av, own.name, 1, &player->self, 0, NULL) != 1);
}

/* ---- calls ---- */

static ssize_t player_send(struct player *player, const struct call *call)
{
	const struct iovec iov = {player->source, call->len};
	const struct fi_msg_tagged tagged = {.msg_iov = &iov,
					     .iov_count = 1,
					     .addr = player->peer,
					     .tag = call->tag,
					     .data = call->tag,
					     .context = &player->contexts[call->id]};
	const struct fi_msg msg = {.msg_iov = &iov,
				   .iov_count = 1,
				   .addr = player->peer,
				   .data = call->tag,
				   .context = tagged.context};

	return call->untagged ? fi_sendmsg(player->ep, &msg, call->flags | FI_COMPLETION)
			      : fi_tsendmsg(player->ep, &tagged, call->flags | FI_COMPLETION);
}

static ssize_t player_recv(struct player *player, const struct call *call)
{
	const fi_addr_t from[] = {FI_ADDR_UNSPEC, player->peer, player->self};
	const struct iovec iov = {player->rooms +
					  (call->len > ROOM ? 0 : call->id % ROOMS) * ROOM,
				  call->len};
	const struct fi_msg_tagged tagged = {.msg_iov = &iov,
					     .iov_count = call->kind == CALL_RECV,
					     .addr = from[call->from],
					     .tag = call->tag,
					     .context = &player->contexts[call->id]};
	const struct fi_msg msg = {.msg_iov = &iov,
				   .iov_count = 1,
				   .addr = tagged.addr,
				   .context = tagged.context};

	return call->untagged ? fi_recvmsg(player->ep, &msg, call->flags | FI_COMPLETION)
			      : fi_trecvmsg(player->ep, &tagged, call->flags | FI_COMPLETION);
}

static ssize_t player_rma(struct player *player, const struct call *call)
{
	const struct iovec iov = {call->kind == CALL_FETCH ? player->rooms : player->source,
				  call->len};
	const struct fi_rma_iov place = {player->far.addr, call->len, player->far.key};
	const struct fi_msg_rma msg = {.msg_iov = &iov,
				       .iov_count = 1,
				       .addr = player->peer,
				       .rma_iov = &place,
				       .rma_iov_count = 1,
				       .context = &player->contexts[call->id]};

	return call->kind == CALL_FETCH
		       ? fi_readmsg(player->ep, &msg, call->flags | FI_COMPLETION)
		       : fi_writemsg(player->ep, &msg, call->flags | FI_COMPLETION);
}

static ssize_t player_atomics(struct player *player, const struct call *call)
{
	const enum fi_op op = call->flags == FI_COMPARE_ATOMIC ? FI_CSWAP : FI_SUM;
	struct fi_atomic_attr attr;
	const int ret = fi_query_atomic(player->domain, FI_UINT64, op, &attr, call->flags);

	return ret ? ret : (ssize_t) attr.count;
}

static struct answer player_read(struct player *player)
{
	struct fi_cq_err_entry error = {.op_context = NULL};
	fi_addr_t src = FI_ADDR_NOTAVAIL;
	struct fi_cq_tagged_entry entry;
	struct answer answer = {.ret = fi_cq_readfrom(player->cq, &entry, 1, &src)};

	if (answer.ret == 1)
		error = (struct fi_cq_err_entry){.op_context = entry.op_context,
						 .flags = entry.flags,
						 .len = entry.len,
						 .buf = entry.buf,
						 .data = entry.data,
						 .tag = entry.tag};
	else if (answer.ret == -FI_EAVAIL)
		answer.ret = fi_cq_readerr(player->cq, &error, 0);
	if (answer.ret != 1)
		return answer;
	answer.id = (unsigned int) ((const struct fi_context2 *) error.op_context -
				    player->contexts);
	answer.err = error.err;
	answer.len = error.len;
	answer.olen = error.olen;
	answer.flags = error.flags;
	answer.tag = error.tag;
	answer.data = error.data;
	answer.peer = src == player->peer;
	answer.byte = player->rooms[answer.id % ROOMS * ROOM];
	if (error.buf)
		answer.at = (uint8_t *) error.buf - player->rooms -
			    (ptrdiff_t) (answer.id % ROOMS * ROOM);
	return answer;
}

struct answer player_call(struct player *player, const struct call *call)
{
	switch (call->kind) {
	case CALL_SEND:
		return (struct answer){.ret = player_send(player, call)};
	case CALL_RECV:
	case CALL_PEEK:
		return (struct answer){.ret = player_recv(player, call)};
	case CALL_WRITE:
	case CALL_FETCH:
		return (struct answer){.ret = player_rma(player, call)};
	case CALL_CANCEL:
		return (struct answer){
			.ret = fi_cancel(&player->ep->fid, &player->contexts[call->id])};
	case CALL_FILL:
		memset(call->len ? player->shown : player->source, (int) call->tag, 16);
		return (struct answer){.ret = 0};
	case CALL_BYTE:
		return (struct answer){.byte = *player->shown};
	case CALL_ATOMICS:
		return (struct answer){.ret = player_atomics(player, call)};
	case CALL_CLOSE:
		return (struct answer){.ret = fi_close(&player->ep->fid)};
	default:
		return player_read(player);
	}
}
