/* rdzv_conf.c: maps torchrun's rendezvous settings to our options. */
#include "launcher/config/config_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "rendezvous/wire.h"

enum { WORD_MAX_BYTES = 256 };

static int rdzv_conf_refuse(struct err *e, const char *key, const char *value,
			    const char *why)
{
	return err_set(e, ERR_USAGE, "--rdzv-conf: %s=%s: %s", key, value, why);
}

static int rdzv_conf_take_seconds(const char *key, const char *value,
				  double min, double *out, struct err *e)
{
	char *end;
	double v = strtod(value, &end);

	if (end == value || *end || !(v >= min && v <= 1e9))
		return rdzv_conf_refuse(e, key, value,
					"give a number of seconds");
	*out = v;
	return 0;
}

/* Sets *out unless the option itself is given, on the command line or as a
 * variable. */
static int rdzv_conf_take_default(const char *key, const char *value,
				  double min, int given, double *out,
				  struct err *e)
{
	double v;
	int rc = rdzv_conf_take_seconds(key, value, min, &v, e);

	if (rc == 0 && !given)
		*out = v;
	return rc;
}

static int rdzv_conf_take_rank(struct config *c, const char *value,
			       struct err *e)
{
	long rank;

	if (parse_long(value, 0, WIRE_NODES_MAX - 1, "", &rank, NULL) < 0)
		return rdzv_conf_refuse(e, "rank", value,
					"give a node rank, 0 and up");
	if (!c->node_rank_given)
		c->node_rank = rank;
	c->node_rank_given = 1;
	return 0;
}

static int rdzv_conf_take_is_host(struct config *c, const char *value,
				  struct err *e)
{
	static const char *const yes[] = {"1", "true", "t", "yes", "y"};
	static const char *const no[] = {"0", "false", "f", "no", "n"};

	for (int i = 0; i < 5; i++) {
		if (strcasecmp(value, yes[i]) == 0 ||
		    strcasecmp(value, no[i]) == 0) {
			c->is_host = strcasecmp(value, yes[i]) == 0;
			return 0;
		}
	}
	return rdzv_conf_refuse(e, "is_host", value, "give 1 or 0");
}

static int rdzv_conf_take(struct config *c, const char *key, const char *value,
			  int *join_timeout, struct err *e)
{
	const char *why = "";
	double unused;
	int rc;

	if (strcmp(key, "join_timeout") == 0) {
		*join_timeout = 1;
		return rdzv_conf_take_default(key, value, 0.001,
					      c->rdzv_timeout_given,
					      &c->rdzv_timeout_s, e);
	}
	/* the static backend's name for it, of no effect with c10d */
	if (strcmp(key, "timeout") == 0)
		return rdzv_conf_take_default(key, value, 0.001,
					      c->rdzv_timeout_given ||
						      *join_timeout ||
						      strcmp(c->backend,
							     "c10d") == 0,
					      &c->rdzv_timeout_s, e);
	if (strcmp(key, "last_call_timeout") == 0)
		return rdzv_conf_take_default(key, value, 0, c->last_call_given,
					      &c->last_call_s, e);
	if (strcmp(key, "heartbeat_timeout") == 0)
		return rdzv_conf_take_default(key, value, 0.1,
					      c->heartbeat_given,
					      &c->heartbeat_s, e);
	if (strcmp(key, "reconnect_timeout") == 0) {
		c->reconnect_given = 1;
		return rdzv_conf_take_seconds(key, value, 0, &c->reconnect_s,
					      e);
	}
	/* valid in torchrun; we have no such timeout */
	if (strcmp(key, "close_timeout") == 0 ||
	    strcmp(key, "read_timeout") == 0)
		return rdzv_conf_take_seconds(key, value, 0, &unused, e);
	if (strcmp(key, "rank") == 0)
		return rdzv_conf_take_rank(c, value, e);
	if (strcmp(key, "is_host") == 0)
		return rdzv_conf_take_is_host(c, value, e);
	if (strcmp(key, "store_type") == 0) {
		if (strcmp(value, "tcp") == 0)
			return 0;
		return rdzv_conf_refuse(
			e, key, value,
			"ddprun's rendezvous only uses TCP; leave it out");
	}
	if (c->etcd.members) {
		rc = etcd_options_take(&c->etcd, key, value, &why);
		if (rc)
			return rc < 0 ? rdzv_conf_refuse(e, key, value,
							 why) : 0;
	}
	log_warn("--rdzv-conf: %s is ignored: ddprun has no use for it", key);
	return 0;
}

/* Copies n bytes of text without the blanks around them; -1: too long. */
static int rdzv_conf_copy_word(char out[WORD_MAX_BYTES], const char *text,
			       size_t n)
{
	while (n && strchr(" \t", text[0])) {
		text++;
		n--;
	}
	while (n && strchr(" \t", text[n - 1]))
		n--;
	if (n >= WORD_MAX_BYTES)
		return -1;
	memcpy(out, text, n);
	out[n] = '\0';
	return 0;
}

/* Quotes around the whole text, which a YAML file can leave, are dropped. */
static struct slice rdzv_conf_unquote(const char *text)
{
	size_t n = strlen(text);

	if (n >= 2 && (text[0] == '\'' || text[0] == '"') &&
	    text[n - 1] == text[0])
		return SLICE(text + 1, n - 2);
	return SLICE(text, n);
}

static size_t rdzv_conf_span(struct slice text, const char *stops)
{
	size_t n = strcspn(text.data, stops);

	return n < text.len ? n : text.len;
}

int rdzv_conf_apply(struct config *c, const char *whole, struct err *e)
{
	char key[WORD_MAX_BYTES], value[WORD_MAX_BYTES];
	struct slice text = rdzv_conf_unquote(whole);
	int join_timeout = 0;

	if (strspn(text.data, " \t") >= text.len)
		return 0;
	for (;;) {
		size_t len = rdzv_conf_span(text, ",");
		size_t name = rdzv_conf_span(text, "=,");
		int rc;

		if (name >= len ||
		    rdzv_conf_copy_word(key, text.data, name) < 0 || !*key ||
		    rdzv_conf_copy_word(value, text.data + name + 1,
					len - name - 1) < 0 ||
		    !*value)
			return err_set(e, ERR_USAGE, "--rdzv-conf: '%.*s': "
				       "give KEY=VALUE,KEY=VALUE",
				       (int)(len > 80 ? 80 : len), text.data);
		rc = rdzv_conf_take(c, key, value, &join_timeout, e);
		if (rc < 0)
			return rc;
		if (len == text.len)
			return 0;
		text = SLICE(text.data + len + 1, text.len - len - 1);
	}
}
