/* crash_stack.c: from a record to libdw's unwinder. */

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/crash/crash_record.h"
#include "launcher/failure/exit_code.h"
#include "launcher/inspect/backtrace.h"

enum { NAME_SHOWN = 160 }; /* bytes of a C++ name with all its types */

/* __cxa_demangle of the C++ library: NULL if there is none, or if name is not a
 * C++ or Rust name. The caller frees the result. */
static char *crash_stack_demangle(const char *name)
{
	static char *(*demangle)(const char *, char *, size_t *, int *);
	static void *library;

	if (strncmp(name, "_Z", 2) != 0)
		return NULL;
	if (!library) {
		library = dlopen("libstdc++.so.6", RTLD_LAZY);
		if (library)
			*(void **)&demangle = dlsym(library, "__cxa_demangle");
	}
	return demangle ? demangle(name, NULL, NULL, NULL) : NULL;
}

static void crash_stack_on_frame(void *arg, int i,
				 const struct backtrace_frame *x)
{
	char *plain = crash_stack_demangle(x->function);

	printf("#%d %.*s", i, NAME_SHOWN, plain ? plain
	       : x->function[0] ? x->function : "?");
	free(plain);
	if (x->source[0])
		printf(" at %s", x->source);
	if (x->module[0] && !x->function[0])
		printf(" (%s+0x%llx)", x->module,
		       (unsigned long long)x->offset);
	else if (x->module[0])
		printf(" (%s)", x->module);
	printf("\n");
	fflush(stdout);
}

/* The executables' paths mean other files, or none, in another container. */
static int crash_stack_is_same_root(const struct crash_record *r)
{
	struct stat root;

	return stat("/", &root) == 0 && root.st_dev == r->root_device &&
	       root.st_ino == r->root_inode;
}

static int crash_stack_read(struct thread_snapshot *s, struct crash_record *r,
			    char **maps, off_t at)
{
	if (pread(0, r, sizeof(*r), at) != (ssize_t)sizeof(*r) ||
	    r->magic != CRASH_MAGIC || r->stack_size > SNAPSHOT_STACK_MAX ||
	    r->maps_size > CRASH_MAPS_MAX || r->nregisters < 0 ||
	    r->nregisters > SNAPSHOT_REGISTERS)
		return -1;
	*s = (struct thread_snapshot){
		.tid = r->tid, .nregisters = r->nregisters, .pc = r->pc,
		.sp = r->stack_from, .is_dead = 1, .size = r->stack_size,
	};
	memcpy(s->registers, r->registers, sizeof(s->registers));
	*maps = malloc(r->maps_size + 1);
	if (!*maps || !r->maps_size ||
	    pread(0, *maps, r->maps_size, at + CRASH_MAPS_AT) !=
		    (ssize_t)r->maps_size ||
	    pread(0, s->stack, r->stack_size, at + CRASH_STACK_AT) !=
		    (ssize_t)r->stack_size)
		return -1;
	return 0;
}

int crash_stack_main(int argc, char **argv)
{
	static struct thread_snapshot s;
	struct crash_record r;
	struct err e = ERR_INIT;
	char *maps = NULL;
	FILE *file = NULL;

	if (argc != 2 ||
	    crash_stack_read(&s, &r, &maps,
			     (off_t)strtoll(argv[1], NULL, 10)) < 0)
		err_set(&e, ERR_USAGE, "there is no crash record on stdin");
	else if (!crash_stack_is_same_root(&r))
		err_set(&e, ERR_SYSTEM, "its files are in another container");
	else
		file = fmemopen(maps, r.maps_size, "r");
	if (file) {
		backtrace_dead_thread(&s, file, crash_stack_on_frame, NULL, &e);
		fclose(file);
	}
	free(maps);
	if (e.code)
		printf("%s\n", e.text);
	return e.code ? EXIT_OS : 0;
}
