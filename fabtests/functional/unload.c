/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_unload: a program that loads libfabric, uses it and unloads it may do so again, and ends well, with our
 * plugins installed. It keeps libfabric, as docs/limits.md says: they are linked with it, as all plugins are.
 *
 * This program is not linked with libfabric. It takes no options.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#define LIBFABRIC "libfabric.so.1"
#define OURS "libp2p-fi.so"
#define ROUNDS 2

/* How a process ends */
enum { UNLOADED = 0, STAYED = 1, FAILED = 2 };

/* What is needed of libfabric */
static struct {
	void *lib;
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	void (*freeinfo)(struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
} lf;

static bool lf_load(void)
{
	const struct {
		const char *name;
		void *slot;
	} symbols[] = {
		{"fi_getinfo", &lf.getinfo},
		{"fi_dupinfo", &lf.dupinfo},
		{"fi_freeinfo", &lf.freeinfo},
		{"fi_fabric", &lf.fabric},
	};
	void *symbol;

	lf.lib = dlopen(LIBFABRIC, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; lf.lib && i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		symbol = dlsym(lf.lib, symbols[i].name);
		if (!symbol)
			return false;
		memcpy(symbols[i].slot, &symbol, sizeof(symbol));
	}
	return lf.lib;
}

static int find_name(struct dl_phdr_info *info, size_t size, void *name)
{
	return strstr(info->dlpi_name, name) != NULL;
}

static bool is_loaded(const char *name)
{
	return dl_iterate_phdr(find_name, (void *) name);
}

static struct fi_info *find(const char *prov, enum fi_ep_type type)
{
	struct fi_info *hints = lf.dupinfo(NULL), *info = NULL;

	if (!hints)
		return NULL;
	hints->fabric_attr->prov_name = strdup(prov);
	hints->ep_attr->type = type;
	hints->caps = FI_MSG;
	hints->mode = ~0ULL;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	if (lf.getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info))
		info = NULL;
	lf.freeinfo(hints);
	return info;
}

static bool open_and_close(struct fi_info *info)
{
	struct fid_fabric *fabric;
	struct fid_domain *domain;

	return !lf.fabric(info->fabric_attr, &fabric, NULL) &&
	       !fi_domain(fabric, info, &domain, NULL) && !fi_close(&domain->fid) &&
	       !fi_close(&fabric->fid);
}

/* Loads libfabric, opens a domain, and unloads libfabric. @plugins: ours are to be there */
static bool round_trip(const char *prov, enum fi_ep_type type, bool plugins)
{
	struct fi_info *info;
	bool done;

	if (!lf_load())
		return false;
	info = find(prov, type);
	done = info && open_and_close(info);
	if (!done)
		fprintf(stderr, "%s does not open\n", prov);
	if (info)
		lf.freeinfo(info);
	if (is_loaded(OURS) != plugins) {
		fprintf(stderr, "%s is %s\n", OURS, plugins ? "not loaded" : "loaded");
		done = false;
	}
	return !dlclose(lf.lib) && done;
}

/* A process of its own. Returns its end: one of those above */
static int play(const char *prov, enum fi_ep_type type, bool plugins, bool hook)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		if (!plugins)
			setenv("FI_PROVIDER_PATH", "/nonexistent", 1);
		if (hook)
			setenv("FI_HOOK", "p2p", 1);
		for (int i = 0; i < ROUNDS; i++) {
			if (!round_trip(prov, type, plugins))
				exit(FAILED);
		}
		exit(is_loaded(LIBFABRIC) || is_loaded(OURS) ? STAYED : UNLOADED);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return FAILED;
	return WEXITSTATUS(status);
}

static int expect(int end, int expected, const char *what)
{
	static const char *const names[] = {"unloaded", "kept", "lost to a failure"};

	if (end == expected)
		return 0;
	fprintf(stderr, "%s: libfabric was %s, not %s\n", what,
		names[end > FAILED ? FAILED : end], names[expected]);
	return 1;
}

int main(void)
{
	int failed = 0;

	if (play("tcp", FI_EP_MSG, false, false) != UNLOADED)
		printf("note: libfabric stays without our plugins, too\n");
	failed += expect(play("tcp", FI_EP_MSG, true, false), STAYED, "tcp");
	failed +=
		expect(play("tcp;ofi_rxm;ofi_p2p", FI_EP_RDM, true, false), STAYED, "ofi_p2p");
	failed += expect(play("tcp", FI_EP_MSG, true, true), STAYED, "the hook over tcp");
	if (!failed)
		printf("passed\n");
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
