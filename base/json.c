/* json.c: cJSON by dlopen. */
#include "base/json.h"

#include <dlfcn.h>
#include <stddef.h>

#define LIBRARY "libcjson.so.1"

static const struct {
	const char *name;
	size_t offset;
} symbols[] = {
#define CALL(member, symbol) {symbol, offsetof(struct json, member)}
	CALL(parse, "cJSON_ParseWithLength"),
	CALL(print, "cJSON_PrintUnformatted"),
	CALL(print_pretty, "cJSON_Print"),
	CALL(release, "cJSON_Delete"),
	CALL(free, "cJSON_free"),
	CALL(get, "cJSON_GetObjectItemCaseSensitive"),
	CALL(is_string, "cJSON_IsString"),
	CALL(is_object, "cJSON_IsObject"),
	CALL(is_number, "cJSON_IsNumber"),
	CALL(object, "cJSON_CreateObject"),
	CALL(number, "cJSON_CreateNumber"),
	CALL(string, "cJSON_CreateString"),
	CALL(add_object, "cJSON_AddObjectToObject"),
	CALL(add_array, "cJSON_AddArrayToObject"),
	CALL(add_number, "cJSON_AddNumberToObject"),
	CALL(add_string, "cJSON_AddStringToObject"),
	CALL(add_bool, "cJSON_AddBoolToObject"),
	CALL(add_null, "cJSON_AddNullToObject"),
	CALL(add_item, "cJSON_AddItemToObject"),
	CALL(append, "cJSON_AddItemToArray"),
	CALL(drop, "cJSON_DeleteItemFromObjectCaseSensitive"),
#undef CALL
};

const struct json *json_load(struct err *e)
{
	static struct json json;
	static int loaded;
	void *library;

	if (loaded)
		return &json;
	library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		err_set(e, ERR_SYSTEM, "JSON cannot be read or written: %s "
			"(Debian's package is libcjson1)", dlerror());
		return NULL;
	}
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *symbol = dlsym(library, symbols[i].name);

		if (!symbol) {
			err_set(e, ERR_SYSTEM, LIBRARY " has no %s",
				symbols[i].name);
			dlclose(library);
			return NULL;
		}
		*(void **)((char *)&json + symbols[i].offset) = symbol;
	}
	loaded = 1;
	return &json;
}
