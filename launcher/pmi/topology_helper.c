/* topology_helper.c: asks the program's loader which hwloc it loads, and that
 * library about the host. It blocks, unlike our other programs. */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "launcher/pmi/host_topology.h"
#include "launcher/plan/plan.h"

enum {
	LIMIT_S = 5, /* then SIGALRM ends us, and ranks look for themselves */
	LINE_MAX_BYTES = 2 * PATH_MAX,
	KEEP_ALL = 0, /* HWLOC_TYPE_FILTER_KEEP_ALL */
	ALSO_DISALLOWED = 1, /* HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED */
};

/* The path in "\tlibhwloc.so.15 => PATH (0x...)". 15 is version 2. */
static int topology_helper_cut(char *line, char out[PATH_MAX])
{
	static const char name[] = "\tlibhwloc.so.15 => ";
	size_t n;

	if (strncmp(line, name, sizeof(name) - 1))
		return 0;
	line += sizeof(name) - 1;
	n = strcspn(line, " \n");
	if (line[0] != '/' || n >= PATH_MAX)
		return 0;
	memcpy(out, line, n);
	out[n] = '\0';
	return 1;
}

static int topology_helper_read(int fd, char out[PATH_MAX])
{
	FILE *f = fdopen(fd, "r");
	char line[LINE_MAX_BYTES];
	int found = 0;

	if (!f) {
		close(fd);
		return 0;
	}
	while (fgets(line, sizeof(line), f))
		found = found || topology_helper_cut(line, out);
	fclose(f);
	return found;
}

/* LOADER --list PROGRAM prints the libraries; glibc's and musl's know it. */
static int topology_helper_find_library(const char *program,
					char out[PATH_MAX])
{
	extern char **environ;
	static char list[] = "--list";
	char loader[PATH_MAX];
	char *argv[] = {loader, list, (char *)program, NULL};
	posix_spawn_file_actions_t files;
	int ends[2], rc, found;
	pid_t pid;

	if (!mpi_program_loader(program, loader) || pipe(ends) < 0)
		return 0;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&files, ends[0]);
	posix_spawn_file_actions_addclose(&files, ends[1]);
	posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null",
					 O_WRONLY, 0);
	rc = posix_spawn(&pid, loader, &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	close(ends[1]);
	found = topology_helper_read(ends[0], out);
	return rc == 0 && waitpid(pid, NULL, 0) == pid && found;
}

/* hwloc's functions, whose types are opaque to us. */
struct hwloc_calls {
	int (*init)(void **topology);
	int (*set_flags)(void *topology, unsigned long flags);
	int (*set_filter)(void *topology, int filter);
	int (*load)(void *topology);
	int (*export)(void *topology, char **text, int *size,
		      unsigned long flags);
};

static int topology_helper_load(const char *path, struct hwloc_calls *c)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return 0;
	*(void **)&c->init = dlsym(library, "hwloc_topology_init");
	*(void **)&c->set_flags = dlsym(library, "hwloc_topology_set_flags");
	*(void **)&c->set_filter =
		dlsym(library, "hwloc_topology_set_all_types_filter");
	*(void **)&c->load = dlsym(library, "hwloc_topology_load");
	*(void **)&c->export =
		dlsym(library, "hwloc_topology_export_xmlbuffer");
	return c->init && c->set_flags && c->set_filter && c->load && c->export;
}

static int topology_helper_write(const struct hwloc_calls *c)
{
	void *topology;
	char *text;
	int size;

	/* without X servers, GPU libraries, and the x86 component, which binds
	 * itself to each CPU and adds little; XML that every hwloc 2 can read,
	 * also without libxml2 */
	setenv("HWLOC_COMPONENTS", "-gl,-opencl,-cuda,-nvml,-rsmi,-levelzero,"
				   "-x86", 1);
	setenv("HWLOC_PLUGINS_BLACKLIST", HWLOC_PLUGINS, 1);
	setenv("HWLOC_LIBXML", "0", 1);
	return c->init(&topology) == 0 &&
	       c->set_flags(topology, ALSO_DISALLOWED) == 0 &&
	       c->set_filter(topology, KEEP_ALL) == 0 &&
	       c->load(topology) == 0 &&
	       c->export(topology, &text, &size, 0) == 0 && size > 1 &&
	       file_write_all(STDOUT_FILENO, text, (size_t)size - 1) == 0;
}

/* A crash of hwloc is not one of ddprun. */
static void topology_helper_set_signals(void)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT,
				    SIGTRAP, SIGSYS, SIGALRM};
	const struct rlimit none = {0, 0};

	for (size_t i = 0; i < sizeof(fatal) / sizeof(*fatal); i++)
		signal(fatal[i], SIG_DFL);
	setrlimit(RLIMIT_CORE, &none);
	alarm(LIMIT_S);
}

int topology_helper_main(int argc, char **argv)
{
	struct hwloc_calls calls;
	char library[PATH_MAX];

	prctl(PR_SET_NAME, "ddprun-hwloc");
	topology_helper_set_signals();
	if (argc < 2 || !topology_helper_find_library(argv[1], library) ||
	    !topology_helper_load(library, &calls) ||
	    !topology_helper_write(&calls))
		_exit(1);
	/* not by exit: hwloc's plugins may have left threads */
	_exit(0);
}
