/* tcp_listen.c: a socket for each address. */
#include "worker-sdk/tcp/tcp_listen.h"

#include <poll.h>
#include <unistd.h>

#include "base/local_addrs.h"

/* The wildcard address of the family that the other ranks will use. */
static int listen_set_anywhere(const struct endpoint *ep, struct sock_addr *a,
			       struct err *e)
{
	int n = sock_resolve(ep, a, 1, e);

	if (n < 1)
		return n;
	return sock_addr_number(a->ss.ss_family == AF_INET6 ? "::" : "0.0.0.0",
				0, a);
}

int ddp__listen(struct ddp__listener *l, const char *addr, uint16_t *port,
		struct err *e)
{
	struct sock_addr a[DDP__LISTEN_MAX];
	struct endpoint ep;
	int n, rc = endpoint_parse(&ep, addr, 0, e);

	l->n = 0;
	if (rc < 0)
		return rc;
	n = local_addrs_of(&ep, a, DDP__LISTEN_MAX, e);
	if (n == 0)
		n = listen_set_anywhere(&ep, a, e);
	if (n < 0)
		return n;
	rc = sock_listen_all(a, n, l->fd, e);
	if (rc < 0)
		return rc;
	l->n = n;
	*port = sock_addr_port(&a[0]);
	return 0;
}

int ddp__listen_accept(const struct ddp__listener *l)
{
	int fd = -1;

	for (int i = 0; i < l->n && fd < 0; i++)
		fd = accept4(l->fd[i], NULL, NULL,
			     SOCK_CLOEXEC | SOCK_NONBLOCK);
	return fd;
}

int ddp__listen_polls(const struct ddp__listener *l, struct pollfd *out,
		      int max)
{
	int n = 0;

	for (; n < l->n && n < max; n++)
		out[n] = (struct pollfd){l->fd[n], POLLIN, 0};
	return n;
}

void ddp__listen_close(struct ddp__listener *l)
{
	while (l->n > 0)
		close(l->fd[--l->n]);
}
