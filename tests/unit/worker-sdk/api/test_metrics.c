/* test_metrics.c: event records byte by byte, JSON lines, and the files'
 * contents after a kill, a full disk and an earlier run. */
#include <check.h>
#include <errno.h>
#include <glob.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/api/api_internal.h"
#include "worker-sdk/ddp.h"

static char dir[64], lines_path[128];

static void set_up(void)
{
	strcpy(dir, "/tmp/test_metrics.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(lines_path, sizeof(lines_path), "%s/metrics.jsonl", dir);
}

static void tear_down(void)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static size_t slurp(const char *path, char *out, size_t size)
{
	FILE *f = fopen(path, "re");
	size_t n;

	ck_assert_msg(f, "%s", path);
	n = fread(out, 1, size - 1, f);
	fclose(f);
	out[n] = 0;
	return n;
}

/* ---- Bytes ---- */

static void hex(const struct buf *b, char *out)
{
	for (size_t i = 0; i < b->len; i++)
		sprintf(out + 2 * i, "%02x", (unsigned char)b->data[i]);
}

START_TEST(crc32c_is_castagnolis)
{
	ck_assert_uint_eq(ddp__crc32c("123456789", 9), 0xE3069283u);
	ck_assert_uint_eq(ddp__crc32c("", 0), 0);
}
END_TEST

START_TEST(records_match_tensorflows_byte_by_byte)
{
	struct buf b = BUF_INIT(1000);
	char text[300];

	ddp__event_version(&b, 0);
	hex(&b, text);
	ck_assert_str_eq(text, "1800000000000000a37f4b22"
			 "0900000000000000001a0d627261696e2e4576656e743a32"
			 "eedf28a3");
	buf_reset(&b);
	ddp__event_scalar(&b, 1.0, 5, SLICE_STR("loss"), 0.5f);
	hex(&b, text);
	ck_assert_str_eq(text, "1a00000000000000129bd82d"
			 "09000000000000f03f10052a0d0a0b0a046c6f737315"
			 "0000003f1e6d8ff9");
	buf_release(&b);
}
END_TEST

/* Reads the records that close_record wrote; returns their number, *rest: bytes
 * after them. */
static int count_records(const char *p, size_t n, size_t *rest)
{
	int records = 0;

	for (;; records++) {
		uint64_t size;
		uint32_t crc, mine;

		if (n < 12)
			break;
		memcpy(&size, p, 8);
		memcpy(&crc, p + 8, 4);
		mine = ddp__crc32c(p, 8);
		mine = (mine >> 15 | mine << 17) + 0xa282ead8u;
		ck_assert_uint_eq(mine, crc);
		if (n < 16 + size)
			break;
		memcpy(&crc, p + 12 + size, 4);
		mine = ddp__crc32c(p + 12, size);
		mine = (mine >> 15 | mine << 17) + 0xa282ead8u;
		ck_assert_uint_eq(mine, crc);
		p += 16 + size;
		n -= 16 + size;
	}
	*rest = n;
	return records;
}

START_TEST(lengths_and_steps_of_any_size_are_framed)
{
	static const int64_t steps[] = {0, 127, 128, INT64_MAX, -1};
	struct buf b = BUF_INIT(100000);
	char tag[1024];
	size_t rest;

	memset(tag, 'x', sizeof(tag));
	for (int i = 0; i < 5; i++) {
		ddp__event_scalar(&b, 1, steps[i], SLICE(tag, 1), NAN);
		ddp__event_scalar(&b, 1, steps[i], SLICE(tag, 120), 1);
		ddp__event_scalar(&b, 1, steps[i], SLICE(tag, 1023), 1);
	}
	ck_assert_int_eq(b.failed, 0);
	ck_assert_int_eq(count_records(b.data, b.len, &rest), 15);
	ck_assert_uint_eq(rest, 0);
	buf_release(&b);
}
END_TEST

/* ---- Files ---- */

/* The event files of dir, in order; the caller frees with globfree. */
static size_t event_files(glob_t *g, const char *where)
{
	char pattern[128];

	snprintf(pattern, sizeof(pattern), "%s/events.out.tfevents.*", where);
	return glob(pattern, 0, NULL, g) ? 0 : g->gl_pathc;
}

START_TEST(lines_hold_every_value_and_any_tag)
{
	static const double values[] = {0.5, 0.1, 1e300, -0.0, NAN, INFINITY,
					-INFINITY, 2.30657578};
	static const char *const texts[] = {
		"0.5", "0.1", "1e+300", "-0", "\"NaN\"", "\"Infinity\"",
		"\"-Infinity\"", "2.30657578"};
	char got[4096], *at = got, want[128], deep[96];
	ddp_metrics *m;

	snprintf(deep, sizeof(deep), "%s/a/b", dir);
	ck_assert_int_eq(ddp_metrics_open(&m, deep, DDP_JSONL), 0);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(ddp_metrics_scalar(m, "a\"\\\n\xff\xc3\xa4",
						    values[i], i - 1), 0);
	/* each record is written at once */
	snprintf(lines_path, sizeof(lines_path), "%s/metrics.jsonl", deep);
	slurp(lines_path, got, sizeof(got));
	for (int i = 0; i < 8; i++) {
		snprintf(want, sizeof(want), "{\"step\":%d,\"wall_time\":",
			 i - 1);
		ck_assert(!strncmp(at, want, strlen(want)));
		snprintf(want, sizeof(want),
			 ",\"tag\":\"a\\\"\\\\\\u000a\xef\xbf\xbd\xc3\xa4\","
			 "\"value\":%s}\n", texts[i]);
		at = strchr(at, ',');
		at = strchr(at + 1, ',');
		ck_assert_msg(!strncmp(at, want, strlen(want)), "%s", at);
		at += strlen(want);
	}
	ck_assert_int_eq(*at, 0);
	ck_assert_int_eq(ddp_metrics_flush(m), 0);
	ck_assert_int_eq(ddp_metrics_close(m), 0);
	ck_assert_int_eq(ddp_metrics_close(NULL), 0);
}
END_TEST

START_TEST(a_torn_line_is_removed_and_complete_ones_stay)
{
	char got[20000];
	ddp_metrics *m;
	FILE *f = fopen(lines_path, "we");

	fprintf(f, "{\"step\":1}\n{\"step\":2}\n{\"st");
	for (int i = 0; i < 9000; i++)
		fputc('x', f);
	fclose(f);
	ck_assert_int_eq(ddp_metrics_open(&m, dir, DDP_JSONL), 0);
	ck_assert_int_eq(ddp_metrics_scalar(m, "t", 1, 3), 0);
	ck_assert_int_eq(ddp_metrics_close(m), 0);
	slurp(lines_path, got, sizeof(got));
	ck_assert_int_eq(strncmp(got, "{\"step\":1}\n{\"step\":2}\n"
				      "{\"step\":3,", 32), 0);
}
END_TEST

START_TEST(each_opening_has_an_event_file_of_its_own)
{
	char got[4096], host[128] = "", part[200];
	ddp_metrics *m[3];
	size_t rest;
	glob_t g;

	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(ddp_metrics_open(&m[i], dir,
						  DDP_TENSORBOARD), 0);
		ck_assert_int_eq(ddp_metrics_scalar(m[i], "t", i, i), 0);
	}
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(ddp_metrics_close(m[i]), 0);
	ck_assert_uint_eq(event_files(&g, dir), 3);
	gethostname(host, sizeof(host) - 1);
	snprintf(part, sizeof(part), ".%s.%ld.", host, (long)getpid());
	for (int i = 0; i < 3; i++) {
		size_t n = slurp(g.gl_pathv[i], got, sizeof(got));

		ck_assert_ptr_nonnull(strstr(g.gl_pathv[i], part));
		ck_assert_int_eq(count_records(got, n, &rest), 2);
		ck_assert_uint_eq(rest, 0);
	}
	globfree(&g);
	ck_assert_int_eq(access(lines_path, F_OK), -1);
}
END_TEST

START_TEST(a_kill_tears_at_most_the_last_record)
{
	static char got[8 << 20];
	int fd[2], records;
	size_t rest, n;
	char one;
	pid_t child;
	glob_t g;

	ck_assert_int_eq(pipe(fd), 0);
	child = fork();
	if (child == 0) {
		ddp_metrics *m;

		if (ddp_metrics_open(&m, dir, DDP_JSONL | DDP_TENSORBOARD))
			_exit(1);
		for (int i = 0; i < 60000; i++) {
			ddp_metrics_scalar(m, "loss", i, i);
			if (i == 100 && write(fd[1], "", 1) != 1)
				_exit(1);
		}
		pause();
	}
	ck_assert_int_eq(read(fd[0], &one, 1), 1);
	kill(child, SIGKILL);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	ck_assert_uint_eq(event_files(&g, dir), 1);
	n = slurp(g.gl_pathv[0], got, sizeof(got));
	records = count_records(got, n, &rest);
	ck_assert_int_ge(records, 102);
	ck_assert_uint_lt(rest, 64);
	globfree(&g);
	n = slurp(lines_path, got, sizeof(got));
	records = 0;
	for (char *p = got; (p = strchr(p, '\n')); p++) {
		ck_assert_int_eq(p[-1], '}');
		records++;
	}
	ck_assert_int_ge(records, 101);
}
END_TEST

/* Simulates a full disk by a limit on the file size. */
START_TEST(a_full_disk_is_an_error_and_leaves_whole_records)
{
	struct rlimit old, small;
	static char got[10000];
	int failed = 0, good = 0, named = 0;
	ddp_metrics *m;
	size_t rest, n;
	glob_t g;

	ck_assert_int_eq(ddp_metrics_open(&m, dir, DDP_JSONL |
					  DDP_TENSORBOARD), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){1000, old.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	/* no assertions here: Check writes to a file as well */
	for (int i = 0; i < 100; i++)
		if (ddp_metrics_scalar(m, "loss", i, i)) {
			named += strstr(ddp_last_error(), dir) &&
				 strstr(ddp_last_error(), "File too large");
			failed++;
		}
	setrlimit(RLIMIT_FSIZE, &old);
	ck_assert_int_gt(failed, 10);
	ck_assert_int_eq(named, failed);
	ck_assert_int_eq(ddp_metrics_scalar(m, "loss", 1, 1000), 0);
	/* overwrite the last error's text */
	ck_assert_int_eq(ddp_metrics_scalar(m, "", 1, 1), DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_metrics_close(m), -EFBIG);
	ck_assert_ptr_nonnull(strstr(ddp_last_error(), dir));
	ck_assert_ptr_nonnull(strstr(ddp_last_error(), "File too large"));
	ck_assert_uint_eq(event_files(&g, dir), 1);
	n = slurp(g.gl_pathv[0], got, sizeof(got));
	good = count_records(got, n, &rest);
	ck_assert_uint_eq(rest, 0);
	ck_assert_int_gt(good, 10);
	globfree(&g);
	slurp(lines_path, got, sizeof(got));
	for (char *p = got; (p = strchr(p, '\n')); p++)
		ck_assert(p[-1] == '}' && (p[1] == '{' || !p[1]));
	ck_assert_ptr_nonnull(strstr(got, "{\"step\":1000,"));
}
END_TEST

START_TEST(a_file_that_cannot_be_opened_is_named)
{
	char path[96];
	ddp_metrics *m = NULL;
	FILE *f;

	snprintf(path, sizeof(path), "%s/file", dir);
	f = fopen(path, "we");
	fclose(f);
	ck_assert_int_eq(ddp_metrics_open(&m, path, 3), -ENOTDIR);
	ck_assert_ptr_nonnull(strstr(ddp_last_error(), path));
	ck_assert_ptr_null(m);
	snprintf(path, sizeof(path), "%s/metrics.jsonl", dir);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	ck_assert_int_eq(ddp_metrics_open(&m, dir, DDP_JSONL), -EISDIR);
	ck_assert_ptr_nonnull(strstr(ddp_last_error(), path));
	if (geteuid()) { /* root may write everywhere */
		snprintf(path, sizeof(path), "%s/closed", dir);
		ck_assert_int_eq(mkdir(path, 0555), 0);
		ck_assert_int_eq(ddp_metrics_open(&m, path, 3), -EACCES);
	}
}
END_TEST

START_TEST(bad_arguments)
{
	char long_tag[1026];
	ddp_metrics *m = NULL;

	ck_assert_int_eq(ddp_metrics_open(NULL, dir, 1), DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_metrics_open(&m, NULL, 1), DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_metrics_open(&m, "", 1), DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_metrics_open(&m, dir, 0), DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_metrics_open(&m, dir, 4), DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_metrics_open(&m, dir, 3), 0);
	memset(long_tag, 'x', 1025);
	long_tag[1025] = 0;
	ck_assert_int_eq(ddp_metrics_scalar(NULL, "t", 1, 1), DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_metrics_scalar(m, NULL, 1, 1), DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_metrics_scalar(m, "", 1, 1), DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_metrics_scalar(m, long_tag, 1, 1),
			 DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_metrics_scalar(m, long_tag + 2, 1, 1), 0);
	ck_assert_int_eq(ddp_metrics_flush(NULL), DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_metrics_close(m), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("metrics");
	TCase *bytes = tcase_create("bytes"), *files = tcase_create("files");

	tcase_add_test(bytes, crc32c_is_castagnolis);
	tcase_add_test(bytes, records_match_tensorflows_byte_by_byte);
	tcase_add_test(bytes, lengths_and_steps_of_any_size_are_framed);
	suite_add_tcase(s, bytes);
	tcase_add_checked_fixture(files, set_up, tear_down);
	tcase_set_timeout(files, 60);
	tcase_add_test(files, lines_hold_every_value_and_any_tag);
	tcase_add_test(files, a_torn_line_is_removed_and_complete_ones_stay);
	tcase_add_test(files, each_opening_has_an_event_file_of_its_own);
	tcase_add_test(files, a_kill_tears_at_most_the_last_record);
	tcase_add_test(files, a_full_disk_is_an_error_and_leaves_whole_records);
	tcase_add_test(files, a_file_that_cannot_be_opened_is_named);
	tcase_add_test(files, bad_arguments);
	suite_add_tcase(s, files);
	return run_suite(s);
}
