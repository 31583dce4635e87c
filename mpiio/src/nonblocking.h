/*
 * Transfers as requests of MPI, for MPI_Wait() and its like.
 *
 * They are generalized requests. What completes them is a hook into the library's progress, which
 * every call that waits runs: MPICH and its kin have MPIX_Grequest_start(), Open MPI has
 * opal_progress_register(). Both are found at run time. Without such a hook a transfer ends before
 * its call returns, and collectives are done by each process for itself, so that none waits for
 * another in a call that must not.
 */
#ifndef WEFT_MPIIO_NONBLOCKING_H
#define WEFT_MPIIO_NONBLOCKING_H

#include "transfer.h"

/* Returns 1 if the MPI library has a hook for progress. */
int nonblocking_has_progress(void);

/* Begins an access and stores its request in *request. Returns MPI_SUCCESS or a code; errors of the
 * transfer are those of the request. */
int nonblocking_start(const struct access *access, MPI_Request *request);

#endif
