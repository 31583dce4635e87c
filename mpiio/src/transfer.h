/*
 * One access of a program: bytes that move between a file view and memory.
 *
 * An access is one request of Weft, whatever the datatypes are, unless it is larger than a request
 * may be: then it is several, one after the other.
 *
 * All members of a group must come to each of its collectives. So an access that its process finds
 * to be wrong, or that no collective can carry, takes part with an empty request: its bytes move by
 * requests of their own, or not at all, and no other process waits in vain.
 */
#ifndef WEFT_MPIIO_TRANSFER_H
#define WEFT_MPIIO_TRANSFER_H

#include "file.h"

enum { TRANSFER_READ = 0, TRANSFER_WRITE = 1, TRANSFER_COLLECTIVE = 2 };

struct transfer;

/* What is to be moved. */
struct access {
    struct file *file;
    struct view *view; /* kept by the transfer as long as it needs it */
    int how;           /* TRANSFER_..., combined with | */
    uint64_t from;     /* the first byte of the view's data */
    void *buffer;
    MPI_Count count;
    MPI_Datatype datatype;
    uint64_t bytes;    /* of the view's data */
    int code;          /* not MPI_SUCCESS: the access is wrong, and only takes part */
};

/* Fills what a datatype says: `bytes`, and `code` if it is wrong. */
void transfer_measure(struct access *access);

/* Moves the bytes; returns when they are moved. Stores how many there were in *moved. Returns
 * MPI_SUCCESS or a code. */
int transfer_now(const struct access *access, uint64_t *moved);

/* Begins to move them, and stores the transfer in *transfer, to be ended by transfer_wait().
 * Returns MPI_SUCCESS or a code; without memory nothing has begun. */
int transfer_post(const struct access *access, struct transfer **transfer);

/* Returns 1 if a transfer has ended. Never waits long. */
int transfer_test(struct transfer *transfer);

/* Waits for a transfer `milliseconds` at most. Returns 1 if it has ended. */
int transfer_pause(struct transfer *transfer, int milliseconds);

/* Waits until a transfer has ended, and frees it; the rest is as of transfer_now(). */
int transfer_wait(struct transfer *transfer, uint64_t *moved);

/* Whether a transfer writes. */
int transfer_writes(const struct transfer *transfer);

/* The file of a transfer. */
struct file *transfer_file(const struct transfer *transfer);

#endif
