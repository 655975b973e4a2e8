/* systemd.h: this process as a service: sockets that it was handed
 * (LISTEN_FDS), and a word to its manager (NOTIFY_SOCKET), in the documented
 * protocol of datagrams, so that nothing need be linked or loaded for it. Does
 * nothing where the variables are not set. */
#ifndef RENDEZVOUS_SYSTEMD_H
#define RENDEZVOUS_SYSTEMD_H

#include <stdint.h>

#include "base/error.h"

/* The one listening socket that we were handed; -1: none. ERR_USAGE: more than
 * one. Takes the variables away. */
int systemd_listen_fd(struct err *e);

/* "READY=1", "STATUS=3 jobs", lines of them. What cannot be sent is not. */
void systemd_notify(const char *state);
/* Whether anybody listens. */
int systemd_is_there(void);
/* Our signs of life are expected that often, in ms; 0: not. */
uint64_t systemd_watchdog_ms(void);

#endif
