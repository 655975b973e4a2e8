/* mpi_program.h: tells from a program's ELF file whether it is an MPI program.
 * Reads the file; starts nothing. */
#ifndef LAUNCHER_MPI_PROGRAM_H
#define LAUNCHER_MPI_PROGRAM_H

#include <stddef.h>

#include "base/buf.h"

enum { MPI_LIBRARY_MAX = 64 };

/* 1 and the library's name ("libmpi.so.12") if the program at path names an MPI
 * library, or NVSHMEM's host library, among those that it needs. 0 and "" if
 * not, and for what is no ELF program of this machine's kind: a script, an
 * interpreter that loads MPI later. Never an error: it decides about a warning.
 */
int mpi_program_library(const char *path, char out[MPI_LIBRARY_MAX]);

/* Pure: the same for the bytes of a file. */
int mpi_program_library_of(struct slice file, char out[MPI_LIBRARY_MAX]);

#endif
