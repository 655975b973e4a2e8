/* pmix_helper.c: reads frames until the agent closes its end. */
#include "launcher/pmix/pmix_helper.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "launcher/output/logdir.h"
#include "launcher/plan/environment.h"
#include "launcher/pmix/pmix_host.h"
#include "pmi/mpirun.h"

enum {
	READ_BYTES = 64 << 10,
	MORE_FILES = 8,
	END_S = 3, /* for the library to end; then SIGALRM ends us */
};

struct pmix_helper {
	struct buf in;
	struct pmix_job job;
	int has_begun;
};

/* The agent ends us, and a signal to all processes of a terminal or a job is
 * for the ranks, which we serve until they have ended. SIGALRM, which ends us,
 * may have been blocked or ignored where ddprun was started. */
static void pmix_helper_set_signals(void)
{
	static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM,
				      SIGPIPE, SIGTSTP, SIGUSR1, SIGUSR2};
	sigset_t ours;

	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&ours);
	sigaddset(&ours, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &ours, NULL);
}

/* By the variables of a launcher around us, the library would take us for one
 * of its ranks. */
static void pmix_helper_clean_environment(void)
{
	extern char **environ;
	char **var = environ;

	while (*var) {
		char name[256];
		size_t n = strcspn(*var, "=");

		if (mpirun_is_rank_variable(*var) && n < sizeof(name)) {
			memcpy(name, *var, n);
			name[n] = '\0';
			unsetenv(name);
			var = environ;
		} else {
			var++;
		}
	}
	/* maps of nodes as text, which versions 3 to 5 read alike */
	setenv("PMIX_MCA_preg", "^compress", 1);
	/* the topology of the host without its X servers, each of which hwloc
	 * would call, without moving to each CPU, and without the libraries of
	 * plugins that add nothing to it: loading them takes a third of this
	 * process's start */
	setenv("HWLOC_COMPONENTS", "-gl,-opencl,-x86", 0);
	setenv("HWLOC_PLUGINS_BLACKLIST", HWLOC_PLUGINS_OF_SCREENS, 0);
}

static void pmix_helper_fail(const struct err *why)
{
	pmix_host_send(HELPER_FAILED, 0, 0, SLICE_STR(why->text));
}

/* libpmix's server accepts a connection of each rank, and makes files of what
 * they put. Without a descriptor for one, it prints that and lets ranks wait
 * for ever. */
static int pmix_helper_check_files(uint32_t nproc, struct err *e)
{
	uint32_t wanted = nproc + MORE_FILES, n = 0;
	int *fds = calloc(wanted, sizeof(*fds)), rc = 0;

	if (!fds)
		return err_no_memory(e, "PMIx for %u ranks", nproc);
	while (rc == 0 && n < wanted) {
		fds[n] = dup(STDIN_FILENO);
		if (fds[n] < 0)
			rc = err_set(e, -errno, "MPI's helper cannot accept "
				     "%u ranks: %s (raise the limit: "
				     "ulimit -n)", nproc, strerror(errno));
		else
			n++;
	}
	while (n)
		close(fds[--n]);
	free(fds);
	return rc;
}

static void pmix_helper_begin(struct pmix_helper *h, struct slice bytes)
{
	struct buf vars = BUF_INIT(PMIX_FRAME_MAX / 2);
	struct err e = ERR_INIT;
	int rc = pmix_job_get(&h->job, bytes, &e);

	if (rc == 0) {
		h->has_begun = 1;
		/* also for the library's own files */
		setenv("TMPDIR", h->job.folder, 1);
		alarm(PMIX_HELPER_BEGIN_S);
		rc = pmix_host_begin(&h->job, &vars, &e);
		alarm(0);
		if (rc == 0)
			rc = pmix_helper_check_files(h->job.nproc, &e);
	}
	if (rc == 0 && vars.failed)
		rc = err_no_memory(&e, "the variables of PMIx");
	if (rc < 0)
		pmix_helper_fail(&e);
	else
		pmix_host_send(HELPER_READY, 0, 0, SLICE(vars.data, vars.len));
	buf_release(&vars);
}

static void pmix_helper_handle(struct pmix_helper *h,
			       const struct pmix_frame *f)
{
	if (f->type != HELPER_BEGIN)
		pmix_host_handle(f);
	else if (!h->has_begun)
		pmix_helper_begin(h, f->data);
}

/* 0, or an error of which the agent has been informed. */
static int pmix_helper_take(struct pmix_helper *h)
{
	struct err e = ERR_INIT;
	size_t at = 0;
	long n;

	do {
		struct pmix_frame f;

		n = pmix_frame_cut(SLICE(h->in.data + at, h->in.len - at), &f,
				   &e);
		if (n > 0)
			pmix_helper_handle(h, &f);
		at += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	buf_consume(&h->in, at);
	if (n < 0)
		pmix_helper_fail(&e);
	return (int)n;
}

/* How many bytes: 0 at the end, or an error of which the agent has been
 * informed. */
static ssize_t pmix_helper_read(struct pmix_helper *h)
{
	struct err e = ERR_INIT;
	char *to = buf_reserve(&h->in, READ_BYTES);
	ssize_t n;

	if (!to) {
		err_no_memory(&e, "a message to MPI's helper");
		pmix_helper_fail(&e);
		return e.code;
	}
	do {
		n = read(STDIN_FILENO, to, READ_BYTES);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		err_set(&e, -errno, "MPI's helper cannot read: %s",
			strerror(errno));
		pmix_helper_fail(&e);
		return e.code;
	}
	h->in.len += (size_t)n;
	return n;
}

static void pmix_helper_run(struct pmix_helper *h)
{
	while (pmix_helper_read(h) > 0 && pmix_helper_take(h) == 0)
		;
}

int pmix_helper_main(int argc, char **argv)
{
	struct pmix_helper h = {.in = BUF_INIT(PMIX_FRAME_MAX + READ_BYTES)};
	struct err e = ERR_INIT;

	prctl(PR_SET_NAME, "ddprun-pmix");
	pmix_helper_set_signals();
	pmix_helper_clean_environment();
	if (pmix_host_load(STDIN_FILENO, &e) < 0)
		pmix_helper_fail(&e);
	else
		pmix_helper_run(&h);
	alarm(END_S);
	pmix_host_end();
	logdir_remove(h.job.folder);
	/* not by exit: the library's thread may still run */
	_exit(0);
}
