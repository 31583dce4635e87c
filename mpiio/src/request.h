/*
 * Bytes of a file view and bytes of memory as requests of libweft.
 */
#ifndef WEFT_MPIIO_REQUEST_H
#define WEFT_MPIIO_REQUEST_H

#include "file.h"

/* One request with what it owns. */
struct request {
    weft_request request;
    weft_pattern *pattern, *memory;
    char *base; /* the lowest byte of memory that it names */
    size_t length;
    int too_long_a_list; /* for a collective */
};

/* Makes the request for bytes of a file at `where` and of memory at `memory`, which are as many.
 * Empty ones are allowed. Returns 0 or a negative errno. */
int request_make(struct arena *arena, struct placed where, struct placed memory, char *buffer,
                 struct request *request);

void request_free(struct request *request);

#endif
