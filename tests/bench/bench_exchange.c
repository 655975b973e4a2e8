/* bench_exchange: every rank of a large world gets the bytes of all others from
 * a real ddprdzv, by SHARE. Agents and workers are simulated, with a connection
 * each; so are the sockets between the first ranks of hosts, as the server
 * assigns them. Each host has its own loopback address. The reads of a host's
 * other ranks from its first are omitted: they only cost that host. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "rendezvous/client/client.h"
#include "tests/bench/gate.h"
#include "tests/programs/peers/simulated.h"

static const char usage[] =
	"bench_exchange RANKS RANKS_A_HOST BYTES PROCESSES HOST:PORT/PID\n"
	"  prints what it was, seconds, the server's CPU, MiB that left the\n"
	"  server, that a GATHER would send, and that the hosts sent\n";

enum { FANOUT_MAX = 64, CHUNK = 64 << 10, BUFFER = 128 << 10, PROCESSES = 16,
       PORT = 29333, MIB = 1 << 20,
       /* this many unauthenticated connections may come from one address */
       UNPROVEN = 120 };

struct plan {
	uint32_t ranks, per_host, bytes, processes, hosts;
	size_t whole; /* size of the list of all ranks */
	struct endpoint server;
	struct sockaddr_in to;
	int pid; /* the server's */
};

/* A host, represented by its first rank. */
struct host {
	uint32_t number, nchildren, here; /* children with a token */
	int told; /* the server has named its children and its parent */
	int listener, parent;
	int child[FANOUT_MAX]; /* connected, perhaps without a token yet */
	int known[FANOUT_MAX];
	uint32_t nconnected;
	size_t child_at[FANOUT_MAX]; /* bytes sent of the current chunk */
	const char *all; /* the root's */
	char *chunk;
	size_t chunk_len, got; /* got: bytes of the list so far */
	uint64_t sum, sent;
	int done;
};

struct shared {
	int failed;
	uint64_t sum; /* sum of the root's list, whose order was checked */
	uint64_t left_server, sent, busiest;
};

static struct plan plan;
static struct shared *shared;
static struct host *hosts; /* this process's, by number / processes */
static struct sim *agents, *workers;
static struct buf out;
static int epoll;
static uint32_t left; /* hosts without the whole list; ranks without a reply */
static uint32_t proved; /* authenticated connections of agents or workers */

static struct sockaddr_in address(uint32_t h)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons(PORT)};

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (1 << 16) + h);
	return a;
}

static void token_of(uint32_t h, char *token)
{
	memset(token, 0x55, WIRE_TOKEN_SIZE);
	memcpy(token, &h, sizeof(h));
}

static void fill_value(uint32_t rank, char *p)
{
	for (uint32_t k = 0; k < plan.bytes; k++)
		p[k] = (char)(rank * 31 + k);
	memcpy(p, &rank, sizeof(rank));
}

/* A missing or repeated value changes the sum. at: position of p in the list.
 * The sums of parts add up to the sum of the list, wherever it is cut. */
static uint64_t sum_of(const char *p, size_t n, size_t at)
{
	const uint64_t odd = 0x9e3779b97f4a7c15u;
	uint64_t sum = 0;
	uint32_t word;

	for (; n && at % 4; n--, at++)
		sum += ((uint64_t)(unsigned char)*p++ << at % 4 * 8) * odd;
	for (; n >= 4; n -= 4, p += 4) {
		memcpy(&word, p, 4);
		sum += word * odd;
	}
	for (; n; n--, at++)
		sum += ((uint64_t)(unsigned char)*p++ << at % 4 * 8) * odd;
	return sum;
}

/* The lowest bit marks the pointer as a host's, not a simulated client's. */
static void watch(struct host *h, int fd, uint32_t events)
{
	struct epoll_event ev = {events, {.ptr = (char *)h + 1}};

	if (epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &ev) && errno == ENOENT)
		epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev);
}

/* ---- down ---- */

/* 1: all children have the chunk. */
static int pass_on(struct host *h)
{
	int all = 1;

	for (uint32_t c = 0; c < h->nchildren; c++) {
		while (h->child_at[c] < h->chunk_len) {
			ssize_t n = send(h->child[c], h->chunk + h->child_at[c],
					 h->chunk_len - h->child_at[c],
					 MSG_NOSIGNAL | MSG_DONTWAIT);

			if (n < 0 && errno != EAGAIN)
				sim_die("sending to a child");
			if (n < 0)
				break;
			h->child_at[c] += (size_t)n;
			h->sent += (uint64_t)n;
		}
		if (h->child_at[c] < h->chunk_len)
			all = 0;
		watch(h, h->child[c], h->child_at[c] < h->chunk_len ?
		      EPOLLOUT : 0);
	}
	return all;
}

static void new_chunk(struct host *h, size_t len)
{
	h->sum += sum_of(h->chunk, len, h->got);
	h->got += len;
	h->chunk_len = len;
	memset(h->child_at, 0, sizeof(h->child_at));
}

static void end_host(struct host *h)
{
	h->done = 1;
	left--;
	__atomic_add_fetch(&shared->sent, h->sent, __ATOMIC_RELAXED);
	if (h->sent > shared->busiest) /* two processes may overlap a little */
		shared->busiest = h->sent;
}

/* A chunk has been read when all children have the chunk before it. */
static void go_down(struct host *h)
{
	size_t want = CHUNK, n;
	ssize_t r;

	if (!h->told || h->here < h->nchildren)
		return;
	while (pass_on(h)) {
		if (h->got == plan.whole) {
			end_host(h);
			return;
		}
		n = plan.whole - h->got < want ? plan.whole - h->got : want;
		if (h->all) {
			memcpy(h->chunk, h->all + h->got, n);
			new_chunk(h, n);
			continue;
		}
		r = recv(h->parent, h->chunk, n, MSG_DONTWAIT);
		if (r == 0 || (r < 0 && errno != EAGAIN))
			sim_die("the parent closed");
		if (r < 0) {
			watch(h, h->parent, EPOLLIN);
			return;
		}
		new_chunk(h, (size_t)r);
	}
	if (h->parent >= 0)
		watch(h, h->parent, 0);
}

/* ---- children ---- */

static void take_child(struct host *h)
{
	int fd = accept4(h->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0 && h->nconnected == FANOUT_MAX)
		sim_die("too many children");
	if (fd >= 0) {
		h->child[h->nconnected++] = fd;
		watch(h, fd, EPOLLIN);
	}
}

static void hear_child(struct host *h, uint32_t c)
{
	char token[WIRE_TOKEN_SIZE], mine[WIRE_TOKEN_SIZE];
	ssize_t n = recv(h->child[c], token, sizeof(token), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	token_of(h->number, mine);
	if (n != sizeof(token) || memcmp(token, mine, sizeof(token)))
		sim_die("a client that is no child connected");
	h->known[c] = 1;
	h->here++;
	watch(h, h->child[c], 0);
}

static void on_host(struct host *h)
{
	if (h->done)
		return;
	if (h->here < (h->told ? h->nchildren : FANOUT_MAX))
		take_child(h);
	for (uint32_t c = 0; c < h->nconnected; c++)
		if (!h->known[c])
			hear_child(h, c);
	go_down(h);
}

/* Thousands of hosts share the memory for sockets of this machine. */
static void bound(int fd)
{
	int size = BUFFER;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

static void listen_at(struct host *h)
{
	struct sockaddr_in own = address(h->number);
	int one = 1;

	h->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC |
			     SOCK_NONBLOCK, 0);
	setsockopt(h->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	bound(h->listener);
	if (h->listener < 0 ||
	    bind(h->listener, (struct sockaddr *)&own, sizeof(own)) ||
	    listen(h->listener, FANOUT_MAX))
		sim_die("listening");
	watch(h, h->listener, EPOLLIN);
}

/* Connects to the address that the server named, another of our hosts. */
static void connect_up(struct host *h, const struct wire_shared *told)
{
	struct sockaddr_in own = address(h->number), to;
	char where[64];

	snprintf(where, sizeof(where), "%.*s:%u", SLICE_FMT(told->addr),
		 told->port);
	to = sim_address(where);
	own.sin_port = 0;
	h->parent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bound(h->parent);
	if (h->parent < 0 ||
	    bind(h->parent, (struct sockaddr *)&own, sizeof(own)) ||
	    connect(h->parent, (struct sockaddr *)&to, sizeof(to)) ||
	    send(h->parent, told->token.data, told->token.len, MSG_NOSIGNAL) !=
		    WIRE_TOKEN_SIZE)
		sim_die("connecting");
	fcntl(h->parent, F_SETFL, O_NONBLOCK);
}

static void prepare(struct host *h, uint32_t number)
{
	h->number = number;
	h->listener = h->parent = -1;
	h->chunk = malloc(CHUNK);
	if (!h->chunk)
		sim_die("memory");
	listen_at(h);
}

/* The server's count includes the other ranks of this host. */
static void take_told(struct host *h, const struct wire_shared *told)
{
	h->nchildren = told->comers - (plan.per_host - 1);
	h->told = 1;
	if (told->port)
		connect_up(h, told);
	on_host(h);
}

/* ---- the job ---- */

static void on_frame(void *owner, struct sim *s, const struct wire_frame *f)
{
	struct wire_shared told;
	struct wire_start start;
	struct err e = ERR_INIT;

	if (f->type == WIRE_HELLO) {
		proved++;
	} else if (f->type == WIRE_START) {
		if (wire_get_start(f, &start, &e) < 0)
			sim_die(e.text);
		s->round = start.round;
		left--;
	} else if (f->type == WIRE_SHARE) {
		__atomic_add_fetch(&shared->left_server,
				   WIRE_HEADER_SIZE + f->body.len,
				   __ATOMIC_RELAXED);
		if (wire_get_shared(f, &told, &e) < 0 || !told.port)
			sim_die("a torn share");
		left--;
		if (s->rank % plan.per_host == 0)
			take_told(&hosts[s->rank / plan.per_host /
					 plan.processes], &told);
	}
}

static void turn(void)
{
	struct epoll_event events[SIM_EVENTS];
	int n = epoll_wait(epoll, events, SIM_EVENTS, -1);

	for (int i = 0; i < n; i++) {
		char *whose = events[i].data.ptr;

		if ((uintptr_t)whose & 1)
			on_host((struct host *)(whose - 1));
		else if (!sim_read((struct sim *)whose, NULL, on_frame))
			sim_die("the server closed a connection");
	}
}

static void open_agent(uint32_t i)
{
	struct sim *s = &agents[i];
	char id[16];
	struct wire_join join = {
		.node_id = SLICE(id, 0), .host = SLICE_STR("simulated"),
		.addr = SLICE_STR("127.0.0.1"), .master_port = 1,
		.node_rank = (int32_t)hosts[i].number, .min_nodes = plan.hosts,
		.max_nodes = plan.hosts, .nproc = plan.per_host,
		.role = SLICE_STR("default"), .lease_ms = 3600000};

	join.node_id.len = (size_t)snprintf(id, sizeof(id), "n%u",
					     hosts[i].number);
	s->role = WIRE_AGENT;
	sim_open(s, &plan.to, hosts[i].number, epoll);
	buf_reset(&out);
	sim_greet(s, &out);
	wire_put_join(&out, WIRE_JOIN, WIRE_REQUEST, 2, &join);
	sim_send(s, &out);
}

static void open_worker(uint32_t i)
{
	struct sim *s = &workers[i];

	s->role = WIRE_WORKER;
	s->round = agents[i / plan.per_host].round;
	s->rank = hosts[i / plan.per_host].number * plan.per_host +
		  i % plan.per_host;
	if (s->rank == 0) { /* runs in a process of its own */
		proved++;
		return;
	}
	sim_open(s, &plan.to, plan.hosts + s->rank, epoll);
	buf_reset(&out);
	sim_greet(s, &out);
	sim_send(s, &out);
}

/* As many at a time as may be unauthenticated. */
static void open_all(uint32_t n, void (*open_one)(uint32_t i))
{
	uint32_t opened = 0;

	for (proved = 0; proved < n;) {
		for (; opened < n &&
		       opened - proved < UNPROVEN / plan.processes; opened++)
			open_one(opened);
		turn();
	}
}

static void put_share(struct wire_share *m, uint32_t rank, char *value,
		      char *token, char *addr)
{
	uint32_t h = rank / plan.per_host;
	struct sockaddr_in at = address(h);

	*m = (struct wire_share){.key = SLICE_STR("ddp/0/init"),
				 .size = plan.ranks,
				 .timeout_ms = WIRE_NO_TIMEOUT,
				 .value = SLICE(value, plan.bytes)};
	fill_value(rank, value);
	if (rank % plan.per_host)
		return;
	token_of(h, token);
	inet_ntop(AF_INET, &at.sin_addr, addr, INET_ADDRSTRLEN);
	m->addr = SLICE_STR(addr);
	m->port = PORT;
	m->token = SLICE(token, WIRE_TOKEN_SIZE);
}

static void ask(struct sim *s)
{
	static char value[1 << 16];
	char token[WIRE_TOKEN_SIZE], addr[INET_ADDRSTRLEN];
	struct wire_share m;

	put_share(&m, s->rank, value, token, addr);
	buf_reset(&out);
	wire_put_share(&out, WIRE_SHARE, WIRE_REQUEST, 2, &m);
	sim_send(s, &out);
}

/* ---- processes ---- */

/* All have their ranks; all are connected; all have the list. */
enum { STARTED, READY, END, GATES };
static struct gate gates[GATES];

static void join_gates(void)
{
	for (int i = 0; i < GATES; i++)
		gate_join(&gates[i]);
	sim_files();
	epoll = epoll_create1(EPOLL_CLOEXEC);
	buf_init(&out, 1 << 20);
}

/* Runs the hosts p, p + processes, ... */
static void live(uint32_t p)
{
	uint32_t n = (plan.hosts - p + plan.processes - 1) / plan.processes;
	uint32_t ranks = n * plan.per_host;

	join_gates();
	hosts = calloc(n, sizeof(*hosts));
	agents = calloc(n, sizeof(*agents));
	workers = calloc(ranks, sizeof(*workers));
	for (uint32_t i = 0; i < n; i++) {
		hosts[i].number = p + i * plan.processes;
		if (hosts[i].number)
			prepare(&hosts[i], hosts[i].number);
	}
	left = n;
	open_all(n, open_agent);
	while (left)
		turn();
	gate_pass(&gates[STARTED]);
	open_all(ranks, open_worker);
	gate_pass(&gates[READY]);
	left = p == 0 ? n + ranks - 2 : n + ranks;
	for (uint32_t i = p == 0; i < ranks; i++)
		ask(&workers[i]);
	while (left)
		turn();
	gate_pass(&gates[END]);
	for (uint32_t i = 0; i < n; i++)
		if (hosts[i].number && hosts[i].sum != shared->sum)
			shared->failed = 1;
	exit(0);
}

static void check_list(struct slice list)
{
	static char want[1 << 16];
	struct reader r;

	reader_init(&r, list);
	for (uint32_t i = 0; i < plan.ranks; i++) {
		struct slice v = reader_slice(&r);

		fill_value(i, want);
		if (v.len != plan.bytes || memcmp(v.data, want, v.len))
			sim_die("the list");
	}
	shared->sum = sum_of(list.data, list.len, 0);
}

/* Rank 0: a client like libddp's, which gets the whole list. */
static void live_root(void)
{
	static char value[1 << 16];
	struct wire_hello hello = {.role = WIRE_WORKER,
				   .job = SLICE_STR("bench"),
				   .host = SLICE_STR("simulated")};
	struct host h = {.number = 0};
	char token[WIRE_TOKEN_SIZE], addr[INET_ADDRSTRLEN];
	struct err e = ERR_INIT;
	struct wire_shared told;
	struct wire_share m;
	struct client *c;

	join_gates();
	prepare(&h, 0);
	put_share(&m, 0, value, token, addr);
	gate_pass(&gates[STARTED]);
	if (client_connect(&c, &plan.server, &hello, sim_auth(), 30000, &e) < 0)
		sim_die(e.text);
	gate_pass(&gates[READY]);
	if (client_share(c, &m, -1, &told, &e) < 0)
		sim_die(e.text);
	__atomic_add_fetch(&shared->left_server,
			   WIRE_HEADER_SIZE + told.values.bytes.len,
			   __ATOMIC_RELAXED);
	check_list(told.values.bytes);
	h.all = told.values.bytes.data;
	left = 1;
	take_told(&h, &told);
	while (left)
		turn();
	/* the kernel may drop data of a socket that is closed */
	gate_pass(&gates[END]);
	exit(h.sum != shared->sum);
}

static void parse(char **argv)
{
	struct err e = ERR_INIT;
	char *slash = strchr(argv[5], '/');

	plan.ranks = (uint32_t)atoi(argv[1]);
	plan.per_host = (uint32_t)atoi(argv[2]);
	plan.bytes = (uint32_t)atoi(argv[3]);
	plan.processes = (uint32_t)atoi(argv[4]);
	if (!plan.per_host || plan.ranks % plan.per_host ||
	    !plan.processes || plan.processes > PROCESSES || plan.bytes % 4 ||
	    plan.bytes < 4 || plan.bytes > 1 << 16 || !slash) {
		fputs(usage, stderr);
		exit(2);
	}
	plan.hosts = plan.ranks / plan.per_host;
	plan.whole = (size_t)plan.ranks * (4 + plan.bytes);
	plan.pid = atoi(slash + 1);
	*slash = '\0';
	plan.to = sim_address(argv[5]);
	if (endpoint_parse(&plan.server, argv[5], 0, &e) < 0)
		sim_die(e.text);
}

static void report(double s, double server_s)
{
	printf("%u ranks on %u hosts, %u bytes each: %.2f s (%.2f s of the "
	       "server's CPU); %.1f MiB left the server (by GATHER: %.0f MiB), "
	       "%.0f MiB the hosts, %.1f MiB the busiest of them\n",
	       plan.ranks, plan.hosts, plan.bytes, s, server_s,
	       (double)shared->left_server / MIB,
	       (double)plan.whole * plan.ranks / MIB,
	       (double)shared->sent / MIB, (double)shared->busiest / MIB);
}

int main(int argc, char **argv)
{
	uint64_t ns = 0, server_ns = 0;
	int status, bad = 0, n;

	if (argc != 6) {
		fputs(usage, stderr);
		return 2;
	}
	parse(argv);
	n = (int)plan.processes + 1;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < GATES; i++)
		gate_init(&gates[i]);
	for (uint32_t p = 0; p < plan.processes; p++)
		if (fork() == 0)
			live(p);
	if (fork() == 0)
		live_root();
	for (int i = STARTED; i <= READY; i++) {
		if (gate_await(&gates[i], n) < 0)
			return 1;
		server_ns = sim_cpu_ns(plan.pid);
		ns = clock_ns();
		gate_open(&gates[i]);
	}
	bad = gate_await(&gates[END], n);
	ns = clock_ns() - ns;
	server_ns = sim_cpu_ns(plan.pid) - server_ns;
	gate_open(&gates[END]);
	for (int i = 0; i < n; i++) {
		wait(&status);
		bad |= status;
	}
	if (bad || shared->failed)
		sim_die("a host has not got all");
	report((double)ns / 1e9, (double)server_ns / 1e9);
	return 0;
}
