/* template.c: the program's text, and both directions of the socket. */
#include "launcher/preload/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

/* Joined here to one program, which is in ddprun itself: containers have it as
 * well. */
__asm__(".pushsection .rodata\n"
	"template_program:\n"
	".incbin \"launcher/preload/find_imports.py\"\n"
	".incbin \"launcher/preload/imports.py\"\n"
	".incbin \"launcher/preload/worker.py\"\n"
	".incbin \"launcher/preload/template.py\"\n"
	"template_program_end:\n"
	".byte 0\n"
	".popsection\n");
extern const char template_program[] __attribute__((visibility("hidden")));
extern const char template_program_end[] __attribute__((visibility("hidden")));

/* The numbers by which template.py knows its descriptors. */
#define LOADER                                                                \
	"exec(compile(__import__('posix').read(4,1<<20),"                     \
	"'<ddprun --preload>','exec'),"                                       \
	"{'__name__':'ddprun_preload'})"

enum {
	LINK_AS = 3, /* then the program, and the first fields */
	SAFE_FD = 10,
	FIELDS_MAX = 64 << 20,
	REPLY_MAX = 64 << 10,
	WAIT_MS = 100,
};

/* ---- fields ---- */

static void template_put(struct buf *b, const char *field)
{
	buf_put(b, field, strlen(field) + 1);
}

static void template_put_number(struct buf *b, long n)
{
	buf_printf(b, "%ld", n);
	buf_put_u8(b, 0);
}

static void template_put_words(struct buf *b, char *const *words)
{
	long n = 0;

	while (words[n])
		n++;
	template_put_number(b, n);
	for (; *words; words++)
		template_put(b, *words);
}

static void template_put_argv(struct buf *b, const struct python_command *c,
			      const char *path, char *const *argv)
{
	int n = 0;

	while (python_command_word(c, path, argv, n))
		n++;
	template_put_number(b, n);
	for (int i = 0; i < n; i++)
		template_put(b, python_command_word(c, path, argv, i));
}

/* ---- the start ---- */

/* A file in memory, at its start, above the numbers that the child uses. */
static int template_make_file(const char *data, size_t size)
{
	int fd = memfd_create("ddprun-preload", MFD_CLOEXEC), high = -1, rc;

	if (fd < 0)
		return -errno;
	rc = file_write_all(fd, data, size);
	if (rc == 0 && lseek(fd, 0, SEEK_SET) < 0)
		rc = -errno;
	if (rc == 0)
		high = fcntl(fd, F_DUPFD_CLOEXEC, SAFE_FD);
	if (rc == 0 && high < 0)
		rc = -errno;
	close(fd);
	return rc < 0 ? rc : high;
}

static int template_make_setup(const struct template_order *o)
{
	struct buf b = BUF_INIT(FIELDS_MAX);
	struct slice bytes;
	int rc;

	template_put_number(&b, getpid());
	template_put(&b, o->command->is_module ? "module" : "script");
	template_put(&b, python_command_word(o->command, o->path, o->argv,
					     o->command->at));
	template_put(&b, o->modules);
	template_put_words(&b, o->envp);
	rc = buf_bytes(&b, &bytes);
	if (rc == 0)
		rc = template_make_file(bytes.data, bytes.len);
	buf_release(&b);
	return rc;
}

static void template_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static pid_t template_spawn(const struct template_order *o,
			    const int files[3], int output, struct err *e)
{
	const struct python_command *c = o->command;
	char *argv[PYTHON_WORDS_MAX + 3];
	struct spawn s = {
		.path = c->path, .argv = argv, .envp = o->envp,
		.in = spawn_no_input(e), .out = output, .err = output,
		.keep = {files[0], files[1]}, .keep_as = LINK_AS,
		.more = &files[2], .nmore = 1, .cpus = o->cpus,
		.open_files = o->open_files, .locks = o->locks,
		.timer_slack = o->timer_slack, .as_started = 1,
	};
	pid_t pid;

	if (s.in < 0)
		return s.in;
	memcpy(argv, c->options, (size_t)c->noptions * sizeof(*argv));
	argv[c->noptions] = (char *)"-c";
	argv[c->noptions + 1] = (char *)LOADER;
	argv[c->noptions + 2] = NULL;
	pid = spawn_process(&s, e);
	close(s.in);
	return pid;
}

/* Makes a pair whose second descriptor is the child's. */
static int template_make_pair(int pair[2], int is_socket)
{
	int rc = is_socket ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
					pair)
			   : pipe2(pair, O_CLOEXEC);
	int high;

	if (rc < 0) {
		pair[0] = pair[1] = -1;
		return -errno;
	}
	high = fcntl(pair[1], F_DUPFD_CLOEXEC, SAFE_FD);
	if (high < 0)
		return -errno;
	close(pair[1]);
	pair[1] = high;
	return fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

int template_start(struct template *t, const struct template_order *o,
		   struct err *e)
{
	int link[2] = {-1, -1}, output[2] = {-1, -1}, files[3] = {-1, -1, -1};
	int rc;

	*t = (struct template){.link = -1, .output = -1,
			       .in = BUF_INIT(REPLY_MAX)};
	rc = template_make_pair(link, 1);
	if (rc == 0)
		rc = template_make_pair(output, 0);
	if (rc == 0)
		rc = files[1] = template_make_file(
			template_program,
			(size_t)(template_program_end - template_program));
	if (rc >= 0)
		rc = files[2] = template_make_setup(o);
	if (rc < 0)
		err_set(e, rc, "no descriptors or memory for the template "
			"process: %s", err_name(rc));
	files[0] = link[1];
	if (rc >= 0)
		rc = t->pid = template_spawn(o, files, output[1], e);
	template_close(&link[1]);
	template_close(&output[1]);
	template_close(&files[1]);
	template_close(&files[2]);
	t->link = link[0];
	t->output = output[0];
	if (rc > 0)
		return 0;
	template_close(&t->link);
	template_close(&t->output);
	return rc;
}

void template_stop(struct template *t)
{
	if (t->pid > 0)
		kill(t->pid, SIGKILL);
	template_close(&t->link);
	template_close(&t->output);
	buf_release(&t->in);
}

/* ---- messages from it ---- */

static enum template_word template_word_of(const char *text)
{
	static const char *const words[] = {
		[TEMPLATE_IMPORTING] = "importing", [TEMPLATE_READY] = "ready",
		[TEMPLATE_REFUSED] = "refused", [TEMPLATE_FRESH] = "fresh",
		[TEMPLATE_STALE] = "stale", [TEMPLATE_FORKED] = "forked",
		[TEMPLATE_FAILED] = "failed",
	};

	for (int i = TEMPLATE_IMPORTING; i < TEMPLATE_GONE; i++) {
		if (strcmp(text, words[i]) == 0)
			return (enum template_word)i;
	}
	return TEMPLATE_GONE;
}

/* 1 if a message is in t->in: takes it. */
static int template_take(struct template *t, struct template_reply *reply)
{
	struct reader r;
	struct slice message;
	const char *end;

	reader_init(&r, SLICE(t->in.data, t->in.len));
	message = reader_slice(&r);
	if (r.bad)
		return 0;
	reply->word = TEMPLATE_GONE;
	end = message.len ? memchr(message.data, '\0', message.len) : NULL;
	if (end && message.data[message.len - 1] == '\0') {
		reply->word = template_word_of(message.data);
		snprintf(reply->text, sizeof(reply->text), "%s",
			 end + 1 < message.data + message.len ? end + 1 : "");
	}
	buf_consume(&t->in, 4 + message.len);
	return 1;
}

void template_receive(struct template *t, struct template_reply *reply)
{
	ssize_t n;

	reply->word = TEMPLATE_NOTHING;
	reply->text[0] = '\0';
	while (!template_take(t, reply)) {
		char *room = buf_reserve(&t->in, 4096);

		n = room ? read(t->link, room, 4096) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			reply->word = TEMPLATE_GONE;
			return;
		}
		t->in.len += (size_t)n;
	}
}

/* ---- messages to it ---- */

struct template_wait {
	uint64_t until_ms;
	void (*waits)(void *arg);
	void *arg;
};

static int template_poll(const struct template *t, short events,
			 const struct template_wait *w)
{
	struct pollfd p = {.fd = t->link, .events = events};

	while (clock_ms() < w->until_ms) {
		int rc = poll(&p, 1, WAIT_MS);

		if (rc > 0)
			return 0;
		if (rc < 0 && errno != EINTR)
			return -errno;
		if (w->waits)
			w->waits(w->arg);
	}
	return -ETIMEDOUT;
}

/* The descriptors travel with the first byte. */
static int template_send(const struct template *t, const struct buf *fields,
			 const int *fds, int nfds,
			 const struct template_wait *w)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control = {.bytes = {0}};
	struct buf b = BUF_INIT(FIELDS_MAX + 4);
	struct slice left;
	int rc;

	buf_put_buf(&b, fields);
	rc = buf_bytes(&b, &left);
	while (rc == 0 && left.len) {
		struct iovec iov = {(void *)left.data, left.len};
		struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
		ssize_t n;

		if (nfds) {
			m.msg_control = &control;
			/* musl's fields are narrower than its macros */
			m.msg_controllen =
				(socklen_t)CMSG_SPACE(nfds * sizeof(int));
			control.header = (struct cmsghdr){
				.cmsg_len =
					(socklen_t)CMSG_LEN(nfds * sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS};
			memcpy(CMSG_DATA(&control.header), fds,
			       nfds * sizeof(int));
		}
		n = sendmsg(t->link, &m, MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN)
			rc = template_poll(t, POLLOUT, w);
		else if (n < 0 && errno != EINTR)
			rc = -errno;
		if (n <= 0)
			continue;
		nfds = 0;
		left = SLICE(left.data + n, left.len - (size_t)n);
	}
	buf_release(&b);
	return rc;
}

int template_check(struct template *t)
{
	const struct template_wait now = {.until_ms = clock_ms() + WAIT_MS};
	struct buf fields = BUF_INIT(64);
	int rc;

	template_put(&fields, "check");
	rc = template_send(t, &fields, NULL, 0, &now);
	buf_release(&fields);
	return rc;
}

static void template_put_worker(struct buf *b, const struct python_command *c,
				const struct spawn *s)
{
	template_put(b, "fork");
	template_put_number(b, getpid());
	template_put_number(b, s->keep[0] >= 0 ? s->keep_as : -1);
	if (s->cpus)
		cpus_put(b, s->cpus);
	buf_put_u8(b, 0);
	template_put_number(b, c->at);
	template_put(b, c->path);
	template_put_argv(b, c, s->path, s->argv);
	template_put_words(b, s->envp);
}

pid_t template_fork(struct template *t, const struct python_command *command,
		    const struct spawn *s, void (*waits)(void *arg), void *arg,
		    struct template_reply *reply)
{
	const struct template_wait w = {clock_ms() + TEMPLATE_FORK_MS, waits,
					arg};
	const int fds[4] = {s->in, s->out, s->err, s->keep[0]};
	struct buf fields = BUF_INIT(FIELDS_MAX);
	long pid = 0;
	int rc;

	template_put_worker(&fields, command, s);
	rc = template_send(t, &fields, fds, s->keep[0] >= 0 ? 4 : 3, &w);
	buf_release(&fields);
	reply->word = TEMPLATE_NOTHING;
	while (rc == 0 && reply->word == TEMPLATE_NOTHING) {
		template_receive(t, reply);
		if (reply->word == TEMPLATE_NOTHING)
			rc = template_poll(t, POLLIN, &w);
	}
	if (rc < 0)
		return rc;
	if (reply->word == TEMPLATE_REFUSED || reply->word == TEMPLATE_FAILED)
		return 0;
	if (reply->word == TEMPLATE_FORKED)
		pid = strtol(reply->text, NULL, 10);
	if (pid <= 1)
		return -EPROTO;
	if (s->pid)
		*s->pid = (pid_t)pid;
	return (pid_t)pid;
}
