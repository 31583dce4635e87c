#include "type_array.h"

#include <mpi.h>

/* The dimension that is number `i` from the one whose elements are next to each other. */
static int64_t dimension(int64_t i, int64_t dimensions, int64_t order)
{
    return order == MPI_ORDER_FORTRAN ? i : dimensions - 1 - i;
}

struct placed type_subarray(struct arena *arena, struct placed element, int64_t extent,
                            const int64_t *numbers)
{
    int64_t dimensions = numbers[0], order = numbers[1 + 3 * dimensions];
    const int64_t *sizes = numbers + 1, *parts = sizes + dimensions, *starts = parts + dimensions;
    struct placed shape = element;
    int64_t stride = extent;
    for (int64_t i = 0; i < dimensions; i++) {
        int64_t d = dimension(i, dimensions, order);
        shape = shape_repeat(arena, shape, stride, (uint64_t)parts[d]);
        shape.at += starts[d] * stride;
        stride *= sizes[d];
    }
    return shape;
}

/* One dimension of a distributed array, as one process of it sees it. */
struct share {
    int64_t size;
    int64_t distribution;
    int64_t argument;
    int64_t processes;
    int64_t process;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct placed distribute(struct arena *arena, struct placed shape, int64_t stride,
                                const struct share *share)
{
    int64_t block, processes = share->processes, process = share->process;
    int has_argument = share->argument != MPI_DISTRIBUTE_DFLT_DARG;
    if (share->distribution == MPI_DISTRIBUTE_NONE) {
        processes = 1;
        process = 0;
        block = share->size;
    } else if (share->distribution == MPI_DISTRIBUTE_BLOCK) {
        block = has_argument ? share->argument : (share->size + processes - 1) / processes;
    } else {
        block = has_argument ? share->argument : 1;
    }
    int64_t first = process * block, cycle = processes * block;
    if (first >= share->size)
        return (struct placed){0, NULL};
    if (share->distribution != MPI_DISTRIBUTE_CYCLIC) {
        shape = shape_repeat(arena, shape, stride, (uint64_t)least(block, share->size - first));
        shape.at += first * stride;
        return shape;
    }
    /* Whole blocks, a cycle apart, and what is left of the last one. */
    int64_t whole = share->size - first < block ? 0 : (share->size - first - block) / cycle + 1;
    int64_t next = first + whole * cycle;
    struct placed members[2];
    members[0] = shape_repeat(arena, shape, stride, (uint64_t)block);
    members[0] = shape_repeat(arena, members[0], stride * cycle, (uint64_t)whole);
    members[0].at += first * stride;
    uint64_t rest = next < share->size ? (uint64_t)least(block, share->size - next) : 0;
    members[1] = shape_repeat(arena, shape, stride, rest);
    members[1].at += next * stride;
    return shape_sequence(arena, 2, members);
}

struct placed type_darray(struct arena *arena, struct placed element, int64_t extent,
                          const int64_t *numbers)
{
    int64_t rank = numbers[1], dimensions = numbers[2], order = numbers[3 + 4 * dimensions];
    const int64_t *sizes = numbers + 3, *distributions = sizes + dimensions;
    const int64_t *arguments = distributions + dimensions, *grid = arguments + dimensions;
    struct placed shape = element;
    int64_t stride = extent;
    for (int64_t i = 0; i < dimensions; i++) {
        int64_t d = dimension(i, dimensions, order);
        /* Ranks are numbered by rows of the grid of processes, in both orders of the array. */
        int64_t below = 1;
        for (int64_t k = d + 1; k < dimensions; k++)
            below *= grid[k];
        struct share share = {sizes[d], distributions[d], arguments[d], grid[d],
                              rank / below % grid[d]};
        shape = distribute(arena, shape, stride, &share);
        if (shape.shape == NULL)
            return shape;
        stride *= sizes[d];
    }
    return shape;
}
