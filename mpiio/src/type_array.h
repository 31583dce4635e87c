/* Parts of arrays, as MPI_Type_create_subarray() and MPI_Type_create_darray() describe them. */
#ifndef WEFT_MPIIO_TYPE_ARRAY_H
#define WEFT_MPIIO_TYPE_ARRAY_H

#include "shape.h"

/* A part of an array of elements. `numbers` is what the datatype was made from: dimensions, sizes,
 * sizes of the part, its starts, and the order. */
struct placed type_subarray(struct arena *arena, struct placed element, int64_t extent,
                            const int64_t *numbers);

/* What one process has of a distributed array. `numbers` is what the datatype was made from:
 * processes, rank, dimensions, sizes, distributions, their arguments, processes in each dimension,
 * and the order. */
struct placed type_darray(struct arena *arena, struct placed element, int64_t extent,
                          const int64_t *numbers);

#endif
