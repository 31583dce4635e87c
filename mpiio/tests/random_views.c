/*
 * Random accesses by random views, from random memory: bytes, counts and places must be those of a
 * model that shares nothing with the library. It has the file in memory, and asks MPI_Pack() which
 * bytes a datatype means.
 *
 *     random_views FILE CASES SEED
 */
#include "random_types.h"

enum { CALLS = 6, KINDS = 8, FILE_MAX = 1 << 22, ETYPES = 60, OFFSETS = 50,
       FARTHEST = ETYPES + OFFSETS };

static int rank, processes;
static int checked;
static MPI_File file;
static unsigned long long seed_of_case;

/* What one process moves. */
struct memory {
    MPI_Datatype type;
    int count;
    MPI_Aint lower, span; /* of all elements */
    char *bytes;
    MPI_Aint *places; /* of each byte of data, from the buffer on */
    int length;       /* bytes of data */
};

/* The file as it must be. */
static struct model {
    unsigned char *bytes;
    MPI_Offset size;
} model;

/* The tile of this process's view. */
static struct tile {
    MPI_Offset displacement;
    MPI_Aint extent;
    MPI_Aint *places;
    int length, etype;
} tile;

/* Where each byte of `count` elements lies: three buffers hold the digits of every place, and
 * MPI_Pack() picks those that count. */
static MPI_Aint *places_of(MPI_Datatype type, int count, int *length)
{
    MPI_Aint lower, extent, span;
    int size;
    MPI_Type_size(type, &size);
    MPI_Type_get_extent(type, &lower, &extent);
    MPI_Type_get_true_extent(type, &lower, &span);
    span += extent * (count > 0 ? count - 1 : 0);
    *length = size * count;
    MPI_Aint *places = calloc((size_t)*length + 1, sizeof *places);
    unsigned char *digits = malloc((size_t)span + 1), *picked = malloc((size_t)*length + 64);
    for (int shift = 0; shift < 24 && *length > 0; shift += 8) {
        int position = 0;
        for (MPI_Aint i = 0; i < span; i++)
            digits[i] = (unsigned char)(i >> shift);
        MPI_Pack(digits - lower, count, type, picked, *length + 64, &position, MPI_COMM_SELF);
        for (int i = 0; i < *length; i++)
            places[i] += (MPI_Aint)picked[i] << shift;
    }
    for (int i = 0; i < *length; i++)
        places[i] += lower;
    free(digits);
    free(picked);
    return places;
}

/* Where byte `number` of the view's data lies in the file. */
static MPI_Offset place_in_file(MPI_Offset number)
{
    return tile.displacement + number / tile.length * tile.extent
           + tile.places[number % tile.length];
}

/* All processes put what they write into the model. */
static void write_model(MPI_Offset offset, const struct memory *memory)
{
    unsigned char *written = calloc(1, FILE_MAX);
    MPI_Offset size = model.size;
    for (int i = 0; i < memory->length; i++) {
        MPI_Offset at = place_in_file(offset * tile.etype + i);
        EXPECT(at < FILE_MAX, "%lld is too far away for this test", (long long)at);
        written[at] = (unsigned char)memory->bytes[memory->places[i] - memory->lower];
        if (at >= size)
            size = at + 1;
    }
    MPI_Allreduce(MPI_IN_PLACE, &size, 1, MPI_OFFSET, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, written, (int)size, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    for (MPI_Offset i = 0; i < size; i++)
        if (written[i] != 0)
            model.bytes[i] = written[i];
    model.size = size;
    free(written);
}

/* How many bytes a read finds, and that they are those of the model. */
static int read_model(MPI_Offset offset, const struct memory *memory, const char *before)
{
    int found = 0;
    for (int i = 0; i < memory->length; i++) {
        MPI_Offset at = place_in_file(offset * tile.etype + i);
        unsigned char is = (unsigned char)memory->bytes[memory->places[i] - memory->lower];
        if (at >= model.size)
            continue;
        found++;
        EXPECT(is == model.bytes[at], "byte %d, from place %lld, is %d and not %d (seed %llu)", i,
               (long long)at, is, model.bytes[at], seed_of_case);
    }
    /* Memory between the bytes of the datatype is nobody's business. */
    char *touched = calloc(1, (size_t)memory->span + 1);
    for (int i = 0; i < memory->length; i++)
        touched[memory->places[i] - memory->lower] = 1;
    for (MPI_Aint i = 0; i < memory->span; i++)
        EXPECT(touched[i] || memory->bytes[i] == before[i], "byte %lld of memory was touched (seed "
               "%llu)", (long long)i, seed_of_case);
    free(touched);
    return found;
}

static struct memory make_memory(struct dice *dice, MPI_Datatype etype, int etypes)
{
    struct memory memory = {.count = 1};
    MPI_Aint extent, lower;
    int type_size, etype_size;
    MPI_Type_size(etype, &etype_size);
    memory.type = random_type(dice, etype, 0);
    MPI_Type_size(memory.type, &type_size);
    memory.count = etypes * etype_size / type_size;
    if (memory.count == 0) { /* the type is larger than what is wanted */
        MPI_Type_free(&memory.type);
        memory.type = own(etype);
        MPI_Type_commit(&memory.type);
        memory.count = etypes;
    }
    MPI_Type_get_extent(memory.type, &lower, &extent);
    MPI_Type_get_true_extent(memory.type, &memory.lower, &memory.span);
    memory.span += extent * (memory.count > 0 ? memory.count - 1 : 0);
    memory.bytes = calloc(1, (size_t)memory.span + 1);
    memory.places = places_of(memory.type, memory.count, &memory.length);
    return memory;
}

static void fill(struct memory *memory, struct dice *dice)
{
    for (MPI_Aint i = 0; i < memory->span; i++)
        memory->bytes[i] = (char)(1 + roll(dice, 255));
}

static void free_memory(struct memory *memory)
{
    free(memory->bytes);
    free(memory->places);
    MPI_Type_free(&memory->type);
}

/* One read or write of a kind. */
static void move(int kind, int writes, MPI_Offset offset, struct memory *memory,
                 MPI_Status *status)
{
    MPI_File f = file;
    MPI_Datatype t = memory->type;
    int n = memory->count;
    char *b = memory->bytes - memory->lower;
    MPI_Request request;
    switch (kind * 2 + writes) {
    case 0: OK(MPI_File_read_at(f, offset, b, n, t, status)); break;
    case 1: OK(MPI_File_write_at(f, offset, b, n, t, status)); break;
    case 2: OK(MPI_File_read_at_all(f, offset, b, n, t, status)); break;
    case 3: OK(MPI_File_write_at_all(f, offset, b, n, t, status)); break;
    case 4: OK(MPI_File_seek(f, offset, MPI_SEEK_SET)); OK(MPI_File_read(f, b, n, t, status)); break;
    case 5: OK(MPI_File_seek(f, offset, MPI_SEEK_SET)); OK(MPI_File_write(f, b, n, t, status)); break;
    case 6: OK(MPI_File_seek(f, offset, MPI_SEEK_SET)); OK(MPI_File_read_all(f, b, n, t, status)); break;
    case 7: OK(MPI_File_seek(f, offset, MPI_SEEK_SET)); OK(MPI_File_write_all(f, b, n, t, status)); break;
    case 8: OK(MPI_File_iread_at(f, offset, b, n, t, &request)); OK(MPI_Wait(&request, status)); break;
    case 9: OK(MPI_File_iwrite_at(f, offset, b, n, t, &request)); OK(MPI_Wait(&request, status)); break;
    case 10: OK(MPI_File_iread_at_all(f, offset, b, n, t, &request)); OK(MPI_Wait(&request, status)); break;
    case 11: OK(MPI_File_iwrite_at_all(f, offset, b, n, t, &request)); OK(MPI_Wait(&request, status)); break;
    case 12: OK(MPI_File_read_at_all_begin(f, offset, b, n, t)); OK(MPI_File_read_at_all_end(f, b, status)); break;
    case 13: OK(MPI_File_write_at_all_begin(f, offset, b, n, t)); OK(MPI_File_write_at_all_end(f, b, status)); break;
    case 14: OK(MPI_File_seek(f, offset, MPI_SEEK_SET)); OK(MPI_File_iread(f, b, n, t, &request)); OK(MPI_Wait(&request, status)); break;
    default: OK(MPI_File_seek(f, offset, MPI_SEEK_SET)); OK(MPI_File_iwrite(f, b, n, t, &request)); OK(MPI_Wait(&request, status)); break;
    }
}

/* One call of all processes. `common` rolls the same in all of them. */
static void check_call(struct dice *common, struct dice *mine, MPI_Datatype etype)
{
    int kind = roll(common, KINDS), writes = roll(common, 5) < 3;
    int etypes = roll(mine, 4) == 0 ? roll(mine, 2) : roll(mine, ETYPES);
    MPI_Offset offset = roll(mine, OFFSETS), place;
    MPI_Status status;
    struct memory memory = make_memory(mine, etype, etypes);
    fill(&memory, mine);
    char *before = malloc((size_t)memory.span + 1);
    memcpy(before, memory.bytes, (size_t)memory.span);
    int expected = memory.length;
    MPI_Barrier(MPI_COMM_WORLD);
    move(kind, writes, offset, &memory, &status);
    if (writes)
        write_model(offset, &memory);
    else
        expected = read_model(offset, &memory, before);
    EXPECT(bytes_of(&status) == expected, "call %d, %d elements at %lld: %lld bytes, not %d (seed "
           "%llu)", kind * 2 + writes, memory.count, (long long)offset,
           (long long)bytes_of(&status), expected, seed_of_case);
    OK(MPI_File_get_byte_offset(file, offset, &place));
    EXPECT(place == place_in_file(offset * tile.etype), "etype %lld is at %lld, not %lld (seed "
           "%llu)", (long long)offset, (long long)place,
           (long long)place_in_file(offset * tile.etype), seed_of_case);
    free(before);
    free_memory(&memory);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Where the end of the file is in this process's view. */
static void check_end(void)
{
    MPI_Offset end, bytes = 0;
    while (place_in_file(bytes) < model.size)
        bytes++;
    OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &end));
    EXPECT(end == (bytes + tile.etype - 1) / tile.etype, "the end is etype %lld, not %lld (seed "
           "%llu)", (long long)end, (long long)((bytes + tile.etype - 1) / tile.etype),
           seed_of_case);
}

/* All bytes of the file. */
static void check_file(void)
{
    MPI_Offset size;
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_get_size(file, &size));
    EXPECT(size == model.size, "%lld bytes, not %lld (seed %llu)", (long long)size,
           (long long)model.size, seed_of_case);
    unsigned char *bytes = malloc((size_t)size + 1);
    OK(MPI_File_read_at(file, 0, bytes, (int)size, MPI_BYTE, MPI_STATUS_IGNORE));
    for (MPI_Offset i = 0; i < size; i++)
        EXPECT(bytes[i] == model.bytes[i], "byte %lld of %lld is %d, not %d (seed %llu)",
               (long long)i, (long long)size, bytes[i], model.bytes[i], seed_of_case);
    free(bytes);
}

static void run_case(const char *name, unsigned long long seed)
{
    struct dice common = {seed}, mine = {seed * 1000003 + (unsigned)rank};
    for (int i = 0; i < 20; i++)
        roll(&mine, 2);
    MPI_Datatype etype = random_etype(&common), part, filetype;
    MPI_Aint lower, extent, widest;
    MPI_Info info;
    char cells[12], bsu[12];
    seed_of_case = seed;
    MPI_Type_commit(&etype);
    snprintf(cells, sizeof cells, "%d", 1 + roll(&common, 6));
    snprintf(bsu, sizeof bsu, "%d", 1 + roll(&common, 200));
    MPI_Info_create(&info);
    MPI_Info_set(info, "striping_factor", cells);
    MPI_Info_set(info, "striping_unit", bsu);
    OK(MPI_File_open(MPI_COMM_WORLD, name,
                     MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &file));
    MPI_Info_free(&info);
    /* The parts of the processes lie one behind the other, over and over. */
    part = random_type(&mine, etype, 1);
    MPI_Type_get_extent(part, &lower, &extent);
    MPI_Allreduce(&extent, &widest, 1, MPI_AINT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Type_create_resized(part, 0, widest * processes, &filetype);
    MPI_Type_commit(&filetype);
    tile.displacement = roll(&common, 100) + rank * widest;
    tile.extent = widest * processes;
    tile.places = places_of(filetype, 1, &tile.length);
    MPI_Type_size(etype, &tile.etype);
    memset(model.bytes, 0, FILE_MAX);
    model.size = 0;
    /* Views with bytes few and far between need more room than the model has. */
    MPI_Offset farthest = place_in_file((MPI_Offset)FARTHEST * tile.etype);
    MPI_Allreduce(MPI_IN_PLACE, &farthest, 1, MPI_OFFSET, MPI_MAX, MPI_COMM_WORLD);
    int calls = farthest < FILE_MAX ? CALLS : 0;
    checked += calls;
    OK(MPI_File_set_view(file, tile.displacement, etype, filetype, "native", MPI_INFO_NULL));
    for (int call = 0; call < calls; call++)
        check_call(&common, &mine, etype);
    if (calls > 0)
        check_end();
    check_file();
    OK(MPI_File_close(&file));
    free(tile.places);
    MPI_Type_free(&part);
    MPI_Type_free(&filetype);
    MPI_Type_free(&etype);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    int cases = atoi(argv[2]);
    unsigned long long seed = strtoull(argv[3], NULL, 10);
    if (rank == 0)
        MPI_File_delete(argv[1], MPI_INFO_NULL); /* what a run that failed has left */
    MPI_Barrier(MPI_COMM_WORLD);
    model.bytes = malloc(FILE_MAX);
    for (int i = 0; i < cases; i++)
        run_case(argv[1], seed + (unsigned)i);
    if (rank == 0)
        printf("%d calls in %d cases from seed %s\n", checked, cases, argv[3]);
    EXPECT(checked > cases, "hardly any view was near enough");
    free(model.bytes);
    MPI_Finalize();
    return 0;
}
