/* test_gpu_news.c: what happened to GPUs, as lines of the failure page and in
 * report.json. */
#include <check.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "launcher/failure/report.h"
#include "launcher/gpu/gpu_findings.h"
#include "tests/unit/run_case.h"

static struct gpu_news news;
static struct buf out = BUF_INIT(1 << 20);

static void release(void)
{
	gpu_news_reset(&news);
	buf_release(&out);
}

static struct wire_gpu_news lost(void)
{
	return (struct wire_gpu_news){
		.round = 1, .node_rank = 1, .index = 3, .xid = 79,
		.severity = GPU_BROKEN, .host = SLICE_STR("h1"),
		.uuid = SLICE_STR("GPU-3"),
		.text = SLICE_STR("GPU 3: Xid 79, fell off the bus"),
		.action = SLICE_STR("reset or replace the GPU"),
	};
}

static void put_line(struct buf *to, const char *label, struct slice text)
{
	buf_printf(to, "[%s] %.*s\n", label, SLICE_FMT(text));
}

static const char *lines(const struct gpu_news *all, const char *known)
{
	buf_reset(&out);
	gpu_news_put(&out, all, SLICE_STR(known), put_line);
	buf_put(&out, "", 1);
	return out.data;
}

START_TEST(the_label_is_on_the_first_line)
{
	struct wire_gpu_news m = lost();

	gpu_news_add(&news, &m);
	m.node_rank = 0;
	m.host = SLICE_STR("h0");
	m.text = SLICE_STR("GPU 0: too hot");
	gpu_news_add(&news, &m);
	ck_assert_str_eq(lines(&news, ""),
			 "[GPUs] node 1 (h1): GPU 3: Xid 79, fell off the "
			 "bus\n"
			 "[] node 0 (h0): GPU 0: too hot\n");
}
END_TEST

START_TEST(what_the_page_has_already_is_left_out)
{
	struct wire_gpu_news m = lost();

	gpu_news_add(&news, &m);
	ck_assert_str_eq(lines(&news, "rank 3: GPU 3: Xid 79, fell off the "
				      "bus; exit code 1"),
			 "");
	m.text = SLICE_STR("GPU 0: too hot");
	gpu_news_add(&news, &m);
	ck_assert_str_eq(lines(&news, "GPU 3: Xid 79, fell off the bus"),
			 "[GPUs] node 1 (h1): GPU 0: too hot\n");
	ck_assert_str_eq(lines(NULL, ""), "");
}
END_TEST

START_TEST(news_are_copied_from_the_senders_memory)
{
	char host[] = "h1", text[] = "GPU 3: too hot";
	struct wire_gpu_news m = lost();

	m.host = SLICE_STR(host);
	m.text = SLICE_STR(text);
	gpu_news_add(&news, &m);
	memset(host, 'x', sizeof(host));
	memset(text, 'x', sizeof(text));
	ck_assert_str_eq(lines(&news, ""),
			 "[GPUs] node 1 (h1): GPU 3: too hot\n");
}
END_TEST

START_TEST(further_ones_are_dropped)
{
	struct wire_gpu_news m = lost();
	char text[GPU_TEXT_MAX];

	for (int i = 0; i < GPU_NEWS_MAX + 3; i++) {
		snprintf(text, sizeof(text), "GPU %d: slow", i);
		m.text = SLICE_STR(text);
		gpu_news_add(&news, &m);
	}
	ck_assert_uint_eq(news.n, GPU_NEWS_MAX);
	ck_assert_ptr_nonnull(strstr(lines(&news, ""), ": GPU 31: slow\n"));
	ck_assert_ptr_null(strstr(out.data, ": GPU 32: slow\n"));
	gpu_news_reset(&news);
	ck_assert_str_eq(lines(&news, ""), "");
	/* there is room again */
	gpu_news_add(&news, &m);
	ck_assert_str_eq(lines(&news, ""),
			 "[GPUs] node 1 (h1): GPU 34: slow\n");
}
END_TEST

/* The server's limit of a text is far below it. */
START_TEST(one_that_is_too_large_is_left_out)
{
	char text[(8 << 10) + 1];
	struct wire_gpu_news m = lost();

	memset(text, 't', sizeof(text));
	m.text = SLICE(text, sizeof(text));
	gpu_news_add(&news, &m);
	ck_assert_uint_eq(news.n, 0);
	m = lost();
	gpu_news_add(&news, &m);
	ck_assert_uint_eq(news.n, 1);
}
END_TEST

static const cJSON *get(const cJSON *o, const char *name)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);

	ck_assert_msg(v != NULL, "no %s", name);
	return v;
}

START_TEST(the_same_as_json)
{
	static const char *const names[GPU_SEVERITIES] = {"note", "program",
							  "slow", "broken"};
	struct wire_gpu_news m = lost();
	struct err e = ERR_INIT;
	const struct json *j = json_load(&e);
	cJSON *all = j->object();
	const cJSON *list, *item;

	gpu_news_add(&news, &m);
	m.xid = 0;
	m.uuid = SLICE_STR("");
	for (int i = 0; i < GPU_SEVERITIES; i++) {
		m.severity = (uint8_t)i;
		gpu_news_add(&news, &m);
	}
	gpu_news_put_json(j, all, &news);
	list = get(all, "gpus");
	ck_assert_int_eq(cJSON_GetArraySize(list), 1 + GPU_SEVERITIES);
	item = cJSON_GetArrayItem(list, 0);
	ck_assert_int_eq(get(item, "node_rank")->valueint, 1);
	ck_assert_str_eq(get(item, "host")->valuestring, "h1");
	ck_assert_int_eq(get(item, "index")->valueint, 3);
	ck_assert_str_eq(get(item, "uuid")->valuestring, "GPU-3");
	ck_assert_int_eq(get(item, "xid")->valueint, 79);
	ck_assert_str_eq(get(item, "severity")->valuestring, "broken");
	ck_assert_str_eq(get(item, "text")->valuestring,
			 "GPU 3: Xid 79, fell off the bus");
	ck_assert_str_eq(get(item, "action")->valuestring,
			 "reset or replace the GPU");
	for (int i = 0; i < GPU_SEVERITIES; i++) {
		item = cJSON_GetArrayItem(list, 1 + i);
		ck_assert(cJSON_IsNull(get(item, "xid")));
		ck_assert(cJSON_IsNull(get(item, "uuid")));
		ck_assert_str_eq(get(item, "severity")->valuestring, names[i]);
	}
	j->release(all);
}
END_TEST

START_TEST(json_without_news_is_an_empty_list)
{
	struct err e = ERR_INIT;
	const struct json *j = json_load(&e);
	cJSON *all = j->object();

	gpu_news_put_json(j, all, NULL);
	ck_assert_int_eq(cJSON_GetArraySize(get(all, "gpus")), 0);
	j->release(all);
}
END_TEST

/* A server of a later version may know more of them. */
START_TEST(an_unknown_severity_has_a_name)
{
	struct wire_gpu_news m = lost();
	struct err e = ERR_INIT;
	const struct json *j = json_load(&e);
	cJSON *all = j->object();
	const cJSON *item;

	m.severity = 255;
	gpu_news_add(&news, &m);
	gpu_news_put_json(j, all, &news);
	item = cJSON_GetArrayItem(get(all, "gpus"), 0);
	ck_assert(cJSON_IsString(get(item, "severity")));
	j->release(all);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("gpu_news");

	tcase_add_checked_fixture(c, NULL, release);
	tcase_add_test(c, the_label_is_on_the_first_line);
	tcase_add_test(c, what_the_page_has_already_is_left_out);
	tcase_add_test(c, news_are_copied_from_the_senders_memory);
	tcase_add_test(c, further_ones_are_dropped);
	tcase_add_test(c, one_that_is_too_large_is_left_out);
	tcase_add_test(c, the_same_as_json);
	tcase_add_test(c, json_without_news_is_an_empty_list);
	tcase_add_test(c, an_unknown_severity_has_a_name);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
