/* bench_echo.h: the floor of a server's cost: it waits, reads and writes, and
 * does no work. One thread and one epoll, like ddprdzv. */
#ifndef TESTS_BENCH_ECHO_H
#define TESTS_BENCH_ECHO_H

#include <netinet/tcp.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ECHO_CLIENTS = 8192, ECHO_EVENTS = 1024 };

struct echoed {
	uint32_t sizes[4]; /* request, reply, request, reply */
	size_t got;
	int known, turn;
};

/* A connection sends its sizes first. The data of one read is answered with one
 * write. Never returns. */
static inline void echo_loop(int listener)
{
	static struct echoed of[ECHO_CLIENTS];
	static char bytes[65536], reply[65536];
	struct epoll_event ev = {EPOLLIN, {.fd = listener}};
	struct epoll_event events[ECHO_EVENTS];
	int epoll = epoll_create1(EPOLL_CLOEXEC), one = 1;

	epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &ev);
	for (;;) {
		int n = epoll_wait(epoll, events, ECHO_EVENTS, -1);

		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;
			struct echoed *c = &of[fd % ECHO_CLIENTS];
			size_t due = 0;
			ssize_t got;

			if (fd == listener) {
				fd = accept(listener, NULL, NULL);
				if (fd < 0)
					continue;
				setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one,
					   sizeof(one));
				memset(&of[fd % ECHO_CLIENTS], 0,
				       sizeof(*of));
				ev.data.fd = fd;
				epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev);
				continue;
			}
			got = c->known ? read(fd, bytes, sizeof(bytes)) :
			      read(fd, c->sizes, sizeof(c->sizes));
			if (got <= 0) {
				close(fd);
				continue;
			}
			if (!c->known) {
				c->known = 1;
				continue;
			}
			c->got += (size_t)got;
			while (c->got >= c->sizes[c->turn * 2]) {
				c->got -= c->sizes[c->turn * 2];
				due += c->sizes[c->turn * 2 + 1];
				c->turn ^= 1;
			}
			if (due && write(fd, reply, due) < 0)
				close(fd);
		}
	}
}

#endif
