/*
 * Modes, pointers, sizes, hints, errors and data representations; and what calls cost in requests.
 *
 *     calls FILE SERVERS
 */
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect.h"

static int rank, processes;
static const char *name;
static int servers;

static MPI_File open_new(int more, MPI_Info info)
{
    MPI_File file;
    if (rank == 0)
        MPI_File_delete(name, MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | more, info, &file));
    return file;
}

static void modes_are_checked(void)
{
    MPI_File file, other;
    char byte = 1;
    int mode, different = rank == 0 ? MPI_MODE_RDONLY : MPI_MODE_RDWR;
    MPI_Group group;
    MPI_Status status;
    FAILS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_RDWR,
                                       MPI_INFO_NULL, &file));
    FAILS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_CREATE,
                                       MPI_INFO_NULL, &file));
    FAILS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | 1 << 20,
                                       MPI_INFO_NULL, &file));
    file = open_new(0, MPI_INFO_NULL);
    OK(MPI_File_get_amode(file, &mode));
    EXPECT(mode == (MPI_MODE_CREATE | MPI_MODE_RDWR), "%d", mode);
    OK(MPI_File_get_group(file, &group));
    MPI_Group_size(group, &mode);
    EXPECT(mode == processes, "%d", mode);
    MPI_Group_free(&group);
    OK(MPI_File_close(&file));
    EXPECT(file == MPI_FILE_NULL, "the handle stays");
    FAILS(MPI_ERR_FILE_EXISTS, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_EXCL
                                             | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    if (processes > 1)
        FAILS(MPI_ERR_NOT_SAME, MPI_File_open(MPI_COMM_WORLD, name, different, MPI_INFO_NULL,
                                              &file));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    FAILS(MPI_ERR_READ_ONLY, MPI_File_write_at(file, 0, &byte, 1, MPI_BYTE, &status));
    FAILS(MPI_ERR_READ_ONLY, MPI_File_write_at_all(file, 0, &byte, 1, MPI_BYTE, &status));
    FAILS(MPI_ERR_READ_ONLY, MPI_File_set_size(file, 10));
    OK(MPI_File_close(&file));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    FAILS(MPI_ERR_ACCESS, MPI_File_read_at(file, 0, &byte, 1, MPI_BYTE, &status));
    /* Two files are open at once, and the handles are told apart. */
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &other));
    OK(MPI_File_close(&file));
    OK(MPI_File_read_at(other, 0, &byte, 1, MPI_BYTE, &status));
    EXPECT(bytes_of(&status) == 0, "an empty file has bytes");
    OK(MPI_File_close(&other));
    if (rank == 0)
        OK(MPI_File_delete(name, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL,
                                              &file));
    EXPECT(strstr(message_of(MPI_File_delete(name, MPI_INFO_NULL)), "cannot remove") != NULL,
           "%s", message_of(MPI_File_delete(name, MPI_INFO_NULL)));
}

static void appending_and_sequential_files_have_their_pointers(void)
{
    MPI_File file = open_new(0, MPI_INFO_NULL);
    MPI_Offset at;
    int value = rank;
    OK(MPI_File_set_size(file, 100));
    OK(MPI_File_close(&file));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_APPEND, MPI_INFO_NULL, &file));
    OK(MPI_File_get_position(file, &at));
    EXPECT(at == 100, "%lld", (long long)at);
    OK(MPI_File_get_position_shared(file, &at));
    EXPECT(at == 100, "%lld", (long long)at);
    OK(MPI_File_close(&file));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL,
                     &file));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_write_at(file, 0, &value, 1, MPI_INT,
                                                           MPI_STATUS_IGNORE));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_seek(file, 0, MPI_SEEK_SET));
    OK(MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native",
                         MPI_INFO_NULL));
    OK(MPI_File_get_byte_offset(file, 0, &at));
    EXPECT(at == 4 * processes, "%lld", (long long)at);
    OK(MPI_File_close(&file));
}

/* Each value is written and read once, and ordered ones are in the order of ranks. */
static void shared_pointers_deal_every_element_once(void)
{
    enum { EACH = 50 };
    MPI_File file = open_new(0, MPI_INFO_NULL);
    MPI_Offset at;
    MPI_Status status;
    int *seen = calloc((size_t)(processes * EACH), sizeof *seen), value, values[3];
    OK(MPI_File_set_view(file, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int i = 0; i < EACH; i++) {
        value = rank * EACH + i;
        if (i % 2) {
            OK(MPI_File_write_shared(file, &value, 1, MPI_INT, &status));
        } else {
            MPI_Request request;
            OK(MPI_File_iwrite_shared(file, &value, 1, MPI_INT, &request));
            OK(MPI_Wait(&request, &status));
        }
        EXPECT(bytes_of(&status) == 4, "%lld", (long long)bytes_of(&status));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_position_shared(file, &at));
    EXPECT(at == processes * EACH, "%lld", (long long)at);
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    for (int i = 0; i < EACH; i++) {
        OK(MPI_File_read_shared(file, &value, 1, MPI_INT, &status));
        EXPECT(value >= 0 && value < processes * EACH, "%d", value);
        seen[value]++;
    }
    MPI_Allreduce(MPI_IN_PLACE, seen, processes * EACH, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < processes * EACH; i++)
        EXPECT(seen[i] == 1, "%d was read %d times", i, seen[i]);
    OK(MPI_File_read_shared(file, &value, 1, MPI_INT, &status));
    EXPECT(bytes_of(&status) == 0, "the end has %lld bytes", (long long)bytes_of(&status));
    MPI_Barrier(MPI_COMM_WORLD);
    /* Process r writes r % 3 + 1 values, all of them r. */
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    values[0] = values[1] = values[2] = rank;
    OK(MPI_File_write_ordered(file, values, rank % 3 + 1, MPI_INT, &status));
    OK(MPI_File_write_ordered_begin(file, values, rank % 3 + 1, MPI_INT));
    OK(MPI_File_write_ordered_end(file, values, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Offset next = 0;
    for (int turn = 0; turn < 2; turn++)
        for (int r = 0; r < processes; r++)
            for (int i = 0; i < r % 3 + 1; i++, next++) {
                OK(MPI_File_read_at(file, next, &value, 1, MPI_INT, &status));
                EXPECT(value == r, "element %lld is %d, not %d", (long long)next, value, r);
            }
    OK(MPI_File_seek_shared(file, -next, MPI_SEEK_CUR));
    OK(MPI_File_read_ordered(file, values, rank % 3 + 1, MPI_INT, &status));
    EXPECT(values[0] == rank, "%d", values[0]);
    free(seen);
    OK(MPI_File_close(&file));
}

static void sizes_and_ends(void)
{
    MPI_File file = open_new(0, MPI_INFO_NULL);
    MPI_Offset size;
    MPI_Status status;
    char bytes[64];
    int flag;
    OK(MPI_File_set_size(file, 30));
    OK(MPI_File_preallocate(file, 20));
    OK(MPI_File_get_size(file, &size));
    EXPECT(size == 30, "%lld", (long long)size);
    OK(MPI_File_preallocate(file, 40));
    OK(MPI_File_get_size(file, &size));
    EXPECT(size == 40, "%lld", (long long)size);
    memset(bytes, 7, sizeof bytes);
    OK(MPI_File_read_at_all(file, 10, bytes, 64, MPI_BYTE, &status));
    EXPECT(bytes_of(&status) == 30, "%lld", (long long)bytes_of(&status));
    for (int i = 0; i < 30; i++)
        EXPECT(bytes[i] == 0, "byte %d of a hole is %d", i, bytes[i]);
    FAILS(MPI_ERR_ARG, MPI_File_set_size(file, -1));
    FAILS(MPI_ERR_ARG, MPI_File_seek(file, -1, MPI_SEEK_SET));
    FAILS(MPI_ERR_UNSUPPORTED_DATAREP, MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "vax",
                                                         MPI_INFO_NULL));
    /* A call that is wrong on one process fails there, and for no other. */
    int code = MPI_File_write_at_all(file, rank == 0 ? -5 : 0, bytes, rank == 1, MPI_BYTE, &status);
    EXPECT(class_of(code) == (rank == 0 ? MPI_ERR_ARG : MPI_SUCCESS), "%s", message_of(code));
    OK(MPI_File_set_atomicity(file, 1));
    OK(MPI_File_get_atomicity(file, &flag));
    EXPECT(flag == 1, "not atomic");
    OK(MPI_File_write_at_all(file, rank * 8, bytes, 8, MPI_BYTE, &status));
    if (processes > 1)
        FAILS(MPI_ERR_NOT_SAME, MPI_File_set_atomicity(file, rank == 0));
    OK(MPI_File_get_atomicity(file, &flag));
    EXPECT(flag == 1, "a refused call changed the atomicity");
    OK(MPI_File_set_atomicity(file, 0));
    OK(MPI_File_write_at_all_begin(file, rank * 8, bytes, 8, MPI_BYTE));
    OK(MPI_File_write_at_all_end(file, bytes, &status));
    OK(MPI_File_read_at_all_begin(file, rank * 8, bytes, 8, MPI_BYTE));
    FAILS(MPI_ERR_IO, MPI_File_write_at_all_end(file, bytes, &status));
    OK(MPI_File_read_at_all_end(file, bytes, &status));
    OK(MPI_File_sync(file));
    OK(MPI_File_close(&file));
}

static int handled;

static void handler(MPI_File *file, int *code, ...)
{
    (void)file;
    handled = class_of(*code);
}

static void error_handlers_are_called(void)
{
    MPI_File file = open_new(0, MPI_INFO_NULL), none;
    MPI_Errhandler mine, now;
    char byte = 0;
    OK(MPI_File_get_errhandler(file, &now));
    EXPECT(now == MPI_ERRORS_RETURN, "files begin with another handler");
    OK(MPI_File_create_errhandler(handler, &mine));
    OK(MPI_File_set_errhandler(file, mine));
    MPI_File_read_at(file, -1, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE);
    EXPECT(handled == MPI_ERR_ARG, "the handler saw %d", handled);
    handled = 0;
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, mine));
    MPI_File_open(MPI_COMM_WORLD, "weft:/no/such/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &none);
    EXPECT(handled == MPI_ERR_NO_SUCH_FILE, "the handler saw %d", handled);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    MPI_Errhandler_free(&mine);
    OK(MPI_File_close(&file));
}

static void hints_choose_the_layout(void)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "striping_factor", "3");
    MPI_Info_set(info, "striping_unit", "8K");
    MPI_Info_set(info, "cb_nodes", "2");
    MPI_File file = open_new(0, info);
    EXPECT(strcmp(info_of(file, "striping_factor"), "3") == 0, "%s",
           info_of(file, "striping_factor"));
    EXPECT(strcmp(info_of(file, "striping_unit"), "8192") == 0, "%s",
           info_of(file, "striping_unit"));
    EXPECT(strcmp(info_of(file, "weft_ignored"), "cb_nodes") == 0, "%s",
           info_of(file, "weft_ignored"));
    OK(MPI_File_close(&file));
    MPI_Info_set(info, "striping_unit", "wide");
    FAILS(MPI_ERR_INFO_VALUE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, info, &file));
    MPI_Info_set(info, "striping_unit", "99999999999999999999999");
    FAILS(MPI_ERR_INFO_VALUE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, info, &file));
    MPI_Info_set(info, "striping_unit", "4096");
    MPI_Info_set(info, "weft_servers", "4294967297");
    FAILS(MPI_ERR_INFO_VALUE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, info, &file));
    MPI_Info_set(info, "weft_servers", "1,0");
    file = open_new(0, info);
    OK(MPI_File_close(&file));
    MPI_Info_free(&info);
}

/* Pieces at absolute addresses, with pages between them that the program does not have. */
static void memory_between_pieces_is_not_touched(void)
{
    enum { COUNT = 10, BYTES = 2 * COUNT * sizeof(int) };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const char *policies[] = {"", "session", "nfs", "atomic"};
    for (size_t gap = page; gap <= 256 * page; gap *= 256)
        for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
            int is_atomic = strcmp(policies[i], "atomic") == 0, lengths[2] = {COUNT, COUNT};
            char *memory = mmap(NULL, 2 * page + gap, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            EXPECT(memory != MAP_FAILED, "mmap");
            EXPECT(mprotect(memory + page, gap, PROT_NONE) == 0, "mprotect");
            int *pieces[2] = {(int *)(memory + page) - COUNT, (int *)(memory + page + gap)};
            int back[2 * COUNT];
            MPI_Aint places[2];
            MPI_Datatype both;
            MPI_Info info;
            MPI_Request request;
            MPI_Info_create(&info);
            if (policies[i][0] != '\0' && !is_atomic)
                MPI_Info_set(info, "weft_policy", policies[i]);
            MPI_File file = open_new(0, info);
            MPI_Info_free(&info);
            OK(MPI_File_set_atomicity(file, is_atomic));
            for (int j = 0; j < 2; j++) {
                MPI_Get_address(pieces[j], &places[j]);
                for (int k = 0; k < COUNT; k++)
                    pieces[j][k] = 1000 * rank + j * COUNT + k;
            }
            MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &both);
            MPI_Type_commit(&both);
            OK(MPI_File_write_at(file, BYTES * rank, MPI_BOTTOM, 1, both, MPI_STATUS_IGNORE));
            OK(MPI_File_write_at_all(file, BYTES * (processes + rank), MPI_BOTTOM, 1, both,
                                     MPI_STATUS_IGNORE));
            OK(MPI_File_iwrite_at(file, BYTES * (2 * processes + rank), MPI_BOTTOM, 1, both,
                                  &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            for (int j = 0; j < 3; j++) {
                OK(MPI_File_read_at(file, BYTES * (j * processes + rank), back, 2 * COUNT, MPI_INT,
                                    MPI_STATUS_IGNORE));
                for (int k = 0; k < 2 * COUNT; k++)
                    EXPECT(back[k] == 1000 * rank + k, "%s: element %d of write %d is %d",
                           policies[i], k, j, back[k]);
            }
            MPI_Type_free(&both);
            OK(MPI_File_close(&file));
            munmap(memory, 2 * page + gap);
        }
}

/* What has no group of processes is the MPI library's to refuse. */
static void intercommunicators_are_refused(void)
{
    MPI_Comm half, both;
    MPI_File file;
    if (processes < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &both);
    int code = MPI_File_open(both, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    EXPECT(code != MPI_SUCCESS, "a file of an intercommunicator");
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
}

static void external32_is_big_endian(void)
{
    MPI_File file = open_new(0, MPI_INFO_NULL);
    int values[2] = {0x01020304, 0x05060708}, back[2] = {0, 0};
    unsigned char bytes[8];
    OK(MPI_File_set_view(file, 8 * rank, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, values, 2, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all(file, 0, back, 2, MPI_INT, MPI_STATUS_IGNORE));
    EXPECT(back[0] == values[0] && back[1] == values[1], "%x %x", back[0], back[1]);
    OK(MPI_File_set_view(file, 8 * rank, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 0, bytes, 8, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < 8; i++)
        EXPECT(bytes[i] == i + 1, "byte %d is %d", i, bytes[i]);
    FAILS(MPI_ERR_UNSUPPORTED_DATAREP, MPI_File_set_view(file, 0, MPI_LONG, MPI_LONG, "external32",
                                                         MPI_INFO_NULL));
    MPI_Datatype text;
    MPI_Type_contiguous(3, MPI_WCHAR, &text);
    MPI_Type_commit(&text);
    FAILS(MPI_ERR_UNSUPPORTED_DATAREP, MPI_File_set_view(file, 0, text, text, "external32",
                                                         MPI_INFO_NULL));
    MPI_Type_free(&text);
    OK(MPI_File_close(&file));
}

/* Nonblocking collectives are local: all are posted before any is waited for, and processes wait
 * for each other in between. */
static void posted_collectives_wait_for_nobody(void)
{
    enum { POSTED = 4 };
    MPI_File file = open_new(0, MPI_INFO_NULL);
    MPI_Request requests[POSTED];
    MPI_Status statuses[POSTED];
    int values[POSTED], back = -1;
    for (int i = 0; i < POSTED; i++) {
        values[i] = 100 * i + rank;
        OK(MPI_File_iwrite_at_all(file, 4 * (i * processes + rank), &values[i], 1, MPI_INT,
                                  &requests[i]));
        /* One after the other: a call that waited would never return. */
        int token = 0;
        if (rank > 0)
            MPI_Recv(&token, 1, MPI_INT, rank - 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank + 1 < processes)
            MPI_Send(&token, 1, MPI_INT, rank + 1, i, MPI_COMM_WORLD);
    }
    OK(MPI_Waitall(POSTED, requests, statuses));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < POSTED; i++)
        for (int r = 0; r < processes; r++) {
            OK(MPI_File_read_at(file, 4 * (i * processes + r), &back, 1, MPI_INT,
                                MPI_STATUS_IGNORE));
            EXPECT(back == 100 * i + r, "%d of %d is %d", i, r, back);
        }
    OK(MPI_File_close(&file));
}

static long requests_of(MPI_File file)
{
    return atol(info_of(file, "weft_requests"));
}

/* One request to each server, for 1,000 records of each process, alone and together. */
static void a_call_costs_one_request_for_each_server(void)
{
    enum { RECORDS = 1000, RECORD = 64 };
    MPI_Info info;
    MPI_Datatype records, memory;
    MPI_Info_create(&info);
    MPI_Info_set(info, "striping_unit", "4096");
    MPI_File file = open_new(0, info);
    char *bytes = calloc(RECORDS, 2 * RECORD);
    MPI_Type_vector(RECORDS, RECORD, RECORD * processes, MPI_BYTE, &records);
    MPI_Type_vector(RECORDS, RECORD, 2 * RECORD, MPI_BYTE, &memory);
    MPI_Type_commit(&records);
    MPI_Type_commit(&memory);
    OK(MPI_File_set_view(file, rank * RECORD, MPI_BYTE, records, "native", MPI_INFO_NULL));
    for (int call = 0; call < 4; call++) {
        MPI_Status status;
        long own = requests_of(file);
        own = requests_of(file) - own; /* what asking costs */
        long before = requests_of(file);
        switch (call) {
        case 0: OK(MPI_File_write_at_all(file, 0, bytes, 1, memory, &status)); break;
        case 1: OK(MPI_File_read_at_all(file, 0, bytes, 1, memory, &status)); break;
        case 2: OK(MPI_File_write_at(file, 0, bytes, 1, memory, &status)); break;
        default: OK(MPI_File_read_at(file, 0, bytes, 1, memory, &status)); break;
        }
        long sent = requests_of(file) - before - own;
        EXPECT(bytes_of(&status) == RECORDS * RECORD, "%lld", (long long)bytes_of(&status));
        EXPECT(sent == servers, "call %d sent %ld requests to %d servers", call, sent, servers);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Type_free(&records);
    MPI_Type_free(&memory);
    MPI_Info_free(&info);
    free(bytes);
    OK(MPI_File_close(&file));
}

#if MPI_VERSION >= 4
static void large_counts_work(void)
{
    MPI_File file = open_new(0, MPI_INFO_NULL);
    MPI_Datatype type;
    MPI_Status status;
    MPI_Count extent;
    char bytes[12] = "abcdefghijk", back[12] = "";
    MPI_Type_vector_c(3, 2, 4, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    OK(MPI_File_set_view(file, 100 * rank, MPI_BYTE, type, "native", MPI_INFO_NULL));
    OK(MPI_File_write_at_all_c(file, 0, bytes, 12, MPI_BYTE, &status));
    OK(MPI_File_read_at_all_c(file, 0, back, 12, MPI_BYTE, &status));
    EXPECT(memcmp(bytes, back, 12) == 0 && bytes_of(&status) == 12, "%s", back);
    OK(MPI_File_get_type_extent_c(file, MPI_INT, &extent));
    EXPECT(extent == 4, "%lld", (long long)extent);
    MPI_Type_free(&type);
    OK(MPI_File_close(&file));
}
#endif

/* Offsets that overflow when they become bytes are refused, and no byte at the beginning changes. */
static void offsets_that_overflow_are_refused(void)
{
    MPI_File file = open_new(MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL);
    MPI_Offset far = (MPI_Offset)1 << 61, at;
    MPI_Datatype sparse;
    double one = 1.5, other = -7, found;
    if (rank == 0)
        OK(MPI_File_write_at(file, 0, &one, 1, MPI_DOUBLE, MPI_STATUS_IGNORE));
    OK(MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL));
    FAILS(MPI_ERR_ARG, MPI_File_write_at(file, far, &other, 1, MPI_DOUBLE, MPI_STATUS_IGNORE));
    OK(MPI_File_seek(file, far, MPI_SEEK_SET));
    FAILS(MPI_ERR_ARG, MPI_File_write(file, &other, 1, MPI_DOUBLE, MPI_STATUS_IGNORE));
    FAILS(MPI_ERR_ARG, MPI_File_seek(file, INT64_MAX, MPI_SEEK_CUR));
    FAILS(MPI_ERR_ARG, MPI_File_get_byte_offset(file, far, &at));
    FAILS(MPI_ERR_ARG, MPI_File_seek_shared(file, far, MPI_SEEK_SET));
    MPI_Type_create_resized(MPI_BYTE, 0, (MPI_Aint)1 << 40, &sparse);
    MPI_Type_commit(&sparse);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, sparse, "native", MPI_INFO_NULL));
    FAILS(MPI_ERR_ARG, MPI_File_write_at(file, 1 << 24, "X", 1, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_read_at(file, 0, &found, 8, MPI_BYTE, MPI_STATUS_IGNORE));
    EXPECT(found == one, "%g", found);
    MPI_Type_free(&sparse);
    OK(MPI_File_close(&file));
}

/* A process whose request the library refuses gets an error; the others' collective is done. */
static void a_refused_request_holds_up_nobody(void)
{
    MPI_File file = open_new(MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL);
    char sent[64], got[64];
    memset(sent, rank + 1, sizeof sent);
    double began = MPI_Wtime();
    if (rank == 0)
        FAILS(MPI_ERR_ARG, MPI_File_write_at_all(file, 0, NULL, 64, MPI_BYTE, MPI_STATUS_IGNORE));
    else
        OK(MPI_File_write_at_all(file, 64 * rank, sent, 64, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all(file, 64 * rank, got, 64, MPI_BYTE, MPI_STATUS_IGNORE));
    EXPECT(rank == 0 || memcmp(sent, got, 64) == 0, "the bytes of the others");
    /* Tiles that overlap: forbidden in a write, and no reason to keep others waiting. */
    MPI_Datatype eight, tile = MPI_BYTE;
    MPI_Type_contiguous(8, MPI_BYTE, &eight);
    if (rank == 0) {
        MPI_Type_create_resized(eight, 0, 4, &tile);
        MPI_Type_commit(&tile);
    }
    OK(MPI_File_set_view(file, 0, MPI_BYTE, tile, "native", MPI_INFO_NULL));
    MPI_File_write_at_all(file, 64 * rank, sent, 64, MPI_BYTE, MPI_STATUS_IGNORE);
    EXPECT(MPI_Wtime() - began < 10, "somebody was waited for");
    if (rank == 0)
        MPI_Type_free(&tile);
    MPI_Type_free(&eight);
    OK(MPI_File_close(&file));
}

/* A mount may remember that a name is absent, or an older file of that name. */
static void mounts_show_what_was_created(void)
{
    struct stat attributes;
    ino_t before = 0;
    for (int i = 0; name[0] == '/' && i < 20; i++) {
        MPI_File file = open_new(0, MPI_INFO_NULL);
        EXPECT(stat(name, &attributes) == 0, "round %d: the mount shows no new file", i);
        EXPECT(attributes.st_ino != before, "round %d: the mount shows the old file", i);
        before = attributes.st_ino;
        OK(MPI_File_close(&file));
        if (rank == 0 && i % 2 == 0) {
            OK(MPI_File_delete(name, MPI_INFO_NULL));
            EXPECT(stat(name, &attributes) < 0, "round %d: the mount shows a removed file", i);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    name = argv[1];
    servers = atoi(argv[2]);
    modes_are_checked();
    mounts_show_what_was_created();
    appending_and_sequential_files_have_their_pointers();
    shared_pointers_deal_every_element_once();
    sizes_and_ends();
    error_handlers_are_called();
    hints_choose_the_layout();
    memory_between_pieces_is_not_touched();
    intercommunicators_are_refused();
    external32_is_big_endian();
    posted_collectives_wait_for_nobody();
    a_call_costs_one_request_for_each_server();
    offsets_that_overflow_are_refused();
    a_refused_request_holds_up_nobody();
#if MPI_VERSION >= 4
    large_counts_work();
#endif
    MPI_File file = open_new(MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL);
    OK(MPI_File_close(&file));
    FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_delete(name, MPI_INFO_NULL));
    if (rank == 0)
        printf("all calls\n");
    MPI_Finalize();
    return 0;
}
