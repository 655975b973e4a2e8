/* tcp_hello.h: how two ranks that connect know each other: a short text with
 * the job's cookie, said by both. Who cannot say it is hung up on. */
#ifndef SDK_TCP_HELLO_H
#define SDK_TCP_HELLO_H

#include <stddef.h>
#include <stdint.h>

enum { DDP__MESH_COOKIE = 16 };

/* The answer has from and to the other way round. */
struct ddp__hello {
	char magic[8]; /* what the connection is for */
	unsigned char cookie[DDP__MESH_COOKIE];
	uint32_t round, from, to;
	uint16_t link, links; /* which of the pair's, of how many */
};

/* A connection on which one is due. */
struct ddp__hello_in {
	struct ddp__hello hello; /* what came so far */
	size_t got;
};

/* 0 if h is as `mine`, its answer, would have it: the same magic, cookie and
 * round, and to me. Takes the same time for every cookie. */
int ddp__hello_differs(const struct ddp__hello *h,
		       const struct ddp__hello *mine);
/* On a fresh non-blocking socket, whose buffer takes it whole; 0 or -1. */
int ddp__hello_say(int fd, const struct ddp__hello *h);
/* 1: it is whole; 0: not yet; -1: the connection is of no use. */
int ddp__hello_hear(int fd, struct ddp__hello_in *in);

#endif
