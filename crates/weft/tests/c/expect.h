/* Checks for the tests of libweft: the first that fails ends the program and says where. */
#ifndef EXPECT_H
#define EXPECT_H

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition,  \
                    weft_error_message());                                                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A call returns this number. */
#define RETURNS(number, call)                                                                      \
    do {                                                                                           \
        int64_t expected_ = (number), returned_ = (call);                                          \
        if (expected_ != returned_) {                                                              \
            fprintf(stderr, "%s:%d: %s returned %" PRId64 ", not %" PRId64 " (%s)\n", __FILE__,       \
                    __LINE__, #call, returned_, expected_, weft_error_message());                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A call fails with this errno, and its message holds a text. */
#define FAILS(error, text, call)                                                                   \
    do {                                                                                           \
        RETURNS(-(error), call);                                                                   \
        if (strstr(weft_error_message(), text) == NULL) {                                          \
            fprintf(stderr, "%s:%d: %s says: %s\n", __FILE__, __LINE__, #call,                        \
                    weft_error_message());                                                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static inline weft_volume *connect_volume(void)
{
    weft_volume *volume;
    RETURNS(0, weft_connect(NULL, &volume));
    return volume;
}

static inline weft_file *make_file(const weft_volume *volume, const char *path, uint32_t cells,
                                   uint64_t bsu)
{
    weft_layout layout = {.size = sizeof layout, .cells = cells, .bsu = bsu};
    weft_attach_options options = {.size = sizeof options, .mode = 0644, .layout = &layout};
    weft_file *file;
    options.flags = WEFT_READ | WEFT_WRITE | WEFT_CREATE | WEFT_EXCLUSIVE;
    RETURNS(0, weft_attach(volume, path, &options, &file));
    return file;
}

static inline weft_view *whole(const weft_file *file)
{
    weft_view *view;
    RETURNS(0, weft_view_file(file, NULL, &view));
    return view;
}

/* Bytes that tell where they belong. */
static inline void number_bytes(unsigned char *bytes, size_t length, unsigned from)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)((from + i) * 7 % 251);
}

#endif
