/* server_exec.h: how to execute a ddprdzv of one's own: the program's path, its
 * arguments, the descriptors that it inherits, and the pipe that passes it the
 * job's auth. Owns copies of the descriptors, never the caller's. Does not
 * fork: the launcher and libddp, which share this, do that differently. */
#ifndef RENDEZVOUS_SERVER_EXEC_H
#define RENDEZVOUS_SERVER_EXEC_H

#include <limits.h>

#include "base/buf.h"
#include "base/sock.h"
#include "rendezvous/auth/auth.h"

enum {
	SERVER_EXEC_FD = 3, /* the server's first descriptor after stderr */
	SERVER_EXEC_FDS_MAX = SOCK_LISTEN_MAX + 2,
	/* our copies have this number or more */
	SERVER_EXEC_COPIES = SERVER_EXEC_FD + SERVER_EXEC_FDS_MAX + 1,
	SERVER_EXEC_WORDS_MAX = 20,
};

struct server_exec_options {
	const char *library; /* looks beside this file first; may be NULL */
	const int *fds;	     /* n listening sockets */
	int n;
	int journal_fd;	 /* -1: none */
	const char *job; /* it serves no other; NULL: any */
	const struct auth *auth;
};

struct server_exec {
	char path[PATH_MAX];
	struct buf words; /* the arguments, each with its NUL */
	char *argv[SERVER_EXEC_WORDS_MAX + 1];
	int pipe; /* our end: the server exits when it is closed; -1: none */
	/* for the server, which gets them as SERVER_EXEC_FD, + 1, ...: its end
	 * of the pipe, the sockets, and the journal. As server_exec_copy_fd. */
	int fds[SERVER_EXEC_FDS_MAX], nfds;
};

/* Finds the program, copies the descriptors, and writes auth into the pipe. The
 * program is $DDP_SERVER, else the ddprdzv beside the library or beside this
 * program, in ../bin of either, or in $PATH. -ENOENT or -EACCES if there is
 * none; -errno without descriptors. On failure nothing is to be released. */
int server_exec_init(struct server_exec *x, const struct server_exec_options *o,
		     struct err *e);
void server_exec_release(struct server_exec *x); /* closes pipe too, if >= 0 */

/* Adds an argument. Errors are kept for server_exec_finish. */
void server_exec_add(struct server_exec *x, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Makes argv, after the last argument. -ENOMEM, -ENOBUFS. */
int server_exec_finish(struct server_exec *x, struct err *e);

/* A close-on-exec copy of fd from SERVER_EXEC_COPIES on, out of the way of the
 * server's descriptors and of the number after them; -1 with errno. */
int server_exec_copy_fd(int fd);

/* The error of a start that failed: names the program, and returns rc. */
int server_exec_failed(const struct server_exec *x, int rc, struct err *e);

/* Tells a server by its pipe how its clients prove themselves from now on.
 * Never blocks: a pipe holds these few bytes before they are read. */
int server_exec_send_auth(int pipe, const struct auth *auth, struct err *e);

#endif
