/* sock.h: endpoints and TCP sockets: parsing, resolving, listening, connecting.
 * Knows no protocol. Every descriptor is close-on-exec. */
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

/* Parses "host", "host:port", "[v6]", "[v6]:port" or bare v6; default_port if
 * there is no port. ERR_USAGE with the reason for anything else. */
int endpoint_parse(struct endpoint *ep, const char *text, uint16_t default_port,
		   struct err *e);

/* "host:port", IPv6 in brackets, into out[SOCK_TEXT_MAX]; returns out. */
char *endpoint_text(const struct endpoint *ep, char *out);

/* "10.0.0.1:29400", "[fd77::1]:29400", "[fe80::1%eth0]:29400"; returns
 * out[SOCK_TEXT_MAX]. */
char *sock_addr_text(const struct sock_addr *a, char *out);
/* The address without its port and without its scope, which means nothing on
 * other hosts; returns out[SOCK_TEXT_MAX]. */
char *sock_addr_host(const struct sock_addr *a, char *out);
/* The same with the scope, for this host: "fe80::1%eth0". */
char *sock_addr_scoped(const struct sock_addr *a, char *out);
/* Cuts off the scope, if any; returns host. */
char *sock_host_unscope(char *host);
/* Appends the scope of `like`, if it has one, to host[SOCK_HOST_MAX] if that is
 * a link-local address. (Other hosts send these without a scope.) */
void sock_host_scope(char *host, const char *like);
/* If both are link-local, gives a the scope (the interface) of `like`. */
void sock_addr_set_scope(struct sock_addr *a, const struct sock_addr *like);
uint16_t sock_addr_port(const struct sock_addr *a);
void sock_addr_set_port(struct sock_addr *a, uint16_t port);
int sock_addr_is_loopback(const struct sock_addr *a);
/* 0.0.0.0 or ::, on which a listener accepts at all of this host's addresses.
 */
int sock_addr_is_any(const struct sock_addr *a);
/* Adds a to list, which has n of at most max entries, unless it is there
 * already or the list is full. Returns the new n. */
int sock_addr_add(struct sock_addr *list, int n, int max,
		  const struct sock_addr *a);
/* -1, 0, 1 by family, then by numeric address; ports do not count. */
int sock_addr_compare(const struct sock_addr *a, const struct sock_addr *b);

/* Parses a numeric address without a scope. 1, or 0 if it is a name, or has a
 * scope (it may come from another host, which has other interfaces). */
int sock_addr_number(const char *host, uint16_t port, struct sock_addr *out);
/* The same for text from this host, which may have a scope. */
int sock_addr_scoped_number(const char *host, uint16_t port,
			    struct sock_addr *out);
/* Turns an IPv4-mapped IPv6 address (::ffff:10.0.0.1) into plain IPv4. */
void sock_addr_unmap(struct sock_addr *a);

/* Resolves ep, IPv4 first, to at most max addresses. Returns how many, or an
 * error whose text names the host and the remedy. A link-local address must
 * have the scope of one of this host's interfaces. Blocks on DNS. */
MUST_CHECK int sock_resolve(const struct endpoint *ep, struct sock_addr *out,
			    int max, struct err *e);

/* 1 if a is loopback or an address of one of this host's interfaces, else 0. */
int sock_addr_is_local(const struct sock_addr *a);

/* This host's source address for packets to peer, with port 0. Sends nothing.
 * 0 or -errno. */
MUST_CHECK int sock_addr_towards(const struct sock_addr *peer,
				 struct sock_addr *own);

/* Opens a listening TCP socket at a (SO_REUSEADDR, backlog SOMAXCONN,
 * non-blocking) and writes the port that was bound back into a. Returns the
 * descriptor; or -EADDRINUSE and the like, with a text. */
MUST_CHECK int sock_listen(struct sock_addr *a, struct err *e);

/* Ends the connection with ETIMEDOUT if the peer's kernel does not answer for
 * ms; a process that is merely stopped still answers. Connections accepted from
 * a listening socket inherit the limit. */
void sock_set_silence_limit(int fd, uint64_t ms);
/* 1 if data was retransmitted because the peer has not acknowledged it. */
int sock_is_stalled(int fd);
/* Makes close() drop unsent data and reset the connection. */
void sock_reset_at_close(int fd);
enum { SOCK_LISTEN_MAX = 16 };
/* As sock_listen, at n (at most SOCK_LISTEN_MAX) addresses with the port of the
 * first; port 0 picks a port that is free at all of them and writes it back
 * into all. fds has room for n. 0, or the error of one of them; then none is
 * open. */
MUST_CHECK int sock_listen_all(struct sock_addr *a, int n, int *fds,
			       struct err *e);

/* Reserves a free port on the wildcard address: a socket that is bound with
 * SO_REUSEADDR and never listens, so that a later bind with SO_REUSEADDR
 * succeeds, but the kernel never picks the port for others. Sets *port and
 * returns the descriptor. */
MUST_CHECK int sock_reserve_port(uint16_t *port, struct err *e);

/* 1 on a TCP self-connect: nobody listens at the port on this host, and the
 * kernel chose it as our source port. close() then frees the port at once. */
int sock_is_self_connected(int fd);

/* Begins to connect: a non-blocking descriptor, which becomes writable when
 * SO_ERROR has the result; or -errno. */
MUST_CHECK int sock_begin_connect(const struct sock_addr *a);

/* Connects with TCP_NODELAY; blocks for at most timeout_ms (< 0: for ever).
 * Returns a blocking descriptor; -ECONNREFUSED on a self-connect. */
MUST_CHECK int sock_connect(const struct sock_addr *a, int timeout_ms,
			    struct err *e);

/* This host's name, into out[SOCK_HOST_MAX]. */
void sock_host_name(char *out);

#endif
