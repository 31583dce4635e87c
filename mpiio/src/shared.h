/*
 * The pointer that all processes of an open file share: it counts bytes of the view's data, and a
 * server keeps it.
 *
 * Accesses in the order of ranks add up what each process wants by MPI, and one process takes the
 * sum: one request for all.
 */
#ifndef WEFT_MPIIO_SHARED_H
#define WEFT_MPIIO_SHARED_H

#include "transfer.h"

/* Takes the bytes of an access: fills `from`, or `code` and no bytes if that fails. */
void shared_take(struct access *access);

/* As shared_take(), for all processes in the order of their ranks; all call it. */
void shared_take_ordered(struct access *access);

/* Stores where the pointer is, in bytes of the view's data. Returns MPI_SUCCESS or a code. */
int shared_position(struct file *file, uint64_t *position);

/* Moves the pointer, for all; one process calls it. Returns MPI_SUCCESS or a code. */
int shared_move(struct file *file, uint64_t position);

#endif
