/* test_transport.c: every algorithm gives the same results over a new
 * transport: one in memory, whose hosts are all in this process. So a third
 * transport has to provide nothing but the row of transport.h. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/algorithms/schedule.h"
#include "worker-sdk/math/reduce.h"

enum { HOSTS = 9, MOST = 2 * HOSTS * HOSTS, SMALL = 3, LARGE = 12000 };

/* ---- the transport */

/* A message from one host to another, sent and not yet received. */
struct mail {
	struct mail *next;
	size_t size;
	char data[];
};

enum direction { SEND, RECV, FOLD };

struct message {
	enum direction way;
	int host, last, is_done;
	char *data;
	size_t size;
	const struct message *after;
	int ranks[2];
};

struct host {
	int me, n, used;
	int ranks[HOSTS], before[HOSTS + 1];
	struct message messages[MOST];
	char *scratch;
};

static struct mail *mails[HOSTS][HOSTS];

static void memory_begin(struct ddp__schedule *s)
{
	struct host *h = s->endpoint;

	s->me = h->me;
	s->n = h->n;
	s->ranks = h->ranks;
	s->before = h->before;
	h->used = 0;
}

static int memory_reserve(struct ddp__schedule *s, int messages, int pairs,
			  struct err *e)
{
	struct host *h = s->endpoint;

	ck_assert_int_le(messages, MOST);
	h->used = 0;
	return 0;
}

static void *add(struct ddp__schedule *s, enum direction way, int host,
		 const void *data, size_t size)
{
	struct host *h = s->endpoint;
	struct message *m = &h->messages[h->used++];

	ck_assert_int_ne(host, h->me);
	*m = (struct message){
		.way = way, .host = host, .data = (char *)data, .size = size};
	return m;
}

static void *memory_send(struct ddp__schedule *s, int host, const void *data,
			 size_t size, const void *after)
{
	struct message *m = add(s, SEND, host, data, size);

	m->after = after;
	return m;
}

static void *memory_recv(struct ddp__schedule *s, int host, void *data,
			 size_t size)
{
	return add(s, RECV, host, data, size);
}

static void *memory_fold(struct ddp__schedule *s, int host, void *data,
			 size_t size, int ranks, int last)
{
	struct message *m = add(s, FOLD, host, data, size);

	m->last = last;
	m->ranks[0] = s->ranks[s->me];
	m->ranks[1] = ranks;
	return m;
}

static int memory_scratch(struct ddp__schedule *s, size_t size, struct err *e)
{
	struct host *h = s->endpoint;

	free(h->scratch);
	s->scratch = h->scratch = malloc(size + 1);
	return 0;
}

static void reduce_into(const struct ddp__schedule *s, const struct message *m,
			const char *came)
{
	const void *src[] = {m->data, came};
	int divisor = m->last && s->call.op == DDP_AVG ? s->divisor : 1;

	if (s->scaled)
		ddp__add_scaled(m->data, src, m->ranks, 2, m->size / s->elem,
				s->call.type, divisor);
	else
		ddp__reduce(m->data, src, 2, m->size / s->elem, s->call.type,
			    s->call.op, divisor);
}

static int send_now(const struct host *h, struct message *m)
{
	struct mail **at = &mails[h->me][m->host];
	struct mail *mail;

	if (m->after && !m->after->is_done)
		return 0;
	mail = malloc(sizeof(*mail) + m->size);
	mail->next = NULL;
	mail->size = m->size;
	if (m->size)
		memcpy(mail->data, m->data, m->size);
	while (*at)
		at = &(*at)->next;
	*at = mail;
	return 1;
}

static int receive_now(const struct ddp__schedule *s, struct message *m)
{
	struct mail **at = &mails[m->host][s->me], *mail = *at;

	if (!mail)
		return 0;
	ck_assert_uint_eq(mail->size, m->size);
	if (m->way == FOLD)
		reduce_into(s, m, mail->data);
	else if (m->size)
		memcpy(m->data, mail->data, m->size);
	*at = mail->next;
	free(mail);
	return 1;
}

/* Messages with the same host and direction keep their order. */
static int is_next(const struct host *h, const struct message *m)
{
	for (const struct message *o = h->messages; o < m; o++)
		if (!o->is_done && o->host == m->host &&
		    (o->way == SEND) == (m->way == SEND))
			return 0;
	return 1;
}

/* -1: all are done; else the number of messages that moved. */
static int move(struct ddp__schedule *s)
{
	struct host *h = s->endpoint;
	int moved = 0, left = 0;

	for (struct message *m = h->messages; m < h->messages + h->used; m++) {
		if (m->is_done)
			continue;
		m->is_done =
			is_next(h, m) &&
			(m->way == SEND ? send_now(h, m) : receive_now(s, m));
		moved += m->is_done;
		left += !m->is_done;
	}
	return left ? moved : -1;
}

static int memory_advance(struct ddp__schedule *s, struct err *e)
{
	for (;;) {
		int moved = move(s), rc;

		if (!moved)
			return 0;
		if (moved > 0)
			continue;
		rc = s->step(s, e);
		s->turn++;
		if (rc)
			return rc;
	}
}

static void memory_release(struct ddp__schedule *s)
{
	s->scratch = NULL;
}

static const struct ddp__transport memory = {
	.name = "memory",
	.step = {.begin = memory_begin,
		 .reserve = memory_reserve,
		 .send = memory_send,
		 .recv = memory_recv,
		 .fold = memory_fold,
		 .scratch = memory_scratch,
		 .advance = memory_advance,
		 .release = memory_release},
};

/* ---- the hosts */

static struct host hosts[HOSTS];
static struct ddp__path paths[HOSTS];
static struct ddp__schedule schedules[HOSTS];
static int32_t *bufs[HOSTS], *others[HOSTS];
static size_t begin[HOSTS + 1], bytes[HOSTS + 1];
static int n;
static size_t count; /* elements of each block */

static const struct ddp__call call = {
	DDP__ALL_REDUCE, DDP_I32, DDP_SUM, 0, 0, 1, NULL, 0};

static int32_t value(int host, size_t i)
{
	return (int32_t)((size_t)(host + 1) * 1000 + i % 700);
}

static int32_t sum(size_t i)
{
	int32_t all = 0;

	for (int h = 0; h < n; h++)
		all += value(h, i);
	return all;
}

/* Every host has n blocks, of unequal sizes. */
static void set_up(int hosts_now, size_t count_now)
{
	n = hosts_now;
	count = count_now;
	for (int h = 0; h < n; h++) {
		begin[h + 1] = begin[h] + count + (size_t)(h % 3);
		bytes[h + 1] = 4 * begin[h + 1];
	}
	for (int h = 0; h < n; h++) {
		hosts[h] = (struct host){.me = h, .n = n};
		for (int i = 0; i < n; i++) {
			hosts[h].ranks[i] = 1 + i % 3;
			hosts[h].before[i + 1] = hosts[h].before[i] + 1 + i % 3;
		}
		paths[h] = (struct ddp__path){&memory, NULL, &hosts[h]};
		bufs[h] = malloc(bytes[n]);
		others[h] = calloc(1, bytes[n]);
		for (size_t i = 0; i < begin[n]; i++)
			bufs[h][i] = value(h, i);
	}
}

static void tear_down(void)
{
	for (int h = 0; h < n; h++) {
		for (int i = 0; i < n; i++)
			ck_assert_ptr_null(mails[h][i]);
		ddp__schedule_release(&schedules[h]);
		free(hosts[h].scratch);
		free(bufs[h]);
		free(others[h]);
	}
}

/* Advances all hosts, the last one first, until all have ended. */
static void run(void)
{
	struct err e = ERR_INIT;
	int ended[HOSTS] = {0};

	for (int left = n, turns = 0; left; turns++) {
		ck_assert_int_lt(turns, 1000);
		for (int h = n - 1; h >= 0; h--) {
			if (ended[h])
				continue;
			ended[h] = ddp__schedule_advance(&schedules[h], &e);
			ck_assert_int_ge(ended[h], 0);
			left -= ended[h];
		}
	}
}

#define FOR_EACH_HOST for (int h = 0; h < n; h++)

static void check_reduced(int h, size_t from, size_t to)
{
	size_t i = from;

	/* an assertion for each element would take most of the time */
	while (i < to && bufs[h][i] == sum(i))
		i++;
	ck_assert_uint_eq(i, to);
}

static void check_all_reduce(void)
{
	FOR_EACH_HOST
	ddp__schedule_all_reduce(&schedules[h], &paths[h], &call, bufs[h],
				 begin[n], 1);
	run();
	FOR_EACH_HOST
	check_reduced(h, 0, begin[n]);
}

static void check_reduce(void)
{
	FOR_EACH_HOST
	ddp__schedule_reduce(&schedules[h], &paths[h], &call, bufs[h], begin[n],
			     n - 1, 1);
	run();
	check_reduced(n - 1, 0, begin[n]);
}

static void check_reduce_scatter(void)
{
	FOR_EACH_HOST
	ddp__schedule_reduce_scatter(&schedules[h], &paths[h], &call, bufs[h],
				     begin, 1);
	run();
	FOR_EACH_HOST
	check_reduced(h, begin[h], begin[h + 1]);
}

static void check_block(const int32_t *block, int owner, size_t from, size_t to)
{
	size_t i = from;

	while (i < to && block[i] == value(owner, i))
		i++;
	ck_assert_uint_eq(i, to);
}

static void check_all_gather(void)
{
	FOR_EACH_HOST
	ddp__schedule_all_gather(&schedules[h], &paths[h], &call, bufs[h],
				 bytes);
	run();
	FOR_EACH_HOST
	for (int o = 0; o < n; o++)
		check_block(bufs[h], o, begin[o], begin[o + 1]);
}

static void check_gather(void)
{
	FOR_EACH_HOST
	ddp__schedule_gather(&schedules[h], &paths[h], &call,
			     bufs[h] + begin[h], bufs[h], bytes, 1);
	run();
	for (int o = 0; o < n; o++)
		check_block(bufs[1], o, begin[o], begin[o + 1]);
}

static void check_scatter(void)
{
	FOR_EACH_HOST
	ddp__schedule_scatter(&schedules[h], &paths[h], &call, bufs[h],
			      bufs[h] + begin[h], bytes, 1);
	run();
	FOR_EACH_HOST
	check_block(bufs[h], 1, begin[h], begin[h + 1]);
}

static void check_broadcast(void)
{
	FOR_EACH_HOST
	ddp__schedule_broadcast(&schedules[h], &paths[h], &call, bufs[h],
				bytes[n], n - 1);
	run();
	FOR_EACH_HOST
	check_block(bufs[h], n - 1, 0, begin[n]);
}

static int is_from(const int32_t *block, int owner, size_t at)
{
	for (size_t i = 0; i < count; i++)
		if (block[i] != value(owner, at + i))
			return 0;
	return 1;
}

/* Block o of host h goes to host o; all blocks have one size. */
static void check_all_to_all(void)
{
	size_t equal[HOSTS + 1];

	for (int h = 0; h <= n; h++)
		equal[h] = (size_t)h * 4 * count;
	FOR_EACH_HOST
	ddp__schedule_all_to_all(&schedules[h], &paths[h], &call, bufs[h],
				 equal, others[h], equal);
	run();
	FOR_EACH_HOST
	for (int o = 0; o < n; o++)
		ck_assert(o == h || is_from(others[h] + (size_t)o * count, o,
					    (size_t)h * count));
}

static void check_barrier(void)
{
	FOR_EACH_HOST
	ddp__schedule_barrier(&schedules[h], &paths[h], &call);
	run();
}

START_TEST(every_algorithm_runs_over_a_new_transport)
{
	static void (*const checks[])(void) = {
		check_all_reduce, check_reduce,	    check_reduce_scatter,
		check_all_gather, check_gather,	    check_scatter,
		check_broadcast,  check_all_to_all, check_barrier};

	for (size_t k = 0; k < sizeof(checks) / sizeof(*checks); k++) {
		set_up(_i, SMALL);
		checks[k]();
		tear_down();
		set_up(_i, LARGE);
		checks[k]();
		tear_down();
	}
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("transport");

	tcase_add_loop_test(t, every_algorithm_runs_over_a_new_transport, 2,
			    HOSTS + 1);
	return run_case(t);
}
