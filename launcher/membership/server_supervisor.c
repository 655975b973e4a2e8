/* server_supervisor.c: starting a server, and starting it again. */
#include "launcher/membership/server_supervisor.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/signal_name.h"

enum { RESTARTS_MS = 60000, REPLACED_STATUS = 75, CUT_OFF_STATUS };

/* etcd's leases are positive, and 0 is none. */
#define LEASE_MASK INT64_C(0x3fffffffffffffff)

static int start(struct server_supervisor *h, struct err *e)
{
	const struct server_process_options order = {
		.fds = h->fds,
		.n = h->n,
		.journal_fd = h->journal_fd,
		.journal = h->journal,
		.job = h->job,
		.auth = &h->auth,
		.etcd = h->etcd,
		.lease = h->lease,
	};

	int rc = server_process_start(&h->server, &order, e);

	if (rc == 0 && h->node_gone)
		server_process_send_node_gone(&h->server);
	return rc;
}

static void let_go(struct server_supervisor *h)
{
	while (h->n > 0)
		close(h->fds[--h->n]);
	if (h->journal_fd >= 0)
		close(h->journal_fd);
	h->journal_fd = -1;
	auth_wipe(&h->auth);
}

/* Without one the job can do, too; and etcd has another. */
static void open_journal(struct server_supervisor *h,
			 const struct server_supervisor_options *o)
{
	h->journal =
		o->journal && strcmp(o->journal, "none") ? o->journal : NULL;
	if (o->etcd)
		h->journal = NULL;
	else if (!o->journal)
		h->journal_fd = memfd_create("ddprdzv-journal", MFD_CLOEXEC);
	h->keeps = h->journal || h->journal_fd >= 0 || o->etcd;
}

static int make_lease(struct server_supervisor *h, struct err *e)
{
	int rc = random_bytes(&h->lease, sizeof(h->lease), e);

	h->lease = (h->lease & LEASE_MASK) | 1;
	return rc < 0 ? rc : 0;
}

int server_supervisor_start(struct server_supervisor *h,
			    const struct server_supervisor_options *o,
			    struct auth *client, struct err *e)
{
	struct auth same = *client;
	int rc = auth_for_server(&h->auth, o->etcd ? &same : client, e);

	auth_wipe(&same);
	memcpy(h->fds, o->fds, (size_t)o->n * sizeof(*o->fds));
	h->n = o->n;
	h->job = o->job;
	h->etcd = o->etcd;
	open_journal(h, o);
	if (rc == 0 && o->etcd)
		rc = make_lease(h, e);
	if (rc == 0)
		rc = start(h, e);
	if (rc < 0)
		let_go(h);
	return rc;
}

void server_supervisor_learn_key(struct server_supervisor *h,
				 const struct proof *key)
{
	struct err e = ERR_INIT;

	if (!(h->auth.methods & WIRE_BY_MUNGE) ||
	    (h->auth.is_key && memcmp(&h->auth.secret, key, sizeof(*key)) == 0))
		return;
	h->auth.secret = *key;
	h->auth.is_key = 1;
	if (server_process_send_auth(&h->server, &h->auth, &e) < 0)
		log_warn("%s", e.text);
}

/* Another one is the job's server: that was no failure of its own. */
static int was_replaced(const struct server_supervisor *h, int status)
{
	return h->etcd && WIFEXITED(status) &&
	       (WEXITSTATUS(status) == REPLACED_STATUS ||
		WEXITSTATUS(status) == CUT_OFF_STATUS);
}

/* A crash; one that ended by itself would do so again. */
static int may_start_again(struct server_supervisor *h, int status)
{
	uint64_t now = clock_ms();
	uint64_t *oldest = &h->restarts_ms[h->restarts % SERVER_RESTARTS_MAX];

	if (was_replaced(h, status))
		return 1;
	if (!WIFSIGNALED(status) || !h->keeps ||
	    (h->restarts >= SERVER_RESTARTS_MAX && now - *oldest < RESTARTS_MS))
		return 0;
	*oldest = now;
	h->restarts++;
	return 1;
}

static void say_how(pid_t pid, int status, struct err *e)
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

enum server_end server_supervisor_reaped(struct server_supervisor *h, pid_t pid,
					 int status, struct err *e)
{
	struct err why = ERR_INIT;
	int was_told = h->server.pipe < 0;

	if (!pid || pid != h->server.pid)
		return SERVER_NOT_OURS;
	h->server.pid = 0;
	server_process_stop(&h->server); /* our end of its pipe */
	if (was_told)
		return SERVER_ENDED;
	h->cut_off = was_replaced(h, status) &&
		     WEXITSTATUS(status) == CUT_OFF_STATUS;
	say_how(pid, status, e);
	if (may_start_again(h, status)) {
		if (start(h, &why) == 0) {
			if (was_replaced(h, status)) /* it has said so */
				return SERVER_RESTARTED;
			h->again_ms = clock_ms();
			log_warn("%s: started again, the job goes on", e->text);
			return SERVER_RESTARTED;
		}
		log_warn("it cannot be started again: %s", why.text);
	}
	let_go(h);
	return SERVER_LOST;
}

void server_supervisor_node_gone(struct server_supervisor *h)
{
	h->node_gone = 1;
	server_process_send_node_gone(&h->server);
}

void server_supervisor_stop(struct server_supervisor *h)
{
	let_go(h);
	server_process_stop(&h->server);
}
