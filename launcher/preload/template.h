/* template.h: one template process: a Python interpreter that has imported
 * modules, and forks workers (template.py). It inherits one end of a
 * socketpair; both directions carry messages: a u32 length, then fields that
 * end with a zero byte. Knows no policy: preload.h.
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
#ifndef LAUNCHER_TEMPLATE_H
#define LAUNCHER_TEMPLATE_H

#include "base/buf.h"
#include "launcher/preload/python_command.h"
#include "launcher/worker/spawn.h"

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

#endif
