/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The device behind a network interface (fi_nic(3)), from sysfs. Cores over sockets do not tell it, and
 * applications choose interfaces near a GPU by it.
 */
#ifndef P2P_NIC_H
#define P2P_NIC_H

#include <rdma/fabric.h>

/* Where the kernel tells of devices */
#define NIC_SYSFS "/sys"

/*
 * What is known of the device of the interface @name, as sysfs at @dir tells, by the name that FI_P2P_NIC_NAME wants. NULL
 * if there is no such interface, if it is virtual and has no device, or for want of memory.
 *
 * NULL for Amazon's devices, too: where there are such, aws-ofi-nccl takes a name for that of an RDMA device, and ends
 * with an exception where there is no such device. Without a NIC it goes on.
 *
 * The caller owns the result, and ends it by fi_close(), or by fi_freeinfo() of the info that has it.
 */
struct fid_nic *nic_of_interface(const char *dir, const char *name);

#endif /* P2P_NIC_H */
