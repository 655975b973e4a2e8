/* test_admission.c: a real server admits clients over real connections: workers
 * at --max-connections, and clients of PyTorch for which two agents vouch.
 * The server runs in a child. */
#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/daemon/daemon.h"
#include "tests/programs/peers/rdzv_raw.h"
#include "tests/unit/run_case.h"

enum { MAX_CONNECTIONS = 3 };

static char where[64];
static pid_t server;

/* A client's side of an accepted connection. */
struct peer {
	int fd;
	struct buf in, out;
	size_t used; /* bytes at the front of in that were handed out */
};

static void serve(int fd)
{
	const struct auth auth = {.methods = WIRE_NO_PROOF};
	struct daemon_options options = {
		.listen_fds = &fd,
		.listeners = 1,
		.auth = &auth,
		.parent_fd = -1,
		.lease_ms = 60000,
		.hello_ms = 60000,
		.silent_ms = 60000,
		.max_jobs = 8,
		.max_keys = 1024,
		.max_connections = MAX_CONNECTIONS,
		.max_bytes = 1 << 20,
		.idle_ms = 60000,
	};
	struct err e = ERR_INIT;
	struct server *s;
	uv_loop_t loop;

	if (uv_loop_init(&loop) || daemon_new(&s, &loop, &options, &e))
		_exit(1);
	daemon_run(s);
	_exit(0);
}

static void set_up(void)
{
	struct err e = ERR_INIT;
	struct sock_addr at;
	int fd;

	setenv("DDP_AUTH", "none", 1);
	ck_assert(sock_addr_number("127.0.0.1", 0, &at));
	fd = sock_listen(&at, &e);
	ck_assert_msg(fd >= 0, "%s", e.text);
	sock_addr_text(&at, where);
	fflush(NULL);
	server = fork();
	if (server == 0)
		serve(fd);
	ck_assert_int_gt(server, 0);
	close(fd);
}

static void tear_down(void)
{
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
}

/* 0, or the code of the refusal. */
static int enter(struct peer *p, uint8_t role, uint32_t rank, uint64_t session)
{
	const struct wire_hello hello = {.role = role,
					 .job = SLICE_STR("j"),
					 .host = SLICE_STR("h"),
					 .rank = rank,
					 .session = session};
	struct buf why = BUF_INIT(1 << 16);
	int rc;

	buf_init(&p->in, 1 << 20);
	buf_init(&p->out, 1 << 20);
	p->used = 0;
	p->fd = raw_connect(where);
	rc = raw_try(p->fd, &hello, &p->in, &why);
	buf_release(&why);
	return rc;
}

static void leave(struct peer *p)
{
	close(p->fd);
	buf_release(&p->in);
	buf_release(&p->out);
}

/* The next frame of that type; skips others. */
static struct wire_frame await_type(struct peer *p, uint8_t type)
{
	struct err e = ERR_INIT;
	struct wire_frame f;
	long n;

	do {
		buf_consume(&p->in, p->used);
		p->used = 0;
		while ((n = wire_cut(SLICE(p->in.data, p->in.len),
				     WIRE_BODY_MAX, &f, &e)) == 0)
			raw_receive(p->fd, &p->in);
		ck_assert_msg(n > 0, "%s", e.text);
		p->used = (size_t)n;
	} while (f.type != type);
	return f;
}

static void join(struct peer *p, const char *id, uint32_t nodes)
{
	struct wire_join m = {.node_id = SLICE_STR(id),
			      .host = SLICE_STR(id),
			      .addr = SLICE_STR("127.0.0.1"),
			      .node_rank = -1,
			      .min_nodes = nodes,
			      .max_nodes = nodes,
			      .nproc = 2,
			      .hosts_server = 1,
			      .agent_store = 1,
			      .role = SLICE_STR("default")};

	ck_assert_int_eq(enter(p, WIRE_AGENT, 0, 0), 0);
	wire_put_join(&p->out, WIRE_JOIN, WIRE_REQUEST, 2, &m);
	raw_send(p->fd, &p->out);
}

START_TEST(worker_that_comes_again_at_the_limit_takes_its_own_place)
{
	struct peer agent, rank0, again, rank1, more;
	char byte;

	join(&agent, "n0", 1);
	await_type(&agent, WIRE_START);
	ck_assert_int_eq(enter(&rank0, WIRE_WORKER, 0, 7), 0);
	ck_assert_int_eq(enter(&rank1, WIRE_WORKER, 1, 8), 0);
	ck_assert_int_eq(enter(&more, WIRE_WORKER, 1, 9), ERR_REFUSED);
	ck_assert_int_eq(enter(&again, WIRE_WORKER, 0, 7), 0);
	ck_assert_int_eq((int)recv(rank0.fd, &byte, 1, 0), 0);
	leave(&agent);
	leave(&rank0);
	leave(&rank1);
	leave(&again);
	leave(&more);
}
END_TEST

static uint32_t await_vouch(struct peer *p)
{
	struct wire_frame f = await_type(p, WIRE_VOUCH);
	struct wire_vouch m;
	struct err e = ERR_INIT;

	ck_assert_uint_eq(f.id, 0); /* a notice has no id */
	ck_assert_int_eq(wire_get_vouch(&f, &m, &e), 0);
	return m.number;
}

static void vouch(struct peer *p, uint32_t number, int yes)
{
	struct wire_vouched m = {.number = number,
				 .yes = (uint8_t)yes,
				 .text = SLICE_STR("it is not ours")};

	wire_put_vouched(&p->out, WIRE_VOUCHED, WIRE_NOTICE, 0, &m);
	raw_send(p->fd, &p->out);
}

/* An agent that has answered no is not counted again. */
START_TEST(an_agent_that_denies_and_leaves_defers_to_the_other)
{
	static const char ping[] = {
		0, (char)0xce, (char)0xf7, (char)0x85, 0x3c, 0x0d, 1, 2, 3, 4};
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct wire_frame f;
	struct wire_start start;
	struct err e = ERR_INIT;
	struct peer a, b;
	uint32_t number;
	char answer[4] = "";
	int fd;

	join(&a, "n0", 2);
	join(&b, "n1", 2);
	f = await_type(&a, WIRE_START);
	ck_assert_int_eq(wire_get_start(&f, &start, &e), 0);
	ck_assert(start.agent_store);
	to.sin_port = htons(start.master_port);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	ck_assert_int_eq((int)send(fd, ping, sizeof(ping), 0),
			 (int)sizeof(ping));
	number = await_vouch(&a);
	ck_assert_uint_eq(await_vouch(&b), number);
	vouch(&a, number, 0);
	leave(&a);
	await_type(&b, WIRE_END); /* the server has noticed that a is gone */
	vouch(&b, number, 1);
	ck_assert_int_eq((int)recv(fd, answer, sizeof(answer), MSG_WAITALL), 4);
	ck_assert_int_eq(memcmp(answer, "\1\2\3\4", 4), 0);
	close(fd);
	leave(&b);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("admission");

	tcase_set_timeout(c, 20);
	tcase_add_checked_fixture(c, set_up, tear_down);
	tcase_add_test(
		c, worker_that_comes_again_at_the_limit_takes_its_own_place);
	tcase_add_test(
		c,
		an_agent_that_denies_and_leaves_defers_to_the_other);
	return run_case(c) != 0;
}
