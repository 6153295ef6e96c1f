/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Preloaded into upstream's tests that run with -D cuda over the hook. Those tests ask for
 * FI_HMEM, which a hook cannot answer for the core provider. This library takes the flag out of
 * their hints. An application that relies on the hook would not ask for it.
 */
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

typedef int nohmem_getinfo(uint32_t, const char *, const char *, uint64_t,
			   const struct fi_info *, struct fi_info **);

/* The most places where FI_HMEM is asked for */
enum { NOHMEM_PLACES = 4 };

__attribute__((visibility("default"))) int fi_getinfo(uint32_t version, const char *node,
						      const char *service, uint64_t flags,
						      const struct fi_info *hints,
						      struct fi_info **info)
{
	nohmem_getinfo *next = (nohmem_getinfo *) dlsym(RTLD_NEXT, "fi_getinfo");
	uint64_t *caps[NOHMEM_PLACES] = {NULL}, asked[NOHMEM_PLACES] = {0};
	int i, rc;

	if (hints) {
		/* changed in place: a copy made here would lack what another release adds */
		caps[0] = (uint64_t *) &hints->caps;
		caps[1] = hints->tx_attr ? &hints->tx_attr->caps : NULL;
		caps[2] = hints->rx_attr ? &hints->rx_attr->caps : NULL;
		caps[3] = hints->domain_attr ? &hints->domain_attr->caps : NULL;
	}
	for (i = 0; i < NOHMEM_PLACES; i++) {
		if (!caps[i] || !(*caps[i] & FI_HMEM))
			continue;
		asked[i] = FI_HMEM;
		*caps[i] &= ~FI_HMEM;
	}
	rc = next(version, node, service, flags, hints, info);
	for (i = 0; i < NOHMEM_PLACES; i++) {
		if (asked[i])
			*caps[i] |= FI_HMEM;
	}
	return rc;
}
