/* keeper.c: starting a server, and starting it again. */
#include "launcher/keeper.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/signal_name.h"

enum { RESTARTS_MS = 60000 };

static int start(struct keeper *h, struct err *e)
{
	const struct daemon_order order = {
		.fds = h->fds, .n = h->n, .journal_fd = h->journal_fd,
		.journal = h->journal, .job = h->job, .auth = &h->auth,
	};

	return daemon_start(&h->server, &order, e);
}

static void let_go(struct keeper *h)
{
	while (h->n > 0)
		close(h->fds[--h->n]);
	if (h->journal_fd >= 0)
		close(h->journal_fd);
	h->journal_fd = -1;
	auth_wipe(&h->auth);
}

int keeper_start(struct keeper *h, const int *fds, int n, const char *job,
		  const char *journal, struct auth *client, struct err *e)
{
	int rc = auth_for_server(&h->auth, client, e);

	memcpy(h->fds, fds, (size_t)n * sizeof(*fds));
	h->n = n;
	h->job = job;
	h->journal = journal && strcmp(journal, "none") ? journal : NULL;
	if (!journal) /* without it the job can do, too */
		h->journal_fd = memfd_create("ddprdzv-journal", MFD_CLOEXEC);
	h->keeps = h->journal || h->journal_fd >= 0;
	if (rc == 0)
		rc = start(h, e);
	if (rc < 0)
		let_go(h);
	return rc;
}

/* A crash; one that ended by itself would do so again. */
static int may_start_again(struct keeper *h, int status)
{
	uint64_t now = clock_ms();
	uint64_t *oldest = &h->restarts_ms[h->restarts % KEEPER_RESTARTS];

	if (!WIFSIGNALED(status) || !h->keeps ||
	    (h->restarts >= KEEPER_RESTARTS && now - *oldest < RESTARTS_MS))
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
			"%s", (int)pid, signal_name(WTERMSIG(status), name));
	else
		err_set(e, ERR_REMOTE,
			"the rendezvous server (ddprdzv, pid %d) exited with "
			"code %d", (int)pid, WEXITSTATUS(status));
}

enum keeper_end keeper_reaped(struct keeper *h, pid_t pid, int status,
				struct err *e)
{
	struct err why = ERR_INIT;
	int was_told = h->server.pipe < 0;

	if (!pid || pid != h->server.pid)
		return KEEPER_NOT_OURS;
	h->server.pid = 0;
	daemon_dismiss(&h->server); /* our end of its pipe */
	if (was_told)
		return KEEPER_AS_TOLD;
	say_how(pid, status, e);
	if (may_start_again(h, status)) {
		if (start(h, &why) == 0) {
			log_warn("%s: started again, the job goes on",
				 e->text);
			return KEEPER_AGAIN;
		}
		log_warn("it cannot be started again: %s", why.text);
	}
	let_go(h);
	return KEEPER_OVER;
}

void keeper_dismiss(struct keeper *h)
{
	let_go(h);
	daemon_dismiss(&h->server);
}
