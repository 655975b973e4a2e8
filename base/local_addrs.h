/* local_addrs.h: the addresses at which other hosts can reach this one, from
 * the kernel and the resolver. Never connects. */
#ifndef BASE_LOCAL_ADDRS_H
#define BASE_LOCAL_ADDRS_H

#include "base/sock.h"

/* This host's source address for connections to `to`, which therefore reaches
 * it from there, as text into out[SOCK_TEXT_MAX]. 0, or an error from the
 * resolver or the kernel. */
int local_addr_towards(const struct endpoint *to, char *out, struct err *e);

/* Up to max addresses except loopback, the likeliest first: those that this
 * host's own name resolves to, then those of its interfaces; bridges for
 * containers and virtual machines come last. Returns how many. */
int local_addrs(char (*out)[SOCK_TEXT_MAX], int max);

/* The addresses of all interfaces except loopback, at most max. Returns how
 * many. Does not use the resolver. */
int local_addrs_all(struct sock_addr *out, int max);

/* The addresses that other hosts can use: no link-local ones; bridges for
 * containers and virtual machines only if there is nothing else. */
int local_addrs_external(struct sock_addr *out, int max);

/* Where to listen so that others reach this host by the name or number `at`:
 * those of its addresses that belong to this host. If a name resolves to
 * loopback here, as a host's own name may, also 127.0.0.1 and those of
 * local_addrs_external. All get at's port. Returns how many, 0 if none belongs
 * to this host, or an error from the resolver. */
int local_addrs_of(const struct endpoint *at, struct sock_addr *out, int max,
		   struct err *e);

/* 1 if name is a number, "localhost", this host's name, or another name of this
 * host by the resolver (an alias in its line of /etc/hosts). Blocks on DNS. */
int local_name_is_own(const char *name);

/* The address of the interface with this name, else of the first one whose name
 * starts with it, or of one in this network ("10.0.0.0/8"), into
 * out[SOCK_TEXT_MAX]. IPv4 before IPv6, link-local last. ERR_USAGE with a text
 * that lists the interfaces. */
int local_addr_on(const char *what, char *out, struct err *e);

/* The interface that has this address (a number or a name), into
 * out[IF_NAMESIZE]. A name that resolves to loopback here, as a host's own name
 * may, stands for all addresses of local_addrs. -EADDRNOTAVAIL: no interface
 * has it; -ENOTUNIQ: several interfaces match. */
int local_addr_interface(const char *host, char *out);

#endif
