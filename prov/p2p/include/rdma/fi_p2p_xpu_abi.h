/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What kernels and the proxy share. Not for applications, which include
 * rdma/fi_p2p_xpu_device.h. A kernel that was compiled with another FI_P2P_XPU_ABI is refused.
 *
 * A ring is a queue of triggers from a kernel to the proxy. Its slots lie in pinned host memory: a
 * store of 16 bytes writes one, without a fence behind it. The proxy sees that a slot is new by the
 * lap bit, which changes each time around. A put or a signal is one trigger. Any other operation
 * has 7 more parts of 16 bytes, which lie beside the slot. Each bears the position in the ring, so
 * parts may arrive in any order.
 *
 *	kernel                                                      proxy
 *	head < done + size, or *tail is read again: -FI_EAGAIN if full
 *	parts[head % size][0..6] = {value, position and more}
 *	slots[head % size] = {value, lap bit, kind and more} -----> slots[tail % size] is new
 *	                                                            waits for its parts
 *	                                                            posts it to the core
 *	                     <------------------------------------- *tail = tail + 1
 *
 * A hundred blocks that read one word of the host's wait for each other, some 1 us each. Words of
 * their own are read beside each other. So each ring has a tail of its own, and of what all blocks look at, one
 * thread at a time reads the host's memory, and leaves what it has seen in the device's.
 */
#ifndef FI_P2P_XPU_ABI_H
#define FI_P2P_XPU_ABI_H

#include <stdint.h>

#define FI_P2P_XPU_ABI 3U
#define FI_P2P_XPU_OWNED (1ULL << 32)
/* Kernels of releases that know of no mapped targets take this for another ABI */
#define FI_P2P_XPU_MAPPED (1U << 31)

/* What a trigger is, in bits 60 to 62 of its second word; bit 63 is the lap bit */
enum {
	FI_P2P_XPU_KIND_OP, /* see the parts; the lowest byte says what: FI_P2P_XPU_OP_... */
	FI_P2P_XPU_KIND_PUT, /* a write to a target: bits 48 to 59 its number, 40 of offset there, 40 of
			      * offset here, 32 of length */
	FI_P2P_XPU_KIND_SET,  /* 8 bytes become the first word */
	FI_P2P_XPU_KIND_ADD,  /* the first word is added to 8 bytes */
	FI_P2P_XPU_KIND_DONE, /* the kernel has put or signalled itself: that is to be counted */
	FI_P2P_XPU_KIND_ENDED, /* the kernel has done another operation itself: it is to be counted and reported. The first word
				* is its context, the lowest byte says what, bits 24 to 31 are its flags */
	FI_P2P_XPU_KIND_NONE = 7, /* arguments that cannot be packed: the proxy refuses it */
};

#define FI_P2P_XPU_LAP (1ULL << 63)
/* Of the tail of a ring, and of the errors of a counter: the object is no longer exported */
#define FI_P2P_XPU_CLOSED (1ULL << 63)
/* Of the turn of an entry: it is an error */
#define FI_P2P_XPU_ERROR (1ULL << 63)
#define FI_P2P_XPU_KIND_SHIFT 60
#define FI_P2P_XPU_TARGET_SHIFT 48
#define FI_P2P_XPU_TARGETS_MASK 0xfffULL
#define FI_P2P_XPU_OFFSET_BITS 40

enum {
	FI_P2P_XPU_OP_SEND,
	FI_P2P_XPU_OP_RECV,
	FI_P2P_XPU_OP_TSEND,
	FI_P2P_XPU_OP_TRECV,
	FI_P2P_XPU_OP_WRITE,
	FI_P2P_XPU_OP_READ,
	FI_P2P_XPU_OP_ATOMIC,
	FI_P2P_XPU_OP_FETCH,
	FI_P2P_XPU_OP_COMPARE,
	FI_P2P_XPU_OP_CNTR_ADD,
	FI_P2P_XPU_OP_CNTR_SET,
	FI_P2P_XPU_OP_CNTR_ADDERR,
	FI_P2P_XPU_OP_CNTR_SETERR,
	FI_P2P_XPU_OP_MAX
};

/* One store of a kernel */
struct fi_p2p_xpu_word2 {
	uint64_t lo, hi;
} __attribute__((aligned(16)));

#define FI_P2P_XPU_PARTS 7

/* What a slot has beside it. Of a part, the upper half of @hi is its position in the ring. */
struct fi_p2p_xpu_parts {
	struct fi_p2p_xpu_word2 part[FI_P2P_XPU_PARTS];
	struct fi_p2p_xpu_word2 unused;
};

/*
 * The words of an operation. The first ones are those of the trigger and of the parts in turn;
 * two halves of parts make one more each from FI_P2P_XPU_W_HALVES on.
 */
enum {
	FI_P2P_XPU_W_BUF, /* of the trigger itself */
	FI_P2P_XPU_W_LEN,
	FI_P2P_XPU_W_DESC,
	FI_P2P_XPU_W_PEER,
	FI_P2P_XPU_W_ADDR, /* or the tag */
	FI_P2P_XPU_W_KEY,  /* or what of the tag is ignored */
	FI_P2P_XPU_W_CONTEXT,
	FI_P2P_XPU_W_DATA, /* or where the operand of a comparison is */
	FI_P2P_XPU_W_HALVES,
	FI_P2P_XPU_W_RESULT = FI_P2P_XPU_W_HALVES,
	FI_P2P_XPU_W_RESULT_DESC,
	FI_P2P_XPU_W_COMPARE_DESC,
	FI_P2P_XPU_WORDS
};

/* Of the second word of a trigger of kind OP */
#define FI_P2P_XPU_OP_MASK 0xffULL
#define FI_P2P_XPU_DATATYPE_SHIFT 8
#define FI_P2P_XPU_ATOMIC_SHIFT 16
#define FI_P2P_XPU_FLAGS_SHIFT 24 /* FI_COMPLETION and the like: FI_P2P_XPU_F_... */

/* Flags of fi_endpoint(3) that a kernel may give, packed */
#define FI_P2P_XPU_F_COMPLETION (1U << 0)
#define FI_P2P_XPU_F_REMOTE_CQ_DATA (1U << 1)
#define FI_P2P_XPU_F_INJECT (1U << 2)
#define FI_P2P_XPU_F_INJECT_COMPLETE (1U << 3)
#define FI_P2P_XPU_F_TRANSMIT_COMPLETE (1U << 4)
#define FI_P2P_XPU_F_DELIVERY_COMPLETE (1U << 5)
#define FI_P2P_XPU_F_FENCE (1U << 6)
#define FI_P2P_XPU_F_COMMIT_COMPLETE (1U << 7)

/**
 * struct fi_p2p_xpu_ring - a ring, as the kernel has it, in device memory.
 * @head:	the next position
 * @done:	how far the proxy was, last time
 * @slots:	@size of them, a power of two of at most 2^31; @parts: as many
 * @tail:	how far the proxy is, in host memory; with FI_P2P_XPU_CLOSED once nobody empties it any more
 */
struct fi_p2p_xpu_ring {
	uint64_t head;
	uint64_t done;
	struct fi_p2p_xpu_word2 *slots;
	uint64_t size;
	struct fi_p2p_xpu_parts *parts;
	uint64_t *tail;
	uint64_t unused[10];
} __attribute__((aligned(128)));

/**
 * struct fi_p2p_xpu_mapped - a target, as kernels have it that store to its memory themselves.
 * @to:		where they find the peer's memory: the target's addr; 0: the proxy posts what is for this target
 * @from:	the same of the target's buf; 0: it has none
 * @len:	from @to on, so many bytes may be written
 */
struct fi_p2p_xpu_mapped {
	uint64_t to, from, len, unused;
} __attribute__((aligned(16)));

/*
 * What is longer is the proxy's: so many words for each thread that copies, or so many bytes of an atomic operation. A word is as
 * long as both addresses allow, up to 16 bytes. Four of them take one trip to memory, and 16 trips take as long as the proxy.
 */
#ifndef FI_P2P_XPU_WORDS_MAX
#define FI_P2P_XPU_WORDS_MAX 64U
#endif
#define FI_P2P_XPU_ATOMIC_MAX 2048U

/* Ranges of an endpoint, and how many of them a kernel looks at, from FI_P2P_XPU_RANGE_AT() on. As many follow the last one */
#define FI_P2P_XPU_RANGES 8192U
#define FI_P2P_XPU_PROBES 8U
#define FI_P2P_XPU_RANGE_AT(peer, key)                                                         \
	(((uint64_t) (key) + (uint64_t) (peer) *0x9e3779b97f4a7c15ULL) *                       \
		 0x9e3779b97f4a7c15ULL >>                                                      \
	 51)

/* What a range is good for; the lowest bits are the number of the target */
#define FI_P2P_XPU_RANGE_READ (1ULL << 32)
#define FI_P2P_XPU_RANGE_WRITE (1ULL << 33)

/**
 * struct fi_p2p_xpu_range - a mapped target, as kernels find it by what the calls of fi_xpu(3) are given.
 * @peer, @key:	whose memory it is
 * @addr:	where it begins, as the calls name it; @to: where kernels find it; @len: its length [bytes]
 * @local:	memory here that kernels reach, @local_len bytes
 * @what:	FI_P2P_XPU_RANGE_...; 0: there is no range
 */
struct fi_p2p_xpu_range {
	uint64_t peer, key;
	uint64_t addr, to;
	uint64_t len, local;
	uint64_t local_len, what;
} __attribute__((aligned(64)));

/* What an endpoint has of mapped targets, by number and by peer and key */
struct fi_p2p_xpu_table {
	struct fi_p2p_xpu_mapped mapped[FI_P2P_XPU_TARGETS_MASK + 1];
	struct fi_p2p_xpu_range range[FI_P2P_XPU_RANGES + FI_P2P_XPU_PROBES];
};

/* What of a kernel's own is to be told: puts and signals; other operations. And are there ranges? */
#define FI_P2P_XPU_TELL_PUTS (1ULL << 0)
#define FI_P2P_XPU_TELL_OPS (1ULL << 1)
#define FI_P2P_XPU_TELL_RANGES (1ULL << 2)

/*
 * What atomic operations make of @t, a word of the target's, with @o, the operand's, and @c, the comparand's: cases of a switch, for
 * kernels and for the provider. What only reads changes nothing. Complex numbers have no order. Integers wrap around, so
 * their sum is computed without a sign.
 */
#define FI_P2P_AMO_ANY(type)                                                                   \
	case FI_LOR:                                                                           \
		t = (type) (t || o);                                                           \
		break;                                                                         \
	case FI_LAND:                                                                          \
		t = (type) (t && o);                                                           \
		break;                                                                         \
	case FI_LXOR:                                                                          \
		t = (type) (!t != !o);                                                         \
		break;                                                                         \
	case FI_ATOMIC_WRITE:                                                                  \
		t = o;                                                                         \
		break;                                                                         \
	case FI_CSWAP:                                                                         \
		t = c == t ? o : t;                                                            \
		break;                                                                         \
	case FI_CSWAP_NE:                                                                      \
		t = c != t ? o : t;                                                            \
		break;
#define FI_P2P_AMO_ORDER                                                                       \
	case FI_MIN:                                                                           \
		t = o < t ? o : t;                                                             \
		break;                                                                         \
	case FI_MAX:                                                                           \
		t = o > t ? o : t;                                                             \
		break;                                                                         \
	case FI_CSWAP_LE:                                                                      \
		t = c <= t ? o : t;                                                            \
		break;                                                                         \
	case FI_CSWAP_LT:                                                                      \
		t = c < t ? o : t;                                                             \
		break;                                                                         \
	case FI_CSWAP_GE:                                                                      \
		t = c >= t ? o : t;                                                            \
		break;                                                                         \
	case FI_CSWAP_GT:                                                                      \
		t = c > t ? o : t;                                                             \
		break;
#define FI_P2P_AMO_NUMBERS                                                                     \
	case FI_SUM:                                                                           \
		t += o;                                                                        \
		break;                                                                         \
	case FI_PROD:                                                                          \
		t *= o;                                                                        \
		break;
#define FI_P2P_AMO_COMPLEX(type) FI_P2P_AMO_ANY(type) FI_P2P_AMO_NUMBERS
#define FI_P2P_AMO_REAL(type) FI_P2P_AMO_COMPLEX(type) FI_P2P_AMO_ORDER
#define FI_P2P_AMO_INTEGER(type)                                                               \
	FI_P2P_AMO_ANY(type)                                                                   \
	FI_P2P_AMO_ORDER                                                                       \
	case FI_SUM:                                                                           \
		t = (type) ((uint64_t) t + (uint64_t) o);                                      \
		break;                                                                         \
	case FI_PROD:                                                                          \
		t = (type) ((uint64_t) t * (uint64_t) o);                                      \
		break;                                                                         \
	case FI_BOR:                                                                           \
		t = (type) (t | o);                                                            \
		break;                                                                         \
	case FI_BAND:                                                                          \
		t = (type) (t & o);                                                            \
		break;                                                                         \
	case FI_BXOR:                                                                          \
		t = (type) (t ^ o);                                                            \
		break;                                                                         \
	case FI_MSWAP:                                                                         \
		t = (type) ((o & c) | (t & ~c));                                               \
		break;

/**
 * struct fi_p2p_xpu_ep_dev - an exported endpoint, in device memory: fid_xpu.prov_ctx.
 * @abi:	FI_P2P_XPU_ABI, with FI_P2P_XPU_OWNED if each ring has one user at a time, and with FI_P2P_XPU_MAPPED once
 *		@mapped is set
 * @rings:	how many
 * @mapped:	the first member of a struct fi_p2p_xpu_table
 * @tell:	FI_P2P_XPU_TELL_...
 *
 * The words before @ring stay as they are while kernels use the endpoint, as do those of a ring from @slots on.
 */
/* ISO C++ has no such array, all compilers have it */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
struct fi_p2p_xpu_ep_dev {
	uint64_t abi;
	uint64_t rings;
	const struct fi_p2p_xpu_mapped *mapped;
	uint64_t tell;
	struct fi_p2p_xpu_ring ring[];
};
#pragma GCC diagnostic pop

/* struct fi_p2p_xpu_count - a counter. @errors: with FI_P2P_XPU_CLOSED. Two words are read at once */
struct fi_p2p_xpu_count {
	uint64_t value;
	uint64_t errors;
} __attribute__((aligned(16)));

/**
 * struct fi_p2p_xpu_cntr_dev - an exported counter, in device memory.
 * @looking:	not 0 while a thread looks at @count; @looks: how often one has
 * @seen:	what it has seen there
 * @count:	in host memory; the proxy writes it
 * @ring:	of changes
 */
struct fi_p2p_xpu_cntr_dev {
	uint32_t abi;
	uint64_t looking;
	uint64_t looks;
	struct fi_p2p_xpu_count seen;
	struct fi_p2p_xpu_count *count;
	struct fi_p2p_xpu_ring ring;
};

/**
 * struct fi_p2p_xpu_entry - a completion, in host memory.
 * @turn:	its position and 1, once it is there, with FI_P2P_XPU_ERROR
 * @err:	0, or the error; then @data is prov_errno
 *
 * The first fields are those of struct fi_cq_tagged_entry.
 */
struct fi_p2p_xpu_entry {
	uint64_t context;
	uint64_t flags;
	uint64_t len;
	uint64_t buf;
	uint64_t data;
	uint64_t tag;
	uint64_t src;
	uint64_t olen;
	int32_t err;
	int32_t prov_errno;
	uint64_t unused[6];
	uint64_t turn;
} __attribute__((aligned(128)));

/* What a queue has beside its entries. @read: how many have been read, which kernels write */
struct fi_p2p_xpu_queue {
	uint64_t closed;
	uint64_t unused[7];
	uint64_t read;
} __attribute__((aligned(64)));

/**
 * struct fi_p2p_xpu_cq_dev - an exported queue, in device memory.
 * @looking:	not 0 while a thread looks at the entries
 * @head:	the next position to be read
 * @entries:	@size of them, a power of two
 * @entry_size:	of what the application reads [bytes]
 * @queue:	in host memory
 */
struct fi_p2p_xpu_cq_dev {
	uint32_t abi;
	uint32_t entry_size;
	uint64_t looking;
	uint64_t head;
	uint64_t size;
	struct fi_p2p_xpu_entry *entries;
	struct fi_p2p_xpu_queue *queue;
};

#endif /* FI_P2P_XPU_ABI_H */
