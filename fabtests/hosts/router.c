/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The network of hosts that the kernel routes. See router.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <net/route.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "router.h"

#define OWN_NET "/proc/self/ns/net"
#define FORWARD "/proc/sys/net/ipv4/ip_forward"
#define ROUTER 254 /* the router's number, on each of its wires */

/* ---- a device, by ioctl ---- */

static struct sockaddr address(const char *net, int number)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr any;
	char text[32];

	snprintf(text, sizeof(text), "%s.%d", net, number);
	inet_pton(AF_INET, text, &in.sin_addr);
	memcpy(&any, &in, sizeof(any));
	return any;
}

/* Gives @name this address and no neighbours, and switches it on */
static int device_up(int sock, const char *name, const struct sockaddr *addr)
{
	struct ifreq ifr = {.ifr_flags = 0};

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	if (addr) {
		ifr.ifr_addr = *addr;
		if (ioctl(sock, SIOCSIFADDR, &ifr))
			return -errno;
		ifr.ifr_netmask = address("255.255.255", 255);
		if (ioctl(sock, SIOCSIFNETMASK, &ifr))
			return -errno;
	}
	ifr.ifr_flags = IFF_UP;
	return ioctl(sock, SIOCSIFFLAGS, &ifr) ? -errno : 0;
}

/* Packets for @host take @name; with @gateway all others do, too */
static int route_add(int sock, const char *name, struct sockaddr host,
		     const struct sockaddr *gateway)
{
	struct rtentry route = {
		.rt_dst = host,
		.rt_genmask = address("255.255.255", 255),
		.rt_flags = RTF_UP | RTF_HOST,
		.rt_dev = (char *) name,
	};

	if (ioctl(sock, SIOCADDRT, &route))
		return -errno;
	if (!gateway)
		return 0;
	route.rt_dst = route.rt_genmask = address("0.0.0", 0);
	route.rt_gateway = *gateway;
	route.rt_flags = RTF_UP | RTF_GATEWAY;
	return ioctl(sock, SIOCADDRT, &route) ? -errno : 0;
}

/* ---- a wire, by netlink ---- */

struct request {
	struct nlmsghdr head;
	struct ifinfomsg device;
	char room[256];
};

static struct rtattr *attr_put(struct request *request, unsigned short type, const void *data,
			       size_t len)
{
	struct rtattr *attr =
		(void *) ((char *) request + NLMSG_ALIGN(request->head.nlmsg_len));

	attr->rta_type = type;
	attr->rta_len = (unsigned short) RTA_LENGTH(len);
	if (len)
		memcpy(RTA_DATA(attr), data, len);
	request->head.nlmsg_len =
		NLMSG_ALIGN(request->head.nlmsg_len) + RTA_ALIGN(attr->rta_len);
	return attr;
}

/* All that was put since belongs to @attr */
static void attr_end(const struct request *request, struct rtattr *attr)
{
	attr->rta_len = (unsigned short) ((const char *) request + request->head.nlmsg_len -
					  (const char *) attr);
}

/* A wire from @name here to net0 in the namespace @there */
static int wire_make(const char *name, int there)
{
	struct request request = {
		.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(request.device)),
			 .nlmsg_type = RTM_NEWLINK,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL},
	};
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
		char room[512];
	} answer = {.error = {.error = -EPIPE}};
	const struct ifinfomsg any = {0};
	struct rtattr *info, *data, *peer;
	const int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	attr_put(&request, IFLA_IFNAME, name, strlen(name) + 1);
	info = attr_put(&request, IFLA_LINKINFO, NULL, 0);
	attr_put(&request, IFLA_INFO_KIND, "veth", strlen("veth"));
	data = attr_put(&request, IFLA_INFO_DATA, NULL, 0);
	peer = attr_put(&request, VETH_INFO_PEER, &any, sizeof(any));
	attr_put(&request, IFLA_IFNAME, "net0", sizeof("net0"));
	attr_put(&request, IFLA_NET_NS_FD, &there, sizeof(there));
	attr_end(&request, peer);
	attr_end(&request, data);
	attr_end(&request, info);
	if (sock < 0 || send(sock, &request, request.head.nlmsg_len, 0) < 0 ||
	    recv(sock, &answer, sizeof(answer), 0) < 0)
		answer.error.error = -errno;
	close(sock);
	return answer.error.error;
}

/* ---- both ends ---- */

/* In the namespace of @sock */
static int router_end(int sock, int host, const char *net, int there)
{
	const struct sockaddr router = address(net, ROUTER);
	char name[IFNAMSIZ];
	int err;

	snprintf(name, sizeof(name), "host%d", host);
	err = wire_make(name, there);
	err = err ? err : device_up(sock, name, &router);
	return err ? err : route_add(sock, name, address(net, host + 1), NULL);
}

int router_make(int *router)
{
	int sock, forward, err;

	if (unshare(CLONE_NEWNET))
		return -errno;
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	forward = open(FORWARD, O_WRONLY | O_CLOEXEC);
	*router = open(OWN_NET, O_RDONLY | O_CLOEXEC);
	if (sock < 0 || forward < 0 || *router < 0 || write(forward, "1", 1) != 1)
		err = -errno;
	else
		err = device_up(sock, "lo", NULL);
	close(forward);
	close(sock);
	return err;
}

int router_link(int router, int host, const char *net)
{
	const int own = open(OWN_NET, O_RDONLY | O_CLOEXEC);
	const struct sockaddr here = address(net, host + 1), gateway = address(net, ROUTER);
	int sock, err;

	if (own < 0 || setns(router, CLONE_NEWNET))
		return -errno;
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	err = router_end(sock, host, net, own);
	close(sock);
	if (setns(own, CLONE_NEWNET))
		return -errno;
	close(own);
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	err = err ? err : device_up(sock, "lo", NULL);
	err = err ? err : device_up(sock, "net0", &here);
	err = err ? err : route_add(sock, "net0", gateway, &gateway);
	close(sock);
	return err;
}
