#include "open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach.h"
#include "carrier.h"
#include "error.h"
#include "nonblocking.h"

/* Members that a group of Weft may have. */
enum { MEMBERS_MAX = 1024 };

/* The MPI file whose handle stands for this one. */
static int make_handle(struct file *file)
{
    int status = carrier_open(&file->handle);
    if (status != MPI_SUCCESS)
        return error_make(MPI_ERR_OTHER, "the MPI library cannot open /dev/null, whose handle would "
                          "stand for %s", file->path);
    if (file_register(file->handle, file) < 0)
        return error_make(MPI_ERR_NO_MEM, "there is no memory for the handle of %s", file->path);
    return MPI_SUCCESS;
}

/* What each process makes of its file, without messages. */
static int make_views(struct file *file)
{
    const char *fork = file->hints.fork[0] ? file->hints.fork : NULL;
    weft_group_options options = {.size = sizeof options, .wait_ms = file->hints.wait_ms,
                                  .overlaps = WEFT_OVERLAPS_MEMBER_ORDER};
    int status = weft_view_file(file->attached, fork, &file->bytes);
    if (status == 0)
        status = weft_pointer_open(file->bytes, file->id, &file->pointer);
    /* A process alone needs no company, and more than a group may have act for themselves. */
    if (status == 0 && file->size > 1 && file->size <= MEMBERS_MAX)
        status = weft_group_create(file->id, (uint32_t)file->size, (uint32_t)file->rank, &options,
                                   &file->group);
    if (status < 0)
        return error_weft(status, "cannot make a view of %s", file->path);
    return view_make(0, MPI_BYTE, MPI_BYTE, NATIVE, &file->view);
}

/* All processes succeed, or all fail: those that have not failed say so of the others. */
static int agree(struct file *file, int status)
{
    /* Of each the greatest; of what is negated, the least. */
    enum { FAILED, MODE, NEGATED_MODE, NEGATED_PROGRESS, VALUES };
    int values[VALUES] = {status != MPI_SUCCESS, file->mode, -file->mode,
                          -nonblocking_has_progress()};
    int sent = PMPI_Allreduce(MPI_IN_PLACE, values, VALUES, MPI_INT, MPI_MAX, file->comm);
    if (sent != MPI_SUCCESS)
        return status != MPI_SUCCESS ? status : sent;
    file->completes_in_place = values[NEGATED_PROGRESS] == 0;
    if (status != MPI_SUCCESS)
        return status;
    if (values[MODE] != -values[NEGATED_MODE])
        return error_make(MPI_ERR_NOT_SAME, "processes open %s with different modes", file->path);
    if (values[FAILED])
        return error_make(MPI_ERR_IO, "another process of the communicator cannot open %s",
                          file->path);
    return MPI_SUCCESS;
}

/* Makes the file of each process of what process 0 has attached. */
static int make(struct file *file, struct attaching *attaching, struct attached *attached)
{
    int length = (int)offsetof(struct attached, description) + attaching->length;
    int status = PMPI_Bcast(attached, length, MPI_BYTE, 0, file->comm);
    if (status != MPI_SUCCESS)
        return status;
    if (attaching->class != MPI_SUCCESS)
        return error_make(attaching->class, "%s", attached->why);
    file->path = strdup(attached->place.path);
    memcpy(file->id, attached->id, sizeof file->id);
    status = file->path == NULL ? MPI_ERR_NO_MEM : file->hinted;
    if (status == MPI_SUCCESS && file->rank != 0)
        status = attach_adopt(file, attaching, attached);
    char shown[PLACE_ROOM];
    if (status == MPI_SUCCESS && place_shown(&attached->place, shown)) {
        file->shown = strdup(shown);
        if (attached->inode != 0)
            place_await(shown, attached->inode);
    }
    int exchanged = peers_exchange(file->comm, &file->peers);
    if (status == MPI_SUCCESS)
        status = exchanged;
    if (status == MPI_SUCCESS)
        status = make_views(file);
    if (status == MPI_SUCCESS)
        status = make_handle(file);
    return agree(file, status);
}

int open_file(MPI_Comm comm, const char *name, int mode, MPI_Info info, int *is_weft,
              struct file **made)
{
    int is_inter = 0;
    *is_weft = 0;
    *made = NULL;
    /* The MPI library refuses what leads to no processes of a file. */
    if (comm == MPI_COMM_NULL || PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter)
        return MPI_SUCCESS;
    struct attaching attaching = {0, MPI_SUCCESS, 0};
    struct attached *attached = calloc(1, sizeof *attached);
    struct file *file = calloc(1, sizeof *file);
    *is_weft = 1;
    if (file == NULL || attached == NULL) {
        /* The others wait for this process in a broadcast: no error that it returned would help. */
        fprintf(stderr, "weft: there is no memory to open %s\n", name);
        PMPI_Abort(comm, MPI_ERR_NO_MEM);
        abort();
    }
    file->handle = MPI_FILE_NULL;
    file->comm = MPI_COMM_NULL;
    file->mode = mode;
    pthread_mutex_init(&file->lock, NULL);
    hints_begin(&file->hints);
    file->hinted = hints_read(info, &file->hints);
    PMPI_Comm_rank(comm, &file->rank);
    PMPI_Comm_size(comm, &file->size);
    if (file->rank == 0)
        attach_first(file, name, &attaching, attached);
    int status = PMPI_Bcast(&attaching, (int)sizeof attaching, MPI_BYTE, 0, comm);
    *is_weft = status != MPI_SUCCESS || attaching.is_weft;
    if (status == MPI_SUCCESS && attaching.is_weft)
        status = PMPI_Comm_dup(comm, &file->comm);
    if (status == MPI_SUCCESS && attaching.is_weft)
        status = make(file, &attaching, attached);
    free(attached);
    if (status != MPI_SUCCESS || !attaching.is_weft)
        open_destroy(file);
    else
        *made = file;
    return status;
}
