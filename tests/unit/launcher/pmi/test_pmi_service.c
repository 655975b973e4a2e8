/* test_pmi_service.c: PMI-1 over real sockets, for two ranks whose other nodes
 * are the test: it replaces the exchange. */
/* replaces: pmi_exchange_start pmi_exchange_begin pmi_exchange_close */
/* replaces: pmi_server_release */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/pmi/pmi_service.h"
#include "tests/unit/run_case.h"

enum { PARTS = 8 };

/* ---- the other nodes, and the end ---- */

static const struct pmi_exchange_events *exchange_events;
static struct buf parts[PARTS];
static int nparts, exchange_fails, exchange_closed;
static struct pmi_service *s;
static int released;

int __wrap_pmi_exchange_start(struct pmi_exchange *x, uv_loop_t *loop,
			      const struct pmi_exchange_round *round,
			      const struct pmi_exchange_events *events,
			      struct err *e);
void __wrap_pmi_exchange_begin(struct pmi_exchange *x, struct slice mine);
void __wrap_pmi_exchange_close(struct pmi_exchange *x);
void __real_pmi_server_release(struct pmi_server *server);
void __wrap_pmi_server_release(struct pmi_server *server);

int __wrap_pmi_exchange_start(struct pmi_exchange *x, uv_loop_t *loop,
			      const struct pmi_exchange_round *round,
			      const struct pmi_exchange_events *events,
			      struct err *e)
{
	(void)loop;
	x->round = *round;
	exchange_events = events;
	return exchange_fails ? err_set(e, ERR_SYSTEM, "no exchange") : 0;
}

void __wrap_pmi_exchange_begin(struct pmi_exchange *x, struct slice mine)
{
	(void)x;
	ck_assert_int_lt(nparts, PARTS);
	parts[nparts] = (struct buf)BUF_INIT(WIRE_VALUE_MAX);
	buf_put(&parts[nparts++], mine.data, mine.len);
}

void __wrap_pmi_exchange_close(struct pmi_exchange *x)
{
	(void)x;
	exchange_closed++;
}

/* The memory goes, with every socket closed. */
void __wrap_pmi_server_release(struct pmi_server *server)
{
	for (uint32_t i = 0; s && i < server->round.nproc; i++) {
		ck_assert_int_eq(s->sockets[i].fd, -1);
		ck_assert_int_eq(s->sockets[i].child, -1);
	}
	released++;
	__real_pmi_server_release(server);
}

/* ---- the agent and its ranks ---- */

static uv_loop_t loop;
static int failed, aborted[2], rank[2], files;
static char why[256];

static void on_failed(void *owner, const char *text)
{
	ck_assert_ptr_eq(owner, &loop);
	failed++;
	snprintf(why, sizeof(why), "%s", text);
}

static void on_abort_over(void *owner, uint32_t local_rank)
{
	ck_assert_ptr_eq(owner, &loop);
	aborted[local_rank]++;
}

static const struct pmi_service_events events = {on_failed, on_abort_over};

static int count_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static struct err begin(uint32_t nnodes)
{
	static const struct pmi_exchange_round exchange = {.nnodes = 2};
	const struct pmi_server_round round = {
		.name = "job_7", .nproc = 2, .nnodes = nnodes,
		.world_size = nnodes == 1 ? 2 : 3};
	struct err e = ERR_INIT;

	/* a process's first loop opens what stays open */
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	files = count_files();
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	s = pmi_service_new(&loop, &round, &exchange, &events, &loop, &e);
	for (uint32_t i = 0; s && i < 2; i++) {
		rank[i] = dup(pmi_service_fd(s, i));
		ck_assert_int_ge(rank[i], 0);
		ck_assert(fcntl(pmi_service_fd(s, i), F_GETFD) & FD_CLOEXEC);
	}
	if (s)
		pmi_service_begin(s);
	return e;
}

static void layout_is(uint32_t first, uint32_t last)
{
	struct buf b[2] = {BUF_INIT(8), BUF_INIT(8)};

	buf_put_u32(&b[0], first);
	buf_put_u32(&b[1], last);
	exchange_events->on_done(&s->exchange,
				 (struct slice[2]){SLICE(b[0].data, b[0].len),
						   SLICE(b[1].data,
							 b[1].len)});
	buf_release(&b[0]);
	buf_release(&b[1]);
}

static void end(void)
{
	int has_exchange = s->has_exchange;

	for (int i = 0; i < 2; i++)
		close(rank[i]);
	pmi_service_close(s);
	pmi_service_close(s);
	ck_assert_int_eq(exchange_closed, has_exchange);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(released, !has_exchange);
	if (has_exchange)
		exchange_events->on_closed(&s->exchange);
	ck_assert_int_eq(released, 1);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(released, 1);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	ck_assert_int_eq(count_files(), files);
	for (int i = 0; i < nparts; i++)
		buf_release(&parts[i]);
}

static void say(int i, const char *text)
{
	ck_assert_int_eq(send(rank[i], text, strlen(text), MSG_NOSIGNAL),
			 (ssize_t)strlen(text));
	uv_run(&loop, UV_RUN_NOWAIT);
}

/* The next line for the rank. */
static void heard(int i, const char *line)
{
	struct pollfd p = {rank[i], POLLIN, 0};
	char text[2000];
	size_t n = 0;

	do {
		while (poll(&p, 1, 0) == 0)
			uv_run(&loop, UV_RUN_ONCE);
		ck_assert_int_eq(read(rank[i], text + n, 1), 1);
	} while (text[n++] != '\n' && n < sizeof(text));
	text[n - 1] = '\0';
	ck_assert_str_eq(text, line);
}

static void heard_nothing(int i)
{
	char byte;

	uv_run(&loop, UV_RUN_NOWAIT);
	ck_assert_int_eq(recv(rank[i], &byte, 1, MSG_DONTWAIT), -1);
	ck_assert_int_eq(errno, EAGAIN);
}

static void expect_failure(const char *text)
{
	ck_assert_int_eq(failed, 1);
	ck_assert_str_eq(why, text);
}

#define INIT "cmd=init pmi_version=1 pmi_subversion=1\n"
#define INITED "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"

static void both_init(void)
{
	for (int i = 0; i < 2; i++) {
		say(i, INIT);
		heard(i, INITED);
	}
}

START_TEST(ranks_are_answered_over_their_sockets)
{
	begin(1);
	both_init();
	say(0, "cmd=put kvsname=job_7 key=a value=b\n");
	heard(0, "cmd=put_result rc=0 msg=success");
	say(0, "cmd=barrier_in\n");
	heard_nothing(0);
	say(1, "cmd=barrier_in\n");
	heard(0, "cmd=barrier_out");
	heard(1, "cmd=barrier_out");
	say(1, "cmd=get kvsname=job_7 key=a\n");
	heard(1, "cmd=get_result rc=0 msg=success value=b");
	ck_assert_int_eq(failed, 0);
	end();
}

/* n times the answer to get_appnum. */
static void heard_answers(int i, int n)
{
	static const char line[] = "cmd=appnum appnum=0\n";
	const size_t size = sizeof(line) - 1, all = size * (size_t)n;
	size_t at = 0;
	char text[4096];

	while (at < all) {
		ssize_t k = recv(rank[i], text, sizeof(text), MSG_DONTWAIT);

		if (k <= 0)
			uv_run(&loop, UV_RUN_ONCE);
		for (ssize_t b = 0; b < k; b++, at++)
			if (text[b] != line[at % size])
				ck_abort_msg("byte %zu differs", at);
	}
	ck_assert_uint_eq(at, all);
}

/* Answers to a rank that does not read wait here, and no other rank. */
START_TEST(a_rank_that_reads_late_gets_all_answers)
{
	enum { MANY = 20000 };
	char *all = malloc(MANY * 16);
	size_t n = 0, sent = 0;

	begin(1);
	for (int i = 0; i < MANY; i++)
		n += (size_t)sprintf(all + n, "cmd=get_appnum\n");
	while (sent < n) {
		ssize_t k = send(rank[0], all + sent, n - sent, MSG_DONTWAIT);

		sent += k > 0 ? (size_t)k : 0;
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	while (uv_run(&loop, UV_RUN_NOWAIT), !s->server.ranks[0].out.len)
		;
	say(1, "cmd=get_appnum\n");
	heard(1, "cmd=appnum appnum=0");
	heard_answers(0, MANY);
	heard_nothing(0);
	ck_assert_int_eq(failed, 0);
	free(all);
	end();
}

START_TEST(a_line_that_is_not_pmi_is_a_failure)
{
	begin(1);
	say(1, "cmd=no_such\n");
	ck_assert_int_eq(failed, 1);
	ck_assert_ptr_nonnull(strstr(why, "rank 1 sent 'no_such' on PMI_FD"));
	say(0, INIT); /* the others are heard */
	heard(0, INITED);
	ck_assert_int_eq(failed, 1);
	end();
}

START_TEST(a_rank_that_hangs_up_is_no_failure)
{
	begin(1);
	shutdown(rank[0], SHUT_RDWR);
	uv_run(&loop, UV_RUN_NOWAIT);
	uv_run(&loop, UV_RUN_NOWAIT);
	ck_assert_int_eq(s->sockets[0].fd, -1);
	say(1, INIT);
	heard(1, INITED);
	pmi_service_ended(s, 0, 0);
	ck_assert_int_eq(failed, 0);
	end();
}

/* ---- ranks that end ---- */

START_TEST(a_rank_that_ended_is_named_to_those_that_wait)
{
	begin(1);
	both_init();
	say(0, "cmd=barrier_in\n");
	pmi_service_ended(s, 1, 1); /* its failure says more */
	ck_assert_int_eq(failed, 0);
	pmi_service_ended(s, 1, 0);
	ck_assert_int_eq(failed, 1);
	ck_assert_ptr_nonnull(
		strstr(why, "rank 1 ended without MPI_Finalize, but rank 0"));
	end();
}

START_TEST(the_last_lines_of_a_rank_are_taken_when_it_ends)
{
	static const char finalize[] = INIT "cmd=finalize\n";

	begin(1);
	say(0, INIT);
	say(0, "cmd=barrier_in\n");
	ck_assert_int_eq(send(rank[1], finalize, sizeof(finalize) - 1, 0),
			 sizeof(finalize) - 1);
	pmi_service_ended(s, 1, 0);
	ck_assert_int_eq(failed, 1);
	ck_assert_ptr_nonnull(strstr(why, "rank 1 ended after MPI_Finalize"));
	end();
}

START_TEST(an_abort_ends_the_round_after_a_moment)
{
	char text[200];
	int code;

	begin(1);
	both_init();
	ck_assert_int_eq(pmi_service_aborted(s, 1, &code, text, 200), 0);
	say(1, "cmd=abort exitcode=3\n");
	say(0, "cmd=get_appnum\n");
	ck_assert_int_eq(aborted[1], 0);
	while (!aborted[1])
		uv_run(&loop, UV_RUN_ONCE);
	ck_assert_int_eq(aborted[0], 0);
	ck_assert_int_eq(pmi_service_aborted(s, 0, &code, text, 200), 0);
	ck_assert_int_eq(pmi_service_aborted(s, 1, &code, text, 200), 1);
	ck_assert_int_eq(code, 3);
	uv_run(&loop, UV_RUN_NOWAIT);
	ck_assert_int_eq(aborted[1], 1);
	end();
}

START_TEST(a_refused_spawn_is_logged_once)
{
	static const char spawn[] = "mcmd=spawn\nnprocs=2\nexecname=./a\n"
				    "totspawns=1\nspawnssofar=1\nendcmd\n";
	int log = memfd_create("log", 0), err = dup(STDERR_FILENO);
	char text[1000] = "";

	begin(1);
	both_init();
	dup2(log, STDERR_FILENO);
	say(0, "cmd=get_appnum\n");
	say(1, spawn);
	say(0, spawn);
	dup2(err, STDERR_FILENO);
	ck_assert_int_gt(pread(log, text, sizeof(text) - 1, 0), 0);
	ck_assert_ptr_nonnull(strstr(text, "rank 1 called MPI_Comm_spawn"));
	ck_assert_ptr_eq(strchr(text, '\n'), strrchr(text, '\n'));
	end();
}

/* ---- several nodes ---- */

START_TEST(nodes_exchange_their_numbers_of_ranks_first)
{
	struct reader r;

	begin(2);
	ck_assert_int_eq(nparts, 1);
	reader_init(&r, SLICE(parts[0].data, parts[0].len));
	ck_assert_uint_eq(reader_u32(&r), 2);
	ck_assert(!r.bad && !reader_left(&r));
	both_init();
	say(0, "cmd=get kvsname=job_7 key=PMI_process_mapping\n");
	heard_nothing(0);
	layout_is(2, 1);
	heard(0, "cmd=get_result rc=0 msg=success "
		 "value=(vector,(0,1,2),(1,1,1))");
	end();
}

START_TEST(numbers_of_ranks_that_are_torn_are_a_failure)
{
	begin(2);
	exchange_events->on_done(&s->exchange,
				 (struct slice[2]){{"\2\0\0\0", 4}, {"", 0}});
	expect_failure("node 1's number of ranks is malformed");
	end();
}

START_TEST(a_barrier_ends_when_the_other_nodes_have_reached_it)
{
	struct slice both[2];
	struct buf other = BUF_INIT(100);

	begin(2);
	both_init();
	say(0, "cmd=barrier_in\n");
	say(1, "cmd=barrier_in\n");
	ck_assert_int_eq(nparts, 1); /* first the layout */
	layout_is(2, 1);
	ck_assert_int_eq(nparts, 2);
	heard_nothing(0);
	buf_put_u32(&other, 0); /* no rank of it has ended */
	both[0] = SLICE(parts[1].data, parts[1].len);
	both[1] = SLICE(other.data, other.len);
	exchange_events->on_done(&s->exchange, both);
	heard(0, "cmd=barrier_out");
	heard(1, "cmd=barrier_out");
	ck_assert_int_eq(failed, 0);
	buf_release(&other);
	end();
}

START_TEST(a_part_that_is_torn_is_a_failure)
{
	struct slice both[2] = {{"", 0}, {"", 0}};

	begin(2);
	both_init();
	layout_is(2, 1);
	say(0, "cmd=barrier_in\n");
	say(1, "cmd=barrier_in\n");
	exchange_events->on_done(&s->exchange, both);
	ck_assert_int_eq(failed, 1);
	end();
}

START_TEST(an_exchange_that_fails_is_a_failure)
{
	struct err e = {.text = "the server refused"};

	begin(2);
	exchange_events->on_failed(&s->exchange, &e);
	expect_failure("the server refused");
	exchange_events->on_failed(&s->exchange, &e);
	ck_assert_int_eq(failed, 1);
	end();
}

START_TEST(without_the_other_nodes_nothing_starts)
{
	struct err e;

	exchange_fails = 1;
	e = begin(2);
	ck_assert_ptr_null(s);
	ck_assert_str_eq(e.text, "no exchange");
	ck_assert_int_eq(failed, 0);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(released, 1);
	ck_assert_int_eq(exchange_closed, 0);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
}

START_TEST(nothing_is_reported_after_the_end)
{
	struct err e = {.text = "late"};

	begin(2);
	pmi_service_close(s);
	exchange_events->on_failed(&s->exchange, &e);
	ck_assert_int_eq(failed, 0);
	exchange_events->on_closed(&s->exchange);
	ck_assert_int_eq(released, 0); /* its sockets are open */
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(released, 1);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	pmi_service_close(NULL);
}

int main(void)
{
	TCase *c = tcase_create("pmi_service");

	tcase_set_timeout(c, 30);
	tcase_add_test(c, ranks_are_answered_over_their_sockets);
	tcase_add_test(c, a_rank_that_reads_late_gets_all_answers);
	tcase_add_test(c, a_line_that_is_not_pmi_is_a_failure);
	tcase_add_test(c, a_rank_that_hangs_up_is_no_failure);
	tcase_add_test(c, a_rank_that_ended_is_named_to_those_that_wait);
	tcase_add_test(c, the_last_lines_of_a_rank_are_taken_when_it_ends);
	tcase_add_test(c, an_abort_ends_the_round_after_a_moment);
	tcase_add_test(c, a_refused_spawn_is_logged_once);
	tcase_add_test(c, nodes_exchange_their_numbers_of_ranks_first);
	tcase_add_test(c, numbers_of_ranks_that_are_torn_are_a_failure);
	tcase_add_test(c, a_barrier_ends_when_the_other_nodes_have_reached_it);
	tcase_add_test(c, a_part_that_is_torn_is_a_failure);
	tcase_add_test(c, an_exchange_that_fails_is_a_failure);
	tcase_add_test(c, without_the_other_nodes_nothing_starts);
	tcase_add_test(c, nothing_is_reported_after_the_end);
	return run_case(c);
}
