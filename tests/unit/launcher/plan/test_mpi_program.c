/* test_mpi_program.c: damaged ELF files, and files that are not ELF.
 * tests/e2e/mpi_program.bats has linked programs. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/plan/plan.h"
#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"

enum { SELF_MAX = 64 << 20 };

static char *self;
static size_t self_len;

static void read_self(void)
{
	FILE *f = fopen("/proc/self/exe", "r");

	self = malloc(SELF_MAX);
	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(self);
	self_len = fread(self, 1, SELF_MAX, f);
	ck_assert_uint_gt(self_len, 4096);
	fclose(f);
}

/* Looks at a copy of exactly n bytes, so that a sanitizer detects reads beyond
 * the end. */
static int look(const char *bytes, size_t n)
{
	char library[MPI_LIBRARY_MAX];
	char *copy = malloc(n ? n : 1);
	int found;

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, bytes, n);
	found = mpi_program_library_of(SLICE(copy, n), library);
	free(copy);
	ck_assert_int_eq(found, library[0] != '\0');
	return found;
}

START_TEST(a_program_without_mpi_and_each_part_of_it)
{
	read_self();
	ck_assert_int_eq(look(self, self_len), 0);
	for (size_t n = 0; n < 4096; n++)
		ck_assert_int_eq(look(self, n), 0);
	for (size_t n = 4096; n < self_len; n += self_len / 64)
		ck_assert_int_eq(look(self, n), 0);
	free(self);
}
END_TEST

START_TEST(damaged_headers_do_not_crash_the_reader)
{
	static const unsigned char bytes[] = {0, 1, 0x7f, 0x80, 0xff};

	read_self();
	for (size_t at = 0; at < 1024; at++) {
		char old = self[at];

		for (size_t i = 0; i < sizeof(bytes); i++) {
			self[at] = (char)bytes[i];
			look(self, 64 << 10);
		}
		self[at] = old;
	}
	free(self);
}
END_TEST

START_TEST(a_library_is_found_by_its_whole_name)
{
	char *at, library[MPI_LIBRARY_MAX];

	read_self();
	/* this program needs libc.so.6 */
	at = memmem(self, self_len, "\0libc.so.6", 11);
	ck_assert_ptr_nonnull(at);
	memcpy(at + 1, "libmpi.so", 9);
	at[10] = '\0';
	ck_assert_int_eq(mpi_program_library_of(SLICE(self, self_len), library),
			 1);
	ck_assert_str_eq(library, "libmpi.so");
	at[10] = '2';
	ck_assert_int_eq(look(self, self_len), 0);
	free(self);
}
END_TEST

START_TEST(files_that_are_no_programs)
{
	char library[MPI_LIBRARY_MAX];

	ck_assert_int_eq(mpi_program_library("/etc/passwd", library), 0);
	ck_assert_int_eq(mpi_program_library("/nowhere", library), 0);
	ck_assert_int_eq(mpi_program_library("/", library), 0);
	ck_assert_int_eq(mpi_program_library("/dev/null", library), 0);
	ck_assert_str_eq(library, "");
}
END_TEST

START_TEST(the_loader_of_a_program)
{
	char loader[PATH_MAX];

	if (emulator_lacks("the loader in its place"))
		return;
	ck_assert_int_eq(mpi_program_loader("/proc/self/exe", loader), 1);
	ck_assert_int_eq(access(loader, X_OK), 0);
	ck_assert_int_eq(mpi_program_loader(loader, loader), 0);
	ck_assert_int_eq(mpi_program_loader("/etc/passwd", loader), 0);
	ck_assert_int_eq(mpi_program_loader("/nowhere", loader), 0);
	ck_assert_str_eq(loader, "");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("mpi_program");

	tcase_add_test(c, a_program_without_mpi_and_each_part_of_it);
	tcase_add_test(c, damaged_headers_do_not_crash_the_reader);
	tcase_add_test(c, a_library_is_found_by_its_whole_name);
	tcase_add_test(c, files_that_are_no_programs);
	tcase_add_test(c, the_loader_of_a_program);
	return run_case(c);
}
