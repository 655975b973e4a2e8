/* ssh_env.c: a ddprun that another ddprun, the head, started over ssh. */
#include "launcher/env/launch_env.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sock.h"
#include "launcher/env/launch_env_internal.h"

static int is_remote, page_fd = -1, signal_fd = -1, lent_fd = -1;
static unsigned number;
static struct auth auth;

static void ssh_env_read_secret(int fd)
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

void ssh_env_init(void)
{
	static char name[SOCK_HOST_MAX + 16];
	char host[SOCK_HOST_MAX];
	const char *text = getenv(SSH_ENV_NODE);
	int secret_fd = -1;

	if (!text)
		return;
	is_remote = 1;
	if (sscanf(text, "%u %d %d %d %d", &number, &page_fd, &secret_fd,
		   &signal_fd, &lent_fd) < 2)
		page_fd = -1;
	else if (number > 0)
		log_set_default(LOG_WARN);
	if (page_fd >= 0)
		fcntl(page_fd, F_SETFD, FD_CLOEXEC);
	if (signal_fd >= 0)
		fcntl(signal_fd, F_SETFD, FD_CLOEXEC);
	if (lent_fd >= 0)
		fcntl(lent_fd, F_SETFD, FD_CLOEXEC);
	ssh_env_read_secret(secret_fd);
	unsetenv(SSH_ENV_NODE);
	sock_host_name(host);
	snprintf(name, sizeof(name), "ddprun on %s", host);
	log_init(name);
}

/* If the head reached this host with srun, workers are as many as the tasks
 * that the job has here, as in a step of ddpruns. */
static int ssh_env_read_tasks(struct launch_env *env, struct err *e)
{
	int rc = 0;

	if (getenv(ALLOCATION_TASKS))
		rc = allocation_read(&env->slurm, launch_env_getenv, e);
	env->tasks = env->slurm.tasks;
	return rc;
}

/* The head has decided everything and passes it on as options. */
static int ssh_read(struct launch_env *env, const struct launch_request *r,
		    struct err *e)
{
	if (!is_remote)
		return 0;
	env->role = LAUNCH_BY_HAND;
	env->command = "ssh";
	env->host_index = number;
	env->signals_reach_all = env->echoes_all = 1;
	env->lent_fd = lent_fd;
	return ssh_env_read_tasks(env, e) < 0 ? e->code : 1;
}

static int ssh_has_decided(void)
{
	return is_remote;
}

static int ssh_take_auth(struct auth *a, struct err *e)
{
	if (auth.methods)
		*a = auth;
	return 0;
}

static int ssh_is_gone(void)
{
	struct pollfd page = {page_fd, 0, 0};

	return page_fd >= 0 && poll(&page, 1, 0) > 0 &&
	       page.revents & POLLERR;
}

static int ssh_passed_signal(void)
{
	struct pollfd readable = {signal_fd, POLLIN, 0};

	return signal_fd >= 0 && poll(&readable, 1, 0) > 0 &&
	       readable.revents & POLLIN;
}

static int ssh_send_page(struct slice page, int first_is_here)
{
	const char mark = first_is_here ? '1' : '0';

	if (page_fd < 0 || !page.len)
		return page_fd >= 0;
	return file_write_all(page_fd, &mark, 1) == 0 &&
	       file_write_all(page_fd, page.data, page.len) == 0;
}

const struct launch_source ssh_env = {
	.read = ssh_read,
	.has_decided = ssh_has_decided,
	.take_auth = ssh_take_auth,
	.is_gone = ssh_is_gone,
	.passed_signal = ssh_passed_signal,
	.send_page = ssh_send_page,
};
