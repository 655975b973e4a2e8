/* test_listen_addrs.c: chooses the addresses at which our server listens. */
#include <arpa/inet.h>
#include <check.h>
#include <string.h>

#include "base/local_addrs.h"
#include "launcher/membership/connection_internal.h"
#include "tests/unit/run_case.h"

/* The first IPv4 address through which others reach this host. */
static int find_outside(struct sock_addr *out)
{
	struct sock_addr own[SOCK_LISTEN_MAX];
	int n = local_addrs_external(own, SOCK_LISTEN_MAX);

	for (int i = 0; i < n; i++) {
		if (own[i].ss.ss_family == AF_INET) {
			*out = own[i];
			return 1;
		}
	}
	return 0;
}

/* Slurm's name of a node may resolve to loopback on that node: the route to the
 * second node shows which address the others use. */
START_TEST(a_step_listens_on_the_interface_to_the_second_node)
{
	static struct launch_env env;
	const struct rdzv_options c = {.nports = 1, .env = &env};
	struct sock_addr outside, named, out[SOCK_LISTEN_MAX];
	struct in_addr *at = &((struct sockaddr_in *)&outside.ss)->sin_addr;

	if (!find_outside(&outside)) /* a host without a network */
		return;
	ck_assert_ptr_nonnull(
		inet_ntop(AF_INET, at, env.second_host,
			  sizeof(env.second_host)));
	ck_assert(sock_addr_number("127.0.0.1", 29400, &named));
	ck_assert_int_eq(listen_addrs_choose(&c, &named, out), 1);
	sock_addr_set_port(&outside, 29400);
	ck_assert_mem_eq(&out[0].ss, &outside.ss, sizeof(struct sockaddr_in));
	/* a single node needs no route to another */
	env.second_host[0] = '\0';
	ck_assert_int_ge(listen_addrs_choose(&c, &named, out), 1);
	ck_assert_mem_eq(&out[0].ss, &named.ss, sizeof(struct sockaddr_in));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("listen_addrs");

	tcase_add_test(c, a_step_listens_on_the_interface_to_the_second_node);
	return run_case(c);
}
