/* test_remote_agent.c: the pipes of a real child that is not ddprun but sh. */
#include <check.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/ssh/proxy_internal.h"
#include "launcher/ssh/remote_frame.h"
#include "tests/unit/run_case.h"

enum { OUT, ERR, PAGE, TEXT_MAX = 256 };

static uv_loop_t loop;
static struct remote_agent agent;
static char text[TEXT_MAX]; /* from its stderr */
static int code, acks;

static void on_text(struct remote_agent *a, uint8_t type, struct slice s)
{
	if (type == REMOTE_ERR)
		snprintf(text + strlen(text), TEXT_MAX - strlen(text), "%.*s",
			 SLICE_FMT(s));
}

static void on_ack(struct remote_agent *a, int is_read)
{
	acks += is_read;
}

static void on_gone(struct remote_agent *a, int its_code)
{
	code = its_code;
}

static const struct remote_agent_events events = {on_text, on_ack, on_gone};

static void begin(const char *script)
{
	static char sh[] = "sh", c[] = "-c";
	char *argv[] = {sh, c, (char *)script, NULL};
	const struct auth none = {.methods = 0};
	struct err e = ERR_INIT;

	agent = (struct remote_agent){.events = &events};
	code = -1;
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_msg(remote_agent_start(&agent, &loop, "/bin/sh", argv, 1,
					 &none, &e) == 0, "%s", e.text);
}

/* Until the condition holds; something is always under way meanwhile. */
#define RUN_UNTIL(condition)                          \
	do {                                          \
		while (!(condition))                  \
			uv_run(&loop, UV_RUN_ONCE);   \
	} while (0)

static void reap(void)
{
	pid_t pid = agent.pid;
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(remote_agent_reaped(&agent, pid, status), 1);
}

static void finish(void)
{
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
}

/* What is logged meanwhile. */
static void pause_and_resume(char *log, size_t size)
{
	int fd = memfd_create("log", MFD_CLOEXEC), stderr_fd = dup(2);
	ssize_t n;

	ck_assert_int_eq(dup2(fd, 2), 2);
	remote_agent_pause(&agent, 1);
	remote_agent_pause(&agent, 0);
	ck_assert_int_eq(dup2(stderr_fd, 2), 2);
	close(stderr_fd);
	n = pread(fd, log, size - 1, 0);
	ck_assert_int_ge(n, 0);
	log[n] = '\0';
	close(fd);
}

START_TEST(a_stream_that_has_ended_is_not_read_again)
{
	char log[TEXT_MAX];

	begin("exec >&- 3>&-; echo ready >&2; read line; echo $line >&2; "
	      "exit 5");
	RUN_UNTIL(agent.outs[OUT].ended && agent.outs[PAGE].ended && text[0]);
	pause_and_resume(log, sizeof(log));
	ck_assert_str_eq(log, "");
	ck_assert(!agent.outs[ERR].ended);
	remote_agent_write(&agent, SLICE_STR("go\n"));
	RUN_UNTIL(acks == 1 && agent.outs[ERR].ended);
	reap();
	finish();
	ck_assert_str_eq(text, "ready\ngo\n");
	ck_assert_int_eq(code, 5);
}
END_TEST

START_TEST(the_end_of_a_paused_agent_waits_for_the_reader)
{
	begin("echo last >&2; exit 3");
	remote_agent_pause(&agent, 1);
	reap();
	while (uv_run(&loop, UV_RUN_NOWAIT) && agent.in_open)
		;
	ck_assert_int_eq(code, -1);
	ck_assert(!uv_is_active((uv_handle_t *)&agent.drain));
	ck_assert_str_eq(text, "");
	remote_agent_pause(&agent, 0);
	ck_assert(uv_is_active((uv_handle_t *)&agent.drain));
	finish();
	ck_assert_str_eq(text, "last\n");
	ck_assert_int_eq(code, 3);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("remote_agent");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, a_stream_that_has_ended_is_not_read_again);
	tcase_add_test(c, the_end_of_a_paused_agent_waits_for_the_reader);
	return run_case(c);
}
