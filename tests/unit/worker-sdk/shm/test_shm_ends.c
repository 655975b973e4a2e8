/* test_shm_ends.c: both ends of a message in one process, advanced in turn, so
 * that the test controls what each end does, and when. */
#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/shm/shm_ranks.h"

enum { FROM, TO };

struct ends {
	struct group g;
	struct ddp__shm s[2];
	struct ddp__call call[2];
	struct ddp__shm_msg m[2];
};

/* Sets up a host of n ranks, of which two exist. */
static void set_up(struct ends *x, int n)
{
	static int ranks[256];
	struct err e = ERR_INIT;

	x->g = make(n);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ddp__shm_attach(&x->s[i], x->g.fd, i, n,
						 cookie, &e), 0);
		ranks[i] = i;
		x->s[i].ranks = ranks;
		x->s[i].peers = &peers;
		x->s[i].chunk = DDP__SHM_IN;
	}
}

static void tear_down(struct ends *x)
{
	for (int i = 0; i < 2; i++)
		ddp__shm_detach(&x->s[i]);
	close(x->g.fd);
}

static void begin(struct ends *x, uint64_t number, char *from, char *to,
		  size_t size)
{
	x->call[FROM] = (struct ddp__call){DDP__SEND, DDP_U8, DDP_SUM, TO, size,
					   number};
	x->call[TO] = (struct ddp__call){DDP__RECV, DDP_U8, DDP_SUM, FROM, size,
					 number};
	ddp__shm_send(&x->m[FROM], &x->s[FROM], &x->call[FROM], from, size, TO);
	ddp__shm_recv(&x->m[TO], &x->s[TO], &x->call[TO], to, size, FROM);
}

/* Advances both in turn, the receiver until it gets no further. 1: both have
 * ended. */
static int move(struct ends *x, int *sent, int turns)
{
	struct err e = ERR_INIT;
	int received = 0;

	while (turns-- && !(*sent && received)) {
		if (!*sent)
			*sent = ddp__shm_msg_advance(&x->m[FROM], &e);
		if (!received)
			received = ddp__shm_msg_advance(&x->m[TO], &e);
		ck_assert_msg(*sent >= 0 && received >= 0, "%s", e.text);
	}
	return *sent && received;
}

/* Above 32 ranks a ring is 64 KiB, and a message of up to 16 KiB is put into it
 * whole: five fit, and the sixth begins where the first was. */
START_TEST(a_small_ring_is_free_again_before_it_is_full)
{
	enum { RANKS = 33, SIZE = 12 << 10, MESSAGES = 40 };
	static char from[SIZE], to[SIZE];
	struct ends x;

	set_up(&x, RANKS);
	for (uint64_t k = 1; k <= MESSAGES; k++) {
		int sent = 0;

		memset(from, (int)k, sizeof(from));
		begin(&x, k, from, to, SIZE);
		ck_assert_msg(move(&x, &sent, 10),
			      "message %d does not move: %s", (int)k,
			      sent ? "not received" : "no room to send it");
		ck_assert_mem_eq(to, from, SIZE);
	}
	tear_down(&x);
}
END_TEST

/* Another process has the sender's id now: its memory is not the message,
 * wherever the message was. */
START_TEST(the_memory_of_a_process_with_a_used_id_is_not_read)
{
	enum { SIZE = 1 << 20 };
	static char from[SIZE], to[SIZE];
	struct ends x;
	int sent = 0, hold[2];
	pid_t other;
	char c;

	memset(from, 'x', sizeof(from));
	ck_assert_int_eq(pipe(hold), 0);
	other = fork();
	if (other == 0) {
		close(hold[1]);
		_exit(read(hold[0], &c, 1) != 0);
	}
	ck_assert_int_gt(other, 0);
	set_up(&x, 2);
	memset(from, 'y', sizeof(from));
	ddp__shm_control(&x.s[TO], FROM)->pid = other;
	begin(&x, 1, from, to, SIZE);
	ck_assert(move(&x, &sent, 1000));
	ck_assert_mem_eq(to, from, SIZE);
	close(hold[0]);
	close(hold[1]);
	ck_assert_int_eq(waitpid(other, NULL, 0), other);
	tear_down(&x);
}
END_TEST

/* ---- calls of three ranks, of which the last is late ---- */

enum { RANKS = 3, LATE = RANKS - 1, COUNT = 12000 };

struct three {
	struct group g;
	struct ddp__shm s[RANKS];
	struct ddp__shm_op op[RANKS];
	float news[COUNT], from[RANKS][COUNT], to[RANKS][COUNT];
};

static void fill(float *to, float value)
{
	for (int k = 0; k < COUNT; k++)
		to[k] = value;
}

static void have(const float *values, float want)
{
	for (int k = 0; k < COUNT; k++)
		ck_assert_float_eq(values[k], want);
}

static void begin_broadcast(struct three *x, const struct ddp__call *call)
{
	static int ranks[RANKS] = {0, 1, 2};
	struct err e = ERR_INIT;

	fill(x->news, 5);
	x->g = make(RANKS);
	for (int i = 0; i < RANKS; i++) {
		ck_assert_int_eq(ddp__shm_attach(&x->s[i], x->g.fd, i, RANKS,
						 cookie, &e), 0);
		x->s[i].ranks = ranks;
		x->s[i].peers = &peers;
		x->s[i].chunk = DDP__SHM_IN;
		ddp__shm_broadcast(&x->op[i], &x->s[i], call, 0, x->news,
				   sizeof(x->news), x->to[i], 0,
				   i ? sizeof(x->news) : 0);
	}
}

static void begin_sum(struct three *x, const struct ddp__call *call, int i)
{
	fill(x->from[i], (float)(i + 1));
	ddp__shm_reduce(&x->op[i], &x->s[i], call, x->from[i], x->to[i], COUNT,
			DDP__ALL, 1);
}

static void end_sum(struct three *x)
{
	struct err e = ERR_INIT;
	int ended[RANKS] = {0};

	for (int turn = 0; turn < 100; turn++)
		for (int i = 0; i < RANKS; i++)
			if (!ended[i])
				ended[i] = ddp__shm_advance(&x->op[i], &e);
	for (int i = 0; i < RANKS; i++) {
		ck_assert_int_eq(ended[i], 1);
		have(x->to[i], 1 + 2 + 3);
		ddp__shm_detach(&x->s[i]);
	}
	close(x->g.fd);
}

/* The late rank takes a broadcast when the others have ended it and are at the
 * next call. That call must write elsewhere. */
START_TEST(a_call_keeps_data_that_a_late_rank_has_not_taken)
{
	static const struct ddp__call
		told = {DDP__BROADCAST, DDP_F32, DDP_SUM, 0, COUNT, 1},
		sum = {DDP__ALL_REDUCE, DDP_F32, DDP_SUM, 0, COUNT, 2};
	static struct three x;
	struct err e = ERR_INIT;
	int turns = 0;

	begin_broadcast(&x, &told);
	ck_assert_int_eq(ddp__shm_advance(&x.op[LATE], &e), 0);
	for (int i = 0; i < LATE; i++) {
		while (!ddp__shm_advance(&x.op[i], &e))
			ck_assert_int_lt(turns++, 100);
		begin_sum(&x, &sum, i);
	}
	for (int i = 0; i < LATE; i++)
		ck_assert_int_eq(ddp__shm_advance(&x.op[i], &e), 0);
	ck_assert_int_eq(ddp__shm_advance(&x.op[LATE], &e), 1);
	have(x.to[LATE], 5);
	begin_sum(&x, &sum, LATE);
	end_sum(&x);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("shm_ends");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_small_ring_is_free_again_before_it_is_full);
	tcase_add_test(tc,
		       the_memory_of_a_process_with_a_used_id_is_not_read);
	tcase_add_test(tc, a_call_keeps_data_that_a_late_rank_has_not_taken);
	return run_case(tc);
}
