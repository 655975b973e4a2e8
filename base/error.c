/* error.c: filling in a struct err, and names for codes. */
#include "base/error.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *e, int code, const char *fmt, ...)
{
	/* all of "C" is one static object: nothing to allocate, or to free */
	locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), old;
	va_list ap;

	if (!e)
		return code;
	e->code = code;
	/* libddp's program may have asked for decimal commas */
	old = uselocale(c);
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	uselocale(old);
	return code;
}

const char *err_name(int code)
{
	switch (code) {
#define X(name, number, text)                                                 \
	case ERR_##name:                                                      \
		return text;
		ERR_LIST(X)
#undef X
	default:
		if (code == 0)
			return "success";
		if (code < 0 && code > -4096)
			return strerror(-code);
		return "unknown error";
	}
}
