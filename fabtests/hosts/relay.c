/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The network between hosts. See relay.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ft.h"
#include "relay.h"

#define BATCH 64       /* packets of one host in a row */
#define QUEUE_MAX 4096 /* packets under way; more get lost, as in any network */
#define IP_DESTINATION 16
#define IP_HEADER 20
#define IP_ADDRESSES 12

struct packet {
	TAILQ_ENTRY(packet) entry;
	double due;
	int from, to;
	size_t len;
	unsigned char bytes[];
};

static void deliver(struct relay *relay, int from, int to, const void *bytes, size_t len)
{
	/* a device that has no room loses it */
	if (relay->cut[from] || relay->cut[to] || write(relay->tun[to], bytes, len) < 0)
		relay->lost++;
	else
		relay->passed++;
}

static void queue(struct relay *relay, int from, int to, const void *bytes, size_t len)
{
	struct packet *packet = NULL;

	if (relay->queued < QUEUE_MAX)
		packet = malloc(sizeof(*packet) + len);
	if (!packet) {
		relay->lost++;
		return;
	}
	*packet = (struct packet){.due = ft_usec() + relay->delay_us,
				  .from = from,
				  .to = to,
				  .len = len};
	memcpy(packet->bytes, bytes, len);
	TAILQ_INSERT_TAIL(&relay->queue, packet, entry);
	relay->queued++;
}

static void deliver_due(struct relay *relay)
{
	const double now = ft_usec();
	struct packet *packet;

	while ((packet = TAILQ_FIRST(&relay->queue)) && packet->due <= now) {
		TAILQ_REMOVE(&relay->queue, packet, entry);
		relay->queued--;
		deliver(relay, packet->from, packet->to, packet->bytes, packet->len);
		free(packet);
	}
}

/* The host that an IPv4 packet is for; -1: none of ours */
static int destination(const struct relay *relay, const unsigned char *bytes, size_t len)
{
	int host;

	if (len < IP_HEADER || bytes[0] >> 4 != 4)
		return -1;
	host = bytes[IP_DESTINATION + 3] - 1;
	return host >= 0 && host < relay->hosts ? host : -1;
}

static void pass(struct relay *relay, int from, int to, const void *bytes, size_t len)
{
	if (relay->delay_us > 0)
		queue(relay, from, to, bytes, len);
	else
		deliver(relay, from, to, bytes, len);
}

/* ---- connections that are reset ---- */

/* The beginning of a packet of TCP's, without options of IP's */
struct segment {
	struct iphdr ip;
	struct tcphdr tcp;
};

/* The one from port @source to port @dest, which takes the oldest one's place if it is new */
static struct relay_flow *flow_get(struct relay *relay, unsigned int source, unsigned int dest)
{
	struct relay_flow *flow;

	for (flow = relay->flows; flow < relay->flows + RELAY_FLOWS; flow++)
		if (flow->source == source && flow->dest == dest)
			return flow;
	flow = &relay->flows[relay->next_flow++ % RELAY_FLOWS];
	*flow = (struct relay_flow){.source = source, .dest = dest};
	return flow;
}

static uint16_t checksum(const void *bytes, size_t len, uint32_t sum)
{
	const uint8_t *byte = bytes;

	for (size_t i = 0; i < len; i += 2)
		sum += (uint32_t) byte[i] << 8 | byte[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t) ~sum);
}

static uint32_t address(int host)
{
	return htonl(ntohl(inet_addr(RELAY_NET ".1")) + (uint32_t) host);
}

/* Tells the end of a flow, in the other one's name. It believes that at the place in the stream alone that it has got to. */
static void reset(struct relay *relay, const struct relay_flow *flow, uint32_t place)
{
	struct segment segment = {
		.ip = {.version = 4,
		       .ihl = IP_HEADER / 4,
		       .tot_len = htons(sizeof(segment)),
		       .ttl = IPDEFTTL,
		       .protocol = IPPROTO_TCP,
		       .saddr = address(flow->from),
		       .daddr = address(flow->to)},
		.tcp = {.source = htons((uint16_t) flow->source),
			.dest = htons((uint16_t) flow->dest),
			.seq = htonl(place),
			.doff = sizeof(segment.tcp) / 4,
			.rst = 1},
	};

	segment.ip.check = checksum(&segment.ip, IP_HEADER, 0);
	/* TCP's is about the addresses, too */
	segment.tcp.check =
		checksum((const uint8_t *) &segment + IP_ADDRESSES,
			 sizeof(segment) - IP_ADDRESSES, IPPROTO_TCP + sizeof(segment.tcp));
	pass(relay, flow->from, flow->to, &segment, sizeof(segment));
}

/* From now on nothing passes between the two ports. @silent: as a firewall drops it, so neither end hears of that */
static void cut_off(struct relay *relay, unsigned int one, unsigned int other, bool silent)
{
	struct relay_flow *flows[] = {flow_get(relay, one, other), flow_get(relay, other, one)};

	for (size_t i = 0; i < FT_COUNT(flows); i++) {
		flows[i]->cut = true;
		flows[i]->told = false;
		flows[i]->silent = silent;
	}
}

/* Both ends hear that a packet has got lost. Who sends one all the same has not believed it, and says where it is. */
static void refused(struct relay *relay, struct relay_flow *flow, struct relay_flow *back,
		    const struct tcphdr *seen)
{
	if (seen->rst)
		return;
	if (flow->told || back->told)
		back->place = ntohl(seen->ack_seq);
	else
		reset(relay, flow, flow->place);
	reset(relay, back, back->place);
	flow->told = back->told = true;
}

/* Notes how far a connection has got. True: it is cut off, so this gets lost */
static bool refuse(struct relay *relay, int from, int to, const unsigned char *bytes,
		   size_t len)
{
	struct relay_flow *flow, *back;
	struct segment seen;
	uint32_t place;

	if (len < sizeof(seen) || bytes[0] != (4 << 4 | IP_HEADER / 4))
		return false;
	memcpy(&seen, bytes, sizeof(seen));
	if (seen.ip.protocol != IPPROTO_TCP)
		return false;
	flow = flow_get(relay, ntohs(seen.tcp.source), ntohs(seen.tcp.dest));
	back = flow_get(relay, flow->dest, flow->source);
	flow->from = back->to = from;
	flow->to = back->from = to;
	/* its ports are used again */
	if (seen.tcp.syn && !seen.tcp.ack)
		flow->cut = back->cut = false;
	if (flow->cut) {
		if (!flow->silent)
			refused(relay, flow, back, &seen.tcp);
		relay->lost++;
		return true;
	}
	place = ntohl(seen.tcp.seq) + (uint32_t) (len - IP_HEADER) - 4u * seen.tcp.doff +
		seen.tcp.syn + seen.tcp.fin;
	if (seen.tcp.syn || (int32_t) (place - flow->place) > 0)
		flow->place = place;
	return false;
}

static void take(struct relay *relay, int from)
{
	unsigned char bytes[RELAY_MTU];

	for (int i = 0; i < BATCH; i++) {
		const ssize_t len = read(relay->tun[from], bytes, sizeof(bytes));
		int to;

		if (len < 0)
			return;
		to = destination(relay, bytes, (size_t) len);
		if (to < 0)
			continue;
		if (ft_random(&relay->seed) % 100 < relay->loss)
			relay->lost++;
		else if (!refuse(relay, from, to, bytes, (size_t) len))
			pass(relay, from, to, bytes, (size_t) len);
	}
}

static void obey(struct relay *relay, int control)
{
	char text[32] = "", answer[32];
	int host = 0, end = 0;
	unsigned int ports[2];

	if (recv(control, text, sizeof(text) - 1, 0) <= 0)
		return;
	if ((sscanf(text, "cut %d%n", &host, &end) == 1 ||
	     sscanf(text, "mend %d%n", &host, &end) == 1) &&
	    host >= 0 && host < relay->hosts && !text[end])
		relay->cut[host] = *text == 'c';
	else if ((sscanf(text, "reset %u %u%n", &ports[0], &ports[1], &end) == 2 ||
		  sscanf(text, "silence %u %u%n", &ports[0], &ports[1], &end) == 2) &&
		 !text[end])
		cut_off(relay, ports[0], ports[1], *text == 's');
	else if (strcmp(text, "count")) {
		send(control, "unknown", 7, MSG_NOSIGNAL);
		return;
	}
	snprintf(answer, sizeof(answer), "%" PRIu64, relay->lost);
	send(control, answer, strlen(answer), MSG_NOSIGNAL);
}

/* How long nothing is due; NULL: for ever */
static struct timespec *until_due(const struct relay *relay, struct timespec *time)
{
	const struct packet *packet = TAILQ_FIRST(&relay->queue);
	double left;

	if (!packet)
		return NULL;
	left = packet->due - ft_usec();
	left = FT_MAX(left, 0);
	time->tv_sec = (time_t) (left / 1e6);
	time->tv_nsec = (long) ((left - (double) time->tv_sec * 1e6) * 1e3);
	return time;
}

int relay_run(struct relay *relay, int control, int until)
{
	enum { UNTIL, CONTROL, TUN, FDS = TUN + RELAY_HOSTS };
	struct pollfd fds[FDS] = {
		[UNTIL] = {.fd = until, .events = POLLIN},
		[CONTROL] = {.fd = control, .events = POLLIN},
	};
	struct timespec time;

	TAILQ_INIT(&relay->queue);
	for (int i = 0; i < relay->hosts; i++)
		fds[TUN + i] = (struct pollfd){.fd = relay->tun[i], .events = POLLIN};
	while (!fds[UNTIL].revents) {
		if (ppoll(fds, (nfds_t) (TUN + relay->hosts), until_due(relay, &time), NULL) <
		    0)
			return ft_errno("ppoll", "the hosts' network");
		deliver_due(relay);
		for (int i = 0; i < relay->hosts; i++)
			if (fds[TUN + i].revents)
				take(relay, i);
		if (fds[CONTROL].revents)
			obey(relay, control);
	}
	return 0;
}
