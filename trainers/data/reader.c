/* reader.c: zlib reads gzip and plain files, liblzma reads xz. */
#include "trainers/data/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PACKED_MAX = 1 << 17 };
/* xz -9 needs 65 MiB; a file that needs more than this is not a data set of
 * ours */
#define XZ_MEMORY_MAX ((uint64_t)512 << 20)

struct reader_xz {
	lzma_stream stream;
	int fd;
	int ended; /* the file has ended, but not yet its contents */
	uint8_t packed[PACKED_MAX];
};

static int reader_open_gz(struct reader *r, int fd, struct err *e)
{
	r->gz = gzdopen(fd, "rb");
	if (!r->gz) {
		close(fd);
		return err_no_memory(e, "%s", r->path);
	}
	gzbuffer(r->gz, PACKED_MAX);
	return 0;
}

static int reader_open_xz(struct reader *r, int fd, struct err *e)
{
	struct reader_xz *x = calloc(1, sizeof(*x));

	if (!x || lzma_stream_decoder(&x->stream, XZ_MEMORY_MAX,
				      LZMA_CONCATENATED) != LZMA_OK) {
		close(fd);
		free(x);
		return err_no_memory(e, "%s", r->path);
	}
	x->fd = fd;
	r->xz = x;
	return 0;
}

int reader_open(struct reader *r, const char *path, struct err *e)
{
	static const char xz_magic[6] = {(char)0xfd, '7', 'z', 'X', 'Z', 0};
	char head[sizeof(xz_magic)];
	int fd, is_xz;

	memset(r, 0, sizeof(*r));
	r->path = path;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, -errno, "cannot open %s: %s", path,
			       strerror(errno));
	is_xz = pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
		!memcmp(head, xz_magic, sizeof(head));
	return is_xz ? reader_open_xz(r, fd, e) : reader_open_gz(r, fd, e);
}

void reader_close(struct reader *r)
{
	if (r->gz)
		gzclose(r->gz);
	if (r->xz) {
		lzma_end(&r->xz->stream);
		close(r->xz->fd);
		free(r->xz);
	}
	r->gz = NULL;
	r->xz = NULL;
}

static int reader_truncated(const struct reader *r, struct err *e)
{
	return err_set(e, ERR_DATA,
		       "%s is truncated: it ends after %llu unpacked bytes; "
		       "download it again",
		       r->path, r->done);
}

/* Reads at least one byte; 0 at the end, or an error. */
static long reader_read_gz(struct reader *r, void *to, size_t size,
			   struct err *e)
{
	int code = Z_OK;
	int n = gzread(r->gz, to, size < INT_MAX ? (unsigned)size : INT_MAX);
	const char *why;

	if (n > 0)
		return n;
	why = gzerror(r->gz, &code);
	/* a file that lacks only its checksum ends like this as well */
	if (code == Z_BUF_ERROR)
		return reader_truncated(r, e);
	if (n < 0 || code < 0)
		return err_set(e, ERR_DATA,
			       "%s is damaged or cannot be read: %s; download "
			       "it again",
			       r->path,
			       code == Z_ERRNO ? strerror(errno) : why);
	return 0;
}

static const char *reader_xz_error(lzma_ret code)
{
	switch (code) {
	case LZMA_MEM_ERROR: return "no memory";
	case LZMA_MEMLIMIT_ERROR:
		return "unpacking it takes too much memory";
	case LZMA_OPTIONS_ERROR:
		return "its xz options are not supported";
	case LZMA_FORMAT_ERROR:
		return "it is not an xz file";
	default:
		return "its contents do not match its checksums";
	}
}

static int reader_fill_xz(struct reader *r, struct err *e)
{
	struct reader_xz *x = r->xz;
	ssize_t n;

	do
		n = read(x->fd, x->packed, sizeof(x->packed));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_set(e, -errno, "cannot read %s: %s", r->path,
			       strerror(errno));
	x->ended = n == 0;
	x->stream.next_in = x->packed;
	x->stream.avail_in = (size_t)n;
	return 0;
}

static long reader_read_xz(struct reader *r, void *to, size_t size,
			   struct err *e)
{
	struct reader_xz *x = r->xz;
	lzma_ret code = LZMA_OK;

	x->stream.next_out = to;
	x->stream.avail_out = size;
	while (x->stream.avail_out == size && code == LZMA_OK) {
		if (x->stream.avail_in == 0 && !x->ended) {
			int rc = reader_fill_xz(r, e);

			if (rc < 0)
				return rc;
		}
		code = lzma_code(&x->stream, x->ended ? LZMA_FINISH : LZMA_RUN);
	}
	/* bytes unpacked before an error are returned first: the next call
	 * meets the error again */
	if (x->stream.avail_out < size || code == LZMA_STREAM_END)
		return (long)(size - x->stream.avail_out);
	if (code == LZMA_BUF_ERROR)
		return reader_truncated(r, e);
	return err_set(e, ERR_DATA,
		       "%s is damaged or cannot be read: %s; download it again",
		       r->path, reader_xz_error(code));
}

long reader_take(struct reader *r, void *to, size_t size, struct err *e)
{
	size_t done = 0;

	while (done < size) {
		char *at = (char *)to + done;
		long n = r->xz ? reader_read_xz(r, at, size - done, e)
			       : reader_read_gz(r, at, size - done, e);

		if (n < 0)
			return n;
		if (n == 0)
			break;
		done += (size_t)n;
		r->done += (unsigned long long)n;
	}
	return (long)done;
}

int reader_take_all(struct reader *r, void *to, size_t size,
		    unsigned long long whole, struct err *e)
{
	long n = reader_take(r, to, size, e);

	if (n < 0)
		return (int)n;
	if ((size_t)n < size)
		return err_set(e, ERR_DATA,
			       "%s is truncated: it ends after %llu bytes, but "
			       "its header says %llu; download it again",
			       r->path, r->done, whole);
	return 0;
}
