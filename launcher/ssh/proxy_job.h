/* proxy_job.h: prepares a job on the far side of an ssh: sets the environment
 * and the working directory, parses the options, and checks whether it could
 * run. Starts nothing. */
#ifndef LAUNCHER_PROXY_JOB_H
#define LAUNCHER_PROXY_JOB_H

#include "launcher/config/preflight.h"
#include "launcher/ssh/remote_frame.h"

struct proxy_job {
	struct buf texts; /* that argv points into */
	char **argv;      /* ddprun's, with room for two more options */
	int nargs, nwords;
	struct preflight_trial trial; /* with the options of the server */
	struct auth auth; /* methods 0: the head did not choose */
	char host[SOCK_HOST_MAX];
	char nproc[40], endpoint[SOCK_TEXT_MAX + 32];
};

/* Enters the job's environment and directory, then checks all that a run would
 * need. The answer's texts point into h and e. */
void proxy_job_prepare(struct proxy_job *h, const struct remote_job *job,
		       struct remote_ready *answer, struct err *e);

/* The agent's arguments, with the number of workers and the endpoint ("": none)
 * that are decided only now. */
char **proxy_job_argv(struct proxy_job *h, const char *endpoint);
void proxy_job_release(struct proxy_job *h);

/* The address at which the others reach this host: that of the interface
 * towards one of them unless it is loopback, else the address that ssh
 * connected to. */
void proxy_job_address(const struct remote_list *others, struct sock_addr *own);

#endif
