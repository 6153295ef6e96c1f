/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The local socket by which processes get descriptors of memory. An input is what somebody else writes to
 * it, of the same user, with or without descriptors. An even first byte: to who answers; an odd one: to
 * who asks. Descriptors neither stay open nor get lost.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "mem/ipc_share.h"

#define OWNER 0x1234567890ULL /* who answers, here */
#define OTHER 0x1234567891ULL /* who is asked, and is no ofi_p2p */
#define MAX_FDS 4
#define FDS_LOOKED_AT 64

static uint64_t asked, answered;
static int other;

/* How many of the first descriptors are open */
static unsigned int open_fds(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < FDS_LOOKED_AT; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static socklen_t name(uint64_t process, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 +
			    (size_t) snprintf(address->sun_path + 1,
					      sizeof address->sun_path - 1, IPC_SHARE_NAME,
					      process));
}

/* Sends what there is of the input, with some descriptors. */
static void send_some(int conn, struct fuzz *in)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
	} room = {.head = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	const unsigned int fds = fuzz_pick(in, MAX_FDS + 1);
	uint8_t bytes[64];
	struct iovec iov = {bytes, fuzz_bytes(in, bytes, sizeof bytes)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	for (unsigned int i = 0; i < fds; i++)
		memcpy(CMSG_DATA(&room.head) + i * sizeof(int), &(int){STDERR_FILENO},
		       sizeof(int));
	if (fds) {
		room.head.cmsg_len = CMSG_LEN(fds * sizeof(int));
		msg.msg_control = &room;
		msg.msg_controllen = CMSG_SPACE(fds * sizeof(int));
	}
	sendmsg(conn, &msg, MSG_NOSIGNAL);
}

/* To who answers: whatever that was, the connection ends. */
static void ask(struct fuzz *in)
{
	struct sockaddr_un address;
	const socklen_t len = name(OWNER, &address);
	int conn = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	uint8_t answer[64];

	FUZZ_CHECK(conn >= 0 && !connect(conn, (struct sockaddr *) &address, len));
	send_some(conn, in);
	shutdown(conn, SHUT_WR);
	while (recv(conn, answer, sizeof answer, 0) > 0)
		asked++;
	close(conn);
}

/* ---- to who asks ---- */

static void *answer(void *arg)
{
	int conn = accept(other, NULL, NULL);
	uint8_t question[64];

	FUZZ_CHECK(conn >= 0 && recv(conn, question, sizeof question, 0) > 0);
	send_some(conn, arg);
	close(conn);
	return NULL;
}

static void be_asked(struct fuzz *in)
{
	const struct ipc_offer offer = {.process = OTHER, .shared = true};
	const char *why;
	pthread_t thread;
	int fd, ret;

	FUZZ_CHECK(!pthread_create(&thread, NULL, answer, in));
	ret = ipc_share_get(&offer, &fd, &why);
	pthread_join(thread, NULL);
	FUZZ_CHECK(ret ? why != NULL : fcntl(fd, F_GETFD) == FD_CLOEXEC);
	/* it may also be the question */
	if (fd >= 0)
		close(fd);
	answered += !ret;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct sockaddr_un address;
	const socklen_t len = name(OTHER, &address);

	fuzz_start();
	FUZZ_CHECK(!ipc_share_start(OWNER));
	atexit(ipc_share_stop);
	other = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	FUZZ_CHECK(other >= 0 && !bind(other, (struct sockaddr *) &address, len) &&
		   !listen(other, 1));
	fuzz_tell("questions answered", &asked);
	fuzz_tell("descriptors got", &answered);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const unsigned int before = open_fds();
	struct fuzz in = {data, size};

	if (fuzz_rarely(&in, 2))
		be_asked(&in);
	else
		ask(&in);
	FUZZ_CHECK(open_fds() == before);
	return 0;
}
