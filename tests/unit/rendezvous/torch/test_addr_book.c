/* test_addr_book.c: several owners of one address, several addresses of an
 * owner, loopback, IPv4-mapped IPv6; nothing is left of forgotten owners. */
#include <check.h>
#include <stdlib.h>

#include "rendezvous/torch/addr_book.h"
#include "tests/unit/run_case.h"

static struct addr_book book;
static struct addr_owner owners[3];

static struct sock_addr addr(const char *text)
{
	struct sock_addr a;

	ck_assert(sock_addr_number(text, 0, &a));
	return a;
}

static void add(int who, const char *text)
{
	struct sock_addr a = addr(text);

	ck_assert_int_eq(addr_book_add(&book, &owners[who], &a), 0);
}

/* A bit for each owner of the address; checks that none occurs twice. */
static int who_has(const char *text)
{
	struct sock_addr a = addr(text);
	int who = 0, bit;

	sock_addr_set_port(&a, 4711);
	for (const struct addr_claim *c = addr_book_find(&book, &a); c;
	     c = c->next) {
		bit = 1 << (c->owner - owners);
		ck_assert_int_eq(who & bit, 0);
		who |= bit;
	}
	return who;
}

static void forget(int who)
{
	addr_book_forget(&book, &owners[who]);
}

static void is_empty(void)
{
	ck_assert_uint_eq(book.addrs.items, 0);
	addr_book_release(&book);
}

START_TEST(one_address_may_have_several_owners)
{
	add(0, "10.0.0.1");
	add(0, "172.17.0.1");
	add(1, "10.0.0.2");
	add(1, "172.17.0.1");
	add(1, "172.17.0.1");
	add(2, "10.0.0.2");
	ck_assert_int_eq(who_has("10.0.0.1"), 1);
	ck_assert_int_eq(who_has("10.0.0.2"), 6);
	ck_assert_int_eq(who_has("172.17.0.1"), 3);
	ck_assert_int_eq(who_has("10.0.0.3"), 0);
	forget(1);
	ck_assert_int_eq(who_has("10.0.0.2"), 4);
	ck_assert_int_eq(who_has("172.17.0.1"), 1);
	forget(1);
	forget(2);
	forget(0);
	ck_assert_int_eq(who_has("10.0.0.1"), 0);
	is_empty();
}
END_TEST

START_TEST(all_of_loopback_is_one)
{
	add(0, "127.0.0.1");
	ck_assert_int_eq(who_has("127.0.0.11"), 1);
	ck_assert_int_eq(who_has("::1"), 1);
	ck_assert_int_eq(who_has("::ffff:127.0.1.1"), 1);
	ck_assert_int_eq(who_has("128.0.0.1"), 0);
	forget(0);
	is_empty();
}
END_TEST

START_TEST(families_differ_except_for_mapped_addresses)
{
	add(0, "10.0.0.1");
	add(1, "a00:1::");
	add(2, "fd77::1");
	ck_assert_int_eq(who_has("::ffff:10.0.0.1"), 1);
	ck_assert_int_eq(who_has("10.0.0.1"), 1);
	ck_assert_int_eq(who_has("a00:1::"), 2);
	ck_assert_int_eq(who_has("fd77:0::0:1"), 4);
	for (int i = 0; i < 3; i++)
		forget(i);
	is_empty();
}
END_TEST

START_TEST(a_thousand_owners)
{
	struct addr_owner *many = calloc(1000, sizeof(*many));
	struct sock_addr shared = addr("172.17.0.1"), own = addr("10.0.0.0");
	struct sockaddr_in *in = (struct sockaddr_in *)&own.ss;
	const struct addr_claim *c;
	size_t n = 0;

	for (uint32_t i = 0; i < 1000; i++) {
		in->sin_addr.s_addr = htonl(0x0a000000 + i);
		ck_assert_int_eq(addr_book_add(&book, &many[i], &own), 0);
		ck_assert_int_eq(addr_book_add(&book, &many[i], &shared), 0);
	}
	for (c = addr_book_find(&book, &shared); c; c = c->next)
		n++;
	ck_assert_uint_eq(n, 1000);
	c = addr_book_find(&book, &own);
	ck_assert(c && c->owner == &many[999] && !c->next);
	for (uint32_t i = 0; i < 1000; i++)
		addr_book_forget(&book, &many[(i * 7) % 1000]);
	is_empty();
	free(many);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("addr_book");

	tcase_add_test(t, one_address_may_have_several_owners);
	tcase_add_test(t, all_of_loopback_is_one);
	tcase_add_test(t, families_differ_except_for_mapped_addresses);
	tcase_add_test(t, a_thousand_owners);
	return run_case(t);
}
