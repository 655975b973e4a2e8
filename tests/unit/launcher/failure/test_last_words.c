/* test_last_words.c: real last lines of stderr, and the sentence in them. */
#include <check.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/launcher/failure/endings.h"
#include "tests/unit/run_case.h"

#define TRACEBACK                                                             \
	"Traceback (most recent call last):\n"                                \
	"  File \"/w/train.py\", line 25, in <module>\n"                      \
	"    load(17)\n"                                                      \
	"  File \"/v/lib/python3.11/site-packages/jpg/io.py\", line 3, in f\n"\
	"    raise RuntimeError(text)\n"                                      \
	"    ^^^^^^^^^^^^^^^^^^^^^^^\n"

START_TEST(an_exception_of_a_thread_does_not_hide_the_main_threads)
{
	static const struct ending list[] = {
		{1, 0, TRACEBACK "ValueError: bad shard 3\n"
		       "Exception in thread Thread-1 (late):\n"
		       "Traceback (most recent call last):\n"
		       "  File \"/w/late.py\", line 3, in late\n"
		       "OSError: writer: bad file descriptor\n",
		 "ValueError: bad shard 3 (train.py:25)"},
		{1, 0, "Exception in thread Thread-1 (late):\n"
		       "Traceback (most recent call last):\n"
		       "  File \"/w/late.py\", line 3, in late\n"
		       "OSError: writer: bad file descriptor\n",
		 "OSError: writer: bad file descriptor (late.py:3)"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(a_message_that_goes_on_after_a_colon_has_its_next_line)
{
	static const struct ending list[] = {
		{1, 0, TRACEBACK "RuntimeError: Error(s) in loading state_dict "
		       "for Net:\n"
		       "\tMissing key(s) in state_dict: \"fc2.bias\". \n"
		       "\tsize mismatch for fc.weight: shape is [5, 4].\n",
		 "RuntimeError: Error(s) in loading state_dict for Net: "
		 "Missing key(s) in state_dict: \"fc2.bias\". "
		 "(train.py:25)"},
		{1, 0, TRACEBACK "ValueError: the shards are:\n"
		       "goodbye\n",
		 "ValueError: the shards are: (train.py:25)"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(faulthandlers_timeout_has_the_main_threads_place)
{
	static const struct ending list[] = {
		{1, 0, "Timeout (0:00:01)!\n"
		       "Thread 0x00007f1c (most recent call first):\n"
		       "  File \"/w/late.py\", line 3 in late\n\n"
		       "Thread 0x00007f1d (most recent call first):\n"
		       "  File \"/w/train.py\", line 19 in fault\n"
		       "  File \"/w/train.py\", line 28 in <module>\n",
		 "Timeout (0:00:01)! (train.py:19)"},
		{3, 0, "Timeout (0:00:01)!\n"
		       "Thread 0x00007f1c (most recent call first):\n"
		       "  File \"/w/late.py\", line 3 in late\n"
		       "lr must be positive\n",
		 "lr must be positive"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(what_a_program_says_while_it_cleans_up_is_no_cause)
{
	static const struct ending list[] = {
		{1, 0, "cat: /no/such/manifest: No such file or directory\n"
		       "cleaning up scratch\n",
		 "cat: /no/such/manifest: No such file or directory"},
		{1, 0, "Warning: cache: Permission denied\n"
		       "lr must be positive\n",
		 "lr must be positive"},
		{1, 0, "a: No such file or directory\n1\n2\n3\n4\n",
		 "4"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

static void check_abort(const char *tail, const char *words)
{
	struct buf out = BUF_INIT(1 << 10);

	last_words_put_abort(&out, SLICE_STR(tail));
	buf_put(&out, "", 1);
	ck_assert_str_eq(out.data, words);
	buf_release(&out);
}

START_TEST(what_was_said_before_mpi_abort_is_its_cause)
{
	check_abort("Abort(335683598) on node 3 (rank 3 in comm 0): "
		    "Fatal error in internal_Recv: Message truncated, error "
		    "stack:\n"
		    "internal_Recv(127): MPI_Recv(count=1, MPI_INT) failed\n"
		    "(unknown)(): Message truncated\n",
		    "Fatal error in internal_Recv: Message truncated");
	check_abort("bad mesh: cell 7 has no volume\n"
		    "Abort(7) on node 3 (rank 3 in comm 0): application called "
		    "MPI_Abort(MPI_COMM_WORLD, 7) - process 3\n",
		    "bad mesh: cell 7 has no volume");
	check_abort("Abort(7) on node 3 (rank 3 in comm 0): application called "
		    "MPI_Abort(MPI_COMM_WORLD, 7) - process 3\n", "");
	check_abort("", "");
}
END_TEST

START_TEST(a_python_exception_comes_with_the_users_own_line)
{
	static const struct ending list[] = {
		{1, 0, TRACEBACK "RuntimeError: cannot decode image 17\n",
		 "RuntimeError: cannot decode image 17 (train.py:25)"},
		{1, 0, TRACEBACK "RuntimeError: cannot decode image 17\n"
		       "expected JPEG\n",
		 "RuntimeError: cannot decode image 17 (train.py:25)"},
		{1, 0, TRACEBACK "KeyError\n", "KeyError (train.py:25)"},
		{1, 0, TRACEBACK "__main__.f.<locals>.ScannerError: mapping "
		       "values\n  in \"config.yaml\", line 3\n",
		 "__main__.f.<locals>.ScannerError: mapping values "
		 "(train.py:25)"},
		{1, 0, TRACEBACK "RuntimeError: \n        An attempt has been "
		       "made to start a new process\n        before.\n",
		 "RuntimeError: An attempt has been made to start a new "
		 "process (train.py:25)"},
		{1, 0, "Traceback (most recent call last):\n"
		       "  File \"a.py\", line 1, in <module>\n"
		       "    d['x']\n"
		       "KeyError: 'x'\n\nDuring handling of the above "
		       "exception, another exception occurred:\n\n"
		       TRACEBACK "torch.OutOfMemoryError: CUDA out of memory\n",
		 "torch.OutOfMemoryError: CUDA out of memory (train.py:25)"},
		{1, 0, "Traceback (most recent call last):\n"
		       "  File \"a.py\", line 1, in <module>\n"
		       "    f.write(x)\n"
		       "OSError: [Errno 28] No space left on device\n\n"
		       "During handling of the above exception, another "
		       "exception occurred:\n\n"
		       TRACEBACK "RuntimeError: unexpected pos 64 vs 0\n",
		 "RuntimeError: unexpected pos 64 vs 0 (train.py:25); caused "
		 "by OSError: [Errno 28] No space left on device"},
		{1, 0, "  File \"/w/a.py\", line 3\n    x = = 1\n        ^\n"
		       "SyntaxError: invalid syntax\n",
		 "SyntaxError: invalid syntax (a.py:3)"},
		/* the frames are above the lines that are kept */
		{1, 0, "ValueError: shapes differ:\n[1, 2]\n[2, 1]\n",
		 "ValueError: shapes differ:"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(torchs_prefixes_and_warnings_are_removed)
{
	static const struct ending list[] = {
		{1, 0,
		 "[rank3]: Traceback (most recent call last):\n"
		 "[rank3]:   File \"/w/t.py\", line 9, in <module>\n"
		 "[rank3]:     boom()\n"
		 "[rank3]: RuntimeError: [gloo/pair.cc:545] Read error\n"
		 "[rank3]:[W1124 10:00:00 ProcessGroup.cpp:1] Warning: "
		 "destroy_process_group() was not called\n",
		 "RuntimeError: [gloo/pair.cc:545] Read error (t.py:9)"},
		{1, 0, "[rank0]: expected JPEG\n", "expected JPEG"},
		{1, 0, "[rank]: x\n", "[rank]: x"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(an_exception_that_was_handled_does_not_explain_an_exit_code)
{
	static const struct ending list[] = {
		{3, 0, TRACEBACK "OSError: retrying\nno epochs are left\n",
		 "no epochs are left"},
		{3, 0, TRACEBACK "OSError: no space\n",
		 "OSError: no space (train.py:25)"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

#define LOADER                                                                \
	"Traceback (most recent call last):\n"                                \
	"  File \"/v/lib/python3.11/site-packages/torch/utils/data/"           \
	"dataloader.py\", line 1251, in _try_get_data\n"                       \
	"    data = self._data_queue.get(timeout=timeout)\n"                   \
	"RuntimeError: DataLoader worker (pid 812) is killed by signal: "      \
	"Killed. \n"                                                           \
	"\n"                                                                   \
	"The above exception was the direct cause of the following "           \
	"exception:\n"                                                         \
	"\n"

START_TEST(a_loaders_child_that_was_killed_is_named_with_its_signal)
{
	static const struct ending list[] = {
		{1, 0, LOADER TRACEBACK "RuntimeError: DataLoader worker "
		       "(pid(s) 812) exited unexpectedly\n",
		 "RuntimeError: DataLoader worker (pid 812) is killed by "
		 "signal: Killed. (train.py:25)"},
		{1, 0, LOADER TRACEBACK "ValueError: another one\n",
		 "ValueError: another one (train.py:25); caused by "
		 "RuntimeError: DataLoader worker (pid 812) is killed by "
		 "signal: Killed."},
		{1, 0, TRACEBACK "RuntimeError: DataLoader worker (pid(s) 812) "
		       "exited unexpectedly\n",
		 "RuntimeError: DataLoader worker (pid(s) 812) exited "
		 "unexpectedly (train.py:25)"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(an_abort_is_explained_by_what_came_before_it)
{
	static const struct ending list[] = {
		{0, SIGABRT, "step 7\nw: w.c:62: main: Assertion `step < 0' "
			     "failed.\n",
		 "w.c:62: main: Assertion `step < 0' failed."},
		{0, SIGABRT, "terminate called after throwing an instance of "
			     "'std::runtime_error'\n"
			     "  what():  cuDNN error: 1\n",
		 "terminate called after throwing 'std::runtime_error': "
		 "cuDNN error: 1"},
		{0, SIGABRT,
		 "/usr/include/c++/12/bits/stl_vector.h:1123: std::vector<_Tp, "
		 "_Alloc>::reference std::vector<_Tp, _Alloc>::operator[]("
		 "size_type) [with _Tp = int; _Alloc = std::allocator<int>]: "
		 "Assertion '__n < this->size()' failed.\n",
		 "Assertion '__n < this->size()' failed."},
		{0, SIGABRT, "terminate called without an active exception\n",
		 "terminate called without an active exception"},
		{0, SIGABRT, "pure virtual method called\n"
			     "terminate called without an active exception\n",
		 "pure virtual method called"},
		{0, SIGABRT, "OMP: Error #15: Initializing libiomp5.so.\n"
			     "OMP: Hint This means that copies are linked.\n",
		 "OMP: Error #15: Initializing libiomp5.so."},
		{0, SIGABRT, "free(): invalid pointer\n",
		 "free(): invalid pointer"},
		{0, SIGABRT, "F1124 10:00:00.1 7 net.cc:62] Check failed: a == "
			     "b (1 vs. 2)\n*** Check failure stack trace: ***\n"
			     "    @ 0x7f main\n",
		 "F1124 10:00:00.1 7 net.cc:62] Check failed: a == b (1 vs. "
		 "2)"},
		{0, SIGABRT, "terminate called after throwing an instance of "
			     "'c10::Error'\n"
			     "  what():  CUDA error: out of memory\n"
			     "Fatal Python error: Aborted\n\n"
			     "Current thread 0x7f (most recent call first):\n"
			     "  File \"/w/w.py\", line 3 in <module>\n",
		 "terminate called after throwing 'c10::Error': CUDA error: "
		 "out of memory (w.py:3)"},
		{0, SIGABRT, "Fatal Python error: Aborted\n\n"
			     "Current thread 0x7f (most recent call first):\n"
			     "  File \"/w/w.py\", line 3 in <module>\n",
		 "Fatal Python error: Aborted (w.py:3)"},
		{0, SIGABRT, "no memory, I give up\n", "no memory, I give up"},
		{0, SIGABRT, "", ""},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(other_languages_and_sanitizers)
{
	static const struct ending list[] = {
		{1, 0, "==7==ERROR: AddressSanitizer: heap-use-after-free\n"
		       "    #0 0x55 in main /w/w.c:9\n"
		       "SUMMARY: AddressSanitizer: heap-use-after-free "
		       "/w/w.c:9 in main\n==7==ABORTING\n",
		 "AddressSanitizer: heap-use-after-free /w/w.c:9 in main"},
		{101, 0, "thread 'main' panicked at src/main.rs:2:5:\nboom\n",
		 "thread 'main' panicked at src/main.rs:2:5: boom"},
		{2, 0, "panic: index out of range\n\ngoroutine 1 [running]:\n"
		       "main.main()\n",
		 "panic: index out of range"},
		{0, SIGABRT,
		 "thread 'main' panicked at src/main.rs:2:5:\nboom\n"
		 "note: run with `RUST_BACKTRACE=1`\n",
		 "thread 'main' panicked at src/main.rs:2:5: boom"},
		{1, 0, "ERROR: LoadError: no method\nStacktrace:\n [1] top\n",
		 "ERROR: LoadError: no method"},
		{1, 0, "Error in solve.default(m) : \n  singular: U[2,2] = 0\n"
		       "Calls: fit -> solve\nExecution halted\n",
		 "Error in solve.default(m) : singular: U[2,2] = 0"},
		{134, 0, "Unhandled exception. System.Exception: no\n"
			 "   at Program.Main()\n",
		 "Unhandled exception. System.Exception: no"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(what_precedes_a_backtrace_is_the_sentence)
{
	static const struct ending list[] = {
		{2, 0, "At line 6 of file /w/x.f90 (unit = 10)\n"
		       "Fortran runtime error: Index '5' above 3\n\n"
		       "Error termination. Backtrace:\n"
		       "#0  0x7f12 in ???\n#1  0x401 in x\n"
		       "\tat /w/x.f90:6\n",
		 "Fortran runtime error: Index '5' above 3 (x.f90:6)"},
		{2, 0, "Fortran runtime error: End of file\n",
		 "Fortran runtime error: End of file"},
		{1, 0, "ERROR STOP residual is too large\n\n"
		       "Error termination. Backtrace:\n#0  0x7f12 in ???\n",
		 "ERROR STOP residual is too large"},
		{0, SIGABRT,
		 "[h2:812  :0:812] ib_mlx5_log.c:177  Transport retry count "
		 "exceeded\n"
		 "[h2:812  :0:812] ib_mlx5_log.c:177  RC QP 0x28c: SEND\n"
		 "==== backtrace (tid:    812) ====\n"
		 " 0  /lib/libucs.so.0(ucs_handle_error+0x2e4) [0x7f1c]\n"
		 " 1  /lib/libucs.so.0(ucs_fatal+0xb8) [0x7f1d]\n"
		 "=================================\n",
		 "[h2:812  :0:812] ib_mlx5_log.c:177  Transport retry count "
		 "exceeded"},
		{2, 0, "Can't locate Foo/Bar.pm in @INC\n"
		       "BEGIN failed--compilation aborted at x line 1.\n",
		 "Can't locate Foo/Bar.pm in @INC"},
		{1, 0, "lua: x.lua:1: bad step\nstack traceback:\n"
		       "\t[C]: in function 'error'\n\t[C]: in ?\n",
		 "lua: x.lua:1: bad step"},
		{1, 0, "prog: bad step\nCallStack (from HasCallStack):\n"
		       "  error, called at x.hs:3:8 in main:Main\n",
		 "prog: bad step"},
		{15, 0, "Fatal error in internal_Init: Other MPI error, error "
			"stack:\ninternal_Init(66): MPI_Init failed\n"
			"MPID_Init(67)...:\n",
		 "Fatal error in internal_Init: Other MPI error, error stack:"},
		{1, 0, "  an indented line\n  and another\n", "and another"},
		{1, 0, "loss is nan at\n    at step 17\n", "loss is nan at"},
		{1, 0, "==========\n", "=========="},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

#define GROUP                                                                 \
	"  + Exception Group Traceback (most recent call last):\n"            \
	"  |   File \"/w/train.py\", line 25, in <module>\n"                  \
	"  |     asyncio.run(all())\n"                                        \
	"  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-excep"    \
	"tion)\n"                                                             \
	"  +-+---------------- 1 ----------------\n"

START_TEST(an_exception_of_a_group_is_the_cause)
{
	static const char one[] =
		"    | Traceback (most recent call last):\n"
		"    |   File \"/w/load.py\", line 3, in load\n"
		"    |     raise ValueError(\"bad shard 7\")\n"
		"    | ValueError: bad shard 7\n"
		"    +------------------------------------\n";
	char all[sizeof(GROUP) + sizeof(one)];
	/* without the head, if the tail is too short for it */
	const struct ending list[] = {
		{1, 0, all, "ValueError: bad shard 7 (load.py:3)"},
		{1, 0, one, "ValueError: bad shard 7 (load.py:3)"},
		{1, 0, "  | a table\n  +-----+\n  | 7\n", "| 7"},
	};

	snprintf(all, sizeof(all), "%s%s", GROUP, one);
	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(python_that_was_interrupted_says_where)
{
	static const struct ending list[] = {
		{0, SIGINT, TRACEBACK "KeyboardInterrupt\n",
		 "KeyboardInterrupt (train.py:25)"},
		{0, SIGINT, "step 7 loss 0.3\n", ""},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(a_line_of_a_log_explains_no_crash)
{
	static const struct ending list[] = {
		{0, SIGSEGV, "step 1700 loss 0.113\n", ""},
		{0, SIGSEGV, TRACEBACK "OSError: retrying\n", ""},
		{0, SIGKILL, "free(): invalid pointer\n", ""},
		{0, SIGTERM, TRACEBACK "OSError: retrying\n", ""},
		{0, SIGSEGV,
		 "Fatal Python error: Segmentation fault\n\n"
		 "Current thread 0x00007f (most recent call first):\n"
		 "  File \"/usr/lib/python3.11/ctypes/__init__.py\", line 5 in "
		 "string_at\n"
		 "  File \"/w/w.py\", line 3 in <module>\n",
		 "Fatal Python error: Segmentation fault (w.py:3)"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(an_exit_is_explained_by_the_last_line)
{
	struct ending list[] = {
		{2, 0, "usage: w [-x]\n\n  \n", "usage: w [-x]"},
		{2, 0, "\n  cannot open data\r\n", "cannot open data"},
		{2, 0, "\n\n", ""},
		{2, 0, "no newline", "no newline"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(both_ends_of_a_long_line_are_shown)
{
	enum { HEAD = LAST_WORDS_MAX - LAST_WORDS_END - 5 };
	static char line[2000], words[LAST_WORDS_MAX + 1];
	struct ending list[] = {{2, 0, line, words}};

	memset(line, 'x', sizeof(line) - 1);
	memset(line + sizeof(line) - 1 - LAST_WORDS_END, 'y', LAST_WORDS_END);
	snprintf(words, sizeof(words), "%.*s ... %s", HEAD, line,
		 line + sizeof(line) - 1 - LAST_WORDS_END);
	CHECK_ENDINGS(list, last_words_put);
	/* characters of two bytes are not cut */
	for (size_t i = 0; i + 1 < sizeof(line); i++)
		line[i] = "\xc3\xa4"[i % 2 == 0];
	snprintf(words, sizeof(words), "%.*s ... %s", HEAD - 1, line,
		 line + sizeof(line) - LAST_WORDS_END);
	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(a_waiting_worker_may_have_printed_an_error_last)
{
	static const char traceback[] =
		"Process Process-1:\nTraceback (most recent call last):\n"
		"  File \"/w/train.py\", line 36, in work\n"
		"    raise ValueError(\"bad shard 7\")\n"
		"ValueError: bad shard 7\n";
	char longer[sizeof(traceback) + 16];
	struct buf out = BUF_INIT(1024);

	snprintf(longer, sizeof(longer), "%sstep 8\n", traceback);
	last_words_put_error(&out, SLICE_STR(longer));
	last_words_put_error(&out, SLICE_STR("step 7, loss 0.3\n"));
	last_words_put_error(&out, SLICE_STR(""));
	ck_assert_uint_eq(out.len, 0);
	last_words_put_error(&out, SLICE_STR(traceback));
	buf_put(&out, "", 1);
	ck_assert_str_eq(out.data, "ValueError: bad shard 7 (train.py:36)");
	buf_release(&out);
}
END_TEST

START_TEST(what_torch_says_while_it_connects_counts_as_an_error)
{
	static const char tries[] =
		"[E1130 10:39:05.6 socket.cpp:1028] [c10d] The client socket "
		"has timed out after 8000ms while trying to connect to (h1, "
		"1).\n"
		"[W1130 10:39:05.7 TCPStore.cpp:340] [c10d] TCP client failed "
		"to connect/validate to host h1:1 - retrying (try=1, "
		"timeout=8000ms, delay=4958ms): The client socket has timed "
		"out after 8000ms while trying to connect to (h1, 1).\n"
		"Exception raised from throwTimeoutError at socket.cpp:1030 "
		"(most recent call first):\n"
		"frame #0: c10::Error::Error() + 0x9d (0x7f in libc10.so)\n"
		"<omitting python frames>\n"
		"frame #17: <unknown function> + 0x40 (0x7f in libc.so.6)\n"
		"\n";
	char longer[sizeof(tries) + 16];
	struct buf out = BUF_INIT(1024);

	snprintf(longer, sizeof(longer), "%sstep 8\n", tries);
	last_words_put_error(&out, SLICE_STR(longer));
	ck_assert_uint_eq(out.len, 0);
	last_words_put_error(&out, SLICE_STR(tries));
	buf_put(&out, "", 1);
	ck_assert_str_eq(out.data, "The client socket has timed out after "
				   "8000ms while trying to connect to (h1, "
				   "1).");
	buf_release(&out);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("last_words");

	tcase_add_test(
		c, what_torch_says_while_it_connects_counts_as_an_error);
	tcase_add_test(
		c, an_exception_of_a_thread_does_not_hide_the_main_threads);
	tcase_add_test(
		c, a_message_that_goes_on_after_a_colon_has_its_next_line);
	tcase_add_test(c, faulthandlers_timeout_has_the_main_threads_place);
	tcase_add_test(c, what_a_program_says_while_it_cleans_up_is_no_cause);
	tcase_add_test(c, what_was_said_before_mpi_abort_is_its_cause);
	tcase_add_test(c, a_python_exception_comes_with_the_users_own_line);
	tcase_add_test(c, torchs_prefixes_and_warnings_are_removed);
	tcase_add_test(
		c, an_exception_that_was_handled_does_not_explain_an_exit_code);
	tcase_add_test(
		c, a_loaders_child_that_was_killed_is_named_with_its_signal);
	tcase_add_test(c, an_abort_is_explained_by_what_came_before_it);
	tcase_add_test(c, other_languages_and_sanitizers);
	tcase_add_test(c, what_precedes_a_backtrace_is_the_sentence);
	tcase_add_test(c, an_exception_of_a_group_is_the_cause);
	tcase_add_test(c, python_that_was_interrupted_says_where);
	tcase_add_test(c, a_line_of_a_log_explains_no_crash);
	tcase_add_test(c, an_exit_is_explained_by_the_last_line);
	tcase_add_test(c, both_ends_of_a_long_line_are_shown);
	tcase_add_test(c, a_waiting_worker_may_have_printed_an_error_last);
	return run_case(c);
}
