/* nccl_mesh.c: Unix sockets. Their names follow from a communicator's id and a
 * rank, so ranks find each other without help. */
#include "nccl_mesh.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MESH_POLL_MS = 5 };

/* Tags of messages on a boot socket. */
enum { MESH_RECORD = 'g', MESH_SENDS = 's', MESH_RECEIVES = 'r' };

struct mesh_hello {
	int rank, is_data;
};

static socklen_t mesh_address(struct sockaddr_un *a, struct mesh_id id,
			      int rank)
{
	int n;

	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	n = snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1,
		     "ddp-standin-%016llx%016llx-%d", (unsigned long long)id.a,
		     (unsigned long long)id.b, rank);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)n);
}

static void mesh_nap(long us)
{
	nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

/* ---- meeting */

/* Connects to a rank, which may start later. */
static int mesh_dial(struct mesh_id id, int rank, struct mesh_hello hello,
		     const _Atomic int *stop)
{
	struct sockaddr_un a;
	socklen_t len = mesh_address(&a, id, rank);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	while (fd >= 0 && connect(fd, (struct sockaddr *)&a, len) < 0) {
		if (*stop || (errno != ECONNREFUSED && errno != EAGAIN &&
			      errno != EINTR)) {
			close(fd);
			return -1;
		}
		mesh_nap(1000);
	}
	if (fd >= 0)
		send(fd, &hello, sizeof(hello), MSG_NOSIGNAL);
	return fd;
}

static int mesh_listen(struct mesh_id id, int rank, int size)
{
	struct sockaddr_un a;
	socklen_t len = mesh_address(&a, id, rank);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && (bind(fd, (struct sockaddr *)&a, len) < 0 ||
			listen(fd, 2 * size) < 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int mesh_answer(struct mesh *m, int listener, const _Atomic int *stop)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};
	struct mesh_hello hello;
	int fd;

	while (poll(&p, 1, MESH_POLL_MS) <= 0)
		if (*stop)
			return -1;
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0 ||
	    recv(fd, &hello, sizeof(hello), MSG_WAITALL) != sizeof(hello) ||
	    hello.rank < 0 || hello.rank >= m->size) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	*(hello.is_data ? &m->data[hello.rank] : &m->boot[hello.rank]) = fd;
	return 0;
}

enum mesh_result mesh_open(struct mesh *m, struct mesh_id id, int rank,
			   int size, const _Atomic int *stop)
{
	size_t n = (size_t)size;
	int listener = mesh_listen(id, rank, size), ok = listener >= 0;

	*m = (struct mesh){.rank = rank, .size = size};
	m->boot = malloc(n * sizeof(int));
	m->data = malloc(n * sizeof(int));
	m->sends = calloc(n, sizeof(unsigned));
	m->receives = calloc(n, sizeof(unsigned));
	if (!m->boot || !m->data || !m->sends || !m->receives)
		abort();
	for (int r = 0; r < size; r++)
		m->boot[r] = m->data[r] = -1;
	for (int r = 0; r < rank && ok; r++) {
		m->boot[r] = mesh_dial(id, r, (struct mesh_hello){rank, 0},
				       stop);
		m->data[r] = mesh_dial(id, r, (struct mesh_hello){rank, 1},
				       stop);
		ok = m->boot[r] >= 0 && m->data[r] >= 0;
	}
	for (int i = 2 * (rank + 1); i < 2 * size && ok; i++)
		ok = mesh_answer(m, listener, stop) == 0;
	if (listener >= 0)
		close(listener);
	return ok ? MESH_OK : *stop ? MESH_STOPPED : MESH_LOST;
}

void mesh_close(struct mesh *m)
{
	for (int r = 0; m->boot && r < m->size; r++) {
		if (m->boot[r] >= 0)
			close(m->boot[r]);
		if (m->data[r] >= 0)
			close(m->data[r]);
	}
	free(m->boot);
	free(m->data);
	free(m->sends);
	free(m->receives);
	memset(m, 0, sizeof(*m));
}

/* ---- setting up */

static enum mesh_result mesh_read(int fd, void *to, size_t size,
				  const _Atomic int *stop)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t at = 0;
	ssize_t n;

	while (at < size) {
		if (*stop)
			return MESH_STOPPED;
		n = recv(fd, (char *)to + at, size - at, MSG_DONTWAIT);
		if (n > 0)
			at += (size_t)n;
		else if (n == 0 || (errno != EAGAIN && errno != EINTR))
			return MESH_LOST;
		else
			poll(&p, 1, MESH_POLL_MS);
	}
	return MESH_OK;
}

/* Reads offers until the awaited tag arrives. */
static enum mesh_result mesh_await(struct mesh *m, int rank, char tag,
				   const _Atomic int *stop)
{
	unsigned *seen = tag == MESH_SENDS	? &m->sends[rank]
			 : tag == MESH_RECEIVES ? &m->receives[rank]
						: NULL;
	enum mesh_result rc = MESH_OK;
	char got = 0;

	while (!(seen && *seen) && (seen || got != tag)) {
		rc = mesh_read(m->boot[rank], &got, 1, stop);
		if (rc)
			return rc;
		if (got == MESH_SENDS)
			m->sends[rank]++;
		else if (got == MESH_RECEIVES)
			m->receives[rank]++;
	}
	if (seen)
		--*seen;
	return rc;
}

enum mesh_result mesh_gather(struct mesh *m, const void *mine, void *all,
			     size_t size, const _Atomic int *stop)
{
	char tag = MESH_RECORD;
	enum mesh_result rc = MESH_OK;

	memcpy((char *)all + (size_t)m->rank * size, mine, size);
	for (int r = 0; r < m->size; r++) {
		if (r == m->rank)
			continue;
		send(m->boot[r], &tag, 1, MSG_NOSIGNAL);
		send(m->boot[r], mine, size, MSG_NOSIGNAL);
	}
	for (int r = 0; r < m->size && !rc; r++) {
		if (r == m->rank)
			continue;
		rc = mesh_await(m, r, tag, stop);
		if (!rc)
			rc = mesh_read(m->boot[r],
				       (char *)all + (size_t)r * size, size,
				       stop);
	}
	return rc;
}

void mesh_offer(struct mesh *m, int rank, int sends)
{
	char tag = sends ? MESH_SENDS : MESH_RECEIVES;

	send(m->boot[rank], &tag, 1, MSG_NOSIGNAL);
}

enum mesh_result mesh_accept(struct mesh *m, int rank, int sends,
			     const _Atomic int *stop)
{
	return mesh_await(m, rank, sends ? MESH_RECEIVES : MESH_SENDS, stop);
}

/* ---- data */

/* Moves bytes of the first part of a rank that is not done. Returns 1 if some
 * were moved, 0 if none, -1 if the rank is lost. */
static int mesh_move(int fd, struct mesh_part *p, int is_out)
{
	ssize_t n = is_out ? send(fd, p->at, p->size,
				  MSG_DONTWAIT | MSG_NOSIGNAL)
			   : recv(fd, p->at, p->size, MSG_DONTWAIT);

	if (n > 0) {
		p->at += n;
		p->size -= (size_t)n;
		return 1;
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

/* Advances parts; sets fds[r].events to what rank r's socket is waited for. */
static int mesh_advance(struct mesh *m, struct mesh_part *parts, int n,
			int is_out, struct pollfd *fds, int *left,
			_Atomic int *lost)
{
	short event = is_out ? POLLOUT : POLLIN;
	int moved = 0, rc;

	for (int i = 0; i < n; i++) {
		struct mesh_part *p = &parts[i];

		if (!p->size)
			continue;
		++*left;
		if (fds[p->rank].events & event)
			continue; /* an earlier part is not done */
		rc = mesh_move(m->data[p->rank], p, is_out);
		if (rc < 0)
			*lost = 1;
		if (rc > 0)
			moved = 1;
		if (p->size)
			fds[p->rank].events |= event;
	}
	return moved;
}

enum mesh_result mesh_exchange(struct mesh *m, struct mesh_part *out, int nout,
			       struct mesh_part *in, int nin,
			       const _Atomic int *stop, _Atomic int *lost)
{
	struct pollfd *fds = calloc((size_t)m->size, sizeof(*fds));
	enum mesh_result rc = MESH_OK;
	int left, moved;

	if (!fds)
		abort();
	for (;;) {
		if (*stop) {
			rc = MESH_STOPPED;
			break;
		}
		for (int r = 0; r < m->size; r++)
			fds[r] = (struct pollfd){.fd = m->data[r]};
		left = 0;
		moved = mesh_advance(m, out, nout, 1, fds, &left, lost);
		moved |= mesh_advance(m, in, nin, 0, fds, &left, lost);
		if (!left)
			break;
		for (int r = 0; r < m->size; r++)
			if (!fds[r].events)
				fds[r].fd = -1; /* it may be closed already */
		if (*lost)
			mesh_nap(1000); /* a kernel spins until it is stopped */
		else if (!moved)
			poll(fds, (nfds_t)m->size, MESH_POLL_MS);
	}
	free(fds);
	return rc;
}
