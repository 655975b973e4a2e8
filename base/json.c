/* json.c: cJSON, of which these are called. */
#include "base/json.h"

#include "base/symbols.h"

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
	.rows = rows, .n = sizeof rows / sizeof *rows,
};

const struct json *json_load(struct err *e)
{
	static struct json json;
	static int loaded;

	if (!loaded)
		loaded = symbols_load(&cjson, &json, e) != NULL;
	return loaded ? &json : NULL;
}
