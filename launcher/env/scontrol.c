/* scontrol.c: runs scontrol and parses a node's address. */
#include "launcher/env/scontrol.h"

#include <stdio.h>
#include <string.h>

#include "launcher/env/tool.h"

enum { WORDS_MAX = 4, ANSWER_MS = 10000, ANSWER_MAX = 4096 };

int scontrol_run(const char *const *arguments, int ms, char *out, size_t size,
		 struct err *e)
{
	const char *words[WORDS_MAX + 2] = {"scontrol"};

	for (int i = 0; i < WORDS_MAX && arguments[i]; i++)
		words[i + 1] = arguments[i];
	return tool_run(words, ms, out, size, e);
}

/* ---- where a node is ---- */

int scontrol_parse_address(const char *text, const char *node, char *out)
{
	char value[SOCK_TEXT_MAX];
	size_t n = strlen(node), len;
	struct endpoint at;

	for (; *text; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		if (len <= n || strncmp(text, node, n) != 0 || text[n] != ':')
			continue;
		snprintf(value, sizeof(value), "%.*s", (int)(len - n - 1),
			 text + n + 1);
		if (endpoint_parse(&at, value + strspn(value, " "), 0,
				   NULL) < 0)
			return 0;
		snprintf(out, SOCK_HOST_MAX, "%s", at.host);
		return 1;
	}
	return 0;
}

int scontrol_address(const char *node, char *out)
{
	const char *const words[] = {"getaddrs", node, NULL};
	char text[ANSWER_MAX];

	return scontrol_run(words, ANSWER_MS, text, sizeof(text), NULL) == 0 &&
	       scontrol_parse_address(text, node, out);
}
