/* stage_zip.h: compresses blocks with zstd, which is loaded if this host has
 * it, and leaves blocks alone that hardly become smaller. */
#ifndef LAUNCHER_STAGE_ZIP_H
#define LAUNCHER_STAGE_ZIP_H

#include <stddef.h>

struct stage_zip {
	void *library; /* NULL: none */
	size_t (*compress)(void *to, size_t room, const void *from, size_t n,
			   int level);
	size_t (*decompress)(void *to, size_t room, const void *from, size_t n);
	unsigned (*is_error)(size_t code);
	unsigned skip; /* blocks that are not tried */
};

/* DDP_STAGE_ZSTD=0: nothing is compressed. */
void stage_zip_open(struct stage_zip *z);
/* The size of the compressed block in to, which has room for n bytes; 0: send
 * it as it is. */
size_t stage_zip_put(struct stage_zip *z, void *to, const void *from, size_t n);
/* 0, or -1: from is not a block that becomes n bytes. */
int stage_zip_get(struct stage_zip *z, void *to, size_t n, const void *from,
		  size_t size);

#endif
