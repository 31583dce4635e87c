/* The entry points for sizes, durability and atomicity. */
#include <string.h>

#include "error.h"
#include "export.h"
#include "file.h"

INTERPOSE(File_set_size)
INTERPOSE(File_preallocate)
INTERPOSE(File_get_size)
INTERPOSE(File_sync)
INTERPOSE(File_set_atomicity)
INTERPOSE(File_get_atomicity)

/* What process 0 does to the size of a file. */
typedef int resize(const weft_file *file, uint64_t size);

/* Has process 0 change the size for all; all call it. */
static int change_size(struct file *file, MPI_Offset size, resize *resize)
{
    int status = MPI_SUCCESS, class = MPI_SUCCESS;
    char why[MPI_MAX_ERROR_STRING] = "";
    if (file->mode & MPI_MODE_RDONLY)
        return error_make(MPI_ERR_READ_ONLY, "%s is open for reading only: its size stays",
                          file->path);
    if (file->mode & MPI_MODE_SEQUENTIAL)
        return error_make(MPI_ERR_UNSUPPORTED_OPERATION, "%s is open with MPI_MODE_SEQUENTIAL: its "
                          "size is what is written", file->path);
    if (file->hints.fork[0])
        return error_make(MPI_ERR_UNSUPPORTED_OPERATION, "the fork %s of %s has a size for each "
                          "cell, which MPI cannot set", file->hints.fork, file->path);
    /* What others wrote before they called this comes before it. */
    int sent = PMPI_Barrier(file->comm);
    if (sent != MPI_SUCCESS)
        return sent;
    if (file->rank == 0 && size < 0)
        status = error_make(MPI_ERR_ARG, "the size %lld is negative", (long long)size);
    else if (file->rank == 0) {
        int done = resize(file->attached, (uint64_t)size);
        if (done < 0)
            status = error_weft(done, "cannot make %s %lld bytes long", file->path,
                                (long long)size);
    }
    if (status != MPI_SUCCESS && !error_find(status, &class, why))
        class = MPI_ERR_IO;
    sent = PMPI_Bcast(&class, 1, MPI_INT, 0, file->comm);
    if (sent == MPI_SUCCESS && class != MPI_SUCCESS)
        sent = PMPI_Bcast(why, sizeof why, MPI_CHAR, 0, file->comm);
    if (sent != MPI_SUCCESS)
        return sent;
    if (class != MPI_SUCCESS && file->rank != 0)
        status = error_make(class, "%s", why);
    return status;
}

int MPI_File_set_size(MPI_File fh, MPI_Offset size)
{
    struct file *file = file_of(fh);
    if (file == NULL)
        return NEXT(File_set_size)(fh, size);
    int status = change_size(file, size, weft_file_truncate);
    return status == MPI_SUCCESS ? status : error_raise(fh, status);
}

int MPI_File_preallocate(MPI_File fh, MPI_Offset size)
{
    struct file *file = file_of(fh);
    if (file == NULL)
        return NEXT(File_preallocate)(fh, size);
    int status = change_size(file, size, weft_file_extend);
    return status == MPI_SUCCESS ? status : error_raise(fh, status);
}

int MPI_File_get_size(MPI_File fh, MPI_Offset *size)
{
    struct file *file = file_of(fh);
    if (file == NULL)
        return NEXT(File_get_size)(fh, size);
    int64_t got = weft_view_size(file->bytes);
    if (got < 0)
        return error_raise(fh, error_weft(got, "cannot ask for the size of %s", file->path));
    *size = got;
    return MPI_SUCCESS;
}

/* Writes are visible to all when they return; this makes them survive power loss. */
int MPI_File_sync(MPI_File fh)
{
    struct file *file = file_of(fh);
    if (file == NULL)
        return NEXT(File_sync)(fh);
    int status = weft_file_sync(file->attached);
    if (status < 0)
        return error_raise(fh, error_weft(status, "cannot sync %s", file->path));
    return MPI_SUCCESS;
}

/* Atomic operations are those of the policy "posix"; the other mode has the file's own. */
int MPI_File_set_atomicity(MPI_File fh, int flag)
{
    struct file *file = file_of(fh);
    if (file == NULL)
        return NEXT(File_set_atomicity)(fh, flag);
    const char *other = file->hints.policy[0] ? file->hints.policy : NULL;
    int set = (flag != 0) == file->atomic
                  ? 0 : weft_file_set_policy(file->attached, flag ? "posix" : other);
    int status = MPI_SUCCESS;
    if (set < 0)
        status = error_weft(set, "cannot change the atomicity of %s", file->path);
    enum { FAILED, ATOMIC, PLAIN, VALUES }; /* some process */
    int some[VALUES] = {set < 0, flag != 0, flag == 0};
    int sent = PMPI_Allreduce(MPI_IN_PLACE, some, VALUES, MPI_INT, MPI_MAX, file->comm);
    if (sent != MPI_SUCCESS && status == MPI_SUCCESS)
        status = sent;
    if (some[FAILED] && status == MPI_SUCCESS)
        status = error_make(MPI_ERR_IO, "another process cannot change the atomicity of %s",
                            file->path);
    if (some[ATOMIC] && some[PLAIN] && status == MPI_SUCCESS)
        status = error_make(MPI_ERR_NOT_SAME, "processes choose different atomicities of %s",
                            file->path);
    if (status != MPI_SUCCESS) {
        if (set == 0 && (flag != 0) != file->atomic)
            weft_file_set_policy(file->attached, file->atomic ? "posix" : other);
        return error_raise(fh, status);
    }
    file->atomic = flag != 0;
    return MPI_SUCCESS;
}

int MPI_File_get_atomicity(MPI_File fh, int *flag)
{
    struct file *file = file_of(fh);
    if (file == NULL)
        return NEXT(File_get_atomicity)(fh, flag);
    *flag = file->atomic;
    return MPI_SUCCESS;
}
