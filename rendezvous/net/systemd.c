/* systemd.c: implements sd_listen_fds(3) and sd_notify(3) as documented
 * there. */
#include "rendezvous/net/systemd.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/option.h"

enum { FIRST_FD = 3 };

/* The number in a variable, unless pid_name is set and names another
 * process. */
static long systemd_number_for_us(const char *name, const char *pid_name)
{
	const char *text = getenv(name), *pid = getenv(pid_name);
	long n, whose;

	if (!text || parse_long(text, 0, INT32_MAX, name, &n, NULL) < 0)
		return 0;
	if (pid && (parse_long(pid, 1, INT32_MAX, pid_name, &whose, NULL) < 0 ||
		    whose != getpid()))
		return 0;
	return n;
}

int systemd_listen_fd(struct err *e)
{
	long n = getenv("LISTEN_PID")
			 ? systemd_number_for_us("LISTEN_FDS", "LISTEN_PID")
			 : 0;

	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDNAMES");
	if (n > 1)
		return err_set(e, ERR_USAGE,
			       "LISTEN_FDS=%ld: ddprdzv listens on one socket; "
			       "give the unit one ListenStream=",
			       n);
	return n == 1 ? FIRST_FD : -1;
}

int systemd_is_there(void)
{
	const char *path = getenv("NOTIFY_SOCKET");

	return path && (path[0] == '/' || path[0] == '@');
}

uint64_t systemd_watchdog_ms(void)
{
	return (uint64_t)systemd_number_for_us("WATCHDOG_USEC",
					       "WATCHDOG_PID") /
	       1000;
}

void systemd_notify(const char *state)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	size_t n = path ? strlen(path) : 0;
	int fd;

	if (!path || !systemd_is_there() || n >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path, path, n);
	if (path[0] == '@') /* an abstract name */
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 ||
	    sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
		   (const struct sockaddr *)&to,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0)
		log_debug("cannot notify %s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}
