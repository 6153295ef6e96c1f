/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 0: the table of parameters. See conf.h. */
#include "conf.h"

#include <ctype.h>
#include <stdlib.h>
#include <strings.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include "base.h"
#include "log.h"

struct conf conf = {
	.eager_size = 1048576,
	.chunk_size = 1048576,
	.pinned_size = 67108864,
	.cuda = true,
	.rocm = true,
};

static int conf_error;

/*
 * Name, what it is, and for sizes the least and the greatest value. The default in the
 * help text is the initial value above; contrib/check-params holds the two, the man page
 * and README.md together.
 */
static const struct conf_param {
	const char *name;
	bool *flag;
	size_t *size;
	size_t min, max;
	const char *help;
} conf_params[] = {
	{"p2p_eager_size", NULL, &conf.eager_size, 4096, 1 << 26,
	 "Bytes up to which a message from device memory is copied to the host and sent "
	 "as it is, while there is pinned memory for it; a longer one is announced and sent "
	 "in pieces. At most FI_P2P_CHUNK_SIZE (default: 1048576)"},
	{"p2p_chunk_size", NULL, &conf.chunk_size, 1 << 14, 1 << 26,
	 "Bytes in one piece of a long message, so in one copy between device and host "
	 "(default: 1048576)"},
	{"p2p_pinned_size", NULL, &conf.pinned_size, 1 << 22, (size_t) 1 << 40,
	 "Bytes of host memory that one domain may pin for staging (default: 67108864)"},
	{"p2p_cuda", &conf.cuda, NULL, 0, 0,
	 "Look for CUDA memory; if not, it is taken for host memory (default: yes)"},
	{"p2p_rocm", &conf.rocm, NULL, 0, 0,
	 "Look for ROCm memory; if not, it is taken for host memory (default: yes)"},
};

/* A number of bytes, with k, m or g for the powers of 1024. */
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
		if (!unit || end[1] || value >> 32)
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

static int conf_param_set(const struct conf_param *param, const char *text)
{
	size_t size;

	if (param->flag) {
		if (!conf_parse_flag(text, param->flag))
			return 0;
		P2P_WARN("FI_%s=%s: use yes or no\n", param->name, text);
		return -FI_EINVAL;
	}
	if (!conf_parse_size(text, &size) && size >= param->min && size <= param->max) {
		*param->size = size;
		return 0;
	}
	P2P_WARN("FI_%s=%s: use a number of bytes from %zu to %zu (k, m, g may follow)\n",
		 param->name, text, param->min, param->max);
	return -FI_EINVAL;
}

int conf_read(void)
{
	size_t least;
	char *text;
	int ret;

	conf_error = 0;
	for (size_t i = 0; i < sizeof conf_params / sizeof conf_params[0]; i++) {
		/* the other of our two objects may have defined it already */
		ret = fi_param_get_str(NULL, conf_params[i].name, &text);
		if (ret == -FI_ENOENT) {
			fi_param_define(NULL, conf_params[i].name, FI_PARAM_STRING, "%s",
					conf_params[i].help);
			ret = fi_param_get_str(NULL, conf_params[i].name, &text);
		}
		if (!ret && conf_param_set(&conf_params[i], text))
			conf_error = -FI_EINVAL;
	}
	/* every pool of slots wants a few (stage.c) */
	least = 8 * conf.chunk_size;
	if (!conf_error && conf.pinned_size < least) {
		P2P_WARN("FI_P2P_PINNED_SIZE=%zu is too small for FI_P2P_CHUNK_SIZE=%zu: "
			 "use at least %zu\n",
			 conf.pinned_size, conf.chunk_size, least);
		conf_error = -FI_EINVAL;
	}
	conf.eager_size = P2P_MIN(conf.eager_size, conf.chunk_size);
	return conf_error;
}

int conf_status(void)
{
	return conf_error;
}
