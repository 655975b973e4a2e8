/* ssh_command.h: the command line of the ssh that starts a ddprun on a host,
 * and the explanation of its failures. Pure. */
#ifndef LAUNCHER_SSH_COMMAND_H
#define LAUNCHER_SSH_COMMAND_H

#include "launcher/ssh/build_id.h"
#include "launcher/ssh/remote_frame.h"

struct ssh_options {
	const char *program;     /* "ssh"; any other gets no option of ours */
	struct remote_list args; /* --ssh-args, which override our options */
	unsigned timeout_s;      /* to connect */
	const struct build_id *build;
};

struct ssh_command {
	char **argv;
	struct buf texts;
};

/* -ENOMEM. host: [user@]name. */
int ssh_command_init(struct ssh_command *c, const struct ssh_options *how,
		     const char *host, struct err *e);
void ssh_command_release(struct ssh_command *c);

/* How a connection ended. */
struct ssh_end {
	const char *program;
	int status;          /* wait(2)'s */
	int opened;          /* ddprun ran there */
	double timeout_s;    /* we killed it after that time; 0: we did not */
	struct slice lines;  /* the end of its stderr */
};

/* Sets e to why it ended and what to do; returns ERR_REMOTE. The caller adds
 * the host's name. */
int ssh_command_explain(const struct ssh_end *end, struct err *e);

#endif
