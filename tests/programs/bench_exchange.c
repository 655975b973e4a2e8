/* bench_exchange: every rank of a large world gets the bytes of all others over
 * one tree of its hosts: values go up, joined on the way; the whole goes down,
 * passed on as it comes. Ranks of a host have their host's copy. Sockets are
 * real, and each host has a loopback address of its own. */
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/programs/gate.h"
#include "tests/programs/simulated.h"

static const char usage[] =
	"bench_exchange RANKS RANKS_A_HOST BYTES FANOUT PROCESSES\n"
	"  prints ranks, hosts, levels, seconds, MiB sent in all, MiB sent by\n"
	"  the busiest host, and what one server would send\n";

enum { FANOUT_MAX = 64, CHUNK = 64 << 10, BUFFER = 128 << 10, PROCESSES = 16,
       PORT = 29333 };

struct plan {
	uint32_t ranks, per_host, bytes, fanout, processes, hosts;
	size_t whole; /* of all ranks together */
};

/* One host. Its subtree's values lie in the order of a walk: its own, then each
 * child's subtree; each item names its rank. */
struct host {
	uint32_t number, nchildren, here; /* children connected */
	int listener, parent;
	int child[FANOUT_MAX];
	size_t child_at[FANOUT_MAX]; /* sent of the chunk that is under way */
	char *up;       /* its subtree's items; the root's is the whole */
	size_t up_size, up_got[FANOUT_MAX], up_sent;
	uint32_t up_full; /* children that have sent all */
	char *chunk;
	size_t chunk_len, got; /* got: of the whole, so far */
	uint64_t sum, sent;
	int done;
};

struct shared {
	int failed;
	uint64_t ended_ns, sent, busiest;
};

static struct plan plan;
static struct shared *shared;
static struct host *hosts; /* of this process, by number / processes */
static int epoll;
static uint32_t left;

/* ---- the tree ---- */

static size_t item(void)
{
	return sizeof(uint32_t) + plan.bytes;
}

static uint32_t hosts_below(uint32_t h)
{
	uint32_t n = 1, c;

	for (c = h * plan.fanout + 1;
	     c <= h * plan.fanout + plan.fanout && c < plan.hosts; c++)
		n += hosts_below(c);
	return n;
}

static struct sockaddr_in address(uint32_t h)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons(PORT)};

	/* 127.1.0.1 and on */
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (1 << 16) + h);
	return a;
}

static char value_of(uint32_t rank, uint32_t i)
{
	return (char)(rank * 31 + i);
}

static void fill_own(struct host *h)
{
	char *p = h->up;

	for (uint32_t i = 0; i < plan.per_host; i++) {
		uint32_t rank = h->number * plan.per_host + i;

		memcpy(p, &rank, sizeof rank);
		p += sizeof rank;
		for (uint32_t k = 0; k < plan.bytes; k++)
			*p++ = value_of(rank, k);
	}
}

/* Whoever misses a value or has one twice has another sum. at: where p lies in
 * the whole; however it is cut, the sums of its parts are that of it. */
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

static void watch(struct host *h, int fd, uint32_t events)
{
	struct epoll_event ev = {events, {.ptr = h}};

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
	memset(h->child_at, 0, sizeof h->child_at);
}

static void end_host(struct host *h)
{
	h->done = 1;
	left--;
	__atomic_add_fetch(&shared->sent, h->sent, __ATOMIC_RELAXED);
	if (h->sent > shared->busiest) /* near enough with two processes */
		shared->busiest = h->sent;
}

/* A chunk is read when all children have the last one. */
static void go_down(struct host *h)
{
	size_t want = CHUNK, n;
	ssize_t r;

	while (pass_on(h)) {
		if (h->got == plan.whole) {
			end_host(h);
			return;
		}
		n = plan.whole - h->got < want ? plan.whole - h->got : want;
		if (h->number == 0) {
			memcpy(h->chunk, h->up + h->got, n);
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

/* ---- up ---- */

static void go_up(struct host *h)
{
	ssize_t n;

	if (h->up_full < h->nchildren)
		return;
	if (h->number == 0) {
		go_down(h);
		return;
	}
	while (h->up_sent < h->up_size) {
		n = send(h->parent, h->up + h->up_sent, h->up_size - h->up_sent,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN)
			sim_die("sending to the parent");
		if (n < 0) {
			watch(h, h->parent, EPOLLOUT);
			return;
		}
		h->up_sent += (size_t)n;
		h->sent += (uint64_t)n;
	}
	free(h->up);
	h->up = NULL;
	go_down(h);
}

static size_t below(uint32_t h)
{
	return (size_t)hosts_below(h) * plan.per_host * item();
}

/* A child says nothing of who it is but by its own items: those of child c have
 * their place behind the subtrees of the children before it. */
static void take_from(struct host *h, uint32_t c)
{
	size_t at = (size_t)plan.per_host * item(), size;
	uint32_t number = h->number * plan.fanout + 1;
	ssize_t n;

	for (uint32_t i = 0; i < c; i++)
		at += below(number + i);
	size = below(number + c);
	while (h->up_got[c] < size) {
		n = recv(h->child[c], h->up + at + h->up_got[c],
			 size - h->up_got[c], MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN))
			sim_die("a child closed");
		if (n < 0)
			return;
		h->up_got[c] += (size_t)n;
	}
	h->up_full++;
	watch(h, h->child[c], 0);
}

static void take_child(struct host *h)
{
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	uint32_t c;
	int fd = accept4(h->listener, (struct sockaddr *)&from, &len,
			 SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	c = ntohl(from.sin_addr.s_addr) - INADDR_LOOPBACK - (1 << 16) -
	    (h->number * plan.fanout + 1);
	if (c >= h->nchildren || h->child[c] >= 0)
		sim_die("who connects is no child");
	h->child[c] = fd;
	if (++h->here == h->nchildren)
		close(h->listener);
	watch(h, fd, EPOLLIN);
}

static void on_event(struct host *h)
{
	if (h->done)
		return;
	if (h->here < h->nchildren)
		take_child(h);
	for (uint32_t c = 0; h->up && c < h->nchildren; c++)
		if (h->child[c] >= 0 &&
		    h->up_got[c] < below(h->number * plan.fanout + 1 + c))
			take_from(h, c);
	if (h->up)
		go_up(h);
	else
		go_down(h);
}

/* ---- life ---- */

/* Thousands of hosts share this machine's memory for sockets. */
static void bound(int fd)
{
	int size = BUFFER;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
}

static void listen_at(struct host *h)
{
	struct sockaddr_in own = address(h->number);
	int one = 1;

	h->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC |
			     SOCK_NONBLOCK, 0);
	setsockopt(h->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	bound(h->listener);
	if (h->listener < 0 ||
	    bind(h->listener, (struct sockaddr *)&own, sizeof own) ||
	    listen(h->listener, FANOUT_MAX))
		sim_die("listening");
	watch(h, h->listener, EPOLLIN);
}

static void connect_up(struct host *h)
{
	struct sockaddr_in own = address(h->number);
	struct sockaddr_in to = address((h->number - 1) / plan.fanout);

	own.sin_port = 0;
	h->parent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bound(h->parent);
	if (h->parent < 0 ||
	    bind(h->parent, (struct sockaddr *)&own, sizeof own) ||
	    connect(h->parent, (struct sockaddr *)&to, sizeof to))
		sim_die("connecting");
	fcntl(h->parent, F_SETFL, O_NONBLOCK);
}

static void prepare(struct host *h, uint32_t number)
{
	h->number = number;
	h->listener = h->parent = -1;
	memset(h->child, -1, sizeof h->child);
	for (uint32_t c = number * plan.fanout + 1;
	     c <= number * plan.fanout + plan.fanout && c < plan.hosts; c++)
		h->nchildren++;
	h->up_size = below(number);
	h->up = malloc(h->up_size);
	h->chunk = malloc(CHUNK);
	if (!h->up || !h->chunk)
		sim_die("memory");
	fill_own(h);
	if (h->nchildren)
		listen_at(h);
}

static uint64_t expected_sum(void)
{
	static char one[1 << 16];
	uint64_t sum = 0;

	for (uint32_t r = 0; r < plan.ranks; r++) {
		memcpy(one, &r, sizeof r);
		for (uint32_t k = 0; k < plan.bytes; k++)
			one[sizeof r + k] = value_of(r, k);
		sum += sum_of(one, item(), 0);
	}
	return sum;
}

/* The hosts p, p + processes, ... */
static void live(uint32_t p, uint64_t expected, const struct gate *begin,
		 const struct gate *end)
{
	struct epoll_event events[SIM_EVENTS];
	uint32_t n = (plan.hosts - p + plan.processes - 1) / plan.processes;

	gate_join(begin);
	gate_join(end);
	sim_files();
	epoll = epoll_create1(EPOLL_CLOEXEC);
	hosts = calloc(n, sizeof *hosts);
	for (uint32_t i = 0; i < n; i++)
		prepare(&hosts[i], p + i * plan.processes);
	gate_pass(begin);
	left = n;
	for (uint32_t i = 0; i < n; i++)
		if (hosts[i].number)
			connect_up(&hosts[i]);
	for (uint32_t i = 0; i < n; i++)
		on_event(&hosts[i]);
	while (left) {
		int k = epoll_wait(epoll, events, SIM_EVENTS, -1);

		for (int i = 0; i < k; i++)
			on_event(events[i].data.ptr);
	}
	for (uint32_t i = 0; i < n; i++)
		if (hosts[i].sum != expected)
			shared->failed = 1;
	/* what is closed while it is on its way the kernel may drop */
	gate_pass(end);
	exit(0);
}

int main(int argc, char **argv)
{
	uint64_t began, sum;
	uint32_t levels = 0;
	struct gate begin, end;
	int status, bad = 0;

	if (argc != 6) {
		fputs(usage, stderr);
		return 2;
	}
	plan.ranks = (uint32_t)atoi(argv[1]);
	plan.per_host = (uint32_t)atoi(argv[2]);
	plan.bytes = (uint32_t)atoi(argv[3]);
	plan.fanout = (uint32_t)atoi(argv[4]);
	plan.processes = (uint32_t)atoi(argv[5]);
	if (!plan.per_host || plan.ranks % plan.per_host || !plan.fanout ||
	    plan.fanout > FANOUT_MAX || !plan.processes ||
	    plan.processes > PROCESSES || item() % 4 || item() > 1 << 16)
		return 2;
	plan.hosts = plan.ranks / plan.per_host;
	plan.whole = plan.ranks * item();
	for (uint32_t h = plan.hosts - 1; h; h = (h - 1) / plan.fanout)
		levels++;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	gate_init(&begin);
	gate_init(&end);
	sum = expected_sum();
	for (uint32_t p = 0; p < plan.processes; p++)
		if (fork() == 0)
			live(p, sum, &begin, &end);
	if (gate_await(&begin, (int)plan.processes) < 0)
		return 1;
	began = clock_ns();
	gate_open(&begin);
	bad = gate_await(&end, (int)plan.processes);
	gate_open(&end);
	for (uint32_t p = 0; p < plan.processes; p++) {
		wait(&status);
		bad |= status;
	}
	if (bad || shared->failed) {
		fprintf(stderr, "bench_exchange: a host has not got all\n");
		return 1;
	}
	printf("%u ranks on %u hosts, %u bytes each, %u levels of %u: %.2f s, "
	       "%.0f MiB sent in all, %.1f MiB by the busiest host (one server "
	       "to each host: %.0f MiB, to each rank: %.0f MiB)\n", plan.ranks,
	       plan.hosts, plan.bytes, levels, plan.fanout,
	       (double)(clock_ns() - began) / 1e9,
	       (double)shared->sent / 1048576,
	       (double)shared->busiest / 1048576,
	       (double)plan.whole * plan.hosts / 1048576,
	       (double)plan.whole * plan.ranks / 1048576);
	return 0;
}
