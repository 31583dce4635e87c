/*
 * The contents of a datatype, in one order whichever function made it.
 *
 * The functions of MPI-4 for large counts store counts and displacements apart from other numbers.
 * Here all numbers are in one array, in the order of the older functions: integers, then addresses.
 */
#ifndef WEFT_MPIIO_CONTENTS_H
#define WEFT_MPIIO_CONTENTS_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"

struct contents {
    int combiner;
    int64_t *numbers;
    size_t types_count;
    MPI_Datatype *types; /* freed by contents_free() */
};

/* Stores the combiner of a datatype in *combiner. Returns MPI_SUCCESS or a code of MPI. */
int contents_combiner(MPI_Datatype datatype, int *combiner);

/* Reads the contents of a datatype that has no name. Returns MPI_SUCCESS or a code of MPI. */
int contents_read(struct arena *arena, MPI_Datatype datatype, struct contents *contents);

/* Frees the datatypes in contents. */
void contents_free(struct contents *contents);

#endif
