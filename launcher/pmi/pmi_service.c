/* pmi_service.c: sockets on libuv. */
#include "launcher/pmi/pmi_service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

enum {
	READ_BYTES = 4096,
	ABORT_MS = 200, /* for a worker to exit after MPI_Abort */
};

static void pmi_service_fail(struct pmi_service *s, const struct err *why)
{
	if (s->has_failed || s->is_closing)
		return;
	s->has_failed = 1;
	if (s->starting) /* the owner does not have s yet */
		*s->starting = *why;
	else
		s->events->on_failed(s->owner, why->text);
}

/* ---- closing ---- */

static void pmi_service_check_closed(struct pmi_service *s)
{
	if (!s->is_closing || s->open_handles || s->has_exchange)
		return;
	pmi_server_release(&s->server);
	free(s->sockets);
	free(s);
}

static void pmi_service_on_socket_closed(uv_handle_t *h)
{
	struct pmi_socket *k = h->data;

	close(k->fd);
	k->fd = -1;
	k->service->open_handles--;
	pmi_service_check_closed(k->service);
}

static void pmi_socket_close(struct pmi_socket *k)
{
	if (k->is_polled)
		uv_close((uv_handle_t *)&k->poll, pmi_service_on_socket_closed);
	k->is_polled = 0;
}

static void pmi_service_on_abort_closed(uv_handle_t *h)
{
	struct pmi_service *s = h->data;

	s->open_handles--;
	pmi_service_check_closed(s);
}

static void pmi_service_on_exchange_closed(struct pmi_exchange *x)
{
	struct pmi_service *s = x->owner;

	s->has_exchange = 0;
	pmi_service_check_closed(s);
}

static void pmi_service_remove_memory(const struct pmi_service *s)
{
	static const char *const kinds[] = {"shm", "vci"};
	char path[PMI_SERVER_PATH_MAX];

	for (int i = 0; i < 2; i++) {
		pmi_server_memory_path(s->server.name,
				       s->server.round.node_rank, kinds[i],
				       path);
		unlink(path);
	}
}

void pmi_service_close(struct pmi_service *s)
{
	if (!s || s->is_closing)
		return;
	s->is_closing = 1;
	pmi_service_remove_memory(s);
	pmi_service_begin(s);
	for (uint32_t i = 0; i < s->server.round.nproc; i++)
		pmi_socket_close(&s->sockets[i]);
	uv_close((uv_handle_t *)&s->abort, pmi_service_on_abort_closed);
	if (s->has_exchange)
		pmi_exchange_close(&s->exchange);
}

/* ---- barriers ---- */

static void pmi_service_flush(struct pmi_service *s);

static void pmi_service_finish(struct pmi_service *s,
			       const struct slice *parts)
{
	struct err e = ERR_INIT;

	if (pmi_server_finish(&s->server, parts, &e) < 0)
		pmi_service_fail(s, &e);
}

static void pmi_service_fail_part(struct pmi_service *s, int rc)
{
	struct err e = ERR_INIT;

	if (rc == -ENOMEM)
		err_no_memory(&e, "the keys of this node's ranks");
	else
		err_set(&e, rc, "the ranks of this node put more than %d bytes "
			"before a barrier", PMI_EXCHANGE_VALUE_MAX);
	pmi_service_fail(s, &e);
}

static void pmi_service_advance(struct pmi_service *s)
{
	while (!s->has_failed && pmi_server_is_ready(&s->server)) {
		struct buf part = BUF_INIT(PMI_EXCHANGE_VALUE_MAX);
		struct slice bytes;
		int rc;

		pmi_server_take(&s->server, &part);
		rc = buf_bytes(&part, &bytes);
		if (rc < 0) {
			pmi_service_fail_part(s, rc);
		} else if (s->has_exchange) {
			pmi_exchange_begin(&s->exchange, bytes);
		} else {
			pmi_service_finish(s, &bytes);
		}
		buf_release(&part);
	}
	pmi_service_flush(s);
}

/* The first exchange tells each node how many workers the others have. */
static void pmi_service_learn_layout(struct pmi_service *s,
				     const struct slice *values)
{
	uint32_t n = s->server.round.nnodes;
	uint32_t *ranks = calloc(n, sizeof(*ranks));
	struct err e = ERR_INIT;
	int rc = ranks ? 0 : err_no_memory(&e, "MPI's map of %u nodes", n);

	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		struct reader r;

		reader_init(&r, values[i]);
		ranks[i] = reader_u32(&r);
		if (r.bad)
			rc = err_set(&e, ERR_PROTOCOL, "node %u's number of "
				     "ranks is malformed", i);
	}
	if (rc == 0)
		pmi_server_set_layout(&s->server, ranks);
	else
		pmi_service_fail(s, &e);
	free(ranks);
}

static void pmi_service_on_exchange_done(struct pmi_exchange *x,
					 const struct slice *values)
{
	struct pmi_service *s = x->owner;

	if (s->server.has_layout)
		pmi_service_finish(s, values);
	else
		pmi_service_learn_layout(s, values);
	pmi_service_advance(s);
}

static void pmi_service_on_exchange_failed(struct pmi_exchange *x,
					   const struct err *why)
{
	pmi_service_fail(x->owner, why);
}

static const struct pmi_exchange_events exchange_events = {
	.on_done = pmi_service_on_exchange_done,
	.on_failed = pmi_service_on_exchange_failed,
	.on_closed = pmi_service_on_exchange_closed,
};

/* ---- sockets ---- */

static void pmi_service_on_ready(uv_poll_t *p, int status, int events);

static void pmi_socket_watch(struct pmi_socket *k, int more)
{
	int rc = uv_poll_start(&k->poll, UV_READABLE | more,
			       pmi_service_on_ready);
	struct err e = ERR_INIT;

	if (rc < 0) {
		err_set(&e, rc, "cannot watch MPI's socket (PMI_FD): %s",
			uv_strerror(rc));
		pmi_service_fail(k->service, &e);
	}
}

/* After an error. A rank that has gone says more by its exit than we could. */
static void pmi_socket_give_up(struct pmi_socket *k, const char *what)
{
	struct err e = ERR_INIT;
	int code = errno;

	err_set(&e, -code, "cannot %s rank %u over MPI's socket (PMI_FD): %s",
		what, k->service->server.round.base_rank + k->local_rank,
		strerror(code));
	if (code != EPIPE && code != ECONNRESET)
		pmi_service_fail(k->service, &e);
	pmi_socket_close(k);
}

static void pmi_socket_flush(struct pmi_socket *k)
{
	struct buf *out = &k->service->server.ranks[k->local_rank].out;
	ssize_t n = 1;

	if (!k->is_polled)
		return;
	while (out->len && (n > 0 || errno == EINTR)) {
		n = send(k->fd, out->data, out->len,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0)
			buf_consume(out, (size_t)n);
	}
	if (out->len && errno != EAGAIN)
		pmi_socket_give_up(k, "answer");
	else
		pmi_socket_watch(k, out->len ? UV_WRITABLE : 0);
}

static void pmi_service_flush(struct pmi_service *s)
{
	struct err e = ERR_INIT;

	for (uint32_t i = 0; i < s->server.round.nproc; i++) {
		if (pmi_server_check(&s->server, i, &e) < 0)
			pmi_service_fail(s, &e);
		if (s->server.ranks[i].out.len)
			pmi_socket_flush(&s->sockets[i]);
	}
}

static void pmi_service_log_spawn(struct pmi_service *s, uint32_t local_rank)
{
	if (!s->server.has_refused_spawn || s->has_logged_spawn)
		return;
	s->has_logged_spawn = 1;
	log_warn("rank %u called MPI_Comm_spawn, which ddprun refuses: start "
		 "all processes at once (--nproc-per-node)",
		 s->server.round.base_rank + local_rank);
}

static void pmi_service_on_abort_over(uv_timer_t *t)
{
	struct pmi_service *s = t->data;

	for (uint32_t i = 0; i < s->server.round.nproc; i++)
		if (s->server.attendance.ranks[i].has_aborted)
			s->events->on_abort_over(s->owner, i);
}

static void pmi_socket_take(struct pmi_socket *k, struct slice bytes)
{
	struct pmi_service *s = k->service;
	struct err e = ERR_INIT;

	if (pmi_server_receive(&s->server, k->local_rank, bytes, &e) < 0) {
		pmi_service_fail(s, &e);
		pmi_socket_close(k);
		return;
	}
	if (s->server.ranks[k->local_rank].attendance->has_aborted &&
	    !uv_is_active((uv_handle_t *)&s->abort))
		uv_timer_start(&s->abort, pmi_service_on_abort_over, ABORT_MS,
			       0);
	pmi_service_log_spawn(s, k->local_rank);
	pmi_service_advance(s);
}

/* 0: there is no more to read for now. */
static int pmi_socket_read(struct pmi_socket *k)
{
	char bytes[READ_BYTES];
	ssize_t n = recv(k->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n > 0)
		pmi_socket_take(k, SLICE(bytes, (size_t)n));
	else if (n == 0)
		pmi_socket_close(k);
	else if (errno != EAGAIN && errno != EINTR)
		pmi_socket_give_up(k, "hear");
	return n > 0 && k->is_polled;
}

static void pmi_service_on_ready(uv_poll_t *p, int status, int events)
{
	struct pmi_socket *k = p->data;

	if (status < 0 || events & UV_READABLE)
		pmi_socket_read(k);
	if (events & UV_WRITABLE)
		pmi_socket_flush(k);
}

/* ---- a round ---- */

static int pmi_socket_open(struct pmi_socket *k, uv_loop_t *loop,
			   struct err *e)
{
	int fds[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return err_set(e, -errno, "cannot create a pair of sockets for "
			       "MPI (PMI_FD): %s", strerror(errno));
	k->fd = fds[0];
	k->child = fds[1];
	rc = uv_poll_init(loop, &k->poll, k->fd);
	if (rc < 0) {
		close(k->fd);
		k->fd = -1;
		return err_set(e, rc, "cannot watch MPI's socket (PMI_FD): %s",
			       uv_strerror(rc));
	}
	k->poll.data = k;
	k->is_polled = 1;
	k->service->open_handles++;
	rc = uv_poll_start(&k->poll, UV_READABLE, pmi_service_on_ready);
	return rc < 0 ? err_set(e, rc, "cannot watch MPI's socket (PMI_FD): %s",
				uv_strerror(rc)) : 0;
}

static int pmi_service_open(struct pmi_service *s, uv_loop_t *loop,
			    struct err *e)
{
	int rc = 0;

	for (uint32_t i = 0; i < s->server.round.nproc; i++) {
		s->sockets[i].service = s;
		s->sockets[i].local_rank = i;
		s->sockets[i].fd = s->sockets[i].child = -1;
	}
	uv_timer_init(loop, &s->abort);
	s->abort.data = s;
	s->open_handles = 1;
	for (uint32_t i = 0; rc == 0 && i < s->server.round.nproc; i++)
		rc = pmi_socket_open(&s->sockets[i], loop, e);
	return rc;
}

/* Each node has to know how many ranks the others have. */
static int pmi_service_begin_layout(struct pmi_service *s, uv_loop_t *loop,
				    const struct pmi_exchange_round *exchange,
				    struct err *e)
{
	const struct pmi_server_round *r = &s->server.round;
	struct buf mine = BUF_INIT(8);
	struct slice bytes;
	int rc;

	if (r->nnodes == 1) {
		pmi_server_set_layout(&s->server, &r->nproc);
		return 0;
	}
	s->exchange.owner = s;
	rc = pmi_exchange_start(&s->exchange, loop, exchange, &exchange_events,
				e);
	if (rc < 0)
		return rc;
	s->has_exchange = 1;
	buf_put_u32(&mine, r->nproc);
	rc = buf_bytes(&mine, &bytes);
	if (rc == 0)
		pmi_exchange_begin(&s->exchange, bytes);
	buf_release(&mine);
	return rc ? err_no_memory(e, "MPI's exchange among nodes") : 0;
}

struct pmi_service *pmi_service_new(uv_loop_t *loop,
				    const struct pmi_server_round *round,
				    const struct pmi_exchange_round *exchange,
				    const struct pmi_service_events *events,
				    void *owner, struct err *e)
{
	struct pmi_service *s = calloc(1, sizeof(*s));
	struct pmi_socket *sockets = calloc(round->nproc, sizeof(*sockets));
	int rc;

	if (!s || !sockets || pmi_server_init(&s->server, round, e) < 0) {
		free(s);
		free(sockets);
		err_no_memory(e, "MPI's start-up for %u workers",
			      round->nproc);
		return NULL;
	}
	s->owner = owner;
	s->events = events;
	s->sockets = sockets;
	s->starting = e;
	rc = pmi_service_open(s, loop, e);
	if (rc == 0)
		rc = pmi_service_begin_layout(s, loop, exchange, e);
	s->starting = NULL;
	if (rc == 0 && !s->has_failed)
		return s;
	pmi_service_close(s);
	return NULL;
}

int pmi_service_fd(const struct pmi_service *s, uint32_t local_rank)
{
	return s->sockets[local_rank].child;
}

void pmi_service_begin(struct pmi_service *s)
{
	for (uint32_t i = 0; i < s->server.round.nproc; i++) {
		if (s->sockets[i].child >= 0)
			close(s->sockets[i].child);
		s->sockets[i].child = -1;
	}
}

void pmi_service_ended(struct pmi_service *s, uint32_t local_rank,
		       int has_failed)
{
	struct pmi_socket *k = &s->sockets[local_rank];

	/* its last lines: an abort, for example */
	while (k->is_polled && pmi_socket_read(k))
		;
	if (has_failed)
		return;
	pmi_server_ended(&s->server, local_rank);
	pmi_service_advance(s);
}

int pmi_service_aborted(const struct pmi_service *s, uint32_t local_rank,
			int *code, char *text, size_t size)
{
	return attendance_aborted(s->server.ranks[local_rank].attendance, code,
				  text, size);
}
