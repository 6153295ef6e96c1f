/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ranks on hosts of their own: the namespaces, and the links between them, of fi_p2p_hosts.
 * Its two variables tell of them. Without those all ranks stay on this host.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ft_test.h"

/* FT_HOSTS is a list of "ADDRESS=PROCESS": the first process of each host. Returns 0 without one. */
static pid_t first_process(int rank)
{
	const char *list = getenv("FT_HOSTS");
	pid_t found[FT_MAX_RANKS];
	int count = 0;

	if (!list)
		return 0;
	while (count < FT_MAX_RANKS && (list = strchr(list, '=')))
		found[count++] = (pid_t) strtol(list + 1, (char **) &list, 10);
	return count ? found[rank % count] : 0;
}

/* Has @first another namespace of a kind than this process? */
static bool apart(pid_t first, const char *kind)
{
	struct stat here, there;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	if (stat(path, &here))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", first, kind);
	return !stat(path, &there) && here.st_ino != there.st_ino;
}

bool ft_host_signals(void)
{
	const pid_t first = first_process(0);

	return !first || !apart(first, "pid");
}

/* All but the namespace of processes, in which a process is from its start. @user: CLONE_NEWUSER or 0 */
static int enter(int host, int root, int user)
{
	char cwd[PATH_MAX];

	if (!getcwd(cwd, sizeof(cwd)))
		return ft_errno("getcwd", "before a host is entered");
	if (setns(host, CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNS | user))
		return ft_errno("setns", "to a host");
	/* a program that is executed there may be looked into, by processes of its user */
	prctl(PR_SET_DUMPABLE, 1);
	/* the namespace's own root may lie outside that of who has made it */
	if (fchdir(root) || chroot(".") || chdir(cwd))
		return ft_errno("chroot", "on a host");
	close(root);
	close(host);
	return 0;
}

pid_t ft_host_fork(int rank)
{
	const pid_t first = first_process(rank);
	char path[32];
	int home, host, root, user;
	pid_t pid = -1;

	if (!first)
		return fork();
	snprintf(path, sizeof(path), "/proc/%d/root", first);
	root = open(path, O_PATH | O_CLOEXEC);
	host = (int) syscall(SYS_pidfd_open, first, 0);
	home = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	/* to enter one's own is an error */
	user = apart(first, "user") ? CLONE_NEWUSER : 0;
	if (!setns(host, CLONE_NEWPID)) {
		pid = fork();
		if (!pid && enter(host, root, user))
			_exit(EXIT_FAILURE);
		if (pid && setns(home, CLONE_NEWPID))
			ft_errno("setns", "back from a host");
	}
	close(home);
	if (pid) {
		close(host);
		close(root);
	}
	return pid;
}

bool ft_link_there(void)
{
	return getenv("FT_LINK");
}

int ft_link_tell(const char *command, uint64_t *lost)
{
	char answer[32] = "";
	int fd;

	if (!ft_link_there())
		return ft_skip("for hosts of their own (fi_p2p_hosts)");
	fd = atoi(getenv("FT_LINK"));
	if (send(fd, command, strlen(command), MSG_NOSIGNAL) < 0 ||
	    recv(fd, answer, sizeof(answer) - 1, 0) <= 0)
		return ft_errno("fi_p2p_hosts", command);
	FT_CHECK(sscanf(answer, "%" SCNu64, lost) == 1, "fi_p2p_hosts: %s: %s", command,
		 answer);
	return 0;
}
