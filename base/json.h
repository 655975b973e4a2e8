/* json.h: cJSON, looked up when it is first needed. Most jobs need none, and a
 * launcher is judged by its start: linked, it costs a tenth of ours. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <cjson/cJSON.h>

#include "base/error.h"

struct json {
	__typeof__(cJSON_ParseWithLength) *parse;
	__typeof__(cJSON_PrintUnformatted) *print;
	__typeof__(cJSON_Print) *print_pretty;
	__typeof__(cJSON_Delete) *release;
	__typeof__(cJSON_free) *free;
	__typeof__(cJSON_GetObjectItemCaseSensitive) *get;
	__typeof__(cJSON_IsString) *is_string;
	__typeof__(cJSON_IsObject) *is_object;
	__typeof__(cJSON_IsNumber) *is_number;
	__typeof__(cJSON_CreateObject) *object;
	__typeof__(cJSON_CreateNumber) *number;
	__typeof__(cJSON_CreateString) *string;
	__typeof__(cJSON_AddObjectToObject) *add_object;
	__typeof__(cJSON_AddArrayToObject) *add_array;
	__typeof__(cJSON_AddNumberToObject) *add_number;
	__typeof__(cJSON_AddStringToObject) *add_string;
	__typeof__(cJSON_AddBoolToObject) *add_bool;
	__typeof__(cJSON_AddNullToObject) *add_null;
	__typeof__(cJSON_AddItemToObject) *add_item;
	__typeof__(cJSON_AddItemToArray) *append;
	__typeof__(cJSON_DeleteItemFromObjectCaseSensitive) *drop;
};

/* NULL where the library cannot be loaded; the text then says what to do. */
const struct json *json_load(struct err *e);

#endif
