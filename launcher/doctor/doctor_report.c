/* doctor_report.c: formats the lines, and looks for what must not be shown. */
#include "launcher/doctor/doctor_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { LABEL_WIDTH = 22, VALUE_MAX = 2048, SHOWN_MAX = 160 };

/* 1: a control character; 2: one of Latin-1, in UTF-8; 0: neither. */
static size_t doctor_control(const char *text)
{
	unsigned char c = (unsigned char)text[0], next = (unsigned char)text[1];

	if (c == 0xc2 && next >= 0x80 && next < 0xa0)
		return 2;
	return c < ' ' || c == 0x7f;
}

/* Appends valid UTF-8 without control characters, and with ~ for $HOME. */
static void doctor_put_words(struct buf *b, const char *text)
{
	const char *home = getenv("HOME");
	size_t n = home && home[0] == '/' && home[1] ? strlen(home) : 0;

	while (*text) {
		size_t control = doctor_control(text);

		if (n && strncmp(text, home, n) == 0 &&
		    (!text[n] || strchr("/: ,)'", text[n]))) {
			buf_put(b, "~", 1);
			text += n;
			continue;
		}
		/* ssh ends its lines with CR LF */
		if (*text != '\r')
			buf_put(b, control ? "?" : text, 1);
		text += control ? control : 1;
	}
}

static void doctor_put_text(struct buf *b, const char *text)
{
	struct buf valid = BUF_INIT(8 * VALUE_MAX);

	utf8_put(&valid, SLICE_STR(text));
	buf_put_u8(&valid, 0);
	doctor_put_words(b, valid.failed ? "?" : valid.data);
	buf_release(&valid);
}

void doctor_put(struct buf *b, enum doctor_mark mark, const char *label,
		const char *remedy, const char *fmt, ...)
{
	char value[VALUE_MAX];
	size_t from = b->len;
	va_list args;

	va_start(args, fmt);
	vsnprintf(value, sizeof(value), fmt, args);
	va_end(args);
	buf_printf(b, "%c ", mark);
	doctor_put_text(b, label);
	buf_printf(b, "%*s ",
		   b->len - from < LABEL_WIDTH
			   ? (int)(LABEL_WIDTH - (b->len - from))
			   : 1, "");
	doctor_put_text(b, value);
	buf_put(b, "\n", 1);
	if (!remedy)
		return;
	buf_printf(b, "%c     ", mark);
	doctor_put_text(b, remedy);
	buf_put(b, "\n", 1);
}

static int doctor_is_secret(const char *name)
{
	static const char *const words[] = {
		"TOKEN", "SECRET", "KEY", "PASS", "CREDENTIAL", "COOKIE",
		"AUTHORIZATION", "CERT",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (strcasestr(name, words[i]))
			return 1;
	}
	return 0;
}

/* Overwrites "user:password" in "http://user:password@host". */
static void doctor_hide_login(char *text)
{
	char *at = text;

	while ((at = strstr(at, "://")) != NULL) {
		size_t n;

		at += 3;
		n = strcspn(at, "/ ,@");
		if (at[n] == '@')
			memset(at, '*', n);
	}
}

void doctor_put_variable(struct buf *b, const char *name, const char *value)
{
	size_t len = strlen(value);
	char text[VALUE_MAX];

	if (doctor_is_secret(name)) {
		doctor_put(b, DOCTOR_FINE, name, NULL,
			   "(%zu characters, not shown)", len);
		return;
	}
	snprintf(text, sizeof(text), "%s", len ? value : "(empty)");
	doctor_hide_login(text);
	if (len > SHOWN_MAX)
		doctor_put(b, DOCTOR_FINE, name, NULL,
			   "%.*s... (%zu characters)", SHOWN_MAX, text, len);
	else
		doctor_put(b, DOCTOR_FINE, name, NULL, "%s", text);
}

int doctor_count(struct slice report, enum doctor_mark mark)
{
	int n = 0;

	while (report.len) {
		struct slice line = slice_next_line(&report);

		n += line.len > 2 && line.data[0] == (char)mark &&
		     line.data[1] == ' ' && line.data[2] != ' ';
	}
	return n;
}

static int doctor_has_line(struct slice report, struct slice line)
{
	while (report.len) {
		struct slice own = slice_next_line(&report);

		if (own.len == line.len &&
		    memcmp(own.data, line.data, line.len) == 0)
			return 1;
	}
	return 0;
}

void doctor_put_difference(struct buf *b, struct slice report,
			   struct slice other)
{
	while (report.len) {
		struct slice line = slice_next_line(&report);

		if (doctor_has_line(other, line))
			continue;
		buf_put(b, line.data, line.len);
		buf_put(b, "\n", 1);
	}
}
