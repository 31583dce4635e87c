/*
 * How functions of MPI are interposed.
 *
 * Both names of a function are ours, MPI_File_open and PMPI_File_open: Open MPI's Fortran interface
 * and profiling tools call the latter. The MPI library's own is found behind ours in the order of
 * the dynamic linker. All other functions of MPI are called by their names PMPI_..., so a tool
 * that counts calls sees those of the program alone.
 */
#ifndef WEFT_MPIIO_EXPORT_H
#define WEFT_MPIIO_EXPORT_H

#include <mpi.h>
#include <stdatomic.h>

typedef void (*export_function)(void);

/* Finds a function of the MPI library, and remembers it in *found. Ends the process with a message
 * if there is none, as a program with an undefined symbol would. */
export_function export_next(const char *name, _Atomic(export_function) *found);

/* Stands before the definition of MPI_name: PMPI_name is the same function. */
#define INTERPOSE(name)                                                                           \
    static _Atomic(export_function) next_##name;                                                  \
    extern __typeof__(PMPI_##name) PMPI_##name __attribute__((alias("MPI_" #name)));

/* The MPI library's own function, such as NEXT(File_open)(comm, ...). */
#define NEXT(name) ((__typeof__(&PMPI_##name))export_next("PMPI_" #name, &next_##name))

#endif
