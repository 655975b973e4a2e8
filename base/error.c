/* error.c: filling in a struct err, and names for codes. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return code;
	e->code = code;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
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
