/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What is special about core providers. See quirks.h.
 *
 * "Without this row": the row is taken out of the table, and nothing else changes. The programs
 * of fabtests use device memory (-D), unless -D system is said.
 */
#include "path/quirks.h"

#include <string.h>
#include <strings.h>

/* No release is known that is without it. */
#define QUIRK_STILL UINT32_MAX

/* "tcp" has reliable datagram endpoints of its own since then, made from "net", which is no more. */
#define QUIRK_TCP_IS_NET FI_VERSION(1, 18)

const struct quirk quirks_table[] = {
	/* ---- net, and tcp that came of it: since 1.18 tcp;ofi_p2p shows what net;ofi_p2p did ---- */
	{
		.provider = "net",
		.match = QUIRK_NET,
		.below = QUIRK_STILL,
		.flag = QUIRK_STALLS,
		.does = "stops reading from a peer at a message that has no receive",
		.why = "xnet_save_and_cont() sets aside 4 tagged messages of 128 bytes for each "
		       "peer (64 since 1.19, FI_TCP_MAX_SAVED), and none without a tag. Pieces of a "
		       "long message would wait behind the next one. So they go between endpoints of "
		       "their own (side_ep.h).",
		.see = "fi_p2p_backlog -p 'net;ofi_p2p' hangs without this row.",
	},
	{
		.provider = "net",
		.match = QUIRK_NET,
		.below = QUIRK_STILL,
		.flag = QUIRK_MIXES,
		.does = "gives a message that came before its receive to any endpoint of the "
			"domain",
		.why = "xnet_search_saved() looks at the messages of all endpoints of a "
		       "domain. A wrong endpoint would take a control message, count it, and "
		       "post receives for pieces that go elsewhere. So the internal tag has "
		       "the receiver's port in it (ctrl.c).",
		.see = "fi_p2p_objects -p 'net;ofi_p2p' hangs without this row; fi_p2p_stress -p "
		       "'tcp;ofi_p2p' does now and then.",
	},
	{
		.provider = "net",
		.below = QUIRK_TCP_IS_NET,
		.flag = QUIRK_NO_COUNTERS,
		.does = "crashes when it counts a message that came before its receive",
		.why = "xnet_get_save_rx() does not set the function that counts, and "
		       "xnet_cntr_inc() calls it. So no endpoint is bound to a counter of the "
		       "core's.",
		.see = "fi_p2p_cntr -p 'net;ofi_p2p' crashes without this row.",
	},
	{
		.provider = "tcp",
		.below = QUIRK_TCP_IS_NET,
		.flag = QUIRK_NO_COUNTERS,
		.does = "does not wake who waits for a counter",
		.why = "A thread in fi_cntr_wait() does not see what has come. Only connected "
		       "endpoints have it, as tcp has no others there.",
		.see = "runfabtests -m hook -p tcp -e msg -k '^cntr$' fails without this row.",
	},
	{
		.provider = "sockets",
		.below = QUIRK_STILL,
		.flag = QUIRK_NO_COUNTERS,
		.does = "stops if a counter with a descriptor has counted some 280 times",
		.why = "sock_wait_signal() writes a byte each time, until the socket is full that "
		       "nobody reads. Besides, sock_cntr_wait() returns at once, as "
		       "ofi_wait_cond() takes the time of another clock.",
		.see = "fi_p2p_mrcntr -p sockets with the hook hangs without this row.",
	},
	{
		.provider = "net",
		.match = QUIRK_NET,
		.below = QUIRK_STILL,
		.flag = QUIRK_UNCOUNTED,
		.does = "counts no reads of peers, and writes only if they come with data",
		.why = "xnet_op_read_req() and xnet_op_write() mark the rest as internal. What "
		       "is internal is not reported, and only reports are counted. Since 1.18 "
		       "xnet_report_success() returns before it counts that. If an "
		       "application asks for FI_RMA_EVENT, we serve all of its remote memory.",
		.see = "fi_p2p_rma -p 'net;ofi_p2p' hangs without this row.",
	},
	{
		.provider = "net",
		.below = QUIRK_TCP_IS_NET,
		.flag = QUIRK_ATOMICS,
		.does = "offers atomic operations, and has none",
		.why = "xnet_rdm_atomic_ops has nothing but refusals. So we serve atomic operations, "
		       "under the core's keys, too. Domains without FI_HMEM keep the fault, and so "
		       "does the hook.",
		.see = "fi_p2p_atomic -p 'net;ofi_p2p' is skipped without this row.",
	},
	{
		.provider = "net",
		.match = QUIRK_NET,
		.below = FI_VERSION(1, 20),
		.flag = QUIRK_EARLY,
		.does = "forgets for writes that the endpoint asks for their delivery",
		.why = "xnet_rma_write() and xnet_rma_writev() ask for no flags, and nobody adds those of "
		       "the endpoint's attributes. So we follow up writes of endpoints with "
		       "FI_DELIVERY_COMPLETE there, and say the flag with each. The hook keeps the fault. "
		       "It is mended in 1.19.1, which is taken for 1.19.",
		.see = "fi_p2p_delivered -p 'net;ofi_p2p' -D system fails without this row.",
	},
	{
		.provider = "net",
		.match = QUIRK_NET,
		.below = QUIRK_STILL,
		.flag = QUIRK_DANGLES,
		.does = "crashes if it goes on when an endpoint was closed to which a peer connects",
		.why = "xnet_handle_conn() looks at the listener of the endpoint, which "
		       "xnet_pep_close() has freed. To read a queue is to go on. So we read errors "
		       "alone after the close, as the core goes on for nobody who asks for those.",
		.see = "runfabtests -k '^cq-eager$' -p 'tcp;ofi_p2p' crashes without this row, with "
		       "libfabric 2.1.",
	},
	{
		.provider = "net",
		.match = QUIRK_NET,
		.below = QUIRK_STILL,
		.flag = QUIRK_AHEAD,
		.does = "has reliable datagram endpoints itself, and so comes before ofi_rxm",
		.why = "libfabric sorts lists for applications, but not those for providers.",
		.see = "fi_info lists net;ofi_p2p first of ours, and last without this row.",
	},
	{
		.provider = "net;ofi_rxm",
		.below = QUIRK_TCP_IS_NET,
		.flag = QUIRK_BEHIND,
		.does = "comes after the provider below it",
		.why = "Infos with QUIRK_AHEAD are put before the first of these.",
		.see = "See QUIRK_AHEAD.",
	},
	{
		.provider = "tcp;ofi_rxm",
		.below = QUIRK_STILL,
		.flag = QUIRK_BEHIND,
		.does = "comes after the provider below it",
		.why = "Infos with QUIRK_AHEAD are put before the first of these.",
		.see = "See QUIRK_AHEAD.",
	},
	{
		.provider = "net",
		.below = QUIRK_TCP_IS_NET,
		.flag = QUIRK_DIRECTED,
		.does = "may crash at messages from peers that are not inserted, with "
			"FI_DIRECTED_RECV",
		.why = "xnet_match_tag_addr() looks for the queue of such a peer by its "
		       "address. The address is -1, and ofi_array_at() reads before its array. "
		       "The side endpoint hears from such peers. So it is opened without the "
		       "capability (side_ep_init()). Endpoints themselves are greeted by endpoints "
		       "that they know, not by side endpoints (hello.c).",
		.see = "fi_p2p_stress -p 'net;ofi_p2p' crashes in one of three runs without this "
		       "row.",
	},
	{
		.provider = "net",
		.below = QUIRK_TCP_IS_NET,
		.name = "QUIRK_READABLE",
		.does = "has descriptors that stay readable once there was something",
		.why = "xnet_trywait() does nothing. The thread of automatic progress would "
		       "not sleep any more. A read that waits makes the descriptors as they "
		       "were (auto_calm()).",
		.see = "Let auto_calm() do nothing: fi_p2p_autoprogress -p 'net;ofi_p2p' takes "
		       "nearly twice the CPU time.",
	},
	{
		.provider = "net",
		.match = QUIRK_NET,
		.below = QUIRK_STILL,
		.name = "QUIRK_POLLFD",
		.does = "starts a thread for a counter with a list of descriptors",
		.why = "xnet_cntr_open() calls xnet_start_progress() for a list, but not for "
		       "one descriptor. So a counter of ours asks for one (cntr_open_core()).",
		.see = "Open a counter with FI_WAIT_POLLFD over net alone, and look into "
		       "/proc/self/task.",
	},
	{
		.provider = "net",
		.match = QUIRK_NET,
		.below = QUIRK_STILL,
		.flag = QUIRK_KEYS,
		.does = "counts the keys that it chooses",
		.why = "ofi_mr_map_insert() numbers regions if FI_MR_PROV_KEY is on, and takes the "
		       "key that it is asked for if not. Peers could guess numbers. So we ask "
		       "for random keys, without that mode (info_to_core()).",
		.see = "fi_p2p_objects -p 'net;ofi_p2p' fails without this row.",
	},

	/* ---- ofi_rxm ---- */
	{
		.provider = "ofi_rxm",
		.match = QUIRK_LAYER,
		.below = QUIRK_STILL,
		.flag = QUIRK_LITTERS,
		.does = "keeps a closed endpoint's queues among what fi_trywait() looks at",
		.why = "rxm_ep_wait_fd_add() adds them, and nobody calls ofi_wait_del_fid() "
		       "(1.17 to 2.6). So we do not call fi_trywait() any more for a queue "
		       "that was bound to a closed endpoint. Who sleeps on it looks each ms.",
		.see = "fi_p2p_autoprogress -p 'tcp;ofi_rxm;ofi_p2p' crashes without this row.",
	},
	{
		.provider = "ofi_rxm",
		.match = QUIRK_LAYER,
		.below = FI_VERSION(2, 0),
		.flag = QUIRK_PEEK_UNMARKED,
		.does = "tells a peeked message's remote cq data without saying that it has "
			"any",
		.why = "rxm_peek_recv() and rxm_discard_recv() report no FI_REMOTE_CQ_DATA. So "
		       "a marker is known by its data, and by the ids that were seen "
		       "(seen_ids.h).",
		.see = "fi_p2p_peek -p 'tcp;ofi_rxm;ofi_p2p' fails without this row.",
	},
	{
		.provider = "ofi_rxm",
		.match = QUIRK_LAYER,
		.below = QUIRK_STILL,
		.flag = QUIRK_OWN_DATA,
		.does = "carries 8 bytes of remote cq data in messages, whatever it offers",
		.why = "The header of its messages has room for them. It offers what the "
		       "provider below has for remote writes, and verbs has 4 bytes. It also "
		       "asks that provider for what we ask it for. So we ask for no more than "
		       "it offers.",
		.see = "fi_info -p 'verbs;ofi_rxm;ofi_p2p' finds nothing without this row.",
	},
	{
		.provider = "tcp;ofi_rxm",
		.below = QUIRK_STILL,
		.flag = QUIRK_DEAR,
		.does = "takes 70 MiB of memory for each endpoint",
		.why = "rxm_prepost_recv() posts 4096 buffers of 16 KiB. Lanes are made of what is "
		       "below it (lane_core.h).",
		.see = "fi_p2p_lanes -p 'tcp;ofi_rxm;ofi_p2p' without this row, and the resident "
		       "memory of its processes.",
	},
	{
		.provider = "tcp;ofi_rxm",
		.below = QUIRK_STILL,
		.flag = QUIRK_LENDS,
		.does = "copies messages of up to 128 KiB at both ends, but not what is read",
		.why = "Messages go through buffers of 16 KiB. A read of four messages goes "
		       "from place to place. So the receiver reads messages of middling length "
		       "(rndv_lent.h). Net and tcp alone copy no messages.",
		.see = "fi_p2p_middling -p 'tcp;ofi_rxm;ofi_p2p' fails without this row.",
	},
	{
		.provider = "net",
		.match = QUIRK_NET,
		.below = QUIRK_STILL,
		.flag = QUIRK_LENDS,
		.does = "reads several places of a peer in one operation",
		.why = "A piece of remote memory takes a message for each of CALL, TAKE, itself and DONE. "
		       "Four that are lent go in one read (rma_lent.h). Messages go whole "
		       "there, as the core does not copy them.",
		.see = "fi_p2p_bench --remote -p 'net;ofi_p2p' -S 16384,65536 with and without this row: "
		       "docs/performance.md.",
	},
	{
		.provider = "ofi_rxm",
		.match = QUIRK_LAYER,
		.below = QUIRK_STILL,
		.name = "QUIRK_UNENABLED",
		.does = "crashes when a queue is read that is bound to an endpoint not yet "
			"enabled",
		.why = "Progress in a domain reads all of its queues. So the core's endpoint "
		       "is bound to them when it is enabled (ep_bind_core()). Shm needs it, too.",
		.see = "Bind it at once there: fi_p2p_objects -p 'tcp;ofi_rxm;ofi_p2p' "
		       "crashes.",
	},
	{
		.provider = "ofi_rxm",
		.match = QUIRK_LAYER,
		.from = FI_VERSION(2, 0),
		.below = FI_VERSION(2, 4),
		.flag = QUIRK_SOURCELESS,
		.does = "crashes at fi_av_insert() while a message waits for its receive",
		.why = "rxm_get_addr() looks into the connection, which nobody has set but for "
		       "FI_SOURCE or FI_DIRECTED_RECV. We insert who greets us. So we ask for "
		       "FI_SOURCE (info_to_core()).",
		.see = "fi_p2p_av -p 'tcp;ofi_rxm;ofi_p2p' crashes without this row.",
	},
	{
		.provider = "ofi_rxm",
		.match = QUIRK_LAYER,
		.below = QUIRK_STILL,
		.name = "QUIRK_AUTO_LOSES",
		.does = "loses messages when its own thread makes automatic progress",
		.why = "rxm_cm_atomic_progress(), which is rxm_cm_data_progress() in 2.6, "
		       "calls fi_trywait() without the endpoint's lock. Tcp then matches "
		       "messages in lists that other threads change. Our thread makes the "
		       "core's progress, too. So the core is opened without its own "
		       "(info_to_core()).",
		.see = "Keep FI_PROGRESS_AUTO there: fi_p2p_stress -p 'tcp;ofi_rxm;ofi_p2p' "
		       "--auto hangs in every second minute on 16 CPUs. The thread sanitizer "
		       "sees it on two.",
	},
	{
		.provider = "ofi_rxm",
		.match = QUIRK_LAYER,
		.below = QUIRK_STILL,
		.name = "QUIRK_KEY_ONCE",
		.does = "fails if two regions have one key, in a domain with atomic operations",
		.why = "It keeps a table by key for them. Verbs' cache gives two registrations "
		       "of the same memory one key, and 1.17 then frees something twice. So we "
		       "register without the cache there (domain_open()).",
		.see = "Set xfer.local_flags to 0 there: fi_p2p_atomic -p "
		       "'verbs;ofi_rxm;ofi_p2p' fails (contrib/vm).",
	},
	{
		.provider = "ofi_rxm",
		.match = QUIRK_LAYER,
		.below = QUIRK_STILL,
		.name = "QUIRK_LONG_LEN",
		.does = "tells the whole length of a message that is too long for its receive",
		.why = "We cut the length down to what is left of a multi-receive buffer "
		       "(multi_recv_placed()).",
		.see = "Leave that out: a message too long for such a buffer on a device is "
		       "copied beyond its end.",
	},
	{
		.provider = "tcp;ofi_rxm",
		.below = QUIRK_TCP_IS_NET,
		.name = "QUIRK_READ_TWICE",
		.does = "crashes when an endpoint is closed while the answer to a read comes "
			"in",
		.why = "tcpx_ep_flush_all_queues() finds the read in two places, and reports "
		       "and frees it twice. So we wait a little for reads under way before we "
		       "close an endpoint (rndv_lent_close()).",
		.see = "Let rndv_lent_close() do nothing: fi_p2p_closing -p "
		       "'tcp;ofi_rxm;ofi_p2p' crashes.",
	},
	{
		.provider = "tcp;ofi_rxm",
		.from = QUIRK_TCP_IS_NET,
		.below = QUIRK_STILL,
		.name = "QUIRK_NESTS",
		.does = "has three epoll instances within each other behind a descriptor",
		.why = "The kernel allows five. So the members of a wait set use the set's "
		       "instance in place of their own (waitset.h).",
		.see = "Give each member its own there: fi_p2p_waitset -p "
		       "'tcp;ofi_rxm;ofi_p2p' fails, as epoll_ctl() says ELOOP.",
	},

	/* ---- shm and sm2 ---- */
	{
		.provider = "shm",
		.below = QUIRK_STILL,
		.flag = QUIRK_NEAR,
		.does = "reaches no peers but those on this host",
		.why = "So we offer every longer message to be copied from device to device, "
		       "by a note that both processes have mapped (board.h).",
		.see = "runfabtests -f ipc.list -p 'shm;ofi_p2p' -k kinds fails without this "
		       "row.",
	},
	{
		.provider = "shm",
		.below = QUIRK_STILL,
		.flag = QUIRK_FRAGILE,
		.does = "crashes when something is sent to a closed endpoint of this process",
		.why = "Its endpoints find each other's memory by a pointer. An application "
		       "sends nothing there, but we may have to answer, or have what it "
		       "sent before (gone.h).",
		.see = "Let gone_is_late() say no: p2p_sim fails at ring_to_closed.sim. Its model has "
		       "what the core does.",
	},
	{
		.provider = "shm",
		.from = FI_VERSION(1, 17),
		.below = FI_VERSION(1, 18),
		.flag = QUIRK_SERIAL,
		.does = "loses a message that comes while another thread posts a receive",
		.why = "smr_progress_cmd_msg() looks for a receive, finds none, lets the lock go, "
		       "and only then queues the message. A receive that is posted between never "
		       "meets it. Threads of ours call beside the application's, and we post "
		       "receives where an application sends. So from the first device memory on every "
		       "call that reads or receives has our lock, where several threads may call "
		       "(xfer_serialise()).",
		.see = "fi_p2p_threads -p 'shm;ofi_p2p' hangs without this row, on device memory.",
	},
	{
		.provider = "shm",
		.below = FI_VERSION(1, 19),
		.flag = QUIRK_NO_PEEK,
		.does = "takes peeks for receives",
		.why = "It does not look at FI_PEEK, FI_CLAIM and FI_DISCARD. Since 1.19 "
		       "util_srx_generic_trecv() does. So we refuse them before.",
		.see = "fi_p2p_stress -p shm -D system fails without the row of shm with "
		       "QUIRK_PEEK in fabtests/stress/quirks.c.",
	},
	{
		.provider = "shm",
		.below = FI_VERSION(1, 19),
		.flag = QUIRK_RECV_NOMEM,
		.does = "says -FI_ENOMEM when all of its receives are in use",
		.why = "smr_get_recv_entry() has a pool of fixed size, which grows since 1.19. "
		       "Pieces may have all of them, so it is taken for no room (core_post()).",
		.see = "Post more receives than fi_rx_attr.size over shm alone.",
	},
	{
		.provider = "shm",
		.below = FI_VERSION(1, 19),
		.name = "QUIRK_EMPTY_WRITE",
		.does = "never ends a write of no bytes with FI_DELIVERY_COMPLETE, nor what follows it",
		.why = "smr_select_proto() takes the segments of long messages for it, and there is "
		       "none. Nothing of it has to be delivered. So we do not ask for that "
		       "(rma_post()).",
		.see = "Ask for it all the same: fi_p2p_multirecv -p 'shm;ofi_p2p' hangs.",
	},
	{
		.provider = "shm",
		.below = FI_VERSION(2, 5),
		.flag = QUIRK_ATOMICS,
		.does = "frees the buffer of an atomic operation with FI_DELIVERY_COMPLETE twice",
		.why = "smr_progress_inject_atomic() frees it at the target, and smr_progress_resp() "
		       "where the answer comes. So two operations have one buffer from then on, and "
		       "bytes of ours and of the user's arrive wrong. So we serve atomic operations, "
		       "under the core's keys, too. Domains without FI_HMEM keep the fault, and so "
		       "does the hook.",
		.see = "fi_p2p_delivered -p 'shm;ofi_p2p' -D system fails without this row.",
	},
	{
		.provider = "shm",
		.below = QUIRK_STILL,
		.flag = QUIRK_KEYS,
		.does = "counts the keys that it chooses",
		.why = "The cause and the cure are those of net.",
		.see = "fi_p2p_objects -p 'shm;ofi_p2p' fails without this row.",
	},
	{
		.provider = "sm2",
		.from = FI_VERSION(1, 18),
		.below = QUIRK_STILL,
		.flag = QUIRK_NO_DATA,
		.does = "does not tell that a message has remote cq data",
		.why = "sm2_rx_cq_flags() has 16 bits for flags, and FI_REMOTE_CQ_DATA is the "
		       "17th (1.18 to 2.6). A marker would look like an empty message. So we "
		       "do not offer it.",
		.see = "runfabtests -f ipc.list -p 'sm2;ofi_p2p' fails without this row.",
	},

	/* ---- sockets ---- */
	{
		.provider = "sockets",
		.below = QUIRK_STILL,
		.flag = QUIRK_NO_DATA,
		.does = "does not tell that a message has remote cq data, if it comes before its "
			"receive",
		.why = "sock_pe_progress_buffered_rx() takes over the data, and not the flag. A marker "
		       "would look like an empty message. So we do not offer it.",
		.see = "runfabtests -p 'sockets;ofi_p2p' fails without this row.",
	},

	/* ---- verbs ---- */
	{
		.provider = "verbs",
		.match = QUIRK_LAYER,
		.below = QUIRK_STILL,
		.flag = QUIRK_MAPS,
		.does = "has a NIC that reaches device memory, once that is registered",
		.why = "Its keys have 4 bytes. We offer 8, which leaves room for marks beside "
		       "them.",
		.see = "runfabtests -f peer.list fails without this row (contrib/vm).",
	},
	{
		.provider = "verbs",
		.below = QUIRK_STILL,
		.flag = QUIRK_DIRECT,
		.does = "touches messages by the CPU only if it inlines them",
		.why = "Its endpoints are connected, and no layer above copies what they send "
		       "or receive. So the NIC gets a longer message of device memory as it "
		       "is.",
		.see = "runfabtests -f peer.list -e msg fails without this row (contrib/vm).",
	},
	{
		.provider = "verbs",
		.match = QUIRK_LAYER,
		.below = QUIRK_STILL,
		.flag = QUIRK_ATOMICS,
		.does = "does atomic operations by the CPU, and reports other sends than have "
			"ended then",
		.why = "The CPU would touch device memory. Besides, rxm_handle_atomic_resp() "
		       "frees a send buffer that the NIC may not have given back (1.17 to "
		       "2.6). The next message from it is reported, and its buffer freed, "
		       "twice (rxm_handle_comp(), RXM_ATOMIC_RESP_WAIT). Requests that verbs "
		       "inlines have no such completion. Tcp completes a send before it reads "
		       "an answer. So we serve atomic operations, under the core's keys, too. "
		       "The hook and domains without FI_HMEM keep the fault.",
		.see = "fi_p2p_stress -p 'verbs;ofi_rxm' -D system, without the row with "
		       "QUIRK_ATOMICS in fabtests/stress/quirks.c, over a libfabric with "
		       "--enable-debug.",
	},
	{
		.provider = "verbs",
		.match = QUIRK_LAYER,
		.below = QUIRK_STILL,
		.name = "QUIRK_STALE_MR",
		.does = "caches regions, and does not see that device memory was freed",
		.why = "Its cache watches system memory. So we register device memory without "
		       "it (MAP_FLAG_NOCACHE).",
		.see = "Leave that flag out: fi_p2p_realloc -p 'verbs;ofi_rxm;ofi_p2p' fails "
		       "(contrib/vm).",
	},
	{
		.provider = "verbs;ofi_rxm",
		.below = QUIRK_STILL,
		.name = "QUIRK_EMPTY_MR",
		.does = "crashes at a read or write of no bytes at a device's address",
		.why = "rxm_ep_rma_reg_iov() registers the buffer. vrb_mr_reg_common() passes "
		       "over what the kernel cannot register, and the descriptor is NULL. So "
		       "the address becomes one of ours (rma_core.c).",
		.see = "Leave that out: fi_p2p_stress -p 'verbs;ofi_rxm;ofi_p2p' --seed 2 "
		       "--rounds 20 with FI_P2P_PATH=stage crashes (2.1, contrib/vm).",
	},

	/* ---- libfabric itself ---- */
	{
		.match = QUIRK_ANY,
		.below = FI_VERSION(1, 20),
		.flag = QUIRK_NO_DMABUF,
		.does = "cannot register dma-bufs with this libfabric",
		.why = "FI_MR_DMABUF came with 1.20. Releases before it ignore the flag, and "
		       "take the structure for a list of buffers. So peer-mem is the only way "
		       "there (nic_map.h).",
		.see = "fi_p2p_info says so over verbs.",
	},
	{
		.provider = "off_",
		.match = QUIRK_BEGINS,
		.below = QUIRK_STILL,
		.flag = QUIRK_NO_HOOK,
		.does = "transfers nothing by itself",
		.why = "It offloads collectives. ofi_rxm of 2.x opens it, and hands it objects "
		       "of its own (FI_PEER), which have to arrive as they are. So the hook "
		       "keeps off it.",
		.see = "runfabtests -m hook -p 'tcp;ofi_rxm' -k '^collective$' fails without "
		       "this row (2.x).",
	},
};

const size_t quirks_count = sizeof quirks_table / sizeof *quirks_table;

static bool quirks_layer(const char *provider, const char *layer)
{
	size_t len = strlen(layer), size;

	for (; *provider; provider += size + !!provider[size]) {
		size = strcspn(provider, ";");
		if (size == len && !strncasecmp(provider, layer, len))
			return true;
	}
	return false;
}

static bool quirks_named(const struct quirk *row, const char *provider, uint32_t version)
{
	if (row->match == QUIRK_ANY)
		return true;
	if (!provider)
		return false;
	if (row->match == QUIRK_LAYER)
		return quirks_layer(provider, row->provider);
	if (row->match == QUIRK_BEGINS)
		return !strncasecmp(provider, row->provider, strlen(row->provider));
	if (row->match == QUIRK_NET && version >= QUIRK_TCP_IS_NET)
		return !strcasecmp(provider, "tcp");
	return !strcasecmp(provider, row->provider);
}

bool quirks_match(const struct quirk *row, const char *provider, uint32_t version)
{
	return version >= row->from && version < row->below &&
	       quirks_named(row, provider, version);
}

uint64_t quirks_of_name(const char *provider, uint32_t version)
{
	uint64_t flags = 0;

	for (size_t i = 0; i < quirks_count; i++) {
		if (quirks_match(&quirks_table[i], provider, version))
			flags |= quirks_table[i].flag;
	}
	return flags;
}

const char *quirks_tcp_alone(uint32_t version)
{
	return version >= QUIRK_TCP_IS_NET ? "tcp;^ofi_rxm" : "net;^ofi_rxm";
}

uint64_t quirks_of(const struct fi_info *core, uint32_t version)
{
	return quirks_of_name(core->fabric_attr ? core->fabric_attr->prov_name : NULL, version);
}
