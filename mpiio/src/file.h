/*
 * A file of a volume that a communicator has open.
 *
 * Its MPI_File is one of the MPI library: it names /dev/null, opened for reading by this process
 * alone. So what belongs to any MPI file works as the library does it: error handlers, and handles
 * of Fortran. A registry says which handles stand for files of Weft. A function that nobody
 * interposes finds an empty file that cannot be written: it fails, and harms nothing.
 *
 * Threads may use one file. `lock` guards the individual pointer and which view is set; a view is
 * counted, and stays as it is for the calls that use it.
 */
#ifndef WEFT_MPIIO_FILE_H
#define WEFT_MPIIO_FILE_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <weft.h>

#include "hints.h"
#include "peers.h"
#include "type.h"

struct transfer;

enum representation { NATIVE, INTERNAL, EXTERNAL32 };

/* A file view: tiles of a filetype, one behind the other, from the displacement on. */
struct view {
    atomic_int uses;
    MPI_Offset displacement;
    MPI_Datatype etype, filetype; /* duplicates, unless predefined */
    struct type *tile;
    uint64_t etype_size;
    enum representation representation;
};

struct file {
    MPI_File handle;
    MPI_Comm comm; /* a duplicate */
    int rank, size;
    int mode; /* MPI_MODE_... */
    char id[WEFT_ID_ROOM];
    char *path;  /* in the volume */
    char *shown; /* below a mount, or NULL */
    weft_volume *volume;
    weft_file *attached;
    weft_view *bytes;
    weft_group *group; /* NULL: collective calls are made by each process for itself */
    weft_pointer *pointer;
    struct peers peers;
    struct hints hints;
    int hinted;             /* MPI_SUCCESS, or what is wrong with the hints */
    int completes_in_place; /* nonblocking calls end before they return, on all processes */
    atomic_int pointer_used;
    pthread_mutex_t lock;
    struct view *view;
    MPI_Offset position; /* in etypes */
    int atomic;
    struct transfer *split; /* the split collective that has begun */
};

/* Returns the file of Weft that a handle stands for, or NULL. */
struct file *file_of(MPI_File handle);

/* Makes `handle` stand for a file. Returns 0, or -1 without memory. */
int file_register(MPI_File handle, struct file *file);

/* The handle stands for no file of Weft any more. */
void file_forget(MPI_File handle);

/* Returns the view of a file, to be freed by view_free(). */
struct view *file_view(struct file *file);

/* Makes the view of a displacement, an etype and a filetype, and stores it in *view. Returns
 * MPI_SUCCESS or a code. */
int view_make(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
              enum representation representation, struct view **view);

void view_free(struct view *view);

/* Returns where byte `number` of the view's data lies in the file. */
int64_t view_position(const struct view *view, uint64_t number);

/* Stores how many bytes so many etypes are. Returns 0 if no file has as many. */
int view_bytes(const struct view *view, MPI_Offset etypes, uint64_t *bytes);

/* Whether byte `number` of the view's data lies at an offset that a file can have. */
int view_reaches(const struct view *view, uint64_t number);

/* Returns how many bytes of the view's data lie below `limit` in the file. */
uint64_t view_below(const struct view *view, int64_t limit);

/* Returns the shape of bytes `from` to `to` of the view's data; it keeps parts of the view. */
struct placed view_cut(struct arena *arena, const struct view *view, uint64_t from, uint64_t to);

#endif
