/* host_name.c: parses and checks [user@]host[:slots]. */
#include "launcher/env/host_list.h"

#define NAME_CHARS                                                            \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
#define BRACKETS "an IPv6 address goes into brackets: [fd77::1] or " \
	"[fd77::1]:SLOTS"

static int host_name_all_of(struct slice s, const char *chars)
{
	for (size_t i = 0; i < s.len; i++)
		if (!s.data[i] || !strchr(chars, s.data[i]))
			return 0;
	return 1;
}

int host_name_slots(struct slice s, uint32_t min, uint32_t *slots)
{
	uint32_t n = 0;

	if (!s.len || !host_name_all_of(s, "0123456789"))
		return 0;
	for (size_t i = 0; i < s.len; i++) {
		n = n * 10 + (uint32_t)(s.data[i] - '0');
		if (n > HOST_NAME_SLOTS_MAX)
			return 0;
	}
	*slots = n;
	return n >= min;
}

static const char *host_name_check_user(struct slice user)
{
	if (!user.len)
		return "there is no user before '@'";
	if (user.data[0] == '-')
		return "a user name cannot begin with '-'";
	for (size_t i = 0; i < user.len; i++)
		if (user.data[i] <= ' ' || user.data[i] > '~' ||
		    strchr("'`\";&<>|(){}[]$*?!\\#:,", user.data[i]))
			return "this is not a user name; write USER@HOST";
	return NULL;
}

static const char *host_name_check_host(struct slice host)
{
	if (!host.len)
		return "the host's name is missing";
	if (host.data[0] == '-')
		return "a host name cannot begin with '-'";
	if (host.data[0] == '+')
		return "OpenMPI's +n and +e count a resource manager's nodes; "
		       "write the hosts' names";
	if (memchr(host.data, '[', host.len))
		return "ranges are not supported here; write each host's name";
	if (!host_name_all_of(host, NAME_CHARS))
		return "this is not a host name; write HOST or HOST:SLOTS for "
		       "each host";
	return NULL;
}

static const char *host_name_check_ip6(struct slice host)
{
	const char *percent = memchr(host.data, '%', host.len);
	size_t len = percent ? (size_t)(percent - host.data) : host.len;
	struct slice zone = {host.data + len, host.len - len};
	int colons = 0;

	for (size_t i = 0; i < len; i++)
		colons += host.data[i] == ':';
	if (colons < 2 ||
	    !host_name_all_of(SLICE(host.data, len),
			      "0123456789abcdefABCDEF:.") ||
	    zone.len == 1 ||
	    (zone.len &&
	     !host_name_all_of(SLICE(zone.data + 1, zone.len - 1), NAME_CHARS)))
		return "an IPv6 address is expected in the brackets";
	return NULL;
}

/* *after is what follows the ']'. */
static const char *host_name_cut_brackets(struct slice rest, struct slice *host,
					  struct slice *after)
{
	const char *close = memchr(rest.data, ']', rest.len);

	if (!close)
		return "this '[' has no ']'";
	*host = SLICE(rest.data + 1, (size_t)(close - rest.data - 1));
	*after = SLICE(close + 1, rest.len - host->len - 2);
	if (after->len && after->data[0] != ':')
		return "only :SLOTS may follow ']'";
	return host_name_check_ip6(*host);
}

/* *after is what follows the host, from ':' on. */
static const char *host_name_cut_host(struct slice rest, struct slice *host,
				      struct slice *after)
{
	const char *colon = memchr(rest.data, ':', rest.len);

	host->data = rest.data;
	host->len = colon ? (size_t)(colon - rest.data) : rest.len;
	*after = SLICE(rest.data + host->len, rest.len - host->len);
	if (after->len && memchr(colon + 1, ':', after->len - 1))
		return BRACKETS;
	return host_name_check_host(*host);
}

const char *host_name_parse(struct host_name *n, struct slice word)
{
	const char *at, *why = NULL;
	struct slice rest = word, after;

	*n = (struct host_name){.user = SLICE(word.data, 0)};
	if (!word.len)
		return host_name_check_host(word);
	at = memrchr(word.data, '@', word.len);
	if (at) {
		n->user.len = (size_t)(at - word.data);
		rest = SLICE(at + 1, word.len - n->user.len - 1);
		why = host_name_check_user(n->user);
	}
	if (!why && rest.len && rest.data[0] == '[')
		why = host_name_cut_brackets(rest, &n->host, &after);
	else if (!why)
		why = host_name_cut_host(rest, &n->host, &after);
	if (!why && after.len &&
	    !host_name_slots(SLICE(after.data + 1, after.len - 1), 1,
			     &n->slots))
		why = "a number of slots from 1 to 65536 is expected after ':'";
	return why;
}

static unsigned char host_name_fold(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

int host_name_is_same(struct slice a, struct slice b)
{
	if (a.len != b.len)
		return 0;
	for (size_t i = 0; i < a.len; i++)
		if (host_name_fold(a.data[i]) != host_name_fold(b.data[i]))
			return 0;
	return 1;
}

uint64_t host_name_hash(struct slice host)
{
	uint64_t h = 0xcbf29ce484222325; /* FNV-1a */

	for (size_t i = 0; i < host.len; i++)
		h = (h ^ host_name_fold(host.data[i])) * 0x100000001b3;
	return h ^ h >> 32;
}
