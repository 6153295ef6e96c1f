/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The user's parameters: environment variables FI_P2P_*.
 *
 * One table in conf.c defines them for libfabric (fi_info -e), reads them and checks them.
 * `make check` compares the table with the manual and docs/parameters.md.
 */
#ifndef P2P_CONF_H
#define P2P_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which ways are open to device memory */
enum conf_path {
	CONF_PATH_AUTO,
	CONF_PATH_PEER, /* a transfer that the NIC cannot do is an error */
	CONF_PATH_IPC,  /* a transfer that cannot go from device to device is an error */
	CONF_PATH_STAGE
};

/* Ways to give device memory to NICs */
enum conf_pin {
	CONF_PIN_AUTO,
	CONF_PIN_DMABUF,
	CONF_PIN_PEERMEM, /* by its address, whatever kernel modules are loaded */
	CONF_PIN_NONE
};

/* How the NIC of a socket is called */
enum conf_nic { CONF_NIC_INTERFACE, CONF_NIC_INFINIBAND /* as below /sys/class/infiniband */ };

/* What is said to who permits no calls to CUDA on an endpoint */
enum conf_api {
	CONF_API_STRICT, /* that some are made */
	CONF_API_ASYNC   /* that none waits for a kernel */
};

/* Does libp2p-mpi look at calls, and does it tell at the end what it has done? */
enum conf_mpi { CONF_MPI_NO, CONF_MPI_YES, CONF_MPI_REPORT };

/* What an endpoint prints when it is closed */
enum conf_stats {
	CONF_STATS_NO,
	CONF_STATS_YES, /* lines for people */
	CONF_STATS_JSON /* one object, on one line */
};

struct conf {
	size_t eager_size;      /* FI_P2P_EAGER_SIZE */
	size_t chunk_size;      /* FI_P2P_CHUNK_SIZE */
	size_t pinned_size;     /* FI_P2P_PINNED_SIZE */
	size_t map_size;        /* FI_P2P_MAP_SIZE */
	size_t map_count;       /* FI_P2P_MAP_COUNT */
	size_t inject_size;     /* FI_P2P_INJECT_SIZE */
	size_t lanes;           /* FI_P2P_LANES; 0: auto */
	bool lanes_host;        /* FI_P2P_LANES_HOST */
	bool hmem;              /* FI_P2P_HMEM */
	size_t hello_timeout;   /* FI_P2P_HELLO_TIMEOUT [s] */
	unsigned int path;      /* FI_P2P_PATH: enum conf_path */
	unsigned int pin;       /* FI_P2P_PIN: enum conf_pin */
	unsigned int nic_name;  /* FI_P2P_NIC_NAME: enum conf_nic */
	size_t peer_timeout;    /* FI_P2P_PEER_TIMEOUT [s] */
	unsigned int stats;     /* FI_P2P_STATS: enum conf_stats */
	bool cuda;              /* FI_P2P_CUDA */
	bool rocm;              /* FI_P2P_ROCM */
	bool gdrcopy;           /* FI_P2P_GDRCOPY */
	bool sync_memops;       /* FI_P2P_SYNC_MEMOPS */
	unsigned int mpi;       /* FI_P2P_MPI: enum conf_mpi */
	unsigned int cuda_api;  /* FI_P2P_CUDA_API: enum conf_api */
	size_t proxy_spin_us;   /* FI_P2P_PROXY_SPIN_US */
	const char *proxy_cpus; /* FI_P2P_PROXY_CPUS */
	const char *as;         /* FI_P2P_AS, which libp2p_as-fi.so reads */
	size_t xpu_rings;       /* FI_P2P_XPU_RINGS */
	size_t xpu_slots;       /* FI_P2P_XPU_SLOTS */
};

extern struct conf conf;

/* Tells whether a silence [ms] is longer than the user allows a peer. */
static inline bool conf_overdue(uint64_t silent)
{
	return conf.peer_timeout && silent >= 1000 * conf.peer_timeout;
}

/*
 * Defines and reads the parameters. Returns 0, or -FI_EINVAL if one has an invalid value. The
 * log then says what the value may be, and conf_status() remembers the error.
 */
int conf_read(void);

/* What conf_read() returned. Callers check it where an error can reach the application. */
int conf_status(void);

#endif /* P2P_CONF_H */
