/* test_elastic_event.c: torchrun's events, byte for byte as json.dumps writes
 * them. */
#include <check.h>
#include <errno.h>

#include "launcher/failure/elastic_event.h"
#include "tests/unit/run_case.h"

static const struct elastic_round job = {
	.run_id = "run7", .host = "h1", .role = "default", .backend = "c10d",
	.program = "/usr/bin/python3", .has_begun = 1, .node_rank = 1,
	.nnodes = 2, .attempt = 1,
};

static void check_line(const struct elastic_round *r,
		       const struct elastic_event *v, const char *expected)
{
	struct buf out = BUF_INIT(ELASTIC_EVENT_MAX);
	struct err e = ERR_INIT;

	ck_assert_msg(elastic_event_put(&out, r, v, &e) == 0, "%s", e.text);
	buf_put(&out, "", 1);
	ck_assert_str_eq(out.data, expected);
	buf_release(&out);
}

START_TEST(a_worker_that_failed)
{
	const struct elastic_worker w = {
		.rank = 5, .local_rank = 1, .role_rank = 3,
		.role_world_size = 4, .pid = 812, .has_failed = 1,
		.exit_code = -9,
	};
	const struct elastic_event v = {
		.state = "FAILED", .now_ms = 1700000000123, .ran_s = 12,
		.duration_ms = -1, .worker = &w,
		.error = SLICE_STR("{\"message\": \"a\\nb\"}"),
	};

	check_line(&job, &v,
		   "{\"name\": \"torchelastic.worker.status.FAILED\", "
		   "\"source\": \"WORKER\", \"timestamp\": 1700000000123, "
		   "\"metadata\": {\"run_id\": \"run7\", \"global_rank\": 5, "
		   "\"group_rank\": 1, \"worker_id\": \"812\", "
		   "\"role\": \"default\", \"hostname\": \"h1\", "
		   "\"state\": \"FAILED\", \"total_run_time\": 12, "
		   "\"rdzv_backend\": \"c10d\", "
		   "\"raw_error\": \"{\\\"message\\\": \\\"a\\\\nb\\\"}\", "
		   "\"metadata\": \"{\\\"group_world_size\\\": 2, "
		   "\\\"entry_point\\\": \\\"python3\\\", "
		   "\\\"local_rank\\\": [1], \\\"role_rank\\\": [3], "
		   "\\\"role_world_size\\\": [4], \\\"exit_code\\\": [-9], "
		   "\\\"worker_pid\\\": [812]}\", \"agent_restarts\": 1, "
		   "\"duration_ms\": null}}\n");
}
END_TEST

START_TEST(an_agent_that_never_had_a_round)
{
	struct elastic_round r = job;
	const struct elastic_event v = {.state = "FAILED", .duration_ms = -1,
					.error = SLICE_STR("got \"SIGTERM\"")};

	r.has_begun = 0;
	r.attempt = 0;
	r.program = "";
	check_line(&r, &v,
		   "{\"name\": \"torchelastic.worker.status.FAILED\", "
		   "\"source\": \"AGENT\", \"timestamp\": 0, "
		   "\"metadata\": {\"run_id\": \"run7\", "
		   "\"global_rank\": null, \"group_rank\": null, "
		   "\"worker_id\": null, \"role\": \"default\", "
		   "\"hostname\": \"h1\", \"state\": \"FAILED\", "
		   "\"total_run_time\": 0, \"rdzv_backend\": \"c10d\", "
		   "\"raw_error\": \"got \\\"SIGTERM\\\"\", "
		   "\"metadata\": \"{\\\"group_world_size\\\": null, "
		   "\\\"entry_point\\\": \\\"\\\"}\", \"agent_restarts\": 0, "
		   "\"duration_ms\": null}}\n");
}
END_TEST

START_TEST(a_duration_is_in_ms)
{
	const struct elastic_event v = {.state = "RENDEZVOUS",
					.duration_ms = 1.5};
	struct buf out = BUF_INIT(ELASTIC_EVENT_MAX);

	ck_assert_int_eq(elastic_event_put(&out, &job, &v, NULL), 0);
	buf_put(&out, "", 1);
	ck_assert_ptr_nonnull(strstr(out.data, "\"duration_ms\": 1.500}}\n"));
	ck_assert_ptr_null(strstr(out.data, "exit_code"));
	buf_release(&out);
}
END_TEST

START_TEST(a_line_that_does_not_fit_is_an_error)
{
	const struct elastic_event v = {.state = "START", .duration_ms = -1};

	for (size_t max = 0; max < 500; max += 7) {
		struct buf out = BUF_INIT(max);
		int rc = elastic_event_put(&out, &job, &v, NULL);

		ck_assert_int_eq(rc < 0, out.failed != 0);
		if (max < 300)
			ck_assert_int_lt(rc, 0);
		buf_release(&out);
	}
}
END_TEST

START_TEST(an_error_without_a_file_is_json_too)
{
	struct buf out = BUF_INIT(ELASTIC_EVENT_MAX);

	ck_assert_int_eq(elastic_event_put_error(
				 &out, SLICE_STR("say \"no\"\n\xff"), NULL), 0);
	buf_put(&out, "", 1);
	ck_assert_str_eq(out.data, "{\"message\": "
				   "\"say \\\"no\\\"\\n\xef\xbf\xbd\"}");
	buf_release(&out);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("elastic_event");

	tcase_add_test(c, a_worker_that_failed);
	tcase_add_test(c, an_agent_that_never_had_a_round);
	tcase_add_test(c, a_duration_is_in_ms);
	tcase_add_test(c, a_line_that_does_not_fit_is_an_error);
	tcase_add_test(c, an_error_without_a_file_is_json_too);
	return run_case(c);
}
