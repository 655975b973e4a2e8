/* rdzv_options.c: what the user says of etcd. */
#include "launcher/membership/rdzv_options.h"

#include <stdio.h>
#include <string.h>

#include "base/option.h"

int etcd_options_is_backend(const char *name)
{
	return strcmp(name, "etcd") == 0 || strcmp(name, "etcd-v2") == 0;
}

/* ---- the members ---- */

static int bad_members(const char *text, const char *why, struct err *e)
{
	return err_set(e, ERR_USAGE, "--rdzv-endpoint '%.300s': %.600s; give "
		       "etcd's members as HOST[:PORT],HOST[:PORT]", text, why);
}

static int take_member(const char *text, const char *word, size_t len,
		       struct endpoint *out, struct err *e)
{
	char one[SOCK_TEXT_MAX];
	struct err why = ERR_INIT;

	if (!len)
		return bad_members(text, "a member is empty", e);
	if (len >= sizeof(one))
		return bad_members(text, "a member's name is too long", e);
	snprintf(one, sizeof(one), "%.*s", (int)len, word);
	if (strstr(one, "://"))
		return bad_members(text,
				   "it must not be a URL (for https, give "
				   "--rdzv-conf protocol=https)",
				   e);
	if (strpbrk(one, " \t/"))
		return bad_members(text, "it contains a blank or a slash", e);
	if (endpoint_parse(out, one, ETCD_OPTIONS_PORT, &why) < 0)
		return bad_members(text, why.text, e);
	if (!out->port)
		return bad_members(text, "a member cannot have port 0", e);
	return 0;
}

int etcd_options_members(const char *text, struct endpoint *out, struct err *e)
{
	const char *word = text;
	int n = 0, rc;

	for (;;) {
		size_t len = strcspn(word, ",");

		if (n == ETCD_OPTIONS_MEMBERS_MAX)
			return bad_members(text, "there are more than 16", e);
		rc = take_member(text, word, len, &out[n], e);
		if (rc < 0)
			return rc;
		n++;
		if (!word[len])
			return n;
		word += len + 1;
	}
}

char *etcd_options_text(const struct etcd_options *p, char text[SOCK_TEXT_MAX])
{
	struct endpoint at[ETCD_OPTIONS_MEMBERS_MAX];
	char one[SOCK_TEXT_MAX];
	int n = etcd_options_members(p->members, at, NULL);
	size_t len = (size_t)snprintf(text, SOCK_TEXT_MAX, "etcd (");

	for (int i = 0; i < n && len < SOCK_TEXT_MAX; i++)
		len += (size_t)snprintf(text + len, SOCK_TEXT_MAX - len,
					"%s%s", i ? ", " : "",
					endpoint_text(&at[i], one));
	if (len + 1 < SOCK_TEXT_MAX)
		snprintf(text + len, SOCK_TEXT_MAX - len, ")");
	return text;
}

/* ---- --rdzv-conf ---- */

static int take_protocol(struct etcd_options *p, const char *value,
			 const char **why)
{
	p->https = strcmp(value, "https") == 0;
	if (p->https || strcmp(value, "http") == 0)
		return 1;
	*why = "give http or https";
	return ERR_USAGE;
}

static int take_file(char *file, const char *value, const char **why)
{
	if (snprintf(file, ETCD_OPTIONS_FILE_MAX, "%s", value) <
	    ETCD_OPTIONS_FILE_MAX)
		return 1;
	*why = "the file's name is too long";
	return ERR_USAGE;
}

int etcd_options_take(struct etcd_options *p, const char *key,
		      const char *value,
		    const char **why)
{
	if (strcmp(key, "protocol") == 0)
		return take_protocol(p, value, why);
	/* the second name of each is etcd-v2's */
	if (strcmp(key, "cacert") == 0 || strcmp(key, "ca_cert") == 0)
		return take_file(p->cacert, value, why);
	if (strcmp(key, "cert") == 0 || strcmp(key, "ssl_cert") == 0)
		return take_file(p->cert, value, why);
	if (strcmp(key, "key") == 0 || strcmp(key, "ssl_cert_key") == 0)
		return take_file(p->key, value, why);
	if (strcmp(key, "ttl") != 0)
		return 0;
	if (parse_long(value, 1, ETCD_OPTIONS_TTL_MAX_S, "", &p->ttl_s,
		       NULL) == 0)
		return 1;
	*why = "give whole seconds, 1 to 3600";
	return ERR_USAGE;
}

int etcd_options_check(const struct etcd_options *p, struct err *e)
{
	struct endpoint at[ETCD_OPTIONS_MEMBERS_MAX];
	int rc = etcd_options_members(p->members, at, e);

	if (rc < 0)
		return rc;
	if (!p->https && (p->cacert[0] || p->cert[0] || p->key[0]))
		return err_set(
			e, ERR_USAGE,
			"--rdzv-conf: cacert, cert and key are for "
			"protocol=https; give that as well, or leave them out");
	if (!p->cert[0] != !p->key[0])
		return err_set(e, ERR_USAGE, "--rdzv-conf: cert and key go "
			       "together: the certificate, and its private "
			       "key; give both or none");
	return 0;
}
