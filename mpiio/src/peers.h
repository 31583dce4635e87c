/*
 * Which processes of a communicator are still there, as far as this machine can see.
 *
 * A collective waits for all members: programs may compute for long before they call it, so a short
 * timeout would fail correct programs. A process that has ended will never come. Of those on the
 * same machine the kernel says so; of others only the time that a collective may take does.
 */
#ifndef WEFT_MPIIO_PEERS_H
#define WEFT_MPIIO_PEERS_H

#include <mpi.h>

struct peer;

struct peers {
    int count;
    struct peer *peers;
};

/* Exchanges who the processes are; all of `comm` call it. Returns MPI_SUCCESS or a code. */
int peers_exchange(MPI_Comm comm, struct peers *peers);

/* Returns the rank of a process on this machine that has ended, or -1. */
int peers_ended(const struct peers *peers);

void peers_free(struct peers *peers);

#endif
