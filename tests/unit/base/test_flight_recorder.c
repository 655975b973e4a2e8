/* test_flight_recorder.c: one process writes the flight recorder and another
 * reads it, in any state that the writer may leave. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/flight_recorder.h"
#include "tests/unit/run_case.h"
#include "worker-sdk/core/recorder.h"

#define SECOND 1000000000ull

static struct flight_view view;
static char text[FLIGHT_TEXT_MAX];

static struct flight *make(void)
{
	struct flight *f = aligned_alloc(64, sizeof(*f));

	ck_assert_ptr_nonnull(f);
	memset(f, 0, sizeof(*f));
	return f;
}

static uint64_t word(unsigned kind, unsigned type, unsigned op, int root,
		     uint64_t count)
{
	struct flight_call c = {kind, type, op, root, count, 0, NULL};

	return flight_pack(&c);
}

static void read_it(const struct flight *f)
{
	ck_assert_int_eq(flight_read(&view, f), 0);
}

START_TEST(a_call_is_recorded_from_its_begin_to_its_end)
{
	struct flight *f = make();
	uint64_t barrier = word(FLIGHT_BARRIER, 0, 0, 0, 0), t, now;

	ck_assert_int_eq(flight_read(&view, f), 1);
	flight_start(f, 3, 4);
	read_it(f);
	ck_assert_int_eq(view.n, 0);
	ck_assert_uint_eq(view.rank, 3);
	ck_assert_uint_eq(view.world_size, 4);
	ck_assert_str_eq(flight_last_text(&view, 0, text), "");
	t = flight_begin(f, 0, 1, word(FLIGHT_ALL_REDUCE, 0, 0, 0, 11181642));
	read_it(f);
	now = view.ops[0].ns + SECOND * 4 / 5;
	ck_assert_str_eq(flight_last_text(&view, now, text),
			 "all_reduce #1 (f32 x 11181642, sum), entered 0.8 s "
			 "earlier");
	ck_assert_str_eq(flight_seen_text(&view, text),
			 "last seen entering all_reduce #1 (f32 x 11181642, "
			 "sum)");
	flight_end(f, t, 0);
	t = flight_begin(f, 0, 2, barrier);
	flight_end(f, t, 0);
	read_it(f);
	ck_assert_int_eq(view.n, 2);
	ck_assert_ptr_null(flight_oldest_open(&view));
	now = view.ops[1].ns + SECOND * 42;
	ck_assert_str_eq(flight_last_text(&view, now, text),
			 "between calls; last: barrier #2, entered 42 s "
			 "earlier");
	ck_assert_str_eq(flight_seen_text(&view, text),
			 "last seen leaving barrier #2");
	flight_end(f, flight_begin(f, 0, 3, barrier), ERR_REMOTE);
	read_it(f);
	ck_assert_str_eq(flight_seen_text(&view, text),
			 "last seen failing in barrier #3");
	free(f);
}
END_TEST

START_TEST(many_may_be_pending_and_the_longest_is_reported)
{
	struct flight *f = make();
	uint32_t id = flight_comm_id("1.0");
	uint64_t t[3];

	flight_start(f, 0, 2);
	flight_comm_add(f, "1.0", 2, 1, NULL);
	for (int i = 0; i < 3; i++)
		t[i] = flight_begin(f, id, (uint64_t)i + 1,
				    word(FLIGHT_SEND, 1, 0, 5, 9));
	flight_end(f, t[0], 0);
	read_it(f);
	ck_assert_str_eq(flight_last_text(&view, view.ops[1].ns, text),
			 "send #2 (f64 x 9, to 5) of group 1.0, entered "
			 "0.0 s earlier (and 1 more)");
	ck_assert_int_eq(view.ncomms, 2);
	flight_comm_remove(f, id);
	read_it(f);
	ck_assert_int_eq(view.ncomms, 1);
	ck_assert_str_eq(flight_seen_text(&view, text),
			 "last seen entering send #2 (f64 x 9, to 5) of "
			 "group ?");
	free(f);
}
END_TEST

START_TEST(a_wait_for_an_event_is_named_without_a_number)
{
	struct flight *f = make();
	uint64_t t;

	flight_start(f, 0, 2);
	flight_end(f, flight_begin(f, 0, 7, word(FLIGHT_BARRIER, 0, 0, 0, 0)),
		   0);
	t = flight_begin(f, 0, 7, word(FLIGHT_WAIT_EVENT, 0, 0, 0, 0));
	read_it(f);
	ck_assert_str_eq(flight_last_text(&view, view.ops[1].ns, text),
			 "wait_event, entered 0.0 s earlier");
	ck_assert_uint_eq(flight_oldest_open(&view)->call.kind,
			  FLIGHT_WAIT_EVENT);
	flight_end(f, t, 0);
	read_it(f);
	ck_assert_ptr_null(flight_oldest_open(&view));
	free(f);
}
END_TEST

START_TEST(a_reducers_communicator_is_named_as_such)
{
	struct flight *f = make();
	static const struct {
		const char *name, *text;
	} all[] = {{"r1", "barrier #1 of reducer 1"},
		   {"1.0/r12", "barrier #1 of reducer 12 of group 1.0"},
		   {"r1/2.0", "barrier #1 of group r1/2.0"}};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		flight_start(f, 0, 2);
		flight_comm_add(f, all[i].name, 2, 0, NULL);
		flight_begin(f, flight_comm_id(all[i].name), 1,
			     word(FLIGHT_BARRIER, 0, 0, 0, 0));
		read_it(f);
		ck_assert_str_eq(flight_op_text(&view, &view.ops[0], text),
				 all[i].text);
	}
	free(f);
}
END_TEST

static void packs(struct flight_call c, const char *want)
{
	struct flight_call back;

	ck_assert_uint_ne(flight_pack(&c), 0);
	flight_unpack(&back, flight_pack(&c), 1);
	ck_assert_uint_eq(back.kind, c.kind);
	ck_assert_str_eq(flight_call_text(&back, text), want);
}

START_TEST(packed_calls_of_the_largest_worlds_come_back)
{
	packs((struct flight_call){.kind = FLIGHT_INIT}, "ddp_init");
	packs((struct flight_call){.kind = FLIGHT_SEND,
				   .root = 70000,
				   .count = 3},
	      "send #1 (f32 x 3, to 70000)");
	packs((struct flight_call){.kind = FLIGHT_SEND,
				   .root = 131071,
				   .count = 1},
	      "send #1 (f32 x 1, to 131071)");
	/* a root that does not fit its bits must not become another root */
	packs((struct flight_call){.kind = FLIGHT_BROADCAST,
				   .root = 5,
				   .count = (uint64_t)1 << 36},
	      "broadcast #1 (f32 x 8589934591 or more, root 5)");
	packs((struct flight_call){.kind = FLIGHT_BROADCAST,
				   .type = 7,
				   .root = 5,
				   .count = UINT64_C(8589934590)},
	      "broadcast #1 (u8 x 8589934590, root 5)");
	packs((struct flight_call){.kind = FLIGHT_PROGRESS},
	      "progress_start #1");
	/* no count, for each rank has its own */
	packs((struct flight_call){.kind = FLIGHT_ALL_GATHER_V, .type = 1},
	      "all_gather_v #1 (f64)");
	packs((struct flight_call){.kind = FLIGHT_REDUCE_SCATTER_V, .op = 3},
	      "reduce_scatter_v #1 (f32, max)");
	packs((struct flight_call){.kind = FLIGHT_ALL_TO_ALL_V},
	      "all_to_all_v #1 (f32)");
}
END_TEST

/* The writer was killed after it stored the entry and before it stored head. */
START_TEST(a_call_that_is_not_in_head_yet_is_read)
{
	struct flight *f = make();
	uint64_t barrier = word(FLIGHT_BARRIER, 0, 0, 0, 0);

	flight_start(f, 0, 2);
	for (uint64_t i = 1; i <= 2; i++)
		flight_begin(f, 0, i, barrier);
	f->head = 1;
	read_it(f);
	ck_assert_int_eq(view.n, 2);
	ck_assert_uint_eq(view.ops[1].call.number, 2);
	/* also if it overwrites the first entry */
	for (uint64_t i = 2; i <= FLIGHT_ENTRIES + 1; i++)
		flight_begin(f, 0, i, barrier);
	f->head = FLIGHT_ENTRIES;
	read_it(f);
	ck_assert_int_eq(view.n, FLIGHT_ENTRIES);
	ck_assert_uint_eq(view.ops[0].call.number, 2);
	ck_assert_uint_eq(view.ops[FLIGHT_ENTRIES - 1].call.number,
			  FLIGHT_ENTRIES + 1);
	free(f);
}
END_TEST

/* The longest --rdzv-id. */
START_TEST(a_job_name_of_256_bytes_is_kept)
{
	struct flight_file head = {0}, back;
	int fd = memfd_create("head", MFD_CLOEXEC);

	memset(head.job, 'j', 256);
	flight_file_layout(&head, 1);
	ck_assert_int_eq(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
	ck_assert_int_eq(flight_file_read(&back, fd), 0);
	ck_assert_uint_eq(strlen(back.job), 256);
	close(fd);
}
END_TEST

START_TEST(only_the_last_calls_are_kept)
{
	struct flight *f = make();
	uint64_t first = 0, t, n = FLIGHT_ENTRIES + 100;

	flight_start(f, 0, 2);
	for (uint64_t i = 1; i <= n; i++) {
		t = flight_begin(f, 0, i, word(FLIGHT_BARRIER, 0, 0, 0, 0));
		if (i == 1)
			first = t;
	}
	read_it(f);
	ck_assert_int_eq(view.n, FLIGHT_ENTRIES);
	for (int i = 0; i < view.n; i++)
		ck_assert_uint_eq(view.ops[i].call.number,
				  n - FLIGHT_ENTRIES + 1 + (uint64_t)i);
	/* the end of an overwritten call changes no other entry */
	flight_end(f, first, 0);
	read_it(f);
	for (int i = 0; i < view.n; i++)
		ck_assert_int_eq(view.ops[i].state, FLIGHT_ENTERED);
	/* the recorder is off */
	ck_assert_uint_eq(flight_begin(NULL, 0, 1, 1), 0);
	flight_end(NULL, 0, 0);
	flight_comm_add(NULL, "1.0", 2, 0, NULL);
	ck_assert_int_eq(flight_stop(NULL), 0);
	free(f);
}
END_TEST

START_TEST(to_stop_is_kept_when_a_worker_starts_again)
{
	struct flight *f = make();

	f->stop = 1;
	flight_start(f, 0, 2);
	ck_assert_int_eq(flight_stop(f), 1);
	free(f);
}
END_TEST

/* Checks what holds for each call that the child writes. */
static void check_ops(uint64_t *last)
{
	for (int i = 0; i < view.n; i++) {
		const struct flight_op *op = &view.ops[i];

		ck_assert_uint_eq(op->call.number, op->ticket);
		ck_assert_uint_eq(op->call.count, op->ticket);
		ck_assert_uint_eq(op->comm, (uint32_t)op->ticket);
		if (i)
			ck_assert_uint_gt(op->ticket, op[-1].ticket);
		*last = op->ticket;
	}
}

START_TEST(a_writer_is_read_while_it_runs_and_when_it_was_killed)
{
	int fd = memfd_create("flight", MFD_CLOEXEC);
	uint64_t last = 0;
	struct flight *f;
	pid_t pid;

	ck_assert_int_eq(ftruncate(fd, sizeof(*f)), 0);
	f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(f, MAP_FAILED);
	flight_start(f, 0, 1);
	pid = fork();
	if (pid == 0) {
		for (uint64_t i = 1;; i++)
			flight_end(f,
				   flight_begin(
					   f, (uint32_t)i, i,
					   word(FLIGHT_BROADCAST, 0, 0, 0, i)),
				   0);
	}
	while (last < 100 * FLIGHT_ENTRIES) {
		ck_assert_int_eq(flight_read_at(&view, fd, 0), 0);
		check_ops(&last);
	}
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_int_eq(flight_read_at(&view, fd, 0), 0);
	check_ops(&last);
	/* all entries but the last, which the child may have been writing */
	ck_assert_int_ge(view.n, FLIGHT_ENTRIES - 1);
	munmap(f, sizeof(*f));
	close(fd);
}
END_TEST

START_TEST(waits_add_up_until_a_new_worker_begins)
{
	struct flight *f = make();

	flight_start(f, 0, 1);
	flight_add_wait(&f->waited_ns, flight_clock() - 5000000);
	flight_add_wait(&f->waited_ns, flight_clock() - 7000000);
	ck_assert_int_eq(flight_read(&view, f), 0);
	ck_assert_uint_ge(view.waited_ns, 12000000);
	flight_start(f, 0, 1);
	ck_assert_int_eq(flight_read(&view, f), 0);
	ck_assert_uint_eq(view.waited_ns, 0);
	free(f);
}
END_TEST

START_TEST(a_communicator_counts_its_own_waits)
{
	struct flight *f = make();
	_Atomic uint64_t *group, *all;

	flight_start(f, 0, 4);
	group = flight_comm_add(f, "1.0", 2, 0, NULL);
	all = flight_comm_add(f, "r1", 4, 0, &f->waited_ns);
	flight_add_wait_ns(group, 7);
	flight_add_wait_ns(all, 5);
	read_it(f);
	ck_assert_uint_eq(view.waited_ns, 5);
	ck_assert(!view.comms[0].counts && view.comms[1].counts);
	ck_assert_uint_eq(view.comms[1].waited_ns, 7);
	flight_comm_remove(f, flight_comm_id("1.0"));
	ck_assert_ptr_eq(flight_comm_add(f, "2.0", 2, 0, NULL), group);
	read_it(f);
	ck_assert_uint_eq(view.comms[1].waited_ns, 0);
	free(f);
}
END_TEST

START_TEST(garbage_is_read_without_harm)
{
	struct flight *f = make();
	unsigned char *bytes = (unsigned char *)f;

	for (unsigned seed = 1; seed < 50; seed++) {
		srand(seed);
		for (size_t i = 0; i < sizeof(*f); i++)
			bytes[i] = (unsigned char)rand();
		ck_assert_int_eq(flight_read(&view, f), ERR_DATA);
		f->magic = FLIGHT_MAGIC;
		f->version = FLIGHT_VERSION;
		f->head = seed % 2 ? UINT64_MAX - seed : seed;
		for (int i = 0; i < FLIGHT_ENTRIES; i++) {
			f->ring[i].ticket = (uint64_t)i;
			f->ring[i].state = 1 + (unsigned)i % 3;
		}
		flight_read(&view, f);
		ck_assert_int_le(view.n, FLIGHT_ENTRIES);
		ck_assert_int_le(view.ncomms, FLIGHT_COMMS);
		flight_last_text(&view, (uint64_t)rand(), text);
		flight_seen_text(&view, text);
	}
	free(f);
}
END_TEST

/* ---- libddp finds its part ---- */

static int make_file(const char *agent, uint32_t parts)
{
	struct flight_file head = {.agent_pid = getpid()};
	int fd = memfd_create("flight", MFD_CLOEXEC);

	flight_file_layout(&head, parts);
	strcpy(head.agent_id, agent);
	head.base_rank = 10;
	ck_assert_int_eq(ftruncate(fd, (off_t)flight_part_at(&head, parts)), 0);
	ck_assert_int_eq(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
	return fd;
}

static void name_it(int fd, int part)
{
	char value[64];

	snprintf(value, sizeof(value), "/proc/%d/fd/%d:%d", (int)getpid(), fd,
		 part);
	setenv("DDP_RECORDER", value, 1);
	setenv("DDP_AGENT_ID", "abcd", 1);
}

/* 1 if libddp opens the file, so that its writes appear in the agent's part. */
static int arrives(int fd, uint32_t part)
{
	const struct ddp__env env = {.rank = 10 + (int)part, .world_size = 20};
	struct flight_file head;
	int rc, own;
	struct flight *f = ddp__recorder_open(&env, "h", &own);

	ck_assert_ptr_nonnull(f);
	flight_begin(f, 0, 5, word(FLIGHT_BARRIER, 0, 0, 0, 0));
	ck_assert_int_eq(flight_file_read(&head, fd), 0);
	rc = flight_read_at(&view, fd, flight_part_at(&head, part));
	if (rc == 0)
		ck_assert_uint_eq(view.rank, 10 + part);
	ck_assert_int_eq(own < 0, rc == 0);
	ddp__recorder_close(f, own);
	return rc == 0;
}

START_TEST(libddp_writes_into_the_part_that_is_named)
{
	int fd = make_file("abcd", 3);

	name_it(fd, 2);
	ck_assert(arrives(fd, 2));
	ck_assert_str_eq(ddp__recorder_seen(12, text),
			 "last seen entering barrier #5");
	ck_assert_str_eq(ddp__recorder_seen(11, text), "");
	ck_assert_str_eq(ddp__recorder_seen(9, text), "");
	ck_assert_str_eq(ddp__recorder_seen(13, text), "");
	name_it(fd, 3); /* there is no such part */
	ck_assert(!arrives(fd, 0));
	close(fd);
}
END_TEST

START_TEST(a_foreign_file_is_not_used_as_recorder)
{
	static const char *const wrong[] = {
		"",
		":",
		"x",
		"/dev/null:0",
		"/:0",
		"/proc/1/fd/999999:0",
		"/proc/self/exe:0",
		"/proc/self/exe:-1",
		"/proc/self/exe:0x",
	};
	const struct ddp__env env = {.rank = 0, .world_size = 1};
	int fd = make_file("another", 1), zeroes, pipes[2], own;
	char bytes[64] = "";

	name_it(fd, 0); /* the descriptor is another agent's file */
	ck_assert(!arrives(fd, 0));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		setenv("DDP_RECORDER", wrong[i], 1);
		ck_assert(!arrives(fd, 0));
	}
	ck_assert_int_eq(pipe(pipes), 0);
	name_it(pipes[0], 0);
	ck_assert(!arrives(fd, 0));
	/* mapping a truncated file would raise SIGBUS */
	zeroes = make_file("abcd", 1);
	ck_assert_int_eq(ftruncate(zeroes, 5000), 0);
	name_it(zeroes, 0);
	ck_assert(!arrives(fd, 0));
	ck_assert_int_eq(ftruncate(zeroes, 0), 0);
	ck_assert(!arrives(fd, 0));
	ck_assert_int_eq(pread(zeroes, bytes, sizeof(bytes), 0), 0);
	unsetenv("DDP_RECORDER");
	ck_assert(!arrives(fd, 0));
	setenv("DDP_RECORDER", "off", 1);
	ck_assert_ptr_null(ddp__recorder_open(&env, "h", &own));
	ck_assert_int_eq(own, -1);
	close(fd);
	close(zeroes);
}
END_TEST

/* Its file is like an agent's, so that tools find both in the same way. */
START_TEST(without_an_agent_libddp_makes_a_file_like_its)
{
	struct ddp__env env = {.starter = DDP__TORCHRUN,
			       .rank = 7,
			       .world_size = 9,
			       .local_rank = 3,
			       .attempt = 2,
			       .server = {"n01", 29500}};
	struct flight_worker known;
	struct flight_file head;
	struct flight *f;
	int own;

	unsetenv("DDP_RECORDER");
	f = ddp__recorder_open(&env, "h7", &own);
	flight_begin(f, 0, 5, word(FLIGHT_BARRIER, 0, 0, 0, 0));
	ck_assert_int_eq(flight_file_read(&head, own), 0);
	ck_assert_int_eq(head.agent_pid, getpid());
	ck_assert_uint_eq(head.parts, 4);
	ck_assert_uint_eq(head.base_rank, 4);
	ck_assert_uint_eq(head.world_size, 9);
	ck_assert_uint_eq(head.attempt, 2);
	ck_assert_str_eq(head.job, "torchrun n01:29500");
	ck_assert_str_eq(head.host, "h7");
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(pread(own, &known, sizeof(known),
				       (off_t)(sizeof(head) +
					       (size_t)i * sizeof(known))),
				 sizeof(known));
		ck_assert_int_eq(known.pid, i == 3 ? getpid() : 0);
	}
	ck_assert_int_eq(flight_read_at(&view, own, flight_part_at(&head, 3)),
			 0);
	ck_assert_uint_eq(view.rank, 7);
	ck_assert_int_eq(view.n, 1);
	ddp__recorder_close(f, own);
	ck_assert_int_lt(fcntl(own, F_GETFD), 0);
	/* if ranks are assigned otherwise, it is the first of its host */
	env.local_rank = 8;
	f = ddp__recorder_open(&env, "h7", &own);
	ck_assert_int_eq(flight_file_read(&head, own), 0);
	ck_assert_uint_eq(head.parts, 1);
	ck_assert_uint_eq(head.base_rank, 7);
	ddp__recorder_close(f, own);
}
END_TEST

/* Otherwise SIGXFSZ would end the program. */
START_TEST(a_limit_of_file_sizes_costs_the_recorders_file_alone)
{
	struct ddp__env env = {.rank = 0, .world_size = 1};
	struct rlimit was, none;
	struct flight *f;
	int own, rc;

	unsetenv("DDP_RECORDER");
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
	none = was;
	none.rlim_cur = 0;
	/* Check writes files of its own */
	rc = setrlimit(RLIMIT_FSIZE, &none);
	f = ddp__recorder_open(&env, "h7", &own);
	rc |= setrlimit(RLIMIT_FSIZE, &was);
	ck_assert_int_eq(rc, 0);
	ck_assert_int_eq(own, -1);
	ck_assert_ptr_nonnull(f);
	flight_begin(f, 0, 5, word(FLIGHT_BARRIER, 0, 0, 0, 0));
	ddp__recorder_close(f, own);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("flight");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, a_call_is_recorded_from_its_begin_to_its_end);
	tcase_add_test(c, many_may_be_pending_and_the_longest_is_reported);
	tcase_add_test(c,
		a_wait_for_an_event_is_named_without_a_number);
	tcase_add_test(c, a_reducers_communicator_is_named_as_such);
	tcase_add_test(c, packed_calls_of_the_largest_worlds_come_back);
	tcase_add_test(c, a_call_that_is_not_in_head_yet_is_read);
	tcase_add_test(c, a_job_name_of_256_bytes_is_kept);
	tcase_add_test(c, only_the_last_calls_are_kept);
	tcase_add_test(c, to_stop_is_kept_when_a_worker_starts_again);
	tcase_add_test(c,
		       a_writer_is_read_while_it_runs_and_when_it_was_killed);
	tcase_add_test(c, waits_add_up_until_a_new_worker_begins);
	tcase_add_test(c, a_communicator_counts_its_own_waits);
	tcase_add_test(c, garbage_is_read_without_harm);
	tcase_add_test(c, libddp_writes_into_the_part_that_is_named);
	tcase_add_test(c, a_foreign_file_is_not_used_as_recorder);
	tcase_add_test(c, without_an_agent_libddp_makes_a_file_like_its);
	tcase_add_test(c, a_limit_of_file_sizes_costs_the_recorders_file_alone);
	return run_case(c);
}
