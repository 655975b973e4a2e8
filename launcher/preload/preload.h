/* preload.h: --preload: keeps a template process from which this node's workers
 * are forked, decides when a new one is needed, and when workers are started
 * without it, which it logs once with the reason. Knows no rounds. */
#ifndef LAUNCHER_PRELOAD_H
#define LAUNCHER_PRELOAD_H

#include "base/buf.h"
#include "base/loop.h"
#include "launcher/preload/python_command.h"
#include "launcher/worker/spawn.h"

/* ---- template.c ----
 *
 * One template process: a Python interpreter that has imported modules, and
 * forks workers (template.py). It inherits one end of a socketpair; both
 * directions carry messages: a u32 length, then fields that end with a zero
 * byte. Knows no policy.
 *
 *   agent                                   template process
 *                                           importing MODULE, before each
 *                                           ready, or refused WHY
 *   check                                   fresh, or stale FILE
 *   fork AGENT KEEP CPUS AT PATH
 *     n ARGV... m ENVIRON..., with
 *     stdin, stdout, stderr [and KEEP]      forked PID, failed WHY,
 *                                           or refused WHY
 *
 * The worker is this process's child, leads a process group, dies with this
 * process, and has the CPUs and the descriptors of the request. */

enum template_word {
	TEMPLATE_NOTHING, /* no complete message is there */
	TEMPLATE_IMPORTING, TEMPLATE_READY, TEMPLATE_REFUSED, TEMPLATE_FRESH,
	TEMPLATE_STALE, TEMPLATE_FORKED, TEMPLATE_FAILED,
	TEMPLATE_GONE, /* the process has closed its end, or breaks the rules */
};

struct template_reply {
	enum template_word word;
	char text[ERR_TEXT_MAX];
};

struct template {
	pid_t pid;
	int link;   /* our end; non-blocking */
	int output; /* the read end of its stdout and stderr; non-blocking */
	struct buf in;
};

struct template_order {
	const struct python_command *command;
	const char *modules;
	const char *path;   /* the worker's, as in struct spawn */
	char *const *argv;
	char *const *envp;  /* what all workers have in common */
	const struct cpus *cpus;
	uint64_t open_files, locks;
	unsigned long timer_slack; /* as in struct spawn */
};

/* The caller watches link and output, and reaps pid. 0 or -errno; after an
 * error nothing is left. */
int template_start(struct template *t, const struct template_order *o,
		   struct err *e);
/* Kills the process, and closes the descriptors; the caller reaps it. */
void template_stop(struct template *t);

/* Never blocks. */
void template_receive(struct template *t, struct template_reply *reply);
/* Asks whether the imported files are unchanged. 0 or -errno. */
int template_check(struct template *t);

/* Forks a worker as spawn_process would start it; keep[1] and more are not for
 * it. Blocks until it is there, for TEMPLATE_FORK_MS at most; calls waits(arg)
 * in between. Returns its pid; 0 with reply->word REFUSED or FAILED; or -errno:
 * the template process must be stopped. */
enum { TEMPLATE_FORK_MS = 20000 };
pid_t template_fork(struct template *t, const struct python_command *command,
		    const struct spawn *s, void (*waits)(void *arg), void *arg,
		    struct template_reply *reply);

/* ---- preload.c ---- */

enum preload_state {
	PRELOAD_OFF, /* not requested, or refused: there is no fork */
	PRELOAD_IMPORTING,
	PRELOAD_READY,
	PRELOAD_CHECKING, /* whether the imported files are unchanged */
};

struct preload_run;

struct preload {
	void *owner;
	/* after preload_await returned 1: workers can be started now */
	void (*on_settled)(void *owner);
	void (*waits)(void *owner); /* now and then while preload_fork blocks */

	uv_loop_t *loop;
	struct template_order order;
	struct python_command command;
	char **environ; /* order.envp */
	struct cpus cpus; /* order.cpus */
	enum preload_state state;
	int is_awaited, is_closing;
	char importing[128]; /* the module */
	uint64_t started_ms; /* when the imports began */
	uint32_t deaths;     /* template processes that died since
			      * deaths_since */
	uint64_t deaths_since;
	struct preload_run *run; /* the process; NULL: none */
	uv_timer_t timer;    /* to say what workers wait for */
};

/* path and argv are those of a worker (plan.h), envp is any worker's: variables
 * that differ between workers or rounds are left out, unless the launcher's own
 * environment, base, has them. All are borrowed until preload_start has
 * returned, but for path, argv and modules, which must outlive p. */
struct preload_request {
	const char *modules; /* --preload */
	const char *path;
	char *const *argv;
	char *const *envp, *const *base;
	const struct cpus *cpus; /* the only worker's; NULL: as ours */
	uint64_t open_files, locks;
	unsigned long timer_slack; /* as in struct spawn */
};

/* A zeroed preload is off. Starts the template process; if that is
 * impossible, logs why, and p is off. The loop must run for everything else. */
void preload_start(struct preload *p, uv_loop_t *loop,
		   const struct preload_request *r);
/* Logs that workers start without a fork, and why. */
void preload_refuse(struct preload *p, const char *why);
/* Kills the template process. The workers live on. */
void preload_close(struct preload *p);

/* Workers are about to be started. 0: now; 1: on_settled follows. */
int preload_await(struct preload *p);

/* Forks a worker, as template_fork. 0: start it without a fork. */
pid_t preload_fork(struct preload *p, const struct spawn *s);

/* Call it for each child that ended; 1 if it was the template process: another
 * one is started, unless they die too often. */
int preload_reaped(struct preload *p, pid_t pid, int status);
/* The pid of the template process; 0: there is none. */
pid_t preload_pid(const struct preload *p);

#endif
