/* bench_store: the server's CPU time for an operation of a store. A plain epoll
 * server that echoes messages of the same sizes runs alternately with it. The
 * load is one thread with one pending request per connection. With DDP_TOKEN
 * the clients authenticate to ddprdzv and the traffic is encrypted; then
 * bench_store also prints libsodium's time for a request and its reply. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sock.h"
#include "rendezvous/wire.h"
#include "tests/bench/bench_echo.h"
#include "tests/bench/bench_sealed.h"

static const char usage[] =
	"bench_store ROUNDS MS CLIENTS TARGET=HOST:PORT/PID...\n"
	"  TARGET: ddprdzv (both codecs), tcpstore (PyTorch 1.13's), redis\n"
	"bench_store pipelined ROUNDS MS HOST:PORT/PID   (of ddprdzv)\n"
	"  prints a line for each operation: the server's microseconds of\n"
	"  CPU time for one, the echo's beside it, their ratio, operations/s\n";

enum { MAX_CLIENTS = 4096, TARGETS = 8, ROUNDS_MAX = 64, EVENTS = 1024,
       PIPELINE = 128, PIPES = 8 };

/* The traffic of a connection: one request and its reply, or two in turn. */
struct talk {
	const char *name;
	struct buf hello;     /* sent first; its reply has hello_reply bytes */
	size_t hello_reply;
	struct buf request[2];
	size_t reply[2];
	int turns;
	int has_ids;   /* the header of our own protocol has ids */
	int encrypted; /* authenticates before the first request */
};

struct target {
	char kind[16];
	struct endpoint at;
	pid_t pid;
};

struct load {
	int fds[MAX_CLIENTS];
	size_t due[MAX_CLIENTS]; /* bytes of pending replies */
	int turn[MAX_CLIENTS];
	int n, depth, epoll;
};

struct figures {
	double us, rate;
};

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void start_echo(struct target *t)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) ||
	    listen(fd, 4096) || getsockname(fd, (struct sockaddr *)&a, &len))
		fail("the echo server");
	t->pid = fork();
	if (t->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGPIPE, SIG_IGN);
		pin(0);
		echo_loop(fd);
	}
	close(fd);
	strcpy(t->kind, "echo");
	strcpy(t->at.host, "127.0.0.1");
	t->at.port = ntohs(a.sin_port);
}

/* ---- load ---- */

static int open_to(const struct endpoint *at)
{
	struct sock_addr a;
	struct err e = ERR_INIT;
	int fd = sock_resolve(at, &a, 1, &e);

	if (fd >= 0)
		fd = sock_connect(&a, 5000, &e);
	if (fd < 0) {
		fprintf(stderr, "bench_store: %s\n", e.text);
		exit(1);
	}
	return fd;
}

static void receive_all(int fd, void *p, size_t n)
{
	ssize_t got = recv(fd, p, n, MSG_WAITALL);

	if (got == (ssize_t)n)
		return;
	fprintf(stderr, "bench_store: the server closed after %zd bytes of "
		"%zu\n", got, n);
	exit(1);
}

static struct wire_hello hello_of(enum wire_role role);

/* Authenticates, then sends the first request. */
static void enter(int fd, const struct talk *k)
{
	const struct wire_hello h = hello_of(WIRE_WORKER);
	struct buf in = BUF_INIT(1 << 16);

	raw_begin(fd);
	raw_prove(fd, &h, &in);
	send_text(fd, k->hello.data, k->hello.len);
	while (in.len < WIRE_HEADER_SIZE)
		if (!raw_read(fd, &in))
			fail("the first reply");
	buf_release(&in);
}

static void connect_all(struct load *l, const struct target *t,
			const struct talk *k, int n)
{
	const uint32_t sizes[4] = {
		(uint32_t)k->request[0].len, (uint32_t)k->reply[0],
		(uint32_t)k->request[k->turns - 1].len,
		(uint32_t)k->reply[k->turns - 1]};
	struct epoll_event ev = {.events = EPOLLIN};
	char reply[512];

	l->n = n;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < n; i++) {
		l->fds[i] = open_to(&t->at);
		l->due[i] = 0;
		l->turn[i] = 0;
		if (!strcmp(t->kind, "echo"))
			send_all(l->fds[i], sizes, sizeof(sizes));
		else if (k->encrypted)
			enter(l->fds[i], k);
		else if (k->hello.len)
			send_all(l->fds[i], k->hello.data, k->hello.len);
		if (strcmp(t->kind, "echo") && k->hello_reply &&
		    !k->encrypted)
			receive_all(l->fds[i], reply, k->hello_reply);
		ev.data.u32 = (uint32_t)i;
		epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->fds[i], &ev);
	}
}

static void disconnect_all(struct load *l)
{
	for (int i = 0; i < l->n; i++) {
		close(l->fds[i]);
		raw_begin(l->fds[i]);
	}
	close(l->epoll);
}

/* An authenticated client gets the last reply again for the last id. */
static void put_next_id(char *frame)
{
	static uint32_t last = 16;
	uint32_t id = htole32(++last);

	memcpy(frame + WIRE_HEADER_SIZE - sizeof(id), &id, sizeof(id));
}

/* The number of requests at once, for each run. */
static void ask(struct load *l, const struct talk *k, int i)
{
	static char many[PIPELINE * 512];
	size_t n = 0;

	for (int d = 0; d < l->depth; d++) {
		const struct buf *b = &k->request[l->turn[i]];

		memcpy(many + n, b->data, b->len);
		if (k->has_ids)
			put_next_id(many + n);
		n += b->len;
		l->due[i] += k->reply[l->turn[i]];
		l->turn[i] = (l->turn[i] + 1) % k->turns;
	}
	send_text(l->fds[i], many, n);
}

static long take_reply(struct load *l, const struct talk *k, int i)
{
	static char bytes[65536];
	ssize_t n = read_text(l->fds[i], bytes, sizeof(bytes));

	if (n <= 0)
		fail("a reply");
	if ((size_t)n > l->due[i]) {
		fprintf(stderr, "bench_store: %s: %zd bytes more in reply, "
			"not %zu\n", k->name, n, l->due[i]);
		exit(1);
	}
	l->due[i] -= (size_t)n;
	if (l->due[i])
		return 0;
	ask(l, k, i);
	return l->depth;
}

static struct figures run(struct load *l, const struct target *t,
			  const struct talk *k, int n, int ms)
{
	struct epoll_event events[EVENTS];
	uint64_t begin, end;
	double cpu;
	long ops = 0;

	connect_all(l, t, k, n);
	cpu = cpu_seconds(t->pid);
	begin = clock_ns();
	for (int i = 0; i < n; i++)
		ask(l, k, i);
	do {
		int m = epoll_wait(l->epoll, events, EVENTS, 1000);

		for (int i = 0; i < m; i++)
			ops += take_reply(l, k, (int)events[i].data.u32);
		end = clock_ns();
	} while (end - begin < (uint64_t)ms * 1000000);
	cpu = cpu_seconds(t->pid) - cpu;
	disconnect_all(l);
	return (struct figures){cpu / (double)ops * 1e6,
				(double)ops * 1e9 / (double)(end - begin)};
}

/* ---- requests ---- */

enum { GET_KEY_LEN = 14, VALUE_LEN = 16 };
static const char get_key[] = "/key0123456789", counter[] = "/counter0123456",
		  value[] = "0123456789abcdef";

static struct talk *new_talk(const char *name, size_t reply)
{
	struct talk *k = calloc(1, sizeof(*k));

	k->name = name;
	k->turns = 1;
	k->reply[0] = reply;
	buf_init(&k->hello, 1 << 16);
	buf_init(&k->request[0], 1 << 16);
	buf_init(&k->request[1], 1 << 16);
	return k;
}

enum { EMPTY_REPLY = WIRE_HEADER_SIZE,
       WELCOME = WIRE_HEADER_SIZE + 16, /* without a proof */
       VALUE_REPLY = WIRE_HEADER_SIZE + 5 + VALUE_LEN,
       ADD_REPLY = WIRE_HEADER_SIZE + 8 };

static void put_set(struct buf *b)
{
	struct wire_key_value m = {SLICE_STR(get_key), SLICE_STR(value)};

	wire_put_key_value(b, WIRE_SET, WIRE_REQUEST, 2, &m);
}

static void put_get(struct buf *b)
{
	struct wire_key m = {SLICE_STR(get_key)};

	wire_put_key(b, WIRE_GET, WIRE_REQUEST, 3, &m);
}

static struct wire_hello hello_of(enum wire_role role)
{
	static const char nonce[WIRE_NONCE_SIZE];
	static char job[32];

	/* a round that a run began ends when its clients have left */
	snprintf(job, sizeof(job), "bench-%d", (int)getpid());
	return (struct wire_hello){
		.role = (uint8_t)role, .job = SLICE_STR(job),
		.host = SLICE_STR("h"), .method = WIRE_NO_PROOF,
		.nonce = SLICE(nonce, sizeof(nonce)), .proof = SLICE("", 0),
	};
}

/* A worker of our own protocol: the first to connect sets the key. */
static struct talk *ours(const char *name)
{
	const struct wire_hello h = hello_of(WIRE_WORKER);
	struct wire_add add = {SLICE_STR(counter), 1};
	struct buf item = BUF_INIT(256);
	struct talk *k = new_talk(name, EMPTY_REPLY);

	k->has_ids = 1;
	k->encrypted = getenv("DDP_TOKEN") != NULL;
	if (!k->encrypted) {
		buf_put(&k->hello, wire_preface, WIRE_PREFACE_SIZE);
		wire_put_hello(&k->hello, WIRE_HELLO, WIRE_REQUEST, 1, &h);
	}
	put_set(&k->hello);
	k->hello_reply = WIRE_GREETING_SIZE + WELCOME + EMPTY_REPLY;
	if (!strcmp(name, "get")) {
		put_get(&k->request[0]);
		k->reply[0] = VALUE_REPLY;
	} else if (!strcmp(name, "set+get")) {
		put_set(&k->request[0]);
		put_get(&k->request[1]);
		k->reply[1] = VALUE_REPLY;
		k->turns = 2;
	} else if (!strcmp(name, "add")) {
		wire_put_add(&k->request[0], WIRE_ADD, WIRE_REQUEST, 3, &add);
		k->reply[0] = ADD_REPLY;
	} else {
		buf_put_slice(&item, SLICE_STR(get_key));
		wire_put_wait(&k->request[0], WIRE_WAIT, WIRE_REQUEST, 3,
			      &(struct wire_wait){1000, {1, SLICE(item.data,
								  item.len)}});
		buf_release(&item);
	}
	return k;
}

static void torch_put_text(struct buf *b, struct slice s)
{
	buf_put_u64(b, s.len);
	buf_put(b, s.data, s.len);
}

static void torch_put(struct buf *b, int op, const char *key, int counted)
{
	buf_put_u8(b, (uint8_t)op);
	if (counted)
		buf_put_u64(b, 1);
	torch_put_text(b, SLICE_STR(key));
}

/* From 2.2 on VALIDATE comes first and has the number 0. */
static struct talk *pytorch(const char *name, int modern)
{
	struct talk *k = new_talk(name, 0);
	const int set = modern, get = 2 + modern, add = 3 + modern,
		  wait = 5 + modern;
	struct buf *r = &k->request[0];

	if (modern) { /* VALIDATE */
		buf_put_u8(&k->hello, 0);
		buf_put_u32(&k->hello, 0x3c85f7ce);
	}
	torch_put(&k->hello, set, get_key, 0);
	torch_put_text(&k->hello, SLICE_STR(value));
	if (!strcmp(name, "get")) {
		torch_put(r, get, get_key, 0);
		k->reply[0] = 8 + VALUE_LEN;
	} else if (!strcmp(name, "add")) {
		torch_put(r, add, counter, 0);
		buf_put_u64(r, 1);
		k->reply[0] = 8;
	} else if (!strcmp(name, "wait")) {
		torch_put(r, wait, get_key, 1);
		k->reply[0] = 1;
	} else { /* SET has no reply: it is sent with the GET */
		torch_put(r, set, get_key, 0);
		torch_put_text(r, SLICE_STR(value));
		torch_put(r, get, get_key, 0);
		k->reply[0] = 8 + VALUE_LEN;
	}
	return k;
}

static struct talk *redis(const char *name)
{
	int is_get = !strcmp(name, "get");
	struct talk *k = new_talk(name, is_get ? 23 : 11);

	buf_printf(&k->hello, "*3\r\n$3\r\nSET\r\n$14\r\n%s\r\n$16\r\n%s\r\n"
		   "*3\r\n$3\r\nSET\r\n$15\r\n%s\r\n$8\r\n10000000\r\n",
		   get_key, value, counter);
	k->hello_reply = 10;
	if (is_get)
		buf_printf(&k->request[0], "*2\r\n$3\r\nGET\r\n$14\r\n%s\r\n",
			   get_key);
	else
		buf_printf(&k->request[0], "*2\r\n$4\r\nINCR\r\n$15\r\n%s\r\n",
			   counter);
	return k;
}

/* ---- a round's keyspace: an agent joins and stays ---- */

/* Returns the port for PyTorch's clients. */
static uint16_t join(const struct target *t, int *fd)
{
	const struct wire_hello h = hello_of(WIRE_AGENT);
	struct wire_join j = {
		.node_id = SLICE_STR("n"), .host = SLICE_STR("h"),
		.addr = SLICE_STR("127.0.0.1"), .master_port = 1,
		.hosts_server = 1, .node_rank = -1, .min_nodes = 1,
		.max_nodes = 1, .nproc = MAX_CLIENTS,
		.role = SLICE_STR("default"), .lease_ms = 3600000,
		.agent_store = 1, .store_open = 1};
	struct buf out = BUF_INIT(1 << 16);
	struct buf in = BUF_INIT(1 << 16);
	struct wire_frame f = {0};
	struct wire_start start;
	struct err e = ERR_INIT;

	*fd = open_to(&t->at);
	raw_begin(*fd);
	raw_prove(*fd, &h, &in);
	wire_put_join(&out, WIRE_JOIN, WIRE_REQUEST, 2, &j);
	raw_send(*fd, &out);
	buf_release(&out);
	while (f.type != WIRE_START) {
		long n = wire_cut(SLICE(in.data, in.len), 4096, &f, &e);

		if (n < 0 || f.kind == WIRE_ERROR_REPLY ||
		    (n == 0 && !raw_read(*fd, &in)))
			fail("joining");
		if (f.type != WIRE_START)
			buf_consume(&in, (size_t)n);
	}
	if (wire_get_start(&f, &start, &e) < 0 || !start.agent_store)
		fail("START");
	buf_release(&in);
	return start.master_port;
}

/* ---- the table ---- */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_size);
	return v[n / 2];
}

static void compare(const char *who, const struct target *t,
		    const struct target *echo, struct talk *k, int clients,
		    int rounds, int ms, int depth)
{
	static struct load l;
	double us[ROUNDS_MAX], floor[ROUNDS_MAX], ratios[ROUNDS_MAX];
	double rates[ROUNDS_MAX], f, u;

	l.depth = depth;
	for (int r = 0; r < rounds; r++) {
		struct figures a = run(&l, echo, k, clients, ms);
		struct figures b = run(&l, t, k, clients, ms);

		floor[r] = a.us;
		us[r] = b.us;
		ratios[r] = b.us / a.us;
		rates[r] = b.rate;
	}
	u = median(us, rounds);
	f = median(floor, rounds);
	if (k->encrypted)
		print_sodium(k->request[0].len * (size_t)depth,
			     k->reply[0] * (size_t)depth, depth);
	printf("%-14s %-8s %5d clients  %6.3f us/op  echo %6.3f  ratio %5.2f"
	       "  %8.0f ops/s  %5.2f M ops per core-second\n", who, k->name,
	       clients, u, f, median(ratios, rounds), median(rates, rounds),
	       1 / u);
	fflush(stdout);
	for (int i = 0; i < 2; i++)
		buf_release(&k->request[i]);
	buf_release(&k->hello);
	free(k);
}

static void parse_target(struct target *t, const char *text)
{
	const char *eq = strchr(text, '='), *slash = strchr(text, '/');
	char at[300];
	struct err e = ERR_INIT;

	memset(t, 0, sizeof(*t));
	snprintf(t->kind, sizeof(t->kind), "%.*s", eq ? (int)(eq - text) : 0,
		 text);
	eq = eq ? eq + 1 : text;
	if (!slash || slash < eq) {
		fputs(usage, stderr);
		exit(2);
	}
	snprintf(at, sizeof(at), "%.*s", (int)(slash - eq), eq);
	if (endpoint_parse(&t->at, at, 0, &e) < 0)
		fail(e.text);
	t->pid = atoi(slash + 1);
}

static const char *const names[] = {"get", "set+get", "add", "wait"};
enum { NAMES = sizeof(names) / sizeof(*names) };

static void both_codecs(struct target t, const struct target *echo,
			int clients, int rounds, int ms, int depth)
{
	int agent, i;
	struct target torch = t;

	torch.at.port = join(&t, &agent);
	for (i = 0; i < NAMES; i++)
		compare("ddprdzv", &t, echo, ours(names[i]), clients, rounds,
			ms, depth);
	for (i = 0; i < NAMES; i++)
		compare("ddprdzv, torch", &torch, echo, pytorch(names[i], 1),
			clients, rounds, ms, depth);
	close(agent);
}

static void others(const struct target *t, const struct target *echo,
		   int clients, int rounds, int ms)
{
	int i;

	for (i = 0; i < NAMES; i++) {
		if (!strcmp(t->kind, "tcpstore"))
			compare("TCPStore 1.13", t, echo, pytorch(names[i], 0),
				clients, rounds, ms, 1);
		else if (!strcmp(names[i], "get") || !strcmp(names[i], "add"))
			compare("redis", t, echo, redis(names[i]), clients,
				rounds, ms, 1);
	}
}

int main(int argc, char **argv)
{
	struct target echo, t;
	int pipelined = argc > 1 && !strcmp(argv[1], "pipelined");
	struct rlimit files = {16384, 16384};
	int rounds, i;

	if (argc < 5) {
		fputs(usage, stderr);
		return 2;
	}
	setrlimit(RLIMIT_NOFILE, &files);
	start_echo(&echo);
	pin(1);
	rounds = atoi(argv[pipelined ? 2 : 1]);
	rounds = rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
	for (i = 4; i < argc; i++) {
		parse_target(&t, argv[i]);
		if (pipelined)
			both_codecs(t, &echo, PIPES, rounds, atoi(argv[3]),
				    PIPELINE);
		else if (!strcmp(t.kind, "ddprdzv"))
			both_codecs(t, &echo, atoi(argv[3]), rounds,
				    atoi(argv[2]), 1);
		else
			others(&t, &echo, atoi(argv[3]), rounds,
			       atoi(argv[2]));
	}
	kill(echo.pid, SIGKILL);
	return 0;
}
