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

/* The interface that has this address (a number or a name), into
 * out[IF_NAMESIZE]. A name that is loopback here, as a host's own may be, is
 * all that own_addrs has. -EADDRNOTAVAIL: none has it; -ENOTUNIQ: several
 * could be meant. */
int own_addr_interface(const char *host, char *out);

#endif
