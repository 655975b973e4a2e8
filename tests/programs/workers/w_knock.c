/* w_knock [AT HOST PORT] WHAT: a client of PyTorch's store (2.2 and later), at
 * MASTER_ADDR:MASTER_PORT. Prints the result.
 *
 *   ping            "answered", or "closed"
 *   set KEY VALUE   sets, shuts down its side, prints "sent", and waits until
 *                   the server closes
 *   dash KEY VALUE  the same, but exits when it has printed "sent"
 *   get KEY         "KEY is VALUE", or "closed"
 *   ask KEY         the same; before that "asked", when the request is sent
 *   wait KEY [FIFO] "KEY is there" when it exists. With FIFO: when that has no
 *                   writer any more, cancels the wait and prints "gave up"
 *   add KEY N       "KEY is N", or "closed"
 *   push KEY VALUE  appends to a queue, and prints the queue's length
 *   pop KEY         "KEY is VALUE", the first in the queue; "empty", or
 *                   "closed"
 *   crowd N         N silent connections: "open"; "closed" when all are
 *   time N          N connections in turn, each until it is answered: prints
 *                   the median in microseconds
 */
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char *host, *port;

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(9);
}

static int knock(void)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *a;
	int fd;

	if (!host || !port || getaddrinfo(host, port, &hints, &a))
		fail("getaddrinfo");
	fd = socket(a->ai_family, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, a->ai_addr, a->ai_addrlen) < 0)
		fail("connect");
	freeaddrinfo(a);
	return fd;
}

static char out[4096];
static size_t used;

static void put(const void *bytes, size_t n)
{
	memcpy(out + used, bytes, n);
	used += n;
}

static void put_text(const char *text)
{
	uint64_t n = strlen(text);

	put(&n, sizeof(n));
	put(text, n);
}

static void begin(unsigned char op)
{
	used = 0;
	put("\0\xce\xf7\x85\x3c", 5);
	put(&op, 1);
}

static void send_all(int fd)
{
	if (send(fd, out, used, MSG_NOSIGNAL) != (ssize_t)used)
		fail("send");
}

/* 1, or 0: it was closed before. */
static int read_all(int fd, void *to, size_t n)
{
	char *p = to;
	ssize_t got;

	for (; n; p += got, n -= (size_t)got) {
		got = read(fd, p, n);
		if (got <= 0)
			return 0;
	}
	return 1;
}

static int ping(void)
{
	int fd = knock(), ok;
	char nonce[4] = {1, 2, 3, 4}, back[4];

	begin(13);
	put(nonce, sizeof(nonce));
	send_all(fd);
	ok = read_all(fd, back, sizeof(back)) && !memcmp(nonce, back, 4);
	close(fd);
	return ok;
}

static void set(const char *key, const char *value, int waits)
{
	int fd = knock();
	char byte;

	begin(1);
	put_text(key);
	put_text(value);
	send_all(fd);
	shutdown(fd, SHUT_WR);
	if (!waits)
		close(fd);
	puts("sent");
	fflush(stdout);
	if (waits)
		read_all(fd, &byte, 1);
}

static void get(const char *key, int says)
{
	int fd = knock();
	char value[1024];
	uint64_t n = 0;

	begin(3);
	put_text(key);
	send_all(fd);
	if (says) {
		puts("asked");
		fflush(stdout);
	}
	if (!read_all(fd, &n, sizeof(n)) || n > sizeof(value) ||
	    !read_all(fd, value, n))
		puts("closed");
	else
		printf("%s is %.*s\n", key, (int)n, value);
}

static void wait_for(const char *key, const char *fifo)
{
	int fd = knock();
	unsigned char byte = 12;
	uint64_t n = 1;

	begin(6);
	put(&n, sizeof(n));
	put_text(key);
	send_all(fd);
	if (fifo) {
		fclose(fopen(fifo, "r")); /* a writer that opens it ends this */
		used = 0;
		put(&byte, 1);
		send_all(fd);
	}
	if (!read_all(fd, &byte, 1))
		puts("closed");
	else if (byte)
		puts("gave up");
	else
		printf("%s is there\n", key);
}

static void ask_number(const char *what)
{
	int fd = knock();
	uint64_t n = 0;

	send_all(fd);
	if (!read_all(fd, &n, sizeof(n)))
		puts("closed");
	else
		printf("%s is %llu\n", what, (unsigned long long)n);
}

static void add(const char *key, const char *by)
{
	uint64_t n = strtoull(by, NULL, 10);

	begin(4);
	put_text(key);
	put(&n, sizeof(n));
	ask_number(key);
}

static void push(const char *key, const char *value)
{
	unsigned char length = 16;

	begin(14);
	put_text(key);
	put_text(value);
	put(&length, 1);
	put_text(key);
	ask_number("length");
}

static void pop(const char *key)
{
	int fd = knock();
	char value[1024];
	uint64_t n = 0, there = 0;

	begin(15);
	put_text(key);
	send_all(fd);
	if (!read_all(fd, &there, sizeof(there)) ||
	    (there && (!read_all(fd, &n, sizeof(n)) || n > sizeof(value) ||
		       !read_all(fd, value, n))))
		puts("closed");
	else if (!there)
		puts("empty");
	else
		printf("%s is %.*s\n", key, (int)n, value);
}

static void crowd(int n)
{
	int *fds = calloc((size_t)n, sizeof(*fds));
	char byte;

	for (int i = 0; i < n; i++)
		fds[i] = knock();
	puts("open");
	fflush(stdout);
	for (int i = 0; i < n; i++)
		read_all(fds[i], &byte, 1);
	puts("closed");
	free(fds);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void take_times(size_t n)
{
	double *took = calloc(n, sizeof(*took)), began;

	for (size_t i = 0; i < n; i++) {
		began = now_us();
		if (!ping())
			fail("it was closed");
		took[i] = now_us() - began;
	}
	qsort(took, n, sizeof(*took), by_size);
	printf("%.1f\n", took[n / 2]);
	free(took);
}

int main(int argc, char **argv)
{
	host = getenv("MASTER_ADDR");
	port = getenv("MASTER_PORT");
	if (argc > 3 && strcmp(argv[1], "AT") == 0) {
		host = argv[2];
		port = argv[3];
		argc -= 3;
		argv += 3;
	}
	if (argc == 2 && strcmp(argv[1], "ping") == 0)
		puts(ping() ? "answered" : "closed");
	else if (argc == 4 && strcmp(argv[1], "set") == 0)
		set(argv[2], argv[3], 1);
	else if (argc == 4 && strcmp(argv[1], "dash") == 0)
		set(argv[2], argv[3], 0);
	else if (argc == 3 && strcmp(argv[1], "get") == 0)
		get(argv[2], 0);
	else if (argc == 3 && strcmp(argv[1], "ask") == 0)
		get(argv[2], 1);
	else if ((argc == 3 || argc == 4) && strcmp(argv[1], "wait") == 0)
		wait_for(argv[2], argv[3]);
	else if (argc == 4 && strcmp(argv[1], "add") == 0)
		add(argv[2], argv[3]);
	else if (argc == 4 && strcmp(argv[1], "push") == 0)
		push(argv[2], argv[3]);
	else if (argc == 3 && strcmp(argv[1], "pop") == 0)
		pop(argv[2]);
	else if (argc == 3 && strcmp(argv[1], "crowd") == 0)
		crowd(atoi(argv[2]));
	else if (argc == 3 && strcmp(argv[1], "time") == 0)
		take_times(strtoul(argv[2], NULL, 10));
	else
		return 2;
	return 0;
}
