/*
 * Datatypes as shapes, without a volume: what is decoded, cut, counted and looked up is compared with
 * what MPI_Pack() says. Built with the library's own sources.
 *
 *     shapes CASES
 */
#include "../src/type.h"
#include "random_types.h"

/* The place of each byte of one element. */
static MPI_Aint *places_of(MPI_Datatype type, int size)
{
    MPI_Aint lower, span;
    MPI_Type_get_true_extent(type, &lower, &span);
    MPI_Aint *places = calloc((size_t)size, sizeof *places);
    unsigned char *digits = malloc((size_t)span), *picked = malloc((size_t)size + 64);
    for (int shift = 0; shift < 24; shift += 8) {
        int position = 0;
        for (MPI_Aint i = 0; i < span; i++)
            digits[i] = (unsigned char)(i >> shift);
        MPI_Pack(digits - lower, 1, type, picked, size + 64, &position, MPI_COMM_SELF);
        for (int i = 0; i < size; i++)
            places[i] += ((MPI_Aint)picked[i] << shift) + (shift == 0 ? lower : 0);
    }
    free(digits);
    free(picked);
    return places;
}

struct walk {
    const MPI_Aint *next;
    uint64_t length;
};

static int step(void *context, int64_t at, uint64_t length)
{
    struct walk *walk = context;
    walk->length += length;
    for (uint64_t i = 0; i < length; i++)
        if (*walk->next++ != at + (int64_t)i)
            return 1;
    return 0;
}

static int is(struct placed shape, const MPI_Aint *places, int size)
{
    struct walk walk = {places, 0};
    return shape_size(shape) == (uint64_t)size && shape_visit(shape, step, &walk) == 0
           && walk.length == (uint64_t)size;
}

static void check(unsigned long long seed)
{
    struct dice dice = {seed};
    struct arena arena = {0};
    struct type *type;
    int size;
    MPI_Datatype etype = random_etype(&dice), datatype = random_type(&dice, etype, seed % 2);
    MPI_Type_size(datatype, &size);
    OK(type_decode(datatype, &type));
    MPI_Aint *places = places_of(datatype, size);
    EXPECT(is(type->shape, places, size), "seed %llu is decoded wrongly", seed);
    EXPECT(is(shape_flat(&arena, type->shape), places, size), "seed %llu is flat wrongly", seed);
    for (int i = 0; i < 8; i++) {
        int from = roll(&dice, size), to = from + 1 + roll(&dice, size - from), below = 0;
        int64_t limit = places[roll(&dice, size)] + roll(&dice, 3);
        EXPECT(is(shape_cut(&arena, type->shape, (uint64_t)from, (uint64_t)to), places + from,
                  to - from), "seed %llu is cut wrongly: %d to %d", seed, from, to);
        EXPECT(shape_position(type->shape, (uint64_t)from) == places[from],
               "seed %llu: where byte %d is", seed, from);
        for (int k = 0; k < size; k++)
            below += places[k] < limit;
        EXPECT(shape_below(type->shape, limit) == (uint64_t)below, "seed %llu: %d are below %lld",
               seed, below, (long long)limit);
    }
    /* What cannot overlap, does not: the other answer may be too careful. */
    if (!shape_may_overlap(type->shape))
        for (int i = 0; i < size && size < 2000; i++)
            for (int k = 0; k < i; k++)
                EXPECT(places[i] != places[k], "seed %llu: bytes %d and %d overlap", seed, i, k);
    free(places);
    arena_free(&arena);
    type_free(type);
    MPI_Type_free(&datatype);
    MPI_Type_free(&etype);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    unsigned long long cases = strtoull(argv[1], NULL, 10);
    for (unsigned long long seed = 0; seed < cases; seed++)
        check(seed);
    printf("%llu datatypes\n", cases);
    MPI_Finalize();
    return 0;
}
