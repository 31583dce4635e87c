#include "arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 2032, ALIGN = 16 }; /* most requests need one block */

struct arena_block {
    struct arena_block *before;
    size_t reserved; /* keeps what follows aligned */
};

void *arena_take(struct arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX - BLOCK - ALIGN) {
        arena->failed = 1;
        return NULL;
    }
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (bytes > arena->left) {
        size_t room = bytes > BLOCK ? bytes : BLOCK;
        struct arena_block *block = malloc(sizeof *block + room);
        if (block == NULL) {
            arena->failed = 1;
            return NULL;
        }
        block->before = arena->blocks;
        arena->blocks = block;
        arena->next = (char *)(block + 1);
        arena->left = room;
    }
    void *taken = arena->next;
    arena->next += bytes;
    arena->left -= bytes;
    return bytes == 0 ? taken : memset(taken, 0, bytes);
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size) {
        arena->failed = 1;
        return NULL;
    }
    return arena_take(arena, count * size);
}

void arena_free(struct arena *arena)
{
    while (arena->blocks != NULL) {
        struct arena_block *block = arena->blocks;
        arena->blocks = block->before;
        free(block);
    }
    *arena = (struct arena){0};
}
