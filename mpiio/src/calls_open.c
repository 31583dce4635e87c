/* The entry points that open, close and remove files, and tell about them. */
#include <string.h>

#include "carrier.h"
#include "error.h"
#include "export.h"
#include "open.h"
#include "place.h"
#include "shared.h"

INTERPOSE(File_open)
INTERPOSE(File_close)
INTERPOSE(File_delete)
INTERPOSE(File_get_group)
INTERPOSE(File_get_amode)
INTERPOSE(File_set_info)
INTERPOSE(File_get_info)

int carrier_open(MPI_File *handle)
{
    int status = NEXT(File_open)(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDONLY, MPI_INFO_NULL,
                                 handle);
#ifndef OPEN_MPI
    /* MPICH counts no reference to the error handler that a new file has from MPI_FILE_NULL, but
     * takes one off when the file is closed. This is that one. */
    MPI_Errhandler handler;
    if (status == MPI_SUCCESS)
        PMPI_File_get_errhandler(*handle, &handler);
#endif
    return status;
}

void carrier_close(MPI_File *handle)
{
    NEXT(File_close)(handle);
}

/* With MPI_MODE_APPEND all pointers begin at the end of the file; all processes call it. */
static int append(struct file *file)
{
    int64_t size = 0;
    int status = MPI_SUCCESS;
    if (file->rank == 0) {
        size = weft_view_size(file->bytes);
        if (size < 0)
            status = error_weft(size, "cannot ask for the size of %s", file->path);
        else
            status = shared_move(file, (uint64_t)size);
        if (status != MPI_SUCCESS)
            size = -1;
    }
    int sent = PMPI_Bcast(&size, 1, MPI_INT64_T, 0, file->comm);
    if (sent != MPI_SUCCESS)
        return sent;
    if (size < 0 && status == MPI_SUCCESS)
        status = error_make(MPI_ERR_IO, "process 0 cannot move to the end of %s", file->path);
    file->position = size < 0 ? 0 : size;
    return status;
}

int MPI_File_open(MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *fh)
{
    struct file *file;
    int is_weft, status = open_file(comm, name, mode, info, &is_weft, &file);
    if (!is_weft)
        return NEXT(File_open)(comm, name, mode, info, fh);
    if (status == MPI_SUCCESS && (mode & MPI_MODE_APPEND)) {
        status = append(file);
        if (status != MPI_SUCCESS)
            open_close(file);
    }
    if (status != MPI_SUCCESS) {
        *fh = MPI_FILE_NULL;
        return error_raise(MPI_FILE_NULL, status);
    }
    *fh = file->handle;
    return MPI_SUCCESS;
}

int MPI_File_close(MPI_File *fh)
{
    struct file *file = file_of(*fh);
    if (file == NULL)
        return NEXT(File_close)(fh);
    if (file->split != NULL)
        return error_raise(*fh, error_make(MPI_ERR_IO, "a split collective call of %s has begun: "
                                           "end it before the file is closed", file->path));
    int status = open_close(file);
    *fh = MPI_FILE_NULL;
    return status == MPI_SUCCESS ? status : error_raise(MPI_FILE_NULL, status);
}

int MPI_File_delete(const char *name, MPI_Info info)
{
    struct place place;
    weft_volume *volume;
    int status = place_find(name, &place);
    if (status == MPI_SUCCESS && !place.is_weft)
        return NEXT(File_delete)(name, info);
    if (status == MPI_SUCCESS)
        status = place_connect(&place, &volume);
    if (status == MPI_SUCCESS) {
        char shown[PLACE_ROOM];
        int is_shown = place_shown(&place, shown);
        uint64_t inode = is_shown ? place_inode(shown) : 0;
        int removed = weft_unlink(volume, place.path);
        if (removed < 0)
            status = error_weft(removed, "cannot remove %s", place.path);
        else if (is_shown)
            place_await_gone(shown, inode);
    }
    return status == MPI_SUCCESS ? status : error_raise(MPI_FILE_NULL, status);
}

int MPI_File_get_group(MPI_File fh, MPI_Group *group)
{
    struct file *file = file_of(fh);
    if (file == NULL)
        return NEXT(File_get_group)(fh, group);
    return PMPI_Comm_group(file->comm, group);
}

int MPI_File_get_amode(MPI_File fh, int *mode)
{
    struct file *file = file_of(fh);
    if (file == NULL)
        return NEXT(File_get_amode)(fh, mode);
    *mode = file->mode;
    return MPI_SUCCESS;
}

/* Of a file that is open only the policy can still be chosen; how it lies on the servers stays. */
int MPI_File_set_info(MPI_File fh, MPI_Info info)
{
    struct file *file = file_of(fh);
    if (file == NULL)
        return NEXT(File_set_info)(fh, info);
    struct hints hints = file->hints;
    hints.policy[0] = '\0';
    int status = hints_read(info, &hints);
    if (status == MPI_SUCCESS && hints.policy[0] && !file->atomic) {
        int set = weft_file_set_policy(file->attached, hints.policy);
        if (set < 0)
            status = error_weft(set, "cannot use the policy %s for %s", hints.policy, file->path);
    }
    if (status != MPI_SUCCESS)
        return error_raise(fh, status);
    if (hints.policy[0])
        memcpy(file->hints.policy, hints.policy, sizeof hints.policy);
    memcpy(file->hints.ignored, hints.ignored, sizeof hints.ignored);
    return MPI_SUCCESS;
}

int MPI_File_get_info(MPI_File fh, MPI_Info *info)
{
    struct file *file = file_of(fh);
    if (file == NULL)
        return NEXT(File_get_info)(fh, info);
    weft_attributes attributes = {.size = sizeof attributes};
    int64_t requests = weft_requests_sent(file->volume);
    int got = weft_file_stat(file->attached, &attributes);
    int status = got < 0 ? error_weft(got, "cannot ask for the layout of %s", file->path)
                         : hints_write(&file->hints, &attributes, requests, info);
    return status == MPI_SUCCESS ? status : error_raise(fh, status);
}
