/* test_dumped_stack.c: the text of a dump in, the lines of a page out. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "launcher/traces/dumped_stack.h"
#include "tests/unit/run_case.h"

static const char dump[] =
	"job 'none', attempt 1: 2 of 2 ranks are on h1\n"
	"rank 0 (local rank 0), pid 7, sleeping, 0.1 s of CPU\n"
	"  in all_reduce #5 (f32 x 1, sum) for 36 s; missing: rank 1\n"
	"  thread 7 (python3)\n"
	"    Python: <module> at /w/other.py:9\n"
	"    #0  syscall (libc.so.6 0x7ff1)\n"
	"rank 1 (local rank 1), pid 8, sleeping, 0.1 s of CPU\n"
	"  between calls\n"
	"  thread 8 (python3)\n"
	"    holds Python's lock (GIL)\n"
	"    Python: step at /w/train.py:12\n"
	"    Python: <module> at /w/train.py:88\n"
	"    inner frames changed while they were read\n"
	"    #0  read (libc.so.6 0x7ff1)\n"
	"    #1  load_batch at data.c:120 (libdata.so 0x7ff2)\n"
	"    #2  ? (no file 0x7ff3)\n"
	"  thread 9 (loader)\n"
	"    Python: run at /w/loader.py:1\n"
	"    #0  futex (libc.so.6 0x7ff1)\n";

static const char *stack(const char *text, uint32_t rank)
{
	static char out[4096];
	struct buf lines = BUF_INIT(sizeof(out));

	dumped_stack_put(&lines, SLICE_STR(text), rank);
	memcpy(out, lines.data ? lines.data : "", lines.len);
	out[lines.len] = '\0';
	buf_release(&lines);
	return out;
}

START_TEST(the_first_thread_of_the_rank_is_taken)
{
	ck_assert_str_eq(stack(dump, 1),
			 "#0 read (libc.so.6)\n"
			 "#1 load_batch at data.c:120 (libdata.so)\n"
			 "#2 ? (no file)\n"
			 "#py0 step at /w/train.py:12\n"
			 "#py1 <module> at /w/train.py:88\n");
	ck_assert_str_eq(stack(dump, 0), "#0 syscall (libc.so.6)\n"
					 "#py0 <module> at /w/other.py:9\n");
	ck_assert_str_eq(stack(dump, 2), "");
}
END_TEST

START_TEST(the_last_dump_of_a_file_counts)
{
	ck_assert_str_eq(stack("rank 1 (local rank 1), pid 8\n"
			       "  thread 8 (x)\n"
			       "    #0  old (x 0x1)\n"
			       "rank 1 (local rank 1), pid 8\n"
			       "  thread 8 (x)\n"
			       "    #0  new (x 0x1)\n",
			       1),
			 "#0 new (x)\n");
}
END_TEST

START_TEST(garbage_has_no_stack)
{
	ck_assert_str_eq(stack("", 0), "");
	ck_assert_str_eq(stack("rank 0 (\n  thread 1\n    #\n    #x", 0),
			 "#0 x\n");
	ck_assert_str_eq(stack("rank 0 (\n  thread 1: no permission\n", 0),
			 "");
}
END_TEST

START_TEST(only_the_innermost_frames_are_taken)
{
	char text[8192] = "rank 0 (local rank 0)\n  thread 1 (x)\n";
	char *at = text + strlen(text);

	for (int i = 0; i < 100; i++)
		at += snprintf(at, 40, "    #%-2d f (x 0x1)\n", i);
	ck_assert_ptr_nonnull(strstr(stack(text, 0), "#23 f (x)\n"));
	ck_assert_ptr_null(strstr(stack(text, 0), "#24 "));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("dumped_stack");

	tcase_add_test(c, the_first_thread_of_the_rank_is_taken);
	tcase_add_test(c, the_last_dump_of_a_file_counts);
	tcase_add_test(c, garbage_has_no_stack);
	tcase_add_test(c, only_the_innermost_frames_are_taken);
	return run_case(c);
}
