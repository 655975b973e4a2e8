/* test_remote_tree.c: a tree of hosts that runs out of memory as it is made. */
/* replaces: calloc malloc realloc remote_link_start */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/ssh/remote_tree.h"
#include "tests/unit/run_case.h"

enum { HOSTS = 5, WIDTH = 2 };

/* How many allocations until one fails; 0: none fails. */
static int left;

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
int __wrap_remote_link_start(struct remote_link *l, uv_loop_t *loop,
			     const struct ssh_options *how, uint32_t timeout_ms,
			     uint32_t silent_ms, struct err *e);

static int fails(void)
{
	return left > 0 && --left == 0;
}

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t each)
{
	return fails() ? NULL : __real_calloc(n, each);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fails() ? NULL : __real_realloc(p, n);
}

/* No ssh is started. */
int __wrap_remote_link_start(struct remote_link *l, uv_loop_t *loop,
			     const struct ssh_options *how, uint32_t timeout_ms,
			     uint32_t silent_ms, struct err *e)
{
	(void)l, (void)loop, (void)how, (void)timeout_ms, (void)silent_ms;
	left = 0;
	return err_set(e, -EAGAIN, "no ssh in this test");
}

static unsigned lost, gone;

static void on_frame(struct remote_tree *t, const struct remote_frame *f)
{
	(void)t;
	lost += f->type == REMOTE_LOST;
}

static void on_gone(struct remote_tree *t)
{
	(void)t;
	gone++;
}

static const struct remote_tree_events events = {on_frame, on_gone};

/* Starts a tree, in which allocation number `at` fails, and ends it. */
static int start_and_end(const struct remote_branch *b, int at, struct err *e)
{
	struct remote_tree t;
	uv_loop_t loop;
	int rc;

	lost = gone = 0;
	remote_tree_init(&t, &events, NULL);
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	left = at;
	rc = remote_tree_start(&t, &loop, b, e);
	left = 0;
	remote_tree_pause(&t, 1);
	ck_assert(!remote_tree_has(&t, HOSTS));
	ck_assert(!remote_tree_reaped(&t, 1, 0));
	remote_tree_release(&t, 0);
	ck_assert_uint_eq(gone, 1);
	remote_tree_free(&t);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	return rc;
}

START_TEST(a_tree_without_memory_is_an_error_and_can_be_released)
{
	struct buf hosts = BUF_INIT(4096);
	struct remote_branch b = {.width = WIDTH, .ssh = SLICE("ssh", 3)};
	int at, rc = -ENOMEM;

	for (int i = 0; i < HOSTS; i++) {
		const char name[] = {(char)('0' + i), ' ', (char)('a' + i), 0};

		remote_list_add(&hosts, name);
	}
	b.hosts.texts = SLICE(hosts.data, hosts.len);
	for (at = 1; rc < 0; at++) {
		struct err e = ERR_INIT;

		rc = start_and_end(&b, at, &e);
		if (rc < 0) {
			ck_assert_int_eq(rc, -ENOMEM);
			ck_assert_ptr_nonnull(
				strstr(e.text, "cannot use the list of hosts"));
			ck_assert_uint_eq(lost, 0);
		}
	}
	/* the texts and five tables */
	ck_assert_int_gt(at, 6);
	/* each host that could not be reached is reported */
	ck_assert_uint_eq(lost, HOSTS);
	buf_release(&hosts);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("remote_tree");

	tcase_set_timeout(t, 20);
	tcase_add_test(t,
		       a_tree_without_memory_is_an_error_and_can_be_released);
	return run_case(t) != 0;
}
