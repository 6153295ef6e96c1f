/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Another process that owns memory, and does what it is told */
#include "rules.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

static void peer_send_fd(int socket, int fd)
{
	char data = 0;
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {{0}};
	struct iovec iov = {&data, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	if (sendmsg(socket, &msg, 0) != 1)
		_exit(1);
}

static int peer_receive_fd(int socket)
{
	char data;
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {&data, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	int fd = -1;

	if (recvmsg(socket, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

static long peer_free_mib(void)
{
	size_t available = 0, total;

	RULES_MUST(cuMemGetInfo_v2(&available, &total));
	return (long) (available >> 20);
}

static void peer_serve(int socket)
{
	CUmemGenericAllocationHandle handle;
	CUipcMemHandle ipc;
	CUdeviceptr plain, vmm;
	long answer;
	char what;
	int fd = -1;

	rules_open();
	RULES_MUST(cuMemAlloc_v2(&plain, RULES_PEER_SIZE));
	vmm = rules_vmm_new(RULES_PEER_SIZE, 0, &handle);
	RULES_MUST(rules_vmm_access(vmm, RULES_PEER_SIZE, 0));
	RULES_MUST(cuMemExportToShareableHandle(&fd, handle,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	RULES_MUST(cuIpcGetMemHandle(&ipc, plain));
	if (send(socket, &ipc, sizeof(ipc), 0) != sizeof(ipc))
		_exit(1);
	peer_send_fd(socket, fd);
	close(fd);
	while (recv(socket, &what, 1, 0) == 1) {
		if (what == 'f')
			cuMemFree_v2(plain);
		if (what == 'u') {
			cuMemUnmap(vmm, RULES_PEER_SIZE);
			cuMemRelease(handle);
			cuMemAddressFree(vmm, RULES_PEER_SIZE);
		}
		answer = peer_free_mib();
		if (send(socket, &answer, sizeof(answer), 0) != sizeof(answer))
			break;
	}
	_exit(0);
}

void rules_peer_start(struct rules_peer *peer)
{
	int sockets[2], fd;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		_exit(1);
	peer->child = fork();
	if (peer->child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* what belongs to another peer must end with that one */
		for (fd = STDERR_FILENO + 1; fd < 64; fd++)
			if (fd != sockets[1])
				close(fd);
		peer_serve(sockets[1]);
	}
	close(sockets[1]);
	peer->socket = sockets[0];
	if (recv(peer->socket, &peer->handle, sizeof(peer->handle), 0) !=
	    sizeof(peer->handle)) {
		rules_row("(this part ends: the other process has no memory)");
		_exit(0);
	}
	peer->fd = peer_receive_fd(peer->socket);
}

long rules_peer_ask(struct rules_peer *peer, char what)
{
	long answer = -1;

	if (send(peer->socket, &what, 1, MSG_NOSIGNAL) != 1 ||
	    recv(peer->socket, &answer, sizeof(answer), 0) != sizeof(answer))
		return -1;
	return answer;
}

void rules_peer_end(struct rules_peer *peer)
{
	close(peer->socket);
	waitpid(peer->child, NULL, 0);
}
