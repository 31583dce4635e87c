/* What is done with shapes: cutting, counting, flattening, and making patterns of them. */
#include <errno.h>
#include <string.h>

#include "shape.h"

/* Bounds of libweft; docs/requests.md. */
enum { LEVELS_MAX = 16, PARTS_MAX = 4096 };

static const struct placed NOTHING = {0, NULL};

/* The index of the part that has byte number `number`, where `before[i]` bytes are before part i. */
static size_t part_of(const uint64_t *before, size_t count, uint64_t number)
{
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (before[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static struct placed cut_repeat(struct arena *arena, struct placed whole, uint64_t from, uint64_t to)
{
    const struct shape *body = whole.shape->of.repeat.body;
    int64_t stride = whole.shape->of.repeat.stride;
    uint64_t first = from / body->size, last = (to - 1) / body->size;
    struct placed head = {whole.at + stride * (int64_t)first, body};
    struct placed tail = {whole.at + stride * (int64_t)last, body};
    uint64_t head_from = from - first * body->size, tail_to = to - last * body->size;
    if (first == last)
        return shape_cut(arena, head, head_from, tail_to);
    struct placed members[3] = {NOTHING, NOTHING, NOTHING};
    uint64_t times = last - first + 1;
    struct placed middle = head;
    if (head_from > 0) {
        members[0] = shape_cut(arena, head, head_from, body->size);
        middle.at += stride;
        times--;
    }
    if (tail_to < body->size) {
        members[2] = shape_cut(arena, tail, 0, tail_to);
        times--;
    }
    members[1] = shape_repeat(arena, middle, stride, times);
    return shape_sequence(arena, 3, members);
}

static struct placed cut_sequence(struct arena *arena, struct placed whole, uint64_t from,
                                  uint64_t to)
{
    size_t count = whole.shape->of.sequence.count;
    const uint64_t *before = whole.shape->of.sequence.before;
    size_t first = part_of(before, count, from), last = part_of(before, count, to - 1);
    struct placed *members = arena_array(arena, last - first + 1, sizeof *members);
    for (size_t i = first; members != NULL && i <= last; i++) {
        struct placed member = whole.shape->of.sequence.members[i];
        member.at += whole.at;
        uint64_t low = i == first ? from - before[i] : 0;
        uint64_t high = i == last ? to - before[i] : member.shape->size;
        members[i - first] = shape_cut(arena, member, low, high);
    }
    return members == NULL ? NOTHING : shape_sequence(arena, last - first + 1, members);
}

static struct placed cut_list(struct arena *arena, struct placed whole, uint64_t from, uint64_t to)
{
    size_t count = whole.shape->of.list.count;
    const uint64_t *before = whole.shape->of.list.before;
    size_t first = part_of(before, count, from), last = part_of(before, count, to - 1);
    weft_run *runs = arena_array(arena, last - first + 1, sizeof *runs);
    for (size_t i = first; runs != NULL && i <= last; i++) {
        weft_run run = whole.shape->of.list.runs[i];
        uint64_t low = i == first ? from - before[i] : 0;
        uint64_t high = i == last ? to - before[i] : run.length;
        runs[i - first] = (weft_run){whole.at + run.displacement + (int64_t)low, high - low};
    }
    return runs == NULL ? NOTHING : shape_list(arena, last - first + 1, runs);
}

struct placed shape_cut(struct arena *arena, struct placed whole, uint64_t from, uint64_t to)
{
    if (from >= to)
        return NOTHING;
    if (from == 0 && to == whole.shape->size)
        return whole;
    switch (whole.shape->kind) {
    case SHAPE_RUN:
        return shape_run(arena, whole.at + (int64_t)from, to - from);
    case SHAPE_REPEAT:
        return cut_repeat(arena, whole, from, to);
    case SHAPE_SEQUENCE:
        return cut_sequence(arena, whole, from, to);
    case SHAPE_LIST:
        return cut_list(arena, whole, from, to);
    }
    return NOTHING;
}

int shape_visit(struct placed whole, int (*visit)(void *context, int64_t at, uint64_t length),
                void *context)
{
    const struct shape *shape = whole.shape;
    int stop = 0;
    if (shape == NULL)
        return 0;
    switch (shape->kind) {
    case SHAPE_RUN:
        return visit(context, whole.at, shape->size);
    case SHAPE_REPEAT:
        for (uint64_t i = 0; i < shape->of.repeat.times && stop == 0; i++) {
            int64_t at = whole.at + shape->of.repeat.stride * (int64_t)i;
            stop = shape_visit((struct placed){at, shape->of.repeat.body}, visit, context);
        }
        return stop;
    case SHAPE_SEQUENCE:
        for (size_t i = 0; i < shape->of.sequence.count && stop == 0; i++) {
            struct placed member = shape->of.sequence.members[i];
            member.at += whole.at;
            stop = shape_visit(member, visit, context);
        }
        return stop;
    case SHAPE_LIST:
        for (size_t i = 0; i < shape->of.list.count && stop == 0; i++) {
            weft_run run = shape->of.list.runs[i];
            stop = visit(context, whole.at + run.displacement, run.length);
        }
        return stop;
    }
    return stop;
}

struct flattening {
    struct arena *arena;
    weft_run *runs;
    size_t count;
    size_t room;
};

static int add_run(void *context, int64_t at, uint64_t length)
{
    struct flattening *flat = context;
    if (flat->count > 0) {
        weft_run *last = &flat->runs[flat->count - 1];
        if (last->displacement + (int64_t)last->length == at) {
            last->length += length;
            return 0;
        }
    }
    if (flat->count == flat->room) {
        size_t room = flat->room == 0 ? 64 : flat->room * 2;
        weft_run *runs = arena_array(flat->arena, room, sizeof *runs);
        if (runs == NULL)
            return -1;
        if (flat->count > 0)
            memcpy(runs, flat->runs, flat->count * sizeof *runs);
        flat->runs = runs;
        flat->room = room;
    }
    flat->runs[flat->count++] = (weft_run){at, length};
    return 0;
}

struct placed shape_flat(struct arena *arena, struct placed whole)
{
    struct flattening flat = {arena, NULL, 0, 0};
    if (shape_visit(whole, add_run, &flat) != 0)
        return NOTHING;
    return shape_list(arena, flat.count, flat.runs);
}

/* Of a repetition whose bodies do not overlap in their extents, all but a few bodies are counted
 * by a division. */
static uint64_t repeat_below(struct placed whole, int64_t limit)
{
    const struct shape *body = whole.shape->of.repeat.body;
    int64_t stride = whole.shape->of.repeat.stride;
    uint64_t times = whole.shape->of.repeat.times, below = 0, i = 0;
    int64_t room = limit - whole.at - body->high; /* body i lies below if i * stride <= room */
    if (stride > 0 && room >= 0) {
        uint64_t bodies = (uint64_t)(room / stride) + 1;
        i = bodies < times ? bodies : times;
        below = i * body->size;
    }
    for (; i < times; i++) {
        int64_t at = whole.at + stride * (int64_t)i;
        if (stride >= 0 && at + body->low >= limit)
            break;
        below += shape_below((struct placed){at, body}, limit);
    }
    return below;
}

uint64_t shape_below(struct placed whole, int64_t limit)
{
    const struct shape *shape = whole.shape;
    uint64_t below = 0;
    if (shape == NULL || whole.at + shape->low >= limit)
        return 0;
    if (whole.at + shape->high <= limit)
        return shape->size;
    switch (shape->kind) {
    case SHAPE_RUN:
        return (uint64_t)(limit - whole.at);
    case SHAPE_REPEAT:
        return repeat_below(whole, limit);
    case SHAPE_SEQUENCE:
        for (size_t i = 0; i < shape->of.sequence.count; i++) {
            struct placed member = shape->of.sequence.members[i];
            member.at += whole.at;
            below += shape_below(member, limit);
        }
        return below;
    case SHAPE_LIST:
        for (size_t i = 0; i < shape->of.list.count; i++) {
            weft_run run = shape->of.list.runs[i];
            int64_t room = limit - whole.at - run.displacement;
            if (room > 0)
                below += (uint64_t)room < run.length ? (uint64_t)room : run.length;
        }
        return below;
    }
    return below;
}

int64_t shape_position(struct placed whole, uint64_t number)
{
    const struct shape *shape = whole.shape;
    int64_t at = whole.at;
    while (shape->kind != SHAPE_RUN) {
        if (shape->kind == SHAPE_REPEAT) {
            uint64_t i = number / shape->of.repeat.body->size;
            at += shape->of.repeat.stride * (int64_t)i;
            shape = shape->of.repeat.body;
            number -= i * shape->size;
        } else if (shape->kind == SHAPE_SEQUENCE) {
            size_t i = part_of(shape->of.sequence.before, shape->of.sequence.count, number);
            number -= shape->of.sequence.before[i];
            at += shape->of.sequence.members[i].at;
            shape = shape->of.sequence.members[i].shape;
        } else {
            size_t i = part_of(shape->of.list.before, shape->of.list.count, number);
            return at + shape->of.list.runs[i].displacement
                   + (int64_t)(number - shape->of.list.before[i]);
        }
    }
    return at + (int64_t)number;
}

int shape_fits(struct placed whole)
{
    return whole.shape == NULL
           || (whole.shape->levels <= LEVELS_MAX && whole.shape->parts <= PARTS_MAX);
}

static int sequence_pattern(const struct shape *shape, weft_pattern **pattern)
{
    size_t count = shape->of.sequence.count, made = 0;
    struct arena arena = {0};
    weft_pattern **members = arena_array(&arena, count, sizeof *members);
    int64_t *displacements = arena_array(&arena, count, sizeof *displacements);
    int status = members == NULL || displacements == NULL ? -ENOMEM : 0;
    for (; status == 0 && made < count; made++) {
        displacements[made] = shape->of.sequence.members[made].at;
        status = shape_pattern(shape->of.sequence.members[made].shape, &members[made]);
        if (status < 0)
            break;
    }
    if (status == 0)
        status = weft_pattern_sequence(count, displacements, (const weft_pattern *const *)members,
                                       pattern);
    for (size_t i = 0; i < made; i++)
        weft_pattern_free(members[i]);
    arena_free(&arena);
    return status;
}

int shape_pattern(const struct shape *shape, weft_pattern **pattern)
{
    weft_pattern *body;
    int status;
    switch (shape->kind) {
    case SHAPE_RUN:
        return weft_pattern_bytes(shape->size, pattern);
    case SHAPE_REPEAT:
        status = shape_pattern(shape->of.repeat.body, &body);
        if (status < 0)
            return status;
        status = weft_pattern_repeat(body, shape->of.repeat.stride, shape->of.repeat.times,
                                     pattern);
        weft_pattern_free(body);
        return status;
    case SHAPE_SEQUENCE:
        return sequence_pattern(shape, pattern);
    case SHAPE_LIST:
        return weft_pattern_list(shape->of.list.count, shape->of.list.runs, pattern);
    }
    return -EINVAL;
}
