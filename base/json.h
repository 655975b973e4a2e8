/* json.h: cJSON, loaded on first use. Most jobs never need it, and linking it
 * would cost a tenth of ddprun's start-up time. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <cjson/cJSON.h>

#include "base/buf.h"
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

/* NULL if the library cannot be loaded; e then says what to install. */
const struct json *json_load(struct err *e);

/* Adds text as a string and replaces invalid UTF-8; adds null if memory is
 * short. The second function also adds null for "". */
void json_add_text(const struct json *j, cJSON *to, const char *name,
		   struct slice text);
void json_add_text_or_null(const struct json *j, cJSON *to, const char *name,
			   struct slice text);

/* Appends text as a string in quotes, as json_add_text. out->failed is set if
 * memory is short. */
void json_put_text(struct buf *out, const struct json *j, struct slice text);

/* Appends each line, which ends with a newline, to an array. */
void json_append_lines(const struct json *j, cJSON *list, struct slice lines);

/* Appends `all` as text with a newline, and releases `all`. 0, -ENOMEM or the
 * buffer's error. */
int json_put(struct buf *out, const struct json *j, cJSON *all, struct err *e);

#endif
