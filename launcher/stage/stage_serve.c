/* stage_serve.c: reads the copy behind the thread that fills it, and sends it
 * to the node after this one. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "launcher/stage/stage_helper.h"
#include "launcher/stage/stage_helper_internal.h"
#include "launcher/stage/stage_link.h"

/* The next node passes a block on when it has all of it. */
enum { SEND_BYTES = 256 << 10 };

struct serve {
	struct stage_helper *helper;
	struct stage_link link;
	struct stage_zip zip;
	int is_zipped;
	char *text, *block; /* SEND_BYTES, and the block's header */
	uint32_t file;	    /* what is sent next */
	uint64_t at;
};

/* Waits until the copy has bytes after the position of s, or the whole file.
 * Returns how many may be sent now; whole: the file's hash as well. */
static uint64_t serve_await(struct serve *s, uint64_t size, int *whole)
{
	struct stage_helper *h = s->helper;
	uint64_t end;

	pthread_mutex_lock(&h->lock);
	while (h->nfiles < s->file || (h->nfiles == s->file && h->at <= s->at))
		pthread_cond_wait(&h->moved, &h->lock);
	*whole = h->nfiles > s->file;
	end = *whole ? size : h->at;
	pthread_mutex_unlock(&h->lock);
	return end - s->at;
}

static void serve_put_word(char *to, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		to[i] = (char)(v >> 8 * i);
}

static int serve_send_block(struct serve *s, size_t n, struct err *e)
{
	size_t zipped = s->is_zipped ? stage_zip_put(&s->zip, s->block + 8,
						     s->text, n) : 0;

	if (zipped) {
		serve_put_word(s->block, (uint32_t)zipped | STAGE_BLOCK_ZIPPED);
		serve_put_word(s->block + 4, (uint32_t)n);
		return stage_link_send(&s->link, s->block, 8 + zipped, e);
	}
	serve_put_word(s->block, (uint32_t)n);
	memcpy(s->block + 4, s->text, n);
	return stage_link_send(&s->link, s->block, 4 + n, e);
}

static int serve_send_file(struct serve *s, struct err *e)
{
	struct stage_helper *h = s->helper;
	uint64_t size = h->list.all[h->list.files[s->file]].size;
	int fd = -1, rc = 0, whole = 0;

	if (size > SEND_BYTES)
		stage_zip_try_again(&s->zip);
	while (rc == 0 && (s->at < size || !whole)) {
		uint64_t n = serve_await(s, size, &whole);

		if (n > SEND_BYTES)
			n = SEND_BYTES;
		if (!n)
			break;
		if (fd < 0)
			fd = stage_copy_open_file(&h->copy, s->file);
		if (fd < 0 || lseek(fd, (off_t)s->at, SEEK_SET) < 0)
			rc = fd < 0 ? fd : -errno;
		else
			rc = file_read_all(fd, s->text, n);
		if (rc < 0)
			err_set(e, rc, "--stage: cannot read the copy again: "
				"%s", err_name(rc));
		else
			rc = serve_send_block(s, n, e);
		s->at += n;
	}
	if (fd >= 0)
		close(fd);
	if (rc == 0)
		rc = stage_link_send(&s->link, h->copy.hash[s->file],
				     STAGE_HASH_SIZE, e);
	s->file++;
	s->at = 0;
	return rc;
}

static void serve_await_list(struct stage_helper *h)
{
	pthread_mutex_lock(&h->lock);
	while (!h->has_list)
		pthread_cond_wait(&h->moved, &h->lock);
	pthread_mutex_unlock(&h->lock);
}

/* What the other node has already. */
static int serve_read_ask(struct serve *s, struct err *e)
{
	const struct stage_list *l = &s->helper->list;
	char ask[13];
	struct reader r;
	int rc = stage_link_receive(&s->link, ask, sizeof(ask), e);

	if (rc < 0)
		return rc;
	reader_init(&r, SLICE(ask, sizeof(ask)));
	s->is_zipped = (reader_u8(&r) & STAGE_ZIPPED) && s->zip.library;
	s->file = reader_u32(&r);
	s->at = reader_u64(&r);
	if (s->file > l->nfiles ||
	    (s->at && (s->file == l->nfiles ||
		       s->at > l->all[l->files[s->file]].size)))
		return err_set(e, ERR_PROTOCOL, "%s asks for what is not in "
			       "the list", s->link.peer);
	return 0;
}

/* The copy, to one node. */
static int serve_one(struct serve *s, struct err *e)
{
	struct stage_helper *h = s->helper;
	const struct buf *text = &h->list.text;
	char size[8], done;
	int rc;

	serve_await_list(h);
	serve_put_word(size, (uint32_t)text->len);
	serve_put_word(size + 4, 0);
	rc = stage_link_send(&s->link, size, sizeof(size), e);
	if (rc == 0)
		rc = stage_link_send(&s->link, text->data, text->len, e);
	if (rc == 0)
		rc = serve_read_ask(s, e);
	while (rc == 0 && s->file < h->list.nfiles)
		rc = serve_send_file(s, e);
	if (rc == 0)
		rc = stage_link_receive(&s->link, &done, 1, e);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&h->lock);
	h->is_below_done = 1;
	pthread_cond_broadcast(&h->moved);
	pthread_mutex_unlock(&h->lock);
	return 0;
}

/* A node that lost its connection makes another one. If it is gone, the server
 * notices. */
void *stage_serve_run(void *arg)
{
	struct serve s = {.helper = arg, .link = {.fd = -1}};
	struct err e = ERR_INIT;

	stage_zip_open(&s.zip);
	s.text = malloc(SEND_BYTES);
	s.block = malloc(SEND_BYTES + 8);
	while (s.text && s.block &&
	       stage_link_accept(&s.link, STAGE_LISTENER, &s.helper->order.own,
				 &e) == 0) {
		if (serve_one(&s, &e) < 0)
			err_init(&e);
		stage_link_close(&s.link);
	}
	free(s.text);
	free(s.block);
	return NULL;
}
