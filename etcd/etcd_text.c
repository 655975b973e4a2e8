/* etcd_text.c: JSON out by hand (base64 and numbers need no escapes), JSON in
 * by cJSON, base64 by libsodium. */
#include "etcd/etcd_text.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#include "base/json.h"

#define BASE64 sodium_base64_VARIANT_ORIGINAL

/* ---- out ---- */

static void etcd_text_put_text(struct buf *out, const char *text)
{
	buf_put(out, text, strlen(text));
}

/* "name":"base64" */
static void etcd_text_put_bytes(struct buf *out, const char *name,
				struct slice s)
{
	size_t n = sodium_base64_ENCODED_LEN(s.len, BASE64);
	char *to;

	buf_printf(out, "\"%s\":\"", name);
	to = buf_reserve(out, n);
	if (!to)
		return;
	sodium_bin2base64(to, n, (const unsigned char *)s.data, s.len, BASE64);
	out->len += n - 1; /* without the NUL */
	etcd_text_put_text(out, "\"");
}

static void etcd_text_put_number(struct buf *out, const char *name, int64_t v)
{
	buf_printf(out, ",\"%s\":\"%lld\"", name, (long long)v);
}

static void etcd_text_put_keys(struct buf *out, struct slice key,
			       struct slice end)
{
	etcd_text_put_bytes(out, "key", key);
	if (!end.len)
		return;
	etcd_text_put_text(out, ",");
	etcd_text_put_bytes(out, "range_end", end);
}

static void etcd_text_put_range_fields(struct buf *out, struct slice key,
				       struct slice end, int64_t limit,
				       int64_t revision)
{
	etcd_text_put_text(out, "{");
	etcd_text_put_keys(out, key, end);
	etcd_text_put_number(out, "limit", limit);
	etcd_text_put_number(out, "revision", revision);
	etcd_text_put_text(
		out, ",\"sort_order\":\"ASCEND\",\"sort_target\":\"KEY\"}");
}

void etcd_put_range(struct buf *out, struct slice key, struct slice end,
		    int64_t limit, int64_t revision)
{
	etcd_text_put_range_fields(out, key, end, limit, revision);
}

void etcd_put_grant(struct buf *out, int64_t id, int64_t ttl_s)
{
	buf_printf(out, "{\"ID\":\"%lld\",\"TTL\":\"%lld\"}", (long long)id,
		   (long long)ttl_s);
}

void etcd_put_lease(struct buf *out, int64_t id)
{
	buf_printf(out, "{\"ID\":\"%lld\"}", (long long)id);
}

void etcd_put_watch(struct buf *out, struct slice key, struct slice end,
		    int64_t revision)
{
	etcd_text_put_text(out, "{\"create_request\":{");
	etcd_text_put_keys(out, key, end);
	etcd_text_put_number(out, "start_revision", revision);
	etcd_text_put_text(out, "}}");
}

static void etcd_text_put_escaped(struct buf *out, const char *text)
{
	for (const char *p = text; *p; p++) {
		if (*p == '"' || *p == '\\' || (unsigned char)*p < 0x20)
			buf_printf(out, "\\u%04x", (unsigned char)*p);
		else
			buf_put(out, p, 1);
	}
}

void etcd_put_login(struct buf *out, const char *user, const char *password)
{
	etcd_text_put_text(out, "{\"name\":\"");
	etcd_text_put_escaped(out, user);
	etcd_text_put_text(out, "\",\"password\":\"");
	etcd_text_put_escaped(out, password);
	etcd_text_put_text(out, "\"}");
}

void etcd_txn_init(struct etcd_txn *t, size_t max)
{
	buf_init(&t->compare, max);
	buf_init(&t->then, max);
	buf_init(&t->otherwise, max);
}

void etcd_txn_release(struct etcd_txn *t)
{
	buf_release(&t->compare);
	buf_release(&t->then);
	buf_release(&t->otherwise);
}

static struct buf *etcd_text_next_item(struct buf *list)
{
	if (list->len)
		etcd_text_put_text(list, ",");
	return list;
}

void etcd_txn_if_modified(struct etcd_txn *t, struct slice key,
			  int64_t revision)
{
	struct buf *out = etcd_text_next_item(&t->compare);

	etcd_text_put_text(out, "{\"target\":\"MOD\",\"result\":\"EQUAL\",");
	etcd_text_put_bytes(out, "key", key);
	etcd_text_put_number(out, "mod_revision", revision);
	etcd_text_put_text(out, "}");
}

void etcd_txn_put(struct etcd_txn *t, struct slice key, struct slice value,
		  int64_t lease)
{
	struct buf *out = etcd_text_next_item(&t->then);

	etcd_text_put_text(out, "{\"request_put\":{");
	etcd_text_put_bytes(out, "key", key);
	etcd_text_put_text(out, ",");
	etcd_text_put_bytes(out, "value", value);
	etcd_text_put_number(out, "lease", lease);
	etcd_text_put_text(out, "}}");
}

void etcd_txn_delete(struct etcd_txn *t, struct slice key, struct slice end)
{
	struct buf *out = etcd_text_next_item(&t->then);

	etcd_text_put_text(out, "{\"request_delete_range\":{");
	etcd_text_put_keys(out, key, end);
	etcd_text_put_text(out, "}}");
}

void etcd_txn_else_get(struct etcd_txn *t, struct slice key, struct slice end,
		       int64_t limit)
{
	struct buf *out = etcd_text_next_item(&t->otherwise);

	etcd_text_put_text(out, "{\"request_range\":");
	etcd_text_put_range_fields(out, key, end, limit, 0);
	etcd_text_put_text(out, "}");
}

static void etcd_text_put_list(struct buf *out, const char *name,
			       const struct buf *list)
{
	buf_printf(out, "\"%s\":[", name);
	buf_put(out, list->data, list->len);
	etcd_text_put_text(out, "]");
	if (list->failed)
		out->failed = list->failed;
}

void etcd_put_txn(struct buf *out, const struct etcd_txn *t)
{
	etcd_text_put_text(out, "{");
	etcd_text_put_list(out, "compare", &t->compare);
	etcd_text_put_text(out, ",");
	etcd_text_put_list(out, "success", &t->then);
	etcd_text_put_text(out, ",");
	etcd_text_put_list(out, "failure", &t->otherwise);
	etcd_text_put_text(out, "}");
}

/* ---- in ---- */

/* A running parse. Slices point into the reply's memory, which must not move,
 * so it is as large as the JSON from the start. */
struct parse {
	const struct json *json;
	struct etcd_reply *reply;
	int bad;
};

static const cJSON *etcd_text_get(struct parse *p, const cJSON *o,
				  const char *name)
{
	return o && p->json->is_object(o) ? p->json->get(o, name) : NULL;
}

static int64_t etcd_text_get_number(struct parse *p, const cJSON *o,
				    const char *name)
{
	const cJSON *v = etcd_text_get(p, o, name);
	char *end;
	int64_t n;

	if (!v)
		return 0;
	if (p->json->is_number(v)) {
		/* beyond that range the conversion is undefined */
		if (v->valuedouble >= -0x1p63 && v->valuedouble < 0x1p63)
			return (int64_t)v->valuedouble;
		p->bad = 1;
		return 0;
	}
	if (!p->json->is_string(v)) {
		p->bad = 1;
		return 0;
	}
	errno = 0;
	n = strtoll(v->valuestring, &end, 10);
	p->bad |= errno || *end || end == v->valuestring;
	return n;
}

static int etcd_text_get_flag(struct parse *p, const cJSON *o, const char *name)
{
	const cJSON *v = etcd_text_get(p, o, name);

	return v && (v->type & 0xff) == cJSON_True;
}

static struct slice etcd_text_get_text(struct parse *p, const cJSON *o,
				       const char *name)
{
	const cJSON *v = etcd_text_get(p, o, name);
	struct buf *m = &p->reply->memory;
	size_t at = m->len;

	if (!v || !p->json->is_string(v))
		return SLICE("", 0);
	buf_put(m, v->valuestring, strlen(v->valuestring));
	return SLICE(m->data + at, m->len - at);
}

static struct slice etcd_text_get_bytes(struct parse *p, const cJSON *o,
					const char *name)
{
	const cJSON *v = etcd_text_get(p, o, name);
	struct buf *m = &p->reply->memory;
	size_t len, n;
	char *to;

	if (!v)
		return SLICE("", 0);
	if (!p->json->is_string(v)) {
		p->bad = 1;
		return SLICE("", 0);
	}
	len = strlen(v->valuestring);
	to = buf_reserve(m, len);
	if (!to || sodium_base642bin((unsigned char *)to, len, v->valuestring,
				     len, NULL, &n, NULL, BASE64) < 0) {
		p->bad = 1;
		return SLICE("", 0);
	}
	m->len += n;
	return SLICE(to, n);
}

static void etcd_text_read_kv(struct parse *p, const cJSON *kv, int deleted)
{
	struct etcd_reply *r = p->reply;

	r->kvs[r->nkvs++] = (struct etcd_kv){
		.key = etcd_text_get_bytes(p, kv, "key"),
		.value = etcd_text_get_bytes(p, kv, "value"),
		.created = etcd_text_get_number(p, kv, "create_revision"),
		.modified = etcd_text_get_number(p, kv, "mod_revision"),
		.lease = etcd_text_get_number(p, kv, "lease"),
		.deleted = deleted,
	};
}

/* How many kvs a list has, to allocate room for all. */
static size_t etcd_text_count(const cJSON *list)
{
	size_t n = 0;

	for (const cJSON *i = list ? list->child : NULL; i; i = i->next)
		n++;
	return n;
}

static void etcd_text_reserve_kvs(struct parse *p, const cJSON *list)
{
	struct etcd_reply *r = p->reply;
	size_t n = r->nkvs + etcd_text_count(list) + 1;
	struct etcd_kv *kvs = realloc(r->kvs, n * sizeof(*kvs));

	if (kvs)
		r->kvs = kvs;
	else
		p->bad = 1;
}

static void etcd_text_read_range(struct parse *p, const cJSON *range)
{
	const cJSON *list = etcd_text_get(p, range, "kvs");

	etcd_text_reserve_kvs(p, list);
	for (const cJSON *i = list ? list->child : NULL; i && !p->bad;
	     i = i->next)
		etcd_text_read_kv(p, i, 0);
	p->reply->more |= etcd_text_get_flag(p, range, "more");
}

static void etcd_text_read_events(struct parse *p, const cJSON *list)
{
	const cJSON *type;

	etcd_text_reserve_kvs(p, list);
	for (const cJSON *i = list ? list->child : NULL; i && !p->bad;
	     i = i->next) {
		type = etcd_text_get(p, i, "type");
		etcd_text_read_kv(p, etcd_text_get(p, i, "kv"),
				  type && p->json->is_string(type) &&
					  strcmp(type->valuestring, "DELETE") ==
						  0);
	}
}

/* A stream wraps its replies in "result" or "error". A failed call has "error",
 * "code" and "message" side by side; from etcd 3.6 on, and in some
 * distributions' builds, only "code" and "message". */
static void etcd_text_read_error(struct parse *p, const cJSON *root)
{
	const cJSON *error = etcd_text_get(p, root, "error");
	const cJSON *in = error && p->json->is_object(error) ? error : root;
	struct etcd_reply *r = p->reply;

	if (!error && !etcd_text_get(p, root, "code"))
		return;
	r->error = etcd_text_get_text(p, in, "message");
	if (!r->error.len)
		r->error = etcd_text_get_text(p, in, "error");
	r->code = (int)etcd_text_get_number(p, in, "code");
	if (!r->code)
		r->code = (int)etcd_text_get_number(p, in, "grpc_code");
	p->bad |= !r->error.len;
}

static void etcd_text_read_root(struct parse *p, const cJSON *root)
{
	const cJSON *o = etcd_text_get(p, root, "result"), *list;
	struct etcd_reply *r = p->reply;

	if (!o)
		o = root;
	etcd_text_read_error(p, root);
	r->revision = etcd_text_get_number(p, etcd_text_get(p, o, "header"),
					   "revision");
	r->succeeded = etcd_text_get_flag(p, o, "succeeded");
	r->lease = etcd_text_get_number(p, o, "ID");
	r->ttl_s = etcd_text_get_number(p, o, "TTL");
	r->canceled = etcd_text_get_flag(p, o, "canceled");
	r->compacted = etcd_text_get_number(p, o, "compact_revision");
	r->token = etcd_text_get_text(p, o, "token");
	etcd_text_read_range(p, o);
	list = etcd_text_get(p, o, "responses");
	for (const cJSON *i = list ? list->child : NULL; i && !p->bad;
	     i = i->next)
		etcd_text_read_range(p, etcd_text_get(p, i, "response_range"));
	etcd_text_read_events(p, etcd_text_get(p, o, "events"));
}

int etcd_reply_parse(struct etcd_reply *r, struct slice text, struct err *e)
{
	struct parse p = {.json = json_load(e), .reply = r};
	cJSON *root;
	char *room;

	*r = (struct etcd_reply){.nkvs = 0};
	buf_init(&r->memory, text.len + 1);
	if (!p.json)
		return ERR_SYSTEM;
	root = p.json->parse(text.data, text.len);
	room = buf_reserve(&r->memory, text.len + 1);
	if (root && room && p.json->is_object(root))
		etcd_text_read_root(&p, root);
	else
		p.bad = 1;
	p.json->release(root);
	if (!p.bad)
		return 0;
	etcd_reply_release(r);
	return err_set(e, ERR_PROTOCOL,
		       "unexpected reply, is this an etcd endpoint? %.*s",
		       (int)(text.len > 200 ? 200 : text.len), text.data);
}

void etcd_reply_release(struct etcd_reply *r)
{
	free(r->kvs);
	r->kvs = NULL;
	r->nkvs = 0;
	buf_release(&r->memory);
}
