/* lone_script.h: warns of a Python script whose processes would not meet: it
 * calls JAX, TensorFlow, Paddle or mpi4py in a job that does not give these
 * what they need. Reads the script's text; starts nothing. */
#ifndef LAUNCHER_LONE_SCRIPT_H
#define LAUNCHER_LONE_SCRIPT_H

#include <stdint.h>

#include "base/buf.h"

/* A bit beside those of framework.h. */
enum { LONE_SCRIPT_MPI4PY = 8 };

/* The calls in the text by which processes meet, as a set of LONE_SCRIPT_MPI4PY
 * and framework.h's bits. Without a library whose variables the text sets
 * itself. Pure. */
unsigned lone_script_uses(struct slice text);
/* 1 if the text, when it is executed, imports mpi4py.MPI, whose import calls
 * MPI_Init: in a line that is not indented, and so neither in a function nor
 * for some ranks only. Pure. */
int lone_script_starts_mpi(struct slice text);
/* Both for a file and the modules beside it that it imports
 * (script_modules.h). Never an error: 0 if it cannot be read, or is larger than
 * a script. */
unsigned lone_script_read(const char *path, int *starts_mpi);

enum { LONE_SCRIPT_TEXT_MAX = 512 };

struct lone_script {
	const char *path;
	unsigned uses;
	unsigned served;   /* the same bits: --env, --mpi */
	uint32_t nproc, world_size;
};

/* What to tell the user, in out[LONE_SCRIPT_TEXT_MAX]; NULL if there is nothing
 * to tell. vars: the launcher's own variables, ends with NULL. Pure. */
const char *lone_script_text(const struct lone_script *s, char *const *vars,
			     char *out);

#endif
