/* last_words_signs.c: lines that say that something is wrong in the forms that
 * most programs share: the word "error" or "fatal", or the level of a line of a
 * log. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "launcher/failure/last_words_internal.h"

enum {
	ADVICE_LINES = 10, /* that may follow: what to try, where to ask */
	LOG_LINES = 20,	   /* the same, with what a log goes on to say */
	LIKELY_LINES = 3,  /* that may follow a likely line */
	BLOCK_LINES = 12,  /* about one error */
	PLACE_WORDS = 6,
};

/* In this order: the last kind counts most among neighbours. */
enum sign { SIGN_NONE, SIGN_LOG, SIGN_LIKELY, SIGN_ERROR, SIGN_FATAL };

#define SPACED "E R R O R" /* so do codes of geophysics */

static const struct {
	const char *word;
	enum sign sign;
} sign_words[] = {
	{"error", SIGN_ERROR}, {"fatal", SIGN_FATAL},
	{"critical", SIGN_FATAL}, {"severe", SIGN_ERROR},
	{"abort", SIGN_FATAL},
	{"info", SIGN_LOG}, {"debug", SIGN_LOG}, {"warn", SIGN_LOG},
	{"warning", SIGN_LOG}, {"trace", SIGN_LOG}, {"notice", SIGN_LOG},
};

static int sign_is_letter(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* level=error, "level": "error", severity=ERROR */
static int sign_is_level(struct slice s, size_t at)
{
	static const char *const names[] = {"level", "lvl", "severity"};

	if (at == 0 || !strchr("=:\" ", s.data[at - 1]))
		return 0;
	while (at > 0 && strchr("=:\" ", s.data[at - 1]))
		at--;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		size_t n = strlen(names[i]);

		if (at >= n && !strncasecmp(s.data + at - n, names[i], n))
			return 1;
	}
	return 0;
}

/* "train error: 0.031" reports a number. */
static int sign_is_number(struct slice s, size_t at)
{
	while (at < s.len && strchr(": -+", s.data[at]))
		at++;
	return at < s.len && isdigit((unsigned char)s.data[at]);
}

/* Whether the n bytes at at, which are a word, mark the line: in capitals, as a
 * level, before a colon, in brackets; "fatal error" anywhere. */
static int sign_is_marked(struct slice s, size_t at, size_t n)
{
	static const char fatal[] = "fatal error";
	char next = at + n < s.len ? s.data[at + n] : ' ';

	if (isupper((unsigned char)s.data[at]) &&
	    isupper((unsigned char)s.data[at + 1]))
		return 1;
	if (s.len - at >= strlen(fatal) &&
	    !strncasecmp(s.data + at, fatal, strlen(fatal)))
		return 1;
	if (sign_is_level(s, at))
		return 1;
	if (next == ']' && at && s.data[at - 1] == '[')
		return 1;
	return next == ':' && !(islower((unsigned char)s.data[at]) &&
				sign_is_number(s, at + n));
}

/* "2026-11-29 03:12:44.1: E trainer.cc:42] TEXT", as TensorFlow does */
static enum sign sign_of_xla(struct slice s)
{
	size_t n = 0;

	while (n < s.len && (isdigit((unsigned char)s.data[n]) ||
			     strchr("- :.", s.data[n])))
		n++;
	if (n < 4 || n + 1 >= s.len || s.data[n + 1] != ' ' ||
	    memcmp(s.data + n - 2, ": ", 2) != 0)
		return SIGN_NONE;
	return s.data[n] == 'F' ? SIGN_FATAL
	       : s.data[n] == 'E' ? SIGN_ERROR
	       : strchr("IW", s.data[n]) ? SIGN_LOG : SIGN_NONE;
}

/* "E1129 03:12:44.123456 812 trainer.cc:42] TEXT", as glog begins its lines */
static enum sign sign_of_glog(struct slice s)
{
	if (s.len && s.data[0] == '[')
		s = slice_skip(s, 1);
	if (s.len < 6 || !strchr("IWEF", s.data[0]) || s.data[5] != ' ')
		return SIGN_NONE;
	for (int i = 1; i < 5; i++)
		if (!isdigit((unsigned char)s.data[i]))
			return SIGN_NONE;
	return s.data[0] == 'F' ? SIGN_FATAL
	       : s.data[0] == 'E' ? SIGN_ERROR : SIGN_LOG;
}

/* The sign of the line's first marked word. */
static enum sign sign_of(struct slice s)
{
	enum sign glog = sign_of_glog(s), xla = sign_of_xla(s);

	if (glog || xla)
		return glog ? glog : xla;
	if (slice_has(s, " NCCL WARN ") || /* so NCCL reports its errors */
	    slice_has(s, SPACED))
		return SIGN_ERROR;
	for (size_t at = 0; at < s.len; at++) {
		if (at && sign_is_letter(s.data[at - 1]))
			continue;
		for (size_t i = 0; i < sizeof(sign_words) / sizeof(*sign_words);
		     i++) {
			size_t n = strlen(sign_words[i].word);

			if (s.len - at < n ||
			    strncasecmp(s.data + at, sign_words[i].word, n) ||
			    (s.len - at > n && sign_is_letter(s.data[at + n])))
				continue;
			if (sign_is_marked(s, at, n))
				return sign_words[i].sign;
		}
	}
	return SIGN_NONE;
}

struct slice last_words_without_marks(struct slice s)
{
	while (s.len &&
	       (strchr("#*->|\\_! \t", s.data[0]) || slice_begins(s, "/ ")))
		s = slice_skip(s, 1);
	return s;
}

/* "input error", "PROGRAM ERROR", "lib-4001 : UNRECOVERABLE library error": a
 * name for an error, which a sentence must follow or precede. */
static int sign_is_name(struct slice s)
{
	static const char *const ends[] = {"error", "errors", "failure"};
	const char *colon;
	int words = 0, is_end = 0;

	s = last_words_without_marks(s);
	if (slice_has(s, SPACED))
		return slice_begins(slice_skip(s, s.len - strlen(SPACED)),
				    SPACED);
	colon = memrchr(s.data, ':', s.len);
	if (colon)
		s = last_words_without_marks(
			slice_skip(s, (size_t)(colon + 1 - s.data)));
	while (s.len && !sign_is_letter(s.data[s.len - 1]))
		s.len--;
	for (size_t i = 0; i < s.len; i++)
		words += sign_is_letter(s.data[i]) &&
			 (i == 0 || s.data[i - 1] == ' ');
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t n = strlen(ends[i]);

		is_end |= s.len >= n &&
			  !strncasecmp(s.data + s.len - n, ends[i], n) &&
			  (s.len == n ||
			   !sign_is_letter(s.data[s.len - n - 1]));
	}
	return words <= 3 && is_end;
}

/* Words that a sentence about an error has, in whatever case. */
int last_words_is_likely(struct slice s)
{
	static const char *const words[] = {
		"error", "fail", "cannot ", "can't ", "could not ",
		"couldn't ", "unable to", "not found", "no such ", "denied",
		"unrecognized ", "unrecognised ", "unknown ", "invalid ",
		"illegal ", "missing ", "mismatch", "out of memory",
		"out of range", "out of bounds", "does not exist", "refused",
		"timed out", "exceeded", "corrupt", "not supported", "too many",
	};

	for (size_t at = 0; at < s.len; at++) {
		if (at && sign_is_letter(s.data[at - 1]))
			continue;
		for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
			size_t n = strlen(words[i]);

			if (s.len - at >= n &&
			    !strncasecmp(s.data + at, words[i], n) &&
			    !sign_is_number(s, at + n))
				return 1;
		}
	}
	return 0;
}

static enum sign sign_or_likely(struct slice s)
{
	enum sign sign = sign_of(s);

	if (sign < SIGN_ERROR && last_words_is_heading(s))
		return SIGN_NONE; /* "Error termination. Backtrace:" */
	if (sign == SIGN_NONE && last_words_is_likely(s))
		return slice_has(s, "arning") ? SIGN_LOG : SIGN_LIKELY;
	return sign;
}

/* The last line about an error of at least this sign, unless more than max
 * others follow it; or -1. */
static int sign_find(const struct last_words_lines *ls, enum sign least,
		     int max)
{
	int others = 0;

	for (int i = ls->n - 1; i >= 0 && i >= ls->n - LOG_LINES; i--) {
		struct slice s = ls->line[i];
		enum sign sign = sign_or_likely(s);

		if (sign >= least)
			return i;
		others += sign != SIGN_LOG && !last_words_is_indented(s) &&
			  last_words_without_marks(s).len;
		if (others > max)
			break;
	}
	return -1;
}

/* "container start failed with error code: 1", "exited with status 2" report
 * only that something else has failed. */
static int sign_is_second_hand(struct slice s)
{
	static const char *const ends[] = {"code", "status", "rc", "errorcode"};
	size_t n = s.len;

	while (n && strchr("0123456789-().", s.data[n - 1]))
		n--;
	if (n == s.len)
		return 0;
	while (n && strchr(" :=", s.data[n - 1]))
		n--;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t m = strlen(ends[i]);

		if (n > m && !strncasecmp(s.data + n - m, ends[i], m) &&
		    !sign_is_letter(s.data[n - m - 1]))
			return 1;
	}
	return 0;
}

/* Among the lines about errors that end at last: the first fatal one, else the
 * first, as the others follow from it; but no line that is drawn, as
 * "[3]PETSC ERROR: --- Error Message ---", and none about another's exit code
 * if there are others. */
static int sign_first(const struct last_words_lines *ls, int last)
{
	int first = last, fatal = -1, first_hand = -1;

	for (int i = last; i >= 0; i--) {
		enum sign sign = sign_or_likely(ls->line[i]);

		if (sign < SIGN_LIKELY && last_words_is_indented(ls->line[i]))
			continue;
		if (sign < SIGN_LIKELY ||
		    (sign == SIGN_LIKELY && last - i > BLOCK_LINES))
			break;
		if (slice_has(ls->line[i], "----") ||
		    (i < last && sign_is_name(ls->line[i])))
			continue;
		first = i;
		if (sign_is_second_hand(ls->line[i]))
			continue;
		first_hand = i;
		if (sign == SIGN_FATAL)
			fatal = i;
	}
	if (fatal >= 0)
		return fatal;
	return first_hand >= 0 ? first_hand : first;
}

/* "FATAL CALLED FROM FILE:  <stdin>  LINE:  70" says only where. */
static int sign_is_place(struct slice s)
{
	static const char line[] = "line";
	size_t n = s.len, words = 0;

	while (n && strchr("0123456789 :", s.data[n - 1]))
		n--;
	if (n == s.len || n < strlen(line) ||
	    strncasecmp(s.data + n - strlen(line), line, strlen(line)) != 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		words += isalpha((unsigned char)s.data[i]) &&
			 (i == 0 || !isalpha((unsigned char)s.data[i - 1]));
	return words <= PLACE_WORDS;
}

/* "Fatal error:", "FATAL ERROR: (openfoam-2306)", "[ABORT]", "INPUT ERROR",
 * MATLAB's "Error using horzcat": the sentence follows. */
static int sign_is_heading(struct slice s)
{
	const char *colon = memrchr(s.data, ':', s.len);
	size_t at = colon ? (size_t)(colon + 1 - s.data) : s.len;

	if (sign_is_name(s) || sign_is_place(s) ||
	    slice_begins(last_words_without_marks(s), "Error using "))
		return 1;
	while (at < s.len && s.data[at] == ' ')
		at++;
	if (at == s.len)
		return colon || (s.data[0] == '[' && s.data[s.len - 1] == ']');
	return s.data[at] == '(' && s.data[s.len - 1] == ')' &&
	       !memchr(s.data + at, ' ', s.len - at);
}

int last_words_first_sign(const struct last_words_lines *ls, int from, int n)
{
	for (int i = from; i < n; i++)
		if (sign_of(ls->line[i]) >= SIGN_ERROR)
			return i;
	return -1;
}

int last_words_put_sign(struct buf *out, const struct last_words_lines *ls,
			int is_likely)
{
	struct last_words_lines before = *ls;
	int i = sign_find(ls, SIGN_ERROR, ADVICE_LINES);

	before.n = ls->n ? last_words_end(ls) : 0;
	if (i < 0 && last_words_put_box(out, ls, ls->n, ADVICE_LINES))
		return 1;
	if (i < 0 && is_likely)
		i = sign_find(&before, SIGN_LIKELY, LIKELY_LINES);
	if (i < 0)
		return 0;
	i = sign_first(ls, i);
	last_words_put_cut(out, last_words_without_marks(ls->line[i]));
	if (sign_is_heading(ls->line[i]))
		last_words_put_below(out, ls, i);
	return 1;
}

int last_words_is_new(const struct last_words_lines *ls, int i)
{
	enum sign sign = sign_of(ls->line[i]);

	return sign != SIGN_NONE || last_words_is_trace(ls->line[i]);
}

/* ---- chains of causes ---- */

static struct slice sign_after(struct slice s, const char *start)
{
	while (s.len && last_words_is_indented(s))
		s = slice_skip(s, 1);
	return slice_begins(s, start) ? slice_skip(s, strlen(start))
				      : SLICE_STR("");
}

/* "    1: No such file or directory (os error 2)", below "Caused by:" */
static struct slice sign_below(const struct last_words_lines *ls, int i)
{
	struct slice s = SLICE_STR("");

	while (++i < ls->n && last_words_is_indented(ls->line[i]))
		s = ls->line[i];
	while (s.len && strchr(" \t0123456789:", s.data[0]))
		s = slice_skip(s, 1);
	return s;
}

void last_words_put_root(struct buf *out, const struct last_words_lines *ls,
			 int i)
{
	struct slice root = SLICE_STR("");

	while (++i < ls->n) {
		struct slice s = sign_after(ls->line[i], "Caused by: ");

		if (!s.len)
			s = sign_after(ls->line[i], "nested task error: ");
		if (!s.len && sign_after(ls->line[i], "Caused by").len == 1)
			s = sign_below(ls, i);
		if (s.len)
			root = s;
	}
	if (!root.len)
		return;
	buf_printf(out, "; caused by ");
	last_words_put_cut(out, root);
}
