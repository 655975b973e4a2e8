/* bench_sockets N: opens N TCP sockets (half as many connections to itself),
 * prints that, and keeps them until its standard input ends. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t len = sizeof(a);
	struct rlimit r;
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd;
	char byte;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (listener < 0 || bind(listener, (struct sockaddr *)&a, len) < 0 ||
	    listen(listener, 64) < 0 ||
	    getsockname(listener, (struct sockaddr *)&a, &len) < 0)
		fail("listen");
	for (long i = 0; i < n / 2; i++) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd < 0 || connect(fd, (struct sockaddr *)&a, len) < 0)
			fail("connect");
		if (accept(listener, NULL, NULL) < 0)
			fail("accept");
	}
	puts("there");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
