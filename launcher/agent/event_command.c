/* event_command.c: the processes of --on-event. */
#include "launcher/agent/event_command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sock.h"
#include "launcher/worker/spawn.h"
#include "launcher/worker/sweep.h"

enum { JSON_VERSION = 1, TEXT_MAX = 64 << 10, LOW_FDS = 3 };

void event_commands_init(struct event_commands *c, uv_loop_t *loop,
			 const char *command, const char *job)
{
	*c = (struct event_commands){.command = command, .job = job};
	for (int i = 0; i < EVENT_COMMANDS_MAX; i++) {
		uv_timer_init(loop, &c->runs[i].timer);
		c->runs[i].timer.data = &c->runs[i];
	}
}

static int event_command_put(struct buf *b, const struct event_commands *c,
			     const struct event_command_news *n, struct err *e)
{
	const struct json *j = json_load(e);
	char host[SOCK_HOST_MAX];
	cJSON *o;

	if (!j)
		return ERR_SYSTEM;
	sock_host_name(host);
	o = j->object();
	j->add_number(o, "version", JSON_VERSION);
	j->add_string(o, "event", n->event);
	json_add_text(j, o, "job", SLICE_STR(c->job));
	json_add_text(j, o, "host", SLICE_STR(host));
	j->add_number(o, "time", (double)time(NULL));
	j->add_number(o, "round", n->round);
	j->add_number(o, "attempt", n->attempt);
	if (n->rank >= 0)
		j->add_number(o, "rank", (double)n->rank);
	else
		j->add_null(o, "rank");
	json_add_text(j, o, "text", SLICE_STR(n->text));
	return json_put(b, j, o, e);
}

/* A file that the command reads: nothing waits for a reader. */
static int event_command_open(const struct event_commands *c,
			      const struct event_command_news *n, struct err *e)
{
	struct buf b = BUF_INIT(TEXT_MAX);
	int rc = event_command_put(&b, c, n, e), fd = -1, high;

	if (rc == 0)
		fd = memfd_create("ddprun-event", MFD_CLOEXEC);
	if (rc == 0 && fd < 0)
		rc = err_set(e, -errno, "memfd_create: %s", err_name(-errno));
	if (rc == 0)
		rc = file_write_all(fd, b.data, b.len);
	buf_release(&b);
	if (rc < 0 || lseek(fd, 0, SEEK_SET) < 0) {
		if (fd >= 0)
			close(fd);
		return rc < 0 ? rc : err_set(e, -errno, "lseek");
	}
	high = fcntl(fd, F_DUPFD_CLOEXEC, LOW_FDS);
	close(fd);
	return high < 0 ? err_set(e, -errno, "fcntl: %s", err_name(-errno))
			: high;
}

static pid_t event_command_spawn(const struct event_commands *c, int in,
				 struct err *e)
{
	extern char **environ;
	static char sh[] = "sh", option[] = "-c";
	char *argv[] = {sh, option, (char *)c->command, NULL};
	struct spawn s = {
		.path = "/bin/sh", .argv = argv, .envp = environ, .in = in,
		.keep = {-1, -1},
	};
	pid_t pid;

	s.out = s.err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, LOW_FDS);
	if (s.out < 0)
		return err_set(e, -errno, "fcntl: %s", err_name(-errno));
	pid = spawn_process(&s, e);
	close(s.out);
	return pid;
}

static void event_command_on_late(uv_timer_t *t)
{
	struct event_command_run *r = t->data;

	log_warn("the command of --on-event, for '%s', did not end in time: "
		 "killed (pid %d)", r->event, (int)r->pid);
	r->is_late = 1;
	kill(-r->pid, SIGKILL);
}

static struct event_command_run *event_commands_free(struct event_commands *c)
{
	for (int i = 0; i < EVENT_COMMANDS_MAX; i++) {
		if (!c->runs[i].pid)
			return &c->runs[i];
	}
	return NULL;
}

void event_commands_run(struct event_commands *c,
			const struct event_command_news *n)
{
	struct event_command_run *r = event_commands_free(c);
	struct err e = ERR_INIT;
	pid_t pid;
	int in;

	if (!c->command)
		return;
	if (!r) {
		log_warn("--on-event: '%s' is dropped: %d commands still run",
			 n->event, EVENT_COMMANDS_MAX);
		return;
	}
	in = event_command_open(c, n, &e);
	pid = in < 0 ? in : event_command_spawn(c, in, &e);
	if (in >= 0)
		close(in);
	if (pid < 0) {
		log_warn("--on-event: no command runs for '%s': %s", n->event,
			 e.text);
		return;
	}
	sweep_leave(pid); /* it outlives the workers */
	r->pid = pid;
	r->event = n->event;
	r->is_late = 0;
	uv_timer_start(&r->timer, event_command_on_late, EVENT_COMMAND_MS, 0);
}

int event_commands_reaped(struct event_commands *c, pid_t pid, int status)
{
	for (int i = 0; i < EVENT_COMMANDS_MAX; i++) {
		struct event_command_run *r = &c->runs[i];

		if (r->pid != pid || !pid)
			continue;
		uv_timer_stop(&r->timer);
		sweep_reaped(pid);
		r->pid = 0;
		if (status && !r->is_late)
			log_warn("the command of --on-event, for '%s', %s %d",
				 r->event, WIFSIGNALED(status)
				 ? "was killed by signal" : "exited with code",
				 WIFSIGNALED(status) ? WTERMSIG(status)
						     : WEXITSTATUS(status));
		return 1;
	}
	return 0;
}

void event_commands_end(struct event_commands *c)
{
	for (int i = 0; i < EVENT_COMMANDS_MAX; i++) {
		if (c->runs[i].pid && !c->runs[i].is_late)
			uv_timer_start(&c->runs[i].timer, event_command_on_late,
				       EVENT_COMMAND_END_MS, 0);
	}
}

void event_commands_close(struct event_commands *c)
{
	for (int i = 0; i < EVENT_COMMANDS_MAX; i++)
		uv_close((uv_handle_t *)&c->runs[i].timer, NULL);
}
