/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Text that users write, and other providers: parameters, in the environment, and the core provider's
 * name. An input is a parameter's number, a release, and the value; the same text is a provider's name.
 */
#include "fuzz.h"

#include <string.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "path/quirks.h"

static const char *const names[] = {
	"FI_P2P_EAGER_SIZE", "FI_P2P_CHUNK_SIZE", "FI_P2P_PINNED_SIZE", "FI_P2P_PATH",
	"FI_P2P_PIN",        "FI_P2P_MAP_SIZE",   "FI_P2P_MAP_COUNT",   "FI_P2P_STATS",
	"FI_P2P_CUDA",       "FI_P2P_ROCM",       "FI_P2P_GDRCOPY",     "FI_P2P_CUDA_API",
};

static struct conf defaults;
static uint64_t taken, refused;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	fuzz_start();
	defaults = conf;
	fuzz_tell("values taken", &taken);
	fuzz_tell("values refused", &refused);
	return 0;
}

/* What is refused changes nothing; what is taken is what docs/parameters.md allows. */
static void read_conf(const char *name, const char *value)
{
	int ret;

	conf = defaults;
	setenv(name, value, 1);
	ret = conf_read();
	unsetenv(name);
	FUZZ_CHECK(ret == conf_status() && (!ret || ret == -FI_EINVAL));
	FUZZ_CHECK(conf.path <= CONF_PATH_STAGE && conf.pin <= CONF_PIN_NONE);
	FUZZ_CHECK(conf.cuda_api <= CONF_API_ASYNC);
	FUZZ_CHECK(conf.eager_size >= 4096 && conf.eager_size <= conf.chunk_size);
	FUZZ_CHECK(conf.chunk_size >= 1 << 14 && conf.chunk_size <= 1 << 26);
	FUZZ_CHECK(ret || conf.pinned_size >= 8 * conf.chunk_size);
	FUZZ_CHECK(conf.map_count && conf.map_count <= 1 << 20);
	(*(ret ? &refused : &taken))++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz in = {data, size};
	const char *name = names[fuzz_pick(&in, FUZZ_COUNT(names))];
	const uint32_t release = FI_VERSION(1 + fuzz_pick(&in, 2), fuzz_take(&in, 1));
	char text[256] = "";

	fuzz_bytes(&in, text, sizeof text - 1);
	read_conf(name, text);
	/* a name adds to what all providers have */
	FUZZ_CHECK(!(quirks_of_name(NULL, release) & ~quirks_of_name(text, release)));
	return 0;
}
