/* command_line.h: parses a command line, written as one text, into a config. */
#ifndef TESTS_UNIT_COMMAND_LINE_H
#define TESTS_UNIT_COMMAND_LINE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/config/config.h"

enum { WORDS_MAX = 32 };

static struct config config;
static struct err error;
static char line[1024];
static char *words[WORDS_MAX];

/* Parses words separated by blanks, after the program's own name. */
static inline int parse(const char *text)
{
	int n = 0;

	snprintf(line, sizeof(line), "ddprun %s", text);
	for (char *w = strtok(line, " "); w && n < WORDS_MAX - 1;
	     w = strtok(NULL, " "))
		words[n++] = w;
	words[n] = NULL;
	error = (struct err)ERR_INIT;
	return config_parse(&config, n, words, &error);
}

static inline void refused(const char *text, const char *part)
{
	ck_assert_msg(parse(text) == ERR_USAGE, "'%s' was taken", text);
	ck_assert_msg(strstr(error.text, part) != NULL, "'%s': %s", text,
		      error.text);
	ck_assert_ptr_null(strchr(error.text, '\n'));
}

/* The endpoint that these options lead to, as "host:port". */
static inline const char *endpoint(const char *text)
{
	static char out[SOCK_TEXT_MAX];

	ck_assert_msg(parse(text) == 0, "'%s': %s", text, error.text);
	return endpoint_text(&config.endpoint, out);
}

static inline void clean_environment(void)
{
	extern char **environ;
	char name[64];

	for (int i = 0; environ[i];) {
		if (strncmp(environ[i], "PET_", 4) == 0 ||
		    strncmp(environ[i], "MASTER_", 7) == 0 ||
		    strncmp(environ[i], "TORCH", 5) == 0 ||
		    strncmp(environ[i], "CUDA_VISIBLE", 12) == 0) {
			snprintf(name, sizeof(name), "%.*s",
				 (int)strcspn(environ[i], "="), environ[i]);
			unsetenv(name);
		} else {
			i++;
		}
	}
}

#endif
