/* t_httpd.c: a web server for tests: the files of a folder, byte ranges
 * (bytes=N-), each request a line on stdout. With a third argument each answer
 * ends after BYTES bytes, as if the connection were lost. usage: t_httpd DIR
 * [BYTES] */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *dir;
static long long cut = -1;

static int listen_somewhere(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, size) < 0 ||
	    listen(fd, 64) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &size) < 0) {
		perror("t_httpd");
		exit(1);
	}
	printf("port %d\n", ntohs(a.sin_port));
	return fd;
}

/* The request's head as text; 0 if the peer left before its end. */
static int read_head(int fd, char *head, size_t max)
{
	size_t n = 0;

	while (n < max - 1) {
		ssize_t r = read(fd, head + n, max - 1 - n);

		if (r <= 0)
			return 0;
		n += (size_t)r;
		head[n] = 0;
		if (strstr(head, "\r\n\r\n"))
			return 1;
	}
	return 0;
}

static void send_body(int to, int file, off_t from, long long left)
{
	if (cut >= 0 && left > cut)
		left = cut;
	while (left > 0) {
		ssize_t n = sendfile(to, file, &from, (size_t)left);

		if (n <= 0)
			return;
		left -= n;
	}
}

static void answer(int fd)
{
	char head[8192], name[1024], path[4096], *range;
	long long from = 0;
	struct stat st;
	int file;

	if (!read_head(fd, head, sizeof(head)) ||
	    sscanf(head, "GET /%1023s", name) != 1)
		return;
	range = strstr(head, "\r\nRange: bytes=");
	if (range)
		sscanf(range, "\r\nRange: bytes=%lld-", &from);
	printf("GET %s from %lld\n", name, from);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0 || fstat(file, &st) < 0) {
		dprintf(fd, "HTTP/1.0 404 Not Found\r\n\r\n");
	} else if (from && from >= st.st_size) {
		dprintf(fd, "HTTP/1.0 416 Range Not Satisfiable\r\n\r\n");
	} else {
		if (range)
			dprintf(fd, "HTTP/1.0 206 Partial Content\r\n"
				"Content-Range: bytes %lld-%lld/%lld\r\n", from,
				(long long)st.st_size - 1,
				(long long)st.st_size);
		else
			dprintf(fd, "HTTP/1.0 200 OK\r\n");
		dprintf(fd, "Content-Length: %lld\r\n\r\n",
			(long long)st.st_size - from);
		send_body(fd, file, from, st.st_size - from);
	}
	if (file >= 0)
		close(file);
}

int main(int argc, char **argv)
{
	int fd, peer;

	if (argc < 2) {
		fprintf(stderr, "usage: t_httpd DIR [BYTES]\n");
		return 2;
	}
	dir = argv[1];
	if (argc > 2)
		cut = atoll(argv[2]);
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	fd = listen_somewhere();
	while ((peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		answer(peer);
		shutdown(peer, SHUT_WR);
		close(peer);
	}
	return 1;
}
