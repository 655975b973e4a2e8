/* test_journal.c: a journal is read as it was written, in whole batches only:
 * cut at every byte, with any byte wrong, on a full disk, killed while it
 * compacts. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/journal/journal.h"
#include "rendezvous/journal/journal_etcd.h"
#include "rendezvous/journal/journal_file.h"
#include "tests/unit/run_case.h"

enum { PAGE = 4096, SEEN_MAX = 4096 };

/* The batches of a replay, one line each. */
static char seen[SEEN_MAX];

static int see(void *arg, struct slice batch)
{
	size_t n = strlen(seen);

	snprintf(seen + n, sizeof(seen) - n, "%.*s|", SLICE_FMT(batch));
	return 0;
}

static int image(const char *bytes, size_t n)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pwrite(fd, bytes, n, 0), (ssize_t)n);
	return fd;
}

static struct journal_file *open_at(int fd)
{
	struct journal_file *f;
	struct err e = ERR_INIT;

	ck_assert_msg(journal_file_open(&f, NULL, fd, &e) == 0, "%s", e.text);
	return f;
}

static int replay(struct journal_file *f)
{
	struct err e = ERR_INIT;

	seen[0] = '\0';
	return journal_file_replay(f, see, NULL, &e);
}

static void append(struct journal_file *f, const char *text)
{
	struct err e = ERR_INIT;

	ck_assert_msg(journal_file_append(f, SLICE_STR(text), &e) == 0, "%s",
		      e.text);
}

static void snapshot(struct journal_file *f, const char *text)
{
	struct err e = ERR_INIT;

	ck_assert_msg(journal_file_snapshot(f, &SLICE_STR(text), 1, &e)
		      == 0, "%s", e.text);
}

/* The file's bytes; fd stays open. */
static char *bytes_of(int fd, size_t *n)
{
	struct stat st;
	char *bytes;

	ck_assert_int_eq(fstat(fd, &st), 0);
	*n = (size_t)st.st_size;
	bytes = malloc(*n);
	ck_assert_int_eq(pread(fd, bytes, *n, 0), (ssize_t)*n);
	return bytes;
}

static void see_image(const char *bytes, size_t n)
{
	struct journal_file *f = open_at(image(bytes, n));

	replay(f);
	journal_file_close(f);
}

/* Three batches in a memory file. */
static int three(void)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct journal_file *f = open_at(dup(fd));

	ck_assert_int_eq(replay(f), 0);
	append(f, "one");
	append(f, "and two");
	append(f, "and then three");
	journal_file_close(f);
	return fd;
}

START_TEST(appended_records_are_read_and_continued)
{
	int fd = three();
	struct journal_file *f = open_at(dup(fd));
	struct err e = ERR_INIT;

	ck_assert_int_eq(replay(f), 3);
	ck_assert_str_eq(seen, "one|and two|and then three|");
	/* only a snapshot may follow a replay */
	ck_assert_int_lt(journal_file_append(f, SLICE_STR("x"), &e), 0);
	snapshot(f, "all of it");
	append(f, "four");
	journal_file_close(f);
	f = open_at(fd);
	replay(f);
	ck_assert_str_eq(seen, "all of it|four|");
	journal_file_close(f);
}
END_TEST

/* The size of the journal, up to the end of the last batch. */
static size_t used(const char *bytes, size_t n)
{
	while (n && !bytes[n - 1])
		n--;
	return n;
}

static int is_prefix(const char *whole)
{
	return strncmp(whole, seen, strlen(seen)) == 0;
}

START_TEST(a_file_cut_at_any_byte_is_read_up_to_the_cut)
{
	size_t n, cut, end;
	int fd = three(), most = 0;
	char *bytes = bytes_of(fd, &n);

	close(fd);
	end = used(bytes, n);
	ck_assert_int_gt((int)end, PAGE + 3 * JOURNAL_HEAD);
	for (cut = PAGE; cut <= end; cut++) {
		int batches = 0;

		see_image(bytes, cut);
		ck_assert_msg(is_prefix("one|and two|and then three|"),
			      "cut at %zu: %s", cut, seen);
		for (const char *p = seen; *p; p++)
			batches += *p == '|';
		ck_assert_int_ge(batches, most); /* a longer journal never has
						  * fewer */
		most = batches;
	}
	ck_assert_int_eq(most, 3);
	free(bytes);
}
END_TEST

START_TEST(a_wrong_byte_ends_the_journal_there)
{
	size_t n, i, end;
	int fd = three();
	char *bytes = bytes_of(fd, &n);

	close(fd);
	end = used(bytes, n);
	for (i = PAGE; i < end; i++) {
		for (int bit = 0; bit < 8; bit++) {
			bytes[i] ^= (char)(1 << bit);
			see_image(bytes, n);
			ck_assert_msg(is_prefix("one|and two|and then three|"),
				      "byte %zu: %s", i, seen);
			ck_assert_str_ne(seen, "one|and two|and then three|");
			bytes[i] ^= (char)(1 << bit);
		}
	}
	free(bytes);
}
END_TEST

/* Old bytes at the place of the next batch are not read, even if they fit
 * exactly. */
START_TEST(bytes_after_the_end_are_not_read)
{
	size_t n;
	int fd = three();
	char *bytes = bytes_of(fd, &n);
	struct journal_file *f;

	/* the second one's body */
	bytes[PAGE + JOURNAL_HEAD + 3 + JOURNAL_HEAD] ^= 1;
	ck_assert_int_eq(pwrite(fd, bytes, n, 0), (ssize_t)n);
	free(bytes);
	f = open_at(dup(fd));
	ck_assert_int_eq(replay(f), 1);
	snapshot(f, "uno");
	append(f, "and due");
	journal_file_close(f);
	f = open_at(fd);
	replay(f);
	ck_assert_str_eq(seen, "uno|and due|");
	journal_file_close(f);
}
END_TEST

/* A kill stops compaction between two stores: body, head, then the header's
 * word with the start. Each further byte is one such kill. */
START_TEST(a_kill_while_it_compacts_leaves_the_old_or_the_new)
{
	size_t n, m, i, steps = 0;
	int fd = three(), is_new = 0;
	char *before = bytes_of(fd, &n), *after, *mixed;
	struct journal_file *f = open_at(dup(fd));

	replay(f);
	snapshot(f, "the sum of the three");
	journal_file_close(f);
	after = bytes_of(fd, &m);
	close(fd);
	ck_assert_uint_eq(n, m);
	mixed = malloc(n);
	memcpy(mixed, before, n);
	/* backwards, so that the header's word comes last and each body before
	 * its head, in the order in which they are written */
	for (i = n; i-- > 0;) {
		if (mixed[i] == after[i] || (i >= 16 && i < PAGE))
			continue;
		if (i < PAGE) /* an aligned word is stored atomically */
			memcpy(mixed + 8, after + 8, 8);
		mixed[i] = after[i];
		steps++;
		see_image(mixed, n);
		is_new |= strcmp(seen, "the sum of the three|") == 0;
		if (strcmp(seen, "the sum of the three|"))
			ck_assert_str_eq(seen, "one|and two|and then three|");
	}
	ck_assert_int_gt((int)steps, 25);
	ck_assert(is_new);
	free(before);
	free(after);
	free(mixed);
}
END_TEST

START_TEST(a_compacted_file_does_not_grow)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct journal_file *f = open_at(dup(fd));
	char *batch = malloc(64 << 10);
	struct err e = ERR_INIT;
	struct stat st;
	int snapshots = 0;

	memset(batch, 'x', 64 << 10);
	replay(f);
	for (int i = 0; i < 4000; i++) { /* 250 MiB */
		ck_assert_int_eq(journal_file_append(
			f, SLICE(batch, 64 << 10), &e), 0);
		if (journal_file_is_long(f)) {
			ck_assert_int_eq(journal_file_snapshot(
				f, &SLICE(batch, 64 << 10), 1, &e), 0);
			snapshots++;
		}
	}
	ck_assert_int_gt(snapshots, 10);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_lt((int)(st.st_size >> 20), 20);
	free(batch);
	journal_file_close(f);
	close(fd);
}
END_TEST

START_TEST(an_unreadable_journal_is_not_continued_by_its_old_batches)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct journal_file *f = open_at(dup(fd));
	char first;

	ck_assert_int_eq(replay(f), 0);
	append(f, "one");
	append(f, "two");
	journal_file_close(f);
	ck_assert_int_eq(pread(fd, &first, 1, PAGE), 1);
	first ^= 1;
	ck_assert_int_eq(pwrite(fd, &first, 1, PAGE), 1);
	f = open_at(dup(fd));
	ck_assert_int_eq(replay(f), 0);
	append(f, "new"); /* ends where "two" begins */
	journal_file_close(f);
	f = open_at(fd);
	ck_assert_int_eq(replay(f), 1);
	ck_assert_str_eq(seen, "new|");
	journal_file_close(f);
}
END_TEST

START_TEST(a_second_server_is_refused_and_learns_the_first)
{
	char path[] = "/tmp/journal.XXXXXX", pid[32];
	struct journal_file *f, *g;
	struct err e = ERR_INIT;

	close(mkstemp(path));
	ck_assert_int_eq(journal_file_open(&f, path, -1, &e), 0);
	ck_assert_int_eq(journal_file_open(&g, path, -1, &e), ERR_REFUSED);
	snprintf(pid, sizeof(pid), "pid %d", (int)getpid());
	ck_assert_ptr_nonnull(strstr(e.text, pid));
	ck_assert_ptr_nonnull(strstr(e.text, path));
	journal_file_close(f);
	ck_assert_int_eq(journal_file_open(&g, path, -1, &e), 0);
	journal_file_close(g);
	unlink(path);
}
END_TEST

START_TEST(a_file_of_something_else_is_left_alone)
{
	char path[] = "/tmp/journal.XXXXXX", text[64] = "";
	struct journal_file *f;
	struct err e = ERR_INIT;
	int fd = mkstemp(path);

	ck_assert_int_eq(write(fd, "my thesis", 9), 9);
	ck_assert_int_eq(journal_file_open(&f, path, -1, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "not a journal"));
	ck_assert_int_eq(ftruncate(fd, 2 * PAGE), 0);
	ck_assert_int_eq(journal_file_open(&f, path, -1, &e), ERR_USAGE);
	ck_assert_int_eq(pread(fd, text, 9, 0), 9);
	ck_assert_str_eq(text, "my thesis");
	ck_assert_int_eq(pwrite(fd, "DDPJRNL0", 8, 0), 8);
	ck_assert_int_eq(journal_file_open(&f, path, -1, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "version"));
	close(fd);
	unlink(path);
}
END_TEST

/* In a child, for the mount namespace; its exit code is the failed line. */
#define MUST(x) do { if (!(x)) _exit(__LINE__ & 127 ? __LINE__ & 127 : 1); \
	} while (0)

static void fill_a_disk(void)
{
	struct journal_file *f;
	struct err e = ERR_INIT;
	char batch[16 << 10];
	int i, rc = 0;

	memset(batch, 'x', sizeof(batch));
	MUST(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	MUST(mount("none", "/mnt", "tmpfs", 0, "size=256k") == 0);
	MUST(journal_file_open(&f, "/mnt/j", -1, &e) == 0);
	MUST(journal_file_replay(f, see, NULL, &e) == 0);
	for (i = 0; rc == 0 && i < 100; i++)
		rc = journal_file_append(f, SLICE(batch, sizeof(batch)), &e);
	MUST(rc == -ENOSPC && i > 2 && i < 20);
	MUST(strstr(e.text, "/mnt/j") && strstr(e.text, "No space"));
	/* after a missing batch nothing may follow, not even a small one */
	MUST(journal_file_append(f, SLICE_STR("x"), &e) < 0);
	/* there is no space for a snapshot after it */
	MUST(journal_file_snapshot(f, &SLICE(batch, sizeof(batch)), 1, &e) ==
	     -ENOSPC);
	MUST(!journal_file_is_lost(f));
	journal_file_close(f);
	MUST(journal_file_open(&f, "/mnt/j", -1, &e) == 0);
	MUST(journal_file_replay(f, see, NULL, &e) == i - 1);
	/* a lost journal is empty, and has space */
	journal_file_lose(f);
	journal_file_close(f);
	MUST(journal_file_open(&f, "/mnt/j", -1, &e) == 0);
	MUST(journal_file_replay(f, see, NULL, &e) == 0);
	MUST(journal_file_append(f, SLICE_STR("again"), &e) == 0);
	journal_file_close(f);
	MUST(journal_file_open(&f, "/mnt/j", -1, &e) == 0);
	seen[0] = '\0';
	MUST(journal_file_replay(f, see, NULL, &e) == 1);
	MUST(strcmp(seen, "again|") == 0);
	journal_file_close(f);
	_exit(0);
}

static void limit_files(rlim_t bytes)
{
	struct rlimit r;

	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &r), 0);
	r.rlim_cur = bytes < r.rlim_max ? bytes : r.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &r), 0);
}

START_TEST(a_first_batch_that_fails_is_not_followed_by_a_second)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct journal_file *f = open_at(dup(fd));
	struct err e = ERR_INIT;
	char *batch = calloc(1, 100000);

	replay(f);
	limit_files(70000);
	ck_assert_int_eq(journal_file_append(f, SLICE(batch, 100000), &e),
			 -EFBIG);
	ck_assert_int_lt(journal_file_append(f, SLICE_STR("second"), &e), 0);
	journal_file_close(f);
	f = open_at(fd);
	ck_assert_int_eq(replay(f), 0);
	journal_file_close(f);
	free(batch);
}
END_TEST

START_TEST(a_snapshot_of_several_batches_is_read_as_they_were)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct journal_file *f = open_at(dup(fd));
	struct err e = ERR_INIT;
	const struct slice parts[] = {SLICE_STR("a"), SLICE_STR("b"),
				      SLICE_STR("c")};

	replay(f);
	append(f, "old");
	ck_assert_int_eq(journal_file_snapshot(f, parts, 3, &e), 0);
	append(f, "new");
	journal_file_close(f);
	f = open_at(fd);
	ck_assert_int_eq(replay(f), 4);
	ck_assert_str_eq(seen, "a|b|c|new|");
	journal_file_close(f);
}
END_TEST

START_TEST(a_full_disk_is_an_error_and_keeps_no_half)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0)
			_exit(200);
		fill_a_disk();
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 200) {
		puts("left out: a full disk needs root for its mount");
		return;
	}
	ck_assert_msg(status == 0, "failed at line %d (mod 128)",
		      WEXITSTATUS(status));
}
END_TEST

START_TEST(records_survive_their_encoding)
{
	struct buf batch = BUF_INIT(1 << 16);
	struct journal_record r;
	struct reader in;
	size_t mark = journal_begin(&batch, 7), n;

	buf_put_slice(&batch, SLICE_STR("seven"));
	journal_end(&batch, mark);
	mark = journal_begin(&batch, 8);
	journal_end(&batch, mark);
	reader_init(&in, SLICE(batch.data, batch.len));
	ck_assert_int_eq(journal_next(&in, &r), 1);
	ck_assert_int_eq(r.type, 7);
	ck_assert_uint_eq(r.body.len, 9);
	ck_assert_int_eq(journal_next(&in, &r), 1);
	ck_assert_int_eq(r.type, 8);
	ck_assert_uint_eq(r.body.len, 0);
	ck_assert_int_eq(journal_next(&in, &r), 0);
	ck_assert(!in.bad);
	for (n = 1; n < batch.len - 5; n++) {
		reader_init(&in, SLICE(batch.data, n));
		while (journal_next(&in, &r))
			;
		ck_assert_msg(in.bad || n == 14, "%zu", n);
	}
	buf_release(&batch);
}
END_TEST

/* As a server writes it: one batch while another is kept, and a snapshot when
 * it is due. The store's limit in etcd is 128 MiB, and a record is larger than
 * its value. */
START_TEST(a_journal_in_etcd_never_exceeds_its_readers_limit)
{
	static const uint64_t batches[] = {1 << 10, 1 << 20, 8 << 20, 24 << 20,
					   JOURNAL_ETCD_BATCH_MAX};
	const uint64_t stores[] = {1 << 10, 5 << 20, 88 << 20, 160 << 20};
	uint64_t snapshot = stores[_i], since = 0, most = 0;
	int taken = 0;

	for (unsigned i = 0; i < 20000; i++) {
		if (journal_etcd_is_too_long(snapshot, since)) {
			snapshot = stores[_i];
			since = 0;
			taken++;
		}
		since += batches[i % (i % 7 ? 2 : 5)];
		most = snapshot + since > most ? snapshot + since : most;
	}
	ck_assert_uint_lt(most, JOURNAL_ETCD_READ_MAX);
	ck_assert_int_gt(taken, 0);
	/* a small journal is not compacted */
	ck_assert_int_eq(journal_etcd_is_too_long(1 << 10, 4 << 20), 0);
	ck_assert_int_eq(journal_etcd_is_too_long(10 << 20, 10 << 20), 0);
	ck_assert_int_eq(journal_etcd_is_too_long(10 << 20, (10 << 20) + 1), 1);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("journal");

	tcase_add_test(c, appended_records_are_read_and_continued);
	tcase_add_test(c, a_file_cut_at_any_byte_is_read_up_to_the_cut);
	tcase_add_test(c, a_wrong_byte_ends_the_journal_there);
	tcase_add_test(c, bytes_after_the_end_are_not_read);
	tcase_add_test(c, a_kill_while_it_compacts_leaves_the_old_or_the_new);
	tcase_add_test(c, a_compacted_file_does_not_grow);
	tcase_add_test(
		c, an_unreadable_journal_is_not_continued_by_its_old_batches);
	tcase_add_test(c, a_second_server_is_refused_and_learns_the_first);
	tcase_add_test(c, a_file_of_something_else_is_left_alone);
	tcase_add_test(c, a_first_batch_that_fails_is_not_followed_by_a_second);
	tcase_add_test(c, a_snapshot_of_several_batches_is_read_as_they_were);
	tcase_add_test(c, a_full_disk_is_an_error_and_keeps_no_half);
	tcase_add_test(c, records_survive_their_encoding);
	tcase_add_loop_test(c,
		a_journal_in_etcd_never_exceeds_its_readers_limit, 0, 4);
	return run_case(c);
}
