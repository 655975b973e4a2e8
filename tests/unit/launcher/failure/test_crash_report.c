/* test_crash_report.c: records of crashes, and what they mean in words. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "launcher/failure/failure_internal.h"
#include "tests/unit/run_case.h"

enum { PID = 7, OTHER = 1 << 30 }; /* no process has that pid */

static const char *maps;

static void check_meaning(struct crash_record r, const char *words)
{
	struct buf out = BUF_INIT(1 << 10);

	r.pid = PID;
	crash_report_put_meaning(&out, &r, maps);
	buf_put(&out, "", 1);
	ck_assert_str_eq(out.data, words);
	buf_release(&out);
}

START_TEST(a_segmentation_fault_is_explained_by_its_address)
{
	const uint64_t sp = UINT64_C(0x7ffc00001000);
	struct crash_record r = {.signal = SIGSEGV, .code = SEGV_MAPERR,
				 .sp = sp, .tid = PID, .limit = 8 << 20};

	r.address = 0x18;
	check_meaning(r, "null pointer (address 0x18)");
	r.address = 0xdead0000;
	check_meaning(r, "invalid address 0xdead0000");
	r.code = SEGV_ACCERR;
	check_meaning(r, "forbidden access to address 0xdead0000");
	r.address = sp - 8;
	check_meaning(r, "stack overflow: the stack size limit (ulimit -s) of "
			 "8192 KiB");
	r.tid = PID + 1; /* that limit is not a thread's */
	check_meaning(r, "stack overflow: the thread's stack size "
			 "(pthread_attr_setstacksize, or ulimit -s)");
	r.code = SI_KERNEL;
	check_meaning(r, "a damaged pointer (no valid address)");
}
END_TEST

START_TEST(a_frame_that_is_larger_than_the_stack_overflows_it)
{
	struct crash_record r = {.signal = SIGSEGV, .code = SEGV_MAPERR,
				 .tid = PID, .limit = 8 << 20,
				 .sp = 0x7ffc00001000,
				 .address = 0x7ffd00000000};
	static const char *const overflows =
		"stack overflow: the stack size limit (ulimit -s) of 8192 KiB";

	maps = "7ffdfffff000-7ffe00000000 rw-p 00000000 00:00 0 [stack]\n";
	check_meaning(r, overflows);
	/* the stack pointer is in a library by then */
	maps = "7ffc00000000-7ffc00002000 r-xp 00000000 08:01 7 /lib/libc.so\n"
	       "7ffdfffff000-7ffe00000000 rw-p 00000000 00:00 0 [stack]\n";
	check_meaning(r, overflows);
	/* a bad pointer: the stack is where it should be */
	maps = "7ffbfffff000-7ffc00002000 rw-p 00000000 00:00 0 [stack]\n";
	check_meaning(r, "invalid address 0x7ffd00000000");
	maps = NULL;
	check_meaning(r, "invalid address 0x7ffd00000000");
}
END_TEST

START_TEST(a_signal_that_was_sent_is_no_fault)
{
	struct crash_record r = {.signal = SIGSEGV, .code = SI_USER,
				 .sender = PID};

	check_meaning(r, "");
	r.sender = OTHER;
	check_meaning(r, "sent by process 1073741824");
	r.signal = SIGABRT;
	check_meaning(r, "sent by process 1073741824");
	r.sender = PID;
	check_meaning(r, "");
	r.code = SI_TKILL;
	check_meaning(r, "abort()");
}
END_TEST

START_TEST(a_limit_comes_with_the_workers_own_value)
{
	struct crash_record r = {.signal = SIGXCPU, .code = SI_KERNEL,
				 .limit = 3 + 1}; /* as the kernel leaves it */

	check_meaning(r, "the CPU time limit (ulimit -t) of 3 s");
	r.limit = CRASH_UNLIMITED;
	check_meaning(r, "the CPU time limit (ulimit -t)");
	r = (struct crash_record){.signal = SIGXFSZ, .code = SI_USER,
				  .sender = PID, .limit = 512};
	check_meaning(r, "the file size limit (ulimit -f) of 512 bytes");
	r.limit = 3 << 20;
	check_meaning(r, "the file size limit (ulimit -f) of 3 MiB");
}
END_TEST

START_TEST(a_system_call_that_seccomp_forbids_comes_with_its_number)
{
	struct crash_record r = {.signal = SIGSYS, .code = 1,
				 .limit = 110};

	check_meaning(r, "a seccomp filter forbids system call 110");
}
END_TEST

START_TEST(a_bus_error_says_what_is_known_of_its_file)
{
	struct crash_record r = {.signal = SIGBUS, .code = BUS_ADRERR,
				 .address = 0x7f0000000000};

	check_meaning(r, "");
	r.file = (struct crash_file){.path = "/data/x", .size = 7, .at = 8};
	check_meaning(r, "/data/x was truncated to 7 bytes while it was "
			 "mapped");
	r.file.size = CRASH_UNLIMITED;
	check_meaning(r, "a page of /data/x cannot be read or written");
	strcpy(r.file.mount, "/data");
	r.file.fs_blocks = 256, r.file.fs_block = 4096;
	check_meaning(r, "/data is full (1 of 1 MiB): /data/x");
	r.code = BUS_ADRALN;
	check_meaning(r, "misaligned address 0x7f0000000000");
	r.code = BUS_MCEERR_AR;
	check_meaning(r, "a memory error of the hardware at 0x7f0000000000 "
			 "(see dmesg)");
}
END_TEST

START_TEST(the_place_is_the_first_frame_that_is_the_users)
{
	static const struct {
		const char *stack, *place;
	} list[] = {
		{"#0 step at train.c:120 (train)\n", " in step at train.c:120"},
		{"#0 __memcpy_avx (libc.so.6)\n#1 ? (x.so+0x10)\n"
		 "#2 load at (odd).c:7 (train)\n", " in load at (odd).c:7"},
		{"#0 raise (libc.so.6)\n#1 abort (libc.so.6)\n"
		 "#2 ? (libx.so+0x77)\n#3 at::add (libtorch_cpu.so)\n",
		 " in at::add (libtorch_cpu.so)"},
		{"#0 ? (bare+0x1139)\n#1 ? (bare+0x1160)\n",
		 " in ? (bare+0x1139)"},
		{"#0 ?\n", " in ?"}, {"#0\n", ""}, {"", ""},
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++) {
		struct buf out = BUF_INIT(1 << 10);

		crash_report_put_place(&out, SLICE_STR(list[i].stack));
		buf_put(&out, "", 1);
		ck_assert_str_eq(out.data, list[i].place);
		buf_release(&out);
	}
}
END_TEST

START_TEST(pythons_frames_become_lines_of_a_stack)
{
	static const char frames[] =
		"Stack (most recent call first):\n"
		"  File \"/usr/lib/python3.11/ctypes/__init__.py\", "
		"line 519 in string_at\n"
		"  File \"/w/my file.py\", line 3 in <module>\n"
		"  File \"/w/cut.py\", line 3\n"
		"  ...\n";
	struct buf out = BUF_INIT(1 << 10);

	crash_report_put_python(&out, SLICE_STR(frames));
	buf_put(&out, "", 1);
	ck_assert_str_eq(
		out.data,
		"#py0 string_at at /usr/lib/python3.11/ctypes/__init__.py:519\n"
		"#py1 <module> at /w/my file.py:3\n");
	buf_release(&out);
}
END_TEST

START_TEST(a_worker_without_a_record_has_no_report)
{
	struct crash_report_of of = {.pid = PID, .signal = SIGSEGV,
				     .with_stack = 1};
	struct crash_catcher none, some;
	struct crash_report r;

	crash_catcher_init(&none);
	crash_catcher_init(&some);
	crash_catcher_begin(&some, 2);
	ck_assert_str_ne(some.library_path, "");
	crash_report_init(&r);
	crash_report_read(&r, &none, &of);
	of.local_rank = 1;
	crash_report_read(&r, &some, &of);
	of.local_rank = 2; /* no such worker */
	crash_report_read(&r, &some, &of);
	ck_assert_int_eq(r.signal, 0);
	ck_assert_uint_eq(r.stack.len + r.note.len + r.meaning.len, 0);
	crash_report_release(&r);
	crash_catcher_release(&some);
	crash_catcher_release(&none);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("crash_report");

	tcase_add_test(
		c, a_system_call_that_seccomp_forbids_comes_with_its_number);
	tcase_add_test(c, a_segmentation_fault_is_explained_by_its_address);
	tcase_add_test(c, a_frame_that_is_larger_than_the_stack_overflows_it);
	tcase_add_test(c, a_signal_that_was_sent_is_no_fault);
	tcase_add_test(c, a_limit_comes_with_the_workers_own_value);
	tcase_add_test(c,
		       a_bus_error_says_what_is_known_of_its_file);
	tcase_add_test(c, the_place_is_the_first_frame_that_is_the_users);
	tcase_add_test(c, pythons_frames_become_lines_of_a_stack);
	tcase_add_test(c, a_worker_without_a_record_has_no_report);
	return run_case(c);
}
