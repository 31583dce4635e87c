/* What a process has of an open file, and how it lets go of it. */
#include <errno.h>
#include <stdlib.h>

#include "carrier.h"
#include "error.h"
#include "open.h"
#include "place.h"

/* Frees what a process has of a file. Returns 0 or the negative errno of closing. */
int open_release(struct file *file)
{
    weft_pointer_close(file->pointer);
    weft_group_free(file->group);
    weft_view_close(file->bytes);
    int status = weft_file_close(file->attached);
    file->pointer = NULL;
    file->group = NULL;
    file->bytes = NULL;
    file->attached = NULL;
    return status;
}

void open_destroy(struct file *file)
{
    if (file == NULL)
        return;
    open_release(file);
    view_free(file->view);
    peers_free(&file->peers);
    if (file->handle != MPI_FILE_NULL) {
        file_forget(file->handle);
        carrier_close(&file->handle);
    }
    if (file->comm != MPI_COMM_NULL)
        PMPI_Comm_free(&file->comm);
    pthread_mutex_destroy(&file->lock);
    free(file->path);
    free(file->shown);
    free(file);
}

/* Process 0 has the servers forget what belonged to the open file, and the file if so asked. */
static int finish(struct file *file, int pointer_was_used)
{
    int status = MPI_SUCCESS;
    if (pointer_was_used)
        weft_pointer_remove(file->pointer);
    int closed = open_release(file);
    if (closed < 0)
        status = error_weft(closed, "cannot close %s", file->path);
    if (file->mode & MPI_MODE_DELETE_ON_CLOSE) {
        uint64_t inode = file->shown != NULL ? place_inode(file->shown) : 0;
        int removed = weft_unlink(file->volume, file->path);
        if (removed < 0 && removed != -ENOENT && status == MPI_SUCCESS)
            status = error_weft(removed, "cannot remove %s", file->path);
        if (removed == 0)
            place_await_gone(file->shown, inode);
    }
    return status;
}

int open_close(struct file *file)
{
    int status = MPI_SUCCESS, states[2] = {atomic_load(&file->pointer_used), 0};
    if (file->rank != 0) {
        int closed = open_release(file);
        if (closed < 0)
            status = error_weft(closed, "cannot close %s", file->path);
    }
    states[1] = status != MPI_SUCCESS;
    /* Process 0 attached the file for all, and closes it last. */
    int sent = PMPI_Allreduce(MPI_IN_PLACE, states, 2, MPI_INT, MPI_MAX, file->comm);
    if (file->rank == 0)
        status = finish(file, states[0]);
    int failed = states[1] || status != MPI_SUCCESS;
    if (sent == MPI_SUCCESS)
        sent = PMPI_Bcast(&failed, 1, MPI_INT, 0, file->comm);
    if (status == MPI_SUCCESS && failed)
        status = error_make(MPI_ERR_IO, "another process cannot close %s", file->path);
    open_destroy(file);
    return status != MPI_SUCCESS ? status : sent;
}
