/* listening.c: accepts connections, and looks at the first byte of each where
 * two protocols share the port. */
#include "rendezvous/daemon/daemon_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sock.h"
#include "rendezvous/admission/admission.h"
#include "rendezvous/server/hosted_job.h"

/* A connection whose protocol is not known yet. */
struct mute_conn {
	struct server *server;
	uv_poll_t poll;
	uv_timer_t timer; /* fires when it has been silent for too long */
	int fd;           /* -1: passed on */
	int is_ours;      /* speaks our protocol, and waits for a place */
	int handles;      /* that are not closed yet */
	uint64_t came_ms;
	struct mute_conn *next, **pprev; /* the oldest first */
};

static void mute_conn_on_closed(uv_handle_t *h)
{
	struct mute_conn *m = h->data;

	if (--m->handles == 0)
		free(m);
}

/* Before its socket gets another owner: closes all that watches it. Returns the
 * socket. */
static int mute_conn_close(struct mute_conn *m)
{
	struct server *s = m->server;
	int fd = m->fd;

	m->fd = -1;
	*m->pprev = m->next;
	if (m->next)
		m->next->pprev = m->pprev;
	else
		s->mute.end = m->pprev;
	s->mute.count--;
	uv_close((uv_handle_t *)&m->poll, mute_conn_on_closed);
	uv_close((uv_handle_t *)&m->timer, mute_conn_on_closed);
	return fd;
}

static void mute_conn_drop(struct mute_conn *m, const char *why)
{
	struct server *s = m->server;

	log_debug("closed a connection: %s", why);
	close(mute_conn_close(m));
	listening_again(s);
}

static void mute_conn_on_timer(uv_timer_t *t)
{
	mute_conn_drop(t->data, "it sent nothing");
}

/* A client of ours, for which there is room. */
static void mute_conn_admit(struct mute_conn *m)
{
	struct server *s = m->server;
	int fd = mute_conn_close(m);

	if (s->accept(s, fd, 0) != LISTENER_TOOK)
		close(fd);
}

/* Without a running round, closes it: PyTorch's client tries again. */
static void mute_conn_give_to_torch(struct mute_conn *m)
{
	struct server *s = m->server;
	struct hosted_job *h =
		server_find_named_job(s, SLICE_STR(s->torch_job));
	int fd = mute_conn_close(m);

	if (!h || !h->torch || torch_port_take(h->torch, fd) < 0)
		close(fd);
}

static void mute_conn_on_ready(uv_poll_t *poll, int status, int events)
{
	struct mute_conn *m = poll->data;
	struct server *s = m->server;
	char first;
	ssize_t n = recv(m->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	uv_poll_stop(&m->poll);
	if (n <= 0) {
		mute_conn_drop(m, "it ended before it sent anything");
		return;
	}
	m->is_ours = first == (char)wire_preface[0];
	if (!m->is_ours)
		mute_conn_give_to_torch(m);
	listening_again(s);
}

/* Nobody knows which protocol a silent connection will speak: if there are too
 * many, the oldest one is closed. */
static int listening_has_room(struct server *s)
{
	struct mute_conn *oldest = s->mute.first;
	uint64_t now = uv_now(s->loop), ends;

	while (oldest && oldest->is_ours)
		oldest = oldest->next;
	if (s->mute.count < LISTENING_MUTE_MAX)
		return 1;
	if (!oldest)
		return 0;
	ends = oldest->came_ms + ADMISSION_MUTE_MS;
	if (now >= ends) {
		close(mute_conn_close(oldest));
		return 1;
	}
	uv_timer_start(&oldest->timer, mute_conn_on_timer, ends - now, 0);
	return 0;
}

static enum listener_answer listening_await_first_byte(struct server *s, int fd)
{
	struct mute_conn *m;
	int rc;

	if (!listening_has_room(s))
		return LISTENER_WAITS;
	m = calloc(1, sizeof(*m));
	if (!m)
		return LISTENER_NO_MEMORY;
	rc = uv_poll_init(s->loop, &m->poll, fd);
	if (rc < 0) {
		free(m);
		close(fd);
		return LISTENER_TOOK;
	}
	uv_timer_init(s->loop, &m->timer);
	m->poll.data = m->timer.data = m;
	m->server = s;
	m->fd = fd;
	m->handles = 2;
	m->came_ms = uv_now(s->loop);
	if (!s->mute.count)
		s->mute.end = &s->mute.first;
	m->pprev = s->mute.end;
	*m->pprev = m;
	s->mute.end = &m->next;
	s->mute.count++;
	uv_timer_start(&m->timer, mute_conn_on_timer, s->pool.hello_ms, 0);
	if (uv_poll_start(&m->poll, UV_READABLE, mute_conn_on_ready) < 0)
		mute_conn_drop(m, "it cannot be read");
	return LISTENER_TOOK;
}

static enum listener_answer listening_on_connection(struct listener *l, int fd,
						    int scarce)
{
	struct server *s = l->owner;

	if (!s->torch_job)
		return s->accept(s, fd, scarce);
	if (!scarce)
		return listening_await_first_byte(s, fd);
	close(fd); /* PyTorch's protocol cannot say why */
	return LISTENER_TOOK;
}

static struct mute_conn *listening_find_ours(struct server *s)
{
	struct mute_conn *m = s->mute.first;

	while (m && !m->is_ours)
		m = m->next;
	return m;
}

void listening_again(struct server *s)
{
	struct mute_conn *m;

	while ((m = listening_find_ours(s)) && admission_has_room(s))
		mute_conn_admit(m);
	for (int i = 0; i < s->nlisteners && !s->draining; i++)
		listener_again(&s->listeners[i]);
}

static int listening_open_one(struct server *s, int fd, struct err *e)
{
	struct sock_addr a = {.len = sizeof(a.ss)};
	struct listener *l = &s->listeners[s->nlisteners];
	char at[SOCK_TEXT_MAX];
	int rc;

	if (getsockname(fd, (struct sockaddr *)&a.ss, &a.len) < 0)
		return err_set(e, -errno, "--listen-fd %d is not a socket: %s",
			       fd, strerror(errno));
	sock_addr_text(&a, at);
	if (!s->nlisteners) {
		memcpy(s->endpoint, at, sizeof(at));
		s->port = sock_addr_port(&a);
	}
	sock_set_silence_limit(fd, s->pool.silent_ms);
	*l = (struct listener){.owner = s,
			       .whose = "the rendezvous server",
			       .on_connection = listening_on_connection,
			       .tells = 1};
	s->nlisteners++;
	rc = listener_open(l, s->loop, fd);
	if (rc == 0)
		rc = listener_start(l);
	if (rc < 0)
		return err_set(e, rc, "cannot listen on %s: %s", at,
			       uv_strerror(rc));
	return 0;
}

int listening_open(struct server *s, const int *fds, int n, struct err *e)
{
	int rc = 0;

	for (int i = 0; i < n && rc == 0; i++)
		rc = listening_open_one(s, fds[i], e);
	return rc;
}

void listening_close(struct server *s)
{
	for (int i = 0; i < s->nlisteners; i++)
		listener_close(&s->listeners[i]);
	while (s->mute.first)
		close(mute_conn_close(s->mute.first));
}
