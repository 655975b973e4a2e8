/* server_process.c: starts ddprdzv with our descriptors, and speaks to it
 * through its pipe. */
#include "launcher/membership/server_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include "launcher/worker/spawn.h"
#include "rendezvous/client/server_exec.h"

static void server_process_add_etcd(struct server_exec *x,
				    const struct server_process_options *o)
{
	const struct etcd_options *etcd = o->etcd;

	server_exec_add(x, "--etcd=%s", etcd->members);
	server_exec_add(x, "--etcd-lease=%lld", (long long)o->lease);
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

int server_process_start(struct server_process *s,
			 const struct server_process_options *o, struct err *e)
{
	const struct server_exec_options order = {
		.fds = o->fds,
		.n = o->n,
		.journal_fd = o->journal ? -1 : o->journal_fd,
		.job = o->job,
		.auth = o->auth,
	};
	struct server_exec x;
	pid_t pid;
	int rc = server_exec_init(&x, &order, e);

	if (rc < 0)
		return rc;
	if (o->torch_job)
		server_exec_add(&x, "--torch-job=%s", o->torch_job);
	if (o->journal)
		server_exec_add(&x, "--journal=%s", o->journal);
	if (o->etcd)
		server_process_add_etcd(&x, o);
	rc = server_exec_finish(&x, e);
	pid = rc < 0 ? rc : server_process_spawn(&x, e);
	if (pid > 0) {
		*s = (struct server_process){.pid = pid, .pipe = x.pipe};
		x.pipe = -1;
	}
	server_exec_release(&x);
	return pid < 0 ? (int)pid : 0;
}

int server_process_is_stopped(const struct server_process *s)
{
	siginfo_t how = {.si_pid = 0};

	return s->pid > 0 &&
	       waitid(P_PID, (id_t)s->pid, &how,
		      WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
	       how.si_pid == s->pid;
}

int server_process_send_auth(struct server_process *s, const struct auth *auth,
			     struct err *e)
{
	return s->pipe < 0 ? 0 : server_exec_send_auth(s->pipe, auth, e);
}

void server_process_send_node_gone(struct server_process *s)
{
	const struct auth none = {.methods = 0};
	struct err e = ERR_INIT;

	if (server_process_send_auth(s, &none, &e) < 0)
		server_process_stop(s);
}

void server_process_stop(struct server_process *s)
{
	if (s->pipe >= 0)
		close(s->pipe);
	s->pipe = -1;
}
