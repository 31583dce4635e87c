#include "contents.h"

#include <string.h>

#include "type.h"

/* MPI_COUNT_KIND functions came with MPI-4. */
#if MPI_VERSION >= 4
#define LARGE_COUNTS 1
#else
#define LARGE_COUNTS 0
#endif

int contents_combiner(MPI_Datatype datatype, int *combiner)
{
#if LARGE_COUNTS
    MPI_Count integers, addresses, counts, types;
    return PMPI_Type_get_envelope_c(datatype, &integers, &addresses, &counts, &types, combiner);
#else
    int integers, addresses, types;
    return PMPI_Type_get_envelope(datatype, &integers, &addresses, &types, combiner);
#endif
}

#if LARGE_COUNTS
/* Puts counts where the older functions have them: behind the first `first` integers. */
static void merge(int64_t *numbers, const int *integers, size_t integers_count, size_t first,
                  const MPI_Count *counts, size_t counts_count)
{
    size_t n = 0;
    for (size_t i = 0; i < first; i++)
        numbers[n++] = integers[i];
    for (size_t i = 0; i < counts_count; i++)
        numbers[n++] = counts[i];
    for (size_t i = first; i < integers_count; i++)
        numbers[n++] = integers[i];
}

static size_t integers_before_counts(int combiner)
{
    return combiner == MPI_COMBINER_SUBARRAY ? 1 : combiner == MPI_COMBINER_DARRAY ? 3 : 0;
}
#endif

int contents_read(struct arena *arena, MPI_Datatype datatype, struct contents *contents)
{
#if LARGE_COUNTS
    MPI_Count integers_count, addresses_count, counts_count, types_count;
    int status = PMPI_Type_get_envelope_c(datatype, &integers_count, &addresses_count,
                                          &counts_count, &types_count, &contents->combiner);
#else
    int integers_count, addresses_count, counts_count = 0, types_count;
    int status = PMPI_Type_get_envelope(datatype, &integers_count, &addresses_count, &types_count,
                                        &contents->combiner);
#endif
    contents->types_count = 0;
    if (status != MPI_SUCCESS)
        return status;
    size_t i_count = (size_t)integers_count, a_count = (size_t)addresses_count;
    size_t c_count = (size_t)counts_count;
    int *integers = arena_array(arena, i_count, sizeof *integers);
    MPI_Aint *addresses = arena_array(arena, a_count, sizeof *addresses);
    contents->numbers = arena_array(arena, i_count + a_count + c_count, sizeof(int64_t));
    contents->types = arena_array(arena, (size_t)types_count, sizeof *contents->types);
#if LARGE_COUNTS
    MPI_Count *counts = arena_array(arena, c_count, sizeof *counts);
#endif
    if (arena->failed)
        return MPI_ERR_NO_MEM;
#if LARGE_COUNTS
    if (c_count > 0) {
        status = PMPI_Type_get_contents_c(datatype, integers_count, addresses_count, counts_count,
                                          types_count, integers, addresses, counts,
                                          contents->types);
        if (status == MPI_SUCCESS)
            merge(contents->numbers, integers, i_count, integers_before_counts(contents->combiner),
                  counts, c_count);
    } else
#endif
    {
        status = PMPI_Type_get_contents(datatype, (int)i_count, (int)a_count, (int)types_count,
                                        integers, addresses, contents->types);
        for (size_t i = 0; status == MPI_SUCCESS && i < i_count; i++)
            contents->numbers[i] = integers[i];
        for (size_t i = 0; status == MPI_SUCCESS && i < a_count; i++)
            contents->numbers[i_count + i] = addresses[i];
    }
    if (status == MPI_SUCCESS)
        contents->types_count = (size_t)types_count;
    return status;
}

void contents_free(struct contents *contents)
{
    for (size_t i = 0; i < contents->types_count; i++)
        if (!type_is_predefined(contents->types[i]))
            PMPI_Type_free(&contents->types[i]);
    contents->types_count = 0;
}
