/* test_engine_tcp.c: as test_engine.c, of a message between hosts: its timeout
 * is for standing still, not for all of it. */
#include <poll.h>
#include <time.h>

#include "tests/unit/run_case.h"
#include "tests/unit/tcp_group.h"
#include "worker-sdk/cpu.h"

/* (-Wl,--wrap) */
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
static long now_ms = 1000000;

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	(void)id;
	*t = (struct timespec){now_ms / 1000, now_ms % 1000 * 1000000};
	return 0;
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

/* What came, or the time in which it would have. */
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
	cpu.collectives.cpu = &cpu;
	ck_assert_int_eq(ddp__engine_use(&world, &e), 0);
	from = malloc(SIZE);
	to = malloc(SIZE);
	memset(from, 'x', SIZE);
	ddp__tcp_send(&message, &sender, &send_call, from, SIZE);
	ck_assert_int_eq(ddp__engine_add(world.engine, &task, &comm, &recv_call,
					 NULL, to, &e), 0);
	/* until they are connected, and it has begun */
	while (!task.tcp.moved) {
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
		ddp__engine_look(world.engine);
		ck_assert_msg(task.state != DDP__FAILED, "after %d steps: %s",
			      steps, cpu.failed.text);
	}
	ck_assert_int_gt(steps, 4);
	ck_assert_mem_eq(to, from, SIZE);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("engine_tcp");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, a_message_that_moves_has_all_the_time_it_needs);
	return run_case(tc);
}
