/* pmix_library.c: the table of functions, and a child that tries it. */
#include "launcher/pmix/pmix_library.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/dynlib.h"
#include "base/file.h"

#define ROW(member, name) DYNLIB_SYMBOL(struct pmix_library, member, name)

static const struct dynlib_symbol rows[] = {
	ROW(server_init, "PMIx_server_init"),
	ROW(server_finalize, "PMIx_server_finalize"),
	ROW(generate_regex, "PMIx_generate_regex"),
	ROW(generate_ppn, "PMIx_generate_ppn"),
	ROW(register_nspace, "PMIx_server_register_nspace"),
	ROW(register_client, "PMIx_server_register_client"),
	ROW(setup_fork, "PMIx_server_setup_fork"),
	ROW(dmodex_request, "PMIx_server_dmodex_request"),
	ROW(error_string, "PMIx_Error_string"),
};

static const struct dynlib library = {
	.soname = PMIX_ABI_LIBRARY,
	.without = "ddprun cannot serve PMIx, which Open MPI needs to start",
	.remedy = "install libpmix (Debian: libpmix2), or add the folder of "
		  PMIX_ABI_LIBRARY " to LD_LIBRARY_PATH",
	.rows = rows,
	.n = sizeof(rows) / sizeof(*rows),
};

int pmix_library_load(struct pmix_library *l, struct err *e)
{
	/* it stays loaded: its thread runs until the process ends */
	return dynlib_load(&library, l, e) ? 0 : err_negative(e->code);
}

/* In the child: writes the text of the error, or nothing. */
static void pmix_library_try(int pipe)
{
	struct pmix_library l;
	struct err e = ERR_INIT;
	int rc = pmix_library_load(&l, &e);

	if (rc < 0)
		rc = file_write_all(pipe, e.text, strlen(e.text));
	_exit(rc < 0);
}

/* Reads until the child closes its end. */
static void pmix_library_read(int pipe, char *text, size_t size)
{
	size_t at = 0;
	ssize_t n;

	do {
		n = read(pipe, text + at, size - 1 - at);
		if (n > 0)
			at += (size_t)n;
	} while ((n > 0 && at < size - 1) || (n < 0 && errno == EINTR));
	text[at] = '\0';
}

int pmix_library_check(struct err *e)
{
	char text[ERR_TEXT_MAX];
	int fds[2], status = 0;
	pid_t pid;

	if (pipe(fds) < 0)
		return err_set(e, -errno, "cannot look for " PMIX_ABI_LIBRARY
			       ": %s", strerror(errno));
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		pmix_library_try(fds[1]);
	}
	close(fds[1]);
	pmix_library_read(fds[0], text, sizeof(text));
	close(fds[0]);
	if (pid < 0)
		return err_set(e, ERR_SYSTEM, "cannot look for "
			       PMIX_ABI_LIBRARY ": fork failed");
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (text[0])
		return err_set(e, ERR_SYSTEM, "%s", text);
	return status ? err_set(e, ERR_SYSTEM, "a process that loads "
				PMIX_ABI_LIBRARY " ends with status 0x%x",
				status) : 0;
}
