/* tcp.c: the connections between leaders once they are made: reads and checks
 * frames, and finds out why a frame does not arrive. */
#include "worker-sdk/tcp/tcp.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	FRAME_MAGIC = 0x34706464, /* "ddp4" */
	HEAR_MS = 2000 /* time in which the text of an abort must arrive */
};

static void frame_put(unsigned char out[DDP__FRAME], const struct ddp__frame *f)
{
	_Static_assert(sizeof(*f) == DDP__FRAME, "a frame has no holes");
	memcpy(out, f, sizeof(*f));
}

/* The run that is `back` before the current one; NULL: not remembered. */
static const struct ddp__tcp_run *runs_get(const struct ddp__tcp *t,
					   uint64_t back)
{
	return back < DDP__TCP_RUNS && t->nruns > back
		       ? &t->runs[(t->nruns - back) % DDP__TCP_RUNS]
		       : NULL;
}

/* The word of the operation under way, and of the one before it; 0: none. */
static uint64_t runs_word(const struct ddp__tcp *t)
{
	const struct ddp__tcp_run *r = runs_get(t, 0);

	return r ? r->word : 0;
}

static uint64_t runs_before(const struct ddp__tcp *t)
{
	const struct ddp__tcp_run *r = runs_get(t, 0);

	if (r && r->count == 1)
		r = runs_get(t, 1);
	return r ? r->word : 0;
}

/* Thousands of broadcasts that the other hosts missed are one run. */
static void runs_add(struct ddp__tcp *t, uint64_t word, uint64_t number)
{
	struct ddp__tcp_run *r = &t->runs[t->nruns % DDP__TCP_RUNS];

	if (t->nruns && r->word == word && r->number + r->count == number) {
		r->count++;
		return;
	}
	t->runs[++t->nruns % DDP__TCP_RUNS] =
		(struct ddp__tcp_run){word, number, 1};
}

/* 1: the next bytes on this socket are a whole frame. */
static int frame_is_next(struct ddp__secure *s, int fd, struct ddp__frame *f)
{
	return ddp__secure_peek(s, fd, f, sizeof(*f)) == (ssize_t)sizeof(*f);
}

static ssize_t frame_take(struct ddp__secure *s, int fd, void *out, size_t size)
{
	struct iovec iov = {out, size};

	return ddp__secure_recv(s, fd, &iov, 1);
}

static void notice_keep_network(struct ddp__tcp *t, const char *text,
				size_t size)
{
	size = size < sizeof(t->heard) ? size : sizeof(t->heard) - 1;
	memcpy(t->heard, text, size);
	t->heard[size] = '\0';
	t->heard_ns = clock_ns();
}

/* The next frame is a notice with a payload, of a blocked rank or of the
 * network: 1 if it was complete and has been taken. */
static int notice_take_payload(struct ddp__tcp *t,
			       const struct ddp__peers *peers,
			       struct ddp__secure *s, int fd,
			       const struct ddp__frame *f)
{
	char all[DDP__FRAME + DDP__TCP_NOTICE_MAX];
	size_t size = DDP__FRAME + (size_t)f->size;

	if (f->size > DDP__TCP_NOTICE_MAX ||
	    ddp__secure_peek(s, fd, all, size) != (ssize_t)size)
		return 0;
	frame_take(s, fd, all, size);
	if (ddp__frame_is(f, DDP__FRAME_NETWORK))
		notice_keep_network(t, all + DDP__FRAME, (size_t)f->size);
	else if (peers && peers->heard)
		peers->heard(peers->owner, all + DDP__FRAME, (size_t)f->size);
	return 1;
}

/* Reads all notices of a host and keeps the last one about a wait. peers gets
 * the others; it may be NULL. */
static void notices_take(struct ddp__tcp *t, int host,
			 const struct ddp__peers *peers)
{
	struct ddp__secure *s = t->secure[host * t->links];
	int fd = t->fd[host * t->links];
	struct ddp__frame f;

	while (frame_is_next(s, fd, &f)) {
		if (ddp__frame_is(&f, DDP__FRAME_WAITS)) {
			frame_take(s, fd, &f, sizeof(f));
			t->waits[host].call =
				(struct ddp__tcp_call){f.call, f.number};
		} else if ((!ddp__frame_is(&f, DDP__FRAME_BLOCKED) &&
			    !ddp__frame_is(&f, DDP__FRAME_NETWORK)) ||
			   !notice_take_payload(t, peers, s, fd, &f)) {
			break;
		}
	}
}

static void notices_take_all(struct ddp__tcp *t, const struct ddp__peers *peers)
{
	for (int h = 0; h < t->n; h++)
		if (t->fd && t->fd[h * t->links] >= 0)
			notices_take(t, h, peers);
}

void ddp__tcp_take_notices(struct ddp__tcp *t)
{
	notices_take_all(t, t->peers);
}

void ddp__tcp_begin(struct ddp__tcp *t, const struct ddp__call *call)
{
	if (++t->made % DDP__TCP_NOTICES_EVERY == 0)
		ddp__tcp_take_notices(t);
	t->digest = ddp__digest(t->digest, runs_word(t));
	runs_add(t, ddp__call_pack(call), call->number);
}

void ddp__frame_put(unsigned char out[DDP__FRAME], const struct ddp__call *call,
		    uint64_t size, const struct ddp__tcp *t)
{
	frame_put(out, &(struct ddp__frame){.magic = FRAME_MAGIC,
					    .kind = DDP__FRAME_DATA,
					    .call = ddp__call_pack(call),
					    .number = call->number,
					    .size = size,
					    .before = t ? t->digest : 0,
					    .last = t ? runs_before(t) : 0});
}

void ddp__frame_put_abort(unsigned char out[DDP__FRAME], const struct err *e)
{
	frame_put(out,
		  &(struct ddp__frame){.magic = FRAME_MAGIC,
				       .kind = DDP__FRAME_ABORT,
				       .number = (uint64_t)(int64_t)e->code,
				       .size = strlen(e->text)});
}

void ddp__tcp_send_waits(struct ddp__tcp *t, const struct ddp__call *call,
			 int host)
{
	struct ddp__frame f = {.magic = FRAME_MAGIC,
			       .kind = DDP__FRAME_WAITS,
			       .call = ddp__call_pack(call),
			       .number = call->number};
	struct iovec iov = {&f, sizeof(f)};

	/* if that host is gone, the hosts that wait for it will find out */
	ddp__secure_post(t->secure[host * t->links], t->fd[host * t->links],
			 &iov, 1);
}

void ddp__tcp_send_notice(struct ddp__tcp *t, int host, uint32_t kind,
			  const void *bytes, size_t size)
{
	struct ddp__frame f = {.magic = FRAME_MAGIC,
			       .kind = kind,
			       .size = size};
	struct iovec iov[2] = {{&f, sizeof(f)}, {(void *)bytes, size}};

	ddp__secure_post(t->secure[host * t->links], t->fd[host * t->links],
			 iov, 2);
}

int ddp__frame_is(const struct ddp__frame *f, uint32_t kind)
{
	return f->magic == FRAME_MAGIC && f->kind == kind;
}

int ddp__tcp_timeout(int timeout_ms)
{
	return timeout_ms < 0 || timeout_ms > INT_MAX - DDP__TCP_GRACE_MS
		       ? timeout_ms
		       : timeout_ms + DDP__TCP_GRACE_MS;
}

void ddp__tcp_close(struct ddp__tcp *t)
{
	/* Closing a socket with unread input would discard an abort that is
	 * still being sent. */
	notices_take_all(t, NULL);
	for (int i = 0; t->fd && i < t->n * t->links; i++)
		if (t->fd[i] >= 0)
			close(t->fd[i]);
	for (int i = 0; t->secure && i < t->n * t->links; i++)
		ddp__secure_free(t->secure[i]);
	free(t->fd);
	free(t->secure);
	free(t->leaders);
	free(t->ranks);
	free(t->before);
	free(t->waits);
	free(t->scratch);
	free(t->windows);
	free(t->pieces);
	free(t->streams);
	memset(t, 0, sizeof(*t));
}

void ddp__tcp_abort(struct ddp__tcp *t, const struct err *e)
{
	unsigned char frame[DDP__FRAME];
	struct iovec iov[2] = {{frame, DDP__FRAME},
			       {(void *)e->text, strlen(e->text)}};

	if (t->broken)
		return;
	t->broken = 1;
	ddp__frame_put_abort(frame, e);
	/* Closing the sockets with data wakes the hosts that wait for this one;
	 * by then the reason must be on its way. */
	for (int i = 0; i < t->n * t->links; i += t->links)
		if (t->fd[i] >= 0)
			ddp__secure_post(t->secure[i], t->fd[i], iov, 2);
	for (int i = 0; i < t->n * t->links; i++)
		if (t->fd[i] >= 0)
			shutdown(t->fd[i], SHUT_WR);
}

char *ddp__tcp_name(const struct ddp__tcp *t, int host, char *out)
{
	return t->peers->name(t->peers->owner, t->leaders[host], out);
}

/* Reads size bytes, or as many as arrive in time; returns how many. */
static size_t frame_read(struct ddp__secure *s, int fd, void *out, size_t size)
{
	uint64_t end = clock_ns() + HEAR_MS * UINT64_C(1000000);
	size_t have = 0;

	while (have < size && clock_ns() < end) {
		struct pollfd p = {fd, POLLIN, 0};
		ssize_t n;

		if (!ddp__secure_has(s))
			poll(&p, 1, 200);
		n = frame_take(s, fd, (char *)out + have, size - have);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			break;
		have += n > 0 ? (size_t)n : 0;
	}
	return have;
}

int ddp__frame_read_abort(struct ddp__secure *s, int fd,
			  const unsigned char frame[DDP__FRAME],
			  const void *have, size_t n, struct err *e)
{
	char text[ERR_TEXT_MAX];
	struct ddp__frame f;
	size_t size;
	int code;

	memcpy(&f, frame, sizeof(f));
	if (!ddp__frame_is(&f, DDP__FRAME_ABORT))
		return 0;
	size = f.size < ERR_TEXT_MAX ? (size_t)f.size : ERR_TEXT_MAX - 1;
	n = n < size ? n : size;
	if (n)
		memcpy(text, have, n);
	n += frame_read(s, fd, text + n, size - n);
	/* the code comes from the network: an error must not become a
	 * success */
	code = (int)(int64_t)f.number;
	return err_set(e, code < 0 ? code : ERR_REMOTE, "%.*s", (int)n, text);
}

int ddp__frame_receive_abort(struct ddp__secure *s, int fd, struct err *e)
{
	struct ddp__frame f;

	if (!frame_is_next(s, fd, &f) || !ddp__frame_is(&f, DDP__FRAME_ABORT))
		return 0;
	frame_take(s, fd, &f, sizeof(f));
	return ddp__frame_read_abort(s, fd, (const unsigned char *)&f, "", 0,
				     e);
}

static int call_differs(struct ddp__tcp *t, int host,
			const struct ddp__call *theirs,
			const struct ddp__call *mine, struct err *e)
{
	char my_call[DDP__CALL_TEXT], their_call[DDP__CALL_TEXT];
	char my_name[DDP__NAME_MAX], their_name[DDP__NAME_MAX];

	return err_set(e, ERR_ARGUMENT,
		       "%s called %s, but %s called %s: all ranks must make "
		       "the same calls in the same order",
		       ddp__tcp_name(t, host, their_name),
		       ddp__call_text(theirs, their_call),
		       ddp__tcp_name(t, t->me, my_name),
		       ddp__call_text(mine, my_call));
}

/* This rank's call with that number, if it is still remembered; else call. */
static struct ddp__call call_mine(const struct ddp__tcp *t, uint64_t number,
				  const struct ddp__call *call)
{
	struct ddp__call c = *call;

	const struct ddp__tcp_run *r;

	if (number >= call->number)
		return c;
	for (uint64_t i = 0; (r = runs_get(t, i)); i++) {
		if (number < r->number || number - r->number >= r->count)
			continue;
		ddp__call_unpack(&c, r->word, number);
		c.group = call->group;
		break;
	}
	return c;
}

/* A root does not wait for its receivers, so hosts may have diverged some calls
 * ago, at a call for which two of them named themselves as root. */
static int call_differs_before(struct ddp__tcp *t, const struct ddp__call *call,
			       int host, const struct ddp__frame *f,
			       struct err *e)
{
	struct ddp__call theirs, mine;
	char text[DDP__CALL_TEXT], name[DDP__NAME_MAX], my_name[DDP__NAME_MAX];

	if (f->last == runs_before(t))
		return err_set(e, ERR_ARGUMENT,
			       "%s and %s made different calls some time "
			       "before %s: all ranks must make the same calls "
			       "in the same order",
			       ddp__tcp_name(t, host, name),
			       ddp__tcp_name(t, t->me, my_name),
			       ddp__call_text(call, text));
	ddp__call_unpack(&theirs, f->last, call->number - 1);
	ddp__call_unpack(&mine, runs_before(t), call->number - 1);
	theirs.group = mine.group = call->group;
	return call_differs(t, host, &theirs, &mine, e);
}

int ddp__tcp_check(struct ddp__tcp *t, const struct ddp__call *call, int host,
		   const unsigned char frame[DDP__FRAME], size_t size,
		   struct err *e)
{
	char text[DDP__CALL_TEXT], name[DDP__NAME_MAX];
	struct ddp__call mine, theirs;
	struct ddp__frame f;
	int same;

	memcpy(&f, frame, sizeof(f));
	if (!ddp__frame_is(&f, DDP__FRAME_DATA))
		return err_set(e, ERR_PROTOCOL,
			       "%s: %s sent an invalid message",
			       ddp__call_text(call, text),
			       ddp__tcp_name(t, host, name));
	same = f.call == ddp__call_pack(call) && f.number == call->number;
	if (same && f.before != t->digest)
		return call_differs_before(t, call, host, &f, e);
	if (same && f.size == size)
		return 0;
	if (same && call->count < FLIGHT_COUNT_MOST)
		return err_set(e, ERR_PROTOCOL,
			       "%s: %s sent %llu bytes, but %zu were expected: "
			       "start all ranks with the same libddp",
			       ddp__call_text(call, text),
			       ddp__tcp_name(t, host, name),
			       (unsigned long long)f.size, size);
	ddp__call_unpack(&theirs, f.call, f.number);
	theirs.group = call->group;
	mine = call_mine(t, f.number, call);
	return call_differs(t, host, &theirs, &mine, e);
}

/* Compares the call in which the host waits, by its last notice, with the call
 * of that number here. A later call has not begun here yet. */
static int waits_compare(struct ddp__tcp *t, const struct ddp__call *call,
			 int host, struct err *e)
{
	const struct ddp__tcp_call *w = &t->waits[host].call;
	struct ddp__call theirs, mine;

	if (!w->word || w->number > call->number)
		return 0;
	mine = call_mine(t, w->number, call);
	if (mine.number != w->number || ddp__call_pack(&mine) == w->word)
		return 0;
	ddp__call_unpack(&theirs, w->word, w->number);
	if (ddp__is_meeting(&mine) && theirs.kind == mine.kind)
		return 0; /* another round of the same meeting */
	theirs.group = call->group;
	return call_differs(t, host, &theirs, &mine, e);
}

int ddp__tcp_tampered(const struct ddp__call *call, const char *name, int fd,
		      struct err *e)
{
	char text[DDP__CALL_TEXT], at[SOCK_TEXT_MAX] = "an unknown address";
	struct sock_addr a = {.len = sizeof(a.ss)};

	if (!getpeername(fd, (struct sockaddr *)&a.ss, &a.len))
		sock_addr_host(&a, at);
	return err_set(e, ERR_PROTOCOL,
		       "%s: data from %s at %s does not authenticate: "
		       "something between the hosts changes it",
		       ddp__call_text(call, text), name, at);
}

static int abort_ended(struct ddp__tcp *t, const struct ddp__call *call,
		       int host, int error, struct err *e)
{
	char text[DDP__CALL_TEXT], name[DDP__NAME_MAX], seen[384];
	char how[DDP__BROKE_TEXT];

	ddp__tcp_name(t, host, name);
	if (error == EBADMSG)
		return ddp__tcp_tampered(call, name, t->fd[host * t->links], e);
	snprintf(seen, sizeof(seen), "%s: %s %s", ddp__call_text(call, text),
		 name, ddp__tcp_broke(error, how));
	return t->peers->fate(t->peers->owner, t->leaders[host], seen, e);
}

/* Reads what host sends beside its data: an abort, or a notice that it waits in
 * another call. */
static int host_receive(struct ddp__tcp *t, const struct ddp__call *call,
			int host, struct err *e)
{
	int link = host * t->links, rc;

	notices_take(t, host, t->peers);
	rc = waits_compare(t, call, host, e);
	if (!rc)
		rc = ddp__frame_receive_abort(t->secure[link], t->fd[link], e);
	if (!rc && ddp__secure_is_broken(t->secure[link]))
		rc = abort_ended(t, call, host, EBADMSG, e);
	return rc;
}

/* Data that came early, for a later call, is valid. */
static int host_check(struct ddp__tcp *t, const struct ddp__call *call,
		      int link, struct err *e)
{
	struct ddp__call other;
	struct ddp__frame f;

	if (!frame_is_next(t->secure[link], t->fd[link], &f) ||
	    !ddp__frame_is(&f, DDP__FRAME_DATA) || f.number != call->number ||
	    f.call == ddp__call_pack(call))
		return 0;
	/* a later round of the same meeting, which this rank has not entered */
	ddp__call_unpack(&other, f.call, f.number);
	if (ddp__is_meeting(call) && other.kind == call->kind)
		return 0;
	return ddp__tcp_check(t, call, ddp__tcp_host(t, link),
			      (const unsigned char *)&f, (size_t)f.size, e);
}

char *ddp__tcp_broke(int error, char out[DDP__BROKE_TEXT])
{
	int closed = !error || error == EPIPE || error == ECONNRESET;

	if (closed)
		snprintf(out, DDP__BROKE_TEXT, "closed its connection");
	else
		snprintf(out, DDP__BROKE_TEXT, "lost its connection (%s)",
			 strerror(error));
	return out;
}

int ddp__tcp_lost(struct ddp__tcp *t, const struct ddp__call *call, int host,
		  int error, struct err *e)
{
	int rc = host_receive(t, call, host, e);

	/* its next frames may show that it is in another call */
	for (int i = 1; i < t->links && !rc; i++)
		rc = host_check(t, call, host * t->links + i, e);
	return rc ? rc : abort_ended(t, call, host, error, e);
}

int ddp__tcp_check_all(struct ddp__tcp *t, const struct ddp__call *call,
		       int (*awaited)(void *arg, int link), void *arg,
		       struct err *e)
{
	int rc = 0;

	/* A host that closed its sockets may have finished its part; the hosts
	 * that still wait for it find out. */
	for (int h = 0; h < t->n && !rc; h++)
		if (h != t->me)
			rc = host_receive(t, call, h, e);
	for (int l = 0; l < t->n * t->links && !rc; l++)
		if (t->fd[l] >= 0 && l % t->links && !awaited(arg, l))
			rc = host_check(t, call, l, e);
	return rc;
}
