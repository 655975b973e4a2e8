/* macro.c: the one name that is known, and where it ends. */
#include "launcher/macro.h"

#include <stdio.h>
#include <string.h>

#define NAME "local_rank"
enum { NAME_BYTES = sizeof(NAME) - 1, DIGITS_MAX = 11 };

static int is_part_of_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_';
}

/* The bytes of a placeholder after its $, or 0. */
static size_t match(const char *p)
{
	int braced = *p == '{';

	p += braced;
	if (strncmp(p, NAME, NAME_BYTES) != 0)
		return 0;
	if (braced)
		return p[NAME_BYTES] == '}' ? NAME_BYTES + 2 : 0;
	return is_part_of_name(p[NAME_BYTES]) ? 0 : NAME_BYTES;
}

char *macro_expand(const char *text, uint32_t local_rank, char *out)
{
	char number[DIGITS_MAX];
	int digits = snprintf(number, sizeof(number), "%u", local_rank);
	size_t len;

	while (*text) {
		if (*text != '$') {
			*out++ = *text++;
		} else if (text[1] == '$') {
			*out++ = '$';
			text += 2;
		} else if ((len = match(text + 1)) > 0) {
			memcpy(out, number, (size_t)digits);
			out += digits;
			text += 1 + len;
		} else {
			*out++ = *text++;
		}
	}
	*out++ = '\0';
	return out;
}
