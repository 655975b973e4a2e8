/* test_pmi_server.c: dialogues with PMI-1's server, and what it refuses. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/pmi/pmi_server.h"
#include "tests/unit/run_case.h"

static const uint32_t layout[] = {2, 1};

static struct pmi_server a_server(uint32_t node, uint32_t nnodes)
{
	const struct pmi_server_round round = {
		.name = "job_7", .nproc = layout[node], .node_rank = node,
		.base_rank = node ? layout[0] : 0, .nnodes = nnodes,
		.world_size = nnodes == 1 ? layout[0] : 3,
	};
	struct pmi_server s;

	ck_assert_int_eq(pmi_server_init(&s, &round, NULL), 0);
	pmi_server_set_layout(&s, layout);
	return s;
}

static int say(struct pmi_server *s, uint32_t rank, const char *text,
	       struct err *e)
{
	return pmi_server_receive(s, rank, SLICE_STR(text), e);
}

/* What the rank has been answered since the last call. */
static void heard(struct pmi_server *s, uint32_t rank, const char *text)
{
	struct buf *out = &s->ranks[rank].out;

	buf_put_u8(out, 0);
	ck_assert_str_eq(out->data, text);
	buf_reset(out);
}

/* One exchange among n servers, which all take part. */
static int meet(struct pmi_server *s, uint32_t n, struct err *e)
{
	struct buf parts[2] = {BUF_INIT(1 << 20), BUF_INIT(1 << 20)};
	struct slice all[2];
	int rc = 0;

	for (uint32_t i = 0; i < n; i++) {
		ck_assert_int_eq(pmi_server_is_ready(&s[i]), 1);
		pmi_server_take(&s[i], &parts[i]);
		ck_assert_int_eq(pmi_server_is_ready(&s[i]), 0);
		all[i] = SLICE(parts[i].data, parts[i].len);
	}
	for (uint32_t i = 0; i < n; i++) {
		int one = pmi_server_finish(&s[i], all, rc ? NULL : e);

		rc = rc ? rc : one;
	}
	buf_release(&parts[0]);
	buf_release(&parts[1]);
	return rc;
}

static const struct dialogue {
	const char *in, *out;
} dialogues[] = {
	{"cmd=init pmi_version=1 pmi_subversion=1\n",
	 "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"},
	{"cmd=init pmi_version=2 pmi_subversion=0\n",
	 "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n"},
	{"cmd=get_maxes\n",
	 "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"},
	{"cmd=get_appnum\n", "cmd=appnum appnum=0\n"},
	{"cmd=get_universe_size\n", "cmd=universe_size size=2\n"},
	{"cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=job_7\n"},
	{"cmd=get kvsname=job_7 key=PMI_process_mapping\n",
	 "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n"},
	{"cmd=get kvsname=job_7 key=none\n",
	 "cmd=get_result rc=-1 msg=key_none_not_found value=unknown\n"},
	{"cmd=put kvsname=job_7 key=a value=two words, a=b\n",
	 "cmd=put_result rc=0 msg=success\n"},
	{"cmd=get kvsname=job_7 key=a\n",
	 "cmd=get_result rc=0 msg=success value=two words, a=b\n"},
	{"cmd=put kvsname=job_7 key=a value=again\n",
	 "cmd=put_result rc=-1 msg=the key a exists\n"},
	{"cmd=put kvsname=job_7 value=no\n",
	 "cmd=put_result rc=-1 msg=a key has 0 bytes, but 1 to 63 are "
	 "allowed\n"},
	{"cmd=put kvsname=job_7 key=empty value=\n",
	 "cmd=put_result rc=0 msg=success\n"},
	{"cmd=get kvsname=job_7 key=empty\n",
	 "cmd=get_result rc=0 msg=success value=\n"},
	{"cmd=barrier_in group=NODE\n",
	 "cmd=barrier_out rc=-1 msg=groups_are_not_supported\n"},
	{"cmd=publish_name service=s port=p\n",
	 "cmd=publish_result rc=-1 msg=not_supported_by_ddprun\n"},
	{"cmd=lookup_name service=s\n",
	 "cmd=lookup_result rc=-1 msg=not_supported_by_ddprun\n"},
	{"mcmd=spawn\nnprocs=2\nexecname=./a\ntotspawns=1\nspawnssofar=1\n"
	 "endcmd\ncmd=get_appnum\n",
	 "cmd=spawn_result rc=-1 msg=not_supported_by_ddprun\n"
	 "cmd=appnum appnum=0\n"},
	{"mcmd=spawn\ntotspawns=2\nspawnssofar=1\nendcmd\n"
	 "mcmd=spawn\ntotspawns=2\nspawnssofar=2\nendcmd\n",
	 "cmd=spawn_result rc=-1 msg=not_supported_by_ddprun\n"},
	{"cmd=finalize\n", "cmd=finalize_ack\n"},
};

START_TEST(each_command_has_its_answer)
{
	struct pmi_server s = a_server(0, 1);

	for (size_t i = 0; i < sizeof(dialogues) / sizeof(*dialogues); i++) {
		ck_assert_int_eq(say(&s, 0, dialogues[i].in, NULL), 0);
		heard(&s, 0, dialogues[i].out);
	}
	pmi_server_release(&s);
}
END_TEST

START_TEST(a_line_may_come_byte_by_byte_and_two_at_once)
{
	struct pmi_server s = a_server(0, 1);
	const char *text = "cmd=get_appnum\ncmd=get_universe_size\n";

	ck_assert_int_eq(say(&s, 0, text, NULL), 0);
	heard(&s, 0, "cmd=appnum appnum=0\ncmd=universe_size size=2\n");
	for (const char *at = text; *at; at++)
		ck_assert_int_eq(
			pmi_server_receive(&s, 0, SLICE(at, 1), NULL), 0);
	heard(&s, 0, "cmd=appnum appnum=0\ncmd=universe_size size=2\n");
	ck_assert_int_eq(say(&s, 0, "cmd=get_appnum", NULL), 0);
	heard(&s, 0, "");
	pmi_server_release(&s);
}
END_TEST

static const char *const refused[][2] = {
	{"cmd=no_such\n", "rank 1 sent 'no_such' on PMI_FD, which is not "
			  "a command of PMI-1"},
	{"cmd without a value\n", "rank 1 sent a line without a command on "
				  "PMI_FD"},
	{"    52cmd=fullinit;", "rank 1 does not speak PMI-1 on PMI_FD: its "
				"first bytes are '    52cmd=fullinit;'"},
	{"\n", "rank 1 sent a line without a command on PMI_FD"},
	{"cmd=barrier_in\ncmd=barrier_in\n",
	 "rank 1 entered a barrier twice on PMI_FD"},
};

START_TEST(an_error_about_a_line_names_the_rank)
{
	struct err e = ERR_INIT;
	struct pmi_server s = a_server(0, 1);

	ck_assert_int_eq(say(&s, 1, refused[_i][0], &e), ERR_PROTOCOL);
	ck_assert_str_eq(e.text, refused[_i][1]);
	pmi_server_release(&s);
}
END_TEST

START_TEST(a_line_of_1_MB_is_an_error_and_takes_no_memory)
{
	struct pmi_server s = a_server(0, 1);
	struct err e = ERR_INIT;
	char *line = malloc(1 << 20);

	ck_assert_ptr_nonnull(line);
	memset(line, 'x', 1 << 20);
	memcpy(line, "cmd=put value=", 14);
	ck_assert_int_eq(pmi_server_receive(&s, 0, SLICE(line, 1 << 20), &e),
			 ERR_PROTOCOL);
	ck_assert_str_eq(e.text, "rank 0 sent a line of more than 8192 bytes "
				 "on PMI_FD");
	ck_assert_uint_le(s.ranks[0].in.cap, 2 * PMI_SERVER_LINE_MAX);
	free(line);
	pmi_server_release(&s);
}
END_TEST

static void enter(struct pmi_server *s, uint32_t rank)
{
	ck_assert_int_eq(say(s, rank, "cmd=init pmi_version=1\n"
				      "cmd=barrier_in\n", NULL), 0);
	buf_reset(&s->ranks[rank].out);
}

START_TEST(a_barrier_ends_when_all_ranks_of_all_nodes_have_come)
{
	struct pmi_server s[2] = {a_server(0, 2), a_server(1, 2)};

	ck_assert_int_eq(say(&s[1], 0, "cmd=put key=a value=of 2\n", NULL), 0);
	enter(&s[1], 0);
	enter(&s[0], 0);
	ck_assert_int_eq(pmi_server_is_ready(&s[0]), 0);
	enter(&s[0], 1);
	ck_assert_int_eq(meet(s, 2, NULL), 0);
	heard(&s[0], 0, "cmd=barrier_out\n");
	heard(&s[0], 1, "cmd=barrier_out\n");
	heard(&s[1], 0, "cmd=barrier_out\n");
	ck_assert_int_eq(say(&s[0], 1, "cmd=get key=a\n", NULL), 0);
	heard(&s[0], 1, "cmd=get_result rc=0 msg=success value=of 2\n");
	ck_assert_int_eq(pmi_server_is_ready(&s[0]), 0);
	pmi_server_release(&s[0]);
	pmi_server_release(&s[1]);
}
END_TEST

START_TEST(a_key_that_two_nodes_put_is_an_error)
{
	struct pmi_server s[2] = {a_server(0, 2), a_server(1, 2)};
	struct err e = ERR_INIT;

	ck_assert_int_eq(say(&s[0], 0, "cmd=put key=a value=0\n", NULL), 0);
	ck_assert_int_eq(say(&s[1], 0, "cmd=put key=a value=1\n", NULL), 0);
	buf_reset(&s[0].ranks[0].out);
	enter(&s[0], 0);
	enter(&s[0], 1);
	enter(&s[1], 0);
	ck_assert_int_eq(meet(s, 2, &e), ERR_ARGUMENT);
	ck_assert_str_eq(e.text, "the key a exists");
	pmi_server_release(&s[0]);
	pmi_server_release(&s[1]);
}
END_TEST

START_TEST(a_rank_that_ended_without_MPI_Init_is_named)
{
	struct pmi_server s = a_server(0, 1);
	struct err e = ERR_INIT;

	pmi_server_ended(&s, 1);
	ck_assert_int_eq(pmi_server_is_ready(&s), 0);
	enter(&s, 0);
	ck_assert_int_eq(meet(&s, 1, &e), ERR_REMOTE);
	ck_assert_ptr_nonnull(strstr(e.text, "rank 1 ended without MPI_Init, "
					     "but rank 0 waits"));
	heard(&s, 0, "");
	pmi_server_release(&s);
}
END_TEST

START_TEST(a_node_whose_ranks_all_ended_is_reported_to_the_others)
{
	struct pmi_server s[2] = {a_server(0, 2), a_server(1, 2)};
	struct err e = ERR_INIT;

	pmi_server_ended(&s[0], 0);
	pmi_server_ended(&s[0], 1);
	enter(&s[1], 0);
	ck_assert_int_eq(meet(s, 2, &e), ERR_REMOTE);
	ck_assert_ptr_nonnull(
		strstr(e.text, "rank 0 (and 1 more) ended without MPI_Init, "
			       "but rank 2 waits"));
	ck_assert_int_eq(pmi_server_is_ready(&s[0]), 0);
	pmi_server_release(&s[0]);
	pmi_server_release(&s[1]);
}
END_TEST

START_TEST(ranks_that_end_after_MPI_Finalize_meet_nobody)
{
	struct pmi_server s = a_server(0, 1);

	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_int_eq(say(&s, i, "cmd=init\ncmd=finalize\n", NULL),
				 0);
		pmi_server_ended(&s, i);
	}
	ck_assert_int_eq(pmi_server_is_ready(&s), 0);
	pmi_server_release(&s);
}
END_TEST

START_TEST(an_abort_has_its_code_and_text_and_no_answer)
{
	struct pmi_server s = a_server(0, 1);

	ck_assert_int_eq(say(&s, 1, "cmd=abort exitcode=7 "
				    "error_msg=out of luck\n", NULL), 0);
	heard(&s, 1, "");
	ck_assert_int_eq(s.attendance.ranks[1].has_aborted, 1);
	ck_assert_int_eq(s.attendance.ranks[1].abort_code, 7);
	ck_assert_str_eq(s.attendance.ranks[1].abort_text, "out of luck");
	ck_assert_int_eq(s.attendance.ranks[0].has_aborted, 0);
	pmi_server_release(&s);
}
END_TEST

START_TEST(the_mapping_waits_for_the_layout)
{
	const struct pmi_server_round round = {
		.name = "j", .nproc = 1, .nnodes = 2, .world_size = 3,
	};
	struct pmi_server s;

	ck_assert_int_eq(pmi_server_init(&s, &round, NULL), 0);
	ck_assert_int_eq(say(&s, 0, "cmd=get key=PMI_process_mapping\n", NULL),
			 0);
	heard(&s, 0, "");
	pmi_server_set_layout(&s, layout);
	heard(&s, 0, "cmd=get_result rc=0 msg=success "
		     "value=(vector,(0,1,2),(1,1,1))\n");
	pmi_server_release(&s);
}
END_TEST

START_TEST(thousands_of_keys_are_found_again)
{
	struct pmi_server s[2] = {a_server(0, 2), a_server(1, 2)};
	char line[80];

	for (int i = 0; i < 5000; i++) {
		snprintf(line, sizeof(line), "cmd=put key=k%d value=%d\n", i,
			 i);
		ck_assert_int_eq(say(&s[1], 0, line, NULL), 0);
		buf_reset(&s[1].ranks[0].out);
	}
	enter(&s[0], 0);
	enter(&s[0], 1);
	enter(&s[1], 0);
	ck_assert_int_eq(meet(s, 2, NULL), 0);
	heard(&s[0], 0, "cmd=barrier_out\n");
	for (int i = 0; i < 5000; i++) {
		char answer[80];

		snprintf(line, sizeof(line), "cmd=get key=k%d\n", i);
		ck_assert_int_eq(say(&s[0], 0, line, NULL), 0);
		snprintf(answer, sizeof(answer),
			 "cmd=get_result rc=0 msg=success value=%d\n", i);
		heard(&s[0], 0, answer);
	}
	pmi_server_release(&s[0]);
	pmi_server_release(&s[1]);
}
END_TEST

START_TEST(a_torn_part_of_another_node_is_an_error)
{
	static const char torn[][6] = {{5}, {0, 0, 0, 0, 9, 1}};

	for (size_t i = 0; i < 2; i++) {
		struct pmi_server s = a_server(0, 2);
		struct buf part = BUF_INIT(1 << 20);
		struct slice all[2] = {{NULL, 0}, SLICE(torn[i], 6)};
		struct err e = ERR_INIT;

		enter(&s, 0);
		enter(&s, 1);
		pmi_server_take(&s, &part);
		all[0] = SLICE(part.data, part.len);
		ck_assert_int_eq(pmi_server_finish(&s, all, &e), ERR_PROTOCOL);
		buf_release(&part);
		pmi_server_release(&s);
	}
}
END_TEST

START_TEST(an_answer_that_cannot_be_made_is_an_error)
{
	struct pmi_server s = a_server(0, 1);
	struct err e = ERR_INIT;

	while (say(&s, 1, "cmd=get_maxes\n", &e) == 0)
		;
	ck_assert_int_eq(e.code, ERR_PROTOCOL);
	ck_assert_str_eq(e.text, "rank 1 does not read the answers on PMI_FD");
	ck_assert_int_eq(pmi_server_check(&s, 0, &e), 0);
	/* as after a failed allocation, when a barrier ends */
	s.ranks[0].out.failed = -ENOMEM;
	ck_assert_int_eq(pmi_server_check(&s, 0, &e), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(e.text, "PMI's answer to rank 0"));
	pmi_server_release(&s);
}
END_TEST

/* The name was seen with MPICH 5.0.2. */
START_TEST(names_the_memory_as_mpich_does)
{
	char path[PMI_SERVER_PATH_MAX];

	pmi_server_memory_path("ddprun_f096fb590f8614fd_0", 0, "shm", path);
	ck_assert_str_eq(path, "/dev/shm/mpich_shm_50c42452_0");
	pmi_server_memory_path("", UINT32_MAX, "vci", path);
	ck_assert_str_eq(path, "/dev/shm/mpich_vci_811c9dc5_4294967295");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("pmi_server");

	tcase_add_test(c, each_command_has_its_answer);
	tcase_add_test(c, a_line_may_come_byte_by_byte_and_two_at_once);
	tcase_add_loop_test(c, an_error_about_a_line_names_the_rank, 0,
			    sizeof(refused) / sizeof(*refused));
	tcase_add_test(c, a_line_of_1_MB_is_an_error_and_takes_no_memory);
	tcase_add_test(c, a_barrier_ends_when_all_ranks_of_all_nodes_have_come);
	tcase_add_test(c, a_key_that_two_nodes_put_is_an_error);
	tcase_add_test(c, a_rank_that_ended_without_MPI_Init_is_named);
	tcase_add_test(c,
		       a_node_whose_ranks_all_ended_is_reported_to_the_others);
	tcase_add_test(c, ranks_that_end_after_MPI_Finalize_meet_nobody);
	tcase_add_test(c, an_abort_has_its_code_and_text_and_no_answer);
	tcase_add_test(c, the_mapping_waits_for_the_layout);
	tcase_add_test(c, thousands_of_keys_are_found_again);
	tcase_add_test(c, a_torn_part_of_another_node_is_an_error);
	tcase_add_test(c, an_answer_that_cannot_be_made_is_an_error);
	tcase_add_test(c, names_the_memory_as_mpich_does);
	return run_case(c);
}
