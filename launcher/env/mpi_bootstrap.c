/* mpi_bootstrap.c: a child speaks to the launcher and reports the result. The
 * first node offers all of its addresses; the second tries them and answers
 * with the first that it can connect to. */
#include "launcher/env/launch_env_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/local_addrs.h"
#include "base/log.h"
#include "base/random.h"
#include "pmi/bootstrap_record.h"
#include "pmi/pmi.h"

enum {
	TRY_MS = 3000,	  /* to connect to one address of the first node */
	OPEN_MS = 60000,  /* to reach the launcher, which is running */
	SPARE_MS = 20000, /* for the child to end after its own deadline */
	TOKEN_BYTES = 16, /* with "mpi-" it fits config.job_text */
};

/* Our request to the child, after its first answer; or we dismiss it. */
struct mpi_request {
	int timeout_ms;
	char place[BOOTSTRAP_TEXT_MAX]; /* the first node's offer */
};

/* The child's two answers: which node this is, and where to meet. */
struct mpi_answer {
	int rc;
	struct err why;
	struct pmix_self self;
	char place[BOOTSTRAP_TEXT_MAX];
};

/* The process of our one session with the launcher. There is only one, because
 * PMIx considers a rank that leaves and comes back as lost. */
struct mpi_child {
	pid_t pid; /* 0: there is none */
	int to, from;
};

/* ---- in the child ---- */

/* The session, by PMI-1 or by PMIx. */
struct mpi_session {
	struct pmi pmi;
	struct pmix *pmix;
	struct pmix_self self;
	int rank, timeout_ms;
	struct err *e;
};

static int mpi_session_open(struct mpi_session *t, const struct mpirun *with,
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

static int mpi_session_share(struct mpi_session *t, const char *key, int from,
			     char *text)
{
	if (t->pmix)
		return pmix_share(t->pmix, key, from, text, BOOTSTRAP_TEXT_MAX,
				  t->timeout_ms, t->e);
	return pmi_share(&t->pmi, key, t->rank == from, text,
			 BOOTSTRAP_TEXT_MAX);
}

static int mpi_session_close(struct mpi_session *t)
{
	if (!t->pmix)
		return pmi_close(&t->pmi);
	pmix_close(t->pmix);
	return 0;
}

static int mpi_bootstrap_can_reach(const struct endpoint *at, struct err *e)
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

/* On the second node: reduces *p to the first offered address that this node
 * can connect to. */
static void mpi_bootstrap_choose(struct bootstrap_record *p)
{
	struct err first = ERR_INIT, e = ERR_INIT;
	char at[SOCK_TEXT_MAX];

	for (int i = 0; i < p->n && !p->why.code; i++) {
		if (mpi_bootstrap_can_reach(&p->at[i], &e) == 0) {
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
		err_set(&p->why, ERR_REMOTE,
			"the second node cannot reach the first at any of its "
			"%d addresses: %.600s; open a port between them, or "
			"give a reachable address with --rdzv-endpoint "
			"HOST:PORT",
			p->n, first.text);
}

static int mpi_bootstrap_agree(struct mpi_session *t,
			       const struct mpi_request *r,
			       struct mpi_answer *a)
{
	struct bootstrap_record p;
	int rc;

	t->timeout_ms = r->timeout_ms;
	t->pmi.deadline = clock_ms() + (uint64_t)r->timeout_ms;
	memcpy(a->place, r->place, sizeof(a->place));
	rc = mpi_session_share(t, "ddprun-place", 0, a->place);
	if (!rc && t->rank == 1) {
		rc = bootstrap_record_get(&p, a->place, &a->why);
		if (!rc) {
			mpi_bootstrap_choose(&p);
			bootstrap_record_put(&p, a->place);
		}
	}
	return rc ? rc : mpi_session_share(t, "ddprun-way", 1, a->place);
}

static void mpi_child_run(const struct mpirun *with, int in, int out)
{
	struct mpi_answer a = {.why = ERR_INIT};
	struct mpi_request r;
	struct mpi_session t;

	a.rc = mpi_session_open(&t, with, OPEN_MS, &a.why);
	a.self = t.self;
	if (file_write_all(out, &a, sizeof(a)) || a.rc)
		_exit(1);
	if (file_read_all(in, &r, sizeof(r)) == 0)
		a.rc = mpi_bootstrap_agree(&t, &r, &a);
	/* after a failure, closing could take as long as all before it */
	if (!a.rc)
		a.rc = mpi_session_close(&t);
	_exit(file_write_all(out, &a, sizeof(a)) < 0);
}

/* ---- around it ---- */

static int mpi_child_start(struct mpi_child *c, const struct mpirun *with,
			   struct err *e)
{
	int to[2] = {-1, -1}, from[2] = {-1, -1}, rc;
	pid_t self = getpid();

	*c = (struct mpi_child){0, -1, -1};
	signal(SIGPIPE, SIG_IGN); /* as the agent does; workers get theirs */
	if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
		goto fail;
	c->pid = fork();
	if (c->pid < 0)
		goto fail;
	if (c->pid == 0) {
		/* the child must not outlive us */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(to[1]);
		if (getppid() == self)
			mpi_child_run(with, to[0], from[1]);
		_exit(1);
	}
	close(to[0]);
	close(from[1]);
	c->to = to[1];
	c->from = from[0];
	return 0;
fail:
	rc = err_set(e, -errno, "cannot start the process that talks to the "
		     "MPI launcher: %s", strerror(errno));
	for (int i = 0; i < 2; i++) {
		if (to[i] >= 0)
			close(to[i]);
		if (from[i] >= 0)
			close(from[i]);
	}
	c->pid = 0;
	return rc;
}

static int mpi_child_wait(int fd, int timeout_ms)
{
	struct pollfd p = {fd, POLLIN, 0};
	uint64_t end = clock_ms() + (uint64_t)timeout_ms, now;
	int n;

	do {
		now = clock_ms();
		n = poll(&p, 1, now < end ? (int)(end - now) : 0);
	} while (n < 0 && errno == EINTR);
	return n;
}

static int mpi_child_read_answer(const struct mpi_child *c, int timeout_ms,
				 struct mpi_answer *a, struct err *e)
{
	memset(a, 0, sizeof(*a));
	if (mpi_child_wait(c->from, timeout_ms) == 0)
		return err_set(e, ERR_TIMEOUT, "the MPI launcher does not "
			       "answer: has it started ddprun on all nodes?");
	if (file_read_all(c->from, a, sizeof(*a)))
		return err_set(
			e, ERR_REMOTE,
			"the helper process that queried the MPI launcher "
			"ended without an answer; give the address where the "
			"nodes meet with --rdzv-endpoint HOST:PORT");
	return a->rc ? err_set(e, a->rc, "%s", a->why.text) : 0;
}

/* Reaps the child. failed: kills it first, since it may never exit. */
static void mpi_child_end(struct mpi_child *c, int failed)
{
	if (!c->pid)
		return;
	close(c->to);
	close(c->from);
	if (failed)
		kill(c->pid, SIGKILL);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
}

static int mpi_child_begin(struct mpi_child *c, const struct mpirun *with,
			   struct mpi_answer *a, struct err *e)
{
	int rc = mpi_child_start(c, with, e);

	if (rc == 0)
		rc = mpi_child_read_answer(c, OPEN_MS + SPARE_MS, a, e);
	if (rc)
		mpi_child_end(c, 1);
	return rc;
}

/* Lives from mpi_bootstrap_ask_pmix to mpi_bootstrap. */
static struct mpi_child asked;

int mpi_bootstrap_ask_pmix(struct pmix_self *self, struct err *e)
{
	const struct mpirun with = {.kind = MPIRUN_PMIX};
	struct mpi_answer a;
	int rc = mpi_child_begin(&asked, &with, &a, e);

	*self = a.self;
	return rc;
}

void mpi_bootstrap_end(void)
{
	mpi_child_end(&asked, 0);
}

/* ---- the first node's offer ---- */

/* Listens at all offered addresses, so that the second node can try each, and
 * at those that a name may resolve to. Skips addresses that are not this host's
 * (behind a NAT): the second node fails to connect to them. */
static int mpi_bootstrap_listen(const struct bootstrap_record *p, int *fds,
				struct err *e)
{
	struct sock_addr at[BOOTSTRAP_PLACES_MAX], a[BOOTSTRAP_PLACES_MAX];
	int n = 0, rc;

	for (int i = 0; i < p->n; i++) {
		int own = local_addrs_of(&p->at[i], a, BOOTSTRAP_PLACES_MAX,
					 NULL);

		for (int k = 0; k < own; k++)
			n = sock_addr_add(at, n, BOOTSTRAP_PLACES_MAX, &a[k]);
	}
	if (!n)
		return 0;
	rc = sock_listen_all(at, n, fds, e);
	return rc < 0 ? rc : n;
}

/* The user gave the address, with port 0. */
static int mpi_bootstrap_offer_given(struct bootstrap_record *p,
				     const struct mpirun *m,
				     const struct endpoint *given,
				     uint16_t port, struct err *e)
{
	char at[SOCK_TEXT_MAX], host[SOCK_HOST_MAX];
	struct sock_addr own[BOOTSTRAP_PLACES_MAX];
	int n = local_addrs_of(given, own, BOOTSTRAP_PLACES_MAX, e);

	if (n < 0)
		return n;
	sock_host_name(host);
	if (!n)
		return err_set(e, ERR_USAGE,
			       "the rendezvous %s has port 0, which means a "
			       "free port of that host, but %s starts the "
			       "first ddprun on %s, which does not have this "
			       "address: give one of its addresses, or a port",
			       endpoint_text(given, at), mpirun_name(m), host);
	p->at[0] = *given;
	p->at[0].port = port;
	p->n = 1;
	return 0;
}

static int mpi_bootstrap_offer(struct bootstrap_record *p,
			       const struct mpirun *m,
			       const struct launch_offer *o, uint16_t port,
			       struct err *e)
{
	char addrs[BOOTSTRAP_PLACES_MAX][SOCK_TEXT_MAX];
	char token[2 * TOKEN_BYTES + 1];
	int rc = random_hex(token, TOKEN_BYTES, e);

	if (rc < 0)
		return rc;
	rc = random_bytes(p->key, sizeof(p->key), e);
	if (rc < 0)
		return rc;
	snprintf(p->job, sizeof(p->job), "mpi-%s", token);
	if (o->at)
		return mpi_bootstrap_offer_given(p, m, o->at, port, e);
	p->n = o->local_addr ? snprintf(addrs[0], sizeof(addrs[0]), "%s",
					o->local_addr) > 0
			     : local_addrs(addrs, BOOTSTRAP_PLACES_MAX);
	for (int i = 0; i < p->n; i++) {
		snprintf(p->at[i].host, SOCK_HOST_MAX, "%.255s", addrs[i]);
		p->at[i].port = port;
	}
	if (!p->n)
		return err_set(
			e, ERR_USAGE,
			"this host has no address but loopback, so the other "
			"nodes cannot reach it; give the address where the "
			"nodes meet with --rdzv-endpoint HOST:PORT");
	return 0;
}

/* Listens. The other nodes learn of an error as well. The reserved port
 * stays ours as long as this process lives. */
static int mpi_bootstrap_make_offer(struct mpi_request *r,
				    const struct mpirun *m,
				    const struct launch_offer *o, int *fds)
{
	struct bootstrap_record p = {.n = 0};
	uint16_t port = o->port;
	int rc = port ? 0 : sock_reserve_port(&port, &p.why);

	if (rc >= 0)
		rc = mpi_bootstrap_offer(&p, m, o, port, &p.why);
	if (rc >= 0)
		rc = mpi_bootstrap_listen(&p, fds, &p.why);
	p.why.code = rc < 0 ? rc : 0;
	bootstrap_record_put(&p, r->place);
	return rc;
}

int mpi_bootstrap(const struct mpirun *m, const struct launch_offer *o,
		  struct bootstrap_record *out, struct err *e)
{
	struct mpi_request r = {.timeout_ms = o->timeout_ms, .place = ""};
	struct mpi_child child = asked;
	struct mpi_answer a;
	int listeners[BOOTSTRAP_PLACES_MAX], n = 0, rc = 0;

	asked.pid = 0;
	if (m->rank == 0)
		n = mpi_bootstrap_make_offer(&r, m, o, listeners);
	if (!child.pid)
		rc = mpi_child_begin(&child, m, &a, e);
	if (rc == 0) {
		rc = file_write_all(child.to, &r, sizeof(r));
		rc = rc ? err_set(e, rc, "cannot talk to the MPI launcher: "
				  "%s", strerror(-rc))
			: mpi_child_read_answer(&child, r.timeout_ms + SPARE_MS,
						&a, e);
		mpi_child_end(&child, rc != 0);
	}
	while (n-- > 0)
		close(listeners[n]);
	if (rc == 0)
		rc = bootstrap_record_get(out, a.place, e);
	if (rc == 0 && out->why.code)
		rc = err_set(e, out->why.code, "%s", out->why.text);
	return rc;
}
