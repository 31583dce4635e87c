#include "shared.h"

#include "error.h"

static void fail(struct access *access, int64_t status)
{
    access->code = error_weft(status, "cannot move the shared pointer of %s", access->file->path);
    access->bytes = 0;
}

void shared_take(struct access *access)
{
    struct file *file = access->file;
    if (access->bytes == 0)
        return;
    atomic_store(&file->pointer_used, 1);
    int64_t from = weft_pointer_take(file->pointer, NULL, access->bytes);
    if (from < 0)
        fail(access, from);
    else
        access->from = (uint64_t)from;
}

void shared_take_ordered(struct access *access)
{
    struct file *file = access->file;
    int64_t before = 0, wanted = (int64_t)access->bytes, from = 0;
    atomic_store(&file->pointer_used, 1);
    PMPI_Exscan(&wanted, &before, 1, MPI_INT64_T, MPI_SUM, file->comm);
    if (file->rank == 0)
        before = 0; /* MPI_Exscan() leaves it undefined */
    int last = file->size - 1;
    if (file->rank == last && before + wanted > 0)
        from = weft_pointer_take(file->pointer, NULL, (uint64_t)(before + wanted));
    PMPI_Bcast(&from, 1, MPI_INT64_T, last, file->comm);
    if (from >= 0) {
        access->from = (uint64_t)(from + before);
    } else if (file->rank == last) {
        fail(access, from);
    } else {
        access->code = error_make(MPI_ERR_IO, "process %d cannot move the shared pointer of %s",
                                  last, file->path);
        access->bytes = 0;
    }
}

int shared_position(struct file *file, uint64_t *position)
{
    int64_t at = weft_pointer_position(file->pointer);
    if (at < 0)
        return error_weft(at, "cannot ask for the shared pointer of %s", file->path);
    *position = (uint64_t)at;
    return MPI_SUCCESS;
}

int shared_move(struct file *file, uint64_t position)
{
    int status = weft_pointer_seek(file->pointer, position);
    atomic_store(&file->pointer_used, 1);
    if (status < 0)
        return error_weft(status, "cannot move the shared pointer of %s", file->path);
    return MPI_SUCCESS;
}
