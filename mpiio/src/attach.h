/*
 * How a file gets from process 0, which attaches it, to all others.
 *
 * Process 0 sends one small message that says whether there is a file, and one with its
 * description. So a job of any size attaches a file by one request to the metadata service.
 */
#ifndef WEFT_MPIIO_ATTACH_H
#define WEFT_MPIIO_ATTACH_H

#include "file.h"
#include "place.h"

/* Bytes of a file's description: more than the largest layout has. */
enum { DESCRIPTION_ROOM = 1 << 16 };

/* What all need to know. */
struct attached {
    char id[WEFT_ID_ROOM];
    char why[MPI_MAX_ERROR_STRING]; /* if there is no file */
    uint64_t inode; /* what mounts show when they know the file, 0 if none has to be waited for */
    struct place place;
    char description[DESCRIPTION_ROOM]; /* as much of it as is there is sent */
};

/* What all need to know first. */
struct attaching {
    int is_weft;
    int class;  /* MPI_SUCCESS, or the class of the error of process 0 */
    int length; /* of the description */
};

/* Finds and attaches a file for all: what process 0 does. Fills *attaching and *attached, and
 * returns MPI_SUCCESS or a code. */
int attach_first(struct file *file, const char *name, struct attaching *attaching,
                 struct attached *attached);

/* Adopts what process 0 has attached. Returns MPI_SUCCESS or a code. */
int attach_adopt(struct file *file, const struct attaching *attaching,
                 const struct attached *attached);

/* Whether a mode is one of those that there are. Returns MPI_SUCCESS or a code. */
int attach_check_mode(int mode);

#endif
