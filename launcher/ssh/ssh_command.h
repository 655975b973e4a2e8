/* ssh_command.h: the ssh that starts a ddprun on a host, and what ssh means
 * when it fails. Pure. */
#ifndef LAUNCHER_SSH_COMMAND_H
#define LAUNCHER_SSH_COMMAND_H

#include "launcher/ssh/build_id.h"
#include "launcher/ssh/remote_frame.h"

/* Which ssh, and how. */
struct ssh_how {
	const char *program;     /* "ssh"; another is called like it, but gets
				  * no option of ours */
	struct remote_list args; /* --ssh-args, before ours, which give way */
	unsigned timeout_s;      /* for its connection */
	const struct build_id *build;
};

struct ssh_command {
	char **argv;
	struct buf texts;
};

/* -ENOMEM. host: [user@]name. */
int ssh_command_init(struct ssh_command *c, const struct ssh_how *how,
		     const char *host, struct err *e);
void ssh_command_release(struct ssh_command *c);

/* How a connection came to its end, to say why and what to do. */
struct ssh_end {
	const char *program;
	int status;          /* as of wait(2) */
	int opened;          /* ddprun ran there */
	double timeout_s;    /* it was killed after that long; 0: it was not */
	struct slice words;  /* the last of its stderr, not all of them */
};

/* Always ERR_REMOTE; the host's name is the caller's to add. */
int ssh_command_explain(const struct ssh_end *end, struct err *e);

#endif
