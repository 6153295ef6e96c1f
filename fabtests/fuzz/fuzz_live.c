/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A live endpoint, and a liar. All are in this process, over the installed libfabric and the emulated
 * device:
 *
 *	the victim	an endpoint of ofi_p2p's
 *	the friend	another one. The two exchange messages all the time, and check each byte
 *	the liar	an endpoint of the core provider's alone. It sends the victim control messages,
 *			markers, pieces and plain messages, of what the victim has told it
 *	its side	another one of the liar's. Over cores that stall, peers greet each other from such a
 *			one, and their control messages take it
 *
 * An input is what the liar says, and what the victim asks of it meanwhile. Whatever that is, the
 * friends' exchange ends well. All is closed and opened again after some inputs: nothing may stay.
 *
 * The liar has mostly greeted the victim as its peers do. It lies with the tokens that it was given,
 * without any, and with guessed ones; and it greets in the friend's name, too.
 *
 * FUZZ_CORE is the core provider (tcp;ofi_rxm).
 */
#include "fuzz_msg.h"

#include <dirent.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sanitizer/common_interface_defs.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "unit.h"

#include "../cudaemu/driver.h"
#include "base/base.h"
#include "base/clock.h"
#include "path/info_tags.h"

#define LONGEST 40000
#define SHOWN 100000 /* long enough for lanes */
#define PENDING 8    /* what the victim has under way with the liar, of each kind */
#define ROUNDS 32    /* inputs for which the endpoints stay */
#define STEPS 1024   /* of an input */
#define PATIENCE                                                                               \
	30000    /* for an exchange [ms]: it takes one, of a machine that does nothing else */
#define ROOM 100 /* for room in a core that may have stopped [ms] */
#define TRANSFERS 16 /* numbers of the victim's that the liar knows */
#define LETTERS 64   /* of the liar's that may be under way */
#define GRANT 9      /* the liar's token for who it hears */
#define INTERNAL_KEY (1ULL << 63 | 1)

enum { TAG_THERE = 1, TAG_BACK, TAG_FROM_LIAR, TAG_TO_LIAR };
enum who { VICTIM, FRIEND, LIAR, SIDE, ENDS_MAX };

/* The address of each in the others' tables, as all insert all in this order */
static const fi_addr_t addr_of[ENDS_MAX] = {VICTIM, FRIEND, LIAR, SIDE};

/** struct op - one operation: what a completion's context is. */
struct op {
	struct fi_context2 context;
	bool pending;
	int err;
	uint8_t *buf;
};

struct end {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	uint8_t name[WIRE_NAME_MAX];
	size_t name_len;
};

static struct end ends[ENDS_MAX];
static size_t end_count = SIDE;
static const char *core = "tcp;ofi_rxm";
static uint64_t tag_bit;
/*
 * Does the core stall? Then the victim's side endpoint is at @victim_side, once the liar knows it; and the tags of
 * control messages tell whose they are, as it mixes up endpoints
 */
static bool direct;
static fi_addr_t victim_side;
static uint64_t ident, side_ident;

/* The victim's and the friend's device memory for their exchange; and what the victim shows the liar */
static uint8_t *out[2], *in_[2], *shown;
static struct fid_mr *region;
static struct op exchange[4], asked[3 * PENDING], letters[LETTERS], heard[LETTERS];
static uint8_t pattern[LONGEST], got[LONGEST];

/* What the liar has learned */
static struct fuzz_known known;
static uint32_t transfers[TRANSFERS];
static size_t transfer_count;

static uint64_t exchanged, said, learned, rounds, opened;

/* ---- endpoints ---- */

#define MUST(call)                                                                             \
	do {                                                                                   \
		const int must = (int) (call);                                                 \
		if (must) {                                                                    \
			fprintf(stderr, "%s: %s\n", #call, fi_strerror(-must));                \
			abort();                                                               \
		}                                                                              \
	} while (0)

static void end_getinfo(struct end *end, bool ours)
{
	struct fi_info *hints = fi_allocinfo();
	const char *node = strncmp(core, "shm", 3) ? "127.0.0.1" : NULL;
	char provider[64];

	FUZZ_CHECK(hints);
	snprintf(provider, sizeof provider, "%s%s", core, ours ? ";ofi_p2p" : "");
	hints->fabric_attr->prov_name = strdup(provider);
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED | (ours ? FI_RMA | FI_HMEM : 0);
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_HMEM;
	MUST(fi_getinfo(FI_VERSION(1, 17), node, NULL, node ? FI_SOURCE : 0, hints,
			&end->info));
	fi_freeinfo(hints);
}

static void end_open(struct end *end, bool ours)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 1024};

	end_getinfo(end, ours);
	MUST(fi_fabric(end->info->fabric_attr, &end->fabric, NULL));
	MUST(fi_domain(end->fabric, end->info, &end->domain, NULL));
	MUST(fi_av_open(end->domain, &av_attr, &end->av, NULL));
	MUST(fi_cq_open(end->domain, &cq_attr, &end->cq, NULL));
	MUST(fi_endpoint(end->domain, end->info, &end->ep, NULL));
	MUST(fi_ep_bind(end->ep, &end->av->fid, 0));
	MUST(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV));
	MUST(fi_enable(end->ep));
	end->name_len = sizeof end->name;
	MUST(fi_getname(&end->ep->fid, end->name, &end->name_len));
}

static void end_close(struct end *end)
{
	MUST(fi_close(&end->ep->fid));
	if (end == &ends[VICTIM])
		MUST(fi_close(&region->fid));
	MUST(fi_close(&end->cq->fid));
	MUST(fi_close(&end->av->fid));
	MUST(fi_close(&end->domain->fid));
	MUST(fi_close(&end->fabric->fid));
	fi_freeinfo(end->info);
	end->ep = NULL;
}

/* ---- completions ---- */

static void meet_side(const struct wire_msg *msg)
{
	FUZZ_CHECK(fi_av_insert(ends[SIDE].av, msg->payload, 1, &victim_side, 0, NULL) == 1);
	side_ident = wire_name_ident(msg->payload, msg->payload_len);
}

static void learn_of(const struct wire_msg *msg)
{
	if (msg->type == WIRE_HELLO)
		known.host = msg->key;
	if (msg->type == WIRE_HELLO && msg->grant)
		fuzz_admit(&known, msg->grant);
	if (msg->type == WIRE_HELLO && msg->flags & WIRE_SIDE &&
	    victim_side == FI_ADDR_UNSPEC && msg->payload_len == ends[SIDE].name_len)
		meet_side(msg);
	if (msg->type == WIRE_TAKE)
		transfers[transfer_count++ % TRANSFERS] = msg->transfer;
	if (msg->type == WIRE_LANES && msg->flags & WIRE_ASKS)
		known.lanes_kind = msg->len;
	fuzz_know(&known, msg->id);
}

/* What the victim says is read as it reads what it is told. */
static void learn(const uint8_t *at, size_t len)
{
	struct wire_msg msg;
	const char *why;

	do {
		if (!wire_decode(at, len, &msg, &why)) {
			learned++;
			learn_of(&msg);
		}
		at += msg.size;
		len -= msg.size;
	} while (msg.size && len);
}

/* The liar takes whatever comes, at either endpoint. */
static void overhear(struct op *op)
{
	const struct end *end = &ends[direct && (op - heard) % 2 ? SIDE : LIAR];

	op->pending = !fi_trecv(end->ep, op->buf, LONGEST, NULL, FI_ADDR_UNSPEC, 0, ~0ULL, op);
}

static void ended(struct op *op, int err, size_t len)
{
	if (!op)
		return;
	FUZZ_CHECK(op->pending);
	op->pending = false;
	op->err = err;
	if (op < heard || op >= heard + LETTERS)
		return;
	if (!err)
		learn(op->buf, len);
	overhear(op);
}

static void poll_one(struct end *end)
{
	struct fi_cq_tagged_entry entries[8];
	struct fi_cq_err_entry error = {.err = 0};
	ssize_t n = fi_cq_read(end->cq, entries, FUZZ_COUNT(entries));

	for (ssize_t i = 0; i < n; i++)
		ended(entries[i].op_context, 0, entries[i].len);
	if (n == -FI_EAVAIL && fi_cq_readerr(end->cq, &error, 0) == 1)
		ended(error.op_context, error.err, 0);
}

static void poll_all(void)
{
	for (size_t i = 0; i < end_count; i++)
		poll_one(&ends[i]);
}

/* Posts it, though the core may have no room at first. It never has for who has stopped it: then that is not sent */
#define POST(op, call)                                                                         \
	do {                                                                                   \
		const uint64_t post_until = clock_coarse_ms() + (direct ? ROOM : PATIENCE);    \
		ssize_t post;                                                                  \
		(op)->pending = true;                                                          \
		while ((post = (call)) == -FI_EAGAIN && clock_coarse_ms() < post_until)        \
			poll_all();                                                            \
		(op)->pending = !post;                                                         \
	} while (0)

/* ---- the friends ---- */

static void exchange_post(size_t len)
{
	for (size_t i = 0; i < len; i++)
		pattern[i] = (uint8_t) (i * 7 + (i >> 8) + exchanged);
	for (size_t i = 0; i < 2; i++) {
		const fi_addr_t other = addr_of[!i];

		unit_dev_write(out[i], pattern, len);
		POST(&exchange[2 * i], fi_trecv(ends[i].ep, in_[i], LONGEST, NULL, other,
						i ? TAG_THERE : TAG_BACK, 0, &exchange[2 * i]));
		FUZZ_CHECK(exchange[2 * i].pending);
	}
	for (size_t i = 0; i < 2; i++) {
		struct op *op = &exchange[2 * i + 1];

		POST(op, fi_tsend(ends[i].ep, out[i], len, NULL, addr_of[!i],
				  i ? TAG_BACK : TAG_THERE, op));
		FUZZ_CHECK(op->pending);
	}
}

static void exchange_check(size_t len)
{
	const uint64_t until = clock_coarse_ms() + PATIENCE;

	for (size_t i = 0; i < FUZZ_COUNT(exchange); i++) {
		while (exchange[i].pending) {
			poll_all();
			FUZZ_CHECK(clock_coarse_ms() < until);
		}
		if (exchange[i].err)
			fprintf(stderr, "the friends' exchange, %s of the %s: %s\n",
				i % 2 ? "the message" : "the receive",
				i / 2 ? "friend" : "victim", fi_strerror(exchange[i].err));
		FUZZ_CHECK(!exchange[i].err);
	}
	for (size_t i = 0; i < 2; i++) {
		unit_dev_read(got, in_[i], len);
		FUZZ_CHECK(!memcmp(got, pattern, len));
	}
	exchanged++;
}

/* ---- the liar, and what the victim has to do with it ---- */

static struct op *idle(struct op *all, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!all[i].pending)
			return &all[i];
	}
	return NULL;
}

/* One of the liar's buffers; NULL: the victim does not take what the liar has said before */
static struct op *letter_new(void)
{
	struct op *op = idle(letters, LETTERS);

	for (unsigned int i = 0; !op && i < 1000; i++) {
		poll_all();
		op = idle(letters, LETTERS);
	}
	said += op != NULL;
	return op;
}

static void letter_send(struct op *op, size_t len, uint64_t tag)
{
	if (op)
		POST(op, fi_tsend(ends[LIAR].ep, op->buf, len, NULL, addr_of[VICTIM], tag, op));
}

/* A control message, from the liar or from its side endpoint to the victim's */
static void control_send(struct op *op, size_t len, bool aside)
{
	const bool met = aside && victim_side != FI_ADDR_UNSPEC;
	const fi_addr_t to = met ? victim_side : VICTIM;
	const uint64_t tag = tag_bit | (direct ? (met ? side_ident : ident) : 0);

	if (op)
		POST(op,
		     fi_tsend(ends[aside ? SIDE : LIAR].ep, op->buf, len, NULL, to, tag, op));
}

static void say(struct fuzz *in)
{
	struct op *op = letter_new();
	struct fuzz_known now = known;
	/* over cores that stall, a peer may pretend to be another one, and its side to be its own: security.md */
	const struct end *named = &ends[!direct && fuzz_rarely(in, 4) ? FRIEND : LIAR];
	const struct end *side = &ends[direct ? SIDE : fuzz_rarely(in, 4) ? FRIEND : LIAR];

	if (!op)
		return;
	now.name = named->name;
	now.name_len = named->name_len;
	now.side = side->name;
	now.side_len = side->name_len;
	control_send(op, fuzz_letter(in, &now, op->buf), direct && !fuzz_rarely(in, 8));
}

static void greet_step(uint32_t step, uint64_t token)
{
	const struct end *liar = &ends[LIAR];
	const struct wire_msg msg = {
		.type = WIRE_HELLO,
		.flags = step | WIRE_FOLLOWS | WIRE_MAY_LANES | WIRE_BORROWS |
			 (direct ? WIRE_SIDE : 0),
		.token = token,
		.process = 1,
		.grant = GRANT,
		.oldest = WIRE_VERSION_OLDEST,
		.newest = WIRE_VERSION,
		.name = liar->name,
		.name_len = liar->name_len,
		.payload = ends[SIDE].name,
		.payload_len = direct ? ends[SIDE].name_len : 0,
	};
	struct op *op = letter_new();

	FUZZ_CHECK(op);
	control_send(op, wire_encode(&msg, op->buf), direct);
}

/* Greets the victim as a peer does. */
static void greet(void)
{
	const uint64_t until = clock_coarse_ms() + PATIENCE;

	greet_step(WIRE_ASKS, 0);
	while (!known.token_count) {
		poll_all();
		FUZZ_CHECK(clock_coarse_ms() < until);
	}
	greet_step(WIRE_CONFIRMS, known.tokens[0]);
}

static void say_marker(struct fuzz *in)
{
	struct op *op = letter_new();
	const uint64_t data = WIRE_MARK | fuzz_id(in, &known);
	const size_t len = fuzz_rarely(in, 8) ? fuzz_take(in, 1) : 0;

	if (op)
		POST(op, fi_tsenddata(ends[LIAR].ep, op->buf, len, NULL, data, addr_of[VICTIM],
				      TAG_FROM_LIAR, op));
}

static void say_plain(struct fuzz *in)
{
	letter_send(letter_new(), fuzz_take(in, 2) % WIRE_MSG_MAX, TAG_FROM_LIAR);
}

static void say_piece(struct fuzz *in)
{
	const unsigned int i = fuzz_pick(in, TRANSFERS);
	const uint64_t transfer = i < transfer_count ? transfers[i] : i;
	const uint64_t piece = transfer << WIRE_TAG_TRANSFER_SHIFT | fuzz_pick(in, 4);

	letter_send(letter_new(), fuzz_take(in, 2) % WIRE_MSG_MAX,
		    tag_bit | WIRE_TAG_PIECE | (piece & (WIRE_TAG_PIECE - 1)));
}

static size_t some_len(struct fuzz *in)
{
	static const uint32_t lens[] = {100, 4096, 4097, 8192, 20000, LONGEST, SHOWN};

	return lens[fuzz_pick(in, FUZZ_COUNT(lens))];
}

static void ask_recv(struct fuzz *in)
{
	struct op *op = idle(asked, PENDING);

	if (op)
		POST(op, fi_trecv(ends[VICTIM].ep, shown, some_len(in), NULL, addr_of[LIAR],
				  TAG_FROM_LIAR, 0, op));
}

static void ask_send(struct fuzz *in)
{
	struct op *op = idle(asked + PENDING, PENDING);

	if (op)
		POST(op, fi_tsend(ends[VICTIM].ep, shown, some_len(in), NULL, addr_of[LIAR],
				  TAG_TO_LIAR, op));
}

static void ask_rma(struct fuzz *in)
{
	struct op *op = idle(asked + 2 * PENDING, PENDING);
	const size_t len = some_len(in);

	if (!op)
		return;
	/* once: who has not greeted is waited for */
	op->pending = !(fuzz_rarely(in, 2) ? fi_read(ends[VICTIM].ep, shown, len, NULL,
						     addr_of[LIAR], 0, INTERNAL_KEY, op)
					   : fi_write(ends[VICTIM].ep, shown, len, NULL,
						      addr_of[LIAR], 0, INTERNAL_KEY, op));
}

static void step(struct fuzz *in)
{
	const unsigned int what = fuzz_pick(in, 16);

	if (what < 8)
		say(in);
	else if (what == 8)
		say_marker(in);
	else if (what == 9)
		say_plain(in);
	else if (what == 10)
		say_piece(in);
	else if (what == 11)
		ask_recv(in);
	else if (what == 12)
		ask_send(in);
	else if (what == 13)
		ask_rma(in);
	else
		poll_all();
}

/* ---- rounds ---- */

/* Of a connection? Cores may leave one open where an endpoint is closed while it connects. */
static bool is_tcp(const char *number)
{
	int protocol = 0;
	socklen_t len = sizeof protocol;

	return !getsockopt(atoi(number), SOL_SOCKET, SO_PROTOCOL, &protocol, &len) &&
	       protocol == IPPROTO_TCP;
}

static size_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	size_t count = 0;

	FUZZ_CHECK(dir);
	while ((entry = readdir(dir)))
		count += !is_tcp(entry->d_name);
	closedir(dir);
	return count;
}

static void open_all(void)
{
	opened++;
	for (size_t i = 0; i < end_count; i++)
		end_open(&ends[i], i != LIAR && i != SIDE);
	for (size_t i = 0; i < end_count; i++) {
		for (size_t j = 0; j < end_count; j++)
			FUZZ_CHECK(fi_av_insert(ends[i].av, ends[j].name, 1, NULL, 0, NULL) ==
				   1);
	}
	tag_bit = info_tag_bit(ends[VICTIM].info->ep_attr->mem_tag_format);
	MUST(fi_mr_reg(ends[VICTIM].domain, shown, SHOWN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
		       0, 0, &region, NULL));
	known = (struct fuzz_known){.keys = {fi_mr_key(region), INTERNAL_KEY},
				    .key_count = 2,
				    .grant = GRANT};
	transfer_count = 0;
	victim_side = FI_ADDR_UNSPEC;
	ident = wire_name_ident(ends[VICTIM].name, ends[VICTIM].name_len);
	for (size_t i = 0; i < 4; i++)
		fuzz_know(&known, (uint64_t) 77 << 24 | i);
	for (size_t i = 0; i < LETTERS; i++)
		overhear(&heard[i]);
	/* else the victim greets it, or nobody does */
	if (opened % 4)
		greet();
}

/*
 * Nothing may stay open that was not open after the first round. The program that sanitizers have
 * addresses read by is begun before that.
 */
static void check_fds(void)
{
	static size_t first;
	char text[64];
	size_t now;

	__sanitizer_symbolize_pc(__builtin_return_address(0), "%f", text, sizeof text);
	now = count_fds();
	if (!first)
		first = now;
	if (now > first)
		fprintf(stderr, "%zu descriptors are open, and were %zu\n", now, first);
	if (now > first && system("ls -l /proc/$PPID/fd >&2"))
		fprintf(stderr, "they cannot be listed\n");
	FUZZ_CHECK(now <= first);
}

static void close_all(void)
{

	/* the program may end between two rounds */
	if (!ends[VICTIM].ep)
		return;
	for (size_t i = 0; i < end_count; i++)
		end_close(&ends[i]);
	for (size_t i = 0; i < LETTERS; i++)
		letters[i].pending = false;
	for (size_t i = 0; i < FUZZ_COUNT(asked); i++)
		asked[i].pending = false;
	check_fds();
}

static void start_device(void)
{
	FUZZ_CHECK(cuInit(0) == CUDA_SUCCESS);
	unit_dev_use(0);
	for (size_t i = 0; i < 2; i++) {
		out[i] = unit_dev_alloc(LONGEST);
		in_[i] = unit_dev_alloc(LONGEST);
	}
	shown = unit_dev_alloc(SHOWN);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	fuzz_start();
	setenv("CMOCKA_TEST_ABORT", "1", 1);
	setenv("FI_PROVIDER_PATH", FUZZ_PROVIDERS, 1);
	if (getenv("FUZZ_CORE"))
		core = getenv("FUZZ_CORE");
	direct = !strchr(core, ';') && strcmp(core, "shm");
	end_count += direct;
	/* a few slots, so that they are scarce */
	setenv("FI_P2P_EAGER_SIZE", "8192", 1);
	setenv("FI_P2P_CHUNK_SIZE", "16384", 1);
	setenv("FI_P2P_PINNED_SIZE", "4194304", 1);
	setenv("FI_P2P_LANES", "2", 1);
	/* reads of who has not been greeted are refused for so long, and the whole fuzzer waits */
	setenv("FI_P2P_PEER_TIMEOUT", "1", 1);
	/*
	 * a message that ofi_rxm leaves to the receiver to read keeps the domain busy if nobody
	 * does, without ofi_p2p, too
	 */
	setenv("FI_OFI_RXM_BUFFER_SIZE", "106496", 1);
	setenv("FI_OFI_RXM_MSG_RX_SIZE", "16", 1);
	start_device();
	atexit(close_all);
	for (size_t i = 0; i < LETTERS; i++) {
		letters[i].buf = calloc(1, WIRE_MSG_MAX);
		heard[i].buf = calloc(1, LONGEST);
		FUZZ_CHECK(letters[i].buf && heard[i].buf);
	}
	fuzz_tell("times that all was opened", &opened);
	fuzz_tell("exchanges of the friends", &exchanged);
	fuzz_tell("messages of the liar", &said);
	fuzz_tell("control messages that it was sent", &learned);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t lens[] = {100, 9000, LONGEST};
	const size_t len = lens[rounds % FUZZ_COUNT(lens)];
	struct fuzz in = {data, size};

	if (rounds++ % ROUNDS == 0)
		open_all();
	exchange_post(len);
	for (unsigned int steps = 0; steps < STEPS && in.left; steps++)
		step(&in);
	exchange_check(len);
	if (rounds % ROUNDS == 0)
		close_all();
	return 0;
}
