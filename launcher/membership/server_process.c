/* server_process.c: finds ddprdzv, and starts it with copies of our
 * descriptors. */
#include "launcher/membership/server_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/sock.h"
#include "launcher/plan/program.h"
#include "launcher/worker/spawn.h"

enum {
	PARENT_FD = 3, /* the pipe; the sockets come after it */
	LISTEN_FD,
	WORDS_MAX = 16,
};

/* "/usr/bin/ddprdzv" for "/usr/bin/ddprun"; "" if that is not there. */
static void server_process_find_sibling(char *out, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	out[0] = '\0';
	if (n <= 0)
		return;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return;
	*slash = '\0';
	if (snprintf(out, size, "%s/ddprdzv", self) >= (int)size ||
	    access(out, X_OK) < 0)
		out[0] = '\0';
}

static int server_process_find(struct program *p, struct err *e)
{
	static char name[] = "ddprdzv";
	char path[PATH_MAX];
	char *user = getenv("DDP_SERVER");
	char *words[] = {user, NULL};
	const struct program_how how = {.no_python = 1};
	struct err why;
	int rc;

	if (!user || !*user) {
		server_process_find_sibling(path, sizeof(path));
		words[0] = path[0] ? path : name;
	}
	rc = program_find(p, words, &how, &why);
	if (rc < 0)
		return err_set(
			e, rc, "the rendezvous server: %s%s", why.text,
			rc == -ENOMEM
				? ""
				: "; set DDP_SERVER to the path of ddprdzv");
	p->argv[0] = name;
	return 0;
}

/* Our end of the pipe, and the descriptors for the child. -1: not open. */
struct server_process_ends {
	int ours, theirs;
	int sockets[SOCK_LISTEN_MAX + 1], n; /* the journal is the last */
};

static void server_process_close_ends(const struct server_process_ends *n)
{
	if (n->ours >= 0)
		close(n->ours);
	if (n->theirs >= 0)
		close(n->theirs);
	for (int i = 0; i < n->n; i++)
		close(n->sockets[i]);
}

/* The child gets its descriptors under fixed numbers: the originals must be
 * above these. */
static int server_process_dup_high(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, LISTEN_FD + SOCK_LISTEN_MAX + 1);
}

static int server_process_add_end(struct server_process_ends *n, int fd)
{
	fd = server_process_dup_high(fd);
	if (fd < 0)
		return -errno;
	n->sockets[n->n++] = fd;
	return 0;
}

static int server_process_open_ends(struct server_process_ends *n,
				    const struct server_process_options *o,
				    struct err *e)
{
	int pipe[2], rc = 0;

	*n = (struct server_process_ends){.ours = -1, .theirs = -1};
	if (pipe2(pipe, O_CLOEXEC) < 0) {
		rc = -errno;
	} else {
		n->ours = pipe[1];
		n->theirs = server_process_dup_high(pipe[0]);
		if (n->theirs < 0)
			rc = -errno;
		close(pipe[0]);
	}
	while (rc == 0 && n->n < o->n)
		rc = server_process_add_end(n, o->fds[n->n]);
	if (rc == 0 && o->journal_fd >= 0)
		rc = server_process_add_end(n, o->journal_fd);
	if (rc == 0)
		return 0;
	server_process_close_ends(n);
	return err_set(e, rc,
		       "cannot make a pipe for the rendezvous server: %s",
		       strerror(-rc));
}

/* Adds a word. The text may move: argv points into it only at the end. */
__attribute__((format(printf, 2, 3))) static void server_process_add_word(
	struct buf *b, const char *fmt, ...)
{
	char text[PATH_MAX + 64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	buf_put(b, text, strlen(text) + 1);
}

static void server_process_put_etcd(struct buf *b,
				    const struct server_process_options *o)
{
	const struct etcd_options *etcd = o->etcd;

	server_process_add_word(b, "--etcd=%s", etcd->members);
	server_process_add_word(b, "--etcd-lease=%lld", (long long)o->lease);
	server_process_add_word(b, "--etcd-ttl=%ld", etcd->ttl_s);
	if (etcd->https)
		server_process_add_word(b, "--etcd-https");
	if (etcd->cacert[0])
		server_process_add_word(b, "--etcd-cacert=%s", etcd->cacert);
	if (etcd->cert[0])
		server_process_add_word(b, "--etcd-cert=%s", etcd->cert);
	if (etcd->key[0])
		server_process_add_word(b, "--etcd-key=%s", etcd->key);
}

static void server_process_put_words(struct buf *b, const char *name,
				     const struct server_process_options *o)
{
	server_process_add_word(b, "%s", name);
	server_process_add_word(b, "--listen-fd=%d", LISTEN_FD);
	server_process_add_word(b, "--listen-fds=%d", o->n);
	server_process_add_word(b, "--parent-fd=%d", PARENT_FD);
	server_process_add_word(b, "--auth=parent");
	if (o->job)
		server_process_add_word(b, "--job=%s", o->job);
	if (o->torch_job)
		server_process_add_word(b, "--torch-job=%s", o->torch_job);
	if (o->journal)
		server_process_add_word(b, "--journal=%s", o->journal);
	else if (o->journal_fd >= 0)
		server_process_add_word(b, "--journal-fd=%d", LISTEN_FD + o->n);
	if (o->etcd)
		server_process_put_etcd(b, o);
}

static pid_t server_process_spawn(const struct program *p,
				  const struct server_process_ends *n,
				  const struct server_process_options *o,
				  struct err *e)
{
	extern char **environ;
	char *argv[WORDS_MAX + 1] = {NULL};
	struct buf words = BUF_INIT(4 * PATH_MAX);
	int argc = 0;
	struct spawn order = {
		.path = p->path,
		.argv = argv,
		.envp = environ,
		.in = spawn_no_input(e),
		.out = STDERR_FILENO,
		.err = STDERR_FILENO,
		.keep = {n->theirs, n->sockets[0]},
		.keep_as = PARENT_FD,
		.more = n->sockets + 1,
		.nmore = n->n - 1,
		.survives = 1,
	};
	pid_t pid;

	server_process_put_words(&words, p->argv[0], o);
	for (size_t at = 0; at < words.len && argc < WORDS_MAX; argc++) {
		argv[argc] = words.data + at;
		at += strlen(words.data + at) + 1;
	}
	if (order.in < 0)
		pid = order.in;
	else if (words.failed)
		pid = err_set(e, words.failed,
			      "out of memory for the rendezvous server's "
			      "arguments");
	else
		pid = spawn_process(&order, e);
	if (order.in >= 0)
		close(order.in);
	buf_release(&words);
	return pid;
}

/* Does not block: a pipe holds these few bytes before they are read. */
static int server_process_write_auth(const struct auth *auth, int pipe,
				     struct err *e)
{
	unsigned char bytes[AUTH_BYTES];
	int rc;

	auth_to_bytes(bytes, auth);
	rc = file_write_all(pipe, bytes, sizeof(bytes));
	proof_wipe(bytes, sizeof(bytes));
	return rc < 0 ? err_set(e, rc,
				"cannot pass the secret to the rendezvous "
				"server: %s",
				strerror(-rc))
		      : 0;
}

int server_process_start(struct server_process *s,
			 const struct server_process_options *o, struct err *e)
{
	struct program p;
	struct server_process_ends n;
	pid_t pid;
	int rc = server_process_find(&p, e);

	if (rc < 0)
		return rc;
	rc = server_process_open_ends(&n, o, e);
	if (rc == 0) {
		rc = server_process_write_auth(o->auth, n.ours, e);
		pid = rc < 0 ? rc : server_process_spawn(&p, &n, o, e);
		rc = pid < 0 ? pid : 0;
		if (rc == 0) {
			s->pid = pid;
			s->pipe = n.ours;
			n.ours = -1;
		}
		server_process_close_ends(&n);
	}
	program_release(&p);
	return rc;
}

int server_process_is_stopped(const struct server_process *s)
{
	siginfo_t how = {.si_pid = 0};

	return s->pid > 0 &&
	       waitid(P_PID, (id_t)s->pid, &how,
		      WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
	       how.si_pid == s->pid;
}

int server_process_send_auth(struct server_process *s, const struct auth *auth,
			     struct err *e)
{
	return s->pipe < 0 ? 0 : server_process_write_auth(auth, s->pipe, e);
}

void server_process_send_node_gone(struct server_process *s)
{
	const struct auth none = {.methods = 0};
	struct err e = ERR_INIT;

	if (server_process_send_auth(s, &none, &e) < 0)
		server_process_stop(s);
}

void server_process_stop(struct server_process *s)
{
	if (s->pipe >= 0)
		close(s->pipe);
	s->pipe = -1;
}
