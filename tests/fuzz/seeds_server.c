/* seeds_server.c: the messages of fuzz_server's clients in each phase of its
 * job. When an input is read, the job has begun with three ranks. */
#include <stdio.h>

#include "rendezvous/wire.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/server_input.h"

/* A client's next segment: put its frames between the two calls. */
static struct buf said = BUF_INIT(SEED_MAX);
static struct buf input = BUF_INIT(SEED_MAX);
static uint32_t last_id = 10;

static void seeds_say(int client, int flags)
{
	size_t n, at = 0;

	do {
		n = said.len - at < SEGMENT_MAX ? said.len - at : SEGMENT_MAX;
		buf_put_u8(&input, (uint8_t)(client | flags));
		buf_put_u8(&input, (uint8_t)n);
		buf_put(&input, said.data + at, n);
		at += n;
	} while (at < said.len);
	buf_reset(&said);
}

/* Writes two inputs, without and with authentication. */
static void seeds_scene(const char *name)
{
	struct buf other = BUF_INIT(SEED_MAX);
	char with[64];

	buf_put(&other, input.data, input.len);
	buf_put_u8(input.len & 1 ? &input : &other, 0);
	snprintf(with, sizeof(with), "%s_proven", name);
	seeds_write("server", input.len & 1 ? with : name, &input);
	seeds_write("server", input.len & 1 ? name : with, &other);
}

#define REQUEST(type, message, ...)                                        \
	wire_put_##message(&said, WIRE_##type, WIRE_REQUEST, ++last_id,    \
			   &(struct wire_##message){__VA_ARGS__})
#define NOTICE(type, message, ...)                                    \
	wire_put_##message(&said, WIRE_##type, WIRE_NOTICE, 0,        \
			   &(struct wire_##message){__VA_ARGS__})
#define KEY .key = {"k", 1}

static void seeds_join(void)
{
	REQUEST(JOIN, join, .node_id = SLICE_STR("n"), .host = SLICE_STR("h"),
		.addr = SLICE_STR("10.0.0.1"), .node_rank = -1, .min_nodes = 1,
		.max_nodes = 2, .nproc = 3, .max_restarts = 2,
		.role = SLICE_STR("r"), .lease_ms = 3600000);
	seeds_say(AGENT, 0);
}

static void seeds_exited(uint32_t round, uint32_t rank, int code)
{
	NOTICE(EXITED, exited, .round = round, .rank = rank,
	       .local_rank = rank, .pid = 9, .code = code, .ran_ms = 7,
	       .tail = SLICE_STR("last line"), .why = SLICE_STR("why"));
	seeds_say(AGENT, 0);
}

static void seeds_server_store(void)
{
	static const char list[] = "\1\0\0\0k\1\0\0\0l";
	const struct wire_items two = {2, {list, sizeof(list) - 1}};

	REQUEST(SET, key_value, KEY, .value = SLICE_STR("v"));
	REQUEST(GET, key, KEY);
	REQUEST(ADD, add, .key = SLICE_STR("n"), .delta = 3);
	REQUEST(COMPARE_SET, compare_set, KEY, .expected = SLICE_STR("v"),
		.desired = SLICE_STR("w"));
	REQUEST(APPEND, key_value, KEY, .value = SLICE_STR("x"));
	REQUEST(MULTI_SET, list, .items = two);
	REQUEST(MULTI_GET, list, .items = two);
	seeds_say(WORKERS, 0);
	REQUEST(WAIT, wait, .timeout_ms = 3600000, .keys = two);
	seeds_say(WORKERS + 1, 0);
	REQUEST(DELETE, key, KEY);
	REQUEST(SET, key_value, .key = SLICE_STR("l"), .value = SLICE_STR(""));
	REQUEST(WAIT, wait, .timeout_ms = 0, .keys = two);
	seeds_say(WORKERS, CLOSES);
	REQUEST(SET, key_value, KEY, .value = SLICE_STR("v"));
	seeds_say(WORKERS, 0);
	seeds_scene("store");
}

static void seeds_server_meet(void)
{
	for (int i = 0; i < 2; i++) {
		REQUEST(BARRIER, barrier, KEY, .size = 2,
			.timeout_ms = 3600000);
		seeds_say(WORKERS + i, 0);
	}
	for (int i = 0; i < 2; i++) {
		REQUEST(GATHER, gather, .key = SLICE_STR("g"), .size = 2,
			.timeout_ms = 3600000, .value = SLICE_STR("v"));
		seeds_say(WORKERS + i, 0);
	}
	REQUEST(GATHER, gather, .key = SLICE_STR("h"), .size = 3,
		.timeout_ms = 3600000, .value = SLICE_STR("v"));
	seeds_say(WORKERS, 0);
	seeds_exited(0, 1, 0);
	seeds_scene("meet");
}

static void seeds_server_share(void)
{
	for (int i = 0; i < 2; i++) {
		REQUEST(SHARE, share, KEY, .size = 2, .timeout_ms = 3600000,
			.addr = SLICE_STR("10.0.0.1"), .port = 9,
			.token = SLICE_STR("0123456789abcdef"),
			.value = SLICE_STR("v"));
		seeds_say(WORKERS + i, 0);
	}
	for (int i = 0; i < 2; i++) {
		wire_put_empty(&said, WIRE_SHARED_LIST, WIRE_REQUEST,
			       ++last_id);
		seeds_say(WORKERS + i, 0);
	}
	seeds_scene("share");
}

static void seeds_server_fates(void)
{
	REQUEST(FATE, fate, .rank = 0, .timeout_ms = 3600000);
	REQUEST(FATE, fate, .rank = 9, .timeout_ms = 3600000);
	seeds_say(WORKERS + 1, 0);
	seeds_exited(0, 0, 1);
	seeds_scene("fates");
}

static void seeds_server_success(void)
{
	for (uint32_t i = 0; i < 3; i++)
		seeds_exited(0, i, 0);
	seeds_join();
	seeds_scene("success");
}

static void seeds_server_restarts(void)
{
	for (uint32_t round = 0; round < 4; round++) {
		seeds_exited(round, round % 3, 5);
		seeds_join();
	}
	seeds_scene("restarts");
}

static void seeds_server_failed(void)
{
	NOTICE(FAILED, failed, .exit_code = 70, .text = SLICE_STR("no fork"));
	seeds_say(AGENT, 0);
	NOTICE(LEAVE, leave, .signal = 2, .text = SLICE_STR("bye"));
	seeds_say(AGENT, CLOSES);
	seeds_scene("failed");
}

static void seeds_server_stop(void)
{
	for (int level = WIRE_WARNED; level <= WIRE_CUT; level++) {
		NOTICE(STOP, stop, .level = (uint8_t)level,
		       .cause = WIRE_BY_SIGNAL, .whole = 1, .signal = 15,
		       .grace_ms = 1000, .text = SLICE_STR("SIGTERM"));
		seeds_say(AGENT, 0);
	}
	seeds_exited(0, 0, 143);
	seeds_scene("stop");
}

/* The agent loses its connection and reconnects. */
static void seeds_server_resume(void)
{
	seeds_say(AGENT, RESETS);
	REQUEST(RESUME, resume, .node_id = SLICE_STR("n"), .began = 1);
	seeds_say(AGENT, 0);
	seeds_exited(0, 0, 5);
	seeds_scene("resume");
}

static void seeds_server_progress(void)
{
	struct buf items = BUF_INIT(SEED_MAX);
	struct wire_rank r = {.doing = RANK_CALLS, .quiet_ms = 600000,
			      .does_ms = 600000, .world = 5, .number = 6,
			      .peer = -1, .step = 4, .step_us = 1000,
			      .call = SLICE_STR("all_reduce"),
			      .words = SLICE_STR("sleeps"), .waited = 900};

	for (r.rank = 0; r.rank < 3; r.rank++) {
		r.local_rank = r.rank;
		r.world -= r.rank == 2;
		r.doing = r.rank == 2 ? RANK_IDLE : RANK_CALLS;
		wire_put_rank_item(&items, &r);
	}
	for (int i = 0; i < 2; i++) {
		NOTICE(PROGRESS, progress, .patience_ms = 1000,
		       .ranks = {3, {items.data, items.len}});
		wire_put_empty(&said, WIRE_PING, WIRE_REQUEST, ++last_id);
		seeds_say(AGENT, 0);
	}
	buf_release(&items);
	wire_put_empty(&said, WIRE_STATUS, WIRE_REQUEST, ++last_id);
	seeds_say(TOOL, 0);
	seeds_scene("progress");
}

static void seeds_server_dump(void)
{
	struct buf items = BUF_INIT(SEED_MAX);
	struct wire_call call = {.comm = 0, .number = 3,
				 .words = SLICE_STR("barrier")};

	wire_put_call_item(&items, &call);
	REQUEST(DUMP, dump, .last = 4, .timeout_ms = 60000);
	seeds_say(TOOL, 0);
	NOTICE(DUMP_REPLY, dump_reply, .number = 1, .text = SLICE_STR("text"),
	       .page = SLICE_STR("page"),
	       .calls = {1, {items.data, items.len}});
	seeds_say(AGENT, 0);
	REQUEST(DUMP, dump, .json = 1, .timeout_ms = 60000);
	seeds_say(TOOL, 0);
	buf_release(&items);
	seeds_scene("dump");
}

/* A second agent, whose node the job takes or keeps as a spare. */
static void seeds_server_strangers(void)
{
	const char nonce[WIRE_NONCE_SIZE] = "nonce";

	for (int i = 0; i < 2; i++) {
		REQUEST(HELLO, hello, .role = WIRE_AGENT,
			.job = SLICE_STR(i ? "other" : "j"),
			.host = SLICE_STR("g"), .method = WIRE_NO_PROOF,
			.nonce = {nonce, sizeof(nonce)});
		REQUEST(JOIN, join, .node_id = SLICE_STR("m"),
			.host = SLICE_STR("g"), .addr = SLICE_STR("10.0.0.2"),
			.node_rank = -1, .min_nodes = 1, .max_nodes = 2,
			.nproc = 3, .max_restarts = 2, .role = SLICE_STR("r"),
			.lease_ms = 3600000);
		seeds_say(STRANGERS + i, 0);
	}
	seeds_exited(0, 0, 5);
	seeds_join();
	seeds_say(STRANGERS, CLOSES);
	buf_put(&said, wire_preface, WIRE_PREFACE_SIZE);
	seeds_say(CLIENTS - 1, 0);
	buf_put(&said, "GET / HTTP/1.0\r\n\r\n", 18);
	seeds_say(CLIENTS - 2, 0);
	seeds_scene("strangers");
}

void seeds_server(void)
{
	seeds_server_store();
	seeds_server_meet();
	seeds_server_share();
	seeds_server_fates();
	seeds_server_success();
	seeds_server_restarts();
	seeds_server_failed();
	seeds_server_stop();
	seeds_server_resume();
	seeds_server_progress();
	seeds_server_dump();
	seeds_server_strangers();
	buf_release(&said);
}
