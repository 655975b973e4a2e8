/* test_last_words_blocks.c: sentences that are in boxes, below headings, and
 * around backtraces. */
#include <check.h>
#include <signal.h>
#include <stdio.h>

#include "tests/unit/launcher/failure/endings.h"
#include "tests/unit/run_case.h"

#define RULE "--------------------------------\n"

START_TEST(a_box_has_the_reason_of_a_general_error_of_mpi)
{
	static const struct ending list[] = {
		{1, 0, RULE "The fabric could not be opened:\n\n"
		       "  no port is up\n  --> Returned -7\n" RULE
		       "[h1:812] *** An error occurred in MPI_Init\n"
		       "[h1:812] *** on a NULL communicator\n"
		       "[h1:812] *** Unknown error\n"
		       "[h1:812] *** MPI_ERRORS_ARE_FATAL (all end now,\n",
		 "The fabric could not be opened: no port is up Returned -7"},
		{1, 0, RULE "This program was started directly.\n" RULE
		       "*** An error occurred in MPI_Init\n"
		       "*** on a NULL communicator\n"
		       "*** MPI_ERRORS_ARE_FATAL (all end now,\n",
		 "This program was started directly."},
		/* it has a reason of its own */
		{1, 0, RULE "The device h1:0 is slow.\n" RULE
		       "[h1:812] *** An error occurred in MPI_Recv\n"
		       "[h1:812] *** MPI_ERR_TRUNCATE: truncated\n"
		       "[h1:812] *** MPI_ERRORS_ARE_FATAL (all end now,\n",
		 "An error occurred in MPI_Recv: MPI_ERR_TRUNCATE: truncated"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(a_box_about_an_error_counts_more_than_what_follows_it)
{
	static const struct ending list[] = {
		{0, SIGABRT, "step 8\n" RULE
		       "An error occurred in line <7> of <v.h> in\n"
		       "    void v::get()\nThe violated condition was:\n"
		       "    i < size()\n\nStacktrace:\n-----------\n"
		       "#0  ./run: v::get()\n" RULE "\nCalling abort now.\n"
		       "To stop there, set a breakpoint\n",
		 "An error occurred in line <7> of <v.h> in void v::get() "
		 "The violated condition was: i < size()"},
		{0, SIGABRT, "-------- EEEE ------ Exception-START -----\n"
		       "*** Navigator : Nav3\nTrack 8 is stuck.\n"
		       "-------- EEEE ------ Exception-END -------\n\n"
		       "*** Navigator: ending ***\n",
		 "Navigator : Nav3 Track 8 is stuck."},
		/* a table is no error */
		{1, 0, RULE "phase   seconds\nread    12\n" RULE "bad mesh\n",
		 "bad mesh"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(a_heading_is_completed_from_below_it)
{
	static const struct ending list[] = {
		{1, 0, "FATAL CALLED FROM FILE:  <stdin>  LINE:      70\n"
		       " model: no file input_d01\n" RULE,
		 "FATAL CALLED FROM FILE:  <stdin>  LINE:      70 "
		 "model: no file input_d01"},
		{14, 0, "--- !ERROR\nsrc_file: inv.F90\nsrc_line: 812\n"
		       "message: |\n    The value of cut is not set.\n"
		       "    Action: set it.\n...\n\n leaving ...\n",
		 "ERROR The value of cut is not set. Action: set it."},
		{1, 0, "Fatal error:\nSyntax error in top.itp, line 31\n"
		       "Last line read:\n'[ types ]'\n\n"
		       "For more information see the manual\n",
		 "Fatal error: Syntax error in top.itp, line 31 "
		 "Last line read: '[ types ]'"},
		{1, 0, "box: error: step failed with error code: 1\n"
		       "box: error: its log:\n"
		       "box: error:     mount: not permitted\n"
		       "box: error: init() failed with rc=-1\n",
		 "box: error: its log: mount: not permitted"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(a_backtrace_of_any_form_is_left_out)
{
	static const struct ending list[] = {
		{0, SIGABRT, "bad pivot\n\n[ Stack-Trace: ]\n"
		       "sol::Log::Message() const\nsol::Solve(int, float*)\n"
		       "lib.so(main+0x51c) [0x5576c3fa2b26]\nmain\n",
		 "bad pivot"},
		{1, 0, "Received signal 8: Floating point exception\n\n"
		       "** StackTrace of 3 frames **\nFrame 0: libc.so.6\n"
		       "Frame 1: mgr_cycle\nFrame 2: main\n=====\n",
		 "Received signal 8: Floating point exception"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

START_TEST(an_end_without_a_reason_is_no_sentence)
{
	static const struct ending list[] = {
		{1, 0, "ERROR STOP\n\nError termination. Backtrace:\n"
		       " *** ERROR: no initial condition ***\n"
		       "#0  0x40876b in fail\n\tat utils.f90:122\n",
		 "ERROR: no initial condition ***"},
		{8, 0, "bad cell 7\nSee Trace.1 file for details\n"
		       "Abort(8) on node 1 (rank 1 in comm 496): "
		       "application called MPI_Abort(comm=0x84, 8)\n",
		 "bad cell 7"},
		{0, SIGABRT, "1::Assertion `n < max' failed, file \"g.cpp\"\n"
		       "SIGABRT\nMPICH ERROR [Rank 1] - Abort(6): "
		       "application called MPI_Abort(comm=0x84, 6)\n",
		 "Assertion `n < max' failed, file \"g.cpp\""},
		{0, SIGABRT, "ASSERTION_FAILED (f():f.cc:32) Assertion failed: "
		       "(a == b)\n\n[ Stack-Trace: ]\nf(int)\nmain\n",
		 "ASSERTION_FAILED (f():f.cc:32) Assertion failed: (a == b)"},
		{0, SIGABRT, "terminate called after throwing an instance of "
		       "'E'\n  what():  \n(Action.cpp:255) void error()\n"
		       "ERROR in input: no atoms\n",
		 "terminate called after throwing 'E': "
		 "ERROR in input: no atoms"},
	};

	CHECK_ENDINGS(list, last_words_put);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("last_words_blocks");

	tcase_add_test(c, a_box_has_the_reason_of_a_general_error_of_mpi);
	tcase_add_test(
		c, a_box_about_an_error_counts_more_than_what_follows_it);
	tcase_add_test(c, a_heading_is_completed_from_below_it);
	tcase_add_test(c, a_backtrace_of_any_form_is_left_out);
	tcase_add_test(c, an_end_without_a_reason_is_no_sentence);
	return run_case(c);
}
