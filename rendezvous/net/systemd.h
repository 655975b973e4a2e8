/* systemd.h: this process as a systemd service: the sockets passed to it
 * (LISTEN_FDS) and notifications to its manager (NOTIFY_SOCKET). Implements the
 * documented protocol, so that no library is needed. Does nothing if the
 * variables are not set. */
#ifndef RENDEZVOUS_SYSTEMD_H
#define RENDEZVOUS_SYSTEMD_H

#include <stdint.h>

#include "base/error.h"

/* The one listening socket passed to us; -1: none. ERR_USAGE: more than one.
 * Unsets the variables. */
int systemd_listen_fd(struct err *e);

/* Sends lines such as "READY=1" or "STATUS=3 jobs". Failures are ignored. */
void systemd_notify(const char *state);
/* 1: there is a manager to notify. */
int systemd_is_there(void);
/* The manager expects a notification at least that often, in ms; 0: it expects
 * none. */
uint64_t systemd_watchdog_ms(void);

#endif
