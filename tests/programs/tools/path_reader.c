/* path_reader.c: reads everything that passes the interfaces of its network,
 * until SIGTERM, and searches it for a text.
 *
 *   path_reader TEXT
 *
 * Prints "reading", and at the end "TEXT in N of M packets, B bytes". */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

struct seen {
	unsigned long packets, bytes, found;
};

static int open_reader(void)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
	int size = 64 << 20;

	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	return fd;
}

static int open_end(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static void read_all(int fd, const char *text, struct seen *seen)
{
	static char packet[1 << 17]; /* larger than any */
	ssize_t n;

	while ((n = recv(fd, packet, sizeof(packet), MSG_DONTWAIT)) > 0) {
		seen->packets++;
		seen->bytes += (unsigned long)n;
		seen->found += memmem(packet, (size_t)n, text, strlen(text)) !=
			       NULL;
	}
}

int main(int argc, char **argv)
{
	struct pollfd p[2] = {{-1, POLLIN, 0}, {-1, POLLIN, 0}};
	struct seen seen = {0};

	p[0].fd = open_reader();
	p[1].fd = open_end();
	if (argc != 2 || p[0].fd < 0 || p[1].fd < 0) {
		perror("path_reader");
		return 1;
	}
	puts("reading");
	fflush(stdout);
	while (poll(p, 2, -1) >= 0) {
		read_all(p[0].fd, argv[1], &seen);
		if (p[1].revents)
			break;
	}
	printf("%s in %lu of %lu packets, %lu bytes\n", argv[1], seen.found,
	       seen.packets, seen.bytes);
	return 0;
}
