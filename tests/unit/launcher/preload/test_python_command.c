/* test_python_command.c: which programs are Python, and with which options. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/preload/python_command.h"
#include "tests/unit/run_case.h"

enum { WORDS_MAX = 32 };

static char line[512];
static char *words[WORDS_MAX];

static char *const *split(const char *text)
{
	int n = 0;

	snprintf(line, sizeof(line), "%s", text);
	for (char *w = strtok(line, " "); w; w = strtok(NULL, " "))
		words[n++] = w;
	words[n] = NULL;
	return words;
}

/* "MODULE or SCRIPT at N: options", or the error's text. */
static const char *found(const char *path, const char *text)
{
	static char out[ERR_TEXT_MAX];
	struct python_command c;
	struct err e = ERR_INIT;
	char *const *argv = split(text);
	int n;

	if (python_command_find(&c, path, argv, &e) < 0)
		return strcpy(out, e.text);
	n = snprintf(out, sizeof(out), "%s %s:", c.is_module ? "-m" : "script",
		     python_command_word(&c, path, argv, c.at));
	for (int i = 0; i < c.noptions; i++)
		n += snprintf(out + n, sizeof(out) - n, " %s", c.options[i]);
	python_command_release(&c);
	return out;
}

START_TEST(options_of_the_interpreter)
{
	static const char python[] = "/usr/bin/python3.11";
	static const struct {
		const char *argv, *want;
	} rows[] = {
		{"p -u a.py -m x", "script a.py: p -u"},
		{"p a.py", "script a.py: p"},
		{"p -u -m a.b c", "-m a.b: p -u"},
		{"p -uBm a.b c", "-m a.b: p -uB"},
		{"p -W error -X dev -Xint a.py",
		 "script a.py: p -W error -X dev -Xint"},
		{"p -BW error a.py", "script a.py: p -BW error"},
		{"p", "the interpreter reads its program from stdin"},
		{"p -u -", "the interpreter reads its program from stdin"},
		{"p -c pass", "the interpreter's '-c' is not for a script or a "
			      "module"},
		{"p -i a.py", "the interpreter's '-i' is not for a script or a "
			      "module"},
		{"p --version", "the interpreter's '--version' is not for a "
				"script or a module"},
		{"p -ma", "the interpreter's '-ma' should be two words (-m "
			  "MODULE)"},
		{"p -m", "the interpreter's '-m' is the last"},
		{"p -W", "the interpreter's '-W' is the last"},
		{"p -u -u -u -u -u -u -u -u -u -u -u -u -u -u -u -u -u a.py",
		 "the interpreter has too many options"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ck_assert_str_eq(found(python, rows[i].argv), rows[i].want);
	ck_assert_str_eq(found("/bin/python3.14t", "p a.py"),
			 "script a.py: p");
	ck_assert_str_eq(found("/bin/pythonic", "p a.py"),
			 "'/bin/pythonic' is not a Python program");
}
END_TEST

static void write_script(const char *path, const char *text)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0755);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (int)strlen(text));
	close(fd);
}

START_TEST(the_first_line_of_a_script)
{
	char dir[] = "/tmp/test_python_command.XXXXXX";
	char script[64], python[64], text[128], want[512];

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(script, sizeof(script), "%s/script", dir);
	snprintf(python, sizeof(python), "%s/python3", dir);
	setenv("PATH", dir, 1);
	write_script(python, "");

	write_script(script, "#!/usr/bin/env python3\n");
	snprintf(want, sizeof(want), "script %s: python3", script);
	ck_assert_str_eq(found(script, "script -u a"), want);
	write_script(script, "#! /usr/bin/env -S python3 -u -B \n");
	snprintf(want, sizeof(want), "script %s: python3 -u -B", script);
	ck_assert_str_eq(found(script, "script"), want);
	snprintf(text, sizeof(text), "#!%s -uB\n", python);
	write_script(script, text);
	snprintf(want, sizeof(want), "script %s: %s -uB", script, python);
	ck_assert_str_eq(found(script, "script"), want);

	snprintf(want, sizeof(want), "'%s' is not a Python program", script);
	write_script(script, "#!/bin/sh\n");
	ck_assert_str_eq(found(script, "script"), want);
	write_script(script, "#!/usr/bin/env python3 -u\n");
	ck_assert_str_eq(found(script, "script"), want);
	write_script(script, "#!/usr/bin/env -S A=1 python3\n");
	ck_assert_str_eq(found(script, "script"), want);
	write_script(script, "#!/usr/bin/env python4\n");
	ck_assert_str_eq(found(script, "script"), want);
	write_script(script, "#!\n");
	ck_assert_str_eq(found(script, "script"), want);
	unlink(script);
	ck_assert_str_eq(found(script, "script"), want);
	unlink(python);
	rmdir(dir);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("python_command");

	tcase_add_test(c, options_of_the_interpreter);
	tcase_add_test(c, the_first_line_of_a_script);
	return run_case(c);
}
