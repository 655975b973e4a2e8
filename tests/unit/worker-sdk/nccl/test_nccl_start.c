/* test_nccl_start.c: a rank joins and splits a communicator on the stand-ins
 * for CUDA and NCCL while memory runs out; large communicators have more than
 * one id. */
/* replaces: malloc */
/* replaces: calloc */
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/nccl/nccl_tables.h"

enum { ALLOCATIONS_MAX = 60, RANKS = 300 };

static struct err e;

/* ---- memory ---- */

/* name: a variable; file: below the build folder. */
static void use(const char *name, const char *file)
{
	char path[PATH_MAX], value[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	ck_assert_int_gt(n, 0);
	path[n] = '\0';
	snprintf(value, sizeof(value), "%s/standin/%s",
		 dirname(dirname(path)), file);
	setenv(name, value, 1);
}

static int split_alone(struct ddp_comm *up)
{
	struct ddp_comm *group = ddp__comm_new(&test_world);
	int rc = group ? 0 : -ENOMEM;

	if (group) {
		group->size = 1;
		group->ranks = calloc(1, sizeof(int));
		rc = group->ranks ? 0 : -ENOMEM;
	}
	return rc ? rc : ddp__nccl_split(up, group, 0, 0, NULL, &e);
}

START_TEST(joining_and_splitting_without_memory_are_errors)
{
	int is_over = 0;

	use("DDP_CUDART_LIB", "libcudart.so.13");
	use("DDP_NCCL_LIB", "libnccl.so.2");
	for (int k = 0; !is_over; k++) {
		struct ddp_comm *c = test_world_open(0, 1), *up = NULL;
		int rc;

		ck_assert_int_lt(k, ALLOCATIONS_MAX);
		e = (struct err)ERR_INIT;
		allocations_left = k;
		rc = ddp__nccl_init(c, NULL, "nccl", &up, &e);
		if (rc == 1)
			rc = split_alone(up);
		is_over = allocations_left >= 0; /* none has failed */
		allocations_left = -1;
		ck_assert_msg(!rc || rc == -ENOMEM, "%d: %d: %s", k, rc,
			      e.text);
		ck_assert(!is_over || rc == 0);
		test_world_close();
	}
}
END_TEST

/* ---- ids ---- */

/* The value of every rank whose number of this many is the first of a part of
 * all is an id. */
static int ids_given;

static int gather(void *owner, const char *what, struct slice mine,
		  struct slice *values, struct err *err)
{
	static char id[DDP__NCCL_ID];

	for (int i = 0; i < RANKS; i++)
		values[i] = SLICE("", 0);
	for (int i = 0; i < ids_given; i++)
		values[i * RANKS / 3] = SLICE(id, sizeof(id));
	return 0;
}

static const struct ddp__exchange exchange = {NULL, gather};

START_TEST(more_than_128_ranks_have_several_ids)
{
	struct ddp__nccl *n = test_nccl(0, RANKS);

	ids_given = 3;
	ck_assert_int_eq(ddp__nccl_connect(n, &exchange, &e), 0);
	ck_assert_int_eq(scalable, 3);
	/* an older NCCL takes one */
	table_nccl.version = 22200;
	scalable = 0;
	ck_assert_int_eq(ddp__nccl_connect(n, &exchange, &e), 0);
	ck_assert_int_eq(scalable, 0);
	test_nccl_close(n);
}
END_TEST

START_TEST(missing_ids_are_an_error)
{
	struct ddp__nccl *n = test_nccl(0, RANKS);

	ids_given = 2;
	ck_assert_int_eq(ddp__nccl_connect(n, &exchange, &e), ERR_PROTOCOL);
	ck_assert_ptr_nonnull(strstr(e.text, "received 2 of 3 ids"));
	test_nccl_close(n);
}
END_TEST

START_TEST(a_communicator_that_has_ended_ends_once)
{
	struct ddp__nccl *n = test_nccl(0, 1);
	struct ddp_comm *c = n->c;

	err_set(&e, ERR_ABORTED, "for a test");
	c->backend = &ddp__nccl;
	c->state = n;
	n->comm = n;
	ddp__nccl_abort(c, &e);
	ddp__nccl_abort(c, &e);
	ck_assert_int_eq(aborted, 1);
	c->state = NULL;
	test_nccl_close(n);
}
END_TEST

/* NCCL's own end fails: what is left of it stays until the process ends. */
START_TEST(a_communicator_that_does_not_end_is_left)
{
	struct ddp__nccl *n = test_nccl(0, 1);
	struct ddp_comm *c = n->c;

	c->backend = &ddp__nccl;
	c->state = n;
	n->comm = n;
	async_state = DDP__NCCL_SYSTEM;
	ddp__nccl_stop(c);
	ck_assert_ptr_null(c->state);
	ck_assert_int_eq(aborted, 0);
	test_world_close();
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("nccl_start");

	tcase_set_timeout(c, 120);
	tcase_add_test(c, joining_and_splitting_without_memory_are_errors);
	tcase_add_test(c, more_than_128_ranks_have_several_ids);
	tcase_add_test(c, missing_ids_are_an_error);
	tcase_add_test(c, a_communicator_that_has_ended_ends_once);
	tcase_add_test(c, a_communicator_that_does_not_end_is_left);
	return run_case(c) != 0;
}
