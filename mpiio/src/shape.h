/*
 * Shapes: which bytes a datatype, a file view or an access touches.
 *
 * A shape is a tree of runs, repetitions, sequences and lists, as a weft_pattern is, of a size that
 * does not depend on how often something is repeated. Unlike a pattern it can be cut: the bytes
 * FROM..TO of a shape are a shape again, with at most one part more before and behind each
 * repetition that is cut.
 *
 * Invariants:
 *  1. Shapes are never changed after they are made; several may share parts.
 *  2. The first byte of a shape is at 0: where it lies is said by the one who uses it (`placed`).
 *  3. A shape has at least one byte. Nothing at all is a `placed` without a shape.
 *  4. Bytes that follow each other in a shape and in the file are one run, as far as it is seen
 *     without unfolding repetitions.
 *
 * All functions take the arena that will own what they make; what they are given must live as long.
 * Without memory they return nothing and the arena says `failed`.
 */
#ifndef WEFT_MPIIO_SHAPE_H
#define WEFT_MPIIO_SHAPE_H

#include <stdint.h>
#include <weft.h>

#include "arena.h"

enum shape_kind { SHAPE_RUN, SHAPE_REPEAT, SHAPE_SEQUENCE, SHAPE_LIST };

struct shape;

/* A shape and where it lies, in bytes. */
struct placed {
    int64_t at;
    const struct shape *shape; /* NULL: no bytes */
};

struct shape {
    enum shape_kind kind;
    unsigned levels; /* as weft_pattern counts them */
    uint64_t parts;  /* likewise */
    uint64_t listed; /* runs of all lists in it, each list counted once */
    uint64_t size;   /* bytes that it touches */
    int64_t low;     /* its lowest byte, at most 0 */
    int64_t high;    /* one past its highest byte */
    union {
        struct {
            const struct shape *body;
            int64_t stride;
            uint64_t times;
        } repeat;
        struct {
            size_t count;
            const struct placed *members;
            const uint64_t *before; /* bytes in all members before this one */
        } sequence;
        struct {
            size_t count;
            const weft_run *runs;
            const uint64_t *before;
        } list;
    } of;
};

/* `length` consecutive bytes from `at` on. */
struct placed shape_run(struct arena *arena, int64_t at, uint64_t length);

/* `body`, `times` times, `stride` bytes from one to the next. */
struct placed shape_repeat(struct arena *arena, struct placed body, int64_t stride, uint64_t times);

/* `count` shapes one after the other. `members` is not kept, and may be changed. */
struct placed shape_sequence(struct arena *arena, size_t count, struct placed *members);

/* `count` runs one after the other. `runs` is not kept, and may be changed. */
struct placed shape_list(struct arena *arena, size_t count, weft_run *runs);

/* Bytes from number `from` up to and without number `to`; `to` is at most the size. */
struct placed shape_cut(struct arena *arena, struct placed whole, uint64_t from, uint64_t to);

/* As a list: one run for each of its runs, however many they are. */
struct placed shape_flat(struct arena *arena, struct placed whole);

/* Returns how many bytes of a shape lie below `limit`. */
uint64_t shape_below(struct placed whole, int64_t limit);

/* Returns where byte number `number` of a shape lies; `number` is below its size. */
int64_t shape_position(struct placed whole, uint64_t number);

/* Returns 1 if the shape is one run: consecutive bytes. */
int shape_is_run(struct placed whole);

/* Returns how many bytes a shape has. */
uint64_t shape_size(struct placed whole);

/* Returns 0 if no two bytes of a shape have one place for sure, 1 if some may. */
int shape_may_overlap(struct placed whole);

/* Calls `visit` for each run in turn; it stops at the first that does not return 0. */
int shape_visit(struct placed whole, int (*visit)(void *context, int64_t at, uint64_t length),
                void *context);

/* Whether the library takes the shape as a pattern: neither too deep nor too many parts. */
int shape_fits(struct placed whole);

/* Stores the pattern of a shape, that begins where the shape does. Returns 0 or a negative errno. */
int shape_pattern(const struct shape *shape, weft_pattern **pattern);

#endif
