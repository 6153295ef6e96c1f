/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of ipc_share.c: an owner that nobody can upset, and askers who get an error where
 * there is nothing to get. That memory is shared between processes is shown by fi_p2p_ipc.
 */
#include "unit.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "../cudaemu/driver.h"
#include "mem/ipc_share.h"

#define THREADS 8
#define ASKS 50

/* No other run of this test has it, nor the next one */
static uint64_t number(void)
{
	return 0x7000000000000000 + 2 * (uint64_t) getpid();
}

/* Asks again where the owner's thread is late: other programs use the processors, too */
static int get(const struct ipc_offer *offer, int *fd, const char **why)
{
	int ret;

	while ((ret = ipc_share_get(offer, fd, why)) == -FI_EAGAIN)
		close(*fd);
	return ret;
}

static int ask(uint64_t process, const char **why)
{
	const struct ipc_offer offer = {.process = process, .id = 1, .base = 4096, .size = 64};
	int fd = -1, ret = get(&offer, &fd, why);

	assert_int_equal(fd, -1);
	return ret;
}

static socklen_t name_of(uint64_t process, struct sockaddr_un *address)
{
	int len;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	len = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, IPC_SHARE_NAME,
		       process);
	return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) len);
}

static int connect_to(uint64_t process)
{
	struct sockaddr_un address;
	const socklen_t len = name_of(process, &address);
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *) &address, len), 0);
	return fd;
}

/* How many descriptors this process has, with that of the directory */
static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* Nobody has such a number; then somebody has, but not the memory */
static void test_nothing(void **state)
{
	const char *why = NULL;

	assert_int_equal(ask(number(), &why), -FI_EIO);
	assert_non_null(strstr(why, "cannot be asked"));
	assert_int_equal(ipc_share_start(number()), 0);
	assert_int_equal(ipc_share_start(number()), 0);
	assert_int_equal(ask(number(), &why), -FI_EOPNOTSUPP);
	assert_non_null(strstr(why, "does not share"));
}

/* What is no question gets no answer, and does not end the answers */
static void test_noise(void **state)
{
	char noise[200];
	const char *why;
	int fd;

	memset(noise, 0x5a, sizeof(noise));
	for (size_t len = 0; len < sizeof(noise); len += 8) {
		fd = connect_to(number());
		if (len)
			assert_int_equal(send(fd, noise, len, MSG_NOSIGNAL), len);
		/* of no length: gone without a word */
		if (len)
			assert_int_equal(recv(fd, noise, sizeof(noise), 0), 0);
		close(fd);
	}
	assert_int_equal(ask(number(), &why), -FI_EOPNOTSUPP);
}

static void *ask_often(void *arg)
{
	const char *why;

	for (int i = 0; i < ASKS; i++)
		if (ask(number(), &why) != -FI_EOPNOTSUPP)
			return arg;
	return NULL;
}

static void test_many(void **state)
{
	pthread_t threads[THREADS];
	void *bad;

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_often, state), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &bad), 0);
		assert_null(bad);
	}
}

/* ThreadSanitizer takes a child's thread for the parent's that had the same address */
#ifdef __SANITIZE_THREAD__
#define CHILD_ANSWERS 0
#else
#define CHILD_ANSWERS 1
#endif

/* A child answers for itself, and its end is not its parent's */
static void test_child(void **state)
{
	const uint64_t parent = number();
	const pid_t pid = fork();
	const char *why;
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		status = CHILD_ANSWERS &&
			 (ipc_share_start(number()) || ask(number(), &why) != -FI_EOPNOTSUPP);
		status = status || ask(parent, &why) != -FI_EOPNOTSUPP;
		ipc_share_stop();
		_exit(status);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(ask(parent, &why), -FI_EOPNOTSUPP);
}

/* Where a user namespace has no map, all users look alike: whoever asks may be another one. */
static void test_nobody(void **state)
{
	const pid_t pid = fork();
	const char *why = "";
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		if (!CHILD_ANSWERS || unshare(CLONE_NEWUSER))
			_exit(77);
		status = ipc_share_start(number()) || ask(number(), &why) == -FI_EOPNOTSUPP ||
			 !strstr(why, "another user");
		ipc_share_stop();
		_exit(status);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

/* More than the owner will wait for, and more than wait in its socket */
#define SILENT 200

/* Who connects and says nothing keeps nobody from an answer. */
static void test_silent(void **state)
{
	int fds[SILENT];
	const char *why;

	for (int i = 0; i < SILENT; i++)
		fds[i] = connect_to(number());
	assert_int_equal(ask(number(), &why), -FI_EOPNOTSUPP);
	for (int i = 0; i < SILENT; i++)
		close(fds[i]);
	assert_int_equal(ask(number(), &why), -FI_EOPNOTSUPP);
}

/* ---- memory that is there ---- */

#define SIZE ((size_t) 2 << 20)

/* Maps new memory there, that no device may access yet */
static CUresult virtual_map(CUdeviceptr ptr, size_t size)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	};
	CUmemGenericAllocationHandle handle;

	assert_int_equal(cuMemCreate(&handle, size, &prop, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemMap(ptr, size, 0, handle, 0), CUDA_SUCCESS);
	return cuMemRelease(handle);
}

static CUdeviceptr virtual_alloc(size_t size)
{
	const CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUdeviceptr ptr;

	assert_int_equal(cuMemAddressReserve(&ptr, size, 0, 0, 0), CUDA_SUCCESS);
	assert_int_equal(virtual_map(ptr, size), CUDA_SUCCESS);
	assert_int_equal(cuMemSetAccess(ptr, size, &access, 1), CUDA_SUCCESS);
	return ptr;
}

/* No more than @count. The thread that gives them closes its own in its own time. */
static void expect_descriptors(int count)
{
	const time_t until = time(NULL) + 10;

	while (descriptors() > count && time(NULL) < until)
		sched_yield();
	assert_in_range(descriptors(), 0, count);
}

/* Is a descriptor given for this? */
static bool given(const struct ipc_offer *offer)
{
	const int before = descriptors();
	const char *why;
	int fd = -1;

	if (!get(offer, &fd, &why)) {
		close(fd);
		fd = 0;
	}
	expect_descriptors(before);
	return !fd;
}

/* It is given to who knows the word, as long as it is granted, and offered. */
static void test_granted(void **state)
{
	struct ipc_own own = {.number = 0}, region = {.number = 0};
	struct ipc_share *share, *again;
	struct ipc_offer offer, other;
	struct dev_mem mem;

	unit_dev_start();
	assert_true(dev_find((void *) (uintptr_t) virtual_alloc(SIZE), &mem));
	assert_int_equal(mem.size, SIZE);
	offer = (struct ipc_offer){
		.process = number(),
		.id = mem.id,
		.base = mem.base,
		.size = mem.size,
	};
	assert_false(given(&offer));
	assert_int_equal(ipc_share_grant(mem.id, -1, &share, offer.handle), 0);
	/* the application may be unmapping it, so the driver must not be asked */
	assert_false(given(&offer));
	ipc_own_stand(&own, 1234, &mem, (void *) mem.base, 1);
	assert_true(given(&offer));
	ipc_own_fall(&own);
	assert_false(given(&offer));
	ipc_own_stand(&region, 0, &mem, NULL, 0);
	assert_true(given(&offer));
	other = offer;
	assert_int_equal(ipc_share_grant(mem.id, -1, &again, other.handle), 0);
	assert_true(given(&other));
	assert_memory_not_equal(offer.handle, other.handle, IPC_SHARE_WORD);
	other.handle[IPC_SHARE_WORD - 1] ^= 1;
	assert_false(given(&other));
	memset(other.handle, 0, sizeof(other.handle));
	assert_false(given(&other));
	other = offer;
	other.id++;
	assert_false(given(&other));
	other = offer;
	other.size /= 2;
	assert_false(given(&other));
	ipc_share_revoke(share);
	assert_false(given(&offer));
	ipc_share_revoke(again);
	ipc_own_fall(&region);
}

/* A message out of @mem from device to device. What it needs stays attached. */
static void message(struct ipc *owner, struct ipc *user, const struct dev_mem *mem)
{
	struct ipc_own own = {.number = 0};
	struct ipc_import *import;
	struct ipc_offer offer;
	const struct ipc_claim claim = {.peer = 1, .number = 7, .len = 1, .offer = &offer};
	const struct ipc_export *export;
	const char *why;
	void *addr;

	export = ipc_export(owner, mem, (void *) mem->base, 1, &why);
	assert_non_null(export);
	ipc_describe(owner, export, mem, (void *) mem->base, &offer);
	ipc_own_stand(&own, 7, mem, (void *) mem->base, 1);
	assert_int_equal(ipc_open(user, &claim, mem, &import, &addr), 0);
	ipc_own_fall(&own);
	unit_clock_pass(10 * IPC_QUIET);
	ipc_tend(user, false);
	assert_true(ipc_keeps(user));
	ipc_close(user, import);
	assert_true(ipc_restless(user));
}

/* What was attached is detached some time after its last use, though copies go on. Its owner is not asked about it. */
static void test_detached(void **state)
{
	struct ipc owner, user;
	struct dev_mem mem;

	unit_dev_start();
	unit_clock_stop();
	ipc_init(&owner, number());
	ipc_init(&user, number());
	owner.process = number();
	for (int many = 0; many <= 1; many++) {
		const size_t size = many ? IPC_GONE_MOST + SIZE : SIZE;

		assert_true(dev_find((void *) (uintptr_t) virtual_alloc(size), &mem));
		message(&owner, &user, &mem);
		unit_clock_pass((many ? IPC_BRIEF : IPC_QUIET) - 1);
		ipc_tend(&user, false);
		assert_true(ipc_keeps(&user));
		assert_int_equal(user.look.number, -1);
		unit_clock_pass(1);
		ipc_tend(&user, false);
		assert_false(ipc_keeps(&user));
		assert_int_equal(cuMemUnmap(mem.base, size), CUDA_SUCCESS);
	}
	ipc_fini(&user);
	ipc_fini(&owner);
	unit_clock_run();
}

/* ---- an owner that lies ---- */

/**
 * struct lie - an answer.
 * @len:	its length; @magic and @status: what it begins with
 * @fds:	descriptors that come with it, in one piece, or in several
 */
static const struct lie {
	size_t len;
	uint32_t magic;
	int32_t status;
	int fds;
	bool good;
} lies[] = {
	{8, 0x7032706e, 0, 1, true},    {8, 0x7032706e, 0, 0},
	{8, 0x7032706e, 0, 2},          {8, 0x7032706e, 0, 3},
	{8, 0x7032706e, 0, 100},        {8, 0x7032706e, -FI_ENOENT, 1},
	{8, 0x7032706e, -FI_ENOENT, 2}, {8, 1, 0, 1},
	{4, 0x7032706e, 0, 1},          {4, 0x7032706e, 0, 2},
	{16, 0x7032706e, 0, 1},         {16, 0x7032706e, 0, 2},
};

static void lie_tell(int conn, const struct lie *lie)
{
	struct {
		uint32_t magic;
		int32_t status;
		uint64_t more;
	} answer = {lie->magic, lie->status, 0};
	struct iovec iov = {&answer, lie->len};
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(100 * sizeof(int))];
	} room = {
		.head.cmsg_len = CMSG_LEN(lie->fds * sizeof(int)),
		.head.cmsg_level = SOL_SOCKET,
		.head.cmsg_type = SCM_RIGHTS,
	};
	const struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = lie->fds ? &room : NULL,
		.msg_controllen = lie->fds ? CMSG_SPACE(lie->fds * sizeof(int)) : 0,
	};

	for (int i = 0; i < lie->fds; i++)
		memcpy(CMSG_DATA(&room.head) + i * sizeof(conn), &conn, sizeof(conn));
	/* where it was late, the other end is gone */
	if (sendmsg(conn, &msg, MSG_NOSIGNAL) != (ssize_t) lie->len && errno != EPIPE)
		fail_msg("a lie of %zu bytes cannot be told", lie->len);
}

/* The number of the lie that is told */
static atomic_size_t lie_next;

/* Until nobody listens at the socket */
static void *lie_serve(void *arg)
{
	const int fd = *(const int *) arg;
	char question[100];
	int conn;

	while ((conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		assert_true(recv(conn, question, sizeof(question), 0) > 0);
		lie_tell(conn, &lies[atomic_load(&lie_next)]);
		/* until it is closed at the other end */
		assert_true(recv(conn, question, sizeof(question), 0) <= 0);
		close(conn);
	}
	return NULL;
}

/* Nothing of what comes with a lie is left here. */
static void test_lies(void **state)
{
	const struct ipc_offer offer = {.process = number() + 1, .size = SIZE};
	struct sockaddr_un address;
	const socklen_t len = name_of(offer.process, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), before, got;
	pthread_t thread;
	const char *why;

	assert_int_equal(bind(fd, (struct sockaddr *) &address, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	before = descriptors();
	assert_int_equal(pthread_create(&thread, NULL, lie_serve, &fd), 0);
	for (size_t i = 0; i < UNIT_COUNT(lies); i++) {
		got = -1;
		atomic_store(&lie_next, i);
		if (lies[i].good)
			assert_int_equal(get(&offer, &got, &why), 0);
		else
			assert_true(get(&offer, &got, &why) < 0);
		assert_int_equal(got >= 0, lies[i].good);
		if (got >= 0) {
			assert_true(fcntl(got, F_GETFD) & FD_CLOEXEC);
			close(got);
		}
	}
	assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	expect_descriptors(before);
	close(fd);
}

/* An owner that does not answer is not waited for. What it gives later is not left here. */
static void test_late(void **state)
{
	const struct ipc_offer offer = {.process = number() + 1, .size = SIZE};
	struct sockaddr_un address;
	const socklen_t len = name_of(offer.process, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), conn, question;
	const int before = descriptors();
	const char *why;
	uint64_t unused;

	assert_int_equal(bind(fd, (struct sockaddr *) &address, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(ipc_share_get(&offer, &question, &why), -FI_EAGAIN);
	assert_int_equal(ipc_share_seen(question, 0, &unused), -FI_EAGAIN);
	conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(conn >= 0);
	lie_tell(conn, &lies[0]);
	assert_int_equal(ipc_share_seen(question, 0, &unused), -FI_EIO);
	close(conn);
	expect_descriptors(before);
	close(fd);
}

/* What the next recvmsg() of an asker does instead: 0: it finds the end too early; -1: a signal ends it; 1: nothing */
static __thread int instead = 1;

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	__typeof(&recvmsg) real = (__typeof(real)) dlsym(RTLD_NEXT, "recvmsg");
	const int result = instead;

	instead = 1;
	if (result > 0)
		return real(fd, msg, flags);
	msg->msg_controllen = 0;
	errno = EINTR;
	return result;
}

/* Linux may find the end where an answer came in between. A signal does not end the question either. */
static void test_hidden(void **state)
{
	const struct ipc_offer offer = {.process = number() + 1, .size = SIZE};
	struct sockaddr_un address;
	const socklen_t len = name_of(offer.process, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), got;
	const int before = descriptors();
	pthread_t thread;
	const char *why;

	assert_int_equal(bind(fd, (struct sockaddr *) &address, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	atomic_store(&lie_next, 0);
	assert_int_equal(pthread_create(&thread, NULL, lie_serve, &fd), 0);
	for (int result = 0; result >= -1; result--) {
		int ret;

		instead = result;
		ret = ipc_share_get(&offer, &got, &why);
		/* the owner's thread may be late all the same */
		if (result || ret != -FI_EAGAIN)
			assert_int_equal(ret, result ? -FI_EAGAIN : 0);
		close(got);
	}
	assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	expect_descriptors(before);
	close(fd);
}

/* An owner that has no room for another question is asked again later. */
static void test_full(void **state)
{
	const struct ipc_offer offer = {.process = number() + 1, .size = SIZE};
	struct sockaddr_un address;
	const socklen_t len = name_of(offer.process, &address);
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
		  before = descriptors();
	int first, question;
	const char *why;
	uint64_t unused;

	assert_int_equal(bind(fd, (struct sockaddr *) &address, len), 0);
	assert_int_equal(listen(fd, 0), 0);
	first = connect_to(offer.process);
	assert_int_equal(ipc_share_get(&offer, &question, &why), -FI_EAGAIN);
	assert_int_equal(ipc_share_seen(question, 0, &unused), -FI_EIO);
	close(first);
	expect_descriptors(before);
	close(fd);
}

/* ---- is it there? ---- */

/* The answer, which comes though nobody waits for it */
static uint64_t seen(const struct ipc_place *places, uint32_t count)
{
	uint64_t gone = 0;
	int ret = -FI_EIO;

	/* an owner that is held up may give a question up: then it is asked again, as ipc.c does */
	for (int tries = 0; ret == -FI_EIO && tries < 100; tries++) {
		const int question = ipc_share_look(number(), places, count);

		assert_true(question >= 0);
		while ((ret = ipc_share_seen(question, count, &gone)) == -FI_EAGAIN)
			sched_yield();
	}
	assert_int_equal(ret, 0);
	return gone;
}

/* What has been freed is gone, also where other memory is in its place */
static void test_seen(void **state)
{
	struct ipc_place places[IPC_PLACES];
	void *memory[IPC_PLACES];
	uint64_t freed = 0;
	struct dev_mem mem;

	unit_dev_start();
	for (int i = 0; i < IPC_PLACES; i++) {
		memory[i] = unit_dev_alloc(65536);
		assert_int_equal(dev_find(memory[i], &mem), 1);
		places[i] = (struct ipc_place){mem.id, mem.base};
	}
	assert_int_equal(seen(places, IPC_PLACES), 0);
	for (int i = 0; i < IPC_PLACES; i += 3) {
		unit_dev_free(memory[i]);
		memory[i] = i % 2 ? unit_dev_alloc(65536) : NULL;
		freed |= 1ULL << i;
		assert_int_equal(seen(places, IPC_PLACES), freed);
		assert_int_equal(seen(places + i, 1), 1);
	}
	for (int i = 0; i < IPC_PLACES; i++) {
		if (memory[i])
			unit_dev_free(memory[i]);
	}
	assert_true(seen(places, IPC_PLACES) == UINT64_MAX);
}

/* Virtual memory is known by its id where no device may access it yet, or any more */
static void test_seen_virtual(void **state)
{
	struct ipc_place place;
	uint64_t id = 0;

	unit_dev_start();
	place.base = virtual_alloc(SIZE);
	assert_int_equal(dev_identify((void *) (uintptr_t) place.base, &place.id), 1);
	assert_int_equal(seen(&place, 1), 0);
	assert_int_equal(cuMemUnmap(place.base, SIZE), CUDA_SUCCESS);
	assert_int_equal(seen(&place, 1), 1);
	assert_int_equal(virtual_map(place.base, SIZE), CUDA_SUCCESS);
	assert_int_equal(dev_identify((void *) (uintptr_t) place.base, &id), 1);
	assert_int_not_equal(id, place.id);
	assert_int_equal(seen(&place, 1), 1);
	assert_int_equal(dev_identify(&id, &id), 0);
}

/* A question that is none has no answer, and nobody waits for one */
static void test_seen_noise(void **state)
{
	const int before = descriptors();
	const struct ipc_place places[IPC_PLACES] = {{1, 4096}};
	uint64_t gone;
	int ret, question;

	for (uint32_t count = 0; count <= IPC_PLACES; count += IPC_PLACES) {
		question = ipc_share_look(number(), places, count);
		assert_true(question >= 0);
		/* of what was asked, the answer tells the number */
		while ((ret = ipc_share_seen(question, count + 1, &gone)) == -FI_EAGAIN)
			sched_yield();
		assert_int_equal(ret, -FI_EIO);
	}
	assert_int_equal(ipc_share_look(number() + 1, places, 1), -FI_ECONNREFUSED);
	expect_descriptors(before);
}

/* The other end of what this thread reads next; -1: nothing special happens */
static __thread int amid = -1;

/*
 * In the place of libc's. Linux looks for a message, and then whether the other end has closed. Both may come in between.
 * Then it says 0, and has the message the next time.
 */
ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	static const struct {
		uint32_t magic, count;
		uint64_t gone;
	} answer = {0x7032706c, 1, 1};
	ssize_t (*const real)(int fd, void *buf, size_t len, int flags) =
		dlsym(RTLD_NEXT, "recv");
	const int conn = amid;
	char question[100];

	amid = -1;
	if (conn < 0)
		return real(fd, buf, len, flags);
	assert_true(real(conn, question, sizeof(question), 0) > 0);
	assert_int_equal(real(fd, buf, len, flags), -1);
	assert_int_equal(send(conn, &answer, sizeof answer, MSG_NOSIGNAL), sizeof answer);
	close(conn);
	return 0;
}

/* An answer that comes while it is looked for is not taken for the end. */
static void test_seen_amid(void **state)
{
	const struct ipc_place place = {1, 4096};
	struct sockaddr_un address;
	const socklen_t len = name_of(number() + 1, &address);
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	uint64_t gone = 0;
	int question;

	assert_int_equal(bind(fd, (struct sockaddr *) &address, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	question = ipc_share_look(number() + 1, &place, 1);
	amid = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(question >= 0 && amid >= 0);
	assert_int_equal(ipc_share_seen(question, 1, &gone), 0);
	assert_int_equal(gone, 1);
	/* without an answer it is the end */
	question = ipc_share_look(number() + 1, &place, 1);
	close(accept4(fd, NULL, NULL, SOCK_CLOEXEC));
	assert_int_equal(ipc_share_seen(question, 1, &gone), -FI_EIO);
	close(fd);
}

/* After the end nobody answers, until it begins again */
static void test_stop(void **state)
{
	const char *why;

	ipc_share_stop();
	ipc_share_stop();
	assert_int_equal(ask(number(), &why), -FI_EIO);
	assert_int_equal(ipc_share_start(number()), 0);
	assert_int_equal(ask(number(), &why), -FI_EOPNOTSUPP);
	ipc_share_stop();
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing),      cmocka_unit_test(test_noise),
		cmocka_unit_test(test_many),         cmocka_unit_test(test_child),
		cmocka_unit_test(test_nobody),       cmocka_unit_test(test_silent),
		cmocka_unit_test(test_granted),      cmocka_unit_test(test_detached),
		cmocka_unit_test(test_lies),         cmocka_unit_test(test_late),
		cmocka_unit_test(test_hidden),       cmocka_unit_test(test_full),
		cmocka_unit_test(test_seen),         cmocka_unit_test(test_seen_noise),
		cmocka_unit_test(test_seen_virtual), cmocka_unit_test(test_seen_amid),
		cmocka_unit_test(test_stop),
	};
	static const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
