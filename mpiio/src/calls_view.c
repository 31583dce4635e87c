/* The entry points for file views and pointers. */
#include <string.h>

#include "convert.h"
#include "error.h"
#include "export.h"
#include "file.h"
#include "shared.h"

INTERPOSE(File_set_view)
INTERPOSE(File_get_view)
INTERPOSE(File_seek)
INTERPOSE(File_get_position)
INTERPOSE(File_get_byte_offset)
INTERPOSE(File_seek_shared)
INTERPOSE(File_get_position_shared)
INTERPOSE(File_get_type_extent)

/* Makes the view that a call asks for. */
static int make_view(struct file *file, MPI_Offset displacement, MPI_Datatype etype,
                     MPI_Datatype filetype, const char *name, struct view **view)
{
    enum representation representation;
    int status = convert_find(name, &representation);
    if (status != MPI_SUCCESS)
        return status;
    if (displacement == MPI_DISPLACEMENT_CURRENT && (file->mode & MPI_MODE_SEQUENTIAL)) {
        uint64_t position;
        status = shared_position(file, &position);
        if (status != MPI_SUCCESS)
            return status;
        struct view *now = file_view(file);
        displacement = view_position(now, position);
        view_free(now);
    } else if (displacement < 0) {
        return error_make(MPI_ERR_ARG, "the displacement %lld of a view is negative",
                          (long long)displacement);
    } else if (file->mode & MPI_MODE_SEQUENTIAL) {
        return error_make(MPI_ERR_UNSUPPORTED_OPERATION, "%s is open with MPI_MODE_SEQUENTIAL: its "
                          "views begin at MPI_DISPLACEMENT_CURRENT", file->path);
    }
    if (etype == MPI_DATATYPE_NULL || filetype == MPI_DATATYPE_NULL)
        return error_make(MPI_ERR_TYPE, "the etype or the filetype of a view is none");
    status = convert_check(etype, representation);
    if (status == MPI_SUCCESS)
        status = convert_check(filetype, representation);
    if (status == MPI_SUCCESS)
        status = view_make(displacement, etype, filetype, representation, view);
    return status;
}

/* All processes see the new view, and pointers at its beginning, or none does. */
static int agree(struct file *file, int status)
{
    enum { FAILED, USED, VALUES };
    int values[VALUES] = {status != MPI_SUCCESS, atomic_load(&file->pointer_used)};
    int sent = PMPI_Allreduce(MPI_IN_PLACE, values, VALUES, MPI_INT, MPI_MAX, file->comm);
    if (sent != MPI_SUCCESS)
        return sent;
    if (values[FAILED])
        return status != MPI_SUCCESS ? status
                                     : error_make(MPI_ERR_ARG, "another process cannot set its view "
                                                  "of %s", file->path);
    if (!values[USED])
        return MPI_SUCCESS;
    int failed = 0;
    if (file->rank == 0) {
        status = shared_move(file, 0);
        failed = status != MPI_SUCCESS;
    }
    sent = PMPI_Bcast(&failed, 1, MPI_INT, 0, file->comm);
    if (sent == MPI_SUCCESS && failed && status == MPI_SUCCESS)
        status = error_make(MPI_ERR_IO, "process 0 cannot move the shared pointer of %s",
                            file->path);
    return sent != MPI_SUCCESS ? sent : status;
}

int MPI_File_set_view(MPI_File fh, MPI_Offset displacement, MPI_Datatype etype,
                      MPI_Datatype filetype, const char *representation, MPI_Info info)
{
    struct file *file = file_of(fh);
    if (file == NULL)
        return NEXT(File_set_view)(fh, displacement, etype, filetype, representation, info);
    struct view *view = NULL;
    struct hints hints = file->hints;
    int status = make_view(file, displacement, etype, filetype, representation, &view);
    if (status == MPI_SUCCESS)
        status = hints_read(info, &hints);
    status = agree(file, status);
    if (status != MPI_SUCCESS) {
        view_free(view);
        return error_raise(fh, status);
    }
    pthread_mutex_lock(&file->lock);
    struct view *before = file->view;
    file->view = view;
    file->position = 0;
    memcpy(file->hints.ignored, hints.ignored, sizeof hints.ignored);
    pthread_mutex_unlock(&file->lock);
    view_free(before);
    return MPI_SUCCESS;
}

static int duplicate(MPI_Datatype datatype, MPI_Datatype *copy)
{
    *copy = datatype;
    return type_is_predefined(datatype) ? MPI_SUCCESS : PMPI_Type_dup(datatype, copy);
}

int MPI_File_get_view(MPI_File fh, MPI_Offset *displacement, MPI_Datatype *etype,
                      MPI_Datatype *filetype, char *representation)
{
    struct file *file = file_of(fh);
    if (file == NULL)
        return NEXT(File_get_view)(fh, displacement, etype, filetype, representation);
    struct view *view = file_view(file);
    *displacement = view->displacement;
    strcpy(representation, convert_name(view->representation));
    int status = duplicate(view->etype, etype);
    if (status == MPI_SUCCESS)
        status = duplicate(view->filetype, filetype);
    view_free(view);
    return status == MPI_SUCCESS ? status : error_raise(fh, status);
}

/* The first etype of a view behind the end of the file. */
static int end_of(struct file *file, const struct view *view, MPI_Offset *etypes)
{
    int64_t size = weft_view_size(file->bytes);
    if (size < 0)
        return error_weft(size, "cannot ask for the size of %s", file->path);
    *etypes = (MPI_Offset)((view_below(view, size) + view->etype_size - 1) / view->etype_size);
    return MPI_SUCCESS;
}

/* Where a pointer that is at `now` gets to, in etypes. */
static int sought(struct file *file, const struct view *view, MPI_Offset now, MPI_Offset offset,
                  int whence, MPI_Offset *to)
{
    MPI_Offset from = 0;
    int status = MPI_SUCCESS;
    if (whence == MPI_SEEK_CUR)
        from = now;
    else if (whence == MPI_SEEK_END)
        status = end_of(file, view, &from);
    else if (whence != MPI_SEEK_SET)
        status = error_make(MPI_ERR_ARG, "a pointer moves by MPI_SEEK_SET, MPI_SEEK_CUR or "
                            "MPI_SEEK_END, not %d", whence);
    if (status != MPI_SUCCESS)
        return status;
    if (__builtin_add_overflow(from, offset, to))
        return error_make(MPI_ERR_ARG, "a pointer cannot move by %lld from %lld: no file is so long",
                          (long long)offset, (long long)from);
    if (*to < 0)
        return error_make(MPI_ERR_ARG, "a pointer cannot move to %lld, before the view",
                          (long long)*to);
    return MPI_SUCCESS;
}

int MPI_File_seek(MPI_File fh, MPI_Offset offset, int whence)
{
    struct file *file = file_of(fh);
    MPI_Offset to = 0;
    if (file == NULL)
        return NEXT(File_seek)(fh, offset, whence);
    if (file->mode & MPI_MODE_SEQUENTIAL)
        return error_raise(fh, error_make(MPI_ERR_UNSUPPORTED_OPERATION, "%s is open with "
                                          "MPI_MODE_SEQUENTIAL: it has no pointer to move",
                                          file->path));
    struct view *view = file_view(file);
    int status = sought(file, view, file->position, offset, whence, &to);
    view_free(view);
    if (status != MPI_SUCCESS)
        return error_raise(fh, status);
    pthread_mutex_lock(&file->lock);
    file->position = to;
    pthread_mutex_unlock(&file->lock);
    return MPI_SUCCESS;
}

int MPI_File_get_position(MPI_File fh, MPI_Offset *offset)
{
    struct file *file = file_of(fh);
    if (file == NULL)
        return NEXT(File_get_position)(fh, offset);
    pthread_mutex_lock(&file->lock);
    *offset = file->position;
    pthread_mutex_unlock(&file->lock);
    return MPI_SUCCESS;
}

int MPI_File_get_byte_offset(MPI_File fh, MPI_Offset offset, MPI_Offset *displacement)
{
    struct file *file = file_of(fh);
    if (file == NULL)
        return NEXT(File_get_byte_offset)(fh, offset, displacement);
    if (offset < 0)
        return error_raise(fh, error_make(MPI_ERR_ARG, "the offset %lld is negative",
                                          (long long)offset));
    struct view *view = file_view(file);
    uint64_t bytes;
    int there = view_bytes(view, offset, &bytes) && view_reaches(view, bytes);
    if (there)
        *displacement = view_position(view, bytes);
    view_free(view);
    if (there)
        return MPI_SUCCESS;
    return error_raise(fh, error_make(MPI_ERR_ARG, "the offset %lld is beyond the largest one of a "
                                      "file", (long long)offset));
}

int MPI_File_seek_shared(MPI_File fh, MPI_Offset offset, int whence)
{
    struct file *file = file_of(fh);
    if (file == NULL)
        return NEXT(File_seek_shared)(fh, offset, whence);
    struct view *view = file_view(file);
    MPI_Offset to = 0;
    uint64_t now = 0;
    int status = MPI_SUCCESS, failed;
    /* Where the others stand before they call this counts. */
    PMPI_Barrier(file->comm);
    if (file->rank == 0) {
        if (whence == MPI_SEEK_CUR)
            status = shared_position(file, &now);
        if (status == MPI_SUCCESS)
            status = sought(file, view, (MPI_Offset)(now / view->etype_size), offset, whence, &to);
        if (status == MPI_SUCCESS)
            status = view_bytes(view, to, &now)
                ? shared_move(file, now)
                : error_make(MPI_ERR_ARG, "the shared pointer cannot move to %lld: no file is so "
                             "long", (long long)to);
    }
    view_free(view);
    failed = status != MPI_SUCCESS;
    PMPI_Bcast(&failed, 1, MPI_INT, 0, file->comm);
    if (failed && status == MPI_SUCCESS)
        status = error_make(MPI_ERR_ARG, "process 0 cannot move the shared pointer of %s",
                            file->path);
    return status == MPI_SUCCESS ? status : error_raise(fh, status);
}

int MPI_File_get_position_shared(MPI_File fh, MPI_Offset *offset)
{
    struct file *file = file_of(fh);
    uint64_t position;
    if (file == NULL)
        return NEXT(File_get_position_shared)(fh, offset);
    int status = shared_position(file, &position);
    if (status != MPI_SUCCESS)
        return error_raise(fh, status);
    struct view *view = file_view(file);
    *offset = (MPI_Offset)(position / view->etype_size);
    view_free(view);
    return MPI_SUCCESS;
}

/* Types that can be converted have the same extent in all representations. */
int MPI_File_get_type_extent(MPI_File fh, MPI_Datatype datatype, MPI_Aint *extent)
{
    MPI_Aint lower;
    if (file_of(fh) == NULL)
        return NEXT(File_get_type_extent)(fh, datatype, extent);
    int status = PMPI_Type_get_extent(datatype, &lower, extent);
    return status == MPI_SUCCESS ? status : error_raise(fh, status);
}

#if MPI_VERSION >= 4
INTERPOSE(File_get_type_extent_c)

int MPI_File_get_type_extent_c(MPI_File fh, MPI_Datatype datatype, MPI_Count *extent)
{
    MPI_Count lower;
    if (file_of(fh) == NULL)
        return NEXT(File_get_type_extent_c)(fh, datatype, extent);
    int status = PMPI_Type_get_extent_c(datatype, &lower, extent);
    return status == MPI_SUCCESS ? status : error_raise(fh, status);
}
#endif
