/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_hosts: several hosts on this one. Each is a set of namespaces: network, IPC, mounts
 * with a /dev/shm and a /proc of its own, host name and processes. Each says that it was started at another time. A relay in
 * this process is all that connects them. With --routed the kernel routes instead, for measurements.
 *
 * Or they are containers of this host, which have namespaces of their own of some kinds, and share the others. As there,
 * /dev/shm goes with the IPC namespace, and /proc with that of processes.
 *
 * A command is run here, on none of them. It is told of the hosts by FT_HOSTS, and of the relay by
 * FT_LINK: functional programs put each rank on a host (common/host.c), and fabtests/pair its two
 * processes. All of it ends with the command, or with this process, however that ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/if_tun.h>
#include <dirent.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ft_test.h"
#include "relay.h"
#include "router.h"

static void usage(FILE *file)
{
	fprintf(file,
		"Usage: fi_p2p_hosts [OPTION...] COMMAND [ARGUMENT...]\n"
		"       fi_p2p_hosts --on NUMBER COMMAND [ARGUMENT...]\n"
		"\n"
		"Makes two hosts, and runs COMMAND, which puts ranks there. --on is for COMMAND:\n"
		"what runs on a host, from 0.\n"
		"\n"
		"  --hosts NUMBER   so many: 2 to %d (2)\n"
		"  --loss PERCENT   of packets that get lost (0)\n"
		"  --delay MS       for each packet (0)\n"
		"  --seed NUMBER    which packets get lost (1)\n"
		"  --routed         the kernel routes between the hosts, at full speed: no link can\n"
		"                   be cut, and no packet lost or late\n"
		"  --containers KINDS  containers of this host, with namespaces of their own of\n"
		"                   these kinds, separated by commas: pid, ipc, net, user, none.\n"
		"                   number: processes have the same ids in all of them, in pid\n"
		"                   uid: the user has another id in each of them, in user\n"
		"  -h, --help       this help\n"
		"\n"
		"Exit status: COMMAND's; 77, after \"skip: REASON\", where there can be no hosts.\n",
		RELAY_HOSTS);
}

/* ---- a host ---- */

#define SYSCTL "/proc/sys/net/"
#define RTO_MAX SYSCTL "ipv4/tcp_rto_max_ms"

/* A kernel that does not have it, or not yet, goes without. */
static void sysctl_set(const char *path, const char *value)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, value, strlen(value)) < 0)
		ft_errno("write", path);
	close(fd);
}

/*
 * TCP takes what is lost often for a busy network, and soon waits for half a minute. But the
 * hosts are neighbours.
 */
static void network_tune(void)
{
	sysctl_set(SYSCTL "ipv4/tcp_rto_min_us", "5000");
	sysctl_set(RTO_MAX, "1000");
	/* which shall not make it give up sooner */
	sysctl_set(SYSCTL "ipv4/tcp_retries2", "255");
	sysctl_set(SYSCTL "ipv4/tcp_syn_retries", "127");
	sysctl_set(SYSCTL "ipv4/tcp_synack_retries", "255");
}

/* The first wrong step, for who asks for the host; 0 is success */
static int network_make(int host, int *tun)
{
	struct ifreq ifr = {.ifr_mtu = 0};
	struct sockaddr_in *addr = (struct sockaddr_in *) &ifr.ifr_addr;
	const int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char text[32];

	*tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (sock < 0 || *tun < 0)
		return -errno;
	strcpy(ifr.ifr_name, "lo");
	ifr.ifr_flags = IFF_UP;
	if (ioctl(sock, SIOCSIFFLAGS, &ifr))
		return -errno;
	strcpy(ifr.ifr_name, "net0");
	ifr.ifr_flags = IFF_TUN | IFF_NO_PI;
	if (ioctl(*tun, TUNSETIFF, &ifr))
		return -errno;
	ifr.ifr_mtu = RELAY_MTU;
	if (ioctl(sock, SIOCSIFMTU, &ifr))
		return -errno;
	snprintf(text, sizeof(text), "%s.%d", RELAY_NET, host + 1);
	*addr = (struct sockaddr_in){.sin_family = AF_INET};
	inet_pton(AF_INET, text, &addr->sin_addr);
	if (ioctl(sock, SIOCSIFADDR, &ifr))
		return -errno;
	inet_pton(AF_INET, "255.255.255.0", &addr->sin_addr);
	if (ioctl(sock, SIOCSIFNETMASK, &ifr))
		return -errno;
	ifr.ifr_flags = IFF_UP;
	if (ioctl(sock, SIOCSIFFLAGS, &ifr))
		return -errno;
	close(sock);
	return 0;
}

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* A file with @text; no such file is there, or it is one of the kernel's. 0 or -errno */
static int file_put(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	const ssize_t len = (ssize_t) strlen(text);
	const int err = fd >= 0 && write(fd, text, (size_t) len) == len ? 0 : -errno;

	close(fd);
	return err;
}

/* Of which kinds containers have namespaces of their own; and what connects them, or hosts */
struct kinds {
	bool containers;
	bool pid, ipc, net, user, number, uid;
	bool routed;
	int router; /* the network namespace that does */
};

static int host_make(const struct kinds *kinds, int host, int *tun)
{
	char name[16];

	snprintf(name, sizeof(name), "host%d", host);
	if (unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL) ||
	    mount("proc", "/proc", "proc", 0, NULL) || sethostname(name, strlen(name)))
		return -errno;
	if (file_put("/dev/shm/boot_id", name) ||
	    mount("/dev/shm/boot_id", BOOT_ID, NULL, MS_BIND, NULL))
		return -errno;
	/* neither the relay nor the router carries it */
	sysctl_set(SYSCTL "ipv6/conf/default/disable_ipv6", "1");
	if (kinds->routed)
		return router_link(kinds->router, host, RELAY_NET);
	network_tune();
	return network_make(host, tun);
}

/* The user is the same one outside, whatever its id in there */
static int user_make(int id)
{
	char map[32];
	int err;

	snprintf(map, sizeof(map), "%d %d 1", id, (int) geteuid());
	if (unshare(CLONE_NEWUSER))
		return -errno;
	err = file_put("/proc/self/setgroups", "deny");
	err = err ? err : file_put("/proc/self/uid_map", map);
	return err ? err : file_put("/proc/self/gid_map", "0 0 1");
}

static int container_make(const struct kinds *kinds, int host, int *tun)
{
	static const char name[] = "container";

	if (unshare(CLONE_NEWUTS | CLONE_NEWNS | (kinds->ipc ? CLONE_NEWIPC : 0) |
		    (kinds->net ? CLONE_NEWNET : 0)) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    (kinds->ipc && mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL)) ||
	    (kinds->pid && mount("proc", "/proc", "proc", 0, NULL)) ||
	    sethostname(name, strlen(name)))
		return -errno;
	/* else the first rank of each has the same id */
	for (int i = 0; kinds->pid && !kinds->number && i < host; i++) {
		const pid_t pid = fork();

		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	if (kinds->net) {
		const int err = network_make(host, tun);

		if (err)
			return err;
	}
	return kinds->user ? user_make(kinds->uid ? host : 0) : 0;
}

/* What makes a host hands over: the device, or the error */
static void hand_over(int sock, int err, int tun)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.room = {0}};
	struct iovec iov = {&err, sizeof(err)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (!err && tun >= 0) {
		control.head = (struct cmsghdr){
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
			.cmsg_len = CMSG_LEN(sizeof(int)),
		};
		memcpy(CMSG_DATA(&control.head), &tun, sizeof(tun));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	sendmsg(sock, &msg, 0);
}

static int take_over(int sock, int *tun)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	int err;
	struct iovec iov = {&err, sizeof(err)};
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != sizeof(err))
		return -EPIPE;
	*tun = -1;
	if (CMSG_FIRSTHDR(&msg))
		memcpy(tun, CMSG_DATA(&control.head), sizeof(*tun));
	return err;
}

/* The first process of a host: the host ends with it, and it ends with us. */
static void __attribute__((noreturn)) host_main(const struct kinds *kinds, int host, int sock)
{
	int tun = -1, err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	err = kinds->containers ? container_make(kinds, host, &tun)
				: host_make(kinds, host, &tun);
	signal(SIGCHLD, SIG_IGN); /* nobody else looks after orphans */
	hand_over(sock, err, tun);
	close(tun);
	close(sock);
	for (;;)
		pause();
}

/* Returns 0 or -errno, which is no mistake of ours: not everybody may have namespaces. */
static int host_start(const struct kinds *kinds, int host, pid_t *pid, int *tun)
{
	const int home = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	int pair[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) ||
	    ((kinds->pid || !kinds->containers) && unshare(CLONE_NEWPID)))
		return -errno;
	*pid = fork();
	if (!*pid)
		host_main(kinds, host, pair[1]);
	if (*pid < 0 || setns(home, CLONE_NEWPID))
		return -errno;
	close(pair[1]);
	err = take_over(pair[0], tun);
	close(pair[0]);
	close(home);
	return err;
}

/* ---- the command ---- */

static int exit_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Runs a command in @pid, which is 0 in there */
static pid_t start(pid_t pid, char **command)
{
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execvp(*command, command);
	ft_errno("exec", *command);
	_exit(127);
}

static int run_on(int host, char **command)
{
	pid_t pid;
	int status;

	if (!getenv("FT_HOSTS"))
		return ft_errno("--on", "there are no hosts: run this below fi_p2p_hosts");
	pid = start(ft_host_fork(host), command);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return EXIT_FAILURE;
	return exit_status(status);
}

static int command_run_routed(char **command)
{
	const pid_t pid = start(fork(), command);
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return ft_errno("fork", *command);
	return exit_status(status);
}

static int command_run(struct relay *relay, char **command)
{
	int control[2], until, status;
	char number[16];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, control))
		return ft_errno("socketpair", "to the relay");
	fcntl(control[0], F_SETFD, FD_CLOEXEC);
	snprintf(number, sizeof(number), "%d", control[1]);
	setenv("FT_LINK", number, 1);
	pid = start(fork(), command);
	if (pid < 0)
		return ft_errno("fork", *command);
	until = (int) syscall(SYS_pidfd_open, pid, 0);
	if (relay_run(relay, control[0], until))
		return EXIT_FAILURE;
	waitpid(pid, &status, 0);
	return exit_status(status);
}

/*
 * What all containers of this host have in common with it: a directory, as a descriptor, where the emulated driver finds the
 * memory of other processes. Returns it; negative: there is none
 */
static int common_open(char *path)
{
	char number[16];
	int dir;

	if (!mkdtemp(path))
		return -1;
	dir = open(path, O_RDONLY | O_DIRECTORY);
	snprintf(number, sizeof(number), "%d", dir);
	setenv("CUDAEMU_HOST", number, 1);
	return dir;
}

static void common_remove(int dir, const char *path)
{
	DIR *files = fdopendir(dir);
	const struct dirent *file;

	while (files && (file = readdir(files)))
		unlinkat(dir, file->d_name, 0);
	if (files)
		closedir(files);
	rmdir(path);
}

static int run_with_hosts(struct relay *relay, struct kinds *kinds, char **command)
{
	char common[] = "/dev/shm/containers.XXXXXX";
	int dir = -1;
	pid_t pid[RELAY_HOSTS];
	char hosts[RELAY_HOSTS * 32] = "", program[4096] = "";
	size_t len = 0;
	int status = kinds->routed ? router_make(&kinds->router) : 0;

	if (status)
		return ft_skip("no network of its own for this user: %s", strerror(-status));
	if (relay->loss && access(RTO_MAX, W_OK))
		return ft_skip(
			"no --loss with this kernel, whose TCP would wait for minutes: it has "
			"no " RTO_MAX);
	for (int i = 0; i < relay->hosts; i++) {
		const int err = host_start(kinds, i, &pid[i], &relay->tun[i]);
		const char *net = kinds->containers && !kinds->net ? "127.0.0" : RELAY_NET;

		if (err)
			return ft_skip("no hosts of their own for this user: %s",
				       strerror(-err));
		len += (size_t) snprintf(hosts + len, sizeof(hosts) - len, "%s%s.%d=%d",
					 i ? " " : "", net, i + 1, pid[i]);
	}
	if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
		return ft_errno("readlink", "this program");
	if (kinds->containers)
		dir = common_open(common);
	setenv("FT_HOSTS", hosts, 1);
	setenv("FT_HOSTS_PROGRAM", program, 1);
	status = kinds->routed ? command_run_routed(command) : command_run(relay, command);
	for (int i = 0; i < relay->hosts; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
	}
	if (dir >= 0)
		common_remove(dir, common);
	if (!kinds->routed)
		fprintf(stderr, "hosts: of %" PRIu64 " packets %" PRIu64 " got lost\n",
			relay->passed + relay->lost, relay->lost);
	if (!status && relay->loss && !relay->lost) {
		ft_err("no packet got lost, where %u %% should", relay->loss);
		return EXIT_FAILURE;
	}
	return status;
}

static long number(const char *name, const char *text, long min, long max)
{
	char *end;
	const long value = strtol(text, &end, 10);

	if (end == text || *end || value < min || value > max) {
		ft_err("--%s %s: a number from %ld to %ld", name, text, min, max);
		exit(2);
	}
	return value;
}

static void kinds_read(struct kinds *kinds, char *text)
{
	const struct {
		const char *name;
		bool *kind;
	} all[] = {
		{"pid", &kinds->pid},         {"ipc", &kinds->ipc},       {"net", &kinds->net},
		{"user", &kinds->user},       {"number", &kinds->number}, {"uid", &kinds->uid},
		{"none", &kinds->containers},
	};

	kinds->containers = true;
	for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
		size_t i = 0;

		while (i < FT_COUNT(all) && strcmp(word, all[i].name))
			i++;
		if (i == FT_COUNT(all)) {
			ft_err("--containers %s: -h tells the kinds", word);
			exit(2);
		}
		*all[i].kind = true;
	}
}

int main(int argc, char **argv)
{
	enum { HOSTS, LOSS, DELAY, SEED, ON, CONTAINERS, ROUTED, HELP };
	static const struct option options[] = {
		[HOSTS] = {"hosts", required_argument, NULL, HOSTS},
		[LOSS] = {"loss", required_argument, NULL, LOSS},
		[DELAY] = {"delay", required_argument, NULL, DELAY},
		[SEED] = {"seed", required_argument, NULL, SEED},
		[ON] = {"on", required_argument, NULL, ON},
		[CONTAINERS] = {"containers", required_argument, NULL, CONTAINERS},
		[ROUTED] = {"routed", no_argument, NULL, ROUTED},
		[HELP] = {"help", no_argument, NULL, 'h'},
		{NULL},
	};
	static const long max[] = {RELAY_HOSTS, 99, 10000, LONG_MAX, FT_MAX_RANKS - 1};
	long value[] = {2, 0, 0, 1, -1};
	struct relay relay = {.hosts = 0};
	struct kinds kinds = {.containers = false};
	int letter;

	ft_prefix_set(argv[0], -1);
	/* what follows the command is the command's */
	while ((letter = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		if (letter == CONTAINERS) {
			kinds_read(&kinds, optarg);
			continue;
		}
		if (letter == ROUTED) {
			kinds.routed = true;
			continue;
		}
		if (letter >= (int) FT_COUNT(value)) {
			usage(letter == 'h' ? stdout : stderr);
			return letter == 'h' ? 0 : 2;
		}
		value[letter] = number(options[letter].name, optarg, letter == HOSTS ? 2 : 0,
				       max[letter]);
	}
	argv += optind;
	if (!*argv) {
		usage(stderr);
		return 2;
	}
	if (value[ON] >= 0)
		return run_on((int) value[ON], argv);
	if (kinds.routed && (kinds.containers || value[LOSS] || value[DELAY])) {
		ft_err("--routed: neither --containers nor --loss nor --delay");
		return 2;
	}
	relay.hosts = (int) value[HOSTS];
	relay.loss = (unsigned int) value[LOSS];
	relay.delay_us = (double) value[DELAY] * 1e3;
	relay.seed = (uint64_t) value[SEED];
	return run_with_hosts(&relay, &kinds, argv);
}
