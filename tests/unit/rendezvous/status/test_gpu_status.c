/* test_gpu_status.c: the GPUs of a job in `ddprun status`, as lines and as
 * JSON. */
#include <check.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "rendezvous/status/job_status.h"
#include "tests/unit/run_case.h"

enum { MIB = 1 << 20 };

static struct buf frames = BUF_INIT(1 << 22), out = BUF_INIT(1 << 22);

static void release(void)
{
	buf_release(&frames);
	buf_release(&out);
}

/* A GPU of which nothing is known but its name. */
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

/* Appends the GPUS of a node. */
static void put_node(int32_t rank, const char *host, const struct wire_gpu *g,
		     uint32_t count)
{
	struct buf items = BUF_INIT(1 << 20);
	struct wire_gpus m = {.round = 1, .node_rank = rank,
			      .host = SLICE_STR(host),
			      .gpus = {.count = count}};

	for (uint32_t i = 0; i < count; i++)
		wire_put_gpu_item(&items, &g[i]);
	m.gpus.bytes = SLICE(items.data, items.len);
	wire_put_gpus(&frames, WIRE_GPUS, WIRE_NOTICE, 0, &m);
	ck_assert_int_eq(frames.failed, 0);
	buf_release(&items);
}

static struct slice all_frames(void)
{
	return SLICE(frames.data, frames.len);
}

static const char *lines(void)
{
	buf_reset(&out);
	gpu_status_put(&out, all_frames());
	buf_put(&out, "", 1);
	ck_assert_int_eq(out.failed, 0);
	return out.data;
}

static void line_of(const struct wire_gpu *g, const char *want)
{
	buf_reset(&frames);
	put_node(0, "h0", g, 1);
	ck_assert_str_eq(lines(), want);
}

START_TEST(a_line_has_what_is_known)
{
	struct wire_gpu g = gpu(3);

	line_of(&g, "  gpu 3 on node 0  NVIDIA H200\n");
	g.temperature = 0;
	g.utilization = 0;
	g.memory_used = 0;
	g.memory_total = (int64_t)2 * MIB - 1;
	line_of(&g, "  gpu 3 on node 0  NVIDIA H200  0 C  0 % busy  "
		    "0 of 1 MiB\n");
	g.temperature = 71;
	g.utilization = 100;
	g.memory_used = INT64_C(100000) * MIB;
	g.memory_total = INT64_C(143771) * MIB;
	g.instances = 7;
	line_of(&g, "  gpu 3 on node 0  NVIDIA H200  71 C  100 % busy  "
		    "100000 of 143771 MiB  7 instances\n");
}
END_TEST

START_TEST(a_healthy_gpu_has_no_state)
{
	struct wire_gpu g = gpu(0);

	g.is_lost = g.ecc_volatile = g.remap_failed = g.remap_pending = 0;
	g.nvlinks = 18;
	g.nvlinks_inactive = g.instances = g.throttle = 0;
	line_of(&g, "  gpu 0 on node 0  NVIDIA H200\n");
	/* errors of its whole life, and replays, are no state */
	g.ecc_aggregate = g.nvlink_errors = 5;
	line_of(&g, "  gpu 0 on node 0  NVIDIA H200\n");
}
END_TEST

START_TEST(each_fault_has_its_words)
{
	struct wire_gpu g = gpu(0);

	g.is_lost = 1;
	g.ecc_volatile = 2;
	g.remap_failed = 1;
	g.remap_pending = 1;
	g.throttle = 0x40;
	g.nvlinks = 18;
	g.nvlinks_inactive = 4;
	line_of(&g, "  gpu 0 on node 0  NVIDIA H200  lost  "
		    "2 uncorrected memory errors  row remapping failed  "
		    "row remapping pending  slowed down  "
		    "4 of 18 NVLinks down\n");
}
END_TEST

/* nvmlClocksThrottleReasons: 0x1 idle, 0x2 the user's clocks, 0x4 the power
 * limit, 0x8 the hardware, 0x10 another GPU's clocks, 0x20 and 0x40 heat, 0x80
 * the power supply, 0x100 the display's clocks. */
START_TEST(only_heat_and_hardware_slow_a_gpu_down)
{
	const int slows[9] = {0, 0, 0, 1, 0, 1, 1, 1, 0};
	struct wire_gpu g = gpu(0);

	g.throttle = INT64_C(1) << _i;
	line_of(&g, slows[_i]
			    ? "  gpu 0 on node 0  NVIDIA H200  slowed down\n"
			    : "  gpu 0 on node 0  NVIDIA H200\n");
}
END_TEST

START_TEST(gpus_of_all_nodes_are_listed_in_order)
{
	struct wire_gpu two[2] = {gpu(0), gpu(1)};

	put_node(0, "h0", two, 2);
	put_node(1, "h1", two, 0); /* it has none */
	put_node(7, "h7", two + 1, 1);
	ck_assert_str_eq(lines(), "  gpu 0 on node 0  NVIDIA H200\n"
				  "  gpu 1 on node 0  NVIDIA H200\n"
				  "  gpu 1 on node 7  NVIDIA H200\n");
}
END_TEST

START_TEST(beyond_64_lines_gpus_are_counted)
{
	struct wire_gpu many[66];
	const char *text;
	int n = 0;

	for (uint32_t i = 0; i < 66; i++)
		many[i] = gpu(i);
	put_node(0, "h0", many, 64);
	text = lines();
	ck_assert_ptr_null(strstr(text, "more"));
	put_node(1, "h1", many, 2);
	text = lines();
	for (const char *at = text; (at = strstr(at, "  gpu ")); at++)
		n++;
	ck_assert_int_eq(n, 64);
	ck_assert_ptr_nonnull(
		strstr(text, "\n  and 2 more GPUs; --json has all\n"));
}
END_TEST

START_TEST(torn_frames_are_cut)
{
	struct wire_gpu g = gpu(5);
	size_t whole;

	put_node(0, "h0", &g, 1);
	whole = frames.len;
	put_node(1, "h1", &g, 1);
	for (size_t n = whole; n < frames.len; n++) {
		buf_reset(&out);
		gpu_status_put(&out, SLICE(frames.data, n));
		buf_put(&out, "", 1);
		ck_assert_str_eq(out.data, "  gpu 5 on node 0  NVIDIA H200\n");
	}
	buf_reset(&out);
	gpu_status_put(&out, SLICE("", 0));
	ck_assert_uint_eq(out.len, 0);
}
END_TEST

/* The list claims two, but has one. */
START_TEST(a_list_that_is_too_short_ends_the_walk)
{
	struct wire_gpu g = gpu(5);
	struct buf items = BUF_INIT(1 << 20);
	struct wire_gpus m = {.host = SLICE_STR("h0"), .gpus = {.count = 2}};

	wire_put_gpu_item(&items, &g);
	m.gpus.bytes = SLICE(items.data, items.len);
	wire_put_gpus(&frames, WIRE_GPUS, WIRE_NOTICE, 0, &m);
	buf_release(&items);
	ck_assert_str_eq(lines(), "  gpu 5 on node 0  NVIDIA H200\n");
}
END_TEST

static const cJSON *get(const cJSON *o, const char *name)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);

	ck_assert_msg(v != NULL, "no %s", name);
	return v;
}

START_TEST(json_has_every_number_and_null_for_what_is_unknown)
{
	struct wire_gpu g = gpu(3);
	struct err e = ERR_INIT;
	const struct json *j = json_load(&e);
	const cJSON *list, *item;
	int64_t value = 100;
	cJSON *all;

	ck_assert_msg(j != NULL, "%s", e.text);
	put_node(2, "h2", &g, 1);
	g.uuid = SLICE_STR("");
#define F(field) g.field = value++;
	WIRE_GPU_NUMBERS(F)
#undef F
	put_node(3, "h3", &g, 1);
	all = j->object();
	gpu_status_put_json(j, all, all_frames());
	list = get(all, "gpus");
	ck_assert_int_eq(cJSON_GetArraySize(list), 2);
	item = cJSON_GetArrayItem(list, 0);
	ck_assert_int_eq(get(item, "node_rank")->valueint, 2);
	ck_assert_str_eq(get(item, "host")->valuestring, "h2");
	ck_assert_int_eq(get(item, "index")->valueint, 3);
	ck_assert_str_eq(get(item, "uuid")->valuestring, "GPU-1");
	ck_assert_str_eq(get(item, "name")->valuestring, "NVIDIA H200");
#define F(field) ck_assert(cJSON_IsNull(get(item, #field)));
	WIRE_GPU_NUMBERS(F)
#undef F
	item = cJSON_GetArrayItem(list, 1);
	ck_assert(cJSON_IsNull(get(item, "uuid")));
	value = 100;
#define F(field) ck_assert_int_eq(get(item, #field)->valueint, value++);
	WIRE_GPU_NUMBERS(F)
#undef F
	j->release(all);
}
END_TEST

START_TEST(json_without_gpus_is_an_empty_list)
{
	struct err e = ERR_INIT;
	const struct json *j = json_load(&e);
	cJSON *all = j->object();

	gpu_status_put_json(j, all, SLICE("", 0));
	ck_assert_int_eq(cJSON_GetArraySize(get(all, "gpus")), 0);
	j->release(all);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("gpu_status");

	tcase_add_checked_fixture(c, NULL, release);
	tcase_add_test(c, a_line_has_what_is_known);
	tcase_add_test(c, a_healthy_gpu_has_no_state);
	tcase_add_test(c, each_fault_has_its_words);
	tcase_add_loop_test(c, only_heat_and_hardware_slow_a_gpu_down, 0, 9);
	tcase_add_test(c, gpus_of_all_nodes_are_listed_in_order);
	tcase_add_test(c, beyond_64_lines_gpus_are_counted);
	tcase_add_test(c, torn_frames_are_cut);
	tcase_add_test(c, a_list_that_is_too_short_ends_the_walk);
	tcase_add_test(c, json_has_every_number_and_null_for_what_is_unknown);
	tcase_add_test(c, json_without_gpus_is_an_empty_list);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
