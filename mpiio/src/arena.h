/*
 * Memory that is freed all at once.
 *
 * The parts of a shape point at each other and live equally long: one arena owns them. Memory is
 * aligned for any type. An arena belongs to one thread while it grows; what was allocated may be
 * read by all.
 */
#ifndef WEFT_MPIIO_ARENA_H
#define WEFT_MPIIO_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *blocks;
    size_t left; /* bytes in the first block */
    char *next;
    int failed; /* an allocation failed: the caller reports it once, at the end */
};

/* Returns `bytes` zeroed bytes. Without memory it returns NULL and sets `failed`. */
void *arena_take(struct arena *arena, size_t bytes);

/* As arena_take(), of `count` elements of `size` bytes; a product that overflows is no memory. */
void *arena_array(struct arena *arena, size_t count, size_t size);

/* Frees everything, and leaves an empty arena. */
void arena_free(struct arena *arena);

#endif
