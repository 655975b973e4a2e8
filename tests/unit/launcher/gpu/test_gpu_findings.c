/* test_gpu_findings.c: which reads and Xids become sentences, and how often. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/gpu/gpu_findings.h"
#include "tests/unit/run_case.h"

static struct gpu_findings all;
static struct gpu_finding last;
static int n; /* findings since `clear` */

static void keep(void *owner, const struct gpu_finding *f)
{
	(void)owner;
	last = *f;
	n++;
}

static void set_up(void)
{
	memset(&all, 0, sizeof(all));
	all.on_finding = keep;
	n = 0;
}

static struct gpu_record healthy(uint32_t index)
{
	struct gpu_record r;

	gpu_record_init(&r, index);
	snprintf(r.uuid, sizeof(r.uuid), "GPU-%u", index);
	strcpy(r.name, "NVIDIA H100");
	r.temperature = 50;
	r.throttle = r.ecc_volatile = r.remap_pending = r.remap_failed = 0;
	r.nvlinks = 18;
	r.nvlinks_inactive = r.nvlink_errors = r.is_lost = 0;
	return r;
}

/* One finding, of that severity and text. */
static void ck_one(enum gpu_severity severity, int is_new, const char *text)
{
	ck_assert_int_eq(n, 1);
	ck_assert_str_eq(last.text, text);
	ck_assert_int_eq(last.severity, severity);
	ck_assert_int_eq(last.is_new, is_new);
	ck_assert(last.action && *last.action);
	n = 0;
}

START_TEST(a_healthy_gpu_has_none)
{
	struct gpu_record r = healthy(1);

	r.throttle = 0x5; /* idle, and a limit of power that was set */
	for (int i = 0; i < 4; i++) {
		gpu_findings_add(&all, &r);
		gpu_findings_compare(&all);
	}
	gpu_record_init(&r, 2); /* reports nothing at all */
	gpu_findings_add(&all, &r);
	gpu_findings_add(&all, &r);
	gpu_findings_compare(&all);
	ck_assert_int_eq(n, 0);
}
END_TEST

START_TEST(an_xid_is_named_once_in_a_round)
{
	struct gpu_record r = healthy(3);

	gpu_findings_add(&all, &r);
	gpu_findings_xid(&all, 3, 79, GPU_NO_INSTANCE);
	ck_assert_str_eq(last.uuid, "GPU-3");
	ck_assert_uint_eq(last.xid, 79);
	ck_one(GPU_BROKEN, 1, "GPU 3: Xid 79, fell off the bus");
	gpu_findings_xid(&all, 3, 79, GPU_NO_INSTANCE);
	ck_assert_int_eq(n, 0);
	/* what follows from it */
	r.is_lost = 1;
	gpu_findings_add(&all, &r);
	ck_assert_int_eq(n, 0);
	gpu_findings_begin(&all);
	gpu_findings_xid(&all, 3, 79, GPU_NO_INSTANCE);
	ck_assert_int_eq(n, 1);
}
END_TEST

START_TEST(the_programs_xids_do_not_call_the_gpu_broken)
{
	static const uint32_t programs[] = {13, 31, 43, 45, 68, 69, 109};

	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		gpu_findings_xid(&all, 0, programs[i], GPU_NO_INSTANCE);
		ck_assert_int_eq(last.severity, GPU_PROGRAM);
	}
	ck_assert_int_eq(n, 7);
	n = 0;
	gpu_findings_xid(&all, 0, 63, GPU_NO_INSTANCE);
	ck_one(GPU_NOTE, 1, "GPU 0: Xid 63, a memory row will be remapped");
	gpu_findings_xid(&all, 0, 4000000, 2);
	ck_one(GPU_NOTE, 1, "GPU 0, instance 2: Xid 4000000, which ddprun "
			    "does not know");
}
END_TEST

START_TEST(a_lost_gpu)
{
	struct gpu_record r = healthy(0);

	gpu_findings_add(&all, &r);
	r.is_lost = 1;
	gpu_findings_add(&all, &r);
	gpu_findings_add(&all, &r);
	ck_one(GPU_BROKEN, 1, "GPU 0: lost: it no longer answers the driver");
	/* before the job began, it explains nothing */
	r = healthy(1);
	r.is_lost = 1;
	gpu_findings_add(&all, &r);
	ck_one(GPU_BROKEN, 0, "GPU 1: lost: it no longer answers the driver");
}
END_TEST

START_TEST(memory_errors_count_from_the_rounds_start)
{
	struct gpu_record r = healthy(0);

	r.ecc_volatile = 2;
	gpu_findings_add(&all, &r);
	ck_one(GPU_NOTE, 0, "GPU 0: has had 2 uncorrected memory errors (ECC) "
			    "since its driver was loaded");
	r.ecc_volatile = 3;
	gpu_findings_add(&all, &r);
	ck_one(GPU_BROKEN, 1, "GPU 0: 1 uncorrected memory error (ECC)");
	r.ecc_volatile = 4;
	gpu_findings_add(&all, &r);
	ck_assert_int_eq(n, 0);
	gpu_findings_begin(&all);
	gpu_findings_add(&all, &r);
	ck_assert_int_eq(n, 0);
	r.ecc_volatile = 6;
	gpu_findings_add(&all, &r);
	ck_one(GPU_BROKEN, 1, "GPU 0: 2 uncorrected memory errors (ECC)");
}
END_TEST

START_TEST(row_remaps)
{
	struct gpu_record r = healthy(0);

	gpu_findings_add(&all, &r);
	r.remap_pending = 1;
	gpu_findings_add(&all, &r);
	ck_one(GPU_NOTE, 0, "GPU 0: a memory row waits to be remapped");
	r.remap_failed = 1;
	gpu_findings_add(&all, &r);
	ck_one(GPU_BROKEN, 1, "GPU 0: a memory row could not be remapped");
	gpu_findings_begin(&all);
	gpu_findings_add(&all, &r);
	ck_assert_int_eq(n, 0);
}
END_TEST

START_TEST(links)
{
	struct gpu_record r = healthy(0), peer = healthy(1);

	gpu_findings_add(&all, &r);
	gpu_findings_add(&all, &peer);
	r.nvlink_errors = 5;
	gpu_findings_add(&all, &r);
	ck_one(GPU_SLOW, 1, "GPU 0: NVLink errors: 5 more");
	r.nvlinks_inactive = 2;
	gpu_findings_add(&all, &r);
	ck_one(GPU_BROKEN, 1, "GPU 0: 2 of 18 NVLinks went down");
	gpu_findings_compare(&all);
	ck_assert_int_eq(n, 0);
}
END_TEST

START_TEST(links_that_were_down_before)
{
	struct gpu_record r = healthy(0), peer = healthy(1);

	r.nvlinks_inactive = 18; /* no bridge: not even one */
	gpu_findings_add(&all, &r);
	gpu_findings_compare(&all);
	ck_assert_int_eq(n, 0);
	peer.nvlinks_inactive = 18;
	gpu_findings_add(&all, &peer);
	gpu_findings_compare(&all);
	ck_assert_int_eq(n, 0);
	peer.nvlinks_inactive = 0;
	gpu_findings_add(&all, &peer);
	r.nvlinks_inactive = 17;
	gpu_findings_add(&all, &r);
	gpu_findings_compare(&all);
	gpu_findings_compare(&all);
	ck_one(GPU_SLOW, 0, "GPU 0: 1 active NVLinks; another GPU of this kind "
			    "has 18");
}
END_TEST

START_TEST(a_throttle_is_named_if_it_lasts)
{
	struct gpu_record r = healthy(0);

	r.throttle = 0x40;
	r.temperature = 92;
	gpu_findings_add(&all, &r);
	r.throttle = 0x80;
	gpu_findings_add(&all, &r);
	ck_assert_int_eq(n, 0);
	gpu_findings_add(&all, &r);
	ck_one(GPU_SLOW, 1, "GPU 0: slowed down: its power brake is on");
	r.throttle = 0x48;
	gpu_findings_add(&all, &r);
	gpu_findings_add(&all, &r);
	ck_one(GPU_SLOW, 1, "GPU 0: slowed down: too hot (92 degrees Celsius)");
	r.throttle = 0x8;
	gpu_findings_add(&all, &r);
	ck_one(GPU_SLOW, 1, "GPU 0: slowed down by its hardware");
	gpu_findings_begin(&all); /* it lasts: not reported again */
	gpu_findings_add(&all, &r);
	ck_assert_int_eq(n, 0);
}
END_TEST

START_TEST(each_known_xid_has_a_meaning_and_an_action)
{
	for (uint32_t i = 1; i < 300; i++) {
		const struct gpu_xid *x = gpu_xid_find(i);

		ck_assert(x->number == i || x->number == 0);
		ck_assert(x->meaning && *x->meaning);
		ck_assert(x->action && *x->action);
	}
	ck_assert_int_eq(gpu_xid_find(48)->kind, GPU_XID_BROKEN);
	ck_assert_str_eq(gpu_severity_name(GPU_BROKEN), "broken");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("gpu_findings");

	tcase_add_checked_fixture(c, set_up, NULL);
	tcase_add_test(c, a_healthy_gpu_has_none);
	tcase_add_test(c, an_xid_is_named_once_in_a_round);
	tcase_add_test(c, the_programs_xids_do_not_call_the_gpu_broken);
	tcase_add_test(c, a_lost_gpu);
	tcase_add_test(c, memory_errors_count_from_the_rounds_start);
	tcase_add_test(c, row_remaps);
	tcase_add_test(c, links);
	tcase_add_test(c, links_that_were_down_before);
	tcase_add_test(c, a_throttle_is_named_if_it_lasts);
	tcase_add_test(c, each_known_xid_has_a_meaning_and_an_action);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
