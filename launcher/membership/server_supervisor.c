/* server_supervisor.c: when a server that died is started again. */
#include "launcher/membership/server_supervisor.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "launcher/worker/spawn.h"
#include "rendezvous/client/server_exec.h"

/* ---- one ddprdzv as our child ---- */

static pid_t server_process_spawn(const struct server_exec *x, struct err *e)
{
	extern char **environ;
	struct spawn order = {
		.path = x->path,
		.argv = x->argv,
		.envp = environ,
		.in = spawn_no_input(e),
		.out = STDERR_FILENO,
		.err = STDERR_FILENO,
		.keep = {x->fds[0], x->fds[1]},
		.keep_as = SERVER_EXEC_FD,
		.more = x->fds + 2,
		.nmore = x->nfds - 2,
		.survives = 1,
	};
	pid_t pid = order.in;

	if (order.in >= 0) {
		pid = spawn_process(&order, e);
		close(order.in);
	}
	return pid;
}

int server_process_is_stopped(const struct server_process *s)
{
	siginfo_t how = {.si_pid = 0};

	return s->pid > 0 &&
	       waitid(P_PID, (id_t)s->pid, &how,
		      WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
	       how.si_pid == s->pid;
}

static int server_process_send_auth(struct server_process *s,
				    const struct auth *auth, struct err *e)
{
	return s->pipe < 0 ? 0 : server_exec_send_auth(s->pipe, auth, e);
}

static void server_process_stop(struct server_process *s)
{
	if (s->pipe >= 0)
		close(s->pipe);
	s->pipe = -1;
}

static void server_process_send_node_gone(struct server_process *s)
{
	const struct auth none = {.methods = 0};
	struct err e = ERR_INIT;

	if (server_process_send_auth(s, &none, &e) < 0)
		server_process_stop(s);
}

enum { RESTARTS_MS = 60000, REPLACED_STATUS = 75, CUT_OFF_STATUS };

/* A lease's number in etcd is positive. */
#define LEASE_MASK INT64_C(0x3fffffffffffffff)

static void server_supervisor_add_etcd(const struct server_supervisor *s,
				       struct server_exec *x)
{
	const struct etcd_options *etcd = s->etcd;

	server_exec_add(x, "--etcd=%s", etcd->members);
	server_exec_add(x, "--etcd-lease=%lld", (long long)s->lease);
	server_exec_add(x, "--etcd-ttl=%ld", etcd->ttl_s);
	if (etcd->https)
		server_exec_add(x, "--etcd-https");
	if (etcd->cacert[0])
		server_exec_add(x, "--etcd-cacert=%s", etcd->cacert);
	if (etcd->cert[0])
		server_exec_add(x, "--etcd-cert=%s", etcd->cert);
	if (etcd->key[0])
		server_exec_add(x, "--etcd-key=%s", etcd->key);
}

static int server_supervisor_run(struct server_supervisor *s, struct err *e)
{
	const struct server_exec_options order = {
		.fds = s->fds,
		.n = s->n,
		.journal_fd = s->journal_fd,
		.job = s->job,
		.auth = &s->auth,
	};
	struct server_exec x;
	pid_t pid;
	int rc = server_exec_init(&x, &order, e);

	if (rc < 0)
		return rc;
	if (s->torch_job)
		server_exec_add(&x, "--torch-job=%s", s->torch_job);
	if (s->web)
		server_exec_add(&x, "--web=%s", s->web);
	if (s->journal)
		server_exec_add(&x, "--journal=%s", s->journal);
	if (s->etcd)
		server_supervisor_add_etcd(s, &x);
	rc = server_exec_finish(&x, e);
	pid = rc < 0 ? rc : server_process_spawn(&x, e);
	if (pid > 0) {
		s->server = (struct server_process){.pid = pid, .pipe = x.pipe};
		x.pipe = -1;
		if (s->is_node_gone)
			server_process_send_node_gone(&s->server);
	}
	server_exec_release(&x);
	return pid < 0 ? (int)pid : 0;
}

static void server_supervisor_release(struct server_supervisor *s)
{
	while (s->n > 0)
		close(s->fds[--s->n]);
	if (s->journal_fd >= 0)
		close(s->journal_fd);
	s->journal_fd = -1;
	auth_wipe(&s->auth);
}

/* A job runs without a journal as well; with etcd, that is the journal. */
static void server_supervisor_open_journal(
	struct server_supervisor *s, const struct server_supervisor_options *o)
{
	s->journal =
		o->journal && strcmp(o->journal, "none") ? o->journal : NULL;
	if (o->etcd)
		s->journal = NULL;
	else if (!o->journal)
		s->journal_fd = memfd_create("ddprdzv-journal", MFD_CLOEXEC);
	s->has_journal = s->journal || s->journal_fd >= 0 || o->etcd;
}

static int server_supervisor_make_lease(struct server_supervisor *s,
					struct err *e)
{
	int rc = random_bytes(&s->lease, sizeof(s->lease), e);

	s->lease = (s->lease & LEASE_MASK) | 1;
	return rc < 0 ? rc : 0;
}

int server_supervisor_start(struct server_supervisor *s,
			    const struct server_supervisor_options *o,
			    struct auth *client, struct err *e)
{
	struct auth same = *client;
	int rc = auth_for_server(&s->auth, o->etcd ? &same : client, e);

	auth_wipe(&same);
	memcpy(s->fds, o->fds, (size_t)o->n * sizeof(*o->fds));
	s->n = o->n;
	s->job = o->job;
	s->torch_job = o->torch_job;
	s->web = o->web;
	s->etcd = o->etcd;
	server_supervisor_open_journal(s, o);
	if (rc == 0 && o->etcd)
		rc = server_supervisor_make_lease(s, e);
	if (rc == 0)
		rc = server_supervisor_run(s, e);
	if (rc < 0)
		server_supervisor_release(s);
	return rc;
}

void server_supervisor_learn_key(struct server_supervisor *s,
				 const struct proof *key)
{
	struct err e = ERR_INIT;

	if (!(s->auth.methods & WIRE_BY_MUNGE) ||
	    (s->auth.is_key && memcmp(&s->auth.secret, key, sizeof(*key)) == 0))
		return;
	s->auth.secret = *key;
	s->auth.is_key = 1;
	if (server_process_send_auth(&s->server, &s->auth, &e) < 0)
		log_warn("%s", e.text);
}

/* etcd chose another server: this one did not fail. */
static int server_supervisor_was_replaced(const struct server_supervisor *s,
					  int status)
{
	return s->etcd && WIFEXITED(status) &&
	       (WEXITSTATUS(status) == REPLACED_STATUS ||
		WEXITSTATUS(status) == CUT_OFF_STATUS);
}

/* After a crash; a server that exited would exit again. */
static int server_supervisor_may_restart(struct server_supervisor *s,
					 int status)
{
	uint64_t now = clock_ms();
	uint64_t *oldest = &s->restarts_ms[s->restarts % SERVER_RESTARTS_MAX];

	if (server_supervisor_was_replaced(s, status))
		return 1;
	if (!WIFSIGNALED(status) || !s->has_journal ||
	    (s->restarts >= SERVER_RESTARTS_MAX && now - *oldest < RESTARTS_MS))
		return 0;
	*oldest = now;
	s->restarts++;
	return 1;
}

static void server_supervisor_describe_end(pid_t pid, int status, struct err *e)
{
	char name[SIGNAL_NAME_MAX];

	if (WIFSIGNALED(status))
		err_set(e, ERR_REMOTE,
			"the rendezvous server (ddprdzv, pid %d) was killed by "
			"%s",
			(int)pid, signal_name(WTERMSIG(status), name));
	else
		err_set(e, ERR_REMOTE,
			"the rendezvous server (ddprdzv, pid %d) exited with "
			"code %d",
			(int)pid, WEXITSTATUS(status));
}

enum server_end server_supervisor_reaped(struct server_supervisor *s, pid_t pid,
					 int status, struct err *e)
{
	struct err why = ERR_INIT;
	int was_asked = s->server.pipe < 0;

	if (!pid || pid != s->server.pid)
		return SERVER_NOT_OURS;
	s->server.pid = 0;
	server_process_stop(&s->server); /* our end of its pipe */
	if (was_asked)
		return SERVER_ENDED;
	s->cut_off = server_supervisor_was_replaced(s, status) &&
		     WEXITSTATUS(status) == CUT_OFF_STATUS;
	server_supervisor_describe_end(pid, status, e);
	if (server_supervisor_may_restart(s, status)) {
		if (server_supervisor_run(s, &why) == 0) {
			if (server_supervisor_was_replaced(
				    s, status)) /* it has logged that */
				return SERVER_RESTARTED;
			s->again_ms = clock_ms();
			log_warn("%s: restarted it; the job continues",
				 e->text);
			return SERVER_RESTARTED;
		}
		log_warn("cannot restart the rendezvous server: %s", why.text);
	}
	server_supervisor_release(s);
	return SERVER_LOST;
}

void server_supervisor_node_gone(struct server_supervisor *s)
{
	s->is_node_gone = 1;
	server_process_send_node_gone(&s->server);
}

void server_supervisor_stop(struct server_supervisor *s)
{
	server_supervisor_release(s);
	server_process_stop(&s->server);
}
