/* bench_abuse: how long a barrier of a thousand workers takes, in quiet and
 * while others do what they should not: one sends garbage, one asks and never
 * reads, a hundred connect and say nothing. Prints the 50th and 99th of a
 * hundred of each, and the second's ratio to the first. */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/programs/simulated.h"

static const char usage[] = "bench_abuse WORKERS BARRIERS TURNS HOST:PORT\n";

enum { SILENT = 100, GARBAGE = 4096, VALUE = 1024, ROUNDS_MAX = 100000 };

static struct sockaddr_in server;
static struct sim agent, *workers;
static uint32_t here, wanted, started, round_number;

static void on_frame(void *owner, struct sim *s, const struct wire_frame *f)
{
	struct wire_start start;
	struct err e = ERR_INIT;

	here += f->type == WIRE_BARRIER || f->type == WIRE_SET;
	if (f->type != WIRE_START)
		return;
	if (wire_get_start(f, &start, &e) < 0)
		sim_die(e.text);
	round_number = start.round;
	started = 1;
}

static void wait_a_turn(int epoll)
{
	struct epoll_event events[SIM_EVENTS];
	int n = epoll_wait(epoll, events, SIM_EVENTS, -1);

	for (int i = 0; i < n; i++)
		if (!sim_read(events[i].data.ptr, NULL, on_frame))
			sim_die("the server closed a connection");
}

static void join(int epoll)
{
	struct wire_join join = {
		.node_id = SLICE_STR("n"), .host = SLICE_STR("simulated"),
		.addr = SLICE_STR("127.0.0.1"), .node_rank = -1,
		.min_nodes = 1, .max_nodes = 1, .nproc = wanted,
		.role = SLICE_STR("default"), .lease_ms = 3600000};
	struct buf out = BUF_INIT(4096);

	agent.role = WIRE_AGENT;
	sim_open(&agent, &server, 0, epoll);
	sim_greet(&agent, &out);
	wire_put_join(&out, WIRE_JOIN, WIRE_REQUEST, 2, &join);
	sim_send(&agent, &out);
	buf_release(&out);
	while (!started)
		wait_a_turn(epoll);
}

static void open_worker(struct sim *s, uint32_t rank, int epoll)
{
	static char value[VALUE];
	struct wire_key_value set = {SLICE_STR("k"), SLICE(value, VALUE)};
	struct buf out = BUF_INIT(8192);

	s->role = WIRE_WORKER;
	s->round = round_number;
	s->rank = rank;
	sim_open(s, &server, rank, epoll);
	sim_greet(s, &out);
	wire_put_key_value(&out, WIRE_SET, WIRE_REQUEST, 2, &set);
	sim_send(s, &out);
	buf_release(&out);
}

static double barrier(int epoll)
{
	struct wire_barrier b = {SLICE_STR("b"), wanted, WIRE_NO_TIMEOUT};
	struct buf out = BUF_INIT(256);
	uint64_t began = clock_ns();

	wire_put_barrier(&out, WIRE_BARRIER, WIRE_REQUEST, 3, &b);
	here = 0;
	for (uint32_t i = 0; i < wanted; i++)
		sim_send(&workers[i], &out);
	while (here < wanted)
		wait_a_turn(epoll);
	buf_release(&out);
	return (double)(clock_ns() - began) / 1e6;
}

/* ---- abuse: each in a process of its own ---- */

static void send_garbage(void)
{
	char bytes[GARBAGE];
	struct sim s;

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (char)rand();
	for (;;) {
		sim_open(&s, &server, 0, -1);
		while (send(s.fd, bytes, sizeof bytes, MSG_NOSIGNAL) > 0)
			;
		close(s.fd);
	}
}

/* Until the server has had enough of it, again and again. */
static void read_nothing(void)
{
	struct wire_key m = {SLICE_STR("k")};
	struct buf many = BUF_INIT(1 << 20);
	struct sim s;

	while (many.len < 64 << 10)
		wire_put_key(&many, WIRE_GET, WIRE_REQUEST, 9, &m);
	for (;;) {
		open_worker(&s, 0, -1);
		while (s.proof && sim_read(&s, NULL, on_frame))
			;
		while (send(s.fd, many.data, many.len, MSG_NOSIGNAL) > 0)
			;
		close(s.fd);
	}
}

static void say_nothing(void)
{
	static struct sim s[SILENT];
	struct epoll_event ev;
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	for (int i = 0; i < SILENT; i++)
		sim_open(&s[i], &server, 0, epoll);
	for (;;) { /* one that is closed comes again */
		struct sim *gone;

		if (epoll_wait(epoll, &ev, 1, -1) < 1)
			continue;
		gone = ev.data.ptr;
		close(gone->fd);
		sim_open(gone, &server, 0, epoll);
	}
}

static pid_t start(void (*abuse)(void))
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)!nice(19); /* elsewhere they would have a machine of their own */
	abuse();
	exit(0);
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	static double quiet[ROUNDS_MAX], loud[ROUNDS_MAX];
	int barriers, turns, n, i, t, epoll = epoll_create1(EPOLL_CLOEXEC);
	pid_t pids[3];

	if (argc != 5) {
		fputs(usage, stderr);
		return 2;
	}
	wanted = (uint32_t)atoi(argv[1]);
	barriers = atoi(argv[2]);
	turns = atoi(argv[3]);
	if (barriers < 1 || turns < 1 || barriers * turns > ROUNDS_MAX)
		return 2;
	server = sim_address(argv[4]);
	sim_files();
	join(epoll);
	workers = calloc(wanted, sizeof *workers);
	for (uint32_t w = 0; w < wanted; w++) {
		open_worker(&workers[w], w, epoll);
		while (workers[w].proof)
			wait_a_turn(epoll);
	}
	while (here < wanted)
		wait_a_turn(epoll);
	for (t = n = 0; t < turns; t++, n += barriers) {
		for (i = 0; i < barriers; i++)
			quiet[n + i] = barrier(epoll);
		pids[0] = start(send_garbage);
		pids[1] = start(read_nothing);
		pids[2] = start(say_nothing);
		for (i = 0; i < barriers; i++)
			loud[n + i] = barrier(epoll);
		for (i = 0; i < 3; i++)
			stop(pids[i]);
	}
	qsort(quiet, (size_t)n, sizeof *quiet, by_size);
	qsort(loud, (size_t)n, sizeof *loud, by_size);
	printf("barrier of %u: quiet p50 %.2f p99 %.2f ms; abused p50 %.2f p99 "
	       "%.2f ms; ratio of the p99 %.2f (goal: under 2)\n", wanted,
	       quiet[n / 2], quiet[n * 99 / 100], loud[n / 2],
	       loud[n * 99 / 100], loud[n * 99 / 100] / quiet[n * 99 / 100]);
	return 0;
}
