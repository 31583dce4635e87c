/* MPI_Status of an access. */
#ifndef WEFT_MPIIO_STATUS_H
#define WEFT_MPIIO_STATUS_H

#include <mpi.h>
#include <stdint.h>

/* Sets a status, which may be MPI_STATUS_IGNORE, to so many bytes. */
static inline void status_set(MPI_Status *status, uint64_t bytes)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    status->MPI_SOURCE = MPI_ANY_SOURCE;
    status->MPI_TAG = MPI_ANY_TAG;
    PMPI_Status_set_cancelled(status, 0);
    PMPI_Status_set_elements_x(status, MPI_BYTE, (MPI_Count)bytes);
}

#endif
