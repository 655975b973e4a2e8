/* mpi4py.h: the MPI library that a Python program's mpi4py uses. mpi4py comes
 * for several MPI libraries at once, and chooses when it is imported. */
#ifndef LAUNCHER_MPI4PY_H
#define LAUNCHER_MPI4PY_H

#include "launcher/plan/plan.h"
#include "launcher/preload/python_command.h"

/* Asks the program's interpreter, in a child, for the file of mpi4py.MPI that
 * an import would load, without loading it. script: the program's, whose folder
 * Python searches first. 1 and the library that the file needs
 * ("libmpi.so.12"), or 0: not installed, or not found within 10 s. */
int mpi4py_library(const struct python_command *c, const char *script,
		   char out[MPI_LIBRARY_MAX]);

#endif
