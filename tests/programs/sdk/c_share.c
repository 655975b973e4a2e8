/* c_share.c: a rank of a gather whose list the ranks pass on to each other, as
 * libddp does. It checks the list that it gets, or, as RANK, misbehaves. Each
 * rank's value has some 50 KB, so that no value is sent in one piece.
 *
 *   c_share [WHAT RANK]   prints "rank R: ok", or what is wrong, when all
 *                         remaining ranks have the list. WHAT RANK does to the
 *                         ranks that connect to it:
 *     lies     encrypts wrong bytes       short    sends half, and closes
 *     garbles  sends bytes that are not a record
 *     silent   listens, and sends nothing
 *     refuses  does not listen any more   dies     sends half and exits
 *     strange  before it behaves, connects to its own source with wrong hellos
 * With WHAT all ranks print "rank R: told" when the server has answered. */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "tests/programs/peers/rdzv_raw.h"
#include "worker-sdk/kv/gather_relay.h"

enum { VALUE = 50000 };

static uint32_t rank, size;
static const char *what = "";
static struct client *client;
static struct err e;

static int number(const char *name)
{
	return atoi(getenv(name));
}

static void must(int rc)
{
	if (rc < 0)
		exit(die(&e));
}

static void say(const char *text)
{
	printf("rank %u: %s\n", rank, text);
	fflush(stdout);
}

static void open_client(void)
{
	struct wire_hello hello = {.role = WIRE_WORKER,
				   .job = SLICE_STR(getenv("DDP_JOB_ID")),
				   .host = SLICE_STR("test"),
				   .round = (uint32_t)number("DDP_ROUND"),
				   .rank = rank};
	const struct auth auth = choose_auth();
	struct endpoint at;

	must(endpoint_parse(&at, getenv("DDP_RDZV_ENDPOINT"), 0, &e));
	must(client_connect(&client, &at, &hello, &auth, 5000, &e));
	client_set_reconnect(client, 20000);
}

static void fill(char *value, uint32_t of)
{
	for (uint32_t i = 0; i < VALUE; i++)
		value[i] = (char)(of * 31 + i * 2654435761u / 7);
}

static void check(const char *list, size_t bytes)
{
	static char want[VALUE];
	struct reader r;

	reader_init(&r, SLICE(list, bytes));
	for (uint32_t i = 0; i < size; i++) {
		struct slice v = reader_slice(&r);

		fill(want, i);
		if (v.len != VALUE || memcmp(v.data, want, VALUE)) {
			say("WRONG");
			exit(1);
		}
	}
}

/* ---- bad ones ---- */

/* A list of that many wrong bytes: a record sealed with the token or, to
 * garble, no record. */
static struct buf wrong_list(const struct ddp__relay *relay, size_t bytes)
{
	struct buf out = BUF_INIT(2 * bytes + CIPHER_RECORD_MAX);
	char *wrong = calloc(1, bytes);
	struct cipher_way way;

	buf_put(&out, wrong, CIPHER_RELAY_RANDOM);
	cipher_relay_way(&way, relay->token, wrong);
	if (strcmp(what, "garbles"))
		cipher_seal(&way, SLICE(wrong, bytes), &out);
	else
		buf_put(&out, wrong, bytes);
	free(wrong);
	return out;
}

static void send_to_next(const struct ddp__relay *relay, size_t bytes)
{
	struct buf wrong = wrong_list(relay, bytes);
	char hello[CIPHER_RELAY_HELLO];
	struct pollfd p[DDP__LISTEN_MAX];
	int n = ddp__listen_polls(&relay->listener, p, DDP__LISTEN_MAX), fd;

	do
		poll(p, (nfds_t)n, -1);
	while ((fd = ddp__listen_accept(&relay->listener)) < 0);
	for (size_t sent = 0; sent < wrong.len;) {
		struct pollfd out = {fd, POLLOUT, 0};
		ssize_t k;

		poll(&out, 1, -1);
		k = send(fd, wrong.data + sent, wrong.len - sent, MSG_NOSIGNAL);
		if (k <= 0)
			break;
		sent += (size_t)k;
	}
	/* unread bytes would turn the close into a reset */
	(void)!recv(fd, hello, sizeof(hello), 0);
	close(fd);
	buf_release(&wrong);
}

static int call_source(const struct wire_shared *told)
{
	char where[SOCK_TEXT_MAX];

	snprintf(where, sizeof(where), "%.*s:%u", SLICE_FMT(told->addr),
		 told->port);
	return raw_connect(where);
}

/* Reads from its own source, so that the source does not wait for it. */
static void give_up_source(const struct wire_shared *told)
{
	unsigned char hello[CIPHER_RELAY_HELLO];
	char some[4096];
	int fd;

	if (!told->port)
		return;
	must(cipher_relay_hello(hello, told->token.data, &e));
	fd = call_source(told);
	(void)!send(fd, hello, sizeof(hello), MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	while (recv(fd, some, sizeof(some), 0) > 0)
		;
	close(fd);
}

static void misbehave(struct ddp__relay *relay, const struct wire_shared *told)
{
	size_t bytes = size * (4 + VALUE);
	uint32_t comers = told->comers;

	say(what);
	give_up_source(told);
	if (!strcmp(what, "refuses"))
		ddp__relay_close(relay);
	for (uint32_t i = 0; i < comers && (!strcmp(what, "lies") ||
					    !strcmp(what, "garbles")); i++)
		send_to_next(relay, bytes);
	for (uint32_t i = 0; i < comers && !strcmp(what, "short"); i++)
		send_to_next(relay, bytes / 2);
	if (!strcmp(what, "dies")) {
		send_to_next(relay, bytes / 2);
		_exit(0);
	}
}

/* Connects so often that a listener that kept such connections would have no
 * room left. */
static void knock(const struct wire_shared *told)
{
	static const char wrong[CIPHER_RELAY_HELLO];
	int silent[20];
	char byte;

	for (int i = 0; i < 20; i++)
		silent[i] = call_source(told);
	for (int i = 0; i < 20; i++) {
		int fd = call_source(told);

		(void)!send(fd, wrong, sizeof(wrong), MSG_NOSIGNAL);
		if (recv(fd, &byte, 1, 0) > 0) {
			say("a wrong hello was served");
			exit(1);
		}
		close(fd);
	}
	for (int i = 0; i < 20; i++)
		close(silent[i]);
}

/* Returns once `size` ranks are here. */
static void await_all(void)
{
	const struct slice all = SLICE_STR("all are here");
	int64_t here = 0;

	must(client_add(client, SLICE_STR("here"), 1, &here, &e));
	if (here == size)
		must(client_set(client, all, SLICE_STR(""), &e));
	must(client_wait(client, &all, 1, -1, &e));
}

int main(int argc, char **argv)
{
	static char value[VALUE];
	struct wire_share m = {.key = SLICE_STR("g"),
			       .value = SLICE(value, VALUE)};
	struct wire_shared told;
	struct ddp__relay relay;
	char *list = NULL;
	size_t bytes;

	rank = (uint32_t)number("RANK");
	m.size = size = (uint32_t)number("WORLD_SIZE");
	if (argc == 3 && (uint32_t)atoi(argv[2]) == rank)
		what = argv[1];
	open_client();
	fill(value, rank);
	ddp__relay_open(&relay, number("LOCAL_RANK") ? NULL :
		       getenv("DDP_NODE_ADDR"), &m);
	must(client_share(client, &m, -1, &told, &e));
	if (argc == 3)
		say("told");
	if (*what && strcmp(what, "strange")) {
		misbehave(&relay, &told);
	} else {
		if (*what)
			knock(&told);
		must(ddp__relay_on(&relay, client, &told, size, &list, &bytes,
				  &e));
		check(list, bytes);
		free(list);
	}
	if (argc == 3 && !strcmp(argv[1], "dies"))
		size--;
	await_all();
	ddp__relay_close(&relay);
	client_free(client);
	say("ok");
	return 0;
}
