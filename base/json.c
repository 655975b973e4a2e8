/* json.c: the functions of cJSON that we call, and what we add to them. */
#include "base/json.h"

#include <errno.h>
#include <stdio.h>

#include "base/dynlib.h"
#include "base/utf8.h"

enum { TEXT_MAX = 1 << 20 };

static const struct dynlib_symbol rows[] = {
	DYNLIB_SYMBOL(struct json, parse, "cJSON_ParseWithLength"),
	DYNLIB_SYMBOL(struct json, print, "cJSON_PrintUnformatted"),
	DYNLIB_SYMBOL(struct json, print_pretty, "cJSON_Print"),
	DYNLIB_SYMBOL(struct json, release, "cJSON_Delete"),
	DYNLIB_SYMBOL(struct json, free, "cJSON_free"),
	DYNLIB_SYMBOL(struct json, get, "cJSON_GetObjectItemCaseSensitive"),
	DYNLIB_SYMBOL(struct json, is_string, "cJSON_IsString"),
	DYNLIB_SYMBOL(struct json, is_object, "cJSON_IsObject"),
	DYNLIB_SYMBOL(struct json, is_number, "cJSON_IsNumber"),
	DYNLIB_SYMBOL(struct json, object, "cJSON_CreateObject"),
	DYNLIB_SYMBOL(struct json, number, "cJSON_CreateNumber"),
	DYNLIB_SYMBOL(struct json, string, "cJSON_CreateString"),
	DYNLIB_SYMBOL(struct json, add_object, "cJSON_AddObjectToObject"),
	DYNLIB_SYMBOL(struct json, add_array, "cJSON_AddArrayToObject"),
	DYNLIB_SYMBOL(struct json, add_number, "cJSON_AddNumberToObject"),
	DYNLIB_SYMBOL(struct json, add_string, "cJSON_AddStringToObject"),
	DYNLIB_SYMBOL(struct json, add_bool, "cJSON_AddBoolToObject"),
	DYNLIB_SYMBOL(struct json, add_null, "cJSON_AddNullToObject"),
	DYNLIB_SYMBOL(struct json, add_item, "cJSON_AddItemToObject"),
	DYNLIB_SYMBOL(struct json, append, "cJSON_AddItemToArray"),
	DYNLIB_SYMBOL(struct json, drop,
		      "cJSON_DeleteItemFromObjectCaseSensitive"),
};

static const struct dynlib cjson = {
	.soname = "libcjson.so.1",
	.without = "JSON cannot be read or written",
	.remedy = "package libcjson1 on Debian",
	.rows = rows,
	.n = sizeof(rows) / sizeof(*rows),
};

const struct json *json_load(struct err *e)
{
	static struct json json;
	static int loaded;

	if (!loaded)
		loaded = dynlib_load(&cjson, &json, e) != NULL;
	return loaded ? &json : NULL;
}

void json_add_text(const struct json *j, cJSON *to, const char *name,
		   struct slice text)
{
	struct buf clean = BUF_INIT(TEXT_MAX);

	utf8_put(&clean, text);
	buf_put(&clean, "", 1);
	if (clean.failed)
		j->add_null(to, name);
	else
		j->add_string(to, name, clean.data);
	buf_release(&clean);
}

void json_add_text_or_null(const struct json *j, cJSON *to, const char *name,
			   struct slice text)
{
	if (text.len)
		json_add_text(j, to, name, text);
	else
		j->add_null(to, name);
}

void json_put_text(struct buf *out, const struct json *j, struct slice text)
{
	struct buf clean = BUF_INIT(TEXT_MAX);
	cJSON *string;
	char *quoted;

	utf8_put(&clean, text);
	buf_put(&clean, "", 1);
	string = clean.failed ? NULL : j->string(clean.data);
	quoted = string ? j->print(string) : NULL;
	if (quoted)
		buf_put(out, quoted, strlen(quoted));
	else if (!out->failed)
		out->failed = -ENOMEM;
	j->free(quoted);
	j->release(string);
	buf_release(&clean);
}

int json_put(struct buf *out, const struct json *j, cJSON *all, struct err *e)
{
	char *text = j->print_pretty(all);

	j->release(all);
	if (!text)
		return err_no_memory(e, "JSON");
	buf_put(out, text, strlen(text));
	buf_put(out, "\n", 1);
	j->free(text);
	return out->failed;
}

void json_append_lines(const struct json *j, cJSON *list, struct slice lines)
{
	const char *at = lines.data, *end = at + lines.len, *line_end;
	char text[1024];

	for (; at && at < end; at = line_end + 1) {
		line_end = memchr(at, '\n', (size_t)(end - at));
		if (!line_end)
			break;
		snprintf(text, sizeof(text), "%.*s", (int)(line_end - at), at);
		j->append(list, j->string(text));
	}
}
