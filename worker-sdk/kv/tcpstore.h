/* tcpstore.h: a blocking connection to PyTorch's TCPStore, of 2.2 and later or
 * of 1.13: opened, sent on, read from. Knows no operation of it. */
#ifndef SDK_TCPSTORE_H
#define SDK_TCPSTORE_H

#include "base/buf.h"
#include "base/sock.h"

enum { DDP__TORCH_ANSWER_MS = 30000 /* for what needs no waiting */ };

struct ddp__torch {
	struct endpoint where;
	char at[SOCK_TEXT_MAX];
	int fd;	    /* -1: lost */
	int modern; /* 2.2 and later */
	struct buf out; /* the request that is being made */
};

/* Connects, also to one that does not listen yet, and finds out which
 * generation it is. close in any case. */
int ddp__torch_open(struct ddp__torch *s, const struct endpoint *where,
		    int timeout_ms, struct err *e);
void ddp__torch_close(struct ddp__torch *s);
/* Another connection instead of this one. */
int ddp__torch_reopen(struct ddp__torch *s, struct err *e);

/* Sends what is in s->out. */
int ddp__torch_send(struct ddp__torch *s, struct err *e);
/* All of size bytes by the deadline (clock_ms). ERR_TIMEOUT with s->fd as it
 * was: nothing has come, and there is no text in e. */
int ddp__torch_receive(struct ddp__torch *s, void *to, size_t size,
		       uint64_t deadline, struct err *e);
/* The same, of what the store answers at once. */
int ddp__torch_answer(struct ddp__torch *s, void *to, size_t size,
		      struct err *e);
/* Closes it, for what is in it is not known any more, and sets the text. */
int ddp__torch_broke(struct ddp__torch *s, int code, const char *what,
		     struct err *e);

#endif
