/* w_port.c: ports for tests, on 127.0.0.1. w_port free: prints one that is
 * free. w_port silent | closing | says TEXT: prints the port that it listens on
 * and plays a server that is not ours, until it is killed. w_port take PORT:
 * listens there for a moment, with SO_REUSEADDR; fails if it cannot. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listen_at(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons((uint16_t)port)};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = port != 0;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 64) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &len) < 0) {
		perror("w_port");
		return -1;
	}
	printf("%d\n", ntohs(a.sin_port));
	fflush(stdout);
	return fd;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "free";
	int take = strcmp(mode, "take") == 0;
	int fd = listen_at(take && argc > 2 ? atoi(argv[2]) : 0);

	if (fd < 0)
		return 1;
	if (take || strcmp(mode, "free") == 0)
		return 0;
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
