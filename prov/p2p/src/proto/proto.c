/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The table of protocols. See proto.h. */
#include "proto/proto.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "proto/proto_state.h"
#include "proto/watch.h"

static int proto_init(struct xfer *xfer)
{
	xfer->proto = calloc(1, sizeof *xfer->proto);
	if (!xfer->proto)
		return -FI_ENOMEM;
	TAILQ_INIT(&xfer->proto->serving);
	TAILQ_INIT(&xfer->proto->asking);
	return 0;
}

static void proto_fini(struct xfer *xfer)
{
	seen_ids_fini(&xfer->proto->seen);
	seen_ids_fini(&xfer->proto->unreadable);
	seen_ids_fini(&xfer->proto->lost);
	free(xfer->proto);
}

static int proto_ep_init(struct xfer_ep *ep)
{
	ep->proto = calloc(1, sizeof *ep->proto);
	if (!ep->proto)
		return -FI_ENOMEM;
	TAILQ_INIT(&ep->proto->multi_msgs);
	return 0;
}

static void proto_ep_fini(struct xfer_ep *ep)
{
	keepalive_sock_close(ep->proto->keepalive);
	free(ep->proto);
}

/* In the order in which progress asks them: a long write that may begin has its pieces asked for in the same pass */
static const struct xfer_proto *const proto_table[] = {
	&rma_served_proto, &rndv_proto,  &rma_core_proto,   &rma_notice_proto,
	&rndv_lent_proto,  &eager_proto, &multi_recv_proto, &hello_proto,
	&rndv_lanes_proto, &post_proto,  &watch_proto,      NULL,
};

static const struct xfer_proto *const proto_table_alone[] = {&rma_core_proto, &eager_proto,
							     &multi_recv_proto, NULL};

const struct xfer_protos protos_alone = {
	.table = proto_table_alone,
	.user_data = ~0ULL,
	.init = proto_init,
	.fini = proto_fini,
	.ep_init = proto_ep_init,
	.ep_fini = proto_ep_fini,
};

const struct xfer_protos protos = {
	.table = proto_table,
	.marks = WIRE_MARK | WIRE_NOTICE,
	.user_data = WIRE_USER_DATA_MASK,
	.init = proto_init,
	.fini = proto_fini,
	.ep_init = proto_ep_init,
	.ep_fini = proto_ep_fini,
};
