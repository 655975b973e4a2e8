/* tcp_hello.c: saying and hearing hellos. */
#include "worker-sdk/tcp_hello.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

int ddp__hello_differs(const struct ddp__hello *h,
		       const struct ddp__hello *mine)
{
	unsigned char diff = 0;

	for (int i = 0; i < DDP__MESH_COOKIE; i++)
		diff |= (unsigned char)(h->cookie[i] ^ mine->cookie[i]);
	return diff || memcmp(h->magic, mine->magic, sizeof(h->magic)) ||
	       h->round != mine->round || h->to != mine->from;
}

int ddp__hello_say(int fd, const struct ddp__hello *h)
{
	return send(fd, h, sizeof(*h), MSG_NOSIGNAL | MSG_DONTWAIT) ==
			       (ssize_t)sizeof(*h)
		       ? 0
		       : -1;
}

int ddp__hello_hear(int fd, struct ddp__hello_in *in)
{
	ssize_t n = recv(fd, (char *)&in->hello + in->got,
			 sizeof(in->hello) - in->got, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	in->got += (size_t)n;
	return n == 0 ? -1 : in->got == sizeof(in->hello);
}
