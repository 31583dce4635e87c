/*
 * Errors as MPI knows them: a code whose class a program can ask for, with a message of its own.
 *
 * Each failure gets a code of the class that fits (MPI_Add_error_code), and MPI_Error_string() gives
 * what Weft says: what was attempted, on what, what went wrong, and what can be done. There are at
 * most ERROR_CODES codes; beyond, the oldest of the class gets the new message.
 */
#ifndef WEFT_MPIIO_ERROR_H
#define WEFT_MPIIO_ERROR_H

#include <mpi.h>
#include <stdint.h>

/* Returns a code of this class with a message. */
int error_make(int class, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the code for what libweft has just answered this thread: `status` is a negative errno. */
int error_weft(int64_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Calls the error handler of an MPI file, or of MPI_FILE_NULL, and returns the code. */
int error_raise(MPI_File fh, int code);

/* Stores the class and the message of one of our codes, and returns 1; else 0. */
int error_find(int code, int *class, char *text);

#endif
