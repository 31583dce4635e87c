/* Opening and closing files: once for all processes of a communicator. */
#ifndef WEFT_MPIIO_OPEN_H
#define WEFT_MPIIO_OPEN_H

#include "file.h"

/* Opens what a name means; all of `comm` call it. Stores in *is_weft whether it is Weft's business,
 * and the file in *file if it is open. Returns MPI_SUCCESS or a code. */
int open_file(MPI_Comm comm, const char *name, int mode, MPI_Info info, int *is_weft,
              struct file **file);

/* Closes a file and frees it, also when that fails; all of its communicator call it. */
int open_close(struct file *file);

/* Frees what a process has attached. Returns 0, or the negative errno of closing. */
int open_release(struct file *file);

/* Frees a file, as far as it was made. */
void open_destroy(struct file *file);

#endif
