/* ssh_command.h: the command line of the ssh that starts a ddprun on a host,
 * the explanation of its failures, and the identity of this build, which the
 * host's ddprun must have. Pure but for the last. */
#ifndef LAUNCHER_SSH_COMMAND_H
#define LAUNCHER_SSH_COMMAND_H

#include <limits.h>

#include "base/buf.h"
#include "base/error.h"
#include "launcher/ssh/remote_frame.h"

struct ssh_options {
	/* "ssh" or "srun"; any other gets none of our options */
	const char *program;
	struct remote_list args; /* --ssh-args, which override our options */
	unsigned timeout_s;      /* to connect */
	const struct build_id *build;
};

/* Whether it takes OpenSSH's options, judged by its name. */
int ssh_command_is_openssh(const char *program);

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

/* ---- the identity of this build ----
 *
 * Identifies this build of ddprun, and reads its files, which are copied to a
 * host without the same build. */

enum { BUILD_ID_MAX = 80 };

struct build_id {
	char id[BUILD_ID_MAX]; /* the linker's, or version and size */
	char machine[66];      /* as uname -m */
	char self[PATH_MAX];
	char server[PATH_MAX]; /* the ddprdzv beside it; "": none */
	unsigned long long self_size, server_size;
};

void build_id_init(struct build_id *b);

/* Appends all of a file to out. -errno; the text names the file. */
int build_id_read(const char *path, struct buf *out, struct err *e);

#endif
