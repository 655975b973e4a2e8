/* name_wait.h: resolves the name of the first node, and waits for a name that
 * does not resolve yet: a pod's name gets its record when the pod runs. */
#ifndef LAUNCHER_NAME_WAIT_H
#define LAUNCHER_NAME_WAIT_H

#include "base/sock.h"

struct name_wait {
	double timeout_s; /* 0: does not wait for a name that is not known */
	int signal; /* out: SIGTERM, SIGINT, SIGHUP or SIGQUIT ended it */
};

/* As sock_resolve, within timeout_s; the first failure to resolve is logged.
 * The resolver may block for long, so it runs in a thread of its own, which is
 * left behind if a signal or the time limit ends the wait: it ends when the
 * resolver returns, and exit() does not wait for it. ERR_TIMEOUT: no answer in
 * time. -EINTR: a signal, which is consumed. Max is at most NAME_WAIT_MAX. */
enum { NAME_WAIT_MAX = 8 };
int name_wait_resolve(struct name_wait *w, const struct endpoint *ep,
		      struct sock_addr *out, int max, struct err *e);

#endif
