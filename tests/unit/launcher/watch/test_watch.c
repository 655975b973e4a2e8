/* test_watch.c: what is sampled of a real process, of a recorder that the test
 * writes, and of step files. tests/e2e/hang.bats watches real workers. */
#include <check.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/watch/watch.h"
#include "launcher/worker/worker_group.h"
#include "tests/unit/run_case.h"

enum { WRITTEN = 100000 };

static struct activity_sample s;
static struct sampler_call call;
static struct flight_view view;

/* A process that has written that much, and waits for the end of a pipe.
 * Returns that pipe's end. */
static int start(pid_t *pid)
{
	static char bytes[WRITTEN];
	int ready[2], end[2];
	char byte;

	ck_assert_int_eq(pipe(ready), 0);
	ck_assert_int_eq(pipe(end), 0);
	*pid = fork();
	if (*pid == 0) {
		int null = open("/dev/null", O_WRONLY);

		close(end[1]);
		if (write(null, bytes, WRITTEN) == WRITTEN &&
		    write(ready[1], "", 1) == 1)
			_exit(read(end[0], &byte, 1) != 0);
		_exit(1);
	}
	close(ready[1]);
	close(end[0]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return end[1];
}

static void stop(pid_t pid, int end)
{
	int status;

	close(end);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

START_TEST(a_process_is_known_by_its_state_and_what_it_wrote)
{
	struct recorder none;
	pid_t pid;
	int end = start(&pid);

	recorder_init(&none);
	do /* it has written to the pipe, and will read */
		sampler_read(&none, 0, pid, -1, &view, &s, &call);
	while (s.pid == pid && s.state != 'S');
	ck_assert_int_eq(s.pid, pid);
	ck_assert_uint_eq(s.processes, (uint64_t)pid);
	ck_assert_int_eq(s.state, 'S');
	if (access("/proc/self/io", R_OK) == 0)
		ck_assert_uint_ge(s.io_bytes, WRITTEN);
	ck_assert_int_eq(s.step, -1);
	ck_assert_int_eq(call.peer, -1);
	ck_assert_str_eq(call.text, "");
	stop(pid, end);
	sampler_read(&none, 0, pid, -1, &view, &s, &call);
	ck_assert_int_eq(s.pid, 0);
	ck_assert_uint_eq(s.processes, 0);
}
END_TEST

/* ---- the flight recorder ---- */

static struct recorder r;

/* The part of the first of two workers, as the worker maps it. */
static struct flight *begin(void)
{
	const struct recorder_round round = {
		.agent_id = "a", .job = "j", .host = "h", .server = "s",
		.job_key = "k", .nproc = 2, .world_size = 2, .nodes = 1};
	char *all;

	recorder_init(&r);
	recorder_begin(&r, &round);
	ck_assert_ptr_nonnull(r.head);
	all = mmap(NULL, (size_t)lseek(r.fd, 0, SEEK_END),
		   PROT_READ | PROT_WRITE, MAP_SHARED, r.fd, 0);
	ck_assert_ptr_ne(all, MAP_FAILED);
	return (struct flight *)(all + flight_part_at(r.head, 0));
}

static uint64_t enter(struct flight *f, uint64_t number, unsigned kind,
		      int root)
{
	const struct flight_call c = {kind, 0, 0, root, 8, 0, NULL};

	return flight_begin(f, 0, number, flight_pack(&c));
}

static void sample(void)
{
	sampler_read(&r, 0, getpid(), -1, &view, &s, &call);
}

START_TEST(a_collective_that_a_rank_is_in_has_its_number)
{
	struct flight *f = begin();
	uint64_t t;

	flight_start(f, 0, 2);
	t = enter(f, 1, FLIGHT_BARRIER, 0);
	flight_end(f, t, 0);
	sample();
	ck_assert(!s.in_call);
	ck_assert_uint_eq(call.world, 2);
	ck_assert_uint_eq(call.number, 0);
	ck_assert_ptr_nonnull(strstr(call.text, "barrier #1"));
	t = enter(f, 2, FLIGHT_ALL_REDUCE, 0);
	sample();
	ck_assert(s.in_call);
	ck_assert_uint_eq(call.world, 3);
	ck_assert_uint_eq(call.number, 3);
	ck_assert_uint_eq(call.comm, 0);
	ck_assert_int_eq(call.peer, -1);
	ck_assert_ptr_nonnull(strstr(call.text, "all_reduce #2"));
	flight_end(f, t, 0);
	recorder_release(&r);
}
END_TEST

START_TEST(a_message_that_a_rank_is_in_has_its_peer)
{
	struct flight *f = begin();
	uint64_t t;

	flight_start(f, 0, 2);
	t = enter(f, 1, FLIGHT_RECV, 1);
	sample();
	ck_assert(s.in_call);
	ck_assert_int_eq(call.peer, 1);
	ck_assert_uint_eq(call.number, 0);
	flight_end(f, t, 0);
	sample();
	ck_assert(!s.in_call);
	ck_assert_int_eq(call.peer, -1);
	recorder_release(&r);
}
END_TEST

START_TEST(the_first_of_the_failed_calls_was_missed)
{
	struct flight *f = begin();
	uint64_t t, ns;

	flight_start(f, 0, 2);
	t = enter(f, 1, FLIGHT_BARRIER, 0);
	flight_end(f, t, 0);
	ck_assert_uint_eq(sampler_read_missed(&r, 0, &view, &call), 0);
	t = enter(f, 2, FLIGHT_ALL_REDUCE, 0);
	flight_end(f, t, ERR_REMOTE);
	t = enter(f, 3, FLIGHT_BARRIER, 0);
	flight_end(f, t, ERR_REMOTE);
	ns = sampler_read_missed(&r, 0, &view, &call);
	ck_assert_uint_eq(ns, view.ops[1].ns);
	ck_assert_uint_eq(call.number, 3);
	ck_assert_ptr_nonnull(strstr(call.text, "all_reduce #2"));
	recorder_release(&r);
}
END_TEST

/* ---- step files ---- */

static char folder[] = "/tmp/test_watch.XXXXXX";

static const char *step_file(void *owner, uint32_t local_rank, char *out)
{
	ck_assert_ptr_eq(owner, folder);
	snprintf(out, PATH_MAX, "%s/%u", folder, local_rank);
	return out;
}

static void put_step(uint32_t local_rank, const char *text)
{
	char path[PATH_MAX];
	FILE *f = fopen(step_file(folder, local_rank, path), "a");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

START_TEST(the_steps_are_the_highest_that_a_worker_has_reported)
{
	static struct worker_group group = {.n = 3};
	struct recorder none;
	struct watch w = {.owner = folder, .step_file = step_file,
			  .group = &group, .recorder = &none};
	char path[PATH_MAX];

	recorder_init(&none);
	ck_assert_ptr_nonnull(mkdtemp(folder));
	put_step(0, "3\n");
	ck_assert_uint_eq(watch_steps(&w), 0); /* no round has begun */
	w.has_begun = 1;
	ck_assert_uint_eq(watch_steps(&w), 4);
	put_step(2, "7\n8\n9");
	ck_assert_uint_eq(watch_steps(&w), 9);
	put_step(2, "\n2\n"); /* it goes on from a checkpoint */
	ck_assert_uint_eq(watch_steps(&w), 9);
	for (uint32_t i = 0; i < 3; i++)
		remove(step_file(folder, i, path));
	ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("watch");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, a_process_is_known_by_its_state_and_what_it_wrote);
	tcase_add_test(c, a_collective_that_a_rank_is_in_has_its_number);
	tcase_add_test(c, a_message_that_a_rank_is_in_has_its_peer);
	tcase_add_test(c, the_first_of_the_failed_calls_was_missed);
	tcase_add_test(c,
		       the_steps_are_the_highest_that_a_worker_has_reported);
	return run_case(c);
}
