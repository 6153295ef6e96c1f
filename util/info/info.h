/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_info: what there is on this machine, which way device memory would travel, and why.
 *
 * There is one structure, struct info. The probing files fill it; print_table.c and
 * print_json.c print it. Strings live as long as the program, and nobody frees them. A string
 * that is NULL is not known.
 */
#ifndef INFO_H
#define INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_ext_p2p.h>

/* The port of --serve, where none is said */
#define INFO_CHECK_PORT "7710"

#define INFO_COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum info_answer { INFO_UNKNOWN, INFO_NO, INFO_YES };

/* A provider that libfabric has loaded */
struct info_provider {
	char *name;
	uint32_t version;
};

/**
 * struct info_library - libfabric and our two objects.
 * @release:	the library's release
 * @path:	the library's file
 * @layered, @hook: the files that the providers were loaded from; NULL: they were not loaded
 * @search:	FI_PROVIDER_PATH
 * @restricted:	FI_PROVIDER
 * @hooked:	FI_HOOK
 */
struct info_library {
	const char *release, *path;
	const char *layered, *hook;
	const char *search, *restricted, *hooked;
	struct info_provider *providers;
	size_t provider_count;
};

enum info_iommu {
	INFO_IOMMU_UNKNOWN,
	INFO_IOMMU_OFF,
	INFO_IOMMU_PASSTHROUGH,
	INFO_IOMMU_TRANSLATES
};

struct info_module {
	const char *name;
	bool loaded;
	const char *version;
};

/**
 * struct info_system - the kernel.
 * @iommu_words: what the kernel's command line says of the IOMMU
 * @nvidia_open: NVIDIA's driver is the one with open kernel modules
 */
struct info_system {
	const char *kernel;
	struct info_module *modules;
	size_t module_count;
	enum info_iommu iommu;
	const char *iommu_words;
	enum info_answer nvidia_open;
};

/**
 * struct info_runtime - a GPU runtime.
 * @status:	what it says of itself, or why it is of no use
 * @ready:	its memory can be used
 */
struct info_runtime {
	const char *name, *library, *status;
	bool ready;
};

/**
 * struct info_gpu - a GPU that a runtime offers.
 * @runtime:	its runtime's name
 * @number:	its number in that runtime
 * @pci:	its address, in lower case, as sysfs has it
 * @bar:	the largest prefetchable BAR [bytes]; 0: not known
 * @memory:	its memory [bytes]; 0: not known
 * @attributes:	the following four were looked at
 * @dmabuf:	it exports dma-bufs
 * @rdma:	it has GPUDirect RDMA
 * @memops:	it has stream memory operations
 * @ordering:	who sees a NIC's writes in order
 * @copy_fixed, @copy_kib: what a copy to the host takes, and for each KiB [ns]; 0: not measured
 * @buffer:	INFO_BUFFER bytes of its memory; NULL: there is an @error
 * @expose:	opens a dma-buf of the first INFO_LONG bytes of @buffer: a descriptor, or -1; NULL: not tried
 */
struct info_gpu {
	const char *runtime;
	int number;
	const char *name, *pci, *driver, *ordering, *error;
	uint64_t memory, bar;
	int numa;
	bool attributes;
	enum info_answer dmabuf, rdma, memops;
	uint32_t copy_fixed, copy_kib;
	void *buffer;
	int (*expose)(const struct info_gpu *gpu);
};

/* A GPU on the PCI bus that no runtime offers */
struct info_unused {
	const char *pci, *vendor, *driver;
};

enum info_distance {
	INFO_FAR_UNKNOWN,
	INFO_SAME_SWITCH,
	INFO_SAME_ROOT,
	INFO_SAME_NUMA,
	INFO_ACROSS
};

/**
 * struct info_way - between a NIC and a GPU.
 * @why:	if @distance is unknown: why
 * @acs:	do bridges between the two redirect peer-to-peer traffic?
 * @bridges:	which bridges do
 */
struct info_way {
	enum info_distance distance;
	const char *why;
	enum info_answer acs;
	const char *bridges;
};

struct info_port {
	const char *number, *state, *link, *rate;
};

/**
 * struct info_nic - a verbs device.
 * @dmabuf:	does it take a dma-buf?
 * @dmabuf_how:	how that was found out, or why it was not
 * @ways:	the way to each GPU
 */
struct info_nic {
	const char *name, *type, *firmware, *driver, *pci;
	int numa;
	struct info_port *ports;
	size_t port_count;
	enum info_answer dmabuf;
	const char *dmabuf_how;
	struct info_way *ways;
};

/* The lengths of the messages whose paths are asked for */
#define INFO_SHORT 8
#define INFO_LONG (1 << 20)
/* On each GPU there is memory for one to send and one to receive */
#define INFO_BUFFER (2 * INFO_LONG)

/**
 * struct info_path - the way of @len bytes from GPU number @gpu.
 * @ret:	what the provider returned: 0, or why there is no way
 * @advice:	what would make the way better
 */
struct info_path {
	size_t gpu, len;
	int ret;
	enum fi_p2p_path path;
	const char *reason;
	const char **advice;
	size_t advice_count;
};

/**
 * struct info_offer - an endpoint of ours that fi_getinfo offers.
 * @nic:	the verbs device that it uses; NULL: none
 * @error:	why it could not be opened
 * @paths:	for each GPU, the path of a short message and that of a long one
 */
struct info_offer {
	const char *provider, *domain;
	const struct info_nic *nic;
	const char *error;
	struct info_path *paths;
	size_t path_count;
};

/**
 * struct info_cost - a way of messages from device memory, and the lengths that it is for.
 * @fixed, @kib: what it takes, and for each KiB [ns]; 0: not measured
 * @from, @to:	the lengths [bytes]; @to 0: and all that are longer; @none: it is not used
 * @by:		what decides about the lengths
 */
struct info_cost {
	const char *way;
	uint32_t fixed, kib;
	size_t from, to;
	bool none;
	const char *by;
};

struct info {
	struct info_library library;
	struct info_system system;
	struct info_runtime *runtimes;
	size_t runtime_count;
	struct info_gpu *gpus;
	size_t gpu_count;
	struct info_unused *unused;
	size_t unused_count;
	struct info_nic *nics;
	size_t nic_count;
	struct info_offer *offers;
	size_t offer_count;
	struct info_cost *costs;
	size_t cost_count;
	const char **advice;
	size_t advice_count;
};

/* ---- the probing files, in the order in which they are called ---- */

/* library.c */
void info_library(struct info_library *library);
/* system.c */
void info_system(struct info_system *system);
/* gpu_cuda.c, gpu_rocr.c: append to @info's runtimes and GPUs */
void info_gpus_cuda(struct info *info);
void info_gpus_rocr(struct info *info);
/* pci.c: what sysfs knows of the GPUs found, and those that no runtime offers */
void info_gpus_pci(struct info *info);
/* nic.c */
void info_nics(struct info *info);
/* verbs.c: fills @nic's dmabuf and dmabuf_how */
void info_nic_try_dmabuf(struct info_nic *nic, const struct info *info);
/* way.c: fills every NIC's ways */
void info_ways(struct info *info);
/*
 * path.c. @provider: NULL means all. Returns 0; or the error of fi_getinfo(), if nothing is
 * offered.
 */
int info_paths(struct info *info, const char *provider);
/* cost.c. After info_settings() and the GPUs */
void info_costs(struct info *info);
/* advice.c */
void info_advise(struct info *info);
/* Adds what to do about a peer's reason, if it is one of those that only peers give. */
void info_advise_peers(struct info *info, const char *reason);
/* Is this a provider that does not leave the host? */
bool info_is_local(const char *provider);
void info_add_advice(struct info *info, const char *text);
/* settings.c: what is wrong with the environment. After info_library() */
void info_settings(struct info *info);
/* Is the name in the wrong order? */
void info_settings_order(struct info *info, const char *provider);
/* stack.c: nothing is offered of @provider or, if that is NULL, of all that FI_PROVIDER names. Why not? */
void info_stacks(struct info *info, const char *provider);
/* Is there no room for providers that do not leave the host? After info_paths() of all */
void info_stacks_room(struct info *info);
/* path.c: is there a provider, and has every GPU a path? */
bool info_works(const struct info *info);
/* An endpoint, and all that it wants */
struct info_fids {
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
};

/* NULL, or why it cannot be opened. What is open then is to be closed all the same. */
const char *info_open(struct info_fids *fids, struct fi_info *found);
void info_close(struct info_fids *fids);
/* Does the provider's name end with ours? */
bool info_is_ours(const char *provider);
/* Has this GPU a path for messages of any length, over some provider? */
bool info_gpu_works(const struct info *info, size_t gpu);

/* check.c: --check HOST[:PORT], where @provider may be NULL, and --serve. Is all well? */
bool info_check(struct info *info, const char *other, const char *provider);
bool info_serve(struct info *info, const char *port);

/* waiting.c: --waiting PID. Has the process answered? */
bool info_waiting(const char *pid);

/* ---- the printers, with the words that both use (words.c) ---- */

void info_print_table(const struct info *info);
void info_print_advice(const struct info *info);
/* False: built without json-c */
bool info_print_json(const struct info *info);

const char *info_path_word(enum fi_p2p_path path);
const char *info_iommu_word(enum info_iommu iommu);
const char *info_distance_word(enum info_distance distance);

/* ---- text.c: strings and lists, and the files of /sys and /proc ---- */

/*
 * Makes a new string. If memory is short, the program ends. The same is true of what follows.
 */
char *info_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Makes room for one more element of a list, and returns it, all zeros */
void *info_append(void *list, size_t *count, size_t size);

/* Sets the directory that has /sys and /proc. An empty name means the machine's own. */
void info_root_set(const char *root);
/* The path of a file of /sys or /proc */
char *info_file(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/*
 * The file's first line, without the newline and spaces around it; NULL: it is empty or
 * unreadable
 */
char *info_file_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The file's first line as a number, or @unknown */
long info_file_number(long unknown, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool info_file_there(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The last part of what a link leads to; NULL: there is none */
char *info_file_link(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The names in a directory, in order. Returns how many there are. The caller frees the list. */
size_t info_file_names(char ***names, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Finds a library's functions: all, or none. False, with @why, if the library or a function is
 * missing.
 */
struct info_symbol {
	const char *name;
	void *slot;
	bool optional;
};
bool info_load(const char *library, const struct info_symbol *symbols, size_t count,
	       const char **why);

#endif /* INFO_H */
