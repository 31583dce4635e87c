/*
 * Copies a file of a volume to another one with several reads and writes in flight, and one loop
 * around poll(2) that also could serve sockets.
 *
 *     async_copy /from /to
 *
 * (weft_copy() has the servers copy by themselves; this shows operations in the background.)
 * WEFT_VOLUME names the volume's folder.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

enum { BUFFERS = 4, LENGTH = 1 << 20 };

/* A buffer is idle, being filled, or being written. */
struct slot {
    weft_operation *operation;
    int writing;
    uint64_t offset;
    char *bytes;
    size_t length;
};

static void fail(const char *what)
{
    fprintf(stderr, "async_copy: cannot %s: %s\n", what, weft_error_message());
    exit(1);
}

static weft_view *open_view(weft_volume *volume, const char *path, uint32_t flags, weft_file **file)
{
    weft_attach_options options = {.size = sizeof options, .flags = flags, .mode = 0644};
    weft_view *view;
    if (weft_attach(volume, path, &options, file) < 0)
        fail(path);
    if (weft_view_file(*file, NULL, &view) < 0)
        fail("open a view");
    return view;
}

/* Posts what comes next for a slot. */
static void post(struct slot *slot, const weft_view *from, const weft_view *to)
{
    weft_request request = {.size = sizeof request, .offset = slot->offset};
    int posted = slot->writing
        ? weft_post_write(to, &request, slot->bytes, slot->length, &slot->operation)
        : weft_post_read(from, &request, slot->bytes, slot->length, &slot->operation);
    if (posted < 0)
        fail(slot->writing ? "write" : "read");
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: async_copy FROM TO\n");
        return 2;
    }
    weft_volume *volume;
    weft_file *source, *target;
    if (weft_connect(NULL, &volume) < 0)
        fail("connect");
    weft_view *from = open_view(volume, argv[1], WEFT_READ, &source);
    weft_view *to = open_view(volume, argv[2], WEFT_READ | WEFT_WRITE | WEFT_CREATE, &target);
    int64_t size = weft_file_size(source);
    if (size < 0 || weft_file_truncate(target, (uint64_t)size) < 0)
        fail("set the size");

    struct slot slots[BUFFERS] = {{0}};
    uint64_t next = 0;
    int busy = 0;
    for (int i = 0; i < BUFFERS; i++)
        if ((slots[i].bytes = malloc(LENGTH)) == NULL)
            return 1;
    do {
        struct pollfd descriptors[BUFFERS];
        for (int i = 0; i < BUFFERS; i++) {
            struct slot *slot = &slots[i];
            if (slot->operation == NULL && next < (uint64_t)size) {
                slot->writing = 0;
                slot->offset = next;
                slot->length = (uint64_t)size - next < LENGTH ? (size_t)((uint64_t)size - next) : LENGTH;
                next += slot->length;
                post(slot, from, to);
                busy++;
            }
            descriptors[i].fd = slot->operation ? weft_operation_descriptor(slot->operation) : -1;
            descriptors[i].events = POLLIN;
        }
        if (busy == 0)
            break;
        if (poll(descriptors, BUFFERS, -1) < 0)
            continue; /* a signal */
        for (int i = 0; i < BUFFERS; i++) {
            struct slot *slot = &slots[i];
            if (slot->operation == NULL || descriptors[i].revents == 0)
                continue;
            weft_operation *ended = slot->operation;
            slot->operation = NULL;
            if (weft_operation_wait(ended) < 0)
                fail(slot->writing ? "write" : "read");
            if (slot->writing) {
                busy--;
            } else {
                slot->writing = 1;
                post(slot, from, to);
            }
        }
    } while (busy > 0 || next < (uint64_t)size);

    for (int i = 0; i < BUFFERS; i++)
        free(slots[i].bytes);
    if (weft_file_sync(target) < 0)
        fail("sync");
    weft_view_close(from);
    weft_view_close(to);
    if (weft_file_close(source) < 0 || weft_file_close(target) < 0)
        fail("close");
    weft_disconnect(volume);
    return 0;
}
