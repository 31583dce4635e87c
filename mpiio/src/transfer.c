#include "transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "convert.h"
#include "error.h"
#include "request.h"

/* Bytes of one request: what a server takes of one call at most, even if all are on it. */
static const uint64_t REQUEST_MAX = (uint64_t)1 << 30;

/* Milliseconds between two looks at other processes while a collective waits for them. */
enum { LOOK_AT_PEERS = 1000 };

/* Milliseconds for which a collective waits before it lets the MPI library make progress: messages
 * for which others wait may have to leave this process before they can come. */
enum { FIRST_WAIT = 1, LAST_WAIT = 10 };

/* One request in flight. */
struct part {
    struct request request;
    weft_operation *operation; /* NULL: not posted, or ended */
    int joins;                 /* a collective */
};

struct transfer {
    struct access access;
    struct arena arena;
    struct placed where; /* in the file */
    struct conversion conversion;
    struct part *parts;
    size_t count;
    size_t ended; /* parts that have */
    uint64_t moved;
    int64_t looked; /* when it last looked at other processes, in milliseconds; 0: not yet */
    int code;
};

void transfer_measure(struct access *access)
{
    MPI_Count size;
    access->bytes = 0;
    if (access->code != MPI_SUCCESS)
        return;
    if (access->count < 0)
        access->code = error_make(MPI_ERR_COUNT, "a count of %lld elements is negative",
                                  (long long)access->count);
    else if (access->datatype == MPI_DATATYPE_NULL
             || PMPI_Type_size_x(access->datatype, &size) != MPI_SUCCESS)
        access->code = error_make(MPI_ERR_TYPE, "the datatype of the buffer is none");
    else if (size > 0 && access->count > INT64_MAX / size)
        access->code = error_make(MPI_ERR_COUNT, "%lld elements are more bytes than a file can have",
                                  (long long)access->count);
    else
        access->bytes = (uint64_t)(size * access->count);
    if (access->code == MPI_SUCCESS && access->view->etype_size > 0
        && access->bytes % access->view->etype_size != 0)
        access->code = error_make(MPI_ERR_IO, "%llu bytes are not a whole number of etypes of %llu "
                                  "bytes", (unsigned long long)access->bytes,
                                  (unsigned long long)access->view->etype_size);
    if (access->code == MPI_SUCCESS && access->bytes > 0 && access->view->tile->size == 0)
        access->code = error_make(MPI_ERR_ARG, "the filetype of the view has no bytes: nothing can "
                                  "be accessed by it");
    if (access->code != MPI_SUCCESS)
        access->bytes = 0;
}

static struct file *file_in(const struct transfer *transfer)
{
    return transfer->access.file;
}

int transfer_writes(const struct transfer *transfer)
{
    return (transfer->access.how & TRANSFER_WRITE) != 0;
}

struct file *transfer_file(const struct transfer *transfer)
{
    return file_in(transfer);
}

/* Whether this access is a collective of Weft: not if each process acts for itself. Atomic
 * operations are those of one process. */
static int is_collective(const struct transfer *transfer)
{
    struct file *file = file_in(transfer);
    return (transfer->access.how & TRANSFER_COLLECTIVE) && file->group != NULL && !file->atomic;
}

/* The memory of an access as a shape; `*buffer` is what it is relative to. */
static int shape_memory(struct transfer *transfer, struct placed *memory, char **buffer)
{
    const struct access *access = &transfer->access;
    struct type *type;
    if (transfer->conversion.packed != NULL) {
        *buffer = transfer->conversion.packed;
        *memory = shape_run(&transfer->arena, 0, access->bytes);
        return MPI_SUCCESS;
    }
    int status = type_decode(access->datatype, &type);
    if (status != MPI_SUCCESS)
        return error_make(MPI_ERR_TYPE, "the datatype of the buffer cannot be decoded");
    *buffer = access->buffer;
    *memory = shape_repeat(&transfer->arena, type->shape, type->extent, (uint64_t)access->count);
    transfer->conversion.type = type; /* its shape is used until the end */
    if (transfer_writes(transfer) || !shape_may_overlap(*memory))
        return MPI_SUCCESS;
    status = convert_by_buffer(&transfer->conversion, access, *memory);
    *buffer = transfer->conversion.packed;
    *memory = shape_run(&transfer->arena, 0, access->bytes);
    return status;
}

/* Makes the requests of an access. */
static int make_parts(struct transfer *transfer)
{
    const struct access *access = &transfer->access;
    struct arena *arena = &transfer->arena;
    struct placed memory = {0, NULL};
    char *buffer = NULL;
    size_t data = (size_t)((access->bytes + REQUEST_MAX - 1) / REQUEST_MAX);
    int status = MPI_SUCCESS;
    transfer->parts = arena_array(arena, data + 1, sizeof *transfer->parts);
    if (data > 0 && transfer->parts != NULL) {
        transfer->where = view_cut(arena, access->view, access->from, access->from + access->bytes);
        status = shape_memory(transfer, &memory, &buffer);
    }
    for (size_t i = 0; status == MPI_SUCCESS && !arena->failed && i < data; i++) {
        uint64_t from = i * REQUEST_MAX, to = from + REQUEST_MAX;
        if (to > access->bytes)
            to = access->bytes;
        int made = request_make(arena, shape_cut(arena, transfer->where, from, to),
                                shape_cut(arena, memory, from, to), buffer,
                                &transfer->parts[i].request);
        if (made < 0)
            status = error_weft(made, "cannot make a request for %s", file_in(transfer)->path);
        else
            transfer->count++;
    }
    /* MPI forbids overlapping tiles in a write, but a refusal at the wait would leave others waiting
     * for this process: the last element wins. */
    if (transfer_writes(transfer) && shape_may_overlap(transfer->where))
        for (size_t i = 0; i < transfer->count; i++)
            transfer->parts[i].request.request.flags = WEFT_LAST_WINS;
    if (arena->failed && status == MPI_SUCCESS)
        status = error_make(MPI_ERR_NO_MEM, "there is no memory for the requests of an access");
    return status;
}

/* Has the transfer take part in a collective: by its request, or an empty one. */
static void join(struct transfer *transfer)
{
    if (transfer->count == 1 && !transfer->parts[0].request.too_long_a_list) {
        transfer->parts[0].joins = 1;
        return;
    }
    request_make(&transfer->arena, (struct placed){0, NULL}, (struct placed){0, NULL}, NULL,
                 &transfer->parts[transfer->count].request);
    transfer->parts[transfer->count++].joins = 1;
}

static int begin(const struct access *access, struct transfer **made)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);
    if (transfer == NULL)
        return error_make(MPI_ERR_NO_MEM, "there is no memory for an access");
    transfer->access = *access;
    atomic_fetch_add(&access->view->uses, 1);
    transfer->code = access->code;
    if (transfer->code == MPI_SUCCESS && access->bytes > 0)
        transfer->code = convert_begin(&transfer->conversion, access, transfer_writes(transfer));
    if (transfer->code == MPI_SUCCESS)
        transfer->code = make_parts(transfer);
    else
        transfer->parts = arena_array(&transfer->arena, 1, sizeof *transfer->parts);
    if (transfer->code != MPI_SUCCESS) {
        for (size_t i = 0; i < transfer->count; i++)
            request_free(&transfer->parts[i].request);
        transfer->count = 0;
    }
    if (is_collective(transfer) && transfer->parts != NULL)
        join(transfer);
    *made = transfer;
    return MPI_SUCCESS;
}

static int failed(struct transfer *transfer, int64_t status)
{
    return error_weft(status, "cannot %s %s", transfer_writes(transfer) ? "write" : "read",
                      file_in(transfer)->path);
}

static int try_to_post(struct transfer *transfer, struct part *part)
{
    struct file *file = file_in(transfer);
    const struct request *r = &part->request;
    weft_operation **operation = &part->operation;
    if (part->joins && transfer_writes(transfer))
        return weft_post_collective_write(file->bytes, file->group, &r->request, r->base,
                                          r->length, operation);
    if (part->joins)
        return weft_post_collective_read(file->bytes, file->group, &r->request, r->base, r->length,
                                         operation);
    if (transfer_writes(transfer))
        return weft_post_write(file->bytes, &r->request, r->base, r->length, operation);
    return weft_post_read(file->bytes, &r->request, r->base, r->length, operation);
}

static void post(struct transfer *transfer, struct part *part)
{
    static const struct placed nothing = {0, NULL};
    int status = try_to_post(transfer, part);
    if (status == 0)
        return;
    if (transfer->code == MPI_SUCCESS)
        transfer->code = failed(transfer, status);
    if (!part->joins)
        return;
    /* The library has refused the request before it came to the collective, for which the others
     * wait: an empty one comes in its place. */
    request_free(&part->request);
    if (request_make(&transfer->arena, nothing, nothing, NULL, &part->request) == MPI_SUCCESS)
        try_to_post(transfer, part);
}

static void count(struct transfer *transfer, int64_t outcome)
{
    if (outcome >= 0)
        transfer->moved += (uint64_t)outcome;
    else if (transfer->code == MPI_SUCCESS)
        transfer->code = failed(transfer, outcome);
}

static void run(struct transfer *transfer, struct part *part)
{
    struct file *file = file_in(transfer);
    const struct request *r = &part->request;
    if (transfer_writes(transfer))
        count(transfer, weft_write_request(file->bytes, &r->request, r->base, r->length));
    else
        count(transfer, weft_read_request(file->bytes, &r->request, r->base, r->length));
}

/* Of a read that the file has fewer bytes for, those before the file's end count: bytes that were
 * never written are zeros, and count as any others. */
static void count_holes(struct transfer *transfer)
{
    if (transfer_writes(transfer) || transfer->code != MPI_SUCCESS
        || transfer->moved >= transfer->access.bytes)
        return;
    int64_t size = weft_view_size(file_in(transfer)->bytes);
    if (size < 0)
        transfer->code = failed(transfer, size);
    else
        transfer->moved = shape_below(transfer->where, size);
}

static int end(struct transfer *transfer, uint64_t *moved)
{
    count_holes(transfer);
    int status = convert_end(&transfer->conversion, &transfer->access, transfer_writes(transfer),
                             transfer->code == MPI_SUCCESS ? transfer->moved : 0);
    if (transfer->code == MPI_SUCCESS)
        transfer->code = status;
    status = transfer->code;
    *moved = status == MPI_SUCCESS ? transfer->moved : 0;
    for (size_t i = 0; i < transfer->count; i++)
        request_free(&transfer->parts[i].request);
    view_free(transfer->access.view);
    arena_free(&transfer->arena);
    free(transfer);
    return status;
}

int transfer_post(const struct access *access, struct transfer **transfer)
{
    int status = begin(access, transfer);
    if (status != MPI_SUCCESS)
        return status;
    for (size_t i = 0; i < (*transfer)->count; i++)
        post(*transfer, &(*transfer)->parts[i]);
    return MPI_SUCCESS;
}

int transfer_now(const struct access *access, uint64_t *moved)
{
    struct transfer *transfer;
    int status = begin(access, &transfer);
    *moved = 0;
    if (status != MPI_SUCCESS)
        return status;
    for (size_t i = 0; i < transfer->count; i++) {
        struct part *part = &transfer->parts[i];
        if (part->joins)
            post(transfer, part);
        else if (transfer->code == MPI_SUCCESS)
            run(transfer, part);
    }
    return transfer_wait(transfer, moved);
}

/* Takes what came of parts that have ended, in their order. */
static int collect(struct transfer *transfer)
{
    while (transfer->ended < transfer->count) {
        struct part *part = &transfer->parts[transfer->ended];
        if (part->operation != NULL) {
            if (weft_operation_test(part->operation) == 0)
                return 0;
            count(transfer, weft_operation_wait(part->operation));
            part->operation = NULL;
        }
        transfer->ended++;
    }
    return 1;
}

/* Gives up a collective that a process will never come to. */
static void look_at_peers(struct transfer *transfer)
{
    struct part *part = &transfer->parts[transfer->ended];
    int ended = part->joins ? peers_ended(&file_in(transfer)->peers) : -1;
    if (ended < 0)
        return;
    weft_operation_cancel(part->operation);
    part->operation = NULL;
    transfer->ended++;
    transfer->code = error_make(MPI_ERR_IO, "cannot %s %s: process %d of the communicator has "
                                "ended without this collective call; its bytes may be there in "
                                "part", transfer_writes(transfer) ? "write" : "read",
                                file_in(transfer)->path, ended);
}

static int64_t milliseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int transfer_test(struct transfer *transfer)
{
    if (collect(transfer))
        return 1;
    int64_t now = milliseconds_now();
    if (transfer->looked == 0)
        transfer->looked = now;
    if (now - transfer->looked < LOOK_AT_PEERS)
        return 0;
    transfer->looked = now;
    look_at_peers(transfer);
    return collect(transfer);
}

int transfer_pause(struct transfer *transfer, int milliseconds)
{
    size_t index;
    if (collect(transfer))
        return 1;
    weft_wait_any(&transfer->parts[transfer->ended].operation, 1, milliseconds, &index);
    return transfer_test(transfer);
}

int transfer_wait(struct transfer *transfer, uint64_t *moved)
{
    int wait = FIRST_WAIT, flag;
    while (!transfer_pause(transfer, wait)) {
        if (wait < LAST_WAIT)
            wait++;
        PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, file_in(transfer)->comm, &flag,
                    MPI_STATUS_IGNORE);
    }
    return end(transfer, moved);
}
