/*
 * Datatypes of MPI as shapes.
 *
 * A datatype is decoded by its envelopes and contents, down to the types that have a name. The
 * result is cached with the datatype, as an attribute, and freed with it.
 */
#ifndef WEFT_MPIIO_TYPE_H
#define WEFT_MPIIO_TYPE_H

#include <mpi.h>
#include <stdatomic.h>

#include "shape.h"

struct type {
    struct placed shape;
    int64_t lower;  /* lower bound */
    int64_t extent; /* from one element to the next */
    uint64_t size;  /* bytes of data */
    struct arena arena;
    atomic_int uses;
};

/* Decodes a datatype and stores it in *type, to be freed by type_free(). Returns MPI_SUCCESS or a
 * code of MPI. */
int type_decode(MPI_Datatype datatype, struct type **type);

/* Frees a decoded type. NULL is allowed. */
void type_free(struct type *type);

/* Returns 1 for datatypes that must not be freed: those that have a name, or a parameter for it. */
int type_is_predefined(MPI_Datatype datatype);

#endif
