/* host_list.c: parses lists of hosts: -H, hostfiles, and the lists of PBS and
 * LSF. All of them are cut into words the same way. */
#include "launcher/env/host_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	SHOWN_MAX = 60,    /* bytes of a word shown in an error */
	ROOM_FIRST = 64,   /* hosts */
	READ_SIZE = 65536, /* bytes per read */
};

struct host_list_parser {
	struct host_list *l;
	struct err *e;
	const char *unit; /* what `at` counts: "line", "word" */
	uint32_t at;
	int repeats;     /* listing a host again adds a slot */
	uint32_t *table; /* hash table of hosts: index + 1, or 0 */
	size_t size;     /* a power of two, at least twice l->room */
};

static int host_list_refuse(const struct host_list_parser *in,
			    struct slice word, const char *why)
{
	char shown[SHOWN_MAX + 1];
	size_t n = word.len < SHOWN_MAX ? word.len : SHOWN_MAX;

	for (size_t i = 0; i < n; i++)
		shown[i] = word.data[i] < ' ' || word.data[i] > '~'
				   ? '?' : word.data[i];
	shown[n] = 0;
	return err_set(in->e, ERR_USAGE, "%s, %s %u, \"%s%s\": %s", in->l->from,
		       in->unit, in->at, shown, n < word.len ? "..." : "", why);
}

/* ---- text ---- */

static int host_list_is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct slice host_list_trim(struct slice s)
{
	while (s.len && host_list_is_blank(s.data[0]))
		s = SLICE(s.data + 1, s.len - 1);
	while (s.len && host_list_is_blank(s.data[s.len - 1]))
		s.len--;
	return s;
}

/* Takes the text before the first `end`, or all of it. *text becomes the rest,
 * with data NULL if there was no `end`. */
static struct slice host_list_cut(struct slice *text, char end)
{
	const char *p = memchr(text->data, end, text->len);
	struct slice head = *text;

	if (!p) {
		*text = SLICE(NULL, 0);
		return head;
	}
	head.len = (size_t)(p - head.data);
	*text = SLICE(p + 1, text->len - head.len - 1);
	return head;
}

/* Takes the next word, which blanks or stop end; empty at the text's end. */
static struct slice host_list_next_word(struct slice *text, char stop)
{
	struct slice s = host_list_trim(*text);
	size_t n = 0;

	while (n < s.len && !host_list_is_blank(s.data[n]) && s.data[n] != stop)
		n++;
	*text = SLICE(s.data + n, s.len - n);
	return SLICE(s.data, n);
}

static int host_list_is_word(struct slice s, const char *word)
{
	return s.len == strlen(word) && memcmp(s.data, word, s.len) == 0;
}

static int host_list_parse_host(struct host_list_parser *in, struct slice word,
				struct host_name *n)
{
	const char *why = host_name_parse(n, word);

	if (!why && n->user.len + !!n->user.len + n->host.len >
			    HOST_LIST_NAME_MAX)
		why = "this name has more than 320 bytes";
	return why ? host_list_refuse(in, word, why) : 0;
}

/* ---- the list ---- */

static struct slice host_list_host_of(const struct host_list *l, uint32_t i)
{
	const char *name = host_list_name(l, i), *at = strrchr(name, '@');

	return SLICE_STR(at ? at + 1 : name);
}

/* The host's slot in the table, or the free slot for it. */
static uint32_t *host_list_look_up(const struct host_list_parser *in,
				   struct slice host)
{
	size_t i = host_name_hash(host) & (in->size - 1);

	while (in->table[i] &&
	       !host_name_is_same(host_list_host_of(in->l, in->table[i] - 1),
				  host))
		i = (i + 1) & (in->size - 1);
	return &in->table[i];
}

static int host_list_make_room(struct host_list_parser *in)
{
	struct host_list *l = in->l;
	uint32_t room = l->room ? l->room * 2 : ROOM_FIRST;
	struct host *hosts = realloc(l->hosts, room * sizeof(*hosts));
	uint32_t *table = calloc((size_t)room * 2, sizeof(*table));

	if (hosts)
		l->hosts = hosts;
	if (!hosts || !table) {
		free(table);
		return err_no_memory(in->e, "list of hosts");
	}
	l->room = room;
	free(in->table);
	in->table = table;
	in->size = (size_t)room * 2;
	for (uint32_t i = 0; i < l->count; i++)
		*host_list_look_up(in, host_list_host_of(l, i)) = i + 1;
	return 0;
}

static int host_list_append(struct host_list_parser *in,
			    const struct host_name *n)
{
	struct host_list *l = in->l;
	uint32_t start = (uint32_t)l->text.len;

	if (l->count == HOST_LIST_MAX)
		return host_list_refuse(in, n->host,
					"the list has more than 65536 hosts");
	if (n->user.len) {
		buf_put(&l->text, n->user.data, n->user.len);
		buf_put_u8(&l->text, '@');
	}
	buf_put(&l->text, n->host.data, n->host.len);
	buf_put_u8(&l->text, 0);
	if (l->text.failed)
		return err_no_memory(in->e, "list of hosts");
	l->hosts[l->count++] = (struct host){start, n->slots, in->at};
	return 0;
}

static int host_list_add_slots(const struct host_list_parser *in,
			       const struct host_name *n, struct host *h)
{
	const struct host_list *l = in->l;

	if (!in->repeats)
		return err_set(
			in->e, ERR_USAGE,
			"%s, %s %u: host %.*s is already in %s %u, and each "
			"host is one node; list it once, with all of its slots",
			l->from, in->unit, in->at, SLICE_FMT(n->host), in->unit,
			h->line);
	if (n->slots > HOST_LIST_SLOTS_MAX - h->slots)
		return host_list_refuse(in, n->host,
					"this host has more than 65536 slots");
	h->slots += n->slots;
	return 0;
}

static int host_list_add(struct host_list_parser *in, const struct host_name *n)
{
	uint32_t *place;
	int is_full = !in->table || in->l->count == in->l->room;
	int rc = is_full ? host_list_make_room(in) : 0;

	if (rc)
		return rc;
	place = host_list_look_up(in, n->host);
	if (*place)
		return host_list_add_slots(in, n, &in->l->hosts[*place - 1]);
	rc = host_list_append(in, n);
	if (rc == 0)
		*place = in->l->count;
	return rc;
}

/* ---- a line of a hostfile ---- */

/* Parses the "= N" after a word. */
static int host_list_parse_value(struct host_list_parser *in, struct slice word,
				 struct slice *rest, uint32_t *value)
{
	struct slice s = host_list_trim(*rest), number;

	if (s.len && s.data[0] == '=') {
		*rest = SLICE(s.data + 1, s.len - 1);
		number = host_list_next_word(rest, '\n');
		if (host_name_slots(number, 1, value))
			return 0;
	}
	return host_list_refuse(in, word, "a number from 1 to 65536 is "
				"expected after it: HOST slots=N");
}

static int host_list_is_limit(struct slice word)
{
	return host_list_is_word(word, "max_slots") ||
	       host_list_is_word(word, "max-slots") ||
	       host_list_is_word(word, "slots_max") ||
	       host_list_is_word(word, "slots-max");
}

static int host_list_parse_options(struct host_list_parser *in,
				   struct slice rest, struct host_name *n)
{
	uint32_t limit = 0, *value;
	struct slice word;
	int rc = 0;

	while (rc == 0 && (word = host_list_next_word(&rest, '=')).len) {
		value = host_list_is_word(word, "slots") ? &n->slots
			: host_list_is_limit(word)       ? &limit : NULL;
		if (!value)
			return host_list_refuse(
				in, word,
				"only slots=N and max_slots=N may follow a "
				"host; write HOST slots=N");
		if (*value)
			return host_list_refuse(in, word,
						"this is given twice");
		rc = host_list_parse_value(in, word, &rest, value);
	}
	if (rc)
		return rc;
	if (rest.len)
		return host_list_refuse(in, rest,
					"a word is missing before '='");
	if (limit && !n->slots)
		return host_list_refuse(in, n->host, "max_slots without slots; "
					"write HOST slots=N");
	if (limit && limit < n->slots)
		return host_list_refuse(in, n->host,
					"slots is more than max_slots");
	return 0;
}

static int host_list_parse_line(struct host_list_parser *in, struct slice line)
{
	struct slice rest = host_list_trim(host_list_cut(&line, '#')), word;
	struct host_name n;
	int rc;

	if (!rest.len)
		return 0;
	word = host_list_next_word(&rest, '\n');
	rc = host_list_parse_host(in, word, &n);
	if (rc == 0)
		rc = host_list_parse_options(in, rest, &n);
	if (rc)
		return rc;
	if (in->repeats && !n.slots)
		n.slots = 1;
	return host_list_add(in, &n);
}

/* ---- all of a text ---- */

static struct host_list_parser host_list_parser(struct host_list *l,
						const char *unit, int repeats,
						struct err *e)
{
	return (struct host_list_parser){
		.l = l, .e = e, .unit = unit, .repeats = repeats};
}

static int host_list_finish(struct host_list_parser *in, int rc,
			    const char *what)
{
	free(in->table);
	if (rc == 0 && in->l->count == 0)
		return err_set(in->e, ERR_USAGE, "%s: it names no host; write "
			       "%s", in->l->from, what);
	return rc;
}

static int host_list_parse_lines(struct host_list *l, struct slice text,
				 int repeats, struct err *e)
{
	struct host_list_parser in = host_list_parser(l, "line", repeats, e);
	int rc = 0;

	if (text.len >= 3 && memcmp(text.data, "\xef\xbb\xbf", 3) == 0)
		text = SLICE(text.data + 3, text.len - 3);
	while (rc == 0 && text.len) {
		in.at++;
		rc = host_list_parse_line(&in, host_list_cut(&text, '\n'));
	}
	return host_list_finish(&in, rc, "one per line: HOST slots=N");
}

/* Sets the name for errors. It keeps the end of a long path, which identifies
 * the file better than the start. */
static void host_list_set_from(struct host_list *l, const char *what,
			       const char *path)
{
	const size_t room = sizeof(l->from) - 24;
	size_t len = strlen(path);

	snprintf(l->from, sizeof(l->from), "%s%s%s", what,
		 len > room ? "..." : "",
		 len > room ? path + len - room : path);
}

void host_list_init(struct host_list *l)
{
	*l = (struct host_list){.hosts = NULL};
	buf_init(&l->text, (size_t)HOST_LIST_MAX * (HOST_LIST_NAME_MAX + 1));
}

void host_list_release(struct host_list *l)
{
	free(l->hosts);
	buf_release(&l->text);
	host_list_init(l);
}

const char *host_list_name(const struct host_list *l, uint32_t i)
{
	return l->text.data + l->hosts[i].name;
}

int host_list_parse(struct host_list *l, struct slice text, struct err *e)
{
	struct host_list_parser in = host_list_parser(l, "word", 0, e);
	struct host_name n;
	int rc = 0;

	host_list_set_from(l, "", "-H");
	text = host_list_trim(text);
	while (rc == 0 && text.data && (text.len || in.at)) {
		in.at++;
		rc = host_list_parse_host(
			&in, host_list_trim(host_list_cut(&text, ',')), &n);
		if (rc == 0)
			rc = host_list_add(&in, &n);
	}
	return host_list_finish(&in, rc, "-H HOST:SLOTS,HOST:SLOTS");
}

int host_list_parse_file(struct host_list *l, struct slice text,
			 const char *path, struct err *e)
{
	host_list_set_from(l, "", path);
	return host_list_parse_lines(l, text, 0, e);
}

/* ---- files ---- */

static int host_list_unreadable(const struct host_list *l, int rc,
				struct err *e)
{
	return err_set(e, rc, "%s: %s", l->from, err_name(rc));
}

static int host_list_too_long(const struct host_list *l, struct err *e)
{
	return err_set(e, ERR_USAGE,
		       "%s: more than %d MiB: this is not a list of hosts",
		       l->from, HOST_LIST_FILE_MAX >> 20);
}

/* Reads to the end, which for a pipe or a terminal may take long. */
static int host_list_read_fd(const struct host_list *l, int fd, struct buf *b,
			     struct err *e)
{
	struct stat st;
	ssize_t n = 1;
	char *to;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size > HOST_LIST_FILE_MAX)
		return host_list_too_long(l, e);
	while (n) {
		to = buf_reserve(b, READ_SIZE);
		if (!to)
			return b->failed == -ENOBUFS
				       ? host_list_too_long(l, e)
				       : err_no_memory(e, "list of hosts");
		n = read(fd, to, READ_SIZE);
		if (n < 0 && errno != EINTR)
			return host_list_unreadable(l, -errno, e);
		b->len += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Reads and parses the file; l->from names it. */
static int host_list_read_lines(struct host_list *l, const char *path,
				int repeats, struct err *e)
{
	int fd = strcmp(path, "-") == 0 ? STDIN_FILENO
					: open(path, O_RDONLY | O_CLOEXEC);
	struct buf b = BUF_INIT(HOST_LIST_FILE_MAX + READ_SIZE);
	int rc;

	if (fd < 0)
		return host_list_unreadable(l, -errno, e);
	rc = host_list_read_fd(l, fd, &b, e);
	if (fd != STDIN_FILENO)
		close(fd);
	if (rc == 0)
		rc = host_list_parse_lines(l, SLICE(b.data, b.len), repeats, e);
	buf_release(&b);
	return rc;
}

int host_list_read(struct host_list *l, const char *path, struct err *e)
{
	host_list_set_from(l, "",
			   strcmp(path, "-") == 0 ? "standard input" : path);
	return host_list_read_lines(l, path, 0, e);
}

/* ---- PBS and LSF ---- */

/* "host host", or with counts "host slots host slots". */
static int host_list_parse_words(struct host_list *l, const char *text,
				 int counts, struct err *e)
{
	struct host_list_parser in = host_list_parser(l, "word", 1, e);
	struct slice rest = SLICE_STR(text), word;
	struct host_name n;
	int rc = 0;

	while (rc == 0 && (word = host_list_next_word(&rest, '\n')).len) {
		in.at++;
		rc = host_list_parse_host(&in, word, &n);
		n.slots = 1;
		if (rc == 0 && counts) {
			struct slice slots = host_list_next_word(&rest, '\n');
			if (!host_name_slots(slots, 0, &n.slots))
				rc = host_list_refuse(&in, word, "a number of "
						      "slots is expected after "
						      "it");
		}
		if (rc == 0 && n.slots)
			rc = host_list_add(&in, &n);
		in.at += (uint32_t)counts;
	}
	return host_list_finish(&in, rc, "-H HOST:SLOTS,HOST:SLOTS instead");
}

static const char *host_list_value(host_list_get *get, const char *name)
{
	const char *text = get(name);

	return text && *text ? text : NULL;
}

static void host_list_drop_launch_node(struct host_list *l)
{
	if (l->count < 2 || l->hosts[0].slots != 1)
		return;
	l->count--;
	memmove(l->hosts, l->hosts + 1, l->count * sizeof(*l->hosts));
}

int host_list_scheduler(struct host_list *l, host_list_get *get, struct err *e)
{
	const char *text;
	int rc;

	if ((text = host_list_value(get, "PBS_NODEFILE"))) {
		host_list_set_from(l, "PBS_NODEFILE=", text);
		rc = host_list_read_lines(l, text, 1, e);
		return rc ? rc : 1;
	}
	if ((text = host_list_value(get, "LSB_DJOB_HOSTFILE"))) {
		host_list_set_from(l, "LSB_DJOB_HOSTFILE=", text);
		rc = host_list_read_lines(l, text, 1, e);
	} else if ((text = host_list_value(get, "LSB_MCPU_HOSTS"))) {
		host_list_set_from(l, "", "LSB_MCPU_HOSTS");
		rc = host_list_parse_words(l, text, 1, e);
	} else if ((text = host_list_value(get, "LSB_HOSTS"))) {
		host_list_set_from(l, "", "LSB_HOSTS");
		rc = host_list_parse_words(l, text, 0, e);
	} else {
		return 0;
	}
	if (rc == 0 && host_list_value(get, "CSM_ALLOCATION_ID"))
		host_list_drop_launch_node(l);
	return rc ? rc : 1;
}
