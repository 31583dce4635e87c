/*
 * Random datatypes, the same for the same seed.
 *
 * Those of files ascend, and no two of their bytes are one: what MPI demands of a filetype. Those of
 * memory may also descend.
 */
#ifndef WEFT_MPIIO_RANDOM_TYPES_H
#define WEFT_MPIIO_RANDOM_TYPES_H

#include "expect.h"

struct dice {
    unsigned long long state;
};

/* A number from 0 to `sides` - 1. */
static inline int roll(struct dice *dice, int sides)
{
    dice->state = dice->state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int)((dice->state >> 33) % (unsigned)sides);
}

static inline MPI_Datatype own(MPI_Datatype type)
{
    MPI_Datatype copy;
    MPI_Type_dup(type, &copy);
    return copy;
}

/* An element: a type with a name, or a small record of several. */
static inline MPI_Datatype random_etype(struct dice *dice)
{
    static const int lengths[] = {1, 2};
    MPI_Datatype type, record[2] = {MPI_INT, MPI_SHORT};
    MPI_Aint places[] = {0, 8};
    switch (roll(dice, 6)) {
    case 0:
        return own(MPI_BYTE);
    case 1:
        return own(MPI_INT);
    case 2:
        return own(MPI_DOUBLE);
    case 3:
        MPI_Type_contiguous(3, MPI_BYTE, &type);
        return type;
    case 4:
        MPI_Type_create_struct(2, lengths, places, record, &type);
        return type;
    default:
        return own(MPI_SHORT_INT);
    }
}

static inline MPI_Datatype random_array(struct dice *dice, MPI_Datatype old)
{
    MPI_Datatype type;
    int sizes[3], parts[3], starts[3], distributions[3], arguments[3], grid[3], dimensions;
    int order = roll(dice, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, processes = 1;
    dimensions = 1 + roll(dice, 3);
    for (int d = 0; d < dimensions; d++) {
        static const int kinds[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC,
                                    MPI_DISTRIBUTE_NONE};
        sizes[d] = 1 + roll(dice, 5);
        parts[d] = 1 + roll(dice, sizes[d]);
        starts[d] = roll(dice, sizes[d] - parts[d] + 1);
        distributions[d] = kinds[roll(dice, 3)];
        grid[d] = distributions[d] == MPI_DISTRIBUTE_NONE ? 1 : 1 + roll(dice, sizes[d]);
        arguments[d] = MPI_DISTRIBUTE_DFLT_DARG;
        if (distributions[d] == MPI_DISTRIBUTE_CYCLIC && roll(dice, 2))
            arguments[d] = 1 + roll(dice, 2);
        processes *= grid[d];
    }
    if (roll(dice, 2))
        MPI_Type_create_subarray(dimensions, sizes, parts, starts, order, old, &type);
    else
        MPI_Type_create_darray(processes, roll(dice, processes), dimensions, sizes, distributions,
                               arguments, grid, order, old, &type);
    return type;
}

/* One type made of another. Consumes `old`. */
static inline MPI_Datatype random_step(struct dice *dice, MPI_Datatype old, int ascends)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Aint lower, extent, places[4];
    int lengths[4], displacements[4], n = 1 + roll(dice, 3), block = 1 + roll(dice, 3);
    MPI_Type_get_extent(old, &lower, &extent);
    int at = roll(dice, 3);
    for (int i = 0; i < n; i++) {
        lengths[i] = 1 + roll(dice, 3);
        displacements[i] = at;
        places[i] = at * extent;
        at += (lengths[i] > block ? lengths[i] : block) + roll(dice, 3);
    }
    if (!ascends && roll(dice, 2))
        for (int i = 0; i < n / 2; i++) {
            int swap = displacements[i];
            displacements[i] = displacements[n - 1 - i];
            displacements[n - 1 - i] = swap;
            places[i] = displacements[i] * extent;
            places[n - 1 - i] = displacements[n - 1 - i] * extent;
            lengths[i] = lengths[n - 1 - i] = 1;
        }
    switch (roll(dice, 10)) {
    case 0:
        MPI_Type_contiguous(1 + roll(dice, 4), old, &type);
        break;
    case 1:
        MPI_Type_vector(1 + roll(dice, 4), block, block + roll(dice, 3), old, &type);
        break;
    case 2:
        MPI_Type_create_hvector(1 + roll(dice, 4), block, (block + roll(dice, 3)) * extent, old,
                                &type);
        break;
    case 3:
        MPI_Type_indexed(n, lengths, displacements, old, &type);
        break;
    case 4:
        MPI_Type_create_hindexed(n, lengths, places, old, &type);
        break;
    case 5:
        MPI_Type_create_indexed_block(n, 1, displacements, old, &type);
        break;
    case 6:
        MPI_Type_create_hindexed_block(n, 1, places, old, &type);
        break;
    case 7:
        type = random_array(dice, old);
        break;
    case 8: {
        MPI_Datatype olds[4] = {old, old, old, old};
        MPI_Type_create_struct(n, lengths, places, olds, &type);
        break;
    }
    default:
        MPI_Type_create_resized(old, lower, extent + roll(dice, 4) * 8, &type);
        break;
    }
    MPI_Type_free(&old);
    /* What is left of an array for a process may be nothing; and extents must cover the bytes. */
    int size;
    MPI_Aint true_lower, true_extent;
    MPI_Type_size(type, &size);
    MPI_Type_get_extent(type, &lower, &extent);
    MPI_Type_get_true_extent(type, &true_lower, &true_extent);
    if (true_lower + true_extent > lower + extent || lower != 0 || true_lower < 0) {
        MPI_Datatype wide;
        MPI_Aint upper = true_lower + true_extent > extent ? true_lower + true_extent : extent;
        MPI_Type_create_resized(type, 0, upper, &wide);
        MPI_Type_free(&type);
        type = wide;
    }
    return type;
}

/* A type made of elements by up to three steps, of at least one byte. */
static inline MPI_Datatype random_type(struct dice *dice, MPI_Datatype etype, int ascends)
{
    MPI_Datatype type = own(etype);
    int size = 0;
    for (int steps = roll(dice, 4); steps > 0; steps--)
        type = random_step(dice, type, ascends);
    MPI_Type_size(type, &size);
    if (size == 0) {
        MPI_Type_free(&type);
        type = own(etype);
    }
    MPI_Type_commit(&type);
    return type;
}

#endif
