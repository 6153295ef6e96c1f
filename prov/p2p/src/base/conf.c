/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The table of parameters. See conf.h. */
#include "base/conf.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include "base/env.h"
#include "base/log.h"

struct conf conf = {
	.eager_size = 65536,
	.chunk_size = 1048576,
	.pinned_size = 33554432,
	.path = CONF_PATH_AUTO,
	.pin = CONF_PIN_AUTO,
	.nic_name = CONF_NIC_INTERFACE,
	.map_size = 17179869184,
	.map_count = 1024,
	.inject_size = 1048576,
	.lanes = 0,
	.lanes_host = false,
	.hmem = false,
	.hello_timeout = 2,
	.peer_timeout = 0,
	.stats = CONF_STATS_NO,
	.cuda = true,
	.rocm = true,
	.gdrcopy = false,
	.sync_memops = true,
	.mpi = CONF_MPI_YES,
	.cuda_api = CONF_API_STRICT,
	.proxy_spin_us = 100000,
	.proxy_cpus = "auto",
	.as = "no",
	.xpu_rings = 256,
	.xpu_slots = 256,
};

static int conf_error;

static const char *const conf_paths[] = {"auto", "peer", "ipc", "stage", NULL};
static const char *const conf_apis[] = {"strict", "async", NULL};
static const char *const conf_mpis[] = {"no", "yes", "report", NULL};
static const char *const conf_stats[] = {"no", "yes", "json", NULL};
static const char *const conf_nics[] = {"interface", "infiniband", NULL};
static const char *const conf_pins[] = {"auto", "dmabuf", "peermem", "none", NULL};

/*
 * One row for each parameter: its name, where its value goes, what it may be, and the help
 * text. Sizes have a least and a greatest value, and some a word that stands for 0. Choices have a
 * list of words in the order of their numbers. Texts have the characters that they may consist of, and what to use.
 *
 * The default in the help text is the initial value above. contrib/check-params compares the
 * two with the manual and docs/parameters.md.
 */
static const struct conf_param {
	const char *name;
	bool *flag;
	size_t *size;
	size_t min, max;
	const char *zero;
	unsigned int *choice;
	const char *const *words;
	const char **text;
	const char *chars, *use;
	const char *help;
} conf_params[] = {
	{"p2p_eager_size", .size = &conf.eager_size, .min = 4096, .max = 1 << 26,
	 .help = "Bytes up to which a message from device memory is copied to the host and sent "
		 "as it is, or read there by its receiver, while there is pinned memory for it; a "
		 "longer one is announced and sent in pieces. At most FI_P2P_CHUNK_SIZE (default: 65536)"},
	{"p2p_chunk_size", .size = &conf.chunk_size, .min = 1 << 14, .max = 1 << 26,
	 .help = "Bytes in one piece of a long message, so in one copy between device and host "
		 "(default: 1048576)"},
	{"p2p_pinned_size", .size = &conf.pinned_size, .min = 1 << 22, .max = (size_t) 1 << 40,
	 .help = "Bytes of host memory that one domain may pin for staging (default: 33554432)"},
	{"p2p_path", .choice = &conf.path, .words = conf_paths,
	 .help = "How messages between device memories travel: auto (the NIC reads and writes "
		 "device memory where it can; else, within a host, one copy from device to device; "
		 "else through host memory), peer (the NIC; what is longer than 4096 bytes and cannot "
		 "is an error), ipc (from device to device; what is longer than 4096 bytes and cannot "
		 "is an error), or stage (through host memory) (default: auto)"},
	{"p2p_pin", .choice = &conf.pin, .words = conf_pins,
	 .help = "How NICs are given device memory: auto (dma-buf, then peer-mem), dmabuf, peermem "
		 "(by its address, whatever kernel modules are loaded), or none (default: auto)"},
	{"p2p_nic_name", .choice = &conf.nic_name, .words = conf_nics,
	 .help = "How fi_info names the NIC behind a core that goes by TCP: interface (eth0), or infiniband (../net/eth0, "
		 "so that NVSHMEM finds it below /sys/class/infiniband; interfaces without a device are left out) "
		 "(default: interface)"},
	{"p2p_map_size", .size = &conf.map_size, .min = 1 << 16, .max = (size_t) 1 << 50,
	 .help = "Bytes of device memory that one domain keeps pinned for NICs, and as many of other "
		 "processes' memory that it keeps open (default: 17179869184)"},
	{"p2p_map_count", .size = &conf.map_count, .min = 1, .max = 1 << 20,
	 .help = "Pieces of device memory that one domain keeps pinned for NICs, and allocations "
		 "of other processes that it keeps open (default: 1024)"},
	{"p2p_inject_size", .size = &conf.inject_size, .min = 0, .max = 1048576,
	 .help = "Bytes up to which fi_inject is offered to who does not ask for more, at most what the core "
		 "provider offers. An injected message from device memory waits for its copy (default: 1048576)"},
	{"p2p_lanes", .size = &conf.lanes, .min = 1, .max = 8, .zero = "auto",
	 .help = "Connections over which the pieces of one long message travel at a time, each with a "
		 "thread of its own at either end, over cores that go by TCP: from 1 to 8, or auto: as many "
		 "as there are processors for. The end that has less decides (default: auto)"},
	{"p2p_lanes_host", .flag = &conf.lanes_host,
	 .help = "Long messages from host memory travel so, too, to peers that run ofi_p2p: faster, and by "
		 "more threads (default: no)"},
	{"p2p_hmem", .flag = &conf.hmem,
	 .help = "Applications that ask for FI_RMA or FI_ATOMIC have device memory in them, as if they had asked "
		 "for FI_HMEM, too. Host memory costs some more then (default: no)"},
	{"p2p_hello_timeout", .size = &conf.hello_timeout, .min = 0, .max = 86400,
	 .help = "Seconds for which long messages from device memory wait for a peer's first answer. "
		 "Then they travel whole, which peers without this provider understand. 0: they do not "
		 "wait (default: 2)"},
	{"p2p_peer_timeout", .size = &conf.peer_timeout, .min = 0, .max = 86400,
	 .help = "Seconds without a sign of life after which a peer is taken for dead, and what is under way with "
		 "it fails. Reads, writes and atomic operations wait as long for the first answer of an owner of "
		 "remote memory. 0: silence ends nothing, as it may mean that the peer computes or is stopped; that "
		 "its process has ended is found out all the same (default: 0)"},
	{"p2p_stats", .choice = &conf.stats, .words = conf_stats,
	 .help = "Print what an endpoint has carried, by which path and why, when it is closed: no, yes, or "
		 "json (one object on one line) (default: no)"},
	{"p2p_cuda", .flag = &conf.cuda,
	 .help = "Look for CUDA memory; if not, it is taken for host memory (default: yes)"},
	{"p2p_rocm", .flag = &conf.rocm,
	 .help = "Look for ROCm memory; if not, it is taken for host memory (default: yes)"},
	{"p2p_gdrcopy", .flag = &conf.gdrcopy,
	 .help = "The CPU copies what is shortest to and from CUDA memory, by the mappings of gdrcopy "
		 "(libgdrapi.so.2 and its kernel module), where they are there. What kernels look at is in the "
		 "device's memory then. This has run on an emulated driver only (default: no)"},
	{"p2p_sync_memops", .flag = &conf.sync_memops,
	 .help = "CUDA contexts get the flag CU_CTX_SYNC_MEMOPS, so that what a synchronous copy has written to "
		 "virtual memory, or to a pool's, is in messages that are sent behind it (default: yes)"},
	{"p2p_mpi", .choice = &conf.mpi, .words = conf_mpis,
	 .help = "libp2p-mpi has all calls of MPI take GPU buffers, and report tells at the end by which way (default: yes)"},
	{"p2p_cuda_api", .choice = &conf.cuda_api, .words = conf_apis,
	 .help = "What FI_OPT_CUDA_API_PERMITTED=false, the option of an endpoint, leads to: strict "
		 "(an error, since device memory is copied by CUDA) or async (success, since no call "
		 "on the data path waits for a kernel by itself) (default: strict)"},
	{"p2p_proxy_spin_us", .size = &conf.proxy_spin_us, .min = 0, .max = 1000000000,
	 .help = "Microseconds for which the thread that serves a GPU's kernels and streams looks for "
		 "work in vain before it sleeps (default: 100000)"},
	{"p2p_proxy_cpus", .text = &conf.proxy_cpus, .chars = "0123456789,-",
	 .use = "auto, or processors such as 0-3,8",
	 .help = "Processors which that thread may run on, such as 0-3,8, or auto: those beside the GPU "
		 "(default: auto)"},
	{"p2p_as", .text = &conf.as, .use = "no, or a provider's name",
	 .help = "The name of another provider under which ofi_p2p is offered, too, for programs that look for it "
		 "alone, or NAME=CORE, where CORE is the core provider. libp2p_as-fi.so does it (default: no)"},
	{"p2p_xpu_rings", .size = &conf.xpu_rings, .min = 1, .max = 65536,
	 .help = "Rings of an endpoint that kernels post on: block n uses ring n, or the remainder "
		 "(default: 256)"},
	{"p2p_xpu_slots", .size = &conf.xpu_slots, .min = 2, .max = 65536,
	 .help = "Operations that such a ring has room for; the power of two that is not less "
		 "(default: 256)"},
};

#define CONF_PARAMS (sizeof conf_params / sizeof conf_params[0])
#define CONF_PREFIX "FI_P2P_"
/* The room for the name of a variable */
#define CONF_NAME_MAX 64

/* A number of bytes. One of the letters k, m, g after it multiplies by a power of 1024. */
static int conf_parse_size(const char *text, size_t *size)
{
	static const char units[] = "kmg";
	unsigned long long value;
	const char *unit;
	char *end;

	if (!isdigit((unsigned char) *text))
		return -FI_EINVAL;
	value = strtoull(text, &end, 0);
	if (*end) {
		unit = index(units, tolower((unsigned char) *end));
		if (!unit || end[1] || value > SIZE_MAX >> 10 * (unit - units + 1))
			return -FI_EINVAL;
		value <<= 10 * (unit - units + 1);
	}
	*size = value;
	return 0;
}

static int conf_parse_flag(const char *text, bool *flag)
{
	static const char *const words[2][4] = {{"0", "no", "off", "false"},
						{"1", "yes", "on", "true"}};

	for (int value = 0; value < 2; value++) {
		for (int i = 0; i < 4; i++) {
			if (!strcasecmp(text, words[value][i])) {
				*flag = value;
				return 0;
			}
		}
	}
	return -FI_EINVAL;
}

/* The name that users know */
static void conf_name(const struct conf_param *param, char name[CONF_NAME_MAX])
{
	snprintf(name, CONF_NAME_MAX, "FI_%s", param->name);
	for (; *name; name++)
		*name = toupper((unsigned char) *name);
}

/* Tells what the variable may be */
static int conf_refuse(const struct conf_param *param, const char *text, const char *use)
{
	char name[CONF_NAME_MAX];

	conf_name(param, name);
	P2P_TELL("%s=%s: use %s. Until then nothing is offered\n", name, text, use);
	return -FI_EINVAL;
}

/* Sets a choice by its word. For an unknown word, logs all words. One that begins as a flag takes a flag's, too. */
static int conf_parse_choice(const struct conf_param *param, const char *text)
{
	char list[64] = "one of ";
	bool flag;

	if (!strcmp(param->words[0], "no") && !conf_parse_flag(text, &flag)) {
		*param->choice = flag;
		return 0;
	}

	for (unsigned int i = 0; param->words[i]; i++) {
		if (!strcasecmp(text, param->words[i])) {
			*param->choice = i;
			return 0;
		}
		snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "",
			 param->words[i]);
	}
	return conf_refuse(param, text, list);
}

/* Whether the process may run on processors is found when a thread is to; which providers there are, by libfabric. */
static int conf_parse_text(const struct conf_param *param, const char *text)
{
	if (!strcasecmp(text, "auto"))
		text = "auto";
	else if (!*text || (param->chars && text[strspn(text, param->chars)]))
		return conf_refuse(param, text, param->use);
	/* libfabric keeps the string */
	*param->text = text;
	return 0;
}

static int conf_param_set(const struct conf_param *param, const char *text)
{
	char range[96];
	size_t size;

	if (param->zero && !strcasecmp(text, param->zero)) {
		*param->size = 0;
		return 0;
	}

	if (param->choice)
		return conf_parse_choice(param, text);
	if (param->text)
		return conf_parse_text(param, text);

	if (param->flag) {
		if (!conf_parse_flag(text, param->flag))
			return 0;
		return conf_refuse(param, text, "yes or no");
	}
	if (!conf_parse_size(text, &size) && size >= param->min && size <= param->max) {
		*param->size = size;
		return 0;
	}
	snprintf(range, sizeof range, "%s%sa number from %zu to %zu (k, m, g may follow)",
		 param->zero ? param->zero : "", param->zero ? " or " : "", param->min,
		 param->max);
	return conf_refuse(param, text, range);
}

/* Tells of a variable that is in the environment and in no row */
static void conf_check_name(const char *set)
{
	char name[CONF_NAME_MAX], known[CONF_NAME_MAX], nearest[CONF_NAME_MAX] = "";
	size_t least = SIZE_MAX, distance;

	snprintf(name, sizeof name, "%.*s", (int) strcspn(set, "="), set);
	for (size_t i = 0; i < CONF_PARAMS; i++) {
		conf_name(&conf_params[i], known);
		distance = env_distance(name, known);
		if (distance < least) {
			least = distance;
			strcpy(nearest, known);
		}
	}
	if (least)
		P2P_TELL("%s is no parameter, and changes nothing. The nearest that there is: "
			 "%s\n",
			 name, nearest);
}

static void conf_check_names(void)
{
	for (char **set = environ; set && *set; set++) {
		if (!strncmp(*set, CONF_PREFIX, strlen(CONF_PREFIX)))
			conf_check_name(*set);
	}
}

/* A message that travels whole is no longer than a piece. Who did not set that need not be told */
static void conf_lower_eager(void)
{
	char *text;

	if (!fi_param_get_str(NULL, "p2p_eager_size", &text))
		P2P_TELL(
			"FI_P2P_EAGER_SIZE=%zu is more than FI_P2P_CHUNK_SIZE: lowered to %zu\n",
			conf.eager_size, conf.chunk_size);
	conf.eager_size = conf.chunk_size;
}

int conf_read(void)
{
	size_t least;
	char *text;
	int ret;

	conf_error = 0;
	log_aloud = fi_param_get_str(NULL, conf_params[0].name, &text) == -FI_ENOENT;
	conf_check_names();
	for (size_t i = 0; i < CONF_PARAMS; i++) {
		/* the other one of our two objects may have defined the parameter already */
		ret = fi_param_get_str(NULL, conf_params[i].name, &text);
		if (ret == -FI_ENOENT) {
			fi_param_define(NULL, conf_params[i].name, FI_PARAM_STRING, "%s",
					conf_params[i].help);
			ret = fi_param_get_str(NULL, conf_params[i].name, &text);
		}
		if (!ret && conf_param_set(&conf_params[i], text))
			conf_error = -FI_EINVAL;
	}
	/* every pool needs a few slots (stage.c) */
	least = 8 * conf.chunk_size;
	if (!conf_error && conf.pinned_size < least) {
		P2P_TELL("FI_P2P_PINNED_SIZE=%zu is too small for FI_P2P_CHUNK_SIZE=%zu: "
			 "use at least %zu\n",
			 conf.pinned_size, conf.chunk_size, least);
		conf_error = -FI_EINVAL;
	}
	if (conf.eager_size > conf.chunk_size)
		conf_lower_eager();
	return conf_error;
}

int conf_status(void)
{
	return conf_error;
}
