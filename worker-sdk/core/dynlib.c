/* dynlib.c: dlopen with an error text. The loader searches for the caller of
 * dlopen: that includes the program's DT_RPATH, but not its DT_RUNPATH (man 8
 * ld.so). */
#include "worker-sdk/core/dynlib.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Joins the names: "libx.so.2, libx.so, /opt/libx.so". */
static void dynlib_join_names(const char *const *names, char *out, size_t size)
{
	size_t at = 0;

	out[0] = '\0';
	for (int i = 0; names[i] && at < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%s%s",
				       i ? ", " : "", names[i]);
}

#ifdef __GLIBC__
/* The directories that the loader searches for the program. The caller frees
 * the result; NULL: unknown. */
static Dl_serinfo *dynlib_program_directories(void)
{
	void *program = dlopen(NULL, RTLD_LAZY);
	Dl_serinfo size, *all = NULL;

	if (program && dlinfo(program, RTLD_DI_SERINFOSIZE, &size) == 0)
		all = malloc(size.dls_size);
	if (all) {
		*all = size;
		if (dlinfo(program, RTLD_DI_SERINFO, all) < 0) {
			free(all);
			all = NULL;
		}
	}
	if (program)
		dlclose(program);
	return all;
}

const char *ddp__dynlib_program_path(const char *name, char *out, size_t size)
{
	Dl_serinfo *all =
		strchr(name, '/') ? NULL : dynlib_program_directories();
	int found = 0, n;

	for (unsigned i = 0; all && i < all->dls_cnt && !found; i++) {
		n = snprintf(out, size, "%s/%s", all->dls_serpath[i].dls_name,
			     name);
		found = n > 0 && (size_t)n < size && access(out, F_OK) == 0;
	}
	free(all);
	return found ? out : NULL;
}
#else
/* musl does not say which directories its loader searches. */
const char *ddp__dynlib_program_path(const char *name, char *out, size_t size)
{
	return NULL;
}
#endif

void *ddp__dynlib_load(const char *name, int flags)
{
	void *library = dlopen(name, RTLD_LOCAL | flags);
	char path[PATH_MAX];

	/* dlopen finds a library that is already loaded by its name, whatever
	 * directory it came from */
	if (!library && !(flags & RTLD_NOLOAD) &&
	    ddp__dynlib_program_path(name, path, sizeof(path)))
		library = dlopen(path, RTLD_LOCAL | flags);
	return library;
}

void *ddp__dynlib_open(const char *variable, const char *const *names,
		       int flags, struct err *e)
{
	const char *given = getenv(variable), *path, *why;
	char all[256];
	void *library;

	if (given && given[0]) {
		library = ddp__dynlib_load(given, RTLD_NOW | flags);
		/* try once more, for the error text */
		why = library || dlopen(given, RTLD_NOW | flags) ?
			      NULL : dlerror();
		if (!library)
			err_set(e, ERR_SYSTEM,
				"%s is '%.200s', which cannot be loaded: "
				"%.300s", variable, given,
				why ? why : "it is not loaded");
		return library;
	}
	for (int i = 0; names[i]; i++) {
		library = ddp__dynlib_load(names[i], RTLD_NOW | flags);
		if (library)
			return library;
	}
	path = getenv("LD_LIBRARY_PATH");
	dynlib_join_names(names, all, sizeof(all));
	err_set(e, ERR_SYSTEM,
		"cannot find any of %s (LD_LIBRARY_PATH is '%.200s'): install "
		"it, or add its folder to LD_LIBRARY_PATH, or set %s to it",
		all, path ? path : "", variable);
	return NULL;
}

void ddp__dynlib_path(void *library, char *out, size_t size)
{
	struct link_map *map = NULL;

	if (dlinfo(library, RTLD_DI_LINKMAP, &map) || !map)
		snprintf(out, size, "a library");
	else
		snprintf(out, size, "%s", map->l_name);
}
