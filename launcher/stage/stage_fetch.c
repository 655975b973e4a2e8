/* stage_fetch.c: fills the copy from the node before this one. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "launcher/stage/stage_helper_internal.h"

enum {
	RETRY_MS = 200,
	RETRY_S = 20, /* without data: the helper fails */
	ADDRS_MAX = 8,
	READ_BYTES = 512 << 10,
	LIST_BYTES = 1 << 20, /* received at once of the list */
};

struct fetch {
	struct stage_helper *helper;
	struct stage_link link;
	struct stage_seal seal;
	struct sock_addr addrs[ADDRS_MAX]; /* the other node's */
	int naddrs, next;
	char name[SOCK_TEXT_MAX];
	char *text;	   /* STAGE_TEXT_MAX */
	size_t have;	   /* bytes at the ring's head */
	uint64_t moved_ns; /* when it last waited for the peer */
	/* what was wrong, and was asked for again */
	int is_bad;
	uint32_t bad_file;
	uint64_t bad_at;
};

/* The list, which is the same on each connection. */
static int fetch_list(struct fetch *f, struct err *e)
{
	struct stage_helper *h = f->helper;
	struct buf text = BUF_INIT(STAGE_LIST_MAX);
	char size[8];
	struct reader r;
	uint64_t left;
	int rc = stage_link_receive(&f->link, size, sizeof(size), e);

	if (rc < 0)
		return rc;
	reader_init(&r, SLICE(size, sizeof(size)));
	left = reader_u64(&r);
	while (rc == 0 && left) {
		size_t part = left < LIST_BYTES ? left : LIST_BYTES;
		char *to = buf_reserve(&text, part);

		rc = to ? stage_link_receive(&f->link, to, part, e)
			: err_no_memory(e, "--stage: a list of %llu MiB",
					(unsigned long long)left >> 20);
		text.len += part;
		left -= part;
	}
	if (rc < 0 || h->list.text.len) {
		if (rc == 0 && (text.len != h->list.text.len ||
				memcmp(text.data, h->list.text.data,
				       text.len) != 0))
			rc = err_set(e, ERR_PROTOCOL, "--stage: %s has begun "
				     "another copy", f->link.peer);
		buf_release(&text);
		return rc;
	}
	h->list = (struct stage_list){.text = text};
	rc = stage_list_read(&h->list, e);
	if (rc == 0)
		rc = stage_seal_init(&f->seal, &h->order.shared, &h->list, e);
	return rc == 0 ? stage_helper_open_copy(h, e) : rc;
}

static int fetch_ask(struct fetch *f, struct err *e)
{
	struct buf ask = BUF_INIT(64);
	int rc;

	buf_put_u8(&ask, f->seal.zip.library ? STAGE_ASK_ZIPPED : 0);
	buf_put_u32(&ask, f->helper->copy.nfiles);
	buf_put_u64(&ask, f->helper->copy.at);
	rc = ask.failed ? err_no_memory(e, "--stage")
			: stage_link_send(&f->link, ask.data, ask.len, e);
	buf_release(&ask);
	return rc;
}

/* One frame at the head of the ring: its size. */
static long fetch_receive(struct fetch *f, struct stage_frame *frame,
			  struct err *e)
{
	struct stage_helper *h = f->helper;

	for (;;) {
		const char *from = stage_ring_at(&h->ring, h->ring.head);
		long size = stage_frame_read(frame, SLICE(from, f->have)), n;
		char *to;

		if (size < 0)
			return err_set(e, ERR_DATA, "--stage: %s sent bytes "
				       "that are no frame", f->link.peer);
		if (size && (size_t)size <= f->have)
			return size;
		to = stage_helper_room(h, f->have, READ_BYTES);
		f->moved_ns = clock_ns(); /* the next node may have been slow */
		n = stage_link_receive_frames(&f->link, to, READ_BYTES, e);
		if (n < 0)
			return n;
		f->have += (size_t)n;
	}
}

/* The frame is what comes next in the list. */
static int fetch_fits(const struct stage_helper *h,
		      const struct stage_frame *frame)
{
	const struct stage_copy *c = &h->copy;
	uint64_t left = h->list.all[h->list.files[c->nfiles]].size - c->at;
	int is_last = (frame->flags & STAGE_LAST) != 0;

	return frame->file == c->nfiles && frame->at == c->at &&
	       frame->size <= left && (frame->size || is_last) &&
	       (!is_last || frame->size == left);
}

static int fetch_frame(struct fetch *f, struct err *e)
{
	struct stage_helper *h = f->helper;
	struct stage_frame frame;
	long size = fetch_receive(f, &frame, e);
	const char *from = stage_ring_at(&h->ring, h->ring.head);
	int rc;

	if (size < 0)
		return (int)size;
	rc = stage_frame_open(&f->seal, SLICE(from, (size_t)size), f->text);
	if (rc < 0)
		return err_set(e, ERR_DATA, "--stage: %s sent a block that "
			       "%s", f->link.peer,
			       rc == ERR_DATA ? "zstd cannot decompress"
			       : "does not authenticate: it, or something on "
				 "the path, changes data");
	if (!fetch_fits(h, &frame))
		return err_set(e, ERR_PROTOCOL, "--stage: %s sent another "
			       "block than the next one", f->link.peer);
	h->copy.is_unsure |= (frame.flags & STAGE_REREAD) != 0;
	if (frame.size)
		rc = stage_copy_write(&h->copy, f->text, frame.size, e);
	if (rc == 0 && frame.flags & STAGE_LAST)
		rc = stage_copy_end_file(
			&h->copy, (unsigned char *)f->text + frame.size, e);
	if (rc < 0) {
		stage_helper_move(h, 0);
		return rc;
	}
	f->have -= (size_t)size;
	stage_helper_move(h, (size_t)size);
	return 0;
}

static int fetch_once(struct fetch *f, struct err *e)
{
	struct stage_helper *h = f->helper;
	const struct sock_addr *addr = &f->addrs[f->next++ % f->naddrs];
	int rc = stage_link_connect(&f->link, addr, &h->order.token, f->name,
				    e);

	f->have = 0;
	if (rc == 0)
		rc = fetch_list(f, e);
	if (rc == 0) {
		f->moved_ns = clock_ns();
		rc = fetch_ask(f, e);
	}
	while (rc == 0 && h->copy.nfiles < h->list.nfiles)
		rc = fetch_frame(f, e);
	return rc;
}

/* A network that failed may work again; a full disk will not. */
static int fetch_may_retry(struct fetch *f, int rc)
{
	const struct stage_copy *c = &f->helper->copy;

	/* An earlier job's part of a file differs, or a block was damaged: it
	 * is fetched again, once. */
	if (rc == ERR_DATA && f->is_bad && f->bad_file == c->nfiles &&
	    f->bad_at == c->at)
		return 0;
	if (rc == ERR_DATA) {
		f->is_bad = 1;
		f->bad_file = c->nfiles;
		f->bad_at = c->at;
		return 1;
	}
	return clock_ns() - f->moved_ns < RETRY_S * 1000000000ull &&
	       (rc == ERR_REMOTE || rc == -ECONNREFUSED || rc == -ECONNRESET ||
		rc == -EPIPE || rc == -ETIMEDOUT || rc == -EIO ||
		rc == -EHOSTUNREACH || rc == -ENETUNREACH || rc == -EAGAIN ||
		rc == ERR_TIMEOUT);
}

static int fetch_init(struct fetch *f, struct stage_helper *h, struct err *e)
{
	struct endpoint ep = {.port = h->order.port};

	*f = (struct fetch){.helper = h, .link = {.fd = -1}};
	snprintf(ep.host, sizeof(ep.host), "%.*s", SLICE_FMT(h->order.addr));
	snprintf(f->name, sizeof(f->name), "%.*s", SLICE_FMT(h->order.name));
	f->naddrs = sock_resolve(&ep, f->addrs, ADDRS_MAX, e);
	if (f->naddrs < 0)
		return f->naddrs;
	f->text = malloc(STAGE_TEXT_MAX);
	f->moved_ns = clock_ns();
	return f->text ? 0 : err_no_memory(e, "--stage");
}

int stage_fetch_run(struct stage_helper *h, struct stage_link *l,
		    struct err *e)
{
	struct fetch f;
	int rc = fetch_init(&f, h, e);

	while (rc == 0) {
		rc = fetch_once(&f, e);
		if (rc == 0)
			break;
		stage_link_close(&f.link);
		if (!fetch_may_retry(&f, rc))
			break;
		err_init(e);
		poll(NULL, 0, RETRY_MS);
		rc = 0;
	}
	stage_seal_release(&f.seal);
	free(f.text);
	*l = f.link;
	return rc;
}
