/* rdzv_hard: clients of ddprdzv with unusual behaviour, in each of its two
 * protocols, which check the replies. Prints the result. */
#include <fcntl.h>
#include <poll.h>

#include "tests/programs/peers/simulated.h"

static const char usage[] =
	"rdzv_hard CASE HOST:PORT [N]   as the agent of job j and a worker,\n"
	"without a proof\n"
	"  bytes       a session, one byte at a time\n"
	"  cuts        a session that ends after each of its bytes\n"
	"  waits       N waits on one connection: the parked and refused\n"
	"  keys        as many keys as fit, one more, and again when one goes\n"
	"  resets      N times: waits, then resets\n"
	"  deaf        asks for as much as it can and reads nothing; then all\n"
	"  torch-fin, torch-cuts, torch-resets: the same in PyTorch's\n"
	"  protocol, and a SET with the FIN right behind it\n";

static struct sockaddr_in at, torch;

static void die(const char *what)
{
	printf("rdzv_hard: %s\n", what);
	exit(1);
}

static void check(int ok, const char *what)
{
	if (!ok)
		die(what);
}

static int dial(const struct sockaddr_in *to)
{
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	check(fd >= 0 && connect(fd, (const struct sockaddr *)to,
				 sizeof(*to)) == 0, "cannot connect");
	return fd;
}

static void say(int fd, const void *p, size_t n)
{
	check(send(fd, p, n, MSG_NOSIGNAL) == (ssize_t)n, "cannot send");
}

static void reset(int fd)
{
	struct linger none = {.l_onoff = 1, .l_linger = 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fd);
}

/* Reads until the server closes, after we have. */
static void hang_up(int fd)
{
	char rest[4096];

	shutdown(fd, SHUT_WR);
	while (recv(fd, rest, sizeof(rest), 0) > 0)
		;
	close(fd);
}

/* ---- ours ---- */

/* The number of the running round: a job's rounds continue after those of the
 * last job of that name. */
static uint32_t job_round;

static void greet(struct buf *b)
{
	struct sim s = {.role = WIRE_WORKER, .round = job_round};

	sim_greet_job(&s, "j", b);
}

static void put_add(struct buf *b, const char *key)
{
	struct wire_add m = {SLICE_STR(key), 1};

	wire_put_add(b, WIRE_ADD, WIRE_REQUEST, 2, &m);
}

static void put_wait(struct buf *b, uint32_t id, const char *key)
{
	struct buf item = BUF_INIT(256);
	struct wire_wait m = {WIRE_NO_TIMEOUT, {1, {0}}};

	buf_put_slice(&item, SLICE_STR(key));
	m.keys.bytes = SLICE(item.data, item.len);
	wire_put_wait(b, WIRE_WAIT, WIRE_REQUEST, id, &m);
	buf_release(&item);
}

/* Bytes in the buffer that belong to the last reply; one connection at a
 * time. */
static size_t used;

static void reply_over(struct buf *in)
{
	buf_consume(in, used);
	used = 0;
}

static struct wire_frame reply(int fd, struct buf *in)
{
	struct wire_frame f;
	struct err e = ERR_INIT;
	ssize_t n;
	long cut;

	reply_over(in);
	while ((cut = wire_cut(SLICE(in->data, in->len), WIRE_BODY_MAX, &f,
			       &e)) == 0) {
		check(buf_reserve(in, 65536) != NULL, "out of memory");
		n = recv(fd, in->data + in->len, 65536, 0);
		check(n > 0, "the server has closed");
		in->len += (size_t)n;
	}
	check(cut > 0, e.text);
	used = (size_t)cut;
	return f;
}

/* A connected worker. */
static int worker(struct buf *in)
{
	struct buf b = BUF_INIT(4096);
	char greeting[WIRE_GREETING_SIZE];
	int fd = dial(&at);

	greet(&b);
	say(fd, b.data, b.len);
	check(recv(fd, greeting, sizeof(greeting), MSG_WAITALL) ==
	      sizeof(greeting), "no greeting");
	check(reply(fd, in).kind == WIRE_REPLY, "HELLO was refused");
	buf_release(&b);
	return fd;
}

static int64_t count(const char *key)
{
	struct buf in = BUF_INIT(1 << 20), b = BUF_INIT(4096);
	struct wire_key m = {SLICE_STR(key)};
	struct wire_value v;
	struct wire_frame f;
	struct err e = ERR_INIT;
	int fd = worker(&in);
	char text[32] = "0";

	wire_put_key(&b, WIRE_GET, WIRE_REQUEST, 7, &m);
	say(fd, b.data, b.len);
	f = reply(fd, &in);
	check(wire_get_value(&f, &v, &e) == 0, "GET's reply");
	if (v.found)
		snprintf(text, sizeof(text), "%.*s", SLICE_FMT(v.value));
	hang_up(fd);
	reply_over(&in);
	buf_release(&in);
	buf_release(&b);
	return atoll(text);
}

static void bytes(void)
{
	struct buf in = BUF_INIT(1 << 20), b = BUF_INIT(4096);
	struct wire_frame f;
	char greeting[WIRE_GREETING_SIZE];
	int fd = dial(&at);

	greet(&b);
	put_add(&b, "bytes");
	put_wait(&b, 3, "bytes");
	for (size_t i = 0; i < b.len; i++)
		say(fd, b.data + i, 1);
	check(recv(fd, greeting, sizeof(greeting), MSG_WAITALL) ==
	      sizeof(greeting) && !memcmp(greeting, wire_preface, 5),
	      "no greeting");
	for (uint32_t id = 1; id <= 3; id++) {
		f = reply(fd, &in);
		check(f.kind == WIRE_REPLY && f.id == id, "a reply is wrong");
	}
	reply_over(&in);
	check(count("bytes") == 1, "the key is not 1");
	hang_up(fd);
	buf_release(&in);
	buf_release(&b);
}

/* Requests that were complete before the cut must have been applied, once, and
 * no others. */
static void cuts(void)
{
	struct buf b = BUF_INIT(4096);
	size_t whole, n;

	greet(&b);
	put_add(&b, "cuts");
	whole = b.len;
	put_add(&b, "cuts");
	for (n = 0; n <= b.len; n++) {
		int fd = dial(&at);

		if (n)
			say(fd, b.data, n);
		hang_up(fd);
	}
	check(count("cuts") == (int64_t)(b.len - whole) + 2,
	      "requests were lost, or applied in part");
	printf("%zu cuts\n", n);
	buf_release(&b);
}

static void waits(uint32_t n)
{
	struct buf in = BUF_INIT(1 << 22), b = BUF_INIT(1 << 16);
	uint32_t sent = 0, refused = 0, woken = 0;
	struct wire_frame f;
	int fd = worker(&in);

	while (sent < n) {
		uint32_t many = n - sent < 256 ? n - sent : 256;

		buf_reset(&b);
		for (uint32_t i = 0; i < many; i++)
			put_wait(&b, ++sent, "never");
		say(fd, b.data, b.len);
		/* answers and reads the requests above the limit */
		while (sent > 1024 && refused < sent - 1024)
			refused += reply(fd, &in).kind == WIRE_ERROR_REPLY;
	}
	buf_reset(&b);
	put_add(&b, "never");
	say(fd, b.data, b.len);
	while (woken + refused < n) {
		f = reply(fd, &in);
		woken += f.type == WIRE_WAIT && f.kind == WIRE_REPLY;
	}
	printf("%u parked, %u refused\n", woken, refused);
	hang_up(fd);
	reply_over(&in);
	buf_release(&in);
	buf_release(&b);
}

enum { KEYS = 1 << 20, KEYS_AT_ONCE = 1 << 16, DEAF_MAX = 900 };

static enum wire_kind set_keys(int fd, struct buf *in, uint32_t from,
			       uint32_t n)
{
	struct buf items = BUF_INIT(WIRE_BODY_MAX), b = BUF_INIT(WIRE_BODY_MAX);
	struct wire_list m = {{n, {0}}};
	struct wire_error error;
	struct wire_frame f;
	char key[24];

	for (uint32_t i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "%u", from + i);
		buf_put_slice(&items, SLICE_STR(key));
		buf_put_slice(&items, SLICE_STR(""));
	}
	m.items.bytes = SLICE(items.data, items.len);
	wire_put_list(&b, WIRE_MULTI_SET, WIRE_REQUEST, 3, &m);
	for (size_t at_ = 0; at_ < b.len; at_ += 65536)
		say(fd, b.data + at_, b.len - at_ < 65536 ? b.len - at_ :
		    65536);
	f = reply(fd, in);
	if (f.kind == WIRE_ERROR_REPLY && wire_get_error(&f, &error, NULL) == 0)
		printf("%.*s\n", SLICE_FMT(error.text));
	buf_release(&items);
	buf_release(&b);
	return f.kind;
}

static void keys(void)
{
	struct buf in = BUF_INIT(1 << 20), b = BUF_INIT(4096);
	struct wire_key first = {SLICE_STR("0")};
	int fd = worker(&in);

	for (uint32_t i = 0; i < KEYS; i += KEYS_AT_ONCE)
		check(set_keys(fd, &in, i, KEYS_AT_ONCE) == WIRE_REPLY,
		      "keys within the limit");
	check(set_keys(fd, &in, KEYS, 2) == WIRE_ERROR_REPLY, "too many keys");
	wire_put_key(&b, WIRE_DELETE, WIRE_REQUEST, 4, &first);
	say(fd, b.data, b.len);
	check(reply(fd, &in).kind == WIRE_REPLY, "DELETE");
	check(set_keys(fd, &in, KEYS, 2) == WIRE_ERROR_REPLY, "two for one");
	check(set_keys(fd, &in, KEYS, 1) == WIRE_REPLY, "one for one");
	hang_up(fd);
	reply_over(&in);
	buf_release(&in);
	buf_release(&b);
}

static void resets(uint32_t n)
{
	struct buf in = BUF_INIT(1 << 20), b = BUF_INIT(4096);
	int fd;

	put_wait(&b, 2, "later");
	put_wait(&b, 3, "later");
	for (uint32_t i = 0; i < n; i++) {
		fd = worker(&in);
		reply_over(&in);
		say(fd, b.data, b.len);
		reset(fd);
	}
	buf_reset(&b);
	put_add(&b, "later");
	fd = worker(&in);
	say(fd, b.data, b.len);
	check(reply(fd, &in).kind == WIRE_REPLY, "ADD");
	reply_over(&in);
	check(count("later") == 1, "the key is not 1");
	hang_up(fd);
	buf_release(&in);
	buf_release(&b);
}

/* Sends as much of b as fits, from *at on; b is sent this many times. */
static uint32_t stuff(int fd, const struct buf *b, size_t *from)
{
	uint32_t whole = 0;
	ssize_t n;

	while ((n = send(fd, b->data + *from, b->len - *from,
			 MSG_NOSIGNAL | MSG_DONTWAIT)) > 0) {
		*from += (size_t)n;
		whole += *from == b->len;
		*from %= b->len;
		check(whole <= DEAF_MAX,
		      "it still reads from a client that reads nothing");
	}
	check(n < 0 && errno == EAGAIN, "the server has closed");
	return whole;
}

/* The server must stop reading from a client that does not read, long before
 * its limit of 64 MiB. It must serve others meanwhile, and in the end answer
 * everything. */
static void deaf(void)
{
	static char value[64 << 10], key[8 << 10];
	struct buf in = BUF_INIT(1 << 20), b = BUF_INIT(1 << 17);
	struct wire_key_value set = {SLICE(key, sizeof(key)),
				     SLICE(value, sizeof(value))};
	struct wire_key get = {SLICE(key, sizeof(key))};
	uint32_t asked = 0, more, answers = 0;
	int fd = worker(&in);
	size_t from = 0;

	memset(key, 'k', sizeof(key));
	wire_put_key_value(&b, WIRE_SET, WIRE_REQUEST, 2, &set);
	say(fd, b.data, b.len);
	check(reply(fd, &in).kind == WIRE_REPLY, "SET");
	reply_over(&in);
	buf_reset(&b);
	wire_put_key(&b, WIRE_GET, WIRE_REQUEST, 3, &get);
	do {
		more = stuff(fd, &b, &from);
		asked += more;
		check(count("other") == 0, "another's GET");
	} while (more);
	while (answers < asked) {
		check(reply(fd, &in).body.len > sizeof(value), "an answer");
		answers++;
	}
	if (from) { /* the request that was cut */
		say(fd, b.data + from, b.len - from);
		check(reply(fd, &in).body.len > sizeof(value), "the last");
	}
	printf("%u answers\n", answers);
	hang_up(fd);
	reply_over(&in);
	buf_release(&in);
	buf_release(&b);
}

/* ---- the agent ---- */

static int join(void)
{
	struct wire_join m = {
		.node_id = SLICE_STR("n"), .host = SLICE_STR("h"),
		.addr = SLICE_STR("127.0.0.1"), .hosts_server = 1,
		.node_rank = -1, .min_nodes = 1, .max_nodes = 1, .nproc = 1,
		.role = SLICE_STR("default"), .lease_ms = 3600000,
		.agent_store = 1, .store_open = 1};
	struct buf in = BUF_INIT(1 << 20), b = BUF_INIT(4096);
	struct sim s = {.role = WIRE_AGENT};
	char greeting[WIRE_GREETING_SIZE];
	struct wire_start start;
	struct wire_frame f = {0};
	struct err e = ERR_INIT;
	int fd = dial(&at);

	sim_greet_job(&s, "j", &b);
	wire_put_join(&b, WIRE_JOIN, WIRE_REQUEST, 2, &m);
	say(fd, b.data, b.len);
	check(recv(fd, greeting, sizeof(greeting), MSG_WAITALL) ==
	      sizeof(greeting), "no greeting");
	while (f.type != WIRE_START)
		f = reply(fd, &in);
	check(wire_get_start(&f, &start, &e) == 0 && start.agent_store,
	      "no store for PyTorch");
	job_round = start.round;
	torch = at;
	torch.sin_port = htons(start.master_port);
	reply_over(&in);
	buf_release(&in);
	buf_release(&b);
	return fd;
}

/* ---- PyTorch's ---- */

static void torch_text(struct buf *b, const char *s)
{
	buf_put_u64(b, strlen(s));
	buf_put(b, s, strlen(s));
}

static void torch_hello(struct buf *b)
{
	buf_put_u8(b, 0);
	buf_put_u32(b, 0x3c85f7ce);
}

static void torch_set(struct buf *b, const char *key)
{
	buf_put_u8(b, 1);
	torch_text(b, key);
	torch_text(b, "v");
}

static void torch_add(struct buf *b, const char *key, int64_t n)
{
	buf_put_u8(b, 4);
	torch_text(b, key);
	buf_put_u64(b, (uint64_t)n);
}

static void torch_wait(struct buf *b, const char *key)
{
	buf_put_u8(b, 6);
	buf_put_u64(b, 1);
	torch_text(b, key);
}

static int64_t torch_sum(const char *key)
{
	struct buf b = BUF_INIT(4096);
	int fd = dial(&torch);
	int64_t sum;

	torch_hello(&b);
	torch_add(&b, key, 0);
	say(fd, b.data, b.len);
	check(recv(fd, &sum, sizeof(sum), MSG_WAITALL) == sizeof(sum),
	      "ADD has no answer");
	hang_up(fd);
	buf_release(&b);
	return sum;
}

static void torch_fin(void)
{
	struct buf b = BUF_INIT(4096);
	char ready = 1;
	int fd = dial(&torch), waiter = dial(&torch);

	torch_hello(&b);
	torch_wait(&b, "fin");
	say(waiter, b.data, b.len);
	buf_reset(&b);
	torch_hello(&b);
	torch_set(&b, "fin");
	say(fd, b.data, b.len);
	close(fd);
	check(recv(waiter, &ready, 1, 0) == 1 && ready == 0,
	      "the wait is not over");
	hang_up(waiter);
	buf_release(&b);
}

static void torch_cuts(void)
{
	struct buf b = BUF_INIT(4096);
	size_t whole, n;

	torch_hello(&b);
	torch_add(&b, "cuts", 1);
	whole = b.len;
	torch_add(&b, "cuts", 1);
	for (n = 0; n <= b.len; n++) {
		int fd = dial(&torch);

		if (n)
			say(fd, b.data, n);
		hang_up(fd);
	}
	check(torch_sum("cuts") == (int64_t)(b.len - whole) + 2,
	      "requests were lost, or applied in part");
	buf_release(&b);
}

static void torch_resets(uint32_t n)
{
	struct buf b = BUF_INIT(4096);

	torch_hello(&b);
	torch_wait(&b, "never");
	for (uint32_t i = 0; i < n; i++) {
		int fd = dial(&torch);

		say(fd, b.data, b.len);
		reset(fd);
		/* there are so few slots that the server must notice each
		 * close */
		check(torch_sum("later") == 0, "the key is not 0");
	}
	buf_release(&b);
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	uint32_t n = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;

	if (argc < 3) {
		fputs(usage, stderr);
		return 2;
	}
	at = sim_address(argv[2]);
	join();
	if (!strcmp(what, "bytes"))
		bytes();
	else if (!strcmp(what, "cuts"))
		cuts();
	else if (!strcmp(what, "waits"))
		waits(n);
	else if (!strcmp(what, "keys"))
		keys();
	else if (!strcmp(what, "resets"))
		resets(n);
	else if (!strcmp(what, "deaf"))
		deaf();
	else if (!strcmp(what, "torch-fin"))
		torch_fin();
	else if (!strcmp(what, "torch-cuts"))
		torch_cuts();
	else if (!strcmp(what, "torch-resets"))
		torch_resets(n);
	else
		return 2;
	printf("ok\n");
	return 0;
}
