/* rdzv_client.c: a client of ddprdzv for tests. As `do` it is a worker that
 * makes the requests in its arguments and prints the replies. As `agent` it is
 * a node that follows the commands on its stdin. `drop` and `flood` are workers
 * that behave badly. All authenticate as a ddprun here would: by DDP_JOB_KEY,
 * DDP_TOKEN, DDP_AUTH or the key file. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/random.h"
#include "tests/programs/peers/rdzv_raw.h"
#include "tests/programs/peers/rdzv_requests.h"

static const char usage[] =
	"rdzv_client do HOST:PORT JOB ROUND RANK REQUEST...\n"
	"  set K V, get K, wait MS K, add K N, cas K E D, append K V,\n"
	"  delete K, mget K1 K2, mset K1 V1 K2 V2, barrier K SIZE MS,\n"
	"  gather K SIZE MS V, share (the same), whole SIZE, line (of stdin),\n"
	"  fate RANK MS, many K N (adds 1 N times), big K BYTES (set and get)\n"
	"rdzv_client drop HOST:PORT JOB ROUND RANK K V\n"
	"  sets K and closes without reading a byte\n"
	"rdzv_client flood HOST:PORT JOB ROUND RANK K N\n"
	"  gets K N times without reading a byte; prints 'closed' when it is\n"
	"rdzv_client raw HOST:PORT JOB ROUND RANK BYTES...\n"
	"  sends bytes, given in hex, once it is in; prints the error that it\n"
	"  gets as the server's last word, and 'closed'\n"
	"rdzv_client told agent|worker|tool HOST:PORT JOB\n"
	"  says HELLO and prints the answer: welcome, or why not\n"
	"rdzv_client agent HOST:PORT JOB NPROC NODE [MIN:]MAX NODE_RANK "
	"RESTARTS\n"
	"    [LAST_CALL_MS [LEASE_MS [ROLE [HOST]]]]\n"
	"  joins as NODE, then obeys lines of stdin: exit RANK CODE,\n"
	"  kill RANK SIGNAL [WHY...], leave SIGNAL, join, ping,\n"
	"  failed CODE, or gone RANK SIGNAL (as kill, then closes without\n"
	"  reading); prints each message; exits with END's exit code\n"
	"rdzv_client hello ...\n"
	"  the same, but it joins only when a line says so\n";

/* ---- do: each function gets the words of its request; a[0] is the name
 * ---- */

static struct slice str(const char *s)
{
	return SLICE_STR(s);
}

static int print_value(int rc, struct slice v)
{
	if (rc >= 0)
		printf("%d '%.*s'\n", rc, SLICE_FMT(v));
	return rc;
}

static int print_number(int rc, int64_t number)
{
	if (rc >= 0)
		printf("%lld\n", (long long)number);
	return rc;
}

static int do_set(struct client *c, char **a, struct err *e)
{
	return client_set(c, str(a[1]), str(a[2]), e);
}

static int do_get(struct client *c, char **a, struct err *e)
{
	struct slice v;
	int rc = client_get(c, str(a[1]), &v, e);

	return print_value(rc, v);
}

static int do_wait(struct client *c, char **a, struct err *e)
{
	struct slice key = str(a[2]);

	return client_wait(c, &key, 1, atoi(a[1]), e);
}

static int do_add(struct client *c, char **a, struct err *e)
{
	int64_t sum = 0;
	int rc = client_add(c, str(a[1]), atoll(a[2]), &sum, e);

	return print_number(rc, sum);
}

static int do_cas(struct client *c, char **a, struct err *e)
{
	struct slice v;
	int rc = client_compare_set(c, str(a[1]), str(a[2]), str(a[3]), &v, e);

	return print_value(rc, v);
}

static int do_append(struct client *c, char **a, struct err *e)
{
	int64_t length = 0;
	int rc = client_append(c, str(a[1]), str(a[2]), &length, e);

	return print_number(rc, length);
}

static int do_delete(struct client *c, char **a, struct err *e)
{
	int rc = client_delete(c, str(a[1]), e);

	return print_number(rc, rc);
}

static int do_mget(struct client *c, char **a, struct err *e)
{
	struct slice keys[2] = {str(a[1]), str(a[2])}, v[2];
	int found[2], rc = rdzv_multi_get(c, keys, v, found, e);

	for (int i = 0; rc == 0 && i < 2; i++)
		print_value(found[i], v[i]);
	return rc;
}

static int do_mset(struct client *c, char **a, struct err *e)
{
	struct slice words[4] = {str(a[1]), str(a[2]), str(a[3]), str(a[4])};

	return rdzv_multi_set(c, words, e);
}

static int do_barrier(struct client *c, char **a, struct err *e)
{
	return rdzv_barrier(c, str(a[1]), (uint32_t)atoi(a[2]), atoi(a[3]), e);
}

static int do_gather(struct client *c, char **a, struct err *e)
{
	uint32_t i, n = (uint32_t)atoi(a[2]);
	struct slice *values = calloc(n + 1, sizeof(*values));
	int rc = client_gather(c, str(a[1]), n, atoi(a[3]), str(a[4]), values,
			       e);

	for (i = 0; rc == 0 && i < n; i++)
		printf("%.*s%s", SLICE_FMT(values[i]), i + 1 < n ? " " : "\n");
	free(values);
	return rc;
}

static int print_list(struct slice list, uint32_t n)
{
	struct reader r;

	reader_init(&r, list);
	for (uint32_t i = 0; i < n; i++) {
		const struct slice v = reader_slice(&r);
		printf("%.*s%s", SLICE_FMT(v), i + 1 < n ? " " : "\n");
	}
	return 0;
}

static int do_share(struct client *c, char **a, struct err *e)
{
	struct wire_share m = {.key = str(a[1]), .size = (uint32_t)atoi(a[2]),
			       .value = str(a[4])};
	struct wire_shared got;
	int rc = client_share(c, &m, atoi(a[3]), &got, e);

	return rc < 0 ? rc : print_list(got.values.bytes, got.values.count);
}

static int do_whole(struct client *c, char **a, struct err *e)
{
	struct slice list;
	int rc = client_whole(c, (uint32_t)atoi(a[1]), &list, e);

	return rc < 0 ? rc : print_list(list, (uint32_t)atoi(a[1]));
}

static int do_fate(struct client *c, char **a, struct err *e)
{
	struct slice v;
	int rc = client_fate(c, (uint32_t)atoi(a[1]), atoi(a[2]), &v, e);

	if (rc == 0)
		printf("fate: %.*s\n", SLICE_FMT(v));
	return rc;
}

static int do_many(struct client *c, char **a, struct err *e)
{
	int64_t sum = 0;
	int i, n = atoi(a[2]), rc = 0;

	for (i = 0; rc == 0 && i < n; i++)
		rc = client_add(c, str(a[1]), 1, &sum, e);
	return print_number(rc, sum);
}

static int do_big(struct client *c, char **a, struct err *e)
{
	size_t i, n = (size_t)atoll(a[2]);
	char *p = malloc(n + 1);
	struct slice got;
	int rc;

	for (i = 0; i < n; i++)
		p[i] = (char)(i * 2654435761u >> 24);
	rc = client_set(c, str(a[1]), SLICE(p, n), e);
	if (rc == 0)
		rc = client_get(c, str(a[1]), &got, e);
	if (rc == 1)
		printf("%s\n", got.len == n && !memcmp(got.data, p, n) ?
		       "same" : "DIFFERENT");
	free(p);
	return rc;
}

static int do_line(struct client *c, char **a, struct err *e)
{
	char line[256];

	return fgets(line, sizeof(line), stdin) ? 0 :
	       err_set(e, ERR_REMOTE, "stdin is over");
}

static const struct request {
	const char *name;
	int words;
	int (*run)(struct client *c, char **a, struct err *e);
} requests[] = {
	{"set", 3, do_set}, {"get", 2, do_get}, {"wait", 3, do_wait},
	{"add", 3, do_add}, {"cas", 4, do_cas}, {"append", 3, do_append},
	{"delete", 2, do_delete}, {"mget", 3, do_mget}, {"mset", 5, do_mset},
	{"barrier", 4, do_barrier}, {"gather", 5, do_gather},
	{"share", 5, do_share}, {"whole", 2, do_whole},
	{"fate", 3, do_fate}, {"many", 3, do_many}, {"big", 3, do_big},
	{"line", 1, do_line},
};

static const struct request *find_request(const char *name, int words)
{
	size_t i;

	for (i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		if (!strcmp(requests[i].name, name) &&
		    requests[i].words <= words)
			return &requests[i];
	fputs(usage, stderr);
	exit(2);
}

static struct wire_hello worker_hello(char **argv)
{
	return (struct wire_hello){.role = WIRE_WORKER, .job = str(argv[3]),
				   .host = str("test"),
				   .round = (uint32_t)atoi(argv[4]),
				   .rank = (uint32_t)atoi(argv[5])};
}

static int run_do(int argc, char **argv)
{
	struct wire_hello hello = worker_hello(argv);
	const struct request *r = NULL;
	struct err e = ERR_INIT;
	struct endpoint ep;
	struct client *c;
	const char *again = getenv("DDP_RECONNECT_TIMEOUT");
	int i, rc = endpoint_parse(&ep, argv[2], 0, &e);
	const struct auth auth = choose_auth();

	if (rc == 0 && again)
		rc = random_bytes(&hello.session, sizeof(hello.session), &e);
	if (rc == 0)
		rc = client_connect(&c, &ep, &hello, &auth, 5000, &e);
	if (rc < 0)
		return die(&e);
	if (again)
		client_set_reconnect(c, atoi(again));
	for (i = 6; i < argc && rc >= 0; i += r->words) {
		r = find_request(argv[i], argc - i);
		rc = r->run(c, argv + i, &e);
		fflush(stdout);
	}
	client_free(c);
	return rc < 0 ? die(&e) : 0;
}

/* ---- peers that behave badly, with a socket of their own ---- */

static int run_drop(char **argv)
{
	struct wire_hello hello = worker_hello(argv);
	struct wire_key_value m = {str(argv[6]), str(argv[7])};
	struct buf b = BUF_INIT(1 << 20), in = b;
	int fd = raw_connect(argv[2]);

	raw_prove(fd, &hello, &in);
	buf_release(&in);
	wire_put_key_value(&b, WIRE_SET, WIRE_REQUEST, 2, &m);
	raw_send(fd, &b);
	close(fd);
	buf_release(&b);
	return 0;
}

static int run_told(char **argv)
{
	const char *role = argv[2];
	const struct wire_hello hello = {
		.role = *role == 'a' ? WIRE_AGENT :
			*role == 'w' ? WIRE_WORKER : WIRE_TOOL,
		.job = str(argv[4]), .host = str("test"),
	};
	struct buf in = BUF_INIT(1 << 20), why = BUF_INIT(1 << 16);
	int fd = raw_connect(argv[3]), code = raw_try(fd, &hello, &in, &why);

	printf("%s %.*s\n", code ? err_name(code) : "welcome", (int)why.len,
	       why.data);
	buf_release(&in);
	buf_release(&why);
	close(fd);
	return 0;
}

static int run_flood(char **argv)
{
	struct wire_hello hello = worker_hello(argv);
	struct wire_key m = {str(argv[6])};
	struct buf b = BUF_INIT(1 << 20), in = b;
	int i, fd = raw_connect(argv[2]);
	struct pollfd p = {fd, 0, 0};

	raw_prove(fd, &hello, &in);
	buf_release(&in);
	for (i = 0; i < atoi(argv[7]); i++)
		wire_put_key(&b, WIRE_GET, WIRE_REQUEST, 2, &m);
	raw_send(fd, &b);
	/* If no events are requested, ends when the connection does. */
	while (poll(&p, 1, -1) < 0)
		;
	printf("closed\n");
	close(fd);
	buf_release(&b);
	return 0;
}

static void put_hex(struct buf *b, const char *hex)
{
	unsigned byte;

	for (; sscanf(hex, "%2x", &byte) == 1; hex += 2)
		buf_put_u8(b, (uint8_t)byte);
}

static _Noreturn void run_raw(int argc, char **argv)
{
	struct wire_hello hello = worker_hello(argv);
	struct buf b = BUF_INIT(1 << 20), in = b;
	int fd = raw_connect(argv[2]);
	struct wire_error why;
	struct wire_frame f;
	long n;

	raw_prove(fd, &hello, &in);
	for (int i = 6; i < argc; i++)
		put_hex(&b, argv[i]);
	raw_send(fd, &b);
	printf("sent\n");
	fflush(stdout);
	for (;;) {
		while ((n = wire_cut(SLICE(in.data, in.len), WIRE_BODY_MAX, &f,
				     NULL)) > 0) {
			if (f.kind == WIRE_ERROR_REPLY && f.id == 0 &&
			    wire_get_error(&f, &why, NULL) == 0)
				printf("%d: %.*s\n", why.code,
				       SLICE_FMT(why.text));
			buf_consume(&in, (size_t)n);
		}
		raw_receive(fd, &in);
	}
}

/* ---- agent: the protocol by hand ---- */

struct agent {
	int fd;
	struct buf in, out;
	size_t used;
	uint32_t id, round, nproc;
	int argc;
};

static void join(struct agent *a, char **argv)
{
	const char *max = strchr(argv[6], ':');
	struct wire_join m = {
		.node_id = str(argv[5]),
		.host = str(a->argc > 12 ? argv[12] : argv[5]),
		.addr = str("127.0.0.1"), .master_port = 1234,
		.node_rank = atoi(argv[7]),
		.min_nodes = (uint32_t)atoi(argv[6]),
		.max_nodes = (uint32_t)atoi(max ? max + 1 : argv[6]),
		.nproc = a->nproc, .max_restarts = (uint32_t)atoi(argv[8]),
		/* ddprun's defaults */
		.max_no_progress = 3, .swap_after = 3,
		.last_call_ms = (uint32_t)(a->argc > 9 ? atoi(argv[9]) : 0),
		.lease_ms = (uint32_t)(a->argc > 10 ? atoi(argv[10]) : 0),
		.role = str(a->argc > 11 ? argv[11] : "default")};

	wire_put_join(&a->out, WIRE_JOIN, WIRE_REQUEST, ++a->id, &m);
}

static void print_start(const struct wire_start *m)
{
	printf("START round %u attempt %u node %u of %u base %u world %u "
	       "changes %u role %u of %u\n", m->round, m->attempt,
	       m->node_rank, m->nnodes, m->base_rank, m->world_size,
	       m->changes, m->role_base_rank, m->role_world_size);
}

static void print_state(const struct wire_state *m)
{
	printf("STATE %u of %u %.*s", m->joined, m->max_nodes,
	       SLICE_FMT(m->missing));
	if (m->spare)
		printf("%sspare of %u", m->missing.len ? "; " : "", m->spares);
	if (m->last_call_ms)
		printf("last call %u", m->last_call_ms);
	printf("\n");
}

static void print_end(const struct wire_end *m)
{
	printf("END round %u verdict %u exit_code %d left %u rank %d: %.*s\n",
	       m->round, m->verdict, m->exit_code, m->restarts_left, m->rank,
	       SLICE_FMT(m->text));
	if (m->rank >= 0)
		printf("WORKER core %u rss %llu tail '%.*s' why '%.*s' error "
		       "'%.*s' log '%.*s'\n", m->core,
		       (unsigned long long)m->max_rss_kib, SLICE_FMT(m->tail),
		       SLICE_FMT(m->why), SLICE_FMT(m->error),
		       SLICE_FMT(m->log));
}

static int on_frame(struct agent *a, const struct wire_frame *f)
{
	struct wire_start start;
	struct wire_error error;
	struct wire_state state;
	struct wire_waiting waiting;
	struct wire_dump_request look;
	struct wire_end end;

	if (f->kind == WIRE_ERROR_REPLY &&
	    wire_get_error(f, &error, NULL) == 0) {
		printf("error: %.*s\n", SLICE_FMT(error.text));
		return 1;
	}
	if (f->type == WIRE_START && wire_get_start(f, &start, NULL) == 0) {
		a->round = start.round;
		print_start(&start);
	} else if (f->type == WIRE_STATE &&
		   wire_get_state(f, &state, NULL) == 0) {
		print_state(&state);
	} else if (f->type == WIRE_WAITING &&
		   wire_get_waiting(f, &waiting, NULL) == 0) {
		printf("WAITING %llu ms for %.*s\n",
		       (unsigned long long)waiting.waited_ms,
		       SLICE_FMT(waiting.text));
	} else if (f->type == WIRE_DUMP_REQUEST &&
		   wire_get_dump_request(f, &look, NULL) == 0) {
		printf("DUMP_REQUEST %u\n", look.number);
	} else if (f->type == WIRE_PING) {
		printf("PONG\n");
	} else if (f->type == WIRE_END && wire_get_end(f, &end, NULL) == 0) {
		print_end(&end);
		fflush(stdout);
		if (end.verdict != WIRE_RESTART && end.verdict != WIRE_REGROUP)
			exit(end.exit_code);
	}
	return 0;
}

/* Returns 1 when the server has closed or refused. */
static int read_frames(struct agent *a)
{
	struct wire_frame f;
	struct err e = ERR_INIT;
	long cut;
	int over = 0;

	if (!raw_read(a->fd, &a->in)) {
		printf("closed\n");
		return 1;
	}
	while (!over &&
	       (cut = wire_cut(SLICE(a->in.data + a->used,
				     a->in.len - a->used), WIRE_BODY_MAX, &f,
			       &e)) > 0) {
		a->used += (size_t)cut;
		over = on_frame(a, &f);
	}
	fflush(stdout);
	return over;
}

static void command(struct agent *a, const char *line, char **argv)
{
	struct wire_exited m = {.round = a->round, .pid = 4711, .core = 1,
				.max_rss_kib = 9140, .tail = str("last words"),
				.error = str("{}"), .log = str("/tmp/log")};
	struct wire_failed failed = {.round = a->round,
				     .text = str("no such file: ./x")};
	struct wire_leave leave = {0};
	char word[16] = "";
	unsigned n = 0;
	int v = 0, why = (int)strlen(line);

	sscanf(line, "%15s %u %d %n", word, &n, &v, &why);
	m.rank = m.local_rank = n;
	m.why = SLICE(line + why, strcspn(line + why, "\n"));
	if (!strcmp(word, "exit") || !strcmp(word, "kill") ||
	    !strcmp(word, "gone")) {
		m.code = word[0] == 'e' ? v : 0;
		m.signal = word[0] == 'e' ? 0 : v;
		wire_put_exited(&a->out, WIRE_EXITED, WIRE_NOTICE, 0, &m);
		if (word[0] == 'g') {
			raw_send(a->fd, &a->out);
			exit(0);
		}
	} else if (!strcmp(word, "leave")) {
		leave.signal = (int)n;
		wire_put_leave(&a->out, WIRE_LEAVE, WIRE_NOTICE, 0, &leave);
	} else if (!strcmp(word, "join")) {
		join(a, argv);
	} else if (!strcmp(word, "failed")) {
		failed.exit_code = (int)n;
		wire_put_failed(&a->out, WIRE_FAILED, WIRE_NOTICE, 0, &failed);
	} else if (!strcmp(word, "ping")) {
		wire_put_empty(&a->out, WIRE_PING, WIRE_REQUEST, ++a->id);
	}
}

/* argv: agent HOST:PORT JOB NPROC NODE_ID NNODES NODE_RANK RESTARTS ... */
static int run_agent(int argc, char **argv)
{
	struct wire_hello hello = {.role = WIRE_AGENT, .job = str(argv[3]),
				   .host = str(argv[5])};
	struct agent a = {.nproc = (uint32_t)atoi(argv[4]), .argc = argc};
	char line[256];
	int over = 0;

	buf_init(&a.in, 64 << 20);
	buf_init(&a.out, 64 << 20);
	a.fd = raw_connect(argv[2]);
	raw_prove(a.fd, &hello, &a.in);
	a.id = 1;
	if (argv[1][0] == 'a')
		join(&a, argv);
	raw_send(a.fd, &a.out);
	while (!over) {
		struct pollfd p[2] = {{a.fd, POLLIN, 0}, {0, POLLIN, 0}};

		poll(p, 2, -1);
		if (p[0].revents)
			over = read_frames(&a);
		else if (!fgets(line, sizeof(line), stdin))
			break;
		else
			command(&a, line, argv);
		raw_send(a.fd, &a.out);
	}
	close(a.fd);
	buf_release(&a.in);
	buf_release(&a.out);
	return over;
}

int main(int argc, char **argv)
{
	/* poll does not see what stdio has buffered */
	setvbuf(stdin, NULL, _IONBF, 0);
	if (argc >= 9 && argc <= 13 && (!strcmp(argv[1], "agent") ||
				      !strcmp(argv[1], "hello")))
		return run_agent(argc, argv);
	if (argc >= 6 && !strcmp(argv[1], "do"))
		return run_do(argc, argv);
	if (argc == 5 && !strcmp(argv[1], "told"))
		return run_told(argv);
	if (argc == 8 && !strcmp(argv[1], "drop"))
		return run_drop(argv);
	if (argc >= 6 && !strcmp(argv[1], "raw"))
		run_raw(argc, argv);
	if (argc == 8 && !strcmp(argv[1], "flood"))
		return run_flood(argv);
	fputs(usage, stderr);
	return 2;
}
