/* stage_serve.c: sends the copy to the node after this one, behind the thread
 * that fills it: from the ring the frames as they came, and what is not there
 * from the copy. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "launcher/stage/stage_helper.h"
#include "launcher/stage/stage_helper_internal.h"

enum { SEND_BYTES = 1 << 20 }; /* at once */

struct serve {
	struct stage_helper *helper;
	struct stage_link link;
	struct stage_seal seal;
	int has_seal;
	int is_zipped;	    /* the peer understands zstd */
	char *text, *frame; /* STAGE_TEXT_MAX, STAGE_FRAME_MAX */
	uint32_t file;	    /* what is sent next */
	uint64_t at;
	int fd; /* the copy's file fd_file, open; or -1 */
	uint32_t fd_file;
};

/* ---- what is sent next ---- */

static void serve_pass(struct serve *s, const struct stage_frame *f)
{
	s->at += f->size;
	if (f->flags & STAGE_LAST) {
		s->file++;
		s->at = 0;
	}
}

/* The frame at byte `at` of the ring: its size. 0: there is none. */
static uint64_t serve_frame_at(const struct stage_ring *r, uint64_t at,
			       struct stage_frame *f)
{
	long n = stage_frame_read(f, SLICE(stage_ring_at(r, at),
					   (size_t)(r->head - at)));

	return n > 0 ? (uint64_t)n : 0;
}

static int serve_is_past(const struct serve *s, const struct stage_frame *f)
{
	return f->file < s->file || (f->file == s->file && f->at < s->at);
}

/* Drops frames that the peer has, or could not read. */
static void serve_drop(struct serve *s)
{
	struct stage_helper *h = s->helper;
	struct stage_ring *r = &h->ring;
	struct stage_frame f;
	uint64_t n, tail = r->tail;

	while ((n = serve_frame_at(r, r->tail, &f)) != 0 &&
	       (!s->is_zipped || serve_is_past(s, &f)))
		r->tail += n;
	if (r->tail != tail)
		pthread_cond_broadcast(&h->moved);
}

/* How many bytes of the ring continue at the position of s, which moves past
 * them. */
static size_t serve_take_frames(struct serve *s)
{
	const struct stage_ring *r = &s->helper->ring;
	struct stage_frame f;
	uint64_t n, at = r->tail;

	while (at - r->tail < SEND_BYTES &&
	       (n = serve_frame_at(r, at, &f)) != 0 && f.file == s->file &&
	       f.at == s->at) {
		serve_pass(s, &f);
		at += n;
	}
	return (size_t)(at - r->tail);
}

/* The next frame that must be made from the copy. 0: there is none yet. */
static int serve_plan_frame(const struct serve *s, struct stage_frame *f)
{
	const struct stage_helper *h = s->helper;
	uint64_t size = h->list.all[h->list.files[s->file]].size, end = size, n;
	int is_whole = h->nfiles > s->file;
	struct stage_frame first;

	if (h->nfiles < s->file)
		return 0;
	if (!is_whole)
		end = h->at;
	if (serve_frame_at(&h->ring, h->ring.tail, &first) &&
	    first.file == s->file) {
		is_whole = 0;
		end = first.at < end ? first.at : end;
	}
	n = end > s->at ? end - s->at : 0;
	*f = (struct stage_frame){.flags = STAGE_REREAD, .file = s->file,
				  .at = s->at};
	f->size = n < STAGE_BLOCK ? (uint32_t)n : STAGE_BLOCK;
	if (s->is_zipped)
		f->flags |= STAGE_ZIPPED;
	if (is_whole && s->at + f->size == size)
		f->flags |= STAGE_LAST;
	return f->size || f->flags & STAGE_LAST;
}

/* Waits for it. Returns how many bytes to send from the ring; 0: make f. */
static size_t serve_await(struct serve *s, struct stage_frame *f)
{
	struct stage_helper *h = s->helper;
	size_t n;

	pthread_mutex_lock(&h->lock);
	for (;;) {
		serve_drop(s);
		n = serve_take_frames(s);
		if (n || serve_plan_frame(s, f))
			break;
		pthread_cond_wait(&h->moved, &h->lock);
	}
	pthread_mutex_unlock(&h->lock);
	return n;
}

/* ---- sending it ---- */

static int serve_send_ring(struct serve *s, size_t n, struct err *e)
{
	struct stage_helper *h = s->helper;
	int rc = stage_link_send_frames(
		&s->link, stage_ring_at(&h->ring, h->ring.tail), n, e);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&h->lock);
	h->ring.tail += n;
	pthread_cond_broadcast(&h->moved);
	pthread_mutex_unlock(&h->lock);
	return 0;
}

static void serve_close_file(struct serve *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static int serve_read(struct serve *s, const struct stage_frame *f)
{
	const struct stage_copy *c = &s->helper->copy;

	if (s->fd_file != f->file)
		serve_close_file(s);
	if (s->fd < 0)
		s->fd = stage_copy_open_file(c, f->file);
	if (s->fd < 0)
		return s->fd;
	s->fd_file = f->file;
	if (f->flags & STAGE_LAST)
		memcpy(s->text + f->size, c->hash[f->file], STAGE_HASH_SIZE);
	if (lseek(s->fd, (off_t)f->at, SEEK_SET) < 0)
		return -errno;
	return file_read_all(s->fd, s->text, f->size);
}

static int serve_send_copy(struct serve *s, struct stage_frame *f,
			   struct err *e)
{
	int rc = serve_read(s, f);
	long n;

	if (rc < 0)
		return err_set(e, rc, "--stage: cannot read the copy again: "
			       "%s", err_name(rc));
	if (f->at == 0)
		stage_zip_try_again(&s->seal.zip);
	n = stage_frame_seal(&s->seal, f, s->text, s->frame, e);
	if (n < 0)
		return (int)n;
	serve_pass(s, f);
	return stage_link_send_frames(&s->link, s->frame, (size_t)n, e);
}

/* ---- one peer ---- */

static void serve_set_reader(struct stage_helper *h, enum stage_reader reader)
{
	pthread_mutex_lock(&h->lock);
	h->reader = reader;
	h->reader_ns = clock_ns();
	pthread_cond_broadcast(&h->moved);
	pthread_mutex_unlock(&h->lock);
}

static int serve_await_list(struct serve *s, struct err *e)
{
	struct stage_helper *h = s->helper;
	int rc = 0;

	pthread_mutex_lock(&h->lock);
	while (!h->has_list)
		pthread_cond_wait(&h->moved, &h->lock);
	pthread_mutex_unlock(&h->lock);
	if (!s->has_seal)
		rc = stage_seal_init(&s->seal, &h->order.shared, &h->list, e);
	s->has_seal = rc == 0;
	return rc;
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
	s->is_zipped = reader_u8(&r) & STAGE_ASK_ZIPPED;
	s->file = reader_u32(&r);
	s->at = reader_u64(&r);
	if (s->file > l->nfiles ||
	    (s->at && (s->file == l->nfiles ||
		       s->at > l->all[l->files[s->file]].size)))
		return err_set(e, ERR_PROTOCOL, "%s asks for what is not in "
			       "the list", s->link.peer);
	return 0;
}

static int serve_send_list(struct serve *s, struct err *e)
{
	const struct buf *text = &s->helper->list.text;
	char size[8];
	int rc;

	for (int i = 0; i < 8; i++)
		size[i] = (char)((uint64_t)text->len >> 8 * i);
	rc = stage_link_send(&s->link, size, sizeof(size), e);
	return rc == 0 ? stage_link_send(&s->link, text->data, text->len, e)
		       : rc;
}

/* The copy, to one node. */
static int serve_one(struct serve *s, struct err *e)
{
	struct stage_helper *h = s->helper;
	struct stage_frame f;
	char done;
	int rc = serve_await_list(s, e);

	if (rc == 0)
		rc = serve_send_list(s, e);
	if (rc == 0)
		rc = serve_read_ask(s, e);
	if (rc == 0)
		serve_set_reader(h, STAGE_READER_TAKES);
	while (rc == 0 && s->file < h->list.nfiles) {
		size_t n = serve_await(s, &f);

		rc = n ? serve_send_ring(s, n, e) : serve_send_copy(s, &f, e);
	}
	if (rc < 0)
		return rc;
	serve_set_reader(h, STAGE_READER_FULL);
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
	struct stage_helper *h = arg;
	struct serve s = {.helper = h, .link = {.fd = -1}, .fd = -1};
	struct err e = ERR_INIT;

	s.text = malloc(STAGE_TEXT_MAX);
	s.frame = malloc(STAGE_FRAME_MAX);
	while (s.text && s.frame &&
	       stage_link_accept(&s.link, STAGE_LISTENER, &h->order.own, &e) ==
		       0) {
		if (serve_one(&s, &e) < 0) {
			serve_set_reader(h, STAGE_READER_NONE);
			err_init(&e);
		}
		/* a copy that differed is another file when it is sent again */
		serve_close_file(&s);
		stage_link_close(&s.link);
	}
	free(s.text);
	free(s.frame);
	return NULL;
}
