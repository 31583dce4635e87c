/*
 * Reads and writes as programs call them: where they begin, who takes part, and when they return.
 */
#ifndef WEFT_MPIIO_ACCESS_H
#define WEFT_MPIIO_ACCESS_H

#include "transfer.h"

/* Where an access begins; combined with TRANSFER_... by |. */
enum {
    ACCESS_AT = 0,           /* at an offset, in etypes */
    ACCESS_INDIVIDUAL = 16,  /* at the process's pointer */
    ACCESS_SHARED = 32,      /* at the pointer that all processes share */
    ACCESS_ORDERED = 64,     /* there, in the order of ranks */
};

/* The memory of an access, and its offset where it has one. */
struct buffer {
    MPI_Offset offset;
    void *buffer; /* not changed by a write */
    MPI_Count count;
    MPI_Datatype datatype;
};

/* A blocking call: fills *status, which may be MPI_STATUS_IGNORE. Like all calls here it returns
 * MPI_SUCCESS or a code, after the file's error handler has seen it. */
int access_now(struct file *file, int how, const struct buffer *buffer, MPI_Status *status);

/* A nonblocking call. */
int access_start(struct file *file, int how, const struct buffer *buffer, MPI_Request *request);

/* The two halves of a split collective call. */
int access_begin(struct file *file, int how, const struct buffer *buffer);
int access_end(struct file *file, int is_write, MPI_Status *status);

#endif
