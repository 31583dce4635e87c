/*
 * What an MPI_Info says about a file of Weft.
 *
 * Hints of ROMIO and Open MPI about how processes exchange data among each other have no meaning
 * here: they are accepted, and MPI_File_get_info() lists them under the key "weft_ignored".
 */
#ifndef WEFT_MPIIO_HINTS_H
#define WEFT_MPIIO_HINTS_H

#include <mpi.h>
#include <weft.h>

enum { WEFT_ID_ROOM = 64, HINT_ROOM = 256, SERVERS_ROOM = 128 };

struct hints {
    weft_layout layout; /* striping_factor, striping_unit, weft_chunk, weft_replicas, weft_storage, weft_servers */
    uint32_t servers[SERVERS_ROOM];
    char policy[WEFT_POLICY_ROOM]; /* weft_policy; "": as the file says */
    char fork[HINT_ROOM];          /* weft_fork; "": the data */
    uint32_t wait_ms;              /* weft_wait, in seconds: how long a collective waits */
    char ignored[HINT_ROOM];       /* names, with commas */
};

/* Begins with what holds without hints. */
void hints_begin(struct hints *hints);

/* Reads an MPI_Info, which may be MPI_INFO_NULL. Returns MPI_SUCCESS, or a code that says which
 * hint has a value that means nothing. */
int hints_read(MPI_Info info, struct hints *hints);

/* Makes an MPI_Info of the hints that are in use for a file with these attributes, and of
 * "weft_requests": how many requests this process has sent to the volume, for programs that count
 * what a call costs. */
int hints_write(const struct hints *hints, const weft_attributes *attributes, int64_t requests,
                MPI_Info *info);

#endif
