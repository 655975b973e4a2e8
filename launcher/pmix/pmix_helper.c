/* pmix_helper.c: reads frames until the agent closes its end. */
#include "launcher/pmix/pmix_helper.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "launcher/output/logdir.h"
#include "launcher/pmix/pmix_host.h"
#include "pmi/mpirun.h"

enum {
	READ_BYTES = 64 << 10,
	END_S = 3, /* for the library to end; then SIGALRM ends us */
};

struct pmix_helper {
	struct buf in;
	struct pmix_job job;
	int has_begun;
};

/* The agent ends us, and a signal to all processes of a terminal or a job is
 * for the ranks, which we serve until they have ended. */
static void pmix_helper_ignore_signals(void)
{
	static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM,
				      SIGPIPE, SIGTSTP, SIGUSR1, SIGUSR2};

	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
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
	 * would call */
	setenv("HWLOC_COMPONENTS", "-gl,-opencl", 0);
}

static void pmix_helper_fail(const struct err *why)
{
	pmix_host_send(HELPER_FAILED, 0, 0, SLICE_STR(why->text));
}

static void pmix_helper_begin(struct pmix_helper *h, struct slice bytes)
{
	struct buf vars = BUF_INIT(PMIX_FRAME_MAX / 2);
	struct err e = ERR_INIT;
	int rc = pmix_job_get(&h->job, bytes, &e);

	if (rc == 0) {
		h->has_begun = 1;
		rc = pmix_host_begin(&h->job, &vars, &e);
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

/* 1: there may be more. */
static int pmix_helper_take(struct pmix_helper *h)
{
	size_t at = 0;
	long n;

	do {
		struct pmix_frame f;

		n = pmix_frame_cut(SLICE(h->in.data + at, h->in.len - at), &f,
				   NULL);
		if (n > 0)
			pmix_helper_handle(h, &f);
		at += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	buf_consume(&h->in, at);
	return n == 0;
}

static void pmix_helper_run(struct pmix_helper *h)
{
	ssize_t n;

	do {
		char *to = buf_reserve(&h->in, READ_BYTES);

		n = to ? read(STDIN_FILENO, to, READ_BYTES) : 0;
		if (n > 0)
			h->in.len += (size_t)n;
	} while ((n < 0 && errno == EINTR) ||
		 (n > 0 && pmix_helper_take(h)));
}

int pmix_helper_main(void)
{
	struct pmix_helper h = {.in = BUF_INIT(PMIX_FRAME_MAX + READ_BYTES)};
	struct err e = ERR_INIT;

	prctl(PR_SET_NAME, "ddprun-pmix");
	pmix_helper_ignore_signals();
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
