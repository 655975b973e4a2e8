/* bench_abuse: the time of a barrier of a thousand workers, first undisturbed
 * and then under abuse: one client sends garbage, one sends requests and never
 * reads, a hundred connect and stay silent. Prints the 50th and 99th percentile
 * of both, their ratio, and the server's CPU time for a barrier.
 *
 * On a machine of few cores the abusers' own processes take their share of
 * them, whatever the server does about it. So it also measures the same abuse
 * against another address: a sink, a separate process, that accepts
 * connections, reads from each once, and closes it. That is the floor. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/programs/peers/simulated.h"

static const char usage[] =
	"bench_abuse WORKERS BARRIERS TURNS HOST:PORT/PID [ABUSE]\n"
	"  at that server; ABUSE: garbage, deaf, silent, or all at once\n";

enum { SILENT = 100, GARBAGE = 4096, VALUE = 1024, FULL_MS = 20,
       ROUNDS_MAX = 100000 };

static struct sockaddr_in server, victim; /* the abuse's target */
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

static void open_worker(struct sim *s, const struct sockaddr_in *to,
			uint32_t rank, int epoll)
{
	static char value[VALUE];
	struct wire_key_value set = {SLICE_STR("k"), SLICE(value, VALUE)};
	struct buf out = BUF_INIT(8192);

	s->role = WIRE_WORKER;
	s->round = round_number;
	s->rank = rank;
	sim_open(s, to, rank, epoll);
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

/* ---- abuse: one process for each kind ---- */

static void send_garbage(void)
{
	char bytes[GARBAGE];
	struct sim s;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)rand();
	for (;;) {
		sim_open(&s, &victim, 0, -1);
		while (send(s.fd, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0)
			;
		close(s.fd);
	}
}

/* Sends until the server closes the connection, again and again. */
static void read_nothing(void)
{
	struct wire_key m = {SLICE_STR("k")};
	struct pollfd room = {.events = POLLOUT};
	struct buf many = BUF_INIT(1 << 20);
	struct sim s;

	while (many.len < 64 << 10)
		wire_put_key(&many, WIRE_GET, WIRE_REQUEST, 9, &m);
	for (;;) {
		open_worker(&s, &victim, 0, -1);
		while (s.proof && sim_read(&s, NULL, on_frame))
			;
		room.fd = s.fd;
		while (poll(&room, 1, FULL_MS) > 0 &&
		       send(s.fd, many.data, many.len,
			    MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
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
		sim_open(&s[i], &victim, 0, epoll);
	for (;;) { /* a closed connection is made again */
		struct sim *gone;

		if (epoll_wait(epoll, &ev, 1, -1) < 1)
			continue;
		gone = ev.data.ptr;
		close(gone->fd);
		sim_open(gone, &victim, 0, epoll);
	}
}

/* The floor's server. */
static int sink_listener;

static void take_and_close(void)
{
	static char bytes[64 << 10];
	struct epoll_event events[SIM_EVENTS], ev = {.events = EPOLLIN};
	int epoll = epoll_create1(EPOLL_CLOEXEC), n, fd;

	ev.data.fd = sink_listener;
	epoll_ctl(epoll, EPOLL_CTL_ADD, sink_listener, &ev);
	for (;;) {
		n = epoll_wait(epoll, events, SIM_EVENTS, -1);
		for (int i = 0; i < n; i++) {
			fd = events[i].data.fd;
			if (fd != sink_listener) {
				(void)!recv(fd, bytes, sizeof(bytes), 0);
				close(fd);
				continue;
			}
			ev.data.fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
			epoll_ctl(epoll, EPOLL_CTL_ADD, ev.data.fd, &ev);
		}
	}
}

static struct sockaddr_in open_sink(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof(at);

	sink_listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(sink_listener, (struct sockaddr *)&at, size) ||
	    listen(sink_listener, SOMAXCONN) ||
	    getsockname(sink_listener, (struct sockaddr *)&at, &size))
		sim_die("a sink");
	return at;
}

static pid_t start(void (*run)(void), int niceness)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (niceness)
		sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
	(void)!nice(niceness);
	run();
	exit(0);
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- the three phases ---- */

static const struct abuse {
	const char *name;
	void (*run)(void);
} abuses[] = {{"garbage", send_garbage},
	      {"deaf", read_nothing},
	      {"silent", say_nothing}};

enum { ABUSES = sizeof(abuses) / sizeof(abuses[0]) };

struct phase {
	double ms[ROUNDS_MAX];
	int n;
	uint64_t cpu_ns; /* the server's */
};

static void barriers(struct phase *p, int count, int server_pid, int epoll)
{
	uint64_t before = sim_cpu_ns(server_pid);

	for (int i = 0; i < count; i++)
		p->ms[p->n++] = barrier(epoll);
	p->cpu_ns += sim_cpu_ns(server_pid) - before;
}

/* Abusers would have machines of their own: here they get the smallest
 * share. */
static void abused(struct phase *p, struct sockaddr_in whom, const char *only,
		   int count, int server_pid, int epoll)
{
	pid_t pids[ABUSES] = {0};
	int i;

	victim = whom;
	for (i = 0; i < ABUSES; i++)
		if (!only || !strcmp(only, abuses[i].name))
			pids[i] = start(abuses[i].run, 19);
	barriers(p, count, server_pid, epoll);
	for (i = 0; i < ABUSES; i++)
		if (pids[i])
			stop(pids[i]);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double print(const char *name, struct phase *p, double quiet_p99)
{
	double p99;

	qsort(p->ms, (size_t)p->n, sizeof(*p->ms), by_size);
	p99 = p->ms[p->n * 99 / 100];
	printf("  %-22s p50 %6.2f p99 %6.2f ms, %.2f times quiet; the server's "
	       "CPU %.2f ms a barrier\n", name, p->ms[p->n / 2], p99,
	       p99 / (quiet_p99 > 0 ? quiet_p99 : p99),
	       (double)p->cpu_ns / 1e6 / p->n);
	return p99;
}

static void open_workers(int epoll)
{
	workers = calloc(wanted, sizeof(*workers));
	for (uint32_t w = 0; w < wanted; w++) {
		open_worker(&workers[w], &server, w, epoll);
		while (workers[w].proof)
			wait_a_turn(epoll);
	}
	while (here < wanted)
		wait_a_turn(epoll);
}

int main(int argc, char **argv)
{
	static struct phase quiet, floor, loud;
	int count, turns, pid, epoll = epoll_create1(EPOLL_CLOEXEC);
	char *slash = argc >= 5 ? strchr(argv[4], '/') : NULL;
	const char *only = argc > 5 ? argv[5] : NULL;
	struct sockaddr_in sink;
	double p99;

	count = slash ? atoi(argv[2]) : 0;
	turns = slash ? atoi(argv[3]) : 0;
	if (count < 1 || turns < 1 || count * turns > ROUNDS_MAX) {
		fputs(usage, stderr);
		return 2;
	}
	wanted = (uint32_t)atoi(argv[1]);
	*slash = '\0';
	server = sim_address(argv[4]);
	pid = atoi(slash + 1);
	sim_files();
	join(epoll);
	open_workers(epoll);
	sink = open_sink();
	start(take_and_close, 0);
	for (int t = 0; t < turns; t++) {
		barriers(&quiet, count, pid, epoll);
		abused(&floor, sink, only, count, pid, epoll);
		abused(&loud, server, only, count, pid, epoll);
	}
	printf("a barrier of %u, abuse: %s\n", wanted, only ? only : "all");
	p99 = print("in quiet", &quiet, 0);
	print("abuse, another server's", &floor, p99);
	print("abuse, the same server's", &loud, p99);
	return 0;
}
