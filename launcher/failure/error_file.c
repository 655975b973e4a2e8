/* error_file.c: reads and writes torchrun's error files. */
#include "launcher/failure/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_wait.h"
#include "base/json.h"
#include "base/utf8.h"

enum { CLEAN_MAX = 1 << 20 };

/* ---- Reading ---- */

static int error_file_read_text(const char *path, struct buf *json,
				struct err *e)
{
	char server[FILE_WAIT_SERVER_MAX];
	struct stat st;
	int rc = file_wait_read(path, ERROR_FILE_MAX, &st, json);

	if (rc == -ENOENT)
		return 0;
	if (rc == -ETIMEDOUT)
		return err_set(e, rc, "%s cannot be read: its file system "
			       "(%s) does not answer", path,
			       file_wait_server(path, server));
	if (rc < 0)
		return err_set(e, rc, "%s: %s", path, strerror(-rc));
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_DATA, "%s is not a regular file", path);
	if (st.st_size == 0)
		return err_set(e, ERR_DATA, "%s is empty", path);
	if (st.st_size > ERROR_FILE_MAX)
		return err_set(e, ERR_DATA, "%s has %lld bytes, more than the "
			       "limit of %d", path, (long long)st.st_size,
			       ERROR_FILE_MAX);
	if (json->failed)
		return err_set(e, json->failed, "%s: too large", path);
	return 1;
}

int error_file_read(const char *path, struct buf *json, struct err *e)
{
	struct error_file f;
	struct err why = ERR_INIT;
	int rc;

	if (!*path)
		return 0;
	rc = error_file_read_text(path, json, e);
	if (rc == 0)
		return 0;
	if (rc > 0) {
		rc = error_file_parse(&f, SLICE(json->data, json->len), &why);
		if (rc < 0)
			rc = err_set(e, rc, "%s %s", path, why.text);
		else
			error_file_release(&f);
	}
	if (rc < 0) {
		buf_reset(json);
		return rc;
	}
	return 1;
}

static char *error_file_text(const struct json *j, const cJSON *object,
			     const char *name)
{
	const cJSON *item = j->get(object, name);

	return j->is_string(item) ? strdup(item->valuestring) : NULL;
}

/* A number, or a string with a number in it. */
static int64_t error_file_number(const struct json *j, const cJSON *object,
				 const char *name)
{
	const cJSON *item = j->get(object, name);

	if (j->is_string(item))
		return strtoll(item->valuestring, NULL, 10);
	if (!j->is_number(item) || item->valuedouble < 0 ||
	    item->valuedouble > 1e15)
		return 0;
	return (int64_t)item->valuedouble;
}

static int error_file_parse_object(struct error_file *f, const struct json *j,
				   const cJSON *all)
{
	const cJSON *message = j->get(all, "message"), *extra;

	if (j->is_string(message)) {
		f->message = strdup(message->valuestring);
		f->timestamp = error_file_number(j, all, "timestamp");
		return 1;
	}
	if (!j->is_object(message))
		return 0;
	extra = j->get(message, "extraInfo");
	f->message = error_file_text(j, message, "message");
	f->callstack = error_file_text(j, extra, "py_callstack");
	f->timestamp = error_file_number(j, extra, "timestamp");
	return 1;
}

int error_file_parse(struct error_file *f, struct slice json, struct err *e)
{
	const struct json *j = json_load(e);
	cJSON *all;
	int known;

	*f = (struct error_file){NULL, NULL, 0};
	if (!j)
		return ERR_SYSTEM;
	all = j->parse(json.data, json.len);
	if (!all)
		return err_set(e, ERR_DATA, "is truncated or not JSON");
	known = error_file_parse_object(f, j, all);
	j->release(all);
	if (!known)
		return err_set(e, ERR_DATA, "has no \"message\" that is a "
			       "string or an object");
	return 0;
}

void error_file_release(struct error_file *f)
{
	free(f->message);
	free(f->callstack);
	*f = (struct error_file){NULL, NULL, 0};
}

/* ---- Writing ---- */

/* A link, a FIFO or a device, which a rename would destroy: as root it could
 * replace /dev/null. */
static int error_file_is_special(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* Never waits: a FIFO without a reader is an error. */
static int error_file_overwrite(const char *path, const char *text,
				struct err *e)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK |
		      O_NOCTTY);
	int rc = fd < 0 ? -errno : file_write_all(fd, text, strlen(text));

	rc = file_close(fd, rc);
	return rc == 0 ? 0 : err_set(e, rc, "cannot write %s: %s", path,
				     strerror(-rc));
}

int error_file_replace(const char *path, const char *text, struct err *e)
{
	size_t size = strlen(path) + 32;
	char *beside = malloc(size);
	int fd = -1, rc = 0;

	if (!beside)
		return err_no_memory(e, "%s", path);
	if (error_file_is_special(path)) {
		free(beside);
		return error_file_overwrite(path, text, e);
	}
	snprintf(beside, size, "%s.%ld.tmp", path, (long)getpid());
	fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		  0666);
	rc = fd < 0 ? -errno : file_write_all(fd, text, strlen(text));
	rc = file_close(fd, rc);
	if (rc == 0 && rename(beside, path) < 0)
		rc = -errno;
	if (rc < 0 && fd >= 0)
		unlink(beside);
	if (rc < 0)
		err_set(e, rc, "cannot write %s: %s", path, strerror(-rc));
	free(beside);
	return rc;
}

static cJSON *error_file_make(const struct json *j, const char *text,
			      int64_t now)
{
	cJSON *all = j->object(), *message, *extra;
	char seconds[32];

	snprintf(seconds, sizeof(seconds), "%lld", (long long)now);
	message = j->add_object(all, "message");
	j->add_string(message, "message", text);
	extra = j->add_object(message, "extraInfo");
	j->add_string(extra, "timestamp", seconds);
	return all;
}

int error_file_forward(const char *path, struct slice json, struct slice text,
		       int error_code, int64_t now, struct err *e)
{
	const struct json *j = json_load(e);
	cJSON *all = NULL, *message;
	char *plain = NULL, *printed = NULL;
	struct buf clean = BUF_INIT(CLEAN_MAX);
	int rc;

	if (!j)
		return ERR_SYSTEM;
	if (json.len)
		all = j->parse(json.data, json.len);
	if (!all) {
		plain = strndup(text.data, text.len);
		all = plain ? error_file_make(j, plain, now) : NULL;
	}
	/* torchrun adds errorCode to the form with an object */
	message = j->get(all, "message");
	if (j->is_object(message)) {
		j->drop(message, "errorCode");
		j->add_number(message, "errorCode", error_code);
	}
	printed = all ? j->print(all) : NULL;
	/* JSON must be UTF-8, which a program's text may not be */
	if (printed)
		utf8_put(&clean, SLICE_STR(printed));
	buf_put(&clean, "", 1);
	rc = printed && !clean.failed
		     ? error_file_replace(path, clean.data, e)
		     : err_no_memory(e, "%s", path);
	buf_release(&clean);
	j->free(printed);
	j->release(all);
	free(plain);
	return rc;
}
