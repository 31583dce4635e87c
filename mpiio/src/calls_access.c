/*
 * The entry points of reads and writes. Each passes on what is not Weft's.
 *
 * They differ in where they begin, who takes part and when they return; so they are made by five
 * macros, one for each list of parameters. C is the type of counts: MPI-4 has each function twice.
 */
#include "access.h"
#include "export.h"

#define READ TRANSFER_READ
#define WRITE TRANSFER_WRITE
#define ALL TRANSFER_COLLECTIVE
#define OWN ACCESS_INDIVIDUAL
#define SHARED ACCESS_SHARED
#define ORDERED (ACCESS_ORDERED | TRANSFER_COLLECTIVE)

/* A blocking call at an offset. */
#define BLOCKING_AT(name, how, B, C)                                                              \
    INTERPOSE(name)                                                                               \
    int MPI_##name(MPI_File fh, MPI_Offset offset, B buffer, C count, MPI_Datatype type,          \
                   MPI_Status *status)                                                            \
    {                                                                                             \
        struct file *file = file_of(fh);                                                          \
        if (file == NULL)                                                                         \
            return NEXT(name)(fh, offset, buffer, count, type, status);                           \
        return access_now(file, how, &(struct buffer){offset, (void *)buffer, count, type},       \
                          status);                                                                \
    }

/* A blocking call at a pointer. */
#define BLOCKING(name, how, B, C)                                                                 \
    INTERPOSE(name)                                                                               \
    int MPI_##name(MPI_File fh, B buffer, C count, MPI_Datatype type, MPI_Status *status)         \
    {                                                                                             \
        struct file *file = file_of(fh);                                                          \
        if (file == NULL)                                                                         \
            return NEXT(name)(fh, buffer, count, type, status);                                   \
        return access_now(file, how, &(struct buffer){0, (void *)buffer, count, type}, status);   \
    }

/* A nonblocking call at an offset. */
#define NONBLOCKING_AT(name, how, B, C)                                                           \
    INTERPOSE(name)                                                                               \
    int MPI_##name(MPI_File fh, MPI_Offset offset, B buffer, C count, MPI_Datatype type,          \
                   MPI_Request *request)                                                          \
    {                                                                                             \
        struct file *file = file_of(fh);                                                          \
        if (file == NULL)                                                                         \
            return NEXT(name)(fh, offset, buffer, count, type, request);                          \
        return access_start(file, how, &(struct buffer){offset, (void *)buffer, count, type},     \
                            request);                                                             \
    }

/* A nonblocking call at a pointer. */
#define NONBLOCKING(name, how, B, C)                                                              \
    INTERPOSE(name)                                                                               \
    int MPI_##name(MPI_File fh, B buffer, C count, MPI_Datatype type, MPI_Request *request)       \
    {                                                                                             \
        struct file *file = file_of(fh);                                                          \
        if (file == NULL)                                                                         \
            return NEXT(name)(fh, buffer, count, type, request);                                  \
        return access_start(file, how, &(struct buffer){0, (void *)buffer, count, type},          \
                            request);                                                             \
    }

/* The first half of a split collective call at an offset, and at a pointer. */
#define BEGIN_AT(name, how, B, C)                                                                 \
    INTERPOSE(name)                                                                               \
    int MPI_##name(MPI_File fh, MPI_Offset offset, B buffer, C count, MPI_Datatype type)          \
    {                                                                                             \
        struct file *file = file_of(fh);                                                          \
        if (file == NULL)                                                                         \
            return NEXT(name)(fh, offset, buffer, count, type);                                   \
        return access_begin(file, how, &(struct buffer){offset, (void *)buffer, count, type});    \
    }

#define BEGIN(name, how, B, C)                                                                    \
    INTERPOSE(name)                                                                               \
    int MPI_##name(MPI_File fh, B buffer, C count, MPI_Datatype type)                             \
    {                                                                                             \
        struct file *file = file_of(fh);                                                          \
        if (file == NULL)                                                                         \
            return NEXT(name)(fh, buffer, count, type);                                           \
        return access_begin(file, how, &(struct buffer){0, (void *)buffer, count, type});         \
    }

/* The second half. */
#define END(name, is_write, B)                                                                    \
    INTERPOSE(name)                                                                               \
    int MPI_##name(MPI_File fh, B buffer, MPI_Status *status)                                     \
    {                                                                                             \
        struct file *file = file_of(fh);                                                          \
        if (file == NULL)                                                                         \
            return NEXT(name)(fh, buffer, status);                                                \
        return access_end(file, is_write, status);                                                \
    }

#define INTO void *
#define FROM const void *

/* All calls with one type of counts; `suffix` is what their names end in. */
#define CALLS(suffix, C)                                                                          \
    BLOCKING_AT(File_read_at##suffix, READ, INTO, C)                                              \
    BLOCKING_AT(File_read_at_all##suffix, READ | ALL, INTO, C)                                    \
    BLOCKING_AT(File_write_at##suffix, WRITE, FROM, C)                                            \
    BLOCKING_AT(File_write_at_all##suffix, WRITE | ALL, FROM, C)                                  \
    BLOCKING(File_read##suffix, READ | OWN, INTO, C)                                              \
    BLOCKING(File_read_all##suffix, READ | OWN | ALL, INTO, C)                                    \
    BLOCKING(File_write##suffix, WRITE | OWN, FROM, C)                                            \
    BLOCKING(File_write_all##suffix, WRITE | OWN | ALL, FROM, C)                                  \
    BLOCKING(File_read_shared##suffix, READ | SHARED, INTO, C)                                    \
    BLOCKING(File_write_shared##suffix, WRITE | SHARED, FROM, C)                                  \
    BLOCKING(File_read_ordered##suffix, READ | ORDERED, INTO, C)                                  \
    BLOCKING(File_write_ordered##suffix, WRITE | ORDERED, FROM, C)                                \
    NONBLOCKING_AT(File_iread_at##suffix, READ, INTO, C)                                          \
    NONBLOCKING_AT(File_iread_at_all##suffix, READ | ALL, INTO, C)                                \
    NONBLOCKING_AT(File_iwrite_at##suffix, WRITE, FROM, C)                                        \
    NONBLOCKING_AT(File_iwrite_at_all##suffix, WRITE | ALL, FROM, C)                              \
    NONBLOCKING(File_iread##suffix, READ | OWN, INTO, C)                                          \
    NONBLOCKING(File_iread_all##suffix, READ | OWN | ALL, INTO, C)                                \
    NONBLOCKING(File_iwrite##suffix, WRITE | OWN, FROM, C)                                        \
    NONBLOCKING(File_iwrite_all##suffix, WRITE | OWN | ALL, FROM, C)                              \
    NONBLOCKING(File_iread_shared##suffix, READ | SHARED, INTO, C)                                \
    NONBLOCKING(File_iwrite_shared##suffix, WRITE | SHARED, FROM, C)                              \
    BEGIN_AT(File_read_at_all_begin##suffix, READ | ALL, INTO, C)                                 \
    BEGIN_AT(File_write_at_all_begin##suffix, WRITE | ALL, FROM, C)                               \
    BEGIN(File_read_all_begin##suffix, READ | OWN | ALL, INTO, C)                                 \
    BEGIN(File_write_all_begin##suffix, WRITE | OWN | ALL, FROM, C)                               \
    BEGIN(File_read_ordered_begin##suffix, READ | ORDERED, INTO, C)                               \
    BEGIN(File_write_ordered_begin##suffix, WRITE | ORDERED, FROM, C)

CALLS(, int)
#if MPI_VERSION >= 4
CALLS(_c, MPI_Count)
#endif

END(File_read_at_all_end, 0, INTO)
END(File_write_at_all_end, 1, FROM)
END(File_read_all_end, 0, INTO)
END(File_write_all_end, 1, FROM)
END(File_read_ordered_end, 0, INTO)
END(File_write_ordered_end, 1, FROM)
