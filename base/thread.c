/* thread.c: a new thread inherits its mask of signals. */
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

int thread_detach(void *(*run)(void *), void *arg, size_t stack)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, ours;
	int rc = pthread_attr_init(&attr);

	if (rc)
		return -rc;
	/* if it is refused, the thread has the default */
	if (stack > 0)
		(void)pthread_attr_setstacksize(&attr, stack);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &ours);
	rc = pthread_create(&thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &ours, NULL);
	pthread_attr_destroy(&attr);
	return -rc;
}
