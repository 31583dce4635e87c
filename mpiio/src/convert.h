/*
 * What becomes of bytes between memory and requests: data representations, and memory that no
 * request can name.
 *
 * "native" and "internal" are the bytes of memory. "external32" is MPI's portable one; the MPI
 * library converts, by MPI_Pack_external(). Types whose elements have another size there than in
 * memory, such as MPI_LONG, are refused: no library agrees with another about them.
 */
#ifndef WEFT_MPIIO_CONVERT_H
#define WEFT_MPIIO_CONVERT_H

#include "transfer.h"

struct conversion {
    char *packed;          /* NULL: bytes are as in memory */
    MPI_Datatype datatype; /* kept for a read, which converts at its end */
    struct type *type;     /* of memory that needs no conversion */
    struct placed scatter; /* where bytes that were read belong, one after the other */
};

/* Finds the representation that a name means. Returns MPI_SUCCESS or a code. */
int convert_find(const char *name, enum representation *representation);

/* The name of a representation. */
const char *convert_name(enum representation representation);

/* Refuses a type that cannot be converted. Returns MPI_SUCCESS or a code. */
int convert_check(MPI_Datatype datatype, enum representation representation);

/* Begins an access: converts what is written, and has room for what is read. */
int convert_begin(struct conversion *conversion, const struct access *access, int is_write);

/* Has a read go to a buffer first, since bytes of memory may have one place: MPI forbids that, but
 * programs that only count bytes do it, and what is read last stays. The shape must live as long as
 * the access. */
int convert_by_buffer(struct conversion *conversion, const struct access *access,
                      struct placed memory);

/* Ends an access: converts what was read, `moved` bytes of it, and frees what it had. */
int convert_end(struct conversion *conversion, const struct access *access, int is_write,
                uint64_t moved);

#endif
