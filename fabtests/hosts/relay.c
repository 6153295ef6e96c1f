/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The network between hosts. See relay.h. */
#include <errno.h>
#include <inttypes.h>
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

struct packet {
	TAILQ_ENTRY(packet) entry;
	double due;
	int from, to;
	size_t len;
	unsigned char bytes[];
};

static void deliver(struct relay *relay, int from, int to, const unsigned char *bytes,
		    size_t len)
{
	/* a device that has no room loses it */
	if (relay->cut[from] || relay->cut[to] || write(relay->tun[to], bytes, len) < 0)
		relay->lost++;
	else
		relay->passed++;
}

static void queue(struct relay *relay, int from, int to, const unsigned char *bytes, size_t len)
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
		else if (relay->delay_us > 0)
			queue(relay, from, to, bytes, (size_t) len);
		else
			deliver(relay, from, to, bytes, (size_t) len);
	}
}

static void obey(struct relay *relay, int control)
{
	char text[32] = "", answer[32];
	int host = 0, end = 0;

	if (recv(control, text, sizeof(text) - 1, 0) <= 0)
		return;
	if ((sscanf(text, "cut %d%n", &host, &end) == 1 ||
	     sscanf(text, "mend %d%n", &host, &end) == 1) &&
	    host >= 0 && host < relay->hosts && !text[end])
		relay->cut[host] = *text == 'c';
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
