/* nccl.c: checks NCCL's words and finds an interface. */
#include "launcher/plan/nccl.h"

#include <string.h>

#include "base/buf.h"
#include "base/local_addrs.h"
#include "base/log.h"

#define LEVELS "VERSION, WARN, INFO, ABORT, TRACE"
#define SUBSYSTEMS                                                            \
	"INIT, COLL, P2P, SHM, NET, GRAPH, TUNING, ENV, ALLOC, CALL, PROXY, " \
	"NVLS, BOOTSTRAP, REG, PROFILE, RAS, ALL"

/* ASCII only: independent of the locale. */
static char nccl_upper(char c)
{
	return (char)(c >= 'a' && c <= 'z' ? c - ('a' - 'A') : c);
}

/* 1 if word, in capitals, is one of the words in all, which commas and blanks
 * separate. */
static int nccl_is_one_of(struct slice word, const char *all)
{
	for (const char *at = all; at; at = strchr(at, ',')) {
		size_t len;

		at += strspn(at, ", ");
		len = strcspn(at, ",");
		if (len == word.len && memcmp(at, word.data, len) == 0)
			return 1;
	}
	return 0;
}

static int nccl_unknown_word(const char *text, struct slice word,
			     const char *what, const char *known,
			     const char *more, struct err *e)
{
	return err_set(
		e, ERR_USAGE,
		"--nccl-debug '%.100s': '%.*s' is not an NCCL %s; use %s%s",
		text, word.len > 30 ? 30 : (int)word.len, word.data, what,
		known, more);
}

static int nccl_check_subsystems(const struct nccl *n, const char *text,
				 struct err *e)
{
	const char *at = n->subsystems;

	at += *at == '^';
	for (;; at++) {
		struct slice word = {at, strcspn(at, ",")};

		if (!nccl_is_one_of(word, SUBSYSTEMS))
			return nccl_unknown_word(
				text, word, "subsystem", SUBSYSTEMS,
				"; set newer ones in NCCL_DEBUG_SUBSYS", e);
		at += word.len;
		if (!*at)
			return 0;
	}
}

int nccl_parse_debug(struct nccl *n, const char *text, struct err *e)
{
	char copy[sizeof(n->debug) + NCCL_SUBSYSTEMS_MAX];
	struct slice level = {copy, 0};
	size_t len;

	n->debug[0] = n->subsystems[0] = '\0';
	if (!text)
		return 0;
	len = strlen(text);
	if (len >= NCCL_SUBSYSTEMS_MAX)
		return err_set(e, ERR_USAGE, "--nccl-debug '%.100s...' is too "
			       "long; give LEVEL or LEVEL:SUBSYSTEM,...", text);
	for (size_t i = 0; i <= len; i++)
		copy[i] = nccl_upper(text[i]);
	level.len = strcspn(copy, ":");
	if (!nccl_is_one_of(level, LEVELS))
		return nccl_unknown_word(text, level, "level", LEVELS, "", e);
	memcpy(n->debug, copy, level.len);
	n->debug[level.len] = '\0';
	if (!copy[level.len])
		return 0;
	strcpy(n->subsystems, copy + level.len + 1);
	return nccl_check_subsystems(n, text, e);
}

/* Appends this host's interfaces, as in "lo, eth0". */
static void nccl_put_interfaces(struct buf *b)
{
	struct if_nameindex *all = if_nameindex();

	for (struct if_nameindex *i = all; i && i->if_index; i++)
		buf_printf(b, "%s%s", b->len ? ", " : "", i->if_name);
	if (all)
		if_freenameindex(all);
	buf_put_u8(b, '\0');
}

int nccl_check_interface(struct nccl *n, const char *name, struct err *e)
{
	struct buf b = BUF_INIT(ERR_TEXT_MAX / 2);
	int rc = 0;

	n->interface = name;
	if (!name || strcmp(name, "auto") == 0 || if_nametoindex(name))
		return 0;
	nccl_put_interfaces(&b);
	rc = err_set(e, ERR_USAGE, "--net-interface '%.50s': this host has no "
		     "such interface; it has %s; or give auto", name,
		     b.failed ? "others" : b.data);
	buf_release(&b);
	return rc;
}

const char *nccl_interface(const struct nccl *n, const char *node_addr,
			   uint32_t nnodes, char *out)
{
	if (!n->interface)
		return "";
	if (strcmp(n->interface, "auto") != 0)
		return n->interface;
	if (nnodes < 2)
		return "";
	if (local_addr_interface(node_addr, out) == 0)
		return out;
	log_warn("--net-interface auto: other nodes reach this one at %s, "
		 "which belongs to no interface, or to several, so NCCL and "
		 "gloo choose one; give the name of an interface",
		 node_addr);
	return "";
}
