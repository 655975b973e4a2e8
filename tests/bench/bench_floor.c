/* bench_floor: the cost of bench_agents without ddprdzv: the same connections
 * and messages, with the same sizes and order, between two plain epoll loops
 * that neither parse nor authenticate. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static const char usage[] =
	"bench_floor AGENTS\n"
	"  prints agents, ms until all have ranks, until all are through the\n"
	"  barrier; ms of CPU: the server's, the agents'\n";

enum {
	EVENTS = 512,
	WINDOW = 120, /* bench_agents' */
	/* the size of a message identifies it */
	GREETING = 56, HELLO = 132, WELCOME = 60, JOIN = 92, START = 76,
	BARRIER = 27, PASSED = 12,
};

/* The workers that wait in the barrier. */
struct hall {
	int *fds;
	uint32_t n;
};

static char bytes[4096];

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static void say(int fd, int size)
{
	must(send(fd, bytes, (size_t)size, MSG_NOSIGNAL) == size, "send");
}

static void watch(int epoll, int fd)
{
	struct epoll_event ev = {EPOLLIN, {.fd = fd}};
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	must(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) == 0, "epoll_ctl");
}

static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- the server ---- */

static void accept_all(int epoll, int listener)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
		watch(epoll, fd);
		say(fd, GREETING);
	}
}

/* Returns 1 if that was the last one. */
static int enter(struct hall *h, int fd, uint32_t size, int answer)
{
	h->fds[h->n++] = fd;
	for (uint32_t i = 0; i < size && h->n == size; i++)
		say(h->fds[i], answer);
	return h->n == size;
}

static double serve(int listener, uint32_t agents)
{
	struct hall joined = {calloc(agents, sizeof(int)), 0};
	struct hall passed = {calloc(agents, sizeof(int)), 0};
	struct epoll_event events[EVENTS];
	int epoll = epoll_create1(EPOLL_CLOEXEC), over = 0;

	must(joined.fds && passed.fds, "calloc");
	watch(epoll, listener);
	while (!over) {
		int n = epoll_wait(epoll, events, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (fd == listener) {
				accept_all(epoll, listener);
				continue;
			}
			switch (recv(fd, bytes, sizeof(bytes), 0)) {
			case HELLO:
				say(fd, WELCOME);
				break;
			case JOIN:
				enter(&joined, fd, agents, START);
				break;
			case BARRIER:
				over = enter(&passed, fd, agents, PASSED);
				break;
			default:
				must(0, "recv");
			}
		}
	}
	return cpu_ms();
}

/* ---- the agents ---- */

struct crowd {
	struct sockaddr_in to;
	uint32_t agents, opened, greeted, started, workers, connected, passed;
	int epoll, last_agent;
};

static int open_one(struct crowd *c)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0, "socket");
	must(connect(fd, (struct sockaddr *)&c->to, sizeof(c->to)) == 0,
	     "connect");
	watch(c->epoll, fd);
	return fd;
}

/* Workers connect after all agents, so their descriptors are higher. */
static void answer(struct crowd *c, int fd)
{
	switch (recv(fd, bytes, sizeof(bytes), 0)) {
	case GREETING:
		say(fd, HELLO);
		break;
	case WELCOME:
		c->greeted += fd <= c->last_agent;
		c->connected += fd > c->last_agent;
		say(fd, fd <= c->last_agent ? JOIN : BARRIER);
		break;
	case START:
		c->started++;
		break;
	case PASSED:
		c->passed++;
		break;
	default:
		must(0, "recv");
	}
}

static void live(struct crowd *c, double *ranks_ms, double *passed_ms)
{
	struct epoll_event events[EVENTS];
	uint64_t began = clock_ns();
	int n;

	while (c->passed < c->agents) {
		for (; c->opened < c->agents &&
		       c->opened - c->greeted < WINDOW; c->opened++)
			c->last_agent = open_one(c);
		while (c->workers < c->started &&
		       c->workers - c->connected < WINDOW) {
			open_one(c);
			c->workers++;
		}
		n = epoll_wait(c->epoll, events, EVENTS, -1);
		for (int i = 0; i < n; i++)
			answer(c, events[i].data.fd);
		if (*ranks_ms == 0 && c->started == c->agents)
			*ranks_ms = (double)(clock_ns() - began) / 1e6;
	}
	*passed_ms = (double)(clock_ns() - began) / 1e6;
}

int main(int argc, char **argv)
{
	struct crowd c = {.to = {.sin_family = AF_INET}};
	socklen_t size = sizeof(c.to);
	double ranks_ms = 0, passed_ms = 0, server_ms = 0;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int told[2];
	pid_t server;

	c.agents = argc == 2 ? (uint32_t)atoi(argv[1]) : 0;
	if (!c.agents) {
		fputs(usage, stderr);
		return 2;
	}
	c.to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(listener >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, told) == 0 &&
	     bind(listener, (struct sockaddr *)&c.to, sizeof(c.to)) == 0 &&
	     listen(listener, SOMAXCONN) == 0 &&
	     getsockname(listener, (struct sockaddr *)&c.to, &size) == 0,
	     "listen");
	server = fork();
	must(server >= 0, "fork");
	if (!server) {
		server_ms = serve(listener, c.agents);
		close(told[0]);
		must(write(told[1], &server_ms, sizeof(server_ms)) > 0,
		     "write");
		/* closing could overtake data that is not read yet */
		_exit(read(told[1], &server_ms, 1) != 0);
	}
	close(told[1]);
	c.epoll = epoll_create1(EPOLL_CLOEXEC);
	live(&c, &ranks_ms, &passed_ms);
	must(read(told[0], &server_ms, sizeof(server_ms)) == sizeof(server_ms),
	     "the server");
	close(told[0]);
	waitpid(server, NULL, 0);
	printf("%u %.1f %.1f %.1f %.1f\n", c.agents, ranks_ms, passed_ms,
	       server_ms, cpu_ms());
	return 0;
}
