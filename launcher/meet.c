/* meet.c: a child that speaks with the launcher, and what it brings home. The
 * first node offers all of its addresses; the second tries them and says which
 * one is good, since only who connects can know. */
#include "launcher/meet.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/own_addr.h"
#include "base/random.h"
#include "pmi/place.h"
#include "pmi/pmi.h"

enum {
	TRY_MS = 3000,	  /* one address of the first node's */
	SPARE_MS = 20000, /* what the child has after its own deadline */
	TOKEN_BYTES = 16, /* with "mpi-" it fits config.job_text */
};

/* What the child says, in a pipe that takes it at once. */
struct answer {
	int rc;
	struct err why;
	struct pmix_self self;
	char place[PLACE_TEXT_MAX];
};
_Static_assert(sizeof(struct answer) <= 4096, "as much as PIPE_BUF");

struct meeting {
	const struct mpirun *with;
	int timeout_ms;
	struct place offer; /* of the first one's */
};

/* ---- in the child ---- */

/* Through PMI-1 or PMIx, whatever there is. */
struct talk {
	struct pmi pmi;
	struct pmix *pmix;
	struct pmix_self self;
	int rank, timeout_ms;
	struct err *e;
};

static int talk_open(struct talk *t, const struct mpirun *with,
		     int timeout_ms, struct err *e)
{
	memset(t, 0, sizeof(*t));
	t->rank = (int)with->rank;
	t->timeout_ms = timeout_ms;
	t->e = e;
	if (with->kind == MPIRUN_PMI)
		return pmi_open(&t->pmi, with->fd, timeout_ms, e);
	return pmix_open(&t->pmix, &t->self, e);
}

static int talk_share(struct talk *t, const char *key, int from, char *text)
{
	if (t->pmix)
		return pmix_share(t->pmix, key, from, text, PLACE_TEXT_MAX,
				  t->timeout_ms, t->e);
	return pmi_share(&t->pmi, key, t->rank == from, text, PLACE_TEXT_MAX);
}

static int talk_close(struct talk *t)
{
	if (!t->pmix)
		return pmi_close(&t->pmi);
	pmix_close(t->pmix);
	return 0;
}

static int reaches(const struct endpoint *at, struct err *e)
{
	struct sock_addr a;
	int rc = sock_resolve(at, &a, 1, e), fd;

	if (rc < 0)
		return rc;
	fd = sock_connect(&a, TRY_MS, e);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* The second one's word: of what was offered, the first that answers. */
static void choose(struct place *p)
{
	struct err first = ERR_INIT, e = ERR_INIT;
	char at[SOCK_TEXT_MAX];

	for (int i = 0; i < p->n && !p->why.code; i++) {
		if (reaches(&p->at[i], &e) == 0) {
			p->at[0] = p->at[i];
			p->n = 1;
			return;
		}
		log_debug("the first node is not at %s: %s",
			  endpoint_text(&p->at[i], at), e.text);
		if (!first.code)
			first = e;
	}
	if (!p->why.code)
		err_set(&p->why, ERR_REMOTE, "the second node reaches the "
			"first at none of its %d addresses: %.600s; open the "
			"way, or say where they meet with --rdzv-endpoint "
			"HOST:PORT", p->n, first.text);
}

static int speak(const struct meeting *m, struct answer *a)
{
	struct place p = m->offer;
	struct talk t;
	int rc = talk_open(&t, m->with, m->timeout_ms, &a->why);

	a->self = t.self;
	if (rc || !m->timeout_ms)
		return rc ? rc : talk_close(&t);
	place_put(&p, a->place);
	rc = talk_share(&t, "ddprun-place", 0, a->place);
	if (!rc && t.rank == 1) {
		rc = place_get(&p, a->place, &a->why);
		choose(&p);
		place_put(&p, a->place);
	}
	if (!rc)
		rc = talk_share(&t, "ddprun-way", 1, a->place);
	return rc ? rc : talk_close(&t);
}

static void run_child(const struct meeting *m, int fd)
{
	struct answer a = {.why = ERR_INIT};

	a.rc = speak(m, &a);
	file_write_all(fd, &a, sizeof(a));
	_exit(0);
}

/* ---- around it ---- */

/* 0, or the child is late or dead. */
static int hear(int fd, int timeout_ms, struct answer *a, struct err *e)
{
	struct pollfd p = {fd, POLLIN, 0};
	uint64_t end = clock_ms() + (uint64_t)timeout_ms, now;
	int n, rc;

	do {
		now = clock_ms();
		n = poll(&p, 1, now < end ? (int)(end - now) : 0);
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		return err_set(e, ERR_TIMEOUT, "the MPI launcher does not "
			       "answer: has it started ddprun on all nodes?");
	rc = file_read_all(fd, a, sizeof(*a));
	return rc ? err_set(e, ERR_REMOTE, "what spoke with the MPI launcher "
			    "ended without an answer; say where the nodes "
			    "meet, with --rdzv-endpoint HOST:PORT")
		  : 0;
}

static int in_child(const struct meeting *m, struct answer *a, struct err *e)
{
	int ends[2], rc;
	pid_t pid, self = getpid();

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(e, -errno, "cannot make a pipe: %s",
			       strerror(errno));
	pid = fork();
	if (pid == 0) {
		/* no one's leftover */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == self)
			run_child(m, ends[1]);
		_exit(1);
	}
	rc = pid < 0 ? err_set(e, -errno, "cannot fork: %s", strerror(errno))
		     : 0;
	close(ends[1]);
	if (rc == 0)
		rc = hear(ends[0], m->timeout_ms + SPARE_MS, a, e);
	close(ends[0]);
	if (pid > 0) {
		if (rc)
			kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (rc == 0 && a->rc)
		return err_set(e, a->rc, "%s", a->why.text);
	return rc;
}

int meet_ask_pmix(struct pmix_self *self, struct err *e)
{
	const struct mpirun with = {.kind = MPIRUN_PMIX};
	const struct meeting m = {.with = &with};
	struct answer a;
	int rc = in_child(&m, &a, e);

	*self = a.self;
	return rc;
}

/* ---- the first node's offer ---- */

/* On all addresses, so that the second may try each. IPv6's wildcard takes
 * IPv4, too, where a host has it. */
static int listen_everywhere(uint16_t port, struct err *e)
{
	struct sock_addr a = {.len = sizeof(struct sockaddr_in6)};
	int fd;

	a.ss.ss_family = AF_INET6;
	sock_addr_set_port(&a, port);
	fd = sock_listen(&a, NULL);
	if (fd >= 0)
		return fd;
	a = (struct sock_addr){.len = sizeof(struct sockaddr_in)};
	a.ss.ss_family = AF_INET;
	sock_addr_set_port(&a, port);
	return sock_listen(&a, e);
}

static int offer(struct meeting *m, const struct config *c, uint16_t port,
		 struct err *e)
{
	char addrs[PLACES_MAX][SOCK_TEXT_MAX], token[2 * TOKEN_BYTES + 1];
	struct place *p = &m->offer;
	int rc = random_hex(token, TOKEN_BYTES, e);

	if (rc < 0)
		return rc;
	snprintf(p->job, sizeof(p->job), "mpi-%s", token);
	p->n = c->local_addr_given
		       ? snprintf(addrs[0], sizeof(addrs[0]), "%s",
				  c->local_addr) > 0
		       : own_addrs(addrs, PLACES_MAX);
	for (int i = 0; i < p->n; i++) {
		snprintf(p->at[i].host, SOCK_HOST_MAX, "%.255s", addrs[i]);
		p->at[i].port = port;
	}
	if (!p->n)
		return err_set(e, ERR_USAGE, "this host has no address but "
			       "loopback, so the other nodes cannot reach it; "
			       "say where they meet with --rdzv-endpoint "
			       "HOST:PORT");
	return 0;
}

/* The reserved port stays ours as long as this process lives. */
static int prepare(struct meeting *m, const struct config *c, struct err *e)
{
	uint16_t port = (uint16_t)c->master_port;
	int rc = c->master_port_given ? 0 : sock_reserve_port(&port, e), fd;

	if (rc >= 0)
		rc = offer(m, c, port, e);
	if (rc < 0)
		return rc;
	fd = listen_everywhere(port, e);
	return fd;
}

static int take(struct config *c, const struct answer *a, struct err *e)
{
	struct place p;
	int rc = place_get(&p, a->place, e);

	if (rc)
		return rc;
	if (p.why.code)
		return err_set(e, p.why.code, "%s", p.why.text);
	c->endpoint = p.at[0];
	c->is_host = c->mpirun.rank == 0;
	if (!c->job_given) {
		snprintf(c->job_text, sizeof(c->job_text), "%.39s", p.job);
		c->job = c->job_text;
	}
	return 0;
}

int meet(struct config *c, struct err *e)
{
	struct meeting m = {.with = &c->mpirun,
			    .timeout_ms = c->rdzv_timeout_s > 2e6
						  ? 2000000000
						  : (int)(c->rdzv_timeout_s *
							  1000) + 1};
	struct answer a = {.rc = 0};
	int listener = -1, rc;

	if (c->mpirun.rank == 0) {
		listener = prepare(&m, c, &m.offer.why);
		if (listener < 0)
			m.offer.why.code = listener;
	}
	rc = in_child(&m, &a, e);
	if (listener >= 0)
		close(listener);
	return rc ? rc : take(c, &a, e);
}
