/* secret_home.h: a configuration folder for each test, in XDG_CONFIG_HOME, and
 * what the tests of tokens and key files share besides. */
#ifndef TESTS_SECRET_HOME_H
#define TESTS_SECRET_HOME_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"

static char home[] = "/tmp/test_secret.XXXXXX";
static struct err e;

static inline void secret_home_begin(void)
{
	snprintf(home, sizeof(home), "/tmp/test_secret.XXXXXX");
	ck_assert_ptr_ne(mkdtemp(home), NULL);
	setenv("XDG_CONFIG_HOME", home, 1);
	umask(022);
	e = (struct err)ERR_INIT;
}

static inline void secret_home_end(void)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -rf %s", home);
	ck_assert_int_eq(system(command), 0);
}

static inline void write_file(const char *file, const char *text, mode_t mode)
{
	FILE *f = fopen(file, "w");

	ck_assert_ptr_ne(f, NULL);
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(chmod(file, mode), 0);
}

static inline void says(const char *part)
{
	ck_assert_msg(strstr(e.text, part) != NULL, "'%s' has no '%s'", e.text,
		      part);
}

#endif
