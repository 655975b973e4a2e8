/* test_round_log.c: the rounds that the page's time line shows. */
#include <check.h>
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/web/web_internal.h"
#include "tests/unit/run_case.h"

static struct round_log *rounds;
static struct buf out = BUF_INIT(1 << 20);
static cJSON *list;

static void set_up(void)
{
	rounds = round_log_new();
	ck_assert_ptr_nonnull(rounds);
}

static void tear_down(void)
{
	round_log_free(rounds);
	buf_release(&out);
	cJSON_Delete(list);
}

static void begin(uint32_t round, uint64_t now_ms)
{
	const struct wire_job m = {.round = round, .world_size = 8,
				   .joined = 2};

	round_log_begin(rounds, &m, now_ms);
}

static void print(uint64_t now_ms)
{
	struct err e = ERR_INIT;

	round_log_put_json(rounds, &out, json_load(&e), now_ms);
	ck_assert_int_eq(out.failed, 0);
	list = cJSON_ParseWithLength(out.data, out.len);
	ck_assert_msg(list != NULL, "%.*s", (int)out.len, out.data);
}

static const cJSON *get(int i, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(list, i),
						name);
}

START_TEST(rounds_have_times_and_causes)
{
	begin(0, 1000);
	round_log_end(rounds, WIRE_RESTART, SLICE_STR("rank 1 failed\nmore"),
		      3500);
	begin(1, 4000);
	print(6000);
	ck_assert_int_eq(cJSON_GetArraySize(list), 2);
	ck_assert_int_eq(get(0, "round")->valueint, 0);
	ck_assert_int_eq(get(0, "nodes")->valueint, 2);
	ck_assert_int_eq(get(0, "world_size")->valueint, 8);
	ck_assert_double_eq(get(0, "began_seconds_ago")->valuedouble, 5);
	ck_assert_double_eq(get(0, "lasted_seconds")->valuedouble, 2.5);
	ck_assert_str_eq(get(0, "end")->valuestring, "restart");
	ck_assert_str_eq(get(0, "cause")->valuestring, "rank 1 failed");
	ck_assert_double_eq(get(1, "lasted_seconds")->valuedouble, 2);
	ck_assert(cJSON_IsNull(get(1, "end")));
	ck_assert(cJSON_IsNull(get(1, "cause")));
}
END_TEST

START_TEST(the_oldest_rounds_are_dropped)
{
	for (uint32_t i = 0; i < ROUND_LOG_MAX + 3; i++) {
		begin(i, i);
		round_log_end(rounds, WIRE_REGROUP, SLICE_STR("x"), i + 1);
	}
	print(1000);
	ck_assert_int_eq(cJSON_GetArraySize(list), ROUND_LOG_MAX);
	ck_assert_int_eq(get(0, "round")->valueint, 3);
	ck_assert_int_eq(get(ROUND_LOG_MAX - 1, "round")->valueint,
			 ROUND_LOG_MAX + 2);
}
END_TEST

START_TEST(a_long_cause_is_cut_between_characters)
{
	char cause[3 * ROUND_LOG_CAUSE_MAX];

	for (size_t i = 0; i < sizeof(cause); i += 3)
		memcpy(cause + i, "\xe2\x82\xac", 3); /* a euro sign */
	begin(0, 0);
	round_log_end(rounds, WIRE_FAILURE, SLICE(cause, sizeof(cause)), 1);
	print(2);
	ck_assert_uint_eq(strlen(get(0, "cause")->valuestring),
			  ROUND_LOG_CAUSE_MAX / 3 * 3);
}
END_TEST

START_TEST(hostile_text_is_valid_json)
{
	begin(0, 0);
	round_log_end(rounds, 200, SLICE_STR("\"</script>\xff\\"), 1);
	round_log_end(rounds, WIRE_SUCCESS, SLICE_STR("again"), 2);
	print(3);
	ck_assert_str_eq(get(0, "end")->valuestring, "?");
	ck_assert_str_eq(get(0, "cause")->valuestring,
			 "\"</script>\xef\xbf\xbd\\");
}
END_TEST

START_TEST(without_rounds_the_list_is_empty)
{
	struct err e = ERR_INIT;

	round_log_end(rounds, WIRE_SUCCESS, SLICE_STR("x"), 1);
	print(2);
	ck_assert_int_eq(cJSON_GetArraySize(list), 0);
	buf_reset(&out);
	round_log_put_json(NULL, &out, json_load(&e), 0);
	ck_assert_uint_eq(out.len, 2);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("round_log");

	tcase_add_checked_fixture(c, set_up, tear_down);
	tcase_add_test(c, rounds_have_times_and_causes);
	tcase_add_test(c, the_oldest_rounds_are_dropped);
	tcase_add_test(c, a_long_cause_is_cut_between_characters);
	tcase_add_test(c, hostile_text_is_valid_json);
	tcase_add_test(c, without_rounds_the_list_is_empty);
	return run_case(c);
}
