/* test_remote_spec.c: the messages to a host: sent in full, or an error. */
/* replaces: calloc malloc realloc */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/config/config.h"
#include "launcher/ssh/launch_internal.h"
#include "tests/unit/run_case.h"

/* How many allocations until one fails; 0: none fails. */
static int left;

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);

static int fails(void)
{
	return left > 0 && --left == 0;
}

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t each)
{
	return fails() ? NULL : __real_calloc(n, each);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fails() ? NULL : __real_realloc(p, n);
}

static struct config c;
static struct remote_options options;
static struct remote_spec spec;

/* The command as typed, NULL-terminated. */
static void begin(char **argv)
{
	struct err e = ERR_INIT;
	int argc = 0;

	while (argv[argc])
		argc++;
	ck_assert_msg(config_parse(&c, argc, argv, &e) == CONFIG_WANT_HOSTS,
		      "%s", e.text);
	options = config_remote_options(&c);
	ck_assert_msg(remote_spec_init(&spec, &options, argv, &e) == 0, "%s",
		      e.text);
}

static void end(void)
{
	remote_spec_release(&spec);
	config_release(&c);
}

START_TEST(a_failed_allocation_sends_no_part_of_a_job)
{
	char *argv[] = {"ddprun", "-H", "a:1,b:1", "--role", "r", "sh", "-c",
			"echo $V", NULL};
	struct buf whole = BUF_INIT(64 << 20), b = whole;
	struct err e = ERR_INIT;
	int rc, at, fired;

	begin(argv);
	ck_assert_int_eq(remote_spec_job(&spec, 1, &whole, &e), 0);
	for (at = 1;; at++) {
		buf_release(&b);
		buf_init(&b, 64 << 20);
		e = (struct err)ERR_INIT;
		left = at;
		rc = remote_spec_job(&spec, 1, &b, &e);
		fired = left == 0;
		left = 0;
		if (!fired)
			break;
		ck_assert_msg(rc < 0, "allocation %d failed, and it was sent",
			      at);
		ck_assert_ptr_nonnull(strstr(e.text, "to host b"));
	}
	ck_assert_int_eq(rc, 0);
	/* options, words, environment and the frame */
	ck_assert_int_gt(at, 4);
	ck_assert_uint_eq(b.len, whole.len);
	ck_assert_mem_eq(b.data, whole.data, b.len);
	buf_release(&whole);
	buf_release(&b);
	end();
}
END_TEST

START_TEST(a_long_shutdown_timeout_does_not_overflow)
{
	static const struct {
		char *s;
		uint32_t ms;
	} times[] = {{"30", 30000}, {"3000000", 3000000000},
		     {"4294968", UINT32_MAX}, {"1e9", UINT32_MAX}};
	struct remote_job job;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
		char *argv[] = {"ddprun", "-H", "a:1", "--shutdown-timeout",
				times[i].s, "sh", NULL};
		struct buf b = BUF_INIT(64 << 20);

		begin(argv);
		ck_assert_int_eq(remote_spec_job(&spec, 0, &b, &e), 0);
		ck_assert_int_eq(remote_job_get(SLICE(b.data, b.len), &job), 0);
		ck_assert_uint_eq(job.grace_ms, times[i].ms);
		buf_release(&b);
		end();
	}
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("remote_spec");

	tcase_set_timeout(t, 20);
	tcase_add_test(t, a_failed_allocation_sends_no_part_of_a_job);
	tcase_add_test(t,
		       a_long_shutdown_timeout_does_not_overflow);
	return run_case(t) != 0;
}
