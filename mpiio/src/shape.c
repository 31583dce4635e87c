#include "shape.h"

static const struct placed NOTHING = {0, NULL};

uint64_t shape_size(struct placed whole)
{
    return whole.shape == NULL ? 0 : whole.shape->size;
}

int shape_is_run(struct placed whole)
{
    return whole.shape != NULL && whole.shape->kind == SHAPE_RUN;
}

struct placed shape_run(struct arena *arena, int64_t at, uint64_t length)
{
    struct shape *made = length == 0 ? NULL : arena_take(arena, sizeof *made);
    if (made == NULL)
        return NOTHING;
    *made = (struct shape){
        .kind = SHAPE_RUN, .levels = 1, .parts = 1, .size = length, .high = (int64_t)length};
    return (struct placed){at, made};
}

struct placed shape_repeat(struct arena *arena, struct placed body, int64_t stride, uint64_t times)
{
    const struct shape *shape = body.shape;
    if (shape == NULL || times == 0)
        return NOTHING;
    if (times == 1)
        return body;
    if (shape->kind == SHAPE_RUN && stride == (int64_t)shape->size)
        return shape_run(arena, body.at, shape->size * times);
    if (shape->kind == SHAPE_REPEAT
        && stride == shape->of.repeat.stride * (int64_t)shape->of.repeat.times) {
        times *= shape->of.repeat.times;
        stride = shape->of.repeat.stride;
        shape = shape->of.repeat.body;
    }
    struct shape *made = arena_take(arena, sizeof *made);
    if (made == NULL)
        return NOTHING;
    int64_t last = stride * (int64_t)(times - 1);
    *made = (struct shape){
        .kind = SHAPE_REPEAT,
        .levels = shape->levels + 1,
        .parts = shape->parts + 1,
        .listed = shape->listed,
        .size = shape->size * times,
        .low = shape->low + (last < 0 ? last : 0),
        .high = shape->high + (last > 0 ? last : 0),
        .of.repeat = {shape, stride, times},
    };
    return (struct placed){body.at, made};
}

/* Whether `count` equal members lie at equal distances: then `*stride` is that. */
static int is_regular(size_t count, const struct placed *members, int64_t *stride)
{
    *stride = members[1].at - members[0].at;
    for (size_t i = 1; i < count; i++) {
        if (members[i].at - members[i - 1].at != *stride)
            return 0;
        const struct shape *a = members[0].shape, *b = members[i].shape;
        if (a != b && !(a->kind == SHAPE_RUN && b->kind == SHAPE_RUN && a->size == b->size))
            return 0;
    }
    return 1;
}

/* Leaves out empty members, and makes one run of runs that follow each other. */
static size_t join(struct arena *arena, size_t count, struct placed *members, size_t *runs)
{
    size_t kept = 0;
    *runs = 0;
    for (size_t i = 0; i < count; i++) {
        if (members[i].shape == NULL)
            continue;
        if (kept > 0 && shape_is_run(members[i]) && shape_is_run(members[kept - 1])) {
            struct placed *last = &members[kept - 1];
            if (last->at + (int64_t)last->shape->size == members[i].at) {
                uint64_t length = last->shape->size + members[i].shape->size;
                *last = shape_run(arena, last->at, length);
                if (last->shape == NULL)
                    return 0;
                continue;
            }
        }
        *runs += shape_is_run(members[i]);
        members[kept++] = members[i];
    }
    return kept;
}

struct placed shape_sequence(struct arena *arena, size_t count, struct placed *members)
{
    size_t runs;
    int64_t stride;
    count = join(arena, count, members, &runs);
    if (count <= 1)
        return count == 0 ? NOTHING : members[0];
    if (is_regular(count, members, &stride))
        return shape_repeat(arena, members[0], stride, count);
    if (runs == count) {
        weft_run *list = arena_array(arena, count, sizeof *list);
        for (size_t i = 0; list != NULL && i < count; i++)
            list[i] = (weft_run){members[i].at, members[i].shape->size};
        return list == NULL ? NOTHING : shape_list(arena, count, list);
    }
    struct shape *made = arena_take(arena, sizeof *made);
    struct placed *placed = arena_array(arena, count, sizeof *placed);
    uint64_t *before = arena_array(arena, count, sizeof *before);
    if (made == NULL || placed == NULL || before == NULL)
        return NOTHING;
    *made = (struct shape){.kind = SHAPE_SEQUENCE, .of.sequence = {count, placed, before}};
    int64_t first = members[0].at;
    for (size_t i = 0; i < count; i++) {
        const struct shape *shape = members[i].shape;
        placed[i] = (struct placed){members[i].at - first, shape};
        before[i] = made->size;
        made->size += shape->size;
        made->parts += shape->parts;
        made->listed += shape->listed;
        if (shape->levels > made->levels)
            made->levels = shape->levels;
        if (placed[i].at + shape->low < made->low)
            made->low = placed[i].at + shape->low;
        if (placed[i].at + shape->high > made->high)
            made->high = placed[i].at + shape->high;
    }
    made->levels++;
    made->parts++;
    return (struct placed){first, made};
}

/* Whether all runs are equal and equally far from each other. */
static int is_strided(size_t count, const weft_run *runs)
{
    int64_t stride = runs[1].displacement - runs[0].displacement;
    for (size_t i = 1; i < count; i++)
        if (runs[i].length != runs[0].length
            || runs[i].displacement - runs[i - 1].displacement != stride)
            return 0;
    return 1;
}

struct placed shape_list(struct arena *arena, size_t count, weft_run *runs)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (runs[i].length == 0)
            continue;
        weft_run *last = kept > 0 ? &runs[kept - 1] : NULL;
        if (last != NULL && last->displacement + (int64_t)last->length == runs[i].displacement)
            last->length += runs[i].length;
        else
            runs[kept++] = runs[i];
    }
    if (kept == 0)
        return NOTHING;
    if (kept == 1)
        return shape_run(arena, runs[0].displacement, runs[0].length);
    if (is_strided(kept, runs)) {
        struct placed run = shape_run(arena, runs[0].displacement, runs[0].length);
        return shape_repeat(arena, run, runs[1].displacement - runs[0].displacement, kept);
    }
    struct shape *made = arena_take(arena, sizeof *made);
    weft_run *list = arena_array(arena, kept, sizeof *list);
    uint64_t *before = arena_array(arena, kept, sizeof *before);
    if (made == NULL || list == NULL || before == NULL)
        return NOTHING;
    *made = (struct shape){
        .kind = SHAPE_LIST, .levels = 1, .parts = 1, .listed = kept, .of.list = {kept, list, before}};
    int64_t first = runs[0].displacement;
    for (size_t i = 0; i < kept; i++) {
        list[i] = (weft_run){runs[i].displacement - first, runs[i].length};
        before[i] = made->size;
        made->size += list[i].length;
        if (list[i].displacement < made->low)
            made->low = list[i].displacement;
        if (list[i].displacement + (int64_t)list[i].length > made->high)
            made->high = list[i].displacement + (int64_t)list[i].length;
    }
    return (struct placed){first, made};
}
