/* own_addr.h: at which addresses other hosts may reach this one. Asks the
 * kernel and the resolver; connects to nobody. */
#ifndef BASE_OWN_ADDR_H
#define BASE_OWN_ADDR_H

#include "base/sock.h"

/* The address from which this host would speak to `to`, as text into
 * out[SOCK_TEXT_MAX]: so the other one reaches it. 0, or an error of the
 * resolver's or the kernel's. */
int own_addr_towards(const struct endpoint *to, char *out, struct err *e);

/* Up to max addresses that are not loopback, the likeliest first: what this
 * host's own name resolves to, then those of its interfaces, those that only
 * containers and virtual machines know last. Returns how many. */
int own_addrs(char (*out)[SOCK_TEXT_MAX], int max);

/* All addresses of this host's interfaces but loopback's own, at most max.
 * Returns how many. Asks no resolver. */
int own_addrs_all(struct sock_addr *out, int max);

/* Those by which other hosts may come: not link-local ones, and what only
 * containers and virtual machines know where there is nothing else. */
int own_addrs_outside(struct sock_addr *out, int max);

/* Where to listen so that others find this host by that name or number: its
 * addresses that are this host's; where a name means loopback here, as a host's
 * own may, also 127.0.0.1 and those of own_addrs_outside. All have its port. 0:
 * none is this host's; or an error of the resolver's. */
int own_addrs_of(const struct endpoint *at, struct sock_addr *out, int max,
		 struct err *e);

/* The address of an interface, into out[SOCK_TEXT_MAX]: of that name, else of
 * the first whose name begins so, or that is in a network ("10.0.0.0/8"). IPv4
 * before IPv6, link-local last. ERR_USAGE with a text that names those there
 * are. */
int own_addr_on(const char *what, char *out, struct err *e);

/* The interface that has this address (a number or a name), into
 * out[IF_NAMESIZE]. A name that is loopback here, as a host's own may be, is
 * all that own_addrs has. -EADDRNOTAVAIL: none has it; -ENOTUNIQ: several
 * could be meant. */
int own_addr_interface(const char *host, char *out);

#endif
