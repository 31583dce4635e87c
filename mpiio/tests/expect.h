/* What the tests share. A test that finds something wrong says where, and ends the job. */
#ifndef WEFT_MPIIO_EXPECT_H
#define WEFT_MPIIO_EXPECT_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the job unless a condition holds; the rest is printed as by printf(). */
#define EXPECT(condition, ...)                                                                    \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            int expect_rank;                                                                      \
            MPI_Comm_rank(MPI_COMM_WORLD, &expect_rank);                                          \
            fprintf(stderr, "%s:%d: process %d: %s: ", __FILE__, __LINE__, expect_rank,           \
                    #condition);                                                                  \
            fprintf(stderr, __VA_ARGS__);                                                         \
            fputc('\n', stderr);                                                                  \
            fflush(stderr);                                                                       \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                         \
        }                                                                                         \
    } while (0)

/* A call of MPI that must succeed. */
#define OK(call)                                                                                  \
    do {                                                                                          \
        int ok_code = (call);                                                                     \
        EXPECT(ok_code == MPI_SUCCESS, "%s", message_of(ok_code));                                \
    } while (0)

/* A call of MPI that must fail with an error of this class. */
#define FAILS(class, call)                                                                        \
    do {                                                                                          \
        int fails_code = (call);                                                                  \
        EXPECT(class_of(fails_code) == (class), "class %d, not %d: %s", class_of(fails_code),     \
               class, message_of(fails_code));                                                    \
    } while (0)

static inline const char *message_of(int code)
{
    static char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    return text;
}

static inline int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* Bytes that an MPI_Status says were moved. */
static inline MPI_Count bytes_of(const MPI_Status *status)
{
    MPI_Count bytes;
    MPI_Get_elements_x((MPI_Status *)status, MPI_BYTE, &bytes);
    return bytes;
}

/* A value of the MPI_Info of an open file; "" if there is none. */
static inline const char *info_of(MPI_File file, const char *key)
{
    static char value[MPI_MAX_INFO_VAL + 1];
    MPI_Info info;
    int found;
    OK(MPI_File_get_info(file, &info));
    MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
    MPI_Info_free(&info);
    if (!found)
        value[0] = '\0';
    return value;
}

#endif
