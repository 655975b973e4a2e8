/* seeds_pmi.c: a job of MPICH on two nodes of two ranks, and the messages
 * between two nodes of Open MPI, in the formats of fuzz_pmi.c and
 * fuzz_pmix.c. */
#include <stdio.h>

#include "launcher/pmi/attendance.h"
#include "launcher/pmix/pmix_frame.h"
#include "launcher/pmix/pmix_job.h"
#include "tests/fuzz/seeds.h"

enum { ENDS = 0x40, IS_PART = 0x80, RANKS = 4 };

static struct buf out = BUF_INIT(SEED_MAX);

static void seeds_segment(uint8_t how, const char *text)
{
	buf_put_u8(&out, how);
	buf_put_u8(&out, (uint8_t)strlen(text));
	buf_put(&out, text, strlen(text));
}

static void seeds_pmi_begin(void)
{
	char line[128];

	for (uint8_t i = 0; i < RANKS; i++) {
		seeds_segment(i, "cmd=init pmi_version=1 pmi_subversion=1\n"
				 "cmd=get_maxes\ncmd=get_appnum\n"
				 "cmd=get_my_kvsname\ncmd=get_universe_size\n");
		snprintf(line, sizeof(line), "cmd=put kvsname=j-0 key=P%u "
			 "value=address of %u\ncmd=barrier_in\n", i, i);
		seeds_segment(i, line);
	}
}

void seeds_pmi(void)
{
	seeds_pmi_begin();
	for (uint8_t i = 0; i < RANKS; i++)
		seeds_segment(i, "cmd=get kvsname=j-0 key=P3\n"
				 "cmd=get kvsname=j-0 "
				 "key=PMI_process_mapping\n"
				 "cmd=finalize\n");
	for (uint8_t i = 0; i < RANKS; i++)
		seeds_segment(i | ENDS, "");
	seeds_write("pmi", "job", &out);
	seeds_pmi_begin();
	seeds_segment(0, "mcmd=spawn\nnprocs=1\nexecname=x\ntotspawns=1\n"
			 "spawnssofar=1\nendcmd\ncmd=lookup_name\n"
			 "cmd=barrier_in group=1\n");
	seeds_segment(1, "cmd=abort exitcode=3 error_msg=no more\n");
	seeds_segment(2 | ENDS, "");
	seeds_segment(3, "cmd=barrier_in\n");
	seeds_write("pmi", "abort", &out);
	seeds_pmi_begin();
	/* nobody ended; one key */
	buf_put(&out, "\x80\x0e\0\0\0\0\1\0\0\0k\1\0\0\0v", 16);
	seeds_write("pmi", "part", &out);
}

/* ---- PMIx ---- */

static void seeds_part(struct buf *part)
{
	buf_put_u8(&out, (uint8_t)part->len);
	buf_put(&out, part->data, part->len);
	buf_release(part);
}

static void seeds_letter(uint8_t what, uint32_t node, uint32_t rank)
{
	struct buf b = BUF_INIT(SEED_MAX);

	buf_put_u8(&b, what);
	buf_put_u32(&b, node);
	buf_put_u32(&b, 7);
	buf_put_u32(&b, rank);
	buf_put_slice(&b, SLICE("data", 4));
	seeds_part(&b);
}

static void seeds_pmix_map(void)
{
	static uint32_t ranks[] = {2, 1, 3};
	struct pmix_job j = {.name = "j", .folder = "/f", .base_rank = 2,
			     .nproc = 1, .world_size = 6, .node_rank = 1,
			     .nnodes = 3, .ranks = ranks, .nodes = "a,b,c"};
	struct buf part = BUF_INIT(SEED_MAX);

	buf_put_u8(&out, 0);
	for (int i = 0; i < 3; i++) {
		const struct pmix_job one = {.nproc = ranks[i], .name = "j"};

		pmix_job_put_node(&part, &one, i ? "a" : "b");
		seeds_part(&part);
	}
	seeds_write("pmix", "learn", &out);
	buf_put_u8(&out, 1);
	pmix_job_put(&out, &j);
	seeds_write("pmix", "begin", &out);
}

void seeds_pmix(void)
{
	char *const env[] = {"PMIX_RANK=3", "PMIX_NAMESPACE=j", NULL};
	const struct pmix_frame f = {HELPER_ABORT, 3, -7, SLICE("why", 3)};
	struct attendance_rank ended = {.state = ATTENDANCE_IN, .has_ended = 1};
	const struct attendance a = {&ended, 4, 1};

	seeds_pmix_map();
	buf_put_u8(&out, 2);
	attendance_put(&a, &out);
	seeds_write("pmix", "fence", &out);
	buf_put_u8(&out, 3);
	pmix_frame_put(&out, &f);
	pmix_frame_put(&out, &f);
	seeds_write("pmix", "frames", &out);
	buf_put_u8(&out, 4);
	for (int i = 0; i < 2; i++)
		pmix_vars_put(&out, env, env, 1);
	seeds_write("pmix", "vars", &out);
	buf_put_u8(&out, 5);
	seeds_letter(1, 0, 2);
	buf_put_u8(&out, 0);
	seeds_letter(1, 2, 3);
	seeds_letter(1, 2, 9);
	seeds_letter(2, 0, 0);
	seeds_write("pmix", "letters", &out);
}
