/* test_gpu_report.c: what agents report about their GPUs: kept for tools and
 * metrics, and passed on to the other agents. The agents have no sockets. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/query/query.h"
#include "rendezvous/server/hosted_job.h"
#include "tests/unit/rendezvous/server/bare_server.h"
#include "tests/unit/run_case.h"

static struct server *s;
static struct hosted_job *h;
static struct peer *agent[3];
static struct err e;
static struct buf out, sent;

/* Frames to it stay in conn.out, as its connection is closed. */
static struct peer *new_agent(const char *host)
{
	struct peer *p = calloc(1, sizeof(*p));

	p->conn.state = CONN_CLOSED;
	buf_init(&p->conn.out, 1 << 20);
	p->role = WIRE_AGENT;
	p->server = s;
	p->hosted = h;
	p->host = strdup(host);
	server_add_peer(s, p);
	return p;
}

static struct wire_frame frame_of(struct buf *b)
{
	struct wire_frame f = {0};

	ck_assert_int_eq(b->failed, 0);
	ck_assert_int_gt(wire_cut(SLICE(b->data, b->len), WIRE_BODY_MAX, &f,
				  &e), 0);
	return f;
}

static void join(struct peer *p, int rank, uint32_t nodes)
{
	const struct wire_join m = {
		.node_id = SLICE_STR(p->host), .host = SLICE_STR(p->host),
		.addr = SLICE_STR("127.0.0.1"), .node_rank = rank,
		.min_nodes = nodes, .max_nodes = nodes, .nproc = 1,
		.role = SLICE_STR("default"),
	};
	struct wire_frame f;

	buf_reset(&sent);
	wire_put_join(&sent, WIRE_JOIN, WIRE_REQUEST, 1, &m);
	f = frame_of(&sent);
	ck_assert_msg(job_event_take(h, &p->node, p, &f, &e) == 0, "%s",
		      e.text);
	hosted_job_act(h);
}

/* A running job of two nodes, and an agent that has joined none. */
static void begin(void)
{
	buf_init(&out, 1 << 20);
	buf_init(&sent, 1 << 20);
	s = open_server(memfd_create("journal", MFD_CLOEXEC));
	h = hosted_job_for_join(s, SLICE_STR("j"));
	agent[0] = new_agent("h0");
	agent[1] = new_agent("h1");
	agent[2] = new_agent("h2");
	join(agent[0], 0, 2);
	join(agent[1], 1, 2);
	ck_assert_int_eq(job_state(h->job), JOB_RUNNING);
	for (int i = 0; i < 3; i++)
		buf_reset(&agent[i]->conn.out);
}

static void end(void)
{
	hosted_job_drop(h);
	for (int i = 0; i < 3; i++) {
		server_remove_peer(agent[i]);
		buf_release(&agent[i]->conn.out);
		buf_release(&agent[i]->gpus);
		free(agent[i]->host);
		free(agent[i]);
	}
	close_server(s);
	buf_release(&out);
	buf_release(&sent);
}

static struct wire_gpu gpu(uint32_t index)
{
	return (struct wire_gpu){
		.index = index, .uuid = SLICE_STR("GPU-1"),
		.name = SLICE_STR("NVIDIA H200"),
#define F(field) .field = -1,
		WIRE_GPU_NUMBERS(F)
#undef F
	};
}

/* The agent's GPUS message: these GPUs, and `count` as their number. */
static int report(struct peer *p, const struct wire_gpu *g, uint32_t has,
		  uint32_t count)
{
	struct buf items = BUF_INIT(1 << 20);
	/* the server knows better which node it is */
	struct wire_gpus m = {.round = 9, .node_rank = 77,
			      .host = SLICE_STR("liar"),
			      .gpus = {.count = count}};
	struct wire_frame f;

	for (uint32_t i = 0; i < has; i++)
		wire_put_gpu_item(&items, &g[i]);
	m.gpus.bytes = SLICE(items.data, items.len);
	buf_reset(&sent);
	wire_put_gpus(&sent, WIRE_GPUS, WIRE_NOTICE, 0, &m);
	buf_release(&items);
	f = frame_of(&sent);
	return gpu_report_take(p, &f, &e);
}

/* ---- for tools ---- */

/* "rank host: index index; " of each GPUS. */
static const char *nodes_text(void)
{
	static char text[512];
	struct buf b = BUF_INIT(1 << 20);
	struct slice rest;
	size_t n = 0;

	gpu_report_put(&b, h);
	ck_assert_int_eq(b.failed, 0);
	text[0] = '\0';
	rest = SLICE(b.data, b.len);
	while (rest.len) {
		struct wire_gpus m;
		struct wire_frame f;
		struct reader r;
		long cut = wire_cut(rest, WIRE_BODY_MAX, &f, &e);

		ck_assert_int_gt(cut, 0);
		ck_assert(f.type == WIRE_GPUS && f.kind == WIRE_NOTICE);
		ck_assert_int_eq(wire_get_gpus(&f, &m, &e), 0);
		ck_assert_uint_eq(m.round, job_round(h->job));
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%d %.*s:",
				      m.node_rank, SLICE_FMT(m.host));
		reader_init(&r, m.gpus.bytes);
		for (uint32_t i = 0; i < m.gpus.count; i++) {
			struct wire_gpu g = wire_get_gpu_item(&r);

			n += (size_t)snprintf(text + n, sizeof(text) - n,
					      " %u", g.index);
		}
		ck_assert(!r.bad);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "; ");
		rest = SLICE(rest.data + cut, rest.len - (size_t)cut);
	}
	buf_release(&b);
	return text;
}

START_TEST(the_last_report_of_each_node_is_kept)
{
	struct wire_gpu g[3] = {gpu(4), gpu(5), gpu(6)};

	ck_assert_str_eq(nodes_text(), "");
	ck_assert_int_eq(report(agent[0], g, 2, 2), 0);
	ck_assert_str_eq(nodes_text(), "0 h0: 4 5; ");
	ck_assert_int_eq(report(agent[1], g + 2, 1, 1), 0);
	ck_assert_int_eq(report(agent[0], g + 1, 1, 1), 0);
	/* it is not in the job */
	ck_assert_int_eq(report(agent[2], g, 3, 3), 0);
	ck_assert_str_eq(nodes_text(), "0 h0: 5; 1 h1: 6; ");
	ck_assert_int_eq(report(agent[0], g, 0, 0), 0);
	ck_assert_str_eq(nodes_text(), "1 h1: 6; ");
}
END_TEST

START_TEST(a_report_that_is_too_short_changes_nothing)
{
	struct wire_gpu g[2] = {gpu(4), gpu(5)};
	struct wire_frame f;

	ck_assert_int_eq(report(agent[0], g, 1, 1), 0);
	ck_assert_int_eq(report(agent[0], g, 2, 3), ERR_PROTOCOL);
	ck_assert_str_eq(e.text, "GPUS: item 2 is too short");
	ck_assert_int_eq(report(agent[0], g, 1, UINT32_MAX), ERR_PROTOCOL);
	ck_assert_str_eq(nodes_text(), "0 h0: 4; ");
	/* not a GPUS at all */
	f = frame_of(&sent);
	f.body.len = 3;
	ck_assert_int_lt(gpu_report_take(agent[0], &f, &e), 0);
	ck_assert_str_eq(nodes_text(), "0 h0: 4; ");
}
END_TEST

START_TEST(more_than_the_server_keeps_of_an_agent_is_dropped)
{
	static char name[40000];
	struct wire_gpu g[2] = {gpu(4), gpu(5)};

	memset(name, 'n', sizeof(name));
	ck_assert_int_eq(report(agent[0], g, 2, 2), 0);
	g[0].name = g[1].name = SLICE(name, sizeof(name));
	ck_assert_int_eq(report(agent[0], g, 2, 2), 0);
	ck_assert_str_eq(nodes_text(), "");
	gpu_report_put_metrics(&out, s);
	ck_assert_uint_eq(out.len, 0);
	/* the next one is kept again */
	ck_assert_int_eq(report(agent[0], g, 1, 1), 0);
	ck_assert_str_eq(nodes_text(), "0 h0: 4; ");
}
END_TEST

/* ---- news ---- */

static struct wire_gpu_news lost(void)
{
	return (struct wire_gpu_news){
		.round = job_round(h->job), .node_rank = 77, .index = 3,
		.xid = 79, .severity = 3, .host = SLICE_STR("liar"),
		.uuid = SLICE_STR("GPU-3"),
		.text = SLICE_STR("GPU 3: Xid 79, fell off the bus"),
		.action = SLICE_STR("replace it"),
	};
}

static int pass(struct peer *p, const struct wire_gpu_news *m)
{
	struct wire_frame f;

	buf_reset(&sent);
	wire_put_gpu_news(&sent, WIRE_GPU_NEWS, WIRE_NOTICE, 0, m);
	f = frame_of(&sent);
	return gpu_report_pass(p, &f, &e);
}

static size_t bytes_sent(void)
{
	return agent[0]->conn.out.len + agent[1]->conn.out.len +
	       agent[2]->conn.out.len;
}

START_TEST(news_reach_all_nodes_of_the_round_with_the_senders_name)
{
	struct wire_gpu_news m = lost(), got;

	ck_assert_int_eq(pass(agent[1], &m), 0);
	for (int i = 0; i < 2; i++) {
		struct wire_frame f = frame_of(&agent[i]->conn.out);

		ck_assert(f.type == WIRE_GPU_NEWS && f.kind == WIRE_NOTICE);
		ck_assert_int_eq(wire_get_gpu_news(&f, &got, &e), 0);
		ck_assert_uint_eq(got.node_rank, 1);
		ck_assert_int_eq((int)got.host.len, 2);
		ck_assert_mem_eq(got.host.data, "h1", 2);
		ck_assert_uint_eq(got.index, 3);
		ck_assert_uint_eq(got.xid, 79);
		ck_assert_uint_eq(got.severity, 3);
		ck_assert_uint_eq(got.round, m.round);
		ck_assert_uint_eq(got.text.len, m.text.len);
		ck_assert_mem_eq(got.text.data, m.text.data, m.text.len);
		ck_assert_mem_eq(got.action.data, "replace it", 10);
		ck_assert_mem_eq(got.uuid.data, "GPU-3", 5);
	}
	ck_assert_uint_eq(agent[2]->conn.out.len, 0);
}
END_TEST

START_TEST(news_of_another_round_or_of_no_node_are_ignored)
{
	struct wire_gpu_news m = lost();

	m.round++;
	ck_assert_int_eq(pass(agent[1], &m), 0);
	m = lost();
	ck_assert_int_eq(pass(agent[2], &m), 0); /* has not joined */
	agent[2]->hosted = NULL;
	ck_assert_int_eq(pass(agent[2], &m), 0); /* has no job */
	ck_assert_uint_eq(bytes_sent(), 0);
	agent[2]->hosted = h;
}
END_TEST

/* Node 1's connection is gone, and it may come back. */
START_TEST(news_skip_a_node_without_a_connection)
{
	struct wire_gpu_news m = lost();

	job_node_own(agent[1]->node, NULL);
	ck_assert_int_eq(pass(agent[0], &m), 0);
	ck_assert_uint_gt(agent[0]->conn.out.len, 0);
	ck_assert_uint_eq(agent[1]->conn.out.len, 0);
	ck_assert_int_eq(report(agent[1], NULL, 0, 0), 0);
	ck_assert_str_eq(nodes_text(), "");
}
END_TEST

START_TEST(texts_that_are_too_long_are_refused)
{
	static char text[1025];
	struct wire_gpu_news m;
	struct slice *const texts[] = {&m.text, &m.action, &m.uuid};

	memset(text, 't', sizeof(text));
	m = lost();
	*texts[_i] = SLICE(text, 1024);
	ck_assert_int_eq(pass(agent[0], &m), 0);
	ck_assert_uint_gt(bytes_sent(), 2 * 1024);
	buf_reset(&agent[0]->conn.out);
	buf_reset(&agent[1]->conn.out);
	*texts[_i] = SLICE(text, 1025);
	ck_assert_int_eq(pass(agent[0], &m), ERR_PROTOCOL);
	ck_assert_ptr_eq(strstr(e.text, "GPU_NEWS: "), e.text);
	ck_assert_uint_eq(bytes_sent(), 0);
}
END_TEST

/* ---- metrics ---- */

static const char *metrics(void)
{
	buf_reset(&out);
	gpu_report_put_metrics(&out, s);
	buf_put(&out, "", 1);
	ck_assert_int_eq(out.failed, 0);
	return out.data;
}

static void has(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part) != NULL, "no '%s' in:\n%s", part,
		      text);
}

START_TEST(without_gpus_there_are_no_metrics)
{
	struct wire_gpu g = gpu(0);

	ck_assert_str_eq(metrics(), "");
	/* it is in no job's node */
	ck_assert_int_eq(report(agent[2], &g, 1, 1), 0);
	ck_assert_str_eq(metrics(), "");
}
END_TEST

START_TEST(a_gauge_has_a_line_for_each_gpu_that_reports_it)
{
	struct wire_gpu g[2] = {gpu(0), gpu(1)};
	const char *text;

	g[0].temperature = 0;
	g[1].memory_used = INT64_C(150754820096);
	g[1].uuid = SLICE_STR("GPU-2");
	ck_assert_int_eq(report(agent[0], g, 2, 2), 0);
	text = metrics();
	has(text, "# HELP ddprdzv_gpu_temperature_celsius Temperature of the "
		  "GPU.\n# TYPE ddprdzv_gpu_temperature_celsius gauge\n"
		  "ddprdzv_gpu_temperature_celsius{job=\"j\",host=\"h0\","
		  "gpu=\"0\",uuid=\"GPU-1\"} 0\n# HELP");
	has(text, "ddprdzv_gpu_memory_used_bytes{job=\"j\",host=\"h0\","
		  "gpu=\"1\",uuid=\"GPU-2\"} 150754820096\n");
	/* what no GPU reports */
	has(text, "# TYPE ddprdzv_gpu_lost gauge\n");
	ck_assert_ptr_null(strstr(text, "ddprdzv_gpu_lost{"));
}
END_TEST

/* Every number of the wire has a gauge. */
START_TEST(each_number_is_a_gauge)
{
	struct wire_gpu g = gpu(0);
	int64_t value = 1000;
	char want[32];

#define F(field) g.field = value++;
	WIRE_GPU_NUMBERS(F)
#undef F
	ck_assert_int_eq(report(agent[0], &g, 1, 1), 0);
	metrics();
	for (int64_t v = 1000; v < value; v++) {
		snprintf(want, sizeof(want), "\"} %lld\n", (long long)v);
		has(out.data, want);
	}
}
END_TEST

START_TEST(labels_are_escaped)
{
	struct wire_gpu g = gpu(0);

	g.is_lost = 1;
	g.uuid = SLICE_STR("a\"b\\c\nd\te");
	ck_assert_int_eq(report(agent[0], &g, 1, 1), 0);
	has(metrics(), "uuid=\"a\\\"b\\\\cde\"} 1\n");
	free(agent[0]->host);
	agent[0]->host = NULL;
	has(metrics(), "host=\"\",gpu=\"0\"");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("gpu_report");

	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, the_last_report_of_each_node_is_kept);
	tcase_add_test(c, a_report_that_is_too_short_changes_nothing);
	tcase_add_test(c, more_than_the_server_keeps_of_an_agent_is_dropped);
	tcase_add_test(c,
		       news_reach_all_nodes_of_the_round_with_the_senders_name);
	tcase_add_test(c, news_of_another_round_or_of_no_node_are_ignored);
	tcase_add_test(c, news_skip_a_node_without_a_connection);
	tcase_add_loop_test(c, texts_that_are_too_long_are_refused, 0, 3);
	tcase_add_test(c, without_gpus_there_are_no_metrics);
	tcase_add_test(c, a_gauge_has_a_line_for_each_gpu_that_reports_it);
	tcase_add_test(c, each_number_is_a_gauge);
	tcase_add_test(c, labels_are_escaped);
	return run_case(c);
}
