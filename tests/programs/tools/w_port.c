/* w_port.c: ports for tests, on 127.0.0.1. w_port free prints a free port that
 * the kernel gives to no process that asks for any port: it remains free until
 * it is used w_port silent | closing | says TEXT prints the port on which it
 * listens, and acts as another kind of server until it is killed w_port take
 * PORT listens there for a moment, with SO_REUSEADDR; fails if it cannot */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST = 10000, LAST = 28999, TRIES = 1000 }; /* tests name some above */

static int listen_at(int port, int on)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons((uint16_t)port)};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 64) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &len) < 0) {
		close(fd);
		return -1;
	}
	printf("%d\n", ntohs(a.sin_port));
	fflush(stdout);
	return fd;
}

/* Ports for processes that ask for any port usually begin above that. */
static int last_of_ours(void)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
	int first = 0;

	if (f && fscanf(f, "%d", &first) != 1)
		first = 0;
	if (f)
		fclose(f);
	return first > LAST ? LAST : first - 1;
}

static int print_free(void)
{
	int last = last_of_ours(), fd = -1;
	unsigned n;

	for (int i = 0; i < TRIES && fd < 0 && last > FIRST; i++) {
		if (getrandom(&n, sizeof(n), 0) != sizeof(n))
			break;
		fd = listen_at(FIRST + (int)(n % (unsigned)(last - FIRST)),
			       0);
	}
	if (fd < 0)
		fd = listen_at(0, 0);
	return fd;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "free";
	int take = strcmp(mode, "take") == 0, is_free = !strcmp(mode, "free");
	int fd = is_free ? print_free() :
		 listen_at(take && argc > 2 ? atoi(argv[2]) : 0, take);

	if (fd < 0)
		perror("w_port");
	if (fd < 0 || take || is_free)
		return fd < 0;
	for (;;) {
		int peer = accept(fd, NULL, NULL);

		if (peer < 0)
			return 1;
		if (strcmp(mode, "closing") == 0)
			close(peer);
		else if (strcmp(mode, "says") == 0 &&
			 write(peer, argv[2], strlen(argv[2])) < 0)
			return 1;
	}
}
