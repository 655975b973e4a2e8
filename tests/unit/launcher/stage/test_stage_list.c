/* test_stage_list.c: lists of files to stage, also from a peer that sends what
 * no scan makes. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/stage/stage_list.h"
#include "tests/unit/run_case.h"

struct row {
	int kind;
	uint32_t mode, link;
	uint64_t size;
	const char *path, *target;
};

static void put_text(struct buf *out, const char *text)
{
	buf_put_slice(out, SLICE(text, strlen(text) + 1));
}

static void put_rows(struct buf *out, const char *source,
		     const struct row *rows, uint32_t n)
{
	buf_init(out, STAGE_LIST_MAX);
	buf_put(out, "ddprun stage 1", 15);
	put_text(out, source);
	buf_put_u32(out, n);
	for (uint32_t i = 0; i < n; i++) {
		buf_put_u8(out, (uint8_t)rows[i].kind);
		buf_put_u32(out, rows[i].mode);
		buf_put_u32(out, rows[i].link);
		buf_put_u64(out, rows[i].size);
		buf_put_u64(out, 1);
		put_text(out, rows[i].path);
		put_text(out, rows[i].target);
	}
}

static int reads(const char *source, const struct row *rows, uint32_t n)
{
	struct stage_list l = {.all = NULL};
	struct err e = ERR_INIT;
	int rc;

	put_rows(&l.text, source, rows, n);
	rc = stage_list_read(&l, &e);
	ck_assert(rc == 0 || rc == ERR_PROTOCOL);
	ck_assert(rc == 0 || *e.text);
	stage_list_release(&l);
	return rc == 0;
}

static const struct row root = {STAGE_FOLDER, 0755, 0, 0, "", ""};

START_TEST(paths_that_leave_the_copy_are_refused)
{
	static const char *const bad[] = {
		"", "/", "/etc/passwd", "..", "../x", "a/../../x", "a/..",
		".", "./a", "a//b", "a/"};
	static const char *const good[] = {"a", "a/b", "..a", "a..", "...",
					   ".a/b"};
	struct row rows[2] = {root, {STAGE_FILE, 0644, 0, 1, "a", ""}};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		rows[1].path = bad[i];
		ck_assert_msg(!reads("/x/src", rows, 2), "%s", bad[i]);
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		rows[1].path = good[i];
		ck_assert_msg(reads("/x/src", rows, 2), "%s", good[i]);
	}
	rows[1].path = "a";
	ck_assert(!reads("/x/..", rows, 2));
	ck_assert(!reads("/", rows, 2));
	ck_assert(!reads("src", rows, 2));
	ck_assert(!reads("/x/a\nb", rows, 2));
}
END_TEST

START_TEST(entries_that_no_scan_makes_are_refused)
{
	static const struct row bad[] = {
		{0, 0644, 0, 1, "a", ""},
		{5, 0644, 0, 1, "a", ""},
		{STAGE_FILE, 04755, 0, 1, "a", ""},
		{STAGE_FILE, 0644, 0, 1ull << 60, "a", ""},
		{STAGE_FILE, 0644, 0, 1, "a", "b"},
		{STAGE_FOLDER, 0755, 0, 1, "a", ""},
		{STAGE_SYMLINK, 0, 0, 0, "a", ""},
		{STAGE_LINK, 0644, 0, 0, "a", ""}, /* a folder */
		{STAGE_LINK, 0644, 1, 0, "a", ""}, /* itself */
		{STAGE_LINK, 0644, 7, 0, "a", ""},
	};
	struct row rows[2] = {root};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		rows[1] = bad[i];
		ck_assert_msg(!reads("/x/src", rows, 2), "row %zu", i);
	}
	rows[0] = (struct row){STAGE_FILE, 0644, 0, 1, "", ""};
	ck_assert(reads("/x/src", rows, 1));
	rows[1] = (struct row){STAGE_FILE, 0644, 0, 1, "a", ""};
	ck_assert(!reads("/x/src", rows, 2)); /* below a file */
	ck_assert(!reads("/x/src", rows, 0));
}
END_TEST

START_TEST(a_list_that_is_cut_off_is_refused)
{
	const struct row rows[] = {root, {STAGE_FILE, 0644, 0, 1, "a", ""}};
	struct stage_list l = {.all = NULL};
	struct buf whole;

	put_rows(&whole, "/x/src", rows, 2);
	for (size_t n = 0; n < whole.len; n++) {
		buf_init(&l.text, STAGE_LIST_MAX);
		buf_put(&l.text, whole.data, n);
		ck_assert_int_eq(stage_list_read(&l, NULL), ERR_PROTOCOL);
		stage_list_release(&l);
	}
	buf_put_u8(&whole, 0);
	l.text = whole;
	ck_assert_int_eq(stage_list_read(&l, NULL), ERR_PROTOCOL);
	stage_list_release(&l);
}
END_TEST

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	ck_assert_int_eq(fclose(f), 0);
}

START_TEST(a_scan_is_sorted_and_its_key_changes_with_the_source)
{
	char dir[] = "/tmp/test_stage_list_XXXXXX", key[STAGE_KEY_SIZE];
	struct stage_list l;
	struct err e = ERR_INIT;
	uint32_t skipped;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chdir(dir), 0);
	ck_assert_int_eq(mkdir("b", 0700), 0);
	write_file("b/y", "abc");
	write_file("a", "de");
	ck_assert_int_eq(link("a", "c"), 0);
	ck_assert_int_eq(symlink("a", "d"), 0);
	ck_assert_int_eq(mkfifo("e", 0600), 0);
	ck_assert_int_eq(stage_list_scan(&l, dir, &skipped, &e), 0);
	ck_assert_uint_eq(skipped, 1);
	ck_assert_uint_eq(l.n, 6);
	ck_assert_str_eq(l.all[0].path, "");
	ck_assert_str_eq(l.all[1].path, "a");
	ck_assert_str_eq(l.all[2].path, "b");
	ck_assert_str_eq(l.all[3].path, "b/y");
	ck_assert_int_eq(l.all[4].kind, STAGE_LINK);
	ck_assert_uint_eq(l.all[4].link, 1);
	ck_assert_str_eq(l.all[5].target, "a");
	ck_assert_uint_eq(l.nfiles, 2);
	ck_assert_uint_eq(l.bytes, 5);
	memcpy(key, l.key, sizeof(key));
	stage_list_release(&l);
	ck_assert_int_eq(stage_list_scan(&l, dir, &skipped, &e), 0);
	ck_assert_str_eq(l.key, key);
	stage_list_release(&l);
	write_file("b/y", "abcd");
	ck_assert_int_eq(stage_list_scan(&l, dir, &skipped, &e), 0);
	ck_assert_str_ne(l.key, key);
	stage_list_release(&l);
	ck_assert_int_eq(unlink("a") | unlink("c") | unlink("d") | unlink("e") |
			 unlink("b/y") | rmdir("b") | rmdir(dir), 0);
	ck_assert_int_lt(stage_list_scan(&l, dir, &skipped, &e), 0);
	ck_assert_ptr_nonnull(strstr(e.text, dir));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("stage_list");

	tcase_add_test(c, paths_that_leave_the_copy_are_refused);
	tcase_add_test(c, entries_that_no_scan_makes_are_refused);
	tcase_add_test(c, a_list_that_is_cut_off_is_refused);
	tcase_add_test(c,
		       a_scan_is_sorted_and_its_key_changes_with_the_source);
	return run_case(c);
}
