/* test_web_access.c: which requests the page's server takes. */
#include <check.h>
#include <stdio.h>

#include "rendezvous/web/web_internal.h"
#include "tests/unit/run_case.h"

static const struct web_access access_of_page = {
	.token = "00112233445566778899aabbccddeeff",
	.cookie = "ffeeddccbbaa99887766554433221100",
	.cookie_name = "ddprun-8080",
	.host = "gpu.site",
	.own_name = "node7",
};

static const struct {
	const char *host;
	int is_ours;
} hosts[] = {
	{"127.0.0.1:8080", 1}, {"127.0.0.1", 1}, {"[::1]:8080", 1},
	{"10.1.2.3:80", 1}, {"localhost:8080", 1}, {"LOCALHOST", 1},
	{"run.localhost:1", 1}, {"gpu.site:8080", 1}, {"GPU.site", 1},
	{"node7:9", 1}, {"node7", 1},
	{"", 0}, {NULL, 0}, {"evil.example:8080", 0}, {"notlocalhost", 0},
	{"localhost.evil.example", 0}, {"gpu.site.evil.example", 0},
	{"127.0.0.1.evil.example", 0}, {"node70", 0}, {"node7:99999", 0},
	{"[::1", 0}, {"a b", 0},
};

START_TEST(a_host_is_a_number_localhost_or_our_name)
{
	ck_assert_int_eq(web_access_is_host(&access_of_page, hosts[_i].host),
			 hosts[_i].is_ours);
}
END_TEST

START_TEST(a_token_is_compared_as_a_whole)
{
	ck_assert_int_eq(web_access_is_token("abc", "abc"), 1);
	ck_assert_int_eq(web_access_is_token("abd", "abc"), 0);
	ck_assert_int_eq(web_access_is_token("ab", "abc"), 0);
	ck_assert_int_eq(web_access_is_token("abcd", "abc"), 0);
	ck_assert_int_eq(web_access_is_token("", "abc"), 0);
	ck_assert_int_eq(web_access_is_token(NULL, "abc"), 0);
}
END_TEST

static const struct {
	const char *cookies, *authorization;
	int is_granted;
} proofs[] = {
	{"ddprun-8080=ffeeddccbbaa99887766554433221100", NULL, 1},
	{"a=b; ddprun-8080=ffeeddccbbaa99887766554433221100;c", NULL, 1},
	/* another server's cookie of the same name comes first */
	{"ddprun-8080=0feeddccbbaa99887766554433221100; "
	 "ddprun-8080=ffeeddccbbaa99887766554433221100", NULL, 1},
	{NULL, "Bearer 00112233445566778899aabbccddeeff", 1},
	{"x", "bearer 00112233445566778899aabbccddeeff", 1},
	{NULL, NULL, 0},
	{"", "", 0},
	{"ddprun-8080=", NULL, 0},
	{"ddprun-8080", NULL, 0},
	{"; ;;", NULL, 0},
	/* the token is no cookie, and the cookie no token */
	{"ddprun-8080=00112233445566778899aabbccddeeff", NULL, 0},
	{NULL, "Bearer ffeeddccbbaa99887766554433221100", 0},
	{"ddprun-808=ffeeddccbbaa99887766554433221100", NULL, 0},
	{"xddprun-8080=ffeeddccbbaa99887766554433221100", NULL, 0},
	{"ddprun-8080=ffeeddccbbaa998877665544332211000", NULL, 0},
	{NULL, "Bearer", 0},
	{NULL, "Basic 00112233445566778899aabbccddeeff", 0},
};

START_TEST(a_cookie_or_a_bearer_token_grants_access)
{
	ck_assert_int_eq(web_access_is_granted(&access_of_page,
					       proofs[_i].cookies,
					       proofs[_i].authorization),
			 proofs[_i].is_granted);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("web_access");

	tcase_add_loop_test(c, a_host_is_a_number_localhost_or_our_name, 0,
			    sizeof(hosts) / sizeof(*hosts));
	tcase_add_test(c, a_token_is_compared_as_a_whole);
	tcase_add_loop_test(c, a_cookie_or_a_bearer_token_grants_access, 0,
			    sizeof(proofs) / sizeof(*proofs));
	return run_case(c);
}
