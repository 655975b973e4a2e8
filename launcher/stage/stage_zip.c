/* stage_zip.c: libzstd's simple calls. */
#include "launcher/stage/stage_zip.h"

#include <stdlib.h>
#include <string.h>

#include "base/dynlib.h"

enum { LEVEL = 1, SKIP = 15 };

void stage_zip_open(struct stage_zip *z)
{
	static const struct dynlib_symbol rows[] = {
		DYNLIB_SYMBOL(struct stage_zip, compress, "ZSTD_compress"),
		DYNLIB_SYMBOL(struct stage_zip, decompress, "ZSTD_decompress"),
		DYNLIB_SYMBOL(struct stage_zip, is_error, "ZSTD_isError"),
	};
	static const struct dynlib zstd = {
		"libzstd.so.1", "nothing is compressed",
		"package libzstd1 on Debian", rows,
		sizeof(rows) / sizeof(*rows)};
	const char *wanted = getenv("DDP_STAGE_ZSTD");

	*z = (struct stage_zip){NULL};
	if (!wanted || strcmp(wanted, "0") != 0)
		z->library = dynlib_load(&zstd, z, NULL);
}

/* Files that are compressed already lie side by side: after one such block the
 * next ones are likely the same. */
size_t stage_zip_put(struct stage_zip *z, void *to, const void *from, size_t n)
{
	size_t size;

	if (!z->library || n < 512)
		return 0;
	if (z->skip) {
		z->skip--;
		return 0;
	}
	size = z->compress(to, n, from, n, LEVEL);
	if (!z->is_error(size) && size < n - n / 8)
		return size;
	z->skip = SKIP;
	return 0;
}

int stage_zip_get(struct stage_zip *z, void *to, size_t n, const void *from,
		  size_t size)
{
	return z->library && z->decompress(to, n, from, size) == n ? 0 : -1;
}
