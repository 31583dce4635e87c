/* The MPI library's own file whose handle stands for a file of Weft: /dev/null. */
#ifndef WEFT_MPIIO_CARRIER_H
#define WEFT_MPIIO_CARRIER_H

#include <mpi.h>

/* Opens it for this process alone. Returns MPI_SUCCESS or a code. */
int carrier_open(MPI_File *handle);

void carrier_close(MPI_File *handle);

#endif
