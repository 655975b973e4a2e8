/* test_journal_torch.c: the data of PyTorch's clients, read from a journal that
 * was cut at any byte: always a complete state that was once kept, and so
 * answered. A real journal with its snapshot and later batches, a full journal,
 * and a long one. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/torch/torch_session.h"
#include "tests/unit/rendezvous/server/bare_server.h"
#include "tests/unit/run_case.h"

enum { HEADER = 4096, STATES = 64, TEXT = 16384, ITEMS = 128 };

/* ---- states ---- */

/* The state's text after each batch. */
static char states[STATES][TEXT];
static int nstates;

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* "port P; k=v; q<first; q<second"; without a round of the job: "nothing". */
static void describe(struct server *s, char *text)
{
	struct hosted_job *h = server_find_named_job(s, SLICE_STR("j"));
	static char items[ITEMS][128];
	struct hash_item *at = NULL;
	const struct queued *q = NULL;
	struct slice key, value;
	int n = 0, used;

	if (!h || !h->store) {
		strcpy(text, "nothing");
		return;
	}
	used = sprintf(text, "port %u", h->torch_port);
	while (store_next_key(h->store, &at, &key)) {
		store_get(h->store, key, &value);
		sprintf(items[n++], "%.*s=%.*s", SLICE_FMT(key),
			value.len > 40 ? 40 : (int)value.len, value.data);
	}
	qsort(items, (size_t)n, sizeof(items[0]), by_text);
	for (int i = 0; i < n; i++)
		used += sprintf(text + used, "; %s", items[i]);
	at = NULL;
	while (store_next_queued(h->store, &at, &q, &key, &value))
		used += sprintf(text + used, "; %.*s<%.*s", SLICE_FMT(key),
				SLICE_FMT(value));
}

/* Commits: replies may leave. */
static void keep(struct server *s)
{
	ck_assert_int_eq(journal_writer_commit(&s->writer), 0);
	describe(s, states[nstates++]);
}

/* ---- a job, and a client of its store ---- */

static struct hosted_job *begin_job(struct server *s)
{
	const struct wire_join join = {
		.node_id = SLICE_STR("n"),
		.host = SLICE_STR("h1"),
		.addr = SLICE_STR("127.0.0.1"),
		.hosts_server = 1,
		.node_rank = -1,
		.min_nodes = 1,
		.max_nodes = 1,
		.nproc = 2,
		.role = SLICE_STR("default"),
		.agent_store = 1,
		.store_open = 1,
	};
	struct hosted_job *h = hosted_job_for_join(s, SLICE_STR("j"));
	struct buf b = BUF_INIT(4096);
	struct err e = ERR_INIT;
	struct job_node *node;
	struct wire_frame f;

	keep(s);
	wire_put_join(&b, WIRE_JOIN, WIRE_REQUEST, 1, &join);
	ck_assert_int_gt((int)wire_cut(SLICE(b.data, b.len), 4096, &f, &e), 0);
	ck_assert_int_eq(job_join(h->job, &join, NULL, "here", &node, &e), 0);
	journal_writer_event(&h->server->writer, h->number,
			     job_node_id(node), &f);
	hosted_job_act(h);
	ck_assert_int_ne(h->torch_port, 0);
	keep(s);
	buf_release(&b);
	return h;
}

static struct hosted_job *of_client;
static struct torch_session client;
static struct buf heard;

static struct buf *out_of(struct torch_session *t)
{
	return &heard;
}

static void on_changed(struct torch_session *t, struct slice request)
{
	journal_writer_torched(&of_client->server->writer, of_client->number,
			       t->generation, request);
}

static void connect_to(struct hosted_job *h)
{
	of_client = h;
	buf_init(&heard, 1 << 16);
	torch_session_init(&client, h->store, out_of);
	client.changed = on_changed;
}

static void disconnect(void)
{
	torch_session_release(&client);
	buf_release(&heard);
}

/* The client's requests, executed in one turn. */
static struct buf said;

static void op(uint8_t number)
{
	buf_put_u8(&said, number);
}

static void text(const char *s)
{
	torch_put_text(&said, SLICE_STR(s));
}

static void take(void)
{
	struct err e = ERR_INIT;

	/* no assertion: Check writes each that holds to a file */
	if (torch_session_take(&client, SLICE(said.data, said.len), &e) !=
	    (long)said.len)
		ck_abort_msg("%s", e.text);
	buf_reset(&said);
	buf_reset(&heard);
	store_answer_all(of_client->store);
}

static void turn(void)
{
	take();
	keep(of_client->server);
}

static void with_two(uint8_t number, const char *a, const char *b)
{
	op(number);
	text(a);
	text(b);
}

static void add(const char *key, int64_t n)
{
	op(TORCH_ADD);
	text(key);
	buf_put_u64(&said, (uint64_t)n);
}

static void greet(void)
{
	op(TORCH_VALIDATE);
	buf_put_u32(&said, TORCH_MAGIC);
}

static void with_one(uint8_t number, const char *key)
{
	op(number);
	text(key);
}

/* Every request that changes a store. */
static void use(void)
{
	greet();
	with_two(TORCH_SET, "init/key", "value");
	turn();
	add("counter", 5);
	turn();
	add("counter", -7);
	turn();
	with_two(TORCH_COMPARE_SET, "once", "");
	text("created");
	turn();
	with_two(TORCH_COMPARE_SET, "once", "created");
	text("swapped");
	turn();
	with_two(TORCH_APPEND, "log", "ab");
	with_two(TORCH_APPEND, "log", "cd"); /* both in one batch */
	turn();
	op(TORCH_MULTI_SET);
	buf_put_u64(&said, 2);
	text("m1");
	text("1");
	text("m2");
	text("2");
	turn();
	with_one(TORCH_DELETE_KEY, "m1");
	turn();
	with_two(TORCH_QUEUE_PUSH, "q", "first");
	turn();
	with_two(TORCH_QUEUE_PUSH, "q", "second");
	turn();
	with_two(TORCH_QUEUE_PUSH, "q", "third");
	turn();
	with_one(TORCH_QUEUE_POP, "q");
	turn();
	/* its counter is a key */
	with_one(TORCH_BARRIER, "barrier");
	buf_put_u64(&said, 1);
	turn();
}

/* In the next server, whose snapshot contains the earlier requests. */
static void use_more(void)
{
	greet();
	with_one(TORCH_QUEUE_POP, "q");
	turn();
	add("counter", 44);
	turn();
	with_two(TORCH_SET, "init/key", "another");
	turn();
	with_one(TORCH_QUEUE_POP, "q");
	with_two(TORCH_QUEUE_PUSH, "q", "fourth");
	turn();
	with_one(TORCH_DELETE_KEY, "once");
	turn();
}

/* PyTorch 1.13: other numbers, and no handshake. */
static void use_old(void)
{
	enum { OLD_SET, OLD_COMPARE_SET, OLD_GET, OLD_ADD };

	with_two(OLD_SET, "old", "value");
	turn();
	op(OLD_ADD);
	text("old counter");
	buf_put_u64(&said, 3);
	turn();
	with_two(OLD_SET, "old", "value 2");
	turn();
}

/* ---- cutting ---- */

/* The state of a server that reads these bytes. */
static void read_image(const char *bytes, size_t n, char *text)
{
	struct server *s = open_server(image(bytes, n));

	describe(s, text);
	close_server(s);
}

/* Each cut gives the state of the cut before it, or the next one. Bytes that
 * were not written are missing, or they are zeroes: that many. */
static void cut_with(const char *bytes, size_t n, size_t zeroes)
{
	char *image = calloc(1, n + zeroes), text[TEXT];
	int at = 0;

	for (size_t cut = 0; cut <= n; cut++) {
		if (cut)
			image[cut - 1] = bytes[cut - 1];
		if (cut < HEADER)
			continue;
		read_image(image, cut + zeroes, text);
		if (strcmp(text, states[at]) && at + 1 < nstates)
			at++;
		ck_assert_msg(!strcmp(text, states[at]),
			      "cut at %zu of %zu: '%s' is neither '%s' nor "
			      "what was before it",
			      cut, n, text, states[at]);
	}
	ck_assert_int_eq(at, nstates - 1);
	free(image);
}

static void cut_everywhere(int fd)
{
	size_t n;
	char *bytes = bytes_of(fd, &n);

	ck_assert_str_eq(states[0], "nothing");
	cut_with(bytes, n, 0);
	cut_with(bytes, n, 4096);
	free(bytes);
	close(fd);
}

static void count(struct server *s, int turns)
{
	for (int i = 0; i < turns; i++) {
		add("counter", 1);
		take();
		journal_writer_commit(&s->writer);
	}
}

static void set_large(const char *key, size_t n)
{
	char *value = malloc(n + 1);

	memset(value, 'x', n);
	value[n] = '\0';
	with_two(TORCH_SET, key, value);
	take();
	free(value);
}

/* Checks the state that the journal has now. */
static void is_kept_as(int fd, const char *state)
{
	size_t n;
	char *bytes = bytes_of(fd, &n), text[TEXT];

	read_image(bytes, n, text);
	ck_assert_str_eq(text, state);
	free(bytes);
}

static void (*uses[])(void) = {use, use_old};

static void begin(void)
{
	buf_init(&said, 1 << 20);
	nstates = 0;
}

static void end(void)
{
	buf_release(&said);
}

START_TEST(a_journal_cut_anywhere_gives_earlier_answers)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(dup(fd));

	connect_to(begin_job(s));
	uses[_i]();
	disconnect();
	close_server(s);
	cut_everywhere(fd);
}
END_TEST

START_TEST(a_snapshot_and_records_cut_anywhere_do_the_same)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(dup(fd));
	char before[TEXT];

	connect_to(begin_job(s));
	use();
	disconnect();
	describe(s, before);
	close_server(s);

	/* half of the only snapshot is nothing */
	strcpy(states[0], "nothing");
	nstates = 1;
	s = open_server(dup(fd));
	describe(s, states[nstates++]);
	ck_assert_str_eq(states[1], before);
	connect_to(server_find_named_job(s, SLICE_STR("j")));
	use_more();
	disconnect();
	close_server(s);
	cut_everywhere(fd);
}
END_TEST

START_TEST(records_lost_to_a_full_disk_are_in_the_snapshot)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(dup(fd));
	char state[TEXT];

	connect_to(begin_job(s));
	greet();
	count(s, 10);
	describe(s, state);
	ck_assert_int_eq(s->writer.has_complained, 0);
	is_kept_as(fd, state);
	limit_files(80 << 10);
	/* the state fits in the old snapshot's place */
	count(s, 2000);
	ck_assert_int_eq(s->writer.has_complained, 0);
	describe(s, state);
	is_kept_as(fd, state);
	/* this state does not fit at all */
	set_large("large", 100 << 10);
	journal_writer_commit(&s->writer);
	ck_assert_int_eq(s->writer.has_complained, 1);
	/* a journal with a part of it would be wrong */
	limit_files(RLIM_INFINITY);
	is_kept_as(fd, "nothing");
	/* there is space, but it is not time to retry */
	count(s, 1);
	is_kept_as(fd, "nothing");
	s->writer.again_ms = 0; /* now it is */
	count(s, 1);
	ck_assert_int_eq(s->writer.has_complained, 0);
	describe(s, state);
	ck_assert_ptr_nonnull(strstr(state, "counter=2012; "));
	is_kept_as(fd, state);
	count(s, 1);
	describe(s, state);
	is_kept_as(fd, state);
	disconnect();
	close_server(s);
	close(fd);
}
END_TEST

/* The disk is full when the journal has grown long, and has space later. */
START_TEST(a_compaction_that_finds_no_room_loses_nothing)
{
	enum { VALUE = 60 << 10, SETS = 70 };
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(dup(fd));
	char state[TEXT], name[16];
	uint32_t snapshots;

	connect_to(begin_job(s));
	greet();
	take();
	/* space for batches, but not for a snapshot after them */
	limit_files((8 << 20) + (10 << 10));
	for (int i = 0; i < SETS; i++) {
		snprintf(name, sizeof(name), "key %d", i);
		set_large(name, VALUE);
		journal_writer_commit(&s->writer);
	}
	for (int i = 0; i < 60; i++) {
		set_large("k", VALUE);
		count(s, 1);
		describe(s, state);
		if (i % 5 == 0)
			is_kept_as(fd, state);
	}
	ck_assert_int_eq(s->writer.has_complained, 0);
	ck_assert_uint_ne(s->writer.again_ms, 0); /* compaction was tried */
	is_kept_as(fd, state);
	/* there is space again: compacts at the next attempt */
	limit_files(RLIM_INFINITY);
	snapshots = s->writer.snapshots;
	s->writer.again_ms = 0;
	for (int i = 0; i < 350; i++) {
		set_large("k", VALUE);
		count(s, 1);
	}
	ck_assert_uint_gt(s->writer.snapshots, snapshots);
	ck_assert_uint_eq(s->writer.again_ms, 0);
	describe(s, state);
	is_kept_as(fd, state);
	disconnect();
	close_server(s);
	close(fd);
}
END_TEST

START_TEST(a_long_journal_is_compacted_without_a_change)
{
	enum { TURNS = 400000, RECORD = 60 }; /* at least, with its batch */
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(dup(fd));
	char state[TEXT];
	struct stat st;

	connect_to(begin_job(s));
	use();
	count(s, TURNS);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_lt((int)st.st_size, TURNS * RECORD);
	describe(s, state);
	ck_assert_ptr_nonnull(strstr(state, "q<second; q<third"));
	disconnect();
	is_kept_as(fd, state);
	close_server(s);
	close(fd);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("journal_writer_torch");

	tcase_add_checked_fixture(tc, begin, end);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, a_journal_cut_anywhere_gives_earlier_answers, 0,
			    sizeof(uses) / sizeof(*uses));
	tcase_add_test(tc, a_snapshot_and_records_cut_anywhere_do_the_same);
	tcase_add_test(tc,
		       records_lost_to_a_full_disk_are_in_the_snapshot);
	tcase_add_test(tc, a_compaction_that_finds_no_room_loses_nothing);
	tcase_add_test(tc, a_long_journal_is_compacted_without_a_change);
	return run_case(tc);
}
