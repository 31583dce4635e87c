/*
 * Which file of which volume a name means.
 *
 *   weft:/PATH           in the volume that the environment names
 *   weft:VOLUME:/PATH    VOLUME is a folder, or HOST:PORT
 *   PATH                 below the mount point of a volume
 */
#ifndef WEFT_MPIIO_PLACE_H
#define WEFT_MPIIO_PLACE_H

#include <mpi.h>
#include <weft.h>

enum { PLACE_ROOM = 4096 };

struct place {
    int is_weft;              /* 0: the MPI library's business */
    char volume[PLACE_ROOM];  /* a folder or HOST:PORT; "": that of the environment */
    char mounted[PLACE_ROOM]; /* the mount point through which it was found, or "" */
    char path[PLACE_ROOM];    /* in the volume */
};

/* Finds what a name means on this process. Returns MPI_SUCCESS or a code. */
int place_find(const char *name, struct place *place);

/* Connects to the volume of a place that another process has found; one connection serves all
 * files of this process. Stores it in *volume. Returns MPI_SUCCESS or a code. */
int place_connect(const struct place *place, weft_volume **volume);

/* Stores the path at which this process finds a place below a mount, and returns 1; 0 if the place
 * was not named so, or nothing is mounted there. */
int place_shown(const struct place *place, char shown[PLACE_ROOM]);

/* The inode that a mount shows at a path, or 0. */
uint64_t place_inode(const char *shown);

/* A mount learns some milliseconds later what others create and remove. These two wait until it
 * shows an inode at a path, or no longer: a second at most. */
void place_await(const char *shown, uint64_t inode);
void place_await_gone(const char *shown, uint64_t inode);

#endif
