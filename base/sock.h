/* sock.h: endpoints and sockets: parsing, resolving, listening, connecting.
 * Knows addresses, not protocols. Every descriptor is close-on-exec. */
#ifndef BASE_SOCK_H
#define BASE_SOCK_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/error.h"

enum { SOCK_HOST_MAX = 256, SOCK_TEXT_MAX = 320 };

struct endpoint {
	char host[SOCK_HOST_MAX]; /* a name, IPv4 or (unbracketed) IPv6 */
	uint16_t port;
};

struct sock_addr {
	struct sockaddr_storage ss;
	socklen_t len;
};

/* "host", "host:port", "[v6]", "[v6]:port", bare v6. Without a port,
 * default_port. ERR_USAGE with the reason for anything else. */
int endpoint_parse(struct endpoint *ep, const char *text, uint16_t default_port,
		   struct err *e);

/* "host:port", IPv6 in brackets, into out[SOCK_TEXT_MAX]; returns out. */
char *endpoint_text(const struct endpoint *ep, char *out);

/* "10.0.0.1:29400", "[fd77::1]:29400", "[fe80::1%eth0]:29400"; returns
 * out[SOCK_TEXT_MAX]. */
char *sock_addr_text(const struct sock_addr *a, char *out);
/* The address without the port and, as other hosts have interfaces of other
 * names, without its scope; returns out[SOCK_TEXT_MAX]. */
char *sock_addr_host(const struct sock_addr *a, char *out);
/* The same with the scope, for this host: "fe80::1%eth0". */
char *sock_addr_scoped(const struct sock_addr *a, char *out);
/* Cuts off the scope, if there is one; returns host. */
char *sock_host_unscope(char *host);
/* host, of SOCK_HOST_MAX bytes, is a link-local address without a scope, as
 * other hosts send it: it gets that of `like`, if that has one. */
void sock_host_scope(char *host, const char *like);
/* fe80::/10, which means nothing without an interface. */
int sock_addr_is_link_local(const struct sock_addr *a);
/* A link-local address is one of the interface that `like`, one too, is of. */
void sock_addr_set_scope(struct sock_addr *a, const struct sock_addr *like);
uint16_t sock_addr_port(const struct sock_addr *a);
void sock_addr_set_port(struct sock_addr *a, uint16_t port);
int sock_addr_is_loopback(const struct sock_addr *a);
/* 0.0.0.0 or ::, where a listener hears all of this host's addresses. */
int sock_addr_is_any(const struct sock_addr *a);
/* Adds it to list, which has n of at most max, unless it is in it.
 * Returns the new n. */
int sock_addr_add(struct sock_addr *list, int n, int max,
		  const struct sock_addr *a);
/* -1, 0, 1 by family, then by numeric address; ports do not count. */
int sock_addr_compare(const struct sock_addr *a, const struct sock_addr *b);

/* The address that the text is, a number and no name; 1, or 0: it is none. One
 * with a scope is none: it may come from another host. */
int sock_addr_number(const char *host, uint16_t port, struct sock_addr *out);
/* The same of a text of this host's own, which may have a scope. */
int sock_addr_own_number(const char *host, uint16_t port,
			 struct sock_addr *out);
/* An IPv4 address that is written as one of IPv6's (::ffff:10.0.0.1) becomes
 * IPv4's own. */
void sock_addr_unmap(struct sock_addr *a);

/* Resolves ep, IPv4 first, at most max results; returns how many, or a
 * negative error whose text names the host and what to do; a link-local address
 * must have a scope that this host has. Blocks on DNS. */
MUST_CHECK int sock_resolve(const struct endpoint *ep, struct sock_addr *out,
			    int max, struct err *e);

/* 1 if a is an address of an interface of this host (or loopback), else 0. */
int sock_addr_is_local(const struct sock_addr *a);

/* The address of this host from which peer would be reached, port 0: that of
 * the interface towards it. Sends nothing. -errno. */
MUST_CHECK int sock_addr_towards(const struct sock_addr *peer,
				 struct sock_addr *own);

/* A listening TCP socket on a (SO_REUSEADDR, backlog SOMAXCONN, non-blocking).
 * Returns the descriptor; -EADDRINUSE and the like with text. The port really
 * bound is written back into a. */
MUST_CHECK int sock_listen(struct sock_addr *a, struct err *e);

/* A peer that does not answer for ms ends the connection with ETIMEDOUT: its
 * kernel, that is; a process that is merely stopped does not count. Of a
 * listening socket it holds for what is accepted later. */
void sock_end_when_silent(int fd, uint64_t ms);
/* 1: the peer's kernel has not acknowledged what was sent, and it has been sent
 * again. */
int sock_is_stalled(int fd);
/* Its close drops what is queued, and tells the peer by a reset. */
void sock_reset_at_close(int fd);
enum { SOCK_LISTEN_MAX = 16 };
/* The same at n addresses (at most that many) at one port, the first one's; 0
 * is one that is free at all of them, written back into all. fds has room for
 * n. 0, or an error of one of them; then none is open. */
MUST_CHECK int sock_listen_all(struct sock_addr *a, int n, int *fds,
			       struct err *e);

/* Reserves a free port on the wildcard address: bound with SO_REUSEADDR, never
 * listening, so that a later bind with SO_REUSEADDR succeeds but the kernel
 * gives the port to nobody else. Returns the descriptor, *port is set. */
MUST_CHECK int sock_reserve_port(uint16_t *port, struct err *e);

/* 1: who connects to a port of its own host at which nobody listens was given
 * that port as its own, and met itself. Its close frees the port at once. */
int sock_has_met_itself(int fd);

/* Connects, blocking for at most timeout_ms (< 0: for ever), TCP_NODELAY.
 * Returns a blocking descriptor; -ECONNREFUSED where it has met itself. */
MUST_CHECK int sock_connect(const struct sock_addr *a, int timeout_ms,
			    struct err *e);

/* This host's own name, into out[SOCK_HOST_MAX]. */
void sock_host_name(char *out);

#endif
