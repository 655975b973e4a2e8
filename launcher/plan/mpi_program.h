/* mpi_program.h: detects an MPI program by its ELF file. Reads the file; starts
 * nothing. */
#ifndef LAUNCHER_MPI_PROGRAM_H
#define LAUNCHER_MPI_PROGRAM_H

#include <stddef.h>

#include "base/buf.h"

enum { MPI_LIBRARY_MAX = 64 };

/* 1 and the library's name ("libmpi.so.12") if the program at path needs an MPI
 * library or NVSHMEM's host library. Else 0 and "", as for a file that is not
 * an ELF program of this machine's kind (a script) and for an interpreter that
 * loads MPI later. Never an error: the result only decides about a warning. */
int mpi_program_library(const char *path, char out[MPI_LIBRARY_MAX]);

/* 1: that library looks for a server of PMI-1, or of PMIx. */
int mpi_program_speaks_pmi(const char *library);
int mpi_program_speaks_pmix(const char *library);

/* Pure: the same for the bytes of a file. */
int mpi_program_library_of(struct slice file, char out[MPI_LIBRARY_MAX]);

#endif
