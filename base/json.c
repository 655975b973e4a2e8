/* json.c: the functions of cJSON that we call, and what we add to them. */
#include "base/json.h"

#include <errno.h>

#include "base/symbols.h"
#include "base/utf8.h"

enum { TEXT_MAX = 1 << 20 };

static const struct symbol rows[] = {
	SYMBOL(struct json, parse, "cJSON_ParseWithLength"),
	SYMBOL(struct json, print, "cJSON_PrintUnformatted"),
	SYMBOL(struct json, print_pretty, "cJSON_Print"),
	SYMBOL(struct json, release, "cJSON_Delete"),
	SYMBOL(struct json, free, "cJSON_free"),
	SYMBOL(struct json, get, "cJSON_GetObjectItemCaseSensitive"),
	SYMBOL(struct json, is_string, "cJSON_IsString"),
	SYMBOL(struct json, is_object, "cJSON_IsObject"),
	SYMBOL(struct json, is_number, "cJSON_IsNumber"),
	SYMBOL(struct json, object, "cJSON_CreateObject"),
	SYMBOL(struct json, number, "cJSON_CreateNumber"),
	SYMBOL(struct json, string, "cJSON_CreateString"),
	SYMBOL(struct json, add_object, "cJSON_AddObjectToObject"),
	SYMBOL(struct json, add_array, "cJSON_AddArrayToObject"),
	SYMBOL(struct json, add_number, "cJSON_AddNumberToObject"),
	SYMBOL(struct json, add_string, "cJSON_AddStringToObject"),
	SYMBOL(struct json, add_bool, "cJSON_AddBoolToObject"),
	SYMBOL(struct json, add_null, "cJSON_AddNullToObject"),
	SYMBOL(struct json, add_item, "cJSON_AddItemToObject"),
	SYMBOL(struct json, append, "cJSON_AddItemToArray"),
	SYMBOL(struct json, drop, "cJSON_DeleteItemFromObjectCaseSensitive"),
};

static const struct symbols cjson = {
	.soname = "libcjson.so.1",
	.without = "JSON cannot be read or written",
	.remedy = "Debian's package is libcjson1",
	.rows = rows, .n = sizeof(rows) / sizeof(*rows),
};

const struct json *json_load(struct err *e)
{
	static struct json json;
	static int loaded;

	if (!loaded)
		loaded = symbols_load(&cjson, &json, e) != NULL;
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

int json_put(struct buf *out, const struct json *j, cJSON *all, struct err *e)
{
	char *text = j->print_pretty(all);

	j->release(all);
	if (!text)
		return err_set(e, -ENOMEM, "out of memory for JSON");
	buf_put(out, text, strlen(text));
	buf_put(out, "\n", 1);
	j->free(text);
	return out->failed;
}
