#include "type.h"

#include <pthread.h>
#include <stdlib.h>

#include "contents.h"
#include "type_array.h"

/* Datatypes are nested as deep as programs nest them; deeper ones are refused. */
enum { DEPTH_MAX = 64 };

static int key = MPI_KEYVAL_INVALID;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct decoding {
    struct arena *arena;
    int depth;
};

static int decode(struct decoding *decoding, MPI_Datatype datatype, struct placed *shape);

/* An element of which others are made. */
struct element {
    struct placed shape;
    int64_t extent;
};

static int decode_element(struct decoding *decoding, MPI_Datatype datatype, struct element *element)
{
    MPI_Count lower, extent;
    int status = PMPI_Type_get_extent_x(datatype, &lower, &extent);
    if (status != MPI_SUCCESS)
        return status;
    element->extent = extent;
    return decode(decoding, datatype, &element->shape);
}

/* A type with a name: one run, except the pair that has a gap. */
static int decode_named(struct decoding *decoding, MPI_Datatype datatype, struct placed *shape)
{
    MPI_Count size;
    int status = PMPI_Type_size_x(datatype, &size);
    if (status != MPI_SUCCESS)
        return status;
    if (datatype == MPI_SHORT_INT) {
        struct pair { short value; int index; };
        weft_run runs[] = {{0, sizeof(short)}, {offsetof(struct pair, index), sizeof(int)}};
        *shape = shape_list(decoding->arena, 2, runs);
        return MPI_SUCCESS;
    }
    if (datatype == MPI_LONG_DOUBLE_INT && size == sizeof(long double) + sizeof(int)) {
        struct pair { long double value; int index; };
        weft_run runs[] = {{0, sizeof(long double)}, {offsetof(struct pair, index), sizeof(int)}};
        *shape = shape_list(decoding->arena, 2, runs);
        return MPI_SUCCESS;
    }
    *shape = shape_run(decoding->arena, 0, (uint64_t)size);
    return MPI_SUCCESS;
}

static struct placed moved(struct placed shape, int64_t by)
{
    shape.at += by;
    return shape;
}

/* `length` elements one after the other. */
static struct placed block(struct arena *arena, const struct element *element, int64_t length)
{
    return shape_repeat(arena, element->shape, element->extent, length < 0 ? 0 : (uint64_t)length);
}

/* Blocks of one element each at its displacement, in bytes. `lengths` has one number for each, or
 * one for all if `step` is 0. */
static struct placed blocks(struct arena *arena, const struct element *element, int64_t count,
                            const int64_t *lengths, size_t step, const int64_t *displacements,
                            int64_t unit)
{
    if (count <= 0)
        return (struct placed){0, NULL};
    struct placed *members = arena_array(arena, (size_t)count, sizeof *members);
    int64_t length = -1;
    struct placed last = {0, NULL};
    for (int64_t i = 0; members != NULL && i < count; i++) {
        /* Blocks of one length share a shape: the sequence may then be a repetition. */
        if (i == 0 || lengths[(size_t)i * step] != length) {
            length = lengths[(size_t)i * step];
            last = block(arena, element, length);
        }
        members[i] = moved(last, displacements[i] * unit);
    }
    return members == NULL ? (struct placed){0, NULL}
                           : shape_sequence(arena, (size_t)count, members);
}

static int decode_struct(struct decoding *decoding, const struct contents *contents,
                         struct placed *shape)
{
    const int64_t *n = contents->numbers;
    size_t count = (size_t)n[0];
    struct placed *members = arena_array(decoding->arena, count, sizeof *members);
    for (size_t i = 0; members != NULL && i < count; i++) {
        struct element element;
        int status = decode_element(decoding, contents->types[i], &element);
        if (status != MPI_SUCCESS)
            return status;
        members[i] = moved(block(decoding->arena, &element, n[1 + i]), n[1 + count + i]);
    }
    if (members != NULL)
        *shape = shape_sequence(decoding->arena, count, members);
    return MPI_SUCCESS;
}

static int decode_contents(struct decoding *decoding, const struct contents *contents,
                           struct placed *shape)
{
    const int64_t *n = contents->numbers;
    struct arena *arena = decoding->arena;
    struct element element;
    if (contents->combiner == MPI_COMBINER_STRUCT)
        return decode_struct(decoding, contents, shape);
    if (contents->types_count != 1)
        return MPI_ERR_TYPE;
    int status = decode_element(decoding, contents->types[0], &element);
    if (status != MPI_SUCCESS)
        return status;
    switch (contents->combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
        *shape = element.shape;
        break;
    case MPI_COMBINER_CONTIGUOUS:
        *shape = block(arena, &element, n[0]);
        break;
    case MPI_COMBINER_VECTOR:
        *shape = shape_repeat(arena, block(arena, &element, n[1]), n[2] * element.extent,
                              (uint64_t)n[0]);
        break;
    case MPI_COMBINER_HVECTOR:
        *shape = shape_repeat(arena, block(arena, &element, n[1]), n[2], (uint64_t)n[0]);
        break;
    case MPI_COMBINER_INDEXED:
        *shape = blocks(arena, &element, n[0], n + 1, 1, n + 1 + n[0], element.extent);
        break;
    case MPI_COMBINER_HINDEXED:
        *shape = blocks(arena, &element, n[0], n + 1, 1, n + 1 + n[0], 1);
        break;
    case MPI_COMBINER_INDEXED_BLOCK:
        *shape = blocks(arena, &element, n[0], n + 1, 0, n + 2, element.extent);
        break;
    case MPI_COMBINER_HINDEXED_BLOCK:
        *shape = blocks(arena, &element, n[0], n + 1, 0, n + 2, 1);
        break;
    case MPI_COMBINER_SUBARRAY:
        *shape = type_subarray(arena, element.shape, element.extent, n);
        break;
    case MPI_COMBINER_DARRAY:
        *shape = type_darray(arena, element.shape, element.extent, n);
        break;
    default:
        return MPI_ERR_TYPE;
    }
    return MPI_SUCCESS;
}

static int is_parameterized(int combiner)
{
    return combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX
           || combiner == MPI_COMBINER_F90_INTEGER;
}

int type_is_predefined(MPI_Datatype datatype)
{
    int combiner;
    return contents_combiner(datatype, &combiner) == MPI_SUCCESS
           && (combiner == MPI_COMBINER_NAMED || is_parameterized(combiner));
}

static int decode(struct decoding *decoding, MPI_Datatype datatype, struct placed *shape)
{
    int combiner;
    int status = contents_combiner(datatype, &combiner);
    *shape = (struct placed){0, NULL};
    if (status != MPI_SUCCESS)
        return status;
    if (combiner == MPI_COMBINER_NAMED || is_parameterized(combiner))
        return decode_named(decoding, datatype, shape);
    if (decoding->depth == DEPTH_MAX)
        return MPI_ERR_TYPE;
    struct contents contents;
    struct arena scratch = {0};
    status = contents_read(&scratch, datatype, &contents);
    if (status == MPI_SUCCESS) {
        decoding->depth++;
        status = decode_contents(decoding, &contents, shape);
        decoding->depth--;
    }
    contents_free(&contents);
    arena_free(&scratch);
    if (status == MPI_SUCCESS && decoding->arena->failed)
        status = MPI_ERR_NO_MEM;
    return status;
}

/* The datatype is freed. */
static int forget(MPI_Datatype datatype, int keyval, void *value, void *extra)
{
    (void)datatype, (void)keyval, (void)extra;
    type_free(value);
    return MPI_SUCCESS;
}

/* Returns the key of decoded types, MPI_KEYVAL_INVALID if MPI gives none. */
static int cache_key(void)
{
    pthread_mutex_lock(&lock);
    if (key == MPI_KEYVAL_INVALID
        && PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, forget, &key, NULL) != MPI_SUCCESS)
        key = MPI_KEYVAL_INVALID;
    pthread_mutex_unlock(&lock);
    return key;
}

/* Returns what is cached with a datatype, or NULL. */
static struct type *cached(MPI_Datatype datatype, int keyval)
{
    void *value;
    int found = 0;
    if (PMPI_Type_get_attr(datatype, keyval, &value, &found) != MPI_SUCCESS || !found)
        return NULL;
    struct type *type = value;
    atomic_fetch_add(&type->uses, 1);
    return type;
}

int type_decode(MPI_Datatype datatype, struct type **type)
{
    int combiner;
    if (datatype == MPI_DATATYPE_NULL)
        return MPI_ERR_TYPE;
    int status = contents_combiner(datatype, &combiner);
    if (status != MPI_SUCCESS)
        return MPI_ERR_TYPE;
    int caches = combiner != MPI_COMBINER_NAMED && !is_parameterized(combiner);
    int keyval = caches ? cache_key() : MPI_KEYVAL_INVALID;
    struct type *made = keyval == MPI_KEYVAL_INVALID ? NULL : cached(datatype, keyval);
    if (made != NULL) {
        *type = made;
        return MPI_SUCCESS;
    }
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return MPI_ERR_NO_MEM;
    atomic_init(&made->uses, 1);
    MPI_Count lower, extent;
    struct decoding decoding = {&made->arena, 0};
    status = PMPI_Type_get_extent_x(datatype, &lower, &extent);
    if (status == MPI_SUCCESS)
        status = decode(&decoding, datatype, &made->shape);
    if (status != MPI_SUCCESS) {
        type_free(made);
        return status;
    }
    made->lower = lower;
    made->extent = extent;
    made->size = shape_size(made->shape);
    if (keyval != MPI_KEYVAL_INVALID) {
        atomic_fetch_add(&made->uses, 1);
        if (PMPI_Type_set_attr(datatype, keyval, made) != MPI_SUCCESS)
            type_free(made);
    }
    *type = made;
    return MPI_SUCCESS;
}

void type_free(struct type *type)
{
    if (type == NULL || atomic_fetch_sub(&type->uses, 1) != 1)
        return;
    arena_free(&type->arena);
    free(type);
}
