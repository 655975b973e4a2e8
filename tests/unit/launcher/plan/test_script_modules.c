/* test_script_modules.c: which files beside a script its imports read. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/plan/script_modules.h"
#include "tests/unit/run_case.h"

static char folder[] = "/tmp/test_script_modules.XXXXXX";
static char seen[1024];

static void make(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static void setup(void)
{
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(chdir(folder), 0);
	seen[0] = '\0';
}

static void teardown(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	ck_assert_int_eq(system(command), 0);
}

/* The first word of each file, in order. */
static void note(struct slice text, void *arg)
{
	struct slice line = slice_next_line(&text);
	size_t n = strlen(seen);

	snprintf(seen + n, sizeof(seen) - n, "%.*s ", (int)line.len, line.data);
}

static const char *files_of(const char *script)
{
	seen[0] = '\0';
	script_modules_each(script, note, NULL);
	return seen;
}

START_TEST(imports_beside_the_script_are_followed)
{
	mkdir("pkg", 0700);
	mkdir("pkg/deep", 0700);
	mkdir("space", 0700);
	make("main.py", "#main\nimport os, a as b, a\nfrom pkg.sub import x\n"
		       "from pkg.deep.end import (y,\n"
		       "from space import ns\n    import indented\n"
		       "#import comment\nimport main\nimport missing.a\n");
	make("a.py", "#a\nimport late\n");
	make("late.py", "#late\n");
	make("indented.py", "#indented\n");
	make("comment.py", "#comment\n");
	make("pkg/__init__.py", "#pkg\n");
	make("pkg/sub.py", "#sub\nfrom . import up\nfrom .deep import *\n");
	make("pkg/up.py", "#up\n");
	make("up.py", "#wrong\n");
	make("pkg/deep/__init__.py", "#deep\n");
	make("pkg/deep/end.py", "#end\nfrom ..last import z\n"
				"from ..... import q\nimport late");
	make("pkg/last.py", "#last\n");
	make("space/ns.py", "#ns\n");
	ck_assert_str_eq(files_of("main.py"), "#main #a #pkg #sub #deep #end "
					      "#ns #late #up #last ");
	ck_assert_str_eq(files_of("./a.py"), "#a #late ");
	ck_assert_str_eq(files_of("pkg/up.py"), "#up ");
}
END_TEST

START_TEST(odd_files_and_lines_end)
{
	char name[32], text[64];
	char *line = malloc(400 << 10);

	ck_assert_ptr_nonnull(line);
	memset(line, 'x', 400 << 10);
	line[200 << 10] = '\0';
	memcpy(line, "import ", 7);
	make("long.py", line);
	ck_assert_int_eq(strncmp(files_of("long.py"), "import xxx", 10), 0);
	memset(line, '.', 200 << 10);
	memcpy(line, "from .", 6);
	make("dots.py", line);
	files_of("dots.py");
	free(line);
	ck_assert_str_eq(files_of("missing.py"), "");
	ck_assert_str_eq(files_of("."), "");
	make("empty.py", "");
	ck_assert_str_eq(files_of("empty.py"), "");
	make("slash.py", "#slash\nimport ../slash, /etc/passwd\nfrom \nimport "
			 "\nfrom . import\nfrom .");
	ck_assert_str_eq(files_of("slash.py"), "#slash ");
	for (int i = 0; i < 3 * SCRIPT_MODULES_MAX; i++) {
		snprintf(name, sizeof(name), "m%d.py", i);
		snprintf(text, sizeof(text), ".\nimport m%d\n", i + 1);
		make(name, text);
	}
	ck_assert_uint_eq(strlen(files_of("m0.py")), 2 * SCRIPT_MODULES_MAX);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("script_modules");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, imports_beside_the_script_are_followed);
	tcase_add_test(c, odd_files_and_lines_end);
	return run_case(c);
}
