/* rdzv_peer.c: adversaries between ddprdzv and its clients, for the tests: an
 * impostor, a replay of a recording, and many silent clients. Each prints a
 * line for every event. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sock.h"
#include "rendezvous/wire.h"

static const char usage[] =
	"rdzv_peer impostor METHODS\n"
	"  listens, prints 'at HOST:PORT'; greets with these methods (bits),\n"
	"  answers HELLO with WELCOME, without a proof; prints the requests\n"
	"rdzv_peer reset\n"
	"  listens as well; resets each connection once it has said something\n"
	"rdzv_peer record HOST:PORT FILE\n"
	"  listens as well; passes one connection on to there, and keeps\n"
	"  what the client says in FILE\n"
	"rdzv_peer replay HOST:PORT FILE\n"
	"  says all that again, prints 'heard N bytes'\n"
	"rdzv_peer silent HOST:PORT N\n"
	"  N connections that say nothing: 'open'; 'closed' when all are\n"
	"rdzv_peer crowd HOST:PORT FROM*N...; ... FROM+N: they send a preface\n"
	"  N of these from each address, in that order: 'open'; 'closed FROM,\n"
	"  N left' when one of FROM's is, which has to be its oldest\n";

static int die(const char *what)
{
	printf("error: %s\n", what);
	return 1;
}

/* The next read notices a peer that has gone. */
static void send_all(int fd, const void *data, size_t size)
{
	if (file_write_all(fd, data, size) < 0)
		fprintf(stderr, "rdzv_peer: the other side has gone\n");
}

static int call(const char *where)
{
	struct err e = ERR_INIT;
	struct sock_addr a;
	struct endpoint ep;
	int rc = endpoint_parse(&ep, where, 0, &e);

	if (rc == 0)
		rc = sock_resolve(&ep, &a, 1, &e);
	if (rc >= 0)
		rc = sock_connect(&a, 5000, &e);
	if (rc < 0)
		exit(die(e.text));
	return rc;
}

/* The next client. */
static int take(void)
{
	static int listener = -1;
	struct sock_addr a = {.len = sizeof(struct sockaddr_in)};
	struct pollfd p;
	char text[SOCK_TEXT_MAX];
	struct err e;
	int fd;

	*(struct sockaddr_in *)&a.ss = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	if (listener < 0) {
		listener = sock_listen(&a, &e);
		if (listener < 0)
			exit(die(e.text));
		printf("at %s\n", sock_addr_text(&a, text));
		fflush(stdout);
	}
	p = (struct pollfd){listener, POLLIN, 0};
	do
		poll(&p, 1, -1);
	while ((fd = accept(listener, NULL, NULL)) < 0);
	return fd;
}

static long get_frame(int fd, struct buf *in, struct wire_frame *f)
{
	struct err e;
	ssize_t n = 1;
	long cut;

	while ((cut = wire_cut(SLICE(in->data, in->len), WIRE_BODY_MAX, f,
			       &e)) == 0 && n > 0) {
		n = recv(fd, buf_reserve(in, 65536), 65536, 0);
		in->len += n > 0 ? (size_t)n : 0;
	}
	return cut;
}

static void pose(int fd, unsigned methods)
{
	char preface[WIRE_PREFACE_SIZE], nonce[WIRE_NONCE_SIZE] = "";
	static const char proof[32];
	const struct wire_welcome w = {.proof = SLICE(proof, sizeof(proof))};
	struct buf out = BUF_INIT(4096), in = BUF_INIT(1 << 24);
	struct wire_frame f;
	long n;

	if (file_read_all(fd, preface, sizeof(preface)) < 0)
		return;
	wire_put_greeting(&out, methods, nonce, NULL);
	send_all(fd, out.data, out.len);
	n = get_frame(fd, &in, &f);
	if (n > 0) {
		printf("told %s\n", wire_type_name(f.type));
		buf_consume(&in, (size_t)n);
		buf_reset(&out);
		wire_put_welcome(&out, WIRE_HELLO, WIRE_REPLY, 1, &w);
		send_all(fd, out.data, out.len);
		n = get_frame(fd, &in, &f);
	}
	if (n > 0)
		printf("told %s\n", wire_type_name(f.type));
	printf("closed\n");
	fflush(stdout);
	buf_release(&out);
	buf_release(&in);
}

static _Noreturn void run_impostor(unsigned methods)
{
	for (;;) {
		int fd = take();

		pose(fd, methods);
		close(fd);
	}
}

static _Noreturn void run_reset(void)
{
	const struct linger none = {.l_onoff = 1, .l_linger = 0};
	char byte;

	for (;;) {
		int fd = take();

		if (recv(fd, &byte, 1, 0) < 0)
			perror("recv");
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
		close(fd);
	}
}

static int run_record(const char *where, const char *file)
{
	int client = take(), server = call(where);
	struct pollfd p[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
	FILE *f = fopen(file, "w");
	char bytes[65536];
	ssize_t n = 1;

	while (f && n > 0) {
		poll(p, 2, -1);
		for (int i = 0; i < 2 && n > 0; i++) {
			if (!p[i].revents)
				continue;
			n = recv(p[i].fd, bytes, sizeof(bytes), 0);
			if (n > 0 && i == 0)
				fwrite(bytes, 1, (size_t)n, f);
			if (n > 0)
				send_all(p[!i].fd, bytes, (size_t)n);
		}
	}
	if (!f || fclose(f))
		return die(file);
	printf("over\n");
	return 0;
}

static int run_replay(const char *where, const char *file)
{
	int fd = call(where);
	FILE *f = fopen(file, "r");
	char bytes[65536];
	size_t said = f ? fread(bytes, 1, sizeof(bytes), f) : 0, heard = 0;
	ssize_t n;

	if (!said)
		return die(file);
	(void)!send(fd, bytes, said, MSG_NOSIGNAL);
	while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0)
		heard += (size_t)n;
	printf("heard %zu bytes\n", heard);
	fclose(f);
	return 0;
}

static int run_silent(const char *where, int n)
{
	struct pollfd p = {-1, 0, 0};
	int *fds = calloc((size_t)n, sizeof(*fds));

	for (int i = 0; fds && i < n; i++)
		fds[i] = call(where);
	printf("open\n");
	fflush(stdout);
	for (int i = 0; fds && i < n; i++) {
		p.fd = fds[i];
		p.events = POLLRDHUP; /* the greeting arrives before that */
		poll(&p, 1, -1);
	}
	printf("closed\n");
	free(fds);
	return 0;
}

static int call_from(const struct sock_addr *to, const char *from)
{
	struct sock_addr own;
	int fd = socket(to->ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!sock_addr_number(from, 0, &own) ||
	    bind(fd, (struct sockaddr *)&own.ss, own.len) < 0 ||
	    connect(fd, (const struct sockaddr *)&to->ss, to->len) < 0) {
		perror(from);
		exit(1);
	}
	return fd;
}

static void raise_fd_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

struct group {
	const char *from;
	int left;
};

/* A greeting does not end the connection. */
static int drained(int fd)
{
	char bytes[WIRE_GREETING_SIZE];

	return recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0;
}

/* A connection may be closed while an older one from its address is not: poll
 * does not report all of them at once. */
static int is_before_its_turn(struct pollfd *p, struct group **of, int i)
{
	for (int k = 0; k < i; k++)
		if (p[k].fd >= 0 && of[k] == of[i] && !p[k].revents &&
		    poll(&p[k], 1, 0) == 0)
			return 1;
	return 0;
}

static int tell_closed(struct pollfd *p, struct group **of, int n)
{
	for (int i = 0; i < n; i++) {
		if (p[i].fd < 0 || !p[i].revents)
			continue;
		if (drained(p[i].fd))
			continue;
		if (is_before_its_turn(p, of, i))
			return die("a younger one was closed first");
		close(p[i].fd);
		p[i].fd = -1;
		printf("closed %s, %d left\n", of[i]->from, --of[i]->left);
		fflush(stdout);
	}
	return 0;
}

static int run_crowd(const char *where, char **texts, int ngroups)
{
	enum { MOST = 8192 };
	static struct pollfd p[MOST];
	static struct group *of[MOST], groups[MOST];
	struct endpoint ep;
	struct sock_addr to;
	struct err e;
	int n = 0, rc = 0;

	raise_fd_limit();
	if (endpoint_parse(&ep, where, 0, &e) < 0 ||
	    sock_resolve(&ep, &to, 1, &e) < 0)
		return die(e.text);
	for (int g = 0; g < ngroups && g < MOST; g++) {
		char *star = strpbrk(texts[g], "*+"), mark;

		if (!star)
			return die(texts[g]);
		mark = *star;
		*star = '\0';
		groups[g] = (struct group){texts[g], atoi(star + 1)};
		for (int i = 0; i < groups[g].left && n < MOST; i++, n++) {
			p[n] = (struct pollfd){call_from(&to, texts[g]),
					       POLLIN, 0};
			of[n] = &groups[g];
			if (mark == '+')
				send_all(p[n].fd, wire_preface,
					 WIRE_PREFACE_SIZE);
		}
	}
	printf("open\n");
	fflush(stdout);
	while (rc == 0 && poll(p, (nfds_t)n, -1) > 0)
		rc = tell_closed(p, of, n);
	return rc;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "impostor"))
		run_impostor((unsigned)atoi(argv[2]));
	if (argc == 2 && !strcmp(argv[1], "reset"))
		run_reset();
	if (argc == 4 && !strcmp(argv[1], "record"))
		return run_record(argv[2], argv[3]);
	if (argc == 4 && !strcmp(argv[1], "replay"))
		return run_replay(argv[2], argv[3]);
	if (argc == 4 && !strcmp(argv[1], "silent"))
		return run_silent(argv[2], atoi(argv[3]));
	if (argc > 3 && !strcmp(argv[1], "crowd"))
		return run_crowd(argv[2], argv + 3, argc - 3);
	fputs(usage, stderr);
	return 2;
}
