/* bench_agents: simulated agents of one job, or of one job at each of several
 * servers. The agents join and get their ranks; a worker of each passes a
 * barrier and exits with success. Prints the times, and the memory of a
 * connection. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/bench/gate.h"
#include "tests/programs/peers/simulated.h"

static const char usage[] =
	"bench_agents AGENTS HOST:PORT/PID...\n"
	"  so many agents, shared out among the servers; prints agents,\n"
	"  servers, ms until all have ranks, until all are through the\n"
	"  barrier, until the end; bytes a connection, joins/s; ms of CPU\n"
	"  until all are through the barrier: the servers', ours\n"
	"bench_agents connects CLIENTS HOST:PORT/PID\n"
	"  that many workers, one after the other: HELLO, its answer, close\n";

enum { SERVERS = 16, WINDOW = 1024, WORKER = WIRE_WORKER,
       /* this many unauthenticated connections may come from one address */
       UNPROVEN = 120 };

/* A process that simulates the agents of one server. */
struct share {
	struct sockaddr_in to;
	int pid; /* the server's */
	uint32_t agents;
	/* what came of it */
	uint64_t joined_ns, passed_ns, ended_ns;
	long memory;
	uint64_t server_cpu_ns, our_cpu_ns;
};

struct crowd {
	struct share *share;
	struct sim *agents, *workers;
	struct sim **ready; /* agents that have their ranks, in that order */
	int epoll;
	uint32_t opened, greeted; /* connected agents; agents that have a
				   * reply */
	uint32_t started, waiting, passed, ended;
	uint32_t connected; /* workers that have a reply */
	long memory; /* the server's, before */
	struct buf out;
};

static uint32_t window(void)
{
	return sim_auth() ? UNPROVEN : WINDOW;
}

static void open_agent(struct crowd *c)
{
	struct sim *s = &c->agents[c->opened];
	char id[16];
	struct wire_join join = {
		.host = SLICE_STR("simulated"), .addr = SLICE_STR("127.0.0.1"),
		.master_port = 1, .node_rank = -1,
		.min_nodes = c->share->agents, .max_nodes = c->share->agents,
		.nproc = 1, .role = SLICE_STR("default"),
		.lease_ms = 3600000};

	snprintf(id, sizeof(id), "n%u", c->opened);
	join.node_id = SLICE_STR(id);
	s->role = WIRE_AGENT;
	sim_open(s, &c->share->to, c->opened++, c->epoll);
	buf_reset(&c->out);
	sim_greet(s, &c->out);
	wire_put_join(&c->out, WIRE_JOIN, WIRE_REQUEST, 2, &join);
	sim_send(s, &c->out);
}

/* As soon as an agent knows its rank it starts its worker. */
static void open_worker(struct crowd *c)
{
	struct sim *agent = c->ready[c->waiting++];
	struct sim *s = &c->workers[agent - c->agents];
	struct wire_barrier b = {SLICE_STR("all"), c->share->agents,
				 WIRE_NO_TIMEOUT};

	s->role = WORKER;
	s->round = agent->round;
	s->rank = agent->rank;
	sim_open(s, &c->share->to,
		 c->share->agents + (uint32_t)(agent - c->agents), c->epoll);
	buf_reset(&c->out);
	sim_greet(s, &c->out);
	wire_put_barrier(&c->out, WIRE_BARRIER, WIRE_REQUEST, 2, &b);
	sim_send(s, &c->out);
}

static void exit_well(struct crowd *c, struct sim *agent)
{
	struct wire_exited m = {.round = agent->round, .rank = agent->rank,
				.pid = 1};

	buf_reset(&c->out);
	wire_put_exited(&c->out, WIRE_EXITED, WIRE_NOTICE, 0, &m);
	sim_send(agent, &c->out);
}

static uint64_t own_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void note_passed(struct share *s)
{
	s->passed_ns = clock_ns();
	s->our_cpu_ns = own_cpu_ns() - s->our_cpu_ns;
	s->server_cpu_ns = sim_cpu_ns(s->pid) - s->server_cpu_ns;
}

static void on_frame(void *owner, struct sim *s, const struct wire_frame *f)
{
	struct crowd *c = owner;
	struct wire_start start;
	struct err e = ERR_INIT;

	if (f->type == WIRE_HELLO && s->role == WIRE_AGENT) {
		c->greeted++;
	} else if (f->type == WIRE_HELLO) {
		c->connected++;
	} else if (f->type == WIRE_START) {
		if (wire_get_start(f, &start, &e) < 0)
			sim_die(e.text);
		s->round = start.round;
		s->rank = start.base_rank;
		c->ready[c->started++] = s;
		if (c->started == c->share->agents)
			c->share->joined_ns = clock_ns();
	} else if (f->type == WIRE_BARRIER) {
		if (++c->passed == c->share->agents)
			note_passed(c->share);
	} else if (f->type == WIRE_END) {
		if (++c->ended == c->share->agents)
			c->share->ended_ns = clock_ns();
	}
}

static void wait_a_turn(struct crowd *c)
{
	struct epoll_event events[SIM_EVENTS];
	int n = epoll_wait(c->epoll, events, SIM_EVENTS, -1);

	for (int i = 0; i < n; i++) {
		struct sim *s = events[i].data.ptr;

		if (sim_read(s, c, on_frame))
			continue;
		if (!s->over && !c->ended)
			sim_die("the server closed a connection");
		epoll_ctl(c->epoll, EPOLL_CTL_DEL, s->fd, NULL);
	}
}

static void begin(struct crowd *c, struct share *share)
{
	memset(c, 0, sizeof(*c));
	c->share = share;
	c->agents = calloc(share->agents, sizeof(*c->agents));
	c->workers = calloc(share->agents, sizeof(*c->workers));
	c->ready = calloc(share->agents, sizeof(*c->ready));
	c->epoll = epoll_create1(EPOLL_CLOEXEC);
	buf_init(&c->out, 4096);
	c->memory = sim_memory(share->pid);
	share->our_cpu_ns = own_cpu_ns();
	share->server_cpu_ns = sim_cpu_ns(share->pid);
}

static void live(struct crowd *c)
{
	const uint32_t n = c->share->agents;
	uint32_t i;

	while (c->passed < n) {
		while (c->opened < n && c->opened - c->greeted < window())
			open_agent(c);
		while (c->waiting < c->started &&
		       c->waiting - c->connected < window())
			open_worker(c);
		wait_a_turn(c);
	}
	/* all 2 n connections are open, and nothing is under way */
	c->share->memory = sim_memory(c->share->pid) - c->memory;
	for (i = 0; i < n; i++)
		c->workers[i].over = 1;
	for (i = 0; i < n; i++)
		exit_well(c, &c->agents[i]);
	while (c->ended < n)
		wait_a_turn(c);
}

/* ---- connects ---- */

static void on_hello(void *owner, struct sim *s, const struct wire_frame *f)
{
	s->rank = f->type == WIRE_HELLO;
}

/* Each connection is closed before the next one takes its place. */
static void connects(struct share *share, uint32_t clients)
{
	struct sim *places = calloc(WINDOW, sizeof(*places));
	struct epoll_event events[SIM_EVENTS];
	uint32_t opened = 0, done = 0;
	struct crowd c;
	uint64_t began;

	share->agents = 1;
	begin(&c, share);
	open_agent(&c);
	while (!c.started)
		wait_a_turn(&c);
	c.epoll = epoll_create1(EPOLL_CLOEXEC);
	began = clock_ns();
	while (done < clients) {
		for (uint32_t i = 0; i < window() && opened < clients; i++) {
			struct sim *s = &places[i];

			if (s->role)
				continue;
			s->role = WORKER;
			s->round = c.agents[0].round;
			s->rank = 0;
			sim_open(s, &share->to, SIM_A_SOURCE + opened++,
				 c.epoll);
			buf_reset(&c.out);
			sim_greet(s, &c.out);
			sim_send(s, &c.out);
		}
		for (int i = 0, n = epoll_wait(c.epoll, events, SIM_EVENTS, -1);
		     i < n; i++) {
			struct sim *s = events[i].data.ptr;

			if (!sim_read(s, NULL, on_hello))
				sim_die("the server closed a connection");
			if (!s->rank)
				continue;
			close(s->fd);
			s->role = 0;
			done++;
		}
	}
	printf("%u clients, one after the other: %.0f connects/s, %.1f times "
	       "the 983 of 98,304 clients of TCPStore\n", clients,
	       clients * 1e9 / (double)(clock_ns() - began),
	       clients * 1e9 / (double)(clock_ns() - began) / 983);
}

/* ---- several ---- */

static void parse(struct share *s, char *text)
{
	char *slash = strchr(text, '/');

	if (!slash) {
		fputs(usage, stderr);
		exit(2);
	}
	*slash = '\0';
	s->to = sim_address(text);
	s->pid = atoi(slash + 1);
}

/* A process for each server; all start when the gate opens. */
static void start(struct share *s, const struct gate *gate)
{
	struct crowd c;

	if (fork())
		return;
	gate_join(gate);
	begin(&c, s);
	gate_pass(gate);
	live(&c);
	exit(0);
}

int main(int argc, char **argv)
{
	int n = argc - 2, connecting = argc > 2 && !strcmp(argv[1], "connects");
	struct share *all = mmap(NULL, SERVERS * sizeof(*all),
				 PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t began, joined = 0, passed = 0, ended = 0;
	int status, bad = 0;
	struct gate gate;
	uint32_t agents;
	double servers_ms = 0, ours_ms = 0;
	long memory = 0;

	if (n < 1 || n > SERVERS + 1) {
		fputs(usage, stderr);
		return 2;
	}
	sim_files();
	if (connecting) {
		parse(all, argv[3]);
		connects(all, (uint32_t)atoi(argv[2]));
		return 0;
	}
	agents = (uint32_t)atoi(argv[1]);
	gate_init(&gate);
	for (int i = 0; i < n; i++) {
		parse(&all[i], argv[i + 2]);
		all[i].agents = agents / (uint32_t)n;
		start(&all[i], &gate);
	}
	if (gate_await(&gate, n) < 0)
		return 1;
	began = clock_ns();
	gate_open(&gate);
	for (int i = 0; i < n; i++) {
		wait(&status);
		bad |= status;
	}
	if (bad)
		return 1;
	for (int i = 0; i < n; i++) {
		joined = all[i].joined_ns > joined ? all[i].joined_ns : joined;
		passed = all[i].passed_ns > passed ? all[i].passed_ns : passed;
		ended = all[i].ended_ns > ended ? all[i].ended_ns : ended;
		memory += all[i].memory;
		servers_ms += (double)all[i].server_cpu_ns / 1e6;
		ours_ms += (double)all[i].our_cpu_ns / 1e6;
	}
	printf("%u %d %.1f %.1f %.1f %ld %.0f %.1f %.1f\n", agents, n,
	       (double)(joined - began) / 1e6, (double)(passed - began) / 1e6,
	       (double)(ended - began) / 1e6, memory / (2 * (long)agents),
	       agents * 1e9 / (double)(joined - began), servers_ms, ours_ms);
	return 0;
}
