/* library.c: dlopen with a text for people. */
#include "worker-sdk/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "libx.so.2, libx.so, /opt/libx.so" */
static void list(const char *const *names, char *out, size_t size)
{
	size_t at = 0;

	out[0] = '\0';
	for (int i = 0; names[i] && at < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%s%s",
				       i ? ", " : "", names[i]);
}

void *ddp__library_open(const char *variable, const char *const *names,
			int flags, struct err *e)
{
	const char *given = getenv(variable), *path, *why;
	char all[256];
	void *library;

	if (given && given[0]) {
		library = dlopen(given, RTLD_NOW | RTLD_LOCAL | flags);
		why = library ? NULL : dlerror();
		if (!library)
			err_set(e, ERR_SYSTEM,
				"%s is '%.200s', which cannot be loaded: "
				"%.300s", variable, given,
				why ? why : "it is not loaded");
		return library;
	}
	for (int i = 0; names[i]; i++) {
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | flags);
		if (library)
			return library;
	}
	path = getenv("LD_LIBRARY_PATH");
	list(names, all, sizeof(all));
	err_set(e, ERR_SYSTEM,
		"none of %s is found (LD_LIBRARY_PATH is '%.200s'): install "
		"it, or add its folder to LD_LIBRARY_PATH, or set %s to it",
		all, path ? path : "", variable);
	return NULL;
}

void ddp__library_path(void *library, char *out, size_t size)
{
	struct link_map *map = NULL;

	if (dlinfo(library, RTLD_DI_LINKMAP, &map) || !map)
		snprintf(out, size, "a library");
	else
		snprintf(out, size, "%s", map->l_name);
}
