/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where devices on the PCI bus are. */
#ifndef P2P_DEV_PCI_H
#define P2P_DEV_PCI_H

/* The NUMA node of a device on the PCI bus; -1: there is no such device, or no such node */
int dev_pci_node(int domain, int bus, int device);

#endif /* P2P_DEV_PCI_H */
