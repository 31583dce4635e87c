/* Mounted volumes, as the kernel lists them in /proc/self/mountinfo. */
#ifndef WEFT_MPIIO_MOUNTS_H
#define WEFT_MPIIO_MOUNTS_H

enum { MOUNT_ROOM = 4096 };

struct mount {
    char point[MOUNT_ROOM];
    char root[MOUNT_ROOM];   /* what of the volume is mounted, such as "/" */
    char source[MOUNT_ROOM]; /* the volume: its folder, or HOST:PORT */
};

/* Returns 1 if any volume is mounted. */
int mounts_any(void);

/* Stores the mounted volume that an absolute path without symbolic links lies in, and returns 1;
 * 0 if it lies in none. */
int mounts_find(const char *path, struct mount *mount);

#endif
