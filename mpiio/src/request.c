#include "request.h"

#include <errno.h>

/* Runs of lists in one message of a collective, which libweft does not split: docs/requests.md. */
enum { LIST_MAX = 65536 };

/* A shape that the library takes, if need be as a list. */
static struct placed fitting(struct arena *arena, struct placed shape)
{
    return shape_fits(shape) ? shape : shape_flat(arena, shape);
}

int request_make(struct arena *arena, struct placed where, struct placed memory, char *buffer,
                 struct request *request)
{
    *request = (struct request){.request = {.size = sizeof request->request}};
    if (where.shape == NULL)
        return arena->failed ? -ENOMEM : 0;
    where = fitting(arena, where);
    memory = fitting(arena, memory);
    if (where.shape == NULL || memory.shape == NULL)
        return -ENOMEM;
    int status = 0;
    request->request.offset = (uint64_t)where.at;
    request->too_long_a_list = where.shape->listed > LIST_MAX;
    request->base = buffer + memory.at + memory.shape->low;
    request->length = (size_t)(memory.shape->high - memory.shape->low);
    if (!shape_is_run(where))
        status = shape_pattern(where.shape, &request->pattern);
    else if (!shape_is_run(memory))
        status = weft_pattern_bytes(where.shape->size, &request->pattern);
    if (status == 0 && !shape_is_run(memory)) {
        request->request.memory_offset = (uint64_t)-memory.shape->low;
        status = shape_pattern(memory.shape, &request->memory);
    }
    request->request.pattern = request->pattern;
    request->request.memory = request->memory;
    if (status < 0)
        request_free(request);
    return status;
}

void request_free(struct request *request)
{
    weft_pattern_free(request->pattern);
    weft_pattern_free(request->memory);
    request->pattern = request->memory = NULL;
}
