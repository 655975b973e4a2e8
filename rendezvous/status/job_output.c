/* job_output.c: a copy of the last lines, cleaned; and its JSON. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "rendezvous/status/job_status.h"

enum { ESC = 0x1b, BEL = 7, TAB_STOP = 8, CLEANED_MAX = 8 * WIRE_OUTPUT_MAX };

/* ---- cleaning ---- */

/* The length of the sequence that p, an ESC, begins: CSI up to its final byte,
 * OSC and other strings up to BEL or ESC \, or ESC and what one more character
 * selects. A sequence that is cut off extends to the end of its line. */
static size_t output_escape_length(const char *p, size_t n)
{
	size_t i = 2;

	if (n < 2 || (unsigned char)p[1] < 0x20)
		return 1;
	if (p[1] == '[') {
		while (i < n && p[i] >= 0x20 && p[i] < 0x40)
			i++;
		return i < n && p[i] >= 0x40 && p[i] < 0x7f ? i + 1 : i;
	}
	if (strchr("]PX^_", p[1])) {
		while (i < n && p[i] != BEL && p[i] != ESC && p[i] != '\n')
			i++;
		if (i < n && p[i] == ESC)
			i += i + 1 < n && p[i + 1] == '\\';
		return i < n && p[i] != '\n' ? i + 1 : i;
	}
	while (i < n && p[i - 1] >= 0x20 && p[i - 1] < 0x30 && p[i] != '\n')
		i++;
	return i;
}

/* C1 controls, as UTF-8 has them: terminals may obey them. */
static int output_is_c1(const char *p, size_t n)
{
	return n > 1 && (unsigned char)p[0] == 0xc2 &&
	       (unsigned char)p[1] >= 0x80 && (unsigned char)p[1] < 0xa0;
}

void job_output_clean(struct buf *out, struct slice text)
{
	size_t begin = out->len;

	for (size_t i = 0; i < text.len;) {
		const char *p = text.data + i;
		size_t left = text.len - i, n = 1;
		unsigned char c = (unsigned char)*p;

		if (c == ESC) {
			n = output_escape_length(p, left);
		} else if (c == '\t') {
			buf_put(out, "        ",
				TAB_STOP - (out->len - begin) % TAB_STOP);
		} else if (output_is_c1(p, left)) {
			n = 2;
			buf_put(out, "?", 1);
		} else if ((c < 0x20 && c != '\n') || c == 0x7f) {
			buf_put(out, "?", 1);
		} else {
			buf_put(out, p, 1);
		}
		if (c == '\n')
			begin = out->len;
		i += n;
	}
}

/* ---- the answer ---- */

int job_output_init(struct job_output *o, uint32_t rank,
		    const struct wire_node_dump *m)
{
	*o = (struct job_output){
		.rank = rank,
		.host = strndup(m->host.data, m->host.len),
		.text = strndup(m->text.data, m->text.len),
		.lines = {BUF_INIT(CLEANED_MAX), BUF_INIT(CLEANED_MAX)},
	};
	job_output_clean(&o->lines[0], m->out);
	job_output_clean(&o->lines[1], m->err);
	return o->host && o->text && !o->lines[0].failed &&
			       !o->lines[1].failed
		       ? 0
		       : -ENOMEM;
}

void job_output_release(struct job_output *o)
{
	free(o->host);
	free(o->text);
	buf_release(&o->lines[0]);
	buf_release(&o->lines[1]);
	*o = (struct job_output){0};
}

void job_output_set_error(struct job_output *o, uint32_t rank, const char *text)
{
	job_output_release(o);
	o->rank = rank;
	o->text = strdup(text);
}

static void output_add_lines(const struct json *j, cJSON *to, const char *name,
			     const struct buf *lines)
{
	struct slice rest = SLICE(lines->data, lines->len);
	cJSON *list = j->add_array(to, name);

	while (rest.len) {
		struct buf text = BUF_INIT(3 * CLEANED_MAX + 1);

		utf8_put(&text, slice_next_line(&rest));
		buf_put_u8(&text, 0);
		j->append(list, j->string(text.failed ? "" : text.data));
		buf_release(&text);
	}
}

void job_output_put_json(const struct json *j, cJSON *to,
			 const struct job_output *o)
{
	j->add_number(to, "rank", o->rank);
	json_add_text_or_null(j, to, "host", SLICE_STR(o->host ? o->host : ""));
	json_add_text_or_null(j, to, "error",
			      SLICE_STR(o->text ? o->text : ""));
	output_add_lines(j, to, "stdout", &o->lines[0]);
	output_add_lines(j, to, "stderr", &o->lines[1]);
}
