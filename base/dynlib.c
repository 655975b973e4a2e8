/* dynlib.c: dlopen, and dlsym for each row. */
#include "base/dynlib.h"

#include <dlfcn.h>

void *dynlib_load(const struct dynlib *s, void *calls, struct err *e)
{
	void *library = dlopen(s->soname, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		err_set(e, ERR_SYSTEM, "%s: %s (%s)", s->without, dlerror(),
			s->remedy);
		return NULL;
	}
	for (size_t i = 0; i < s->n; i++) {
		void *symbol = dlsym(library, s->rows[i].name);

		if (!symbol) {
			err_set(e, ERR_SYSTEM, "%s: %s has no %s (%s)",
				s->without, s->soname, s->rows[i].name,
				s->remedy);
			dlclose(library);
			return NULL;
		}
		*(void **)((char *)calls + s->rows[i].offset) = symbol;
	}
	return library;
}
