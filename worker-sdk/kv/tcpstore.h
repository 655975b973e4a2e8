/* tcpstore.h: a blocking connection to PyTorch's TCPStore, of 2.2 and later or
 * of 1.13: opens, sends, receives. Knows no operation of the store. */
#ifndef SDK_TCPSTORE_H
#define SDK_TCPSTORE_H

#include "base/buf.h"
#include "base/sock.h"

enum { DDP__TORCH_ANSWER_MS = 30000 /* for immediate answers */ };

struct ddp__torch {
	struct endpoint where;
	char at[SOCK_TEXT_MAX];
	int fd;	    /* -1: lost */
	int modern; /* 2.2 and later */
	struct buf out; /* the request being built */
};

/* Connects, retrying until the store listens, and detects its generation. The
 * caller closes s, also after an error. */
int ddp__torch_open(struct ddp__torch *s, const struct endpoint *where,
		    int timeout_ms, struct err *e);
void ddp__torch_close(struct ddp__torch *s);
/* Replaces the connection by a new one. */
int ddp__torch_reopen(struct ddp__torch *s, struct err *e);

/* Sends s->out. */
int ddp__torch_send(struct ddp__torch *s, struct err *e);
/* Receives size bytes before the deadline (clock_ms). ERR_TIMEOUT without a
 * text in e: nothing has arrived, and s->fd is intact. */
int ddp__torch_receive(struct ddp__torch *s, void *to, size_t size,
		       uint64_t deadline, struct err *e);
/* As ddp__torch_receive, for requests that the store answers at once. */
int ddp__torch_answer(struct ddp__torch *s, void *to, size_t size,
		      struct err *e);
/* Closes the connection, whose state is unknown, and sets the error. */
int ddp__torch_broke(struct ddp__torch *s, int code, const char *what,
		     struct err *e);

#endif
