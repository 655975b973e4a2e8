/* test_last_words_signs.c: the sentence that says why, among lines that do not.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>

#include "tests/unit/launcher/failure/endings.h"
#include "tests/unit/run_case.h"

#define TRACEBACK                                                             \
	"Traceback (most recent call last):\n"                                \
	"  File \"/w/train.py\", line 25, in <module>\n"                      \
	"    load(17)\n"

START_TEST(an_exception_that_python_survives_is_no_cause)
{
	static const struct ending list[] = {
		{1, 0, TRACEBACK "ValueError: bad shard 3\n"
		       "Error in atexit._run_exitfuncs:\n"
		       "Traceback (most recent call last):\n"
		       "  File \"/w/late.py\", line 3, in late\n"
		       "RuntimeError: cannot close the writer\n",
		 "ValueError: bad shard 3 (train.py:25)"},
		{1, 0, TRACEBACK "ValueError: bad shard 3\n"
		       "Exception ignored in: <function Reader.__del__>\n"
		       "Traceback (most recent call last):\n"
		       "  File \"/w/late.py\", line 3, in __del__\n"
		       "AttributeError: 'Reader' has no attribute 'file'\n",
		 "ValueError: bad shard 3 (train.py:25)"},
		{1, 0, TRACEBACK "ValueError: bad shard 3\n"
		       "--- Logging error ---\n"
		       "Traceback (most recent call last):\n"
		       "  File \"/lib/python3.11/logging.py\", line 3, in f\n"
		       "OSError: [Errno 28] No space left on device\n"
		       "Call stack:\n"
		       "  File \"/w/train.py\", line 7, in <module>\n"
		       "Message: 'step 7'\nArguments: ()\n",
		 "ValueError: bad shard 3 (train.py:25)"},
		{1, 0, "--- Logging error ---\n"
		       "Traceback (most recent call last):\n"
		       "  File \"/lib/python3.11/logging.py\", line 3, in f\n"
		       "OSError: [Errno 28] No space left on device\n"
		       "Call stack:\n"
		       "  File \"/w/train.py\", line 7, in <module>\n"
		       "Message: 'step 7'\nArguments: ()\n",
		 "OSError: [Errno 28] No space left on device (logging.py:3)"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(what_others_put_around_the_words_is_taken_off)
{
	static const struct ending list[] = {
		{1, 0, "12:01 Traceback (most recent call last):\n"
		       "12:01   File \"/w/train.py\", line 9, in <module>\n"
		       "12:01     load()\n"
		       "12:02 OSError: bad token file\n12:03 cleaning up\n",
		 "OSError: bad token file (train.py:9)"},
		{1, 0, " ****************\n * [ABORT]      *\n"
		       " *  \\___/ bad key in line 4 *\n",
		 "[ABORT] bad key in line 4"},
		{2, 0, "bad option: --x\nusage: w [-n N]\n  -n N  steps\n",
		 "bad option: --x"},
		{1, 0, "cannot read the mesh\n---\n"
		       "MPI_ABORT was invoked on rank 1 in\n"
		       "with errorcode 1.\n---\n",
		 "cannot read the mesh"},
		{9, 0, "forrtl: severe (24): end-of-file, unit 5\n"
		       "Image   PC                Routine  Line  Source\n"
		       "w       0000000000CF159E  Unknown  Unknown  Unknown\n",
		 "forrtl: severe (24): end-of-file, unit 5"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(a_terminals_codes_are_no_part_of_the_words)
{
	static const struct ending list[] = {
		{2, 0, "\x1b[1;31mError\x1b[0m: no \x1b[4mshard\x1b[m 3\n",
		 "Error: no shard 3"},
		{2, 0, "Error: \x1b]8;;http://w/3\x1b\\shard 3\x1b]8;;\x1b\\ "
		       "is\x1b]0;title\a bad\n",
		 "Error: shard 3 is bad"},
		{1, 0, TRACEBACK "\x1b[1;35mValueError\x1b[0m: "
		       "\x1b[35mbad shard 3\x1b[0m\n",
		 "ValueError: bad shard 3 (train.py:25)"},
		{2, 0, "Usage: tool [OPTIONS]\n"
		       "\x1b[31m╭─ Error ─────────╮\x1b[0m\n"
		       "\x1b[31m│\x1b[0m No such option \x1b[31m│\x1b[0m\n"
		       "\x1b[31m╰─────────────────╯\x1b[0m\n",
		 "No such option"},
		/* cut short, or none at all */
		{2, 0, "Error: bad shard 3\n\x1b", "Error: bad shard 3"},
		{2, 0, "Error: bad shard 3\x1b[31", "Error: bad shard 3"},
		{2, 0, "\x1b]0;title\nError: bad shard 3\n",
		 "Error: bad shard 3"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(the_name_of_an_error_is_no_sentence)
{
	static const struct ending list[] = {
		{1, 0, "WAVE input error\n| ERROR:   grid of 5 is too small\n"
		       "Input errors occurred.\n",
		 "ERROR:   grid of 5 is too small"},
		{1, 0, "lib-7 : FATAL library error\n"
		       "  A READ went past the end.\n\nOpened as unit 5\n",
		 "lib-7 : FATAL library error A READ went past the end."},
		{1, 0, "Error in \"load(Mesh)\": \n----------------\n"
		       "Line 12: invalid option name\n"
		       "------- Error Exit -------\n",
		 "Error in \"load(Mesh)\": Line 12: invalid option name"},
		{1, 0, "{\bError using join\nThe sizes differ.\n\n"
		       "Error in train (line 12)\n    x = [a, b];\n\n}\b\n",
		 "Error using join The sizes differ."},
		{1, 0, TRACEBACK "RuntimeError: \n*** ask the developers\n"
		       "*** Error:   no mesh\n*** Where:   File.cpp\n",
		 "RuntimeError: *** Error:   no mesh (train.py:25)"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(a_child_that_cannot_unpickle_is_second_hand)
{
	static const struct ending list[] = {
		{1, 0, TRACEBACK "AttributeError: Can't pickle local 'f'\n"
		       "Traceback (most recent call last):\n"
		       "  File \"<string>\", line 1, in <module>\n"
		       "  File \"/lib/python3.11/spawn.py\", line 122, in m\n"
		       "EOFError: Ran out of input\n",
		 "AttributeError: Can't pickle local 'f' (train.py:25)"},
		{1, 0, TRACEBACK "EOFError: Ran out of input\n",
		 "EOFError: Ran out of input (train.py:25)"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(an_exception_from_another_has_the_first_one_too)
{
	static const char from[] = "\nThe above exception was the direct cause "
				   "of the following exception:\n\n";
	char tail[2048];
	struct ending e = {1, 0, tail, "RunError: no data (train.py:25); "
				       "caused by OSError: bad shard 3"};

	snprintf(tail, sizeof(tail), "%s%s%s%s%s%s%s%s",
		 TRACEBACK, "OSError: bad shard 3\n", from,
		 TRACEBACK, "ReadError: shard 3\n", from,
		 TRACEBACK, "RunError: no data\n");
	check_endings(&e, 1, last_words_put);
}
END_TEST

START_TEST(what_only_points_to_other_lines_is_left_out)
{
	static const struct ending list[] = {
		{1, 0, "+ cp a b\ncp: error writing 'b': No space left on "
		       "device\n++ pwd\n+ exit 1\n",
		 "cp: error writing 'b': No space left on device"},
		{1, 0, "[E::read] fail to find the index\n"
		       "Exiting because a job failed. Look above.\n",
		 "[E::read] fail to find the index"},
		{123, 0, " ===>>> : E R R O R\n\n   speed of 20 is too "
			 "large\nSTOP 123\n",
		 "===>>> : E R R O R speed of 20 is too large"},
		{1, 0, TRACEBACK "OSError: too many files\n"
		       TRACEBACK "RuntimeError: Pin memory thread exited "
		       "unexpectedly\n",
		 "RuntimeError: Pin memory thread exited unexpectedly "
		 "(train.py:25); caused by OSError: too many files"},
		{2, 0, "STOP 123\n", "STOP 123"},
		{2, 0, "/lib/x.py:12: UserWarning: 4 files are lost\n"
		       "  warnings.warn('%d are lost')\n", ""},
		{1, 0, "cannot open shard 3\n"
		       "/lib/x.py:12: UserWarning: 4 files are lost\n"
		       "  warnings.warn('%d are lost')\n",
		 "cannot open shard 3"},
		{1, 0, TRACEBACK "BackendError: NCCL error, invalid usage\n"
		       "ncclInvalidUsage: This reflects invalid usage.\n"
		       "Last error:\nDuplicate GPU: rank 1\n",
		 "BackendError: NCCL error, invalid usage (train.py:25); "
		 "last error: Duplicate GPU: rank 1"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(of_likely_lines_the_first_counts)
{
	static const struct ending list[] = {
		{1, 0, "load: failed to open 7.bin\nload failed\n"
		       "exiting, see the log\n",
		 "load: failed to open 7.bin"},
		{1, 0, "[h:8] *** An error occurred in MPI_Recv\n"
		       "[h:8] *** on communicator MPI_COMM_WORLD\n"
		       "[h:8] *** MPI_ERR_TRUNCATE: message truncated\n"
		       "[h:8] *** MPI_ERRORS_ARE_FATAL (processes will abort,\n"
		       "[h:8] ***    and potentially your MPI job)\n",
		 "An error occurred in MPI_Recv: MPI_ERR_TRUNCATE: message "
		 "truncated"},
		{1, 0, "Traceback (most recent call last):\n"
		       "  File \"/w/a.py\", line 4, in f\nKeyError: 'x'\n"
		       "Traceback (most recent call last):\n"
		       "  File \"/w/b.py\", line 5, in <module>\n"
		       "E.CalledProcessError: Command returned non-zero exit "
		       "status 1.\n",
		 "KeyError: 'x' (a.py:4)"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(a_line_about_an_error_counts_more_than_what_follows_it)
{
	static const struct ending list[] = {
		{4, 0, "12:00:01 ERROR root: validation loss is inf\n"
		       "12:00:01 INFO root: closing 4 readers\n"
		       "12:00:02 INFO root: goodbye\n",
		 "12:00:01 ERROR root: validation loss is inf"},
		{1, 0, "level=ERROR msg=\"cannot open shard\"\n"
		       "level=INFO msg=\"shutting down\"\n",
		 "level=ERROR msg=\"cannot open shard\""},
		{1, 0, "{\"level\": \"error\", \"msg\": \"bad shard\"}\n"
		       "{\"level\": \"info\", \"msg\": \"bye\"}\n",
		 "{\"level\": \"error\", \"msg\": \"bad shard\"}"},
		{1, 0, "E1130 03:12:44.1 812 w.cc:4] bad shard\n"
		       "I1130 03:12:44.2 812 w.cc:9] closing\n",
		 "E1130 03:12:44.1 812 w.cc:4] bad shard"},
		{1, 0, "[3]PETSC ERROR: ------- Error Message -------\n"
		       "[3]PETSC ERROR: Zero pivot in LU factorization\n"
		       "[3]PETSC ERROR: #1 main() at solver.c:88\n"
		       "[3]PETSC ERROR: ---- End of Error Message ----\n",
		 "[3]PETSC ERROR: Zero pivot in LU factorization"},
		{1, 0, "--> FOAM FATAL ERROR: (openfoam-2306)\n"
		       "cannot find file \"/w/points\"\n\n"
		       "    in file C.C at line 561.\n\n"
		       "FOAM parallel run exiting\n",
		 "FOAM FATAL ERROR: (openfoam-2306) cannot find file "
		 "\"/w/points\""},
		{1, 0, "MPI rank:    3 (out of 4)\n\nFatal error:\n"
		       "There is no domain decomposition for 7 ranks\n\n"
		       "For more information and tips, please check the\n"
		       "website at http://example.org/Errors\n-------\n",
		 "Fatal error: There is no domain decomposition for 7 ranks"},
		{1, 0, "ERROR on proc 3: Lost atoms (thermo.cpp:494)\n"
		       "Last command: run 1000\n",
		 "ERROR on proc 3: Lost atoms (thermo.cpp:494)"},
		{0, SIGABRT, "#\n# A fatal error has been detected by the Java "
		       "Runtime Environment:\n#\n#  SIGSEGV (0xb) at pc=0x7\n"
		       "#\n# If you would like to submit a report, visit:\n",
		 "A fatal error has been detected by the Java Runtime "
		 "Environment: SIGSEGV (0xb) at pc=0x7"},
		/* letters of other languages are no rule */
		{3, 0, "step 7\nディスクの空きがありません\n",
		 "ディスクの空きがありません"},
		/* no sign of an error */
		{3, 0, "step 7, train error: 0.031\nlr must be positive\n",
		 "lr must be positive"},
		{3, 0, "INFO retry after error: reset\nlr must be positive\n",
		 "lr must be positive"},
		{3, 0, "ERROR: reset, trying again\n1\n2\n3\n4\n5\n6\n7\n"
		       "8\n9\n10\n11\n",
		 "11"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(what_is_printed_in_several_lines_is_found_by_its_first)
{
	static const struct ending list[] = {
		{255, 0, "bad shard 7 at x.pl line 1.\n"
		       "\tmain::load(7) called at x.pl line 2\n"
		       "\tmain::all() called at x.pl line 3\n",
		 "bad shard 7 at x.pl line 1."},
		{1, 0, "[UnhandledPromiseRejection: \"bad shard 7\".] {\n"
		       "  code: 'ERR_UNHANDLED_REJECTION'\n}\n\n"
		       "Node.js v18.20.2\n",
		 "[UnhandledPromiseRejection: \"bad shard 7\".] {"},
		{6, 0, "  0     0    0     0    0     0      0      0 --:--:-- "
		       "--:--:-- --:--:--     0curl: (6) Could not resolve "
		       "host: storage\n",
		 "curl: (6) Could not resolve host: storage"},
		{101, 0, "thread 'loader' panicked at x.rs:3:21:\nbad shard 7\n"
		       "thread 'main' panicked at x.rs:3:62:\ncalled "
		       "`Result::unwrap()` on an `Err` value: Any { .. }\n",
		 "thread 'loader' panicked at x.rs:3:21: bad shard 7"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(the_first_of_a_chain_of_causes_is_added)
{
	static const struct ending list[] = {
		{1, 0, "Exception in thread \"main\" MyException: no start\n"
		       "\tat Trainer.main(Trainer.java:12)\n"
		       "Caused by: java.io.IOException: no model\n"
		       "\tat Trainer.load(Trainer.java:7)\n\t... 3 more\n"
		       "Caused by: java.net.UnknownHostException: store\n"
		       "\tat Trainer.open(Trainer.java:3)\n\t... 4 more\n",
		 "Exception in thread \"main\" MyException: no start; "
		 "caused by java.net.UnknownHostException: store"},
		{1, 0, "Error: cannot read the configuration\n\nCaused by:\n"
		       "    0: cannot open train.toml\n"
		       "    1: No such file or directory (os error 2)\n",
		 "Error: cannot read the configuration; caused by No such "
		 "file or directory (os error 2)"},
		{1, 0, "ERROR: LoadError: TaskFailedException\n\n"
		       "    nested task error: DomainError with -1.0:\n"
		       "    sqrt was called with a negative argument\n"
		       "Stacktrace:\n [1] wait\n",
		 "ERROR: LoadError: TaskFailedException; caused by "
		 "DomainError with -1.0:"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(only_clear_words_count_where_most_lines_are_results)
{
	static const struct ending list[] = {
		{1, 0, TRACEBACK "ValueError: bad shard 3\n",
		 "ValueError: bad shard 3 (train.py:25)"},
		{1, 0, "step 7\nERROR: cannot open mesh.dat\n",
		 "ERROR: cannot open mesh.dat"},
		{1, 0, "opens data/7\ndata/7: Permission denied\n",
		 "data/7: Permission denied"},
		{1, 0, "step 7, loss 0.3\n", ""},
		{1, 0, "", ""},
		{0, SIGKILL, "ERROR: cannot open mesh.dat\n", ""},
	};

	CHECK_ENDINGS(list, last_words_put_clear);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("last_words_signs");

	tcase_add_test(c, an_exception_that_python_survives_is_no_cause);
	tcase_add_test(c, what_others_put_around_the_words_is_taken_off);
	tcase_add_test(c, a_terminals_codes_are_no_part_of_the_words);
	tcase_add_test(c, the_name_of_an_error_is_no_sentence);
	tcase_add_test(c, a_child_that_cannot_unpickle_is_second_hand);
	tcase_add_test(c, an_exception_from_another_has_the_first_one_too);
	tcase_add_test(c, what_only_points_to_other_lines_is_left_out);
	tcase_add_test(c, of_likely_lines_the_first_counts);
	tcase_add_test(
		c, a_line_about_an_error_counts_more_than_what_follows_it);
	tcase_add_test(
		c, what_is_printed_in_several_lines_is_found_by_its_first);
	tcase_add_test(c, the_first_of_a_chain_of_causes_is_added);
	tcase_add_test(c, only_clear_words_count_where_most_lines_are_results);
	return run_case(c);
}
