#include <stdlib.h>

#include "error.h"
#include "file.h"

struct view *file_view(struct file *file)
{
    pthread_mutex_lock(&file->lock);
    struct view *view = file->view;
    atomic_fetch_add(&view->uses, 1);
    pthread_mutex_unlock(&file->lock);
    return view;
}

/* A duplicate of a datatype, which the program may free; those that are predefined stay. */
static int keep(MPI_Datatype datatype, MPI_Datatype *kept)
{
    *kept = datatype;
    return type_is_predefined(datatype) ? MPI_SUCCESS : PMPI_Type_dup(datatype, kept);
}

static void release(MPI_Datatype *kept)
{
    if (*kept != MPI_DATATYPE_NULL && !type_is_predefined(*kept))
        PMPI_Type_free(kept);
}

/* What MPI demands of an etype and a filetype, as far as it can be seen. */
static int check(const struct view *view)
{
    const struct type *tile = view->tile;
    if (view->etype_size == 0 || tile->size % view->etype_size != 0)
        return error_make(MPI_ERR_ARG, "a filetype of %llu bytes cannot be made of etypes of %llu "
                          "bytes: build the filetype of the etype",
                          (unsigned long long)tile->size, (unsigned long long)view->etype_size);
    if (tile->size > 0 && view->displacement + tile->shape.at + tile->shape.shape->low < 0)
        return error_make(MPI_ERR_ARG, "the view begins %lld bytes before the file",
                          -(long long)(view->displacement + tile->shape.at
                                       + tile->shape.shape->low));
    if (tile->size > 0 && tile->extent < 0)
        return error_make(MPI_ERR_TYPE, "a filetype with a negative extent runs backwards");
    return MPI_SUCCESS;
}

int view_make(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
              enum representation representation, struct view **view)
{
    MPI_Count size;
    struct view *made = calloc(1, sizeof *made);
    if (made == NULL)
        return error_make(MPI_ERR_NO_MEM, "there is no memory for a file view");
    atomic_init(&made->uses, 1);
    made->displacement = displacement;
    made->representation = representation;
    made->etype = made->filetype = MPI_DATATYPE_NULL;
    int status = PMPI_Type_size_x(etype, &size);
    if (status == MPI_SUCCESS)
        status = keep(etype, &made->etype);
    if (status == MPI_SUCCESS)
        status = keep(filetype, &made->filetype);
    if (status == MPI_SUCCESS)
        status = type_decode(filetype, &made->tile);
    if (status != MPI_SUCCESS) {
        status = error_make(MPI_ERR_TYPE, "the etype or the filetype of a view is no datatype that "
                            "can be decoded");
    } else {
        made->etype_size = (uint64_t)size;
        status = check(made);
    }
    if (status != MPI_SUCCESS) {
        view_free(made);
        return status;
    }
    *view = made;
    return MPI_SUCCESS;
}

void view_free(struct view *view)
{
    if (view == NULL || atomic_fetch_sub(&view->uses, 1) != 1)
        return;
    release(&view->etype);
    release(&view->filetype);
    type_free(view->tile);
    free(view);
}

int64_t view_position(const struct view *view, uint64_t number)
{
    const struct type *tile = view->tile;
    if (tile->size == 0)
        return view->displacement;
    int64_t at = view->displacement + (int64_t)(number / tile->size) * tile->extent;
    return at + shape_position(tile->shape, number % tile->size);
}

int view_bytes(const struct view *view, MPI_Offset etypes, uint64_t *bytes)
{
    return !__builtin_mul_overflow((uint64_t)etypes, view->etype_size, bytes)
           && *bytes <= INT64_MAX;
}

int view_reaches(const struct view *view, uint64_t number)
{
    const struct type *tile = view->tile;
    int64_t at;
    if (tile->size == 0)
        return 1;
    /* Ends of tiles are compared: parts of the last one may lie behind the byte. */
    return !__builtin_mul_overflow((int64_t)(number / tile->size), tile->extent, &at)
           && !__builtin_add_overflow(at, view->displacement, &at)
           && !__builtin_add_overflow(at, shape_position(tile->shape, number % tile->size), &at)
           && at >= 0 && at < INT64_MAX;
}

uint64_t view_below(const struct view *view, int64_t limit)
{
    const struct type *tile = view->tile;
    int64_t room = limit - view->displacement;
    if (tile->size == 0 || room <= 0)
        return 0;
    struct arena arena = {0};
    uint64_t below = 0;
    int64_t first = tile->shape.at + tile->shape.shape->low;
    if (room > first) {
        uint64_t tiles = tile->extent > 0 ? (uint64_t)((room - first) / tile->extent) + 1 : 1;
        struct placed whole = shape_repeat(&arena, tile->shape, tile->extent, tiles);
        below = shape_below(whole, room);
    }
    arena_free(&arena);
    return below;
}

struct placed view_cut(struct arena *arena, const struct view *view, uint64_t from, uint64_t to)
{
    const struct type *tile = view->tile;
    if (from >= to || tile->size == 0)
        return (struct placed){0, NULL};
    uint64_t first = from / tile->size, tiles = (to - 1) / tile->size - first + 1;
    struct placed whole = shape_repeat(arena, tile->shape, tile->extent, tiles);
    if (whole.shape == NULL)
        return whole;
    whole.at += view->displacement + (int64_t)first * tile->extent;
    return shape_cut(arena, whole, from - first * tile->size, to - first * tile->size);
}
