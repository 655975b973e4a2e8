/* stage_frame.h: a block of a staged file as it travels from node to node. The
 * node that reads the block seals it once; the others check it and pass on the
 * same bytes. The key belongs to the round and the list, and all nodes of the
 * job have it. The place in the list is authenticated too, so a frame cannot be
 * taken for another one. docs/protocol-stage.txt describes the bytes.
 *
 * Pure, except that zstd and libcrypto are loaded if this host has them. */
#ifndef LAUNCHER_STAGE_FRAME_H
#define LAUNCHER_STAGE_FRAME_H

#include "launcher/stage/stage_aead.h"
#include "launcher/stage/stage_list.h"
#include "rendezvous/auth/cipher.h"

enum {
	STAGE_BLOCK = 256 << 10, /* the most bytes of a file in a frame */
	STAGE_TEXT_MAX = STAGE_BLOCK + STAGE_HASH_SIZE,
	STAGE_FRAME_HEAD = 48,
	STAGE_FRAME_EXTRA = STAGE_FRAME_HEAD + 16,
	STAGE_FRAME_MAX = STAGE_TEXT_MAX + STAGE_FRAME_EXTRA,

	/* flags */
	STAGE_ZIPPED = 1, /* the text is compressed */
	STAGE_LAST = 2,	  /* the file's hash follows its last bytes */
	STAGE_REREAD = 4, /* from a node's copy, not from the source */
};

struct stage_frame {
	uint32_t flags;
	uint32_t size; /* bytes of the file */
	uint32_t file; /* its number, and where the bytes are in it */
	uint64_t at;
};

/* ---- compression ----
 *
 * Compresses blocks with zstd, and leaves blocks alone that hardly become
 * smaller. */

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
/* The next block is of another file, which may differ. */
void stage_zip_try_again(struct stage_zip *z);

/* ---- frames ---- */

struct stage_seal {
	struct proof key;
	struct stage_aead aead;
	struct stage_zip zip;
	char *block; /* STAGE_TEXT_MAX, for compressed blocks */
};

/* token: the round's. -ENOMEM. */
int stage_seal_init(struct stage_seal *s, const struct proof *token,
		    const struct stage_list *list, struct err *e);
void stage_seal_release(struct stage_seal *s);

/* Writes the frame of text, f->size bytes and, if it is the last one, a hash,
 * to `to`, which has room for STAGE_FRAME_MAX. It is compressed if
 * f->flags has STAGE_ZIPPED and it becomes smaller. Returns its size, or an
 * error of random_bytes. */
long stage_frame_seal(struct stage_seal *s, struct stage_frame *f,
		      const char *text, char *to, struct err *e);
/* The size of the frame that begins in; its head into f. 0: its head is not
 * there yet; ERR_PROTOCOL: no frame begins so. Nothing is authenticated. */
MUST_CHECK long stage_frame_read(struct stage_frame *f, struct slice in);
/* Checks the whole frame in, and writes its text to `to`, which has room for
 * STAGE_TEXT_MAX. ERR_REMOTE: it does not authenticate. ERR_DATA: zstd cannot
 * decompress it. */
MUST_CHECK int stage_frame_open(struct stage_seal *s, struct slice in,
				char *to);

#endif
