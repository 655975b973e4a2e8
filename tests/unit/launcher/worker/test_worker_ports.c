/* test_worker_ports.c: the ports of this node's workers. */
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/worker/worker_group.h"
#include "tests/unit/run_case.h"

enum { WORKERS = 8 };

/* 0 if a program can listen on the port, or -errno. */
static int listen_on(uint16_t port, int reuse)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), rc = 0;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse,
				    sizeof(reuse)), 0);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(fd, 1) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

START_TEST(each_worker_can_listen_on_a_port_of_its_own)
{
	struct worker_ports p = {.n = 0};
	struct err e = ERR_INIT;

	ck_assert_int_eq(worker_ports_reserve(&p, WORKERS, &e), 0);
	ck_assert_uint_eq(p.n, WORKERS);
	for (int i = 0; i < WORKERS; i++) {
		ck_assert_uint_ne(p.ports[i], 0);
		for (int k = 0; k < i; k++)
			ck_assert_uint_ne(p.ports[i], p.ports[k]);
		ck_assert_int_eq(listen_on(p.ports[i], 0), -EADDRINUSE);
		ck_assert_int_eq(listen_on(p.ports[i], 1), 0);
	}
	worker_ports_release(&p);
	ck_assert_ptr_null(p.ports);
}
END_TEST

START_TEST(the_next_attempt_has_other_ports)
{
	struct worker_ports p = {.n = 0};
	uint16_t before[WORKERS];
	struct err e = ERR_INIT;

	ck_assert_int_eq(worker_ports_reserve(&p, WORKERS, &e), 0);
	memcpy(before, p.ports, sizeof(before));
	ck_assert_int_eq(worker_ports_reserve(&p, WORKERS, &e), 0);
	for (int i = 0; i < WORKERS; i++) {
		for (int k = 0; k < WORKERS; k++)
			ck_assert_uint_ne(p.ports[i], before[k]);
	}
	worker_ports_release(&p);
}
END_TEST

START_TEST(without_descriptors_the_old_ports_stay)
{
	struct rlimit few = {16, 16};
	struct worker_ports p = {.n = 0};
	struct err e = ERR_INIT;
	uint16_t first;

	ck_assert_int_eq(worker_ports_reserve(&p, 2, &e), 0);
	first = p.ports[0];
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	ck_assert_int_eq(worker_ports_reserve(&p, 64, &e), -EMFILE);
	ck_assert_str_ne(e.text, "");
	ck_assert_uint_eq(p.n, 2);
	ck_assert_uint_eq(p.ports[0], first);
	worker_ports_release(&p);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("worker_ports");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, each_worker_can_listen_on_a_port_of_its_own);
	tcase_add_test(c, the_next_attempt_has_other_ports);
	tcase_add_test(c, without_descriptors_the_old_ports_stay);
	return run_case(c);
}
