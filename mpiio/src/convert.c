#include "convert.h"

#include <stdlib.h>
#include <string.h>

#include "contents.h"
#include "error.h"
#include "type.h"

/* Elements that the MPI library converts in one call, whose counts are of type int. */
enum { BATCH = 1 << 20 };

static const char *const NAMES[] = {"native", "internal", "external32"};

int convert_find(const char *name, enum representation *representation)
{
    for (int i = NATIVE; i <= EXTERNAL32; i++)
        if (strcmp(name, NAMES[i]) == 0) {
            *representation = (enum representation)i;
            return MPI_SUCCESS;
        }
    return error_make(MPI_ERR_UNSUPPORTED_DATAREP, "Weft has no data representation %.64s: use "
                      "native, internal or external32", name);
}

const char *convert_name(enum representation representation)
{
    return NAMES[representation];
}

/* Packs `count` elements from `buffer`; `room` bytes are there. Stores where it ended. */
static int pack(const char *buffer, MPI_Count count, MPI_Datatype datatype, MPI_Count extent,
                char *packed, MPI_Aint room, MPI_Aint *end)
{
    *end = 0;
    for (MPI_Count i = 0; i < count; i += BATCH) {
        int batch = (int)(count - i < BATCH ? count - i : BATCH);
        int status = PMPI_Pack_external("external32", buffer + i * extent, batch, datatype, packed,
                                        room, end);
        if (status != MPI_SUCCESS)
            return status;
    }
    return MPI_SUCCESS;
}

static int unpack(const char *packed, MPI_Aint length, char *buffer, MPI_Count count,
                  MPI_Datatype datatype, MPI_Count extent)
{
    MPI_Aint end = 0;
    for (MPI_Count i = 0; i < count; i += BATCH) {
        int batch = (int)(count - i < BATCH ? count - i : BATCH);
        int status = PMPI_Unpack_external("external32", packed, length, &end, buffer + i * extent,
                                          batch, datatype);
        if (status != MPI_SUCCESS)
            return status;
    }
    return MPI_SUCCESS;
}

/* MPICH ends the program when it converts this one. */
static int has_wide_characters(MPI_Datatype datatype)
{
    struct arena arena = {0};
    struct contents contents;
    int found = 0;
    if (datatype == MPI_WCHAR)
        return 1;
    if (type_is_predefined(datatype) || contents_read(&arena, datatype, &contents) != MPI_SUCCESS) {
        arena_free(&arena);
        return 0;
    }
    for (size_t i = 0; i < contents.types_count && !found; i++)
        found = has_wide_characters(contents.types[i]);
    contents_free(&contents);
    arena_free(&arena);
    return found;
}

int convert_check(MPI_Datatype datatype, enum representation representation)
{
    MPI_Count size, lower, extent;
    MPI_Aint end = 0;
    if (representation != EXTERNAL32)
        return MPI_SUCCESS;
    if (has_wide_characters(datatype))
        return error_make(MPI_ERR_UNSUPPORTED_DATAREP, "Weft does not convert MPI_WCHAR to "
                          "external32: use MPI_BYTE or MPI_INT32_T");
    int status = PMPI_Type_size_x(datatype, &size);
    if (status == MPI_SUCCESS)
        status = PMPI_Type_get_true_extent_x(datatype, &lower, &extent);
    if (status != MPI_SUCCESS)
        return status;
    char *element = calloc(1, (size_t)extent + 1);
    char *packed = calloc(1, (size_t)size + 64);
    if (element == NULL || packed == NULL)
        status = MPI_ERR_NO_MEM;
    else
        status = pack(element - lower, 1, datatype, 0, packed, size + 64, &end);
    free(element);
    free(packed);
    if (status != MPI_SUCCESS || end != size)
        return error_make(MPI_ERR_UNSUPPORTED_DATAREP, "a datatype of %lld bytes cannot be converted "
                          "to external32: it has elements of another size there; use types such as "
                          "MPI_INT, MPI_DOUBLE and MPI_INT64_T", (long long)size);
    return MPI_SUCCESS;
}

int convert_begin(struct conversion *conversion, const struct access *access, int is_write)
{
    MPI_Count lower, extent;
    MPI_Aint end;
    if (access->view->representation != EXTERNAL32)
        return MPI_SUCCESS;
    int status = convert_check(access->datatype, EXTERNAL32);
    if (status != MPI_SUCCESS)
        return status;
    conversion->packed = calloc(1, access->bytes);
    if (conversion->packed == NULL)
        return error_make(MPI_ERR_NO_MEM, "there is no memory to convert %llu bytes",
                          (unsigned long long)access->bytes);
    conversion->datatype = access->datatype;
    if (!is_write)
        return type_is_predefined(access->datatype)
                   ? MPI_SUCCESS
                   : PMPI_Type_dup(access->datatype, &conversion->datatype);
    PMPI_Type_get_extent_x(access->datatype, &lower, &extent);
    status = pack(access->buffer, access->count, access->datatype, extent, conversion->packed,
                  (MPI_Aint)access->bytes, &end);
    if (status != MPI_SUCCESS)
        return error_make(MPI_ERR_CONVERSION, "the MPI library cannot convert to external32");
    return MPI_SUCCESS;
}

int convert_by_buffer(struct conversion *conversion, const struct access *access,
                      struct placed memory)
{
    conversion->packed = malloc(access->bytes);
    if (conversion->packed == NULL)
        return error_make(MPI_ERR_NO_MEM, "there is no memory to read %llu bytes",
                          (unsigned long long)access->bytes);
    conversion->scatter = memory;
    return MPI_SUCCESS;
}

struct scattering {
    const char *from;
    char *to;
    uint64_t left;
};

static int scatter(void *context, int64_t at, uint64_t length)
{
    struct scattering *scattering = context;
    if (length > scattering->left)
        length = scattering->left;
    memcpy(scattering->to + at, scattering->from, length);
    scattering->from += length;
    scattering->left -= length;
    return scattering->left == 0;
}

int convert_end(struct conversion *conversion, const struct access *access, int is_write,
                uint64_t moved)
{
    MPI_Count lower, extent;
    int status = MPI_SUCCESS;
    if (conversion->scatter.shape != NULL) {
        struct scattering scattering = {conversion->packed, access->buffer, moved};
        if (moved > 0)
            shape_visit(conversion->scatter, scatter, &scattering);
    }
    type_free(conversion->type);
    if (conversion->packed == NULL || conversion->scatter.shape != NULL) {
        free(conversion->packed);
        return MPI_SUCCESS;
    }
    if (!is_write && moved > 0) {
        PMPI_Type_get_extent_x(conversion->datatype, &lower, &extent);
        status = unpack(conversion->packed, (MPI_Aint)access->bytes, access->buffer, access->count,
                        conversion->datatype, extent);
        if (status != MPI_SUCCESS)
            status = error_make(MPI_ERR_CONVERSION, "the MPI library cannot convert from "
                                "external32");
    }
    if (!is_write && !type_is_predefined(conversion->datatype))
        PMPI_Type_free(&conversion->datatype);
    free(conversion->packed);
    return status;
}
