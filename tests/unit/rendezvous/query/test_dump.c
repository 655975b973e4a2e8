/* test_dump.c: the questions of tools to a job's agents, and the replies: a
 * real server on loopback; the agents and tools are here. */
#include <arpa/inet.h>
#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/daemon/daemon.h"
#include "rendezvous/wire.h"
#include "tests/unit/run_case.h"

enum { ANSWER_MS = 30000, SOON_MS = 1 };

struct peer {
	int fd;
	struct buf in, out;
	size_t used; /* bytes of in */
	uint32_t id; /* the last request's */
};

static pid_t server;
static struct sockaddr_in at;

static void serve(int fd, uint32_t guests)
{
	const struct auth auth = {.methods = WIRE_NO_PROOF};
	struct daemon_options options = {.listen_fds = &fd,
					 .listeners = 1,
					 .auth = &auth,
					 .parent_fd = -1,
					 .lease_ms = 60000,
					 .hello_ms = 60000,
					 .max_connections = 64,
					 .max_jobs = 8,
					 .max_keys = 1024,
					 .max_bytes = 1 << 20,
					 .idle_ms = 60000,
					 .guests = guests,
					 .job = guests ? "guests" : NULL};
	struct err e = ERR_INIT;
	struct server *s;
	uv_loop_t loop;

	if (uv_loop_init(&loop) || daemon_new(&s, &loop, &options, &e))
		_exit(1);
	daemon_run(s);
	_exit(0);
}

static void start_server(uint32_t guests)
{
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	at = (struct sockaddr_in){.sin_family = AF_INET,
				  .sin_addr = {htonl(INADDR_LOOPBACK)}};
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, size), 0);
	ck_assert_int_eq(listen(fd, 64), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	fflush(NULL);
	server = fork();
	if (server == 0)
		serve(fd, guests);
	ck_assert_int_gt(server, 0);
	close(fd);
}

static void start(void)
{
	start_server(0);
}

/* The server still runs, whatever it was sent. */
static void stop(void)
{
	ck_assert_int_eq(waitpid(server, NULL, WNOHANG), 0);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
}

/* ---- a peer ---- */

static void send_all(struct peer *p)
{
	size_t sent = 0;

	ck_assert_int_eq(p->out.failed, 0);
	while (sent < p->out.len) {
		ssize_t n = send(p->fd, p->out.data + sent, p->out.len - sent,
				 MSG_NOSIGNAL);

		ck_assert_int_gt(n, 0);
		sent += (size_t)n;
	}
	buf_reset(&p->out);
}

/* The next frame; 0: the server has closed. */
static int next_frame(struct peer *p, struct wire_frame *f)
{
	struct pollfd ready = {p->fd, POLLIN, 0};
	struct err e = ERR_INIT;

	for (;;) {
		long cut = wire_cut(
			SLICE(p->in.data + p->used, p->in.len - p->used),
			WIRE_BODY_MAX, f, &e);
		char *to;
		ssize_t n;

		ck_assert_msg(cut >= 0, "%s", e.text);
		p->used += (size_t)cut;
		if (cut)
			return 1;
		ck_assert_int_eq(poll(&ready, 1, ANSWER_MS), 1);
		to = buf_reserve(&p->in, 65536);
		ck_assert_ptr_nonnull(to);
		n = recv(p->fd, to, 65536, 0);
		if (n <= 0)
			return 0;
		p->in.len += (size_t)n;
	}
}

/* Frames about the job itself. */
static int is_of_job(enum wire_type type)
{
	return type == WIRE_STATE || type == WIRE_START || type == WIRE_END;
}

static struct wire_frame await_frame(struct peer *p, enum wire_type type)
{
	struct wire_frame f;

	do
		ck_assert_msg(next_frame(p, &f), "closed before %s",
			      wire_type_name(type));
	while (is_of_job(f.type) && f.type != type);
	ck_assert_msg(f.type == type, "%s, not %s", wire_type_name(f.type),
		      wire_type_name(type));
	return f;
}

static void wants_error(struct peer *p, int code, const char *part)
{
	struct err e = ERR_INIT;
	struct wire_welcome w;
	struct wire_frame f;
	struct wire_error m;

	do
		ck_assert_msg(next_frame(p, &f), "closed before '%s'", part);
	while (is_of_job(f.type));
	if (f.type == WIRE_HELLO && f.kind == WIRE_REPLY) {
		ck_assert_int_eq(wire_get_welcome(&f, &w, &e), 0);
		m = (struct wire_error){w.code, w.text};
	} else {
		ck_assert_int_eq(f.kind, WIRE_ERROR_REPLY);
		ck_assert_int_eq(wire_get_error(&f, &m, &e), 0);
	}
	ck_assert_int_eq(m.code, code);
	ck_assert_msg(memmem(m.text.data, m.text.len, part, strlen(part)) !=
			      NULL,
		      "'%.*s' has no '%s'", SLICE_FMT(m.text), part);
}

static void hello(struct peer *p, enum wire_role role, const char *job)
{
	static const char nonce[WIRE_NONCE_SIZE];
	struct wire_hello m = {.role = (uint8_t)role,
			       .job = SLICE_STR(job),
			       .host = SLICE_STR("h"),
			       .method = WIRE_NO_PROOF,
			       .nonce = SLICE(nonce, sizeof(nonce))};

	*p = (struct peer){.fd = socket(AF_INET, SOCK_STREAM, 0)};
	buf_init(&p->in, 64 << 20);
	buf_init(&p->out, 64 << 20);
	ck_assert_int_eq(connect(p->fd, (struct sockaddr *)&at, sizeof(at)), 0);
	buf_put(&p->out, wire_preface, WIRE_PREFACE_SIZE);
	wire_put_hello(&p->out, WIRE_HELLO, WIRE_REQUEST, ++p->id, &m);
	send_all(p);
	p->used = WIRE_GREETING_SIZE;
	while (p->in.len < WIRE_GREETING_SIZE) {
		char *to = buf_reserve(&p->in, WIRE_GREETING_SIZE);
		ssize_t n = recv(p->fd, to, WIRE_GREETING_SIZE - p->in.len, 0);

		ck_assert_int_gt(n, 0);
		p->in.len += (size_t)n;
	}
}

static void leave(struct peer *p)
{
	close(p->fd);
	buf_release(&p->in);
	buf_release(&p->out);
}

static void all_leave(struct peer *agents, struct peer *t)
{
	leave(&agents[0]);
	leave(&agents[1]);
	leave(t);
}

static void tool(struct peer *p)
{
	hello(p, WIRE_TOOL, "j");
	await_frame(p, WIRE_HELLO);
}

static void agent(struct peer *p, const char *host, int rank, uint32_t nodes)
{
	struct wire_join m = {.node_id = SLICE_STR(host),
			      .host = SLICE_STR(host),
			      .addr = SLICE_STR("127.0.0.1"),
			      .master_port = 1234,
			      .node_rank = rank,
			      .min_nodes = nodes,
			      .max_nodes = nodes,
			      .nproc = 1,
			      .role = SLICE_STR("default")};

	hello(p, WIRE_AGENT, "j");
	await_frame(p, WIRE_HELLO);
	wire_put_join(&p->out, WIRE_JOIN, WIRE_REQUEST, ++p->id, &m);
	send_all(p);
	await_frame(p, WIRE_JOIN);
}

/* Starts a job of two nodes; each has its rank. */
static void two_agents(struct peer *a)
{
	agent(&a[0], "h0", 0, 2);
	agent(&a[1], "h1", 1, 2);
	await_frame(&a[0], WIRE_START);
	await_frame(&a[1], WIRE_START);
}

static void ask(struct peer *p, uint32_t timeout_ms)
{
	struct wire_dump m = {1, 1, 7, timeout_ms};

	wire_put_dump(&p->out, WIRE_DUMP, WIRE_REQUEST, ++p->id, &m);
	send_all(p);
}

static struct wire_dump_request look(struct peer *p)
{
	struct wire_frame f = await_frame(p, WIRE_DUMP_REQUEST);
	struct err e = ERR_INIT;
	struct wire_dump_request m;

	ck_assert_int_eq(f.kind, WIRE_NOTICE);
	ck_assert_int_eq(wire_get_dump_request(&f, &m, &e), 0);
	return m;
}

static void answer(struct peer *p, uint32_t number, const char *page)
{
	struct buf items = BUF_INIT(4096);
	struct wire_call call = {3, 0, 42, SLICE_STR("barrier")};
	struct wire_dump_reply m = {.number = number,
				    .text = SLICE_STR("cut"),
				    .page = SLICE_STR(page)};

	wire_put_call_item(&items, &call);
	m.calls = (struct wire_items){1, SLICE(items.data, items.len)};
	wire_put_dump_reply(&p->out, WIRE_DUMP_REPLY, WIRE_NOTICE, 0, &m);
	send_all(p);
	buf_release(&items);
}

/* Checks the next node's reply, as `rank ANSWERED text|page`. */
static void wants_node(struct peer *p, const char *want)
{
	struct wire_frame f = await_frame(p, WIRE_NODE);
	struct err e = ERR_INIT;
	struct wire_node_dump m;
	char got[512];

	ck_assert_int_eq(f.kind, WIRE_NOTICE);
	ck_assert_int_eq(wire_get_node_dump(&f, &m, &e), 0);
	snprintf(got, sizeof(got), "%d %.*s %u %.*s|%.*s", m.node_rank,
		 SLICE_FMT(m.host), m.answered, SLICE_FMT(m.text),
		 SLICE_FMT(m.page));
	ck_assert_msg(strncmp(got, want, strlen(want)) == 0, "'%s', not '%s'",
		      got, want);
	ck_assert_uint_eq(m.calls.count, m.answered ? 1 : 0);
	if (m.answered) {
		struct reader r = {m.calls.bytes.data,
				   m.calls.bytes.data + m.calls.bytes.len, 0};
		struct wire_call call = wire_get_call_item(&r);

		ck_assert(!r.bad && call.rank == 3 && call.number == 42);
	}
}

static void wants_end(struct peer *p, uint32_t asked)
{
	struct wire_frame f = await_frame(p, WIRE_DUMP);
	struct err e = ERR_INIT;
	struct wire_asked m;

	ck_assert_int_eq(f.kind, WIRE_REPLY);
	ck_assert_uint_eq(f.id, p->id);
	ck_assert_int_eq(wire_get_asked(&f, &m, &e), 0);
	ck_assert_uint_eq(m.asked, asked);
}

/* ---- tests ---- */

START_TEST(asks_all_agents_and_passes_on_each_page)
{
	struct peer a[2], t, other;
	struct wire_dump_request one, two;

	two_agents(a);
	tool(&t);
	ask(&t, ANSWER_MS);
	one = look(&a[0]);
	two = look(&a[1]);
	ck_assert_uint_eq(one.number, two.number);
	ck_assert(one.json && one.no_stacks && one.last == 7 &&
		  one.timeout_ms == ANSWER_MS);
	answer(&a[1], one.number, "page of h1");
	wants_node(&t, "1 h1 1 cut|page of h1");
	/* a second tool asks meanwhile and gets its own replies */
	tool(&other);
	ask(&other, ANSWER_MS);
	two = look(&a[0]);
	ck_assert_uint_ne(one.number, two.number);
	answer(&a[0], two.number, "for the other");
	wants_node(&other, "0 h0 1 cut|for the other");
	answer(&a[0], one.number, "page of h0");
	wants_node(&t, "0 h0 1 cut|page of h0");
	wants_end(&t, 2);
	answer(&a[1], look(&a[1]).number, "last");
	wants_node(&other, "1 h1 1 cut|last");
	wants_end(&other, 2);
	/* again, on the same connection */
	ask(&t, ANSWER_MS);
	answer(&a[0], look(&a[0]).number, "again");
	wants_node(&t, "0 h0 1 cut|again");
	leave(&other);
	all_leave(a, &t);
}
END_TEST

START_TEST(reports_an_agent_that_never_answers)
{
	struct peer a[2], t;
	uint32_t number;

	two_agents(a);
	tool(&t);
	ask(&t, SOON_MS);
	number = look(&a[0]).number;
	look(&a[1]);
	wants_node(&t, "0 h0 0 |");
	wants_node(&t, "1 h1 0 |");
	wants_end(&t, 2);
	/* a late reply is ignored */
	answer(&a[1], number, "too late");
	ask(&t, ANSWER_MS);
	answer(&a[1], look(&a[1]).number, "the second");
	wants_node(&t, "1 h1 1 cut|the second");
	all_leave(a, &t);
}
END_TEST

START_TEST(reports_how_an_agent_left)
{
	struct peer a[2], t;

	two_agents(a);
	tool(&t);
	ask(&t, ANSWER_MS);
	look(&a[1]);
	leave(&a[1]);
	wants_node(&t, "1 h1 0 its connection closed|");
	look(&a[0]);
	/* garbage: not even a number */
	wire_put_empty(&a[0].out, WIRE_DUMP_REPLY, WIRE_NOTICE, 0);
	send_all(&a[0]);
	wants_node(&t, "0 h0 0 it violated the protocol: ");
	wants_end(&t, 2);
	wants_error(&a[0], ERR_PROTOCOL, "DUMP_REPLY");
	leave(&a[0]);
	leave(&t);
}
END_TEST

START_TEST(ignores_unrequested_pages)
{
	struct peer a[2], t;
	uint32_t number;

	two_agents(a);
	answer(&a[0], 1, "unasked");
	/* the server has read it when it answers this */
	wire_put_empty(&a[0].out, WIRE_PING, WIRE_REQUEST, ++a[0].id);
	send_all(&a[0]);
	await_frame(&a[0], WIRE_PING);
	tool(&t);
	ask(&t, ANSWER_MS);
	number = look(&a[0]).number;
	answer(&a[0], number + 1, "another's");
	answer(&a[0], number, "mine");
	answer(&a[0], number, "mine again");
	wants_node(&t, "0 h0 1 cut|mine");
	answer(&a[1], number, "last");
	wants_node(&t, "1 h1 1 cut|last");
	wants_end(&t, 2);
	all_leave(a, &t);
}
END_TEST

START_TEST(forgets_a_tool_that_left)
{
	struct peer a[2], t;
	uint32_t number;

	two_agents(a);
	tool(&t);
	ask(&t, ANSWER_MS);
	number = look(&a[0]).number;
	leave(&t);
	tool(&t);
	answer(&a[0], number, "for nobody");
	ask(&t, ANSWER_MS);
	answer(&a[0], look(&a[0]).number, "for the second");
	wants_node(&t, "0 h0 1 cut|for the second");
	all_leave(a, &t);
}
END_TEST

START_TEST(refuses_invalid_questions)
{
	struct peer a[2], t, wrong;

	two_agents(a);
	hello(&wrong, WIRE_TOOL, "other");
	wants_error(&wrong, ERR_REFUSED, "there is no job 'other' at ");
	tool(&t);
	ask(&t, 0);
	wants_error(&t, ERR_ARGUMENT, "timeout_ms is 0, not 1 to 600000");
	ask(&t, WIRE_DUMP_MAX_MS + 1);
	wants_error(&t, ERR_ARGUMENT, "timeout_ms is 600001");
	ask(&t, ANSWER_MS);
	ask(&t, ANSWER_MS);
	wants_error(&t, ERR_ARGUMENT, "the previous one is still in progress");
	/* only tools may ask, and only agents reply */
	ask(&a[1], ANSWER_MS);
	look(&a[1]);
	wants_error(&a[1], ERR_PROTOCOL, "DUMP, kind 0, from an agent");
	wants_node(&t, "1 h1 0 it violated the protocol: DUMP");
	answer(&t, 1, "a page");
	wants_error(&t, ERR_PROTOCOL, "DUMP_REPLY, kind 3, from a tool");
	leave(&t);
	tool(&t);
	wire_put_empty(&t.out, WIRE_DUMP, WIRE_REQUEST, 9);
	send_all(&t);
	wants_error(&t, ERR_PROTOCOL, "DUMP");
	leave(&wrong);
	all_leave(a, &t);
}
END_TEST

static void ask_for_lines(struct peer *p, uint32_t lines, uint32_t rank)
{
	struct wire_dump m = {.timeout_ms = ANSWER_MS, .lines = lines,
			      .rank = rank};

	wire_put_dump(&p->out, WIRE_DUMP, WIRE_REQUEST, ++p->id, &m);
	send_all(p);
}

START_TEST(asks_the_agent_of_a_rank_alone_for_its_lines)
{
	struct wire_dump_reply lines = {.out = SLICE_STR("of stdout\n"),
					.err = SLICE_STR("of\nstderr")};
	struct peer a[2], t;
	struct wire_dump_request q;
	struct wire_node_dump m;
	struct wire_frame f;
	struct err e = ERR_INIT;

	two_agents(a);
	tool(&t);
	ask_for_lines(&t, 12, 1);
	q = look(&a[1]);
	ck_assert(q.lines == 12 && q.rank == 1 && q.timeout_ms == ANSWER_MS);
	lines.number = q.number;
	wire_put_dump_reply(&a[1].out, WIRE_DUMP_REPLY, WIRE_NOTICE, 0, &lines);
	send_all(&a[1]);
	f = await_frame(&t, WIRE_NODE);
	ck_assert_int_eq(wire_get_node_dump(&f, &m, &e), 0);
	ck_assert(m.answered && m.node_rank == 1 && !m.page.len);
	ck_assert(slice_is_equal(m.host, SLICE_STR("h1")));
	ck_assert(slice_is_equal(m.out, lines.out));
	ck_assert(slice_is_equal(m.err, lines.err));
	wants_end(&t, 1);
	/* the next question of all agents is the other agent's first */
	ask(&t, SOON_MS);
	ck_assert_uint_eq(look(&a[0]).lines, 0);
	look(&a[1]);
	wants_node(&t, "0 h0 0 |");
	wants_node(&t, "1 h1 0 |");
	wants_end(&t, 2);
	ask_for_lines(&t, 1, 2);
	wants_error(&t, ERR_REFUSED, "no rank 2 of job 'j' runs now");
	ask_for_lines(&t, 1, UINT32_MAX);
	wants_error(&t, ERR_REFUSED, "no rank 4294967295 of job 'j' runs now");
	ask_for_lines(&t, WIRE_DUMP_LINES_MAX + 1, 0);
	wants_error(&t, ERR_ARGUMENT, "lines is 1001, not 0 to 1000");
	all_leave(a, &t);
}
END_TEST

START_TEST(reports_that_guests_have_no_agents)
{
	struct peer t;

	start_server(2);
	hello(&t, WIRE_TOOL, "guests");
	await_frame(&t, WIRE_HELLO);
	ask(&t, 1000);
	wants_error(&t, ERR_REFUSED, "has no agents to ask");
	leave(&t);
	stop();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("dump");
	TCase *tc = tcase_create("dump"), *guests = tcase_create("guests");

	suite_add_tcase(suite, tc);
	suite_add_tcase(suite, guests);
	tcase_set_timeout(tc, 60);
	tcase_set_timeout(guests, 60);
	tcase_add_checked_fixture(tc, start, stop);
	tcase_add_test(tc, asks_all_agents_and_passes_on_each_page);
	tcase_add_test(tc, reports_an_agent_that_never_answers);
	tcase_add_test(tc, reports_how_an_agent_left);
	tcase_add_test(tc, ignores_unrequested_pages);
	tcase_add_test(tc, forgets_a_tool_that_left);
	tcase_add_test(tc, refuses_invalid_questions);
	tcase_add_test(tc, asks_the_agent_of_a_rank_alone_for_its_lines);
	tcase_add_test(guests, reports_that_guests_have_no_agents);
	return run_suite(suite);
}
