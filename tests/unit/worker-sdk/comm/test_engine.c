/* test_engine.c: when the engine gives up on a message, with a clock that the
 * test controls: a message that moves has no time limit, a message that does
 * not move has the timeout, and time in which the process is stopped does not
 * count. */
/* replaces: clock_gettime process_vm_readv syscall */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"
#include "tests/unit/stopped_clock.h"
#include "tests/unit/worker-sdk/shm/shm_ranks.h"
#include "worker-sdk/comm/cpu.h"

enum { FROM, TO, TIMEOUT_MS = 1000, SIZE = 16 << 20 };

long __real_syscall(long n, ...);
long __wrap_syscall(long n, ...);
ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *mine,
				unsigned long n, const struct iovec *its,
				unsigned long its_n, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *mine,
				unsigned long n, const struct iovec *its,
				unsigned long its_n, unsigned long flags);

/* A receiver in a thread of its own reads one piece of the sender's memory in
 * each wait of the sender, which lasts half of the timeout. */
static int reads_alone;
static sem_t may_read, has_read;
static _Atomic int reads, has_read_all;

static void let_read(void)
{
	if (!has_read_all) {
		sem_post(&may_read);
		sem_wait(&has_read);
	}
	now_ms += TIMEOUT_MS / 2;
}

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *mine,
				unsigned long n, const struct iovec *its,
				unsigned long its_n, unsigned long flags)
{
	ssize_t rc;

	if (!reads_alone)
		return __real_process_vm_readv(pid, mine, n, its, its_n, flags);
	sem_wait(&may_read);
	rc = __real_process_vm_readv(pid, mine, n, its, its_n, flags);
	reads++;
	sem_post(&has_read);
	return rc;
}

long __wrap_syscall(long n, ...)
{
	long v[6];
	va_list ap;

	va_start(ap, n);
	for (int i = 0; i < 6; i++)
		v[i] = va_arg(ap, long);
	va_end(ap);
	if (n == SYS_futex && v[1] == FUTEX_WAIT &&
	    (reads_alone || is_stopped())) {
		if (reads_alone)
			let_read();
		errno = ETIMEDOUT;
		return -1;
	}
	return __real_syscall(n, v[0], v[1], v[2], v[3], v[4], v[5]);
}

/* Rank TO's engine, and rank FROM's end of a message to it, in one process. */
static struct group g;
static struct ddp__world world;
static int hosts[] = {0, 0}, places[] = {FROM, TO};
static struct ddp__host host = {.n = 2, .ranks = places};
static struct ddp__cpu cpu;
static struct ddp_comm comm = {
	.world = &world,
	.rank = TO,
	.size = 2,
	.topology = {.nhosts = 1,
		     .hosts = &host,
		     .host_of = hosts,
		     .index_of = places},
	.state = &cpu};
static struct ddp__shm sender;
static struct ddp__call send_call = {DDP__SEND, DDP_U8, DDP_SUM, TO, SIZE, 1},
			recv_call = {DDP__RECV, DDP_U8, DDP_SUM, FROM, SIZE, 1};
static struct ddp__shm_msg message;
static struct ddp__task task;
static char *from, *to;

static void attach(struct ddp__shm *s, int me)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(ddp__shm_attach(s, g.fd, me, 2, cookie, &e), 0);
	s->ranks = places;
	s->peers = &peers;
	s->timeout_ms = TIMEOUT_MS;
	/* the sender puts the whole message, one ring at a time */
	s->spins = 1;
	atomic_store(&s->header->no_reading, 1);
}

static void set_up(void)
{
	struct err e = ERR_INIT;

	g = make(2);
	attach(&sender, FROM);
	attach(&cpu.shm, TO);
	ddp__cpu_set_paths(&cpu);
	cpu.collectives.cpu = &cpu;
	ck_assert_int_eq(ddp__engine_use(&world, &e), 0);
	from = malloc(SIZE);
	to = malloc(SIZE);
	memset(from, 'x', SIZE);
}

/* The engine receives what the other end sends. */
static void receive(void)
{
	struct err e = ERR_INIT;

	ddp__shm_send(&message, &sender, &send_call, from, SIZE, TO);
	ck_assert_int_eq(ddp__engine_add(world.engine, &task, &comm, &recv_call,
					 NULL, to, &e), 0);
}

static void tear_down(void)
{
	ddp__engine_tidy(world.engine, &cpu);
	ddp__engine_leave(&world);
	free(cpu.messages);
	ddp__shm_detach(&cpu.shm);
	ddp__shm_detach(&sender);
	free(from);
	free(to);
	close(g.fd);
}

static void wait_so_long(int ms)
{
	now_ms += ms;
	ddp__engine_check(world.engine);
}

START_TEST(a_message_that_moves_has_all_the_time_it_needs)
{
	struct err e = ERR_INIT;
	int steps = 0;

	receive();
	for (; task.state != DDP__DONE; steps++) {
		ck_assert_int_ge(ddp__shm_msg_advance(&message, &e), 0);
		ck_assert(ddp__engine_move(world.engine));
		wait_so_long(TIMEOUT_MS / 2);
		ck_assert_msg(task.state != DDP__FAILED, "after %d steps: %s",
			      steps, cpu.failed.text);
	}
	ck_assert_int_gt(steps, 8);
	ck_assert_mem_eq(to, from, SIZE);
}
END_TEST

START_TEST(a_message_that_stands_still_has_the_timeout)
{
	struct err e = ERR_INIT;

	receive();
	ck_assert_int_eq(ddp__shm_msg_advance(&message, &e), 0);
	ck_assert(ddp__engine_move(world.engine));
	for (int i = 0; i < 3; i++) {
		ck_assert(!ddp__engine_move(world.engine));
		wait_so_long(TIMEOUT_MS / 2);
		ck_assert_int_eq(task.state, DDP__UNDER_WAY);
	}
	wait_so_long(TIMEOUT_MS / 2);
	ck_assert_int_eq(task.state, DDP__FAILED);
	ck_assert_int_eq(cpu.failed.code, ERR_TIMEOUT);
	ck_assert_ptr_nonnull(strstr(cpu.failed.text,
				     "rank 0 on h1 has not sent it for 1.5 s"));
}
END_TEST

/* The engine sends, so it only sees that its ring has room again. */
START_TEST(a_message_that_is_taken_has_all_the_time_it_needs)
{
	struct ddp__call call = send_call, its = recv_call;
	struct err e = ERR_INIT;
	int steps = 0, got = 0;

	call.root = FROM;
	its.root = TO;
	ddp__shm_recv(&message, &sender, &its, to, SIZE, TO);
	ck_assert_int_eq(ddp__engine_add(world.engine, &task, &comm, &call,
					 from, NULL, &e), 0);
	for (; task.state != DDP__DONE; steps++) {
		ddp__engine_move(world.engine);
		if (!got)
			got = ddp__shm_msg_advance(&message, &e);
		ck_assert_int_ge(got, 0);
		wait_so_long(TIMEOUT_MS / 2);
		ck_assert_msg(task.state != DDP__FAILED, "after %d steps: %s",
			      steps, cpu.failed.text);
	}
	ck_assert_int_gt(steps, 8);
	ck_assert_mem_eq(to, from, SIZE);
}
END_TEST

static void *read_alone(void *incoming)
{
	struct err e = ERR_INIT;
	int rc;

	do
		rc = ddp__shm_msg_advance(incoming, &e);
	while (!rc);
	has_read_all = 1;
	sem_post(&has_read);
	return rc < 0 ? incoming : NULL;
}

/* A receiver that copies alone wakes the sender only at the end. */
START_TEST(a_message_that_is_read_has_all_the_time_it_needs)
{
	struct ddp__shm_msg incoming;
	struct err e = ERR_INIT;
	pthread_t reader;
	void *failed;

	if (emulator_lacks("process_vm_readv"))
		return;
	atomic_store(&sender.header->no_reading, 0);
	sender.spins = cpu.shm.spins = 0;
	sem_init(&may_read, 0, 0);
	sem_init(&has_read, 0, 0);
	reads_alone = 1;
	goes = 1; /* spins end */
	ddp__shm_recv(&incoming, &cpu.shm, &recv_call, to, SIZE, FROM);
	ddp__shm_send(&message, &sender, &send_call, from, SIZE, TO);
	ck_assert_int_eq(pthread_create(&reader, NULL, read_alone, &incoming),
			 0);
	ck_assert_msg(ddp__shm_msg_run(&message, &e) == 0, "%s", e.text);
	reads_alone = 0;
	ck_assert_int_eq(pthread_join(reader, &failed), 0);
	ck_assert_ptr_null(failed);
	ck_assert_int_gt(reads, 4);
	ck_assert_mem_eq(to, from, SIZE);
}
END_TEST

static void send_more(void)
{
	struct err e = ERR_INIT;

	ck_assert_int_ge(ddp__shm_msg_advance(&message, &e), 0);
}

START_TEST(a_messages_timeout_restarts_after_a_stop)
{
	receive();
	stop_until(send_more);
	ddp__engine_wait(world.engine, &task, -1);
	ck_assert_msg(task.state == DDP__DONE, "%s", cpu.failed.text);
	ck_assert_int_gt(sleeps, 1);
	ck_assert_mem_eq(to, from, SIZE);
}
END_TEST

static void *meet(void *shm)
{
	static const struct ddp__call call = {.kind = DDP__INIT};
	struct err e = ERR_INIT;

	return ddp__shm_start(shm, &call, &e) ? shm : NULL;
}

static void meet_both(void)
{
	pthread_t other;
	void *failed;

	goes = 1; /* spins end */
	ck_assert_int_eq(pthread_create(&other, NULL, meet, &sender), 0);
	ck_assert_ptr_null(meet(&cpu.shm));
	ck_assert_int_eq(pthread_join(other, &failed), 0);
	ck_assert_ptr_null(failed);
	goes = 0;
}

/* It takes many steps of both ranks. */
START_TEST(a_collective_that_moves_has_all_the_time_it_needs)
{
	const struct ddp__call call = {DDP__ALL_REDUCE, DDP_U8, DDP_MAX, 0,
				       SIZE, 1, NULL, 0, NULL};
	struct ddp__shm_op other;
	struct err e = ERR_INIT;
	int steps = 0, rc = 0;

	meet_both();
	memset(to, 'w', SIZE);
	ddp__shm_reduce(&other, &sender, &call, from, from, SIZE, DDP__ALL, 1);
	ck_assert_int_eq(ddp__engine_add(world.engine, &task, &comm, &call, to,
					 to, &e), 0);
	for (; task.state != DDP__DONE; steps++) {
		if (!rc)
			rc = ddp__shm_advance(&other, &e);
		ck_assert_int_ge(rc, 0);
		ddp__engine_move(world.engine); /* now it waits again */
		wait_so_long(TIMEOUT_MS / 2);
		ck_assert_msg(task.state != DDP__FAILED, "after %d steps: %s",
			      steps, cpu.failed.text);
	}
	ck_assert_int_gt(steps, 8);
	ck_assert_mem_eq(to, from, SIZE);
}
END_TEST

static struct ddp__call barrier = {.kind = DDP__BARRIER, .number = 1};

static void come_to_it(void)
{
	ddp__shm_begin(&sender, &barrier);
	ddp__shm_post(&sender);
}

START_TEST(a_collectives_timeout_restarts_after_a_stop)
{
	struct err e = ERR_INIT;

	ddp__shm_begin(&cpu.shm, &barrier);
	ddp__shm_post(&cpu.shm);
	stop_until(come_to_it);
	ck_assert_msg(ddp__shm_wait(&cpu.shm, &e) == 0, "%s", e.text);
	ck_assert_int_gt(sleeps, 1);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("engine");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, a_message_that_moves_has_all_the_time_it_needs);
	tcase_add_test(tc, a_message_that_is_taken_has_all_the_time_it_needs);
	tcase_add_test(tc, a_message_that_is_read_has_all_the_time_it_needs);
	tcase_add_test(tc, a_message_that_stands_still_has_the_timeout);
	tcase_add_test(tc, a_collective_that_moves_has_all_the_time_it_needs);
	tcase_add_test(tc, a_messages_timeout_restarts_after_a_stop);
	tcase_add_test(tc, a_collectives_timeout_restarts_after_a_stop);
	return run_case(tc);
}
