/* test_pair.c: two ends of a connection measure it, and notice an end that
 * breaks the rules; the pairs that measure, for many numbers of nodes. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "tests/unit/run_case.h"
#include "worker-sdk/check/pair.h"

/* What ends send each other, as in pair.c. */
enum { PING = 0x70696e67, TAKE = 0x74616b65, GIVE = 0x67697665 };

struct message {
	uint64_t what, number;
};

static const struct pair_options options = {
	.pings = 3,
	.transfer_ms = 1,
	.transfer_max = 1 << 20,
	.silence_ms = -1,
};
static int fd[2];
static int last_give; /* the GIVE that is not answered */

static void connect_both(void)
{
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
}

/* A process at fd[1]; fd[0] is left for this one. */
static pid_t at_other_end(int (*run)(void))
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		close(fd[0]);
		_exit(run());
	}
	close(fd[1]);
	return pid;
}

static int result_of(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int serve(void)
{
	return pair_serve(fd[1], &options, -1) != 0;
}

START_TEST(two_ends_measure_their_connection)
{
	struct pair_result r;
	pid_t pid;

	connect_both();
	pid = at_other_end(serve);
	ck_assert_int_eq(pair_measure(fd[0], &options, &r), 0);
	ck_assert_int_eq(result_of(pid), 0);
	ck_assert(r.rtt_us > 0 && r.rtt_us < 1e9);
	ck_assert(r.out_mbytes_s > 0 && isfinite(r.out_mbytes_s));
	ck_assert(r.in_mbytes_s > 0 && isfinite(r.in_mbytes_s));
	/* both have one clock: it was read within the round trip */
	ck_assert(fabs(r.clock_ms) * 1e3 <= r.rtt_us + 1000);
	close(fd[0]);
}
END_TEST

/* Answers up to the last GIVE, and then sends nothing more. */
static int stop_giving(void)
{
	static char block[1 << 20];
	struct message m;
	int gives = 0;

	while (recv(fd[1], &m, sizeof(m), MSG_WAITALL) == sizeof(m)) {
		if (m.what == TAKE &&
		    recv(fd[1], block, m.number, MSG_WAITALL) <= 0)
			return 1;
		if (m.what == GIVE && ++gives == last_give)
			shutdown(fd[1], SHUT_WR);
		else if (m.what == GIVE)
			send(fd[1], block, m.number, 0);
		else if (m.what == PING || m.what == TAKE)
			send(fd[1], &m, sizeof(m), 0);
	}
	return gives != last_give;
}

START_TEST(a_transfer_that_ends_early_fails)
{
	struct pair_result r;
	pid_t pid;

	for (last_give = 1; last_give <= 2; last_give++) {
		connect_both();
		pid = at_other_end(stop_giving);
		ck_assert_int_eq(pair_measure(fd[0], &options, &r), -EPIPE);
		close(fd[0]);
		ck_assert_int_eq(result_of(pid), 0);
	}
}
END_TEST

static void expect_refusal(uint64_t what, uint64_t number, int code)
{
	const struct message m = {what, number};

	connect_both();
	ck_assert_int_eq(send(fd[0], &m, sizeof(m), 0), sizeof(m));
	close(fd[0]);
	ck_assert_int_eq(pair_serve(fd[1], &options, -1), code);
	close(fd[1]);
}

START_TEST(a_listener_refuses_what_it_does_not_know)
{
	expect_refusal(0, 0, ERR_PROTOCOL);
	expect_refusal(GIVE, ((uint64_t)4 << 30) + 1, ERR_PROTOCOL);
	expect_refusal(TAKE, ((uint64_t)4 << 30) + 1, ERR_PROTOCOL);
	/* what it knows: the other end has gone */
	expect_refusal(TAKE, 1, -EPIPE);
	expect_refusal(GIVE, (uint64_t)4 << 30, -EPIPE);
}
END_TEST

/* ---- round_robin ---- */

enum { NODES_MAX = 40 };

START_TEST(each_pair_meets_exactly_once)
{
	for (int n = 1; n <= NODES_MAX; n++) {
		int met[NODES_MAX][NODES_MAX] = {{0}};

		for (int r = 0; r < round_robin_rounds(n); r++) {
			for (int i = 0; i < n; i++) {
				int k = round_robin_partner(n, r, i);

				if (k >= 0)
					met[i][k]++;
			}
		}
		for (int i = 0; i < n; i++) {
			for (int k = 0; k < n; k++)
				ck_assert_int_eq(met[i][k], i != k);
		}
	}
}
END_TEST

START_TEST(a_node_is_in_one_pair_at_a_time)
{
	for (int n = 2; n <= NODES_MAX; n++) {
		for (int r = 0; r < round_robin_rounds(n); r++) {
			int rest = 0;

			for (int i = 0; i < n; i++) {
				int k = round_robin_partner(n, r, i);

				rest += k < 0;
				if (k >= 0)
					ck_assert_int_eq(
						round_robin_partner(n, r, k),
						i);
			}
			ck_assert_int_eq(rest, n % 2);
		}
	}
}
END_TEST

START_TEST(a_tournament_has_as_few_rounds_as_possible)
{
	ck_assert_int_eq(round_robin_rounds(1), 0);
	ck_assert_int_eq(round_robin_rounds(2), 1);
	ck_assert_int_eq(round_robin_rounds(3), 3);
	ck_assert_int_eq(round_robin_rounds(16), 15);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("pair");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, two_ends_measure_their_connection);
	tcase_add_test(c, a_transfer_that_ends_early_fails);
	tcase_add_test(c, a_listener_refuses_what_it_does_not_know);
	tcase_add_test(c, each_pair_meets_exactly_once);
	tcase_add_test(c, a_node_is_in_one_pair_at_a_time);
	tcase_add_test(c, a_tournament_has_as_few_rounds_as_possible);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
