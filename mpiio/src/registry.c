/* Which MPI_File stands for which file: a table of pointers, searched by the pointer's bits. */
#include <stdint.h>
#include <stdlib.h>

#include "file.h"

enum { FIRST_ROOM = 64 };

struct entry {
    MPI_File handle;
    struct file *file; /* NULL: never used; GONE: used before */
};

static struct file gone;
#define GONE (&gone)

static struct entry *entries;
static size_t room, filled; /* `room` is a power of two; `filled` counts those that were used */
static atomic_size_t known; /* handles that stand for files: none is the common case */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static size_t place_of(MPI_File handle)
{
    uint64_t bits = (uint64_t)(uintptr_t)handle;
    return (size_t)((bits * 0x9e3779b97f4a7c15U) >> 32);
}

static struct entry *find(MPI_File handle)
{
    for (size_t i = 0; i < room; i++) {
        struct entry *entry = &entries[(place_of(handle) + i) & (room - 1)];
        if (entry->file == NULL)
            return NULL;
        if (entry->handle == handle && entry->file != GONE)
            return entry;
    }
    return NULL;
}

static void insert(struct entry *into, size_t size, MPI_File handle, struct file *file)
{
    size_t i = place_of(handle) & (size - 1);
    while (into[i].file != NULL)
        i = (i + 1) & (size - 1);
    into[i] = (struct entry){handle, file};
}

/* Makes room for one more, leaving out what is gone. */
static int grow(void)
{
    size_t live = atomic_load(&known), size = FIRST_ROOM;
    while (size < 4 * (live + 1))
        size *= 2;
    struct entry *larger = calloc(size, sizeof *larger);
    if (larger == NULL)
        return -1;
    for (size_t i = 0; i < room; i++)
        if (entries[i].file != NULL && entries[i].file != GONE)
            insert(larger, size, entries[i].handle, entries[i].file);
    free(entries);
    entries = larger;
    room = size;
    filled = live;
    return 0;
}

struct file *file_of(MPI_File handle)
{
    if (atomic_load_explicit(&known, memory_order_acquire) == 0)
        return NULL;
    pthread_rwlock_rdlock(&lock);
    struct entry *entry = find(handle);
    struct file *file = entry == NULL ? NULL : entry->file;
    pthread_rwlock_unlock(&lock);
    return file;
}

int file_register(MPI_File handle, struct file *file)
{
    int status = 0;
    pthread_rwlock_wrlock(&lock);
    if (2 * (filled + 1) > room)
        status = grow();
    if (status == 0) {
        insert(entries, room, handle, file);
        filled++;
        atomic_fetch_add(&known, 1);
    }
    pthread_rwlock_unlock(&lock);
    return status;
}

void file_forget(MPI_File handle)
{
    pthread_rwlock_wrlock(&lock);
    struct entry *entry = find(handle);
    if (entry != NULL) {
        entry->file = GONE;
        if (atomic_fetch_sub(&known, 1) == 1) {
            free(entries);
            entries = NULL;
            room = filled = 0;
        }
    }
    pthread_rwlock_unlock(&lock);
}
