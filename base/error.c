/* error.c: filling in a struct err, and names for codes. */
#include "base/error.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Decimal points whatever locale libddp's program may have asked for. */
static void err_format(struct err *e, int code, const char *fmt, va_list ap)
{
	/* all of "C" is one static object: nothing to allocate, or to free */
	locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	locale_t old = uselocale(c);

	e->code = code;
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	uselocale(old);
}

int err_put(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (code >= 0)
		code = ERR_INTERNAL;
	if (!e)
		return code;
	va_start(ap, fmt);
	err_format(e, code, fmt, ap);
	va_end(ap);
	return code;
}

void err_note(struct err *e, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return;
	va_start(ap, fmt);
	err_format(e, 0, fmt, ap);
	va_end(ap);
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
