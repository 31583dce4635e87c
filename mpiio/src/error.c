#include "error.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <weft.h>

#include "carrier.h"
#include "export.h"

enum { ERROR_CODES = 64 };

static struct {
    int class;
    int code;
    unsigned long used; /* when; 0: never */
    char text[MPI_MAX_ERROR_STRING];
} codes[ERROR_CODES];

static unsigned long uses;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Cuts a text to what fits into a message of MPI, between two characters. */
static void copy_text(char *text, const char *from)
{
    size_t length = strlen(from);
    if (length >= MPI_MAX_ERROR_STRING) {
        length = MPI_MAX_ERROR_STRING - 1;
        while (length > 0 && ((unsigned char)from[length] & 0xc0) == 0x80)
            length--;
    }
    memcpy(text, from, length);
    text[length] = '\0';
}

/* Returns the code of a class for a text; the class itself if MPI gives out no more codes. */
static int code_for(int class, const char *text)
{
    int slot = -1, oldest = -1, unused = -1;
    for (int i = 0; i < ERROR_CODES; i++) {
        if (codes[i].used == 0) {
            if (unused < 0)
                unused = i;
        } else if (codes[i].class == class) {
            if (strcmp(codes[i].text, text) == 0)
                slot = i;
            else if (oldest < 0 || codes[i].used < codes[oldest].used)
                oldest = i;
        }
    }
    if (slot < 0 && unused >= 0
        && PMPI_Add_error_code(class, &codes[unused].code) == MPI_SUCCESS)
        slot = unused;
    if (slot < 0)
        slot = oldest;
    if (slot < 0)
        return class;
    codes[slot].class = class;
    codes[slot].used = ++uses;
    strcpy(codes[slot].text, text);
#ifdef OPEN_MPI /* MPICH has texts only for codes of classes that programs add */
    PMPI_Add_error_string(codes[slot].code, codes[slot].text);
#endif
    return codes[slot].code;
}

static int make(int class, const char *text)
{
    char cut[MPI_MAX_ERROR_STRING];
    copy_text(cut, text);
    pthread_mutex_lock(&lock);
    int code = code_for(class, cut);
    pthread_mutex_unlock(&lock);
    return code;
}

int error_make(int class, const char *format, ...)
{
    char text[2 * MPI_MAX_ERROR_STRING];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return make(class, text);
}

static int class_of(int error)
{
    switch (error) {
    case ENOENT:
        return MPI_ERR_NO_SUCH_FILE;
    case EEXIST:
        return MPI_ERR_FILE_EXISTS;
    case EACCES:
    case EPERM:
        return MPI_ERR_ACCESS;
    case EROFS:
        return MPI_ERR_READ_ONLY;
    case ENOSPC:
        return MPI_ERR_NO_SPACE;
    case EDQUOT:
        return MPI_ERR_QUOTA;
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
        return MPI_ERR_BAD_FILE;
    case EBUSY:
    case ETXTBSY:
        return MPI_ERR_FILE_IN_USE;
    case EINVAL:
    case E2BIG:
        return MPI_ERR_ARG;
    case EOPNOTSUPP:
        return MPI_ERR_UNSUPPORTED_OPERATION;
    case ENOMEM:
        return MPI_ERR_NO_MEM;
    case EBADF:
        return MPI_ERR_FILE;
    default:
        return MPI_ERR_IO;
    }
}

int error_weft(int64_t status, const char *format, ...)
{
    char text[2 * MPI_MAX_ERROR_STRING];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof text)
        snprintf(text + length, sizeof text - (size_t)length, ": %s",
                 status == -ENOMEM ? "there is no memory left" : weft_error_message());
    return make(class_of((int)-status), text);
}

int error_find(int code, int *class, char *text)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < ERROR_CODES && !found; i++)
        if (codes[i].used != 0 && codes[i].code == code) {
            *class = codes[i].class;
            strcpy(text, codes[i].text);
            found = 1;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

int error_raise(MPI_File fh, int code)
{
    MPI_Errhandler handler;
    MPI_File carrier = fh;
    int class;
    char text[MPI_MAX_ERROR_STRING];
    if (PMPI_File_get_errhandler(fh, &handler) != MPI_SUCCESS || handler == MPI_ERRORS_RETURN)
        return code;
    /* A library that ends the program prints its own message, which knows nothing of ours. */
    if (handler == MPI_ERRORS_ARE_FATAL && error_find(code, &class, text))
        fprintf(stderr, "weft: %s\n", text);
    /* Open MPI calls no handler for MPI_FILE_NULL: a new file, which has it, stands in. */
    if (fh == MPI_FILE_NULL && carrier_open(&carrier) != MPI_SUCCESS)
        carrier = MPI_FILE_NULL;
    if (carrier != MPI_FILE_NULL)
        PMPI_File_call_errhandler(carrier, code);
    if (fh == MPI_FILE_NULL && carrier != MPI_FILE_NULL)
        carrier_close(&carrier);
    if (handler != MPI_ERRORS_ARE_FATAL)
        PMPI_Errhandler_free(&handler);
    return code;
}

INTERPOSE(Error_string)

/* The message of one of our codes; all others are the MPI library's. */
int MPI_Error_string(int code, char *string, int *length)
{
    int class;
    char text[MPI_MAX_ERROR_STRING];
    if (!error_find(code, &class, text))
        return NEXT(Error_string)(code, string, length);
    strcpy(string, text);
    *length = (int)strlen(text);
    return MPI_SUCCESS;
}
