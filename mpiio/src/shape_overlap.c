/* Whether bytes of a shape may lie in one place. Parts count by the space between their lowest and
 * highest byte: those that interleave are taken for overlapping. */
#include <stdlib.h>

#include "shape.h"

struct space {
    int64_t low, high;
};

static int compare(const void *a, const void *b)
{
    const struct space *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

static int spaces_overlap(struct space *spaces, size_t count)
{
    int sorted = 1;
    for (size_t i = 1; i < count && sorted; i++)
        sorted = spaces[i - 1].low <= spaces[i].low;
    if (!sorted)
        qsort(spaces, count, sizeof *spaces, compare);
    for (size_t i = 1; i < count; i++)
        if (spaces[i - 1].high > spaces[i].low)
            return 1;
    return 0;
}

static int sequence_may_overlap(const struct shape *shape)
{
    size_t count = shape->of.sequence.count;
    struct space *spaces = malloc(count * sizeof *spaces);
    int overlap = spaces == NULL;
    for (size_t i = 0; !overlap && i < count; i++) {
        struct placed member = shape->of.sequence.members[i];
        overlap = shape_may_overlap(member);
        spaces[i] = (struct space){member.at + member.shape->low, member.at + member.shape->high};
    }
    overlap = overlap || spaces_overlap(spaces, count);
    free(spaces);
    return overlap;
}

static int list_overlaps(const struct shape *shape)
{
    size_t count = shape->of.list.count;
    struct space *spaces = malloc(count * sizeof *spaces);
    if (spaces == NULL)
        return 1;
    for (size_t i = 0; i < count; i++) {
        weft_run run = shape->of.list.runs[i];
        spaces[i] = (struct space){run.displacement, run.displacement + (int64_t)run.length};
    }
    int overlap = spaces_overlap(spaces, count);
    free(spaces);
    return overlap;
}

int shape_may_overlap(struct placed whole)
{
    const struct shape *shape = whole.shape;
    if (shape == NULL)
        return 0;
    switch (shape->kind) {
    case SHAPE_RUN:
        return 0;
    case SHAPE_REPEAT: {
        const struct shape *body = shape->of.repeat.body;
        int64_t stride = shape->of.repeat.stride;
        return (stride < 0 ? -stride : stride) < body->high - body->low
               || shape_may_overlap((struct placed){0, body});
    }
    case SHAPE_SEQUENCE:
        return sequence_may_overlap(shape);
    case SHAPE_LIST:
        return list_overlaps(shape);
    }
    return 1;
}
