#include "access.h"

#include "error.h"
#include "nonblocking.h"
#include "shared.h"
#include "status.h"

/* What is wrong with a call on all processes alike: none of them takes part. */
static int check(const struct file *file, int how)
{
    if ((how & TRANSFER_WRITE) && (file->mode & MPI_MODE_RDONLY))
        return error_make(MPI_ERR_READ_ONLY, "%s is open for reading only: open it with "
                          "MPI_MODE_RDWR or MPI_MODE_WRONLY to write", file->path);
    if (!(how & TRANSFER_WRITE) && (file->mode & MPI_MODE_WRONLY))
        return error_make(MPI_ERR_ACCESS, "%s is open for writing only: open it with MPI_MODE_RDWR "
                          "or MPI_MODE_RDONLY to read", file->path);
    if ((file->mode & MPI_MODE_SEQUENTIAL) && !(how & (ACCESS_SHARED | ACCESS_ORDERED)))
        return error_make(MPI_ERR_UNSUPPORTED_OPERATION, "%s is open with MPI_MODE_SEQUENTIAL, "
                          "which allows the shared pointer alone", file->path);
    if ((how & TRANSFER_COLLECTIVE) && file->split != NULL)
        return error_make(MPI_ERR_IO, "a split collective call of %s has begun: end it before the "
                          "next collective call", file->path);
    return MPI_SUCCESS;
}

/* The access begins at an offset in etypes; one that no file has is beyond all ends. */
static void begin_at(struct access *access, MPI_Offset etypes)
{
    if (!view_bytes(access->view, etypes, &access->from))
        access->from = INT64_MAX;
}

/* Where an access with a pointer of this process begins; the pointer moves on at once. */
static void take_individual(struct access *access)
{
    struct file *file = access->file;
    uint64_t etype = access->view->etype_size;
    pthread_mutex_lock(&file->lock);
    begin_at(access, file->position);
    file->position += (MPI_Offset)(etype == 0 ? 0 : access->bytes / etype);
    pthread_mutex_unlock(&file->lock);
}

/* Whether what is accessed has offsets that there are. */
static int has_end(const struct access *access)
{
    return access->bytes == 0
           || (access->bytes <= INT64_MAX - access->from
               && view_reaches(access->view, access->from + access->bytes - 1));
}

/* Prepares an access; its view is to be freed. A call that is wrong in this process alone goes on
 * without bytes if it is collective. */
static int prepare(struct file *file, int how, const struct buffer *buffer, struct access *access)
{
    int status = check(file, how);
    if (status != MPI_SUCCESS)
        return status;
    *access = (struct access){
        .file = file,
        .view = file_view(file),
        .how = how & (TRANSFER_WRITE | TRANSFER_COLLECTIVE),
        .buffer = buffer->buffer,
        .count = buffer->count,
        .datatype = buffer->datatype,
    };
    int place = how & (ACCESS_INDIVIDUAL | ACCESS_SHARED | ACCESS_ORDERED);
    if (place == ACCESS_AT && buffer->offset < 0)
        access->code = error_make(MPI_ERR_ARG, "the offset %lld is negative",
                                  (long long)buffer->offset);
    transfer_measure(access);
    if (place == ACCESS_ORDERED)
        shared_take_ordered(access);
    else if (place == ACCESS_SHARED)
        shared_take(access);
    else if (place == ACCESS_INDIVIDUAL)
        take_individual(access);
    else if (access->code == MPI_SUCCESS)
        begin_at(access, buffer->offset);
    if (access->code == MPI_SUCCESS && !has_end(access)) {
        access->code = error_make(MPI_ERR_ARG, "the access ends beyond the largest offset of a "
                                  "file");
        access->bytes = 0;
    }
    if (access->code != MPI_SUCCESS && !(how & TRANSFER_COLLECTIVE)) {
        view_free(access->view);
        return access->code;
    }
    return MPI_SUCCESS;
}

static int raised(struct file *file, int status)
{
    return status == MPI_SUCCESS ? status : error_raise(file->handle, status);
}

int access_now(struct file *file, int how, const struct buffer *buffer, MPI_Status *status)
{
    struct access access;
    uint64_t moved = 0;
    int code = prepare(file, how, buffer, &access);
    if (code == MPI_SUCCESS) {
        code = transfer_now(&access, &moved);
        view_free(access.view);
    }
    status_set(status, moved);
    return raised(file, code);
}

int access_start(struct file *file, int how, const struct buffer *buffer, MPI_Request *request)
{
    struct access access;
    int code = prepare(file, how, buffer, &access);
    *request = MPI_REQUEST_NULL;
    if (code == MPI_SUCCESS) {
        code = nonblocking_start(&access, request);
        view_free(access.view);
    }
    return raised(file, code);
}

int access_begin(struct file *file, int how, const struct buffer *buffer)
{
    struct access access;
    int code = prepare(file, how, buffer, &access);
    if (code == MPI_SUCCESS) {
        code = transfer_post(&access, &file->split);
        view_free(access.view);
    }
    return raised(file, code);
}

int access_end(struct file *file, int is_write, MPI_Status *status)
{
    struct transfer *transfer = file->split;
    uint64_t moved = 0;
    int code;
    if (transfer == NULL) {
        code = error_make(MPI_ERR_IO, "no split collective call of %s has begun", file->path);
    } else if (transfer_writes(transfer) != is_write) {
        code = error_make(MPI_ERR_IO, "the split collective call of %s that has begun %s", file->path,
                          is_write ? "reads" : "writes");
    } else {
        file->split = NULL;
        code = transfer_wait(transfer, &moved);
    }
    status_set(status, moved);
    return raised(file, code);
}
