/* record_error.c: writes the error file that the launcher reads. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"
#include "worker-sdk/ddp.h"

enum {
	MESSAGE_MAX = 32 << 10,
	JSON_MAX = 63 << 10, /* launchers read at most this much */
	PATH_SIZE = 4096,
};

static void record_error_put_escaped(struct buf *out, struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.data[i];

		if (c == '"' || c == '\\')
			buf_printf(out, "\\%c", c);
		else if (c == '\n')
			buf_put(out, "\\n", 2);
		else if (c == '\t')
			buf_put(out, "\\t", 2);
		else if (c < 0x20)
			buf_printf(out, "\\u%04x", c);
		else
			buf_put(out, &text.data[i], 1);
	}
}

/* At most MESSAGE_MAX bytes, without a partial character at the end. */
static struct slice record_error_shorten(const char *message)
{
	size_t n = strlen(message);

	if (n > MESSAGE_MAX) {
		n = MESSAGE_MAX;
		while (n > 0 && ((unsigned char)message[n] & 0xc0) == 0x80 &&
		       n > MESSAGE_MAX - 4)
			n--;
	}
	return SLICE(message, n);
}

static void record_error_put_json(struct buf *out, struct slice message)
{
	struct buf clean = BUF_INIT(4 * MESSAGE_MAX);

	utf8_put(&clean, message);
	buf_printf(out, "{\"message\": {\"message\": \"");
	record_error_put_escaped(out, SLICE(clean.data, clean.len));
	buf_printf(out, "\", \"extraInfo\": {\"timestamp\": \"%lld\"}}}\n",
		   (long long)time(NULL));
	if (clean.failed)
		out->failed = clean.failed;
	buf_release(&clean);
}

/* link() fails if the file exists: the first message stays. */
static int record_error_link(const char *beside, const char *path)
{
	if (link(beside, path) == 0 || errno == EEXIST)
		return 0;
	/* the file system has no hard links */
	if (access(path, F_OK) == 0)
		return 0;
	return rename(beside, path) < 0 ? -errno : 0;
}

static int record_error_write_file(const char *path, const struct buf *json)
{
	char beside[PATH_SIZE];
	int n = snprintf(beside, sizeof(beside), "%s.%ld.XXXXXX", path,
			 (long)getpid());
	int fd, rc;

	if (n < 0 || n >= PATH_SIZE)
		return -ENAMETOOLONG;
	fd = mkostemp(beside, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = file_close(fd, file_write_all(fd, json->data, json->len));
	if (rc == 0)
		rc = record_error_link(beside, path);
	unlink(beside);
	return rc;
}

int ddp_record_error(const char *message)
{
	const char *path = getenv("TORCHELASTIC_ERROR_FILE");
	struct slice text = record_error_shorten(message ? message : "");
	struct buf json = BUF_INIT(JSON_MAX);
	int rc;

	if (!path || !*path)
		return 0;
	record_error_put_json(&json, text);
	/* escaping made it too long: write as much as surely fits */
	if (json.failed == -ENOBUFS) {
		buf_reset(&json);
		record_error_put_json(&json, SLICE(text.data, text.len / 4));
	}
	rc = json.failed ? json.failed : record_error_write_file(path, &json);
	buf_release(&json);
	return rc;
}
