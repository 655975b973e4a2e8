/* preload.h: --preload: keeps a template process from which this node's workers
 * are forked, decides when a new one is needed, and when workers are started
 * without it, which it logs once with the reason. Knows no rounds. */
#ifndef LAUNCHER_PRELOAD_H
#define LAUNCHER_PRELOAD_H

#include "base/loop.h"
#include "launcher/preload/template.h"

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
