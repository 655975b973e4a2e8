/* stage_frame.c: the layout of frames, and their compression. */
#include "launcher/stage/stage_frame.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#include "base/dynlib.h"
#include "base/random.h"

enum {
	AT_FLAGS = 4, AT_NONCE = 24, /* in a head; before: authenticated */
	LEVEL = 1, SKIP = 15,
	ZIP_MIN = 512,
	KNOWN_FLAGS = STAGE_ZIPPED | STAGE_LAST | STAGE_REREAD,
};

static_assert(AT_NONCE + STAGE_AEAD_NONCE == STAGE_FRAME_HEAD &&
	      STAGE_FRAME_EXTRA == STAGE_FRAME_HEAD + STAGE_AEAD_TAG &&
	      (int)STAGE_AEAD_KEY == (int)PROOF_SIZE,
	      "the cipher's sizes");

/* ---- compression ---- */

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

/* Compressed files often follow one another: after a block that does not become
 * smaller, the next ones are not tried. */
size_t stage_zip_put(struct stage_zip *z, void *to, const void *from, size_t n)
{
	size_t size;

	if (!z->library || n < ZIP_MIN)
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

void stage_zip_try_again(struct stage_zip *z)
{
	z->skip = 0;
}

/* ---- keys ---- */

int stage_seal_init(struct stage_seal *s, const struct proof *token,
		    const struct stage_list *list, struct err *e)
{
	static const char use[] = "ddprun stage frames";
	crypto_generichash_state h;

	crypto_generichash_init(&h, token->bytes, PROOF_SIZE, PROOF_SIZE);
	crypto_generichash_update(&h, (const unsigned char *)use, sizeof(use));
	crypto_generichash_update(&h, (const unsigned char *)list->key,
				  STAGE_KEY_SIZE - 1);
	crypto_generichash_final(&h, s->key.bytes, PROOF_SIZE);
	stage_aead_open(&s->aead);
	stage_zip_open(&s->zip);
	s->block = malloc(STAGE_TEXT_MAX);
	return s->block ? 0 : err_no_memory(e, "--stage");
}

void stage_seal_release(struct stage_seal *s)
{
	stage_aead_close(&s->aead);
	free(s->block);
	s->block = NULL;
	proof_wipe(&s->key, sizeof(s->key));
}

/* ---- frames ---- */

static uint32_t frame_text_size(const struct stage_frame *f)
{
	return f->size + (f->flags & STAGE_LAST ? STAGE_HASH_SIZE : 0);
}

static void frame_put(char *to, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (char)(v >> 8 * i);
}

static struct stage_aead_input frame_input(const struct stage_seal *s,
					   const char *head)
{
	const unsigned char *bytes = (const unsigned char *)head;

	return (struct stage_aead_input){s->key.bytes, bytes + AT_NONCE, bytes,
					 AT_NONCE};
}

long stage_frame_seal(struct stage_seal *s, struct stage_frame *f,
		      const char *text, char *to, struct err *e)
{
	uint32_t n = frame_text_size(f), zipped = 0;
	struct stage_aead_input in;
	int rc = random_bytes(to + AT_NONCE, STAGE_AEAD_NONCE, e);

	if (rc < 0)
		return rc;
	if (f->flags & STAGE_ZIPPED)
		zipped = (uint32_t)stage_zip_put(&s->zip, s->block, text, n);
	if (zipped) {
		text = s->block;
		n = zipped;
	} else {
		f->flags &= ~(uint32_t)STAGE_ZIPPED;
	}
	frame_put(to, n, 4);
	frame_put(to + AT_FLAGS, f->flags, 4);
	frame_put(to + 8, f->size, 4);
	frame_put(to + 12, f->file, 4);
	frame_put(to + 16, f->at, 8);
	in = frame_input(s, to);
	stage_aead_encrypt(&s->aead, &in,
			   (unsigned char *)to + STAGE_FRAME_HEAD,
			   (const unsigned char *)text, n);
	return (long)n + STAGE_FRAME_EXTRA;
}

long stage_frame_read(struct stage_frame *f, struct slice in)
{
	struct reader r;
	uint32_t n, text;

	if (in.len < STAGE_FRAME_HEAD)
		return 0;
	reader_init(&r, in);
	n = reader_u32(&r);
	f->flags = reader_u32(&r);
	f->size = reader_u32(&r);
	f->file = reader_u32(&r);
	f->at = reader_u64(&r);
	if (f->flags & ~(uint32_t)KNOWN_FLAGS || f->size > STAGE_BLOCK)
		return ERR_PROTOCOL;
	text = frame_text_size(f);
	if (!n || n > text || (!(f->flags & STAGE_ZIPPED) && n != text))
		return ERR_PROTOCOL;
	return (long)n + STAGE_FRAME_EXTRA;
}

int stage_frame_open(struct stage_seal *s, struct slice in, char *to)
{
	struct stage_aead_input input;
	struct stage_frame f;
	long size = stage_frame_read(&f, in);
	int is_zipped;
	char *text;

	if (size <= 0 || (size_t)size != in.len)
		return ERR_PROTOCOL;
	is_zipped = (f.flags & STAGE_ZIPPED) != 0;
	text = is_zipped ? s->block : to;
	input = frame_input(s, in.data);
	if (stage_aead_decrypt(&s->aead, &input, (unsigned char *)text,
			       input.head + STAGE_FRAME_HEAD,
			       in.len - STAGE_FRAME_EXTRA) < 0)
		return ERR_REMOTE;
	if (is_zipped && (!s->zip.library ||
			  s->zip.decompress(to, frame_text_size(&f), text,
					    in.len - STAGE_FRAME_EXTRA) !=
				  frame_text_size(&f)))
		return ERR_DATA;
	return 0;
}
