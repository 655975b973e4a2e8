/* test_engine_tcp.c: as test_engine.c, for a message between hosts: its timeout
 * is for time without progress, not for the whole message, and not for time in
 * which the process is stopped. */
/* replaces: clock_gettime poll __poll_chk */
#include <poll.h>

#include "tests/unit/run_case.h"
#include "tests/unit/stopped_clock.h"
#include "tests/unit/worker-sdk/tcp/tcp_group.h"
#include "worker-sdk/comm/cpu.h"

int __real_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms);

int __wrap_poll(struct pollfd *p, nfds_t n, int ms)
{
	if (!is_stopped())
		return __real_poll(p, n, ms);
	return sleeps == 1 ? 0 : __real_poll(p, n, ms);
}

/* the compiler calls this instead of poll if it knows the array's size */
int __wrap___poll_chk(struct pollfd *p, nfds_t n, int ms, size_t size);

int __wrap___poll_chk(struct pollfd *p, nfds_t n, int ms, size_t size)
{
	(void)size;
	return __wrap_poll(p, n, ms);
}

enum { FROM, TO, TIMEOUT_MS = 1000, SIZE = 64 << 20 };

/* Rank TO's engine, and rank FROM's end of a message to it, in one process. */
static struct group g;
static struct ddp__world world;
static int hosts[] = {0, 1}, places[] = {0, 0};
static struct ddp__cpu cpu;
static struct ddp_comm comm = {
	.world = &world,
	.rank = TO,
	.size = 2,
	.topology = {.nhosts = 2, .host_of = hosts, .index_of = places},
	.state = &cpu};
static struct ddp__tcp_p2p sender;
static struct ddp__call send_call = {DDP__SEND, DDP_U8, DDP_SUM, TO, SIZE, 1},
			recv_call = {DDP__RECV, DDP_U8, DDP_SUM, FROM, SIZE, 1};
static struct ddp__tcp_msg message;
static struct ddp__task task;
static char *from, *to;
static int is_sent;

static void join_p2p(struct ddp__tcp_p2p *p, int me)
{
	struct endpoint where[2] = {g.sites[FROM].where, g.sites[TO].where};
	struct ddp__tcp_p2p_setup s = {.where = where,
				       .me = me,
				       .n = 2,
				       .listener = g.listener[me],
				       .timeout_ms = TIMEOUT_MS,
				       .peers = &peers};
	struct err e = ERR_INIT;

	ck_assert_int_eq(ddp__tcp_p2p_init(p, &s, &e), 0);
}

/* Waits for data, at most for the second in which it would arrive, and advances
 * all queues. */
static int move(void)
{
	struct pollfd polls[80];
	int n = ddp__tcp_p2p_polls(&cpu.p2p, polls, 80);

	poll(polls, (nfds_t)n, 1000);
	return ddp__engine_move(world.engine);
}

static void set_up(void)
{
	struct err e = ERR_INIT;

	g = make(2);
	join_p2p(&sender, FROM);
	join_p2p(&cpu.p2p, TO);
	ddp__cpu_set_paths(&cpu);
	cpu.collectives.cpu = &cpu;
	ck_assert_int_eq(ddp__engine_use(&world, &e), 0);
	from = malloc(SIZE);
	to = malloc(SIZE);
	memset(from, 'x', SIZE);
	ddp__tcp_send(&message, &sender, &send_call, from, SIZE, TO);
	ck_assert_int_eq(ddp__engine_add(world.engine, &task, &comm, &recv_call,
					 NULL, to, &e), 0);
	/* until the two are connected and the message has begun */
	while (!task.message.tcp.moved) {
		ck_assert_int_ge(ddp__tcp_msg_advance(&message, &e), 0);
		move();
		ck_assert_int_eq(task.state, DDP__UNDER_WAY);
	}
}

static void tear_down(void)
{
	ddp__engine_tidy(world.engine, &cpu);
	ddp__engine_leave(&world);
	free(cpu.messages);
	ddp__tcp_p2p_close(&cpu.p2p);
	ddp__tcp_p2p_close(&sender);
	free(from);
	free(to);
}

START_TEST(a_message_that_moves_has_all_the_time_it_needs)
{
	struct err e = ERR_INIT;
	int steps = 0, sent = 0;

	for (; task.state != DDP__DONE; steps++) {
		if (!sent)
			sent = ddp__tcp_msg_advance(&message, &e);
		ck_assert_int_ge(sent, 0);
		ck_assert(move());
		now_ms += cpu.p2p.timeout_ms / 2;
		ddp__engine_check(world.engine);
		ck_assert_msg(task.state != DDP__FAILED, "after %d steps: %s",
			      steps, cpu.failed.text);
	}
	ck_assert_int_gt(steps, 4);
	ck_assert_mem_eq(to, from, SIZE);
}
END_TEST

static void send_more(void)
{
	struct err e = ERR_INIT;

	if (!is_sent)
		is_sent = ddp__tcp_msg_advance(&message, &e);
	ck_assert_int_ge(is_sent, 0);
}

START_TEST(a_messages_timeout_restarts_after_a_stop)
{
	stop_until(send_more);
	ddp__engine_wait(world.engine, &task, -1);
	ck_assert_msg(task.state == DDP__DONE, "%s", cpu.failed.text);
	ck_assert_mem_eq(to, from, SIZE);
}
END_TEST

/* Waits as the progress thread does. */
START_TEST(a_pending_timeout_restarts_after_a_stop)
{
	/* takes all the data that has arrived */
	while (ddp__engine_move(world.engine))
		;
	ddp__engine_check(world.engine);
	stop_until(send_more);
	ddp__engine_sleep(world.engine, &world.engine->sleeper, 100, -1);
	ddp__engine_check(world.engine);
	ck_assert_msg(task.state == DDP__UNDER_WAY, "%s", cpu.failed.text);
}
END_TEST

static int comes_late[2];

static void let_come(void)
{
	if (sleeps == 2 && write(comes_late[1], "", 1) != 1)
		_exit(9);
}

/* One rank is stopped while it waits for the other. */
static int reduce(int me, void *arg)
{
	struct ddp__call call = {DDP__ALL_REDUCE, DDP_I32, DDP_SUM, 0, 1, 1};
	struct group *pair = arg;
	struct ddp__schedule op;
	struct err e = ERR_INIT;
	struct ddp__tcp t;
	int32_t v = me + 1;
	char byte;
	int rc;

	if (join(&t, pair, me))
		return 1;
	if (me == 0)
		stop_until(let_come);
	else if (read(comes_late[0], &byte, 1) != 1)
		return 2;
	ddp__schedule_all_reduce(&op, tcp_path(&t), &call, &v, 1, 1);
	rc = ddp__schedule_run(&op, &e);
	other_goes_on = NULL;
	if (rc)
		fprintf(stderr, "%s\n", e.text);
	return rc || v != 3;
}

START_TEST(a_collectives_timeout_restarts_after_a_stop)
{
	ck_assert_int_eq(pipe(comes_late), 0);
	run_group(2, reduce);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("engine_tcp");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, a_message_that_moves_has_all_the_time_it_needs);
	tcase_add_test(tc, a_messages_timeout_restarts_after_a_stop);
	tcase_add_test(tc, a_pending_timeout_restarts_after_a_stop);
	tcase_add_test(tc, a_collectives_timeout_restarts_after_a_stop);
	return run_case(tc);
}
