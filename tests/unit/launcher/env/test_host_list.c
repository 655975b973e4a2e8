/* test_host_list.c: lists of hosts as people, hydra, OpenMPI, DeepSpeed,
 * Horovod, PBS and LSF write them, and the errors for wrong ones. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "launcher/env/host_list.h"
#include "tests/unit/run_case.h"

static char out[4096];

/* The parsed hosts as "name:slots@line ...", or the error's text. */
static const char *told(struct host_list *l, int rc, const struct err *e)
{
	out[0] = 0;
	if (rc < 0) {
		ck_assert_int_eq(e->code, rc);
		ck_assert_int_eq(rc, ERR_USAGE);
		snprintf(out, sizeof(out), "%s", e->text);
	}
	for (uint32_t i = 0; rc >= 0 && i < l->count; i++) {
		size_t len = strlen(out);
		snprintf(out + len, sizeof(out) - len, "%s%s %u/%u",
			 i ? ", " : "", host_list_name(l, i),
			 l->hosts[i].slots, l->hosts[i].line);
	}
	host_list_release(l);
	return out;
}

static const char *words(const char *text)
{
	struct host_list l;
	struct err e = ERR_INIT;

	host_list_init(&l);
	return told(&l, host_list_parse(&l, SLICE_STR(text), &e), &e);
}

static const char *lines(const char *text)
{
	struct host_list l;
	struct err e = ERR_INIT;

	host_list_init(&l);
	return told(&l, host_list_parse_file(&l, SLICE_STR(text), "hosts", &e),
		    &e);
}

static void has(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part) != NULL, "no '%s' in: %s", part, text);
}

START_TEST(words_of_a_command_line)
{
	static const struct {
		const char *text, *hosts;
	} rows[] = {
		{"a", "a 0/1"},
		{"a:4,b:2", "a 4/1, b 2/2"},
		{" a:4 , b ", "a 4/1, b 0/2"},
		{"me@a:65536", "me@a 65536/1"},
		{"n1.example.org,10.0.0.2:8,n_3-ib0", "n1.example.org 0/1, "
		 "10.0.0.2 8/2, n_3-ib0 0/3"},
		{"[fd77::1],[::1]:4,me@[fe80::1%eth0.5]:2",
		 "fd77::1 0/1, ::1 4/2, me@fe80::1%eth0.5 2/3"},
		{"j.doe@corp@a", "j.doe@corp@a 0/1"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_str_eq(words(rows[i].text), rows[i].hosts);
}
END_TEST

START_TEST(wrong_words_are_named)
{
	static const struct {
		const char *text, *error;
	} rows[] = {
		{"", "-H: it names no host; write -H HOST:SLOTS"},
		{" \t", "-H: it names no host"},
		{",", "-H, word 1, \"\": the host's name is missing"},
		{"a,", "-H, word 2, \"\": the host's name is missing"},
		{"a,,b", "-H, word 2, \"\": the host's name is missing"},
		{"a:4,b:2,a:1", "-H, word 3: host a is already in word 1"},
		{"node,x,NODE", "word 3: host NODE is already in word 1"},
		{"me@a,you@a", "word 2: host a is already in word 1"},
		{"a b", "word 1, \"a b\": this is not a host name"},
		{"a:", "a number of slots from 1 to 65536"},
		{"a:0", "a number of slots from 1 to 65536"},
		{"a:65537", "a number of slots from 1 to 65536"},
		{"a:4294967297", "a number of slots from 1 to 65536"},
		{"a:-1", "a number of slots from 1 to 65536"},
		{"a:4x", "a number of slots from 1 to 65536"},
		{":4", "the host's name is missing"},
		{"@a", "there is no user before '@'"},
		{"me@", "the host's name is missing"},
		{"-oProxyCommand=x", "a host name cannot begin with '-'"},
		{"me@-x", "a host name cannot begin with '-'"},
		{"-x@a", "a user name cannot begin with '-'"},
		{"a;b", "this is not a host name"},
		{"$(id)@a", "this is not a user name"},
		{"a\001b\033", "\"a?b?\": this is not a host name"},
		{"h\303\266st", "\"h??st\": this is not a host name"},
		{"fd77::1", "an IPv6 address goes into brackets"},
		{"a:4:mlx5_0", "an IPv6 address goes into brackets"},
		{"[fd77::1", "this '[' has no ']'"},
		{"[fd77::1]4", "only :SLOTS may follow ']'"},
		{"[a]", "an IPv6 address is expected in the brackets"},
		{"[]", "an IPv6 address is expected in the brackets"},
		{"[fe80::1%]", "an IPv6 address is expected in the brackets"},
		{"[fe80::1%a;b]", "an IPv6 address is expected in the"},
		{"[fd77::1]:0", "a number of slots from 1 to 65536"},
		{"n[1-4]", "ranges are not supported here"},
		{"+n0", "OpenMPI's +n and +e"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		has(words(rows[i].text), rows[i].error);
}
END_TEST

START_TEST(hostfiles_of_four_launchers)
{
	ck_assert_str_eq(lines("a\nb:4\n"), "a 0/1, b 4/2");
	ck_assert_str_eq(lines("a slots=4\n\n# all\nb slots=2 # half"),
			 "a 4/1, b 2/4");
	ck_assert_str_eq(lines("  me@a\tslots=4  max_slots=8\n"
			       "b slots = 4 max-slots = 4 #\n"),
			 "me@a 4/1, b 4/2");
	ck_assert_str_eq(lines("b:2#x\n[fd77::1]:3\n[fd77::2] slots=5"),
			 "b 2/1, fd77::1 3/2, fd77::2 5/3");
}
END_TEST

START_TEST(a_hostfile_made_on_windows)
{
	ck_assert_str_eq(lines("\xef\xbb\xbf" "a slots=4\r\n\r\n"
			       "b:2\r\n# c\r\n"),
			 "a 4/1, b 2/3");
}
END_TEST

START_TEST(wrong_lines_are_named)
{
	static const struct {
		const char *text, *error;
	} rows[] = {
		{"", "hosts: it names no host; write one per line"},
		{"\n \n# a\n", "hosts: it names no host"},
		{"\xef\xbb\xbf", "hosts: it names no host"},
		{"a slots=4\nb\n\na slots=2\n",
		 "hosts, line 4: host a is already in line 1, and each host is "
		 "one node; list it once, with all of its slots"},
		{"a slots=0", "line 1, \"slots\": a number from 1 to 65536"},
		{"a slots=", "line 1, \"slots\": a number from 1 to 65536"},
		{"a slots", "line 1, \"slots\": a number from 1 to 65536"},
		{"a slots 4", "line 1, \"slots\": a number from 1 to 65536"},
		{"a slots=four", "line 1, \"slots\": a number from 1"},
		{"a slots==4", "line 1, \"slots\": a number from 1"},
		{"a slots=99999", "line 1, \"slots\": a number from 1"},
		{"a\nb slots=4 slots=4", "line 2, \"slots\": this is given"},
		{"b:4 slots=4", "line 1, \"slots\": this is given twice"},
		{"b slots=4 max_slots=2", "\"b\": slots is more than max"},
		{"b max_slots=2", "line 1, \"b\": max_slots without slots"},
		{"b =4", "line 1, \"=4\": a word is missing before '='"},
		{"b 4", "line 1, \"4\": only slots=N and"},
		{"b b2", "line 1, \"b2\": only slots=N and"},
		{"b binding=user:0", "line 1, \"binding\": only slots=N and"},
		{"+e slots=2", "line 1, \"+e\": OpenMPI's +n and +e"},
		{"a,b", "line 1, \"a,b\": this is not a host name"},
		{"a\n<html>", "line 2, \"<html>\": this is not a host"},
	};
	struct host_list l;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		has(lines(rows[i].text), rows[i].error);
	host_list_init(&l);
	has(told(&l, host_list_parse_file(&l, SLICE("a\0b slots=2", 11),
					  "hosts", &e), &e),
	    "line 1, \"a?b\": this is not a host name");
}
END_TEST

START_TEST(names_have_a_limit)
{
	char text[400], long_word[2000];

	memset(text, 'a', sizeof(text));
	text[2] = '@';
	text[HOST_LIST_NAME_MAX] = 0;
	has(words(text), "aa@aaa");
	text[HOST_LIST_NAME_MAX] = 'a';
	text[HOST_LIST_NAME_MAX + 1] = 0;
	has(words(text), "this name has more than 320 bytes");
	memset(long_word, 'b', sizeof(long_word));
	long_word[sizeof(long_word) - 1] = 0;
	has(words(long_word), "bbb...\": this name has more than 320 bytes");
}
END_TEST

/* count lines of "prefixI" */
static struct buf many(const char *prefix, uint32_t count)
{
	struct buf b;

	buf_init(&b, 256 << 20);
	for (uint32_t i = 0; i < count; i++)
		buf_printf(&b, "%s%u\n", prefix, i);
	ck_assert(!b.failed);
	return b;
}

START_TEST(as_many_hosts_as_a_job_has_nodes)
{
	struct buf b = many("rack7-node", HOST_LIST_MAX);
	struct host_list l;
	struct err e = ERR_INIT;

	host_list_init(&l);
	ck_assert_msg(!host_list_parse_file(&l, SLICE(b.data, b.len), "f", &e),
		      "%s", e.text);
	ck_assert_uint_eq(l.count, HOST_LIST_MAX);
	ck_assert_str_eq(host_list_name(&l, 65535), "rack7-node65535");
	host_list_release(&l);
	buf_printf(&b, "rack7-node7\n");
	has(told(&l, host_list_parse_file(&l, SLICE(b.data, b.len), "f", &e),
		 &e),
	    "f, line 65537: host rack7-node7 is already in line 8");
	buf_release(&b);
}
END_TEST

START_TEST(more_hosts_are_refused)
{
	struct buf b = many("n", 1000000);
	struct host_list l;
	struct err e = ERR_INIT;

	host_list_init(&l);
	has(told(&l, host_list_parse_file(&l, SLICE(b.data, b.len), "f", &e),
		 &e),
	    "f, line 65537, \"n65536\": the list has more than 65536 hosts");
	buf_release(&b);
}
END_TEST

/* ---- files ---- */

static char path[64];

static void write_file(const char *text, size_t len)
{
	strcpy(path, "/tmp/ddp_host_list_XXXXXX");
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
	close(fd);
}

START_TEST(a_file_is_read_whole)
{
	struct buf b = many("host-", 30000); /* more than one read */
	struct host_list l;
	struct err e = ERR_INIT;

	write_file(b.data, b.len);
	host_list_init(&l);
	ck_assert_msg(!host_list_read(&l, path, &e), "%s", e.text);
	ck_assert_uint_eq(l.count, 30000);
	ck_assert_str_eq(host_list_name(&l, 29999), "host-29999");
	host_list_release(&l);
	unlink(path);
	buf_release(&b);
}
END_TEST

START_TEST(a_missing_file_is_named)
{
	struct host_list l;
	struct err e = ERR_INIT;
	char deep[400] = "/nowhere/";

	host_list_init(&l);
	ck_assert_int_eq(host_list_read(&l, "/nowhere/hosts", &e), -2);
	ck_assert_str_eq(e.text, "/nowhere/hosts: No such file or directory");
	ck_assert_int_eq(host_list_read(&l, "/", &e), -21);
	ck_assert_str_eq(e.text, "/: Is a directory");
	memset(deep + 9, 'd', sizeof(deep) - 9);
	strcpy(deep + 380, "/the-end");
	ck_assert_int_lt(host_list_read(&l, deep, &e), 0);
	has(e.text, "d/the-end: ");
	host_list_release(&l);
}
END_TEST

START_TEST(an_oversized_file_is_not_read)
{
	struct host_list l;
	struct err e = ERR_INIT;

	write_file("a\n", 2);
	ck_assert_int_eq(truncate(path, 100 << 20), 0);
	host_list_init(&l);
	has(told(&l, host_list_read(&l, path, &e), &e),
	    ": more than 64 MiB: this is not a list of hosts");
	unlink(path);
	/* nor a file whose size is unknown */
	has(told(&l, host_list_read(&l, "/dev/zero", &e), &e),
	    "/dev/zero: more than 64 MiB: this is not a list of hosts");
}
END_TEST

/* ---- PBS and LSF ---- */

static const char *const *variables; /* name, value, ..., NULL */

static const char *get(const char *name)
{
	for (const char *const *v = variables; *v; v += 2)
		if (strcmp(*v, name) == 0)
			return v[1];
	return NULL;
}

/* As told(), after the list's name; "none" without a scheduler. */
static const char *scheduler(const char *const *v)
{
	struct host_list l;
	struct err e = ERR_INIT;
	int rc;

	variables = v;
	host_list_init(&l);
	rc = host_list_scheduler(&l, get, &e);
	if (rc == 0) {
		ck_assert_uint_eq(l.count, 0);
		return "none";
	}
	return told(&l, rc, &e);
}

#define VARS(...) ((const char *const[]){__VA_ARGS__, NULL, NULL})

START_TEST(no_scheduler)
{
	ck_assert_str_eq(scheduler(VARS("PBS_NP", "4")), "none");
	ck_assert_str_eq(scheduler(VARS("PBS_NODEFILE", "", "LSB_HOSTS", "")),
			 "none");
}
END_TEST

START_TEST(a_node_file_of_pbs)
{
	/* -l nodes=2:ppn=3, and chunks that return to an earlier host */
	const char *text = "n1.site.org\nn1.site.org\nn2.site.org\n"
			   "n2.site.org\nn2.site.org\nn1.site.org\n";
	char error[200];

	write_file(text, strlen(text));
	ck_assert_str_eq(scheduler(VARS("PBS_NODEFILE", path, "LSB_HOSTS",
					"other")),
			 "n1.site.org 3/1, n2.site.org 3/3");
	unlink(path);
	write_file("n1\nn 2\n", 7);
	snprintf(error, sizeof(error), "PBS_NODEFILE=%s, line 2, \"2\": ",
		 path);
	has(scheduler(VARS("PBS_NODEFILE", path)), error);
	unlink(path);
	write_file("\n", 1);
	snprintf(error, sizeof(error), "PBS_NODEFILE=%s: it names no host",
		 path);
	has(scheduler(VARS("PBS_NODEFILE", path)), error);
	unlink(path);
}
END_TEST

START_TEST(a_node_file_that_is_on_another_node)
{
	struct host_list l;
	struct err e = ERR_INIT;

	variables = VARS("PBS_NODEFILE", "/var/spool/aux/7.server");
	host_list_init(&l);
	ck_assert_int_eq(host_list_scheduler(&l, get, &e), -2);
	ck_assert_str_eq(e.text, "PBS_NODEFILE=/var/spool/aux/7.server: No "
				 "such file or directory");
	host_list_release(&l);
}
END_TEST

START_TEST(hosts_of_lsf)
{
	write_file("batch1\na\na\nb\nb\n", 15);
	ck_assert_str_eq(scheduler(VARS("LSB_DJOB_HOSTFILE", path,
					"LSB_MCPU_HOSTS", "x 4")),
			 "batch1 1/1, a 2/2, b 2/4");
	ck_assert_str_eq(scheduler(VARS("LSB_DJOB_HOSTFILE", path,
					"CSM_ALLOCATION_ID", "7")),
			 "a 2/2, b 2/4");
	unlink(path);
	ck_assert_str_eq(scheduler(VARS("LSB_MCPU_HOSTS", "a 4 b 2 ",
					"LSB_HOSTS", "x x")),
			 "a 4/1, b 2/3");
	ck_assert_str_eq(scheduler(VARS("LSB_MCPU_HOSTS", "l 0 a 4 b 2 a 1")),
			 "a 5/3, b 2/5");
	ck_assert_str_eq(scheduler(VARS("LSB_MCPU_HOSTS", "l 1 a 42",
					"CSM_ALLOCATION_ID", "7")),
			 "a 42/3");
	ck_assert_str_eq(scheduler(VARS("LSB_MCPU_HOSTS", "a 1",
					"CSM_ALLOCATION_ID", "7")),
			 "a 1/1");
	ck_assert_str_eq(scheduler(VARS("LSB_HOSTS", "a a b a")),
			 "a 3/1, b 1/3");
}
END_TEST

START_TEST(wrong_words_of_lsf)
{
	has(scheduler(VARS("LSB_MCPU_HOSTS", "a 4 b")),
	    "LSB_MCPU_HOSTS, word 3, \"b\": a number of slots is expected");
	has(scheduler(VARS("LSB_MCPU_HOSTS", "a b 4")),
	    "LSB_MCPU_HOSTS, word 1, \"a\": a number of slots is expected");
	has(scheduler(VARS("LSB_MCPU_HOSTS", "a 0")),
	    "LSB_MCPU_HOSTS: it names no host");
	has(scheduler(VARS("LSB_MCPU_HOSTS", "a 65536 a 1")),
	    "LSB_MCPU_HOSTS, word 3, \"a\": this host has more than 65536");
	has(scheduler(VARS("LSB_HOSTS", "a -b")),
	    "LSB_HOSTS, word 2, \"-b\": a host name cannot begin with '-'");
	has(scheduler(VARS("LSB_HOSTS", "  ")),
	    "LSB_HOSTS: it names no host");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("host_list");

	tcase_add_test(c, words_of_a_command_line);
	tcase_add_test(c, wrong_words_are_named);
	tcase_add_test(c, hostfiles_of_four_launchers);
	tcase_add_test(c, a_hostfile_made_on_windows);
	tcase_add_test(c, wrong_lines_are_named);
	tcase_add_test(c, names_have_a_limit);
	tcase_add_test(c, as_many_hosts_as_a_job_has_nodes);
	tcase_add_test(c, more_hosts_are_refused);
	tcase_add_test(c, a_file_is_read_whole);
	tcase_add_test(c, a_missing_file_is_named);
	tcase_add_test(c, an_oversized_file_is_not_read);
	tcase_add_test(c, no_scheduler);
	tcase_add_test(c, a_node_file_of_pbs);
	tcase_add_test(c, a_node_file_that_is_on_another_node);
	tcase_add_test(c, hosts_of_lsf);
	tcase_add_test(c, wrong_words_of_lsf);
	tcase_set_timeout(c, 60);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
