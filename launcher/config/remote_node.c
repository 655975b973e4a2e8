/* remote_node.c: from the environment. */
#include "launcher/config/remote_node.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sock.h"

static int is_remote, page_fd = -1, told_fd = -1;
static unsigned number;
static struct auth auth;

static void take_secret(int fd)
{
	unsigned char bytes[AUTH_BYTES];

	if (fd < 0)
		return;
	if (file_read_all(fd, bytes, sizeof(bytes)) == 0) {
		auth_from_bytes(&auth, bytes);
		auth.handed = 1;
	}
	proof_wipe(bytes, sizeof(bytes));
	close(fd);
}

void remote_node_init(void)
{
	static char name[SOCK_HOST_MAX + 16];
	char host[SOCK_HOST_MAX];
	const char *text = getenv(REMOTE_NODE);
	int secret_fd = -1;

	if (!text)
		return;
	is_remote = 1;
	if (sscanf(text, "%u %d %d %d", &number, &page_fd, &secret_fd,
		   &told_fd) < 2)
		page_fd = -1;
	else if (number > 0)
		log_set_default(LOG_WARN);
	if (page_fd >= 0)
		fcntl(page_fd, F_SETFD, FD_CLOEXEC);
	if (told_fd >= 0)
		fcntl(told_fd, F_SETFD, FD_CLOEXEC);
	take_secret(secret_fd);
	unsetenv(REMOTE_NODE);
	sock_host_name(host);
	snprintf(name, sizeof(name), "ddprun on %s", host);
	log_init(name);
}

int remote_node_is(void)
{
	return is_remote;
}

uint32_t remote_node_number(void)
{
	return number;
}

int remote_node_is_cut_off(void)
{
	struct pollfd page = {page_fd, 0, 0};

	return page_fd >= 0 && poll(&page, 1, 0) > 0 &&
	       page.revents & POLLERR;
}

int remote_node_is_told(void)
{
	struct pollfd told = {told_fd, POLLIN, 0};

	return told_fd >= 0 && poll(&told, 1, 0) > 0 && told.revents & POLLIN;
}

void remote_node_auth(struct auth *a)
{
	if (auth.methods)
		*a = auth;
}

int remote_node_tell(struct slice page, int first_is_here)
{
	const char mark = first_is_here ? '1' : '0';

	if (page_fd < 0 || !page.len)
		return page_fd >= 0;
	return file_write_all(page_fd, &mark, 1) == 0 &&
	       file_write_all(page_fd, page.data, page.len) == 0;
}
