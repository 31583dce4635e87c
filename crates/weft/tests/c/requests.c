/* Views and requests: what each call moves, compared byte by byte. */
#include "expect.h"

enum { CELLS = 4, BSU = 8, LENGTH = 4096 };

static unsigned char content[LENGTH];

static void views(const weft_file *file)
{
    unsigned char got[LENGTH], want[LENGTH];
    weft_view *view;

    /* Cell 2: every fourth BSU from the third on. */
    RETURNS(0, weft_view_cell(file, 2, NULL, &view));
    RETURNS(LENGTH / CELLS, weft_view_size(view));
    RETURNS(LENGTH / CELLS, weft_read_at(view, got, LENGTH / CELLS, 0));
    for (int i = 0; i < LENGTH / CELLS; i++)
        want[i] = content[i / BSU * CELLS * BSU + 2 * BSU + i % BSU];
    EXPECT(memcmp(got, want, LENGTH / CELLS) == 0);
    weft_view_close(view);

    /* 10 bytes of every 25 from byte 3 on. */
    RETURNS(0, weft_view_partition(file, 3, 10, 25, NULL, &view));
    RETURNS(100, weft_read_at(view, got, 100, 0));
    for (int i = 0; i < 100; i++)
        want[i] = content[3 + i / 10 * 25 + i % 10];
    EXPECT(memcmp(got, want, 100) == 0);
    weft_view_close(view);

    /* The second of two subfiles side by side, each two cells wide: columns first in a block. */
    RETURNS(0, weft_view_subfile(file, 1, 1, 2, 2, 1, WEFT_ORDER_DEFAULT, NULL, &view));
    RETURNS(4 * BSU, weft_read_at(view, got, 4 * BSU, 0));
    for (int i = 0; i < 4 * BSU; i++)
        want[i] = content[i / (2 * BSU) * CELLS * BSU + 2 * BSU + i % (2 * BSU)];
    EXPECT(memcmp(got, want, 4 * BSU) == 0);
    weft_view_close(view);

    RETURNS(0, weft_view_parse(file, "cell=2", &view));
    RETURNS(BSU, weft_read_at(view, got, BSU, 0));
    EXPECT(memcmp(got, content + 2 * BSU, BSU) == 0);
    weft_view_close(view);

    FAILS(EINVAL, "no cell 4", weft_view_cell(file, 4, NULL, &view));
    FAILS(EINVAL, "overlaps", weft_view_partition(file, 0, 10, 5, NULL, &view));
    FAILS(EINVAL, "no order", weft_view_subfile(file, 1, 1, 1, 1, 0, 9, NULL, &view));
    FAILS(EINVAL, "is no view", weft_view_parse(file, "cells", &view));
}

/* Reads a request and compares it with runs of the content. */
static void reads(const weft_view *view, const weft_request *request, const weft_run *runs, size_t count)
{
    unsigned char got[LENGTH];
    size_t length = 0;
    for (size_t i = 0; i < count; i++)
        length += runs[i].length;
    RETURNS((int64_t)length, weft_read_request(view, request, got, sizeof got));
    for (size_t i = 0, at = 0; i < count; at += runs[i++].length)
        EXPECT(memcmp(got + at, content + runs[i].displacement, runs[i].length) == 0);
}

static void patterns(const weft_view *view)
{
    weft_pattern *bytes, *strided, *nested, *backwards, *sequence, *list;
    RETURNS(0, weft_pattern_bytes(3, &bytes));
    RETURNS(0, weft_pattern_repeat(bytes, 100, 4, &strided));
    RETURNS(0, weft_pattern_repeat(strided, 1000, 2, &nested));
    RETURNS(0, weft_pattern_repeat(bytes, -10, 3, &backwards));
    const int64_t displacements[] = {0, 50};
    const weft_pattern *members[] = {bytes, strided};
    RETURNS(0, weft_pattern_sequence(2, displacements, members, &sequence));
    const weft_run runs[] = {{500, 7}, {20, 1}, {400, 90}};
    RETURNS(0, weft_pattern_list(3, runs, &list));
    RETURNS(24, weft_pattern_length(nested));

    weft_request request = {.size = sizeof request, .offset = 5, .pattern = strided};
    reads(view, &request, (weft_run[]){{5, 3}, {105, 3}, {205, 3}, {305, 3}}, 4);
    request.pattern = nested;
    reads(view, &request,
          (weft_run[]){{5, 3}, {105, 3}, {205, 3}, {305, 3}, {1005, 3}, {1105, 3}, {1205, 3}, {1305, 3}}, 8);
    request.pattern = backwards;
    request.offset = 40;
    reads(view, &request, (weft_run[]){{40, 3}, {30, 3}, {20, 3}}, 3);
    request.pattern = sequence;
    request.offset = 1;
    reads(view, &request, (weft_run[]){{1, 3}, {51, 3}, {151, 3}, {251, 3}, {351, 3}}, 5);
    request.pattern = list;
    request.offset = 0;
    reads(view, &request, runs, 3);

    /* Memory has a pattern of its own, and what lies between its bytes stays. */
    unsigned char got[100];
    weft_pattern *apart;
    memset(got, 0xee, sizeof got);
    RETURNS(0, weft_pattern_repeat(bytes, 20, 4, &apart));
    request.pattern = strided;
    request.memory = apart;
    request.memory_offset = 2;
    RETURNS(12, weft_read_request(view, &request, got, sizeof got));
    for (int i = 0; i < 100; i++) {
        int in = i >= 2 && (i - 2) % 20 < 3 && (i - 2) / 20 < 4;
        EXPECT(got[i] == (in ? content[(i - 2) / 20 * 100 + (i - 2) % 20] : 0xee));
    }
    FAILS(EINVAL, "the buffer has 10 bytes", weft_read_request(view, &request, got, 10));
    weft_pattern_free(apart);

    uint64_t offset;
    const weft_slab slabs[] = {{1, 2, 3, 1}, {4, 1, 1, 5}};
    RETURNS(0, weft_pattern_array("u8 8x64", 2, slabs, &offset, &apart));
    EXPECT(offset == 64 + 4);
    request = (weft_request){.size = sizeof request, .offset = offset, .pattern = apart};
    reads(view, &request, (weft_run[]){{68, 5}, {196, 5}, {324, 5}}, 3);
    weft_pattern_free(apart);
    FAILS(EINVAL, "array", weft_pattern_array("q9 8x64", 2, slabs, &offset, &apart));

    FAILS(EINVAL, "the pattern is NULL", weft_pattern_repeat(NULL, 1, 1, &apart));
    weft_pattern *all[] = {bytes, strided, nested, backwards, sequence, list, NULL};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        weft_pattern_free(all[i]);
}

static void writes(const weft_file *file, const weft_view *view)
{
    unsigned char data[64], got[LENGTH];
    number_bytes(data, sizeof data, 1000);
    RETURNS(64, weft_write_at(view, data, 64, 128, WEFT_SYNCED));
    memcpy(content + 128, data, 64);

    /* The same byte twice is refused, unless the last one shall stay. */
    weft_pattern *list;
    RETURNS(0, weft_pattern_list(2, (weft_run[]){{0, 8}, {4, 8}}, &list));
    weft_request request = {.size = sizeof request, .offset = 600, .pattern = list};
    FAILS(EINVAL, "more than once", weft_write_request(view, &request, data, 16));
    request.flags = WEFT_LAST_WINS;
    RETURNS(16, weft_write_request(view, &request, data, 16));
    memcpy(content + 600, data, 4);
    memcpy(content + 604, data + 8, 8);
    weft_pattern_free(list);

    /* Runs with memory of their own. */
    weft_io_run runs[] = {{.offset = 900, .buffer = data + 40, .length = 5},
                          {.offset = 700, .buffer = data, .length = 20}};
    RETURNS(25, weft_write_list(view, runs, 2, 0));
    memcpy(content + 900, data + 40, 5);
    memcpy(content + 700, data, 20);
    unsigned char one[5], other[20];
    runs[0].buffer = one;
    runs[1].buffer = other;
    RETURNS(25, weft_read_list(view, runs, 2));
    EXPECT(memcmp(one, data + 40, 5) == 0 && memcmp(other, data, 20) == 0);

    /* The pointer of the view. */
    RETURNS(0, weft_seek(view, 1500));
    RETURNS(10, weft_write(view, data, 10));
    RETURNS(10, weft_write(view, data + 10, 10));
    RETURNS(1520, weft_position(view));
    memcpy(content + 1500, data, 20);
    RETURNS(0, weft_seek(view, 1490));
    RETURNS(30, weft_read(view, got, 30));
    EXPECT(memcmp(got, content + 1490, 30) == 0);

    /* A hole reads as zeros. */
    RETURNS(0, weft_clear(view, 2000, 100));
    memset(content + 2000, 0, 100);
    RETURNS(0, weft_file_sync(file));
    RETURNS(LENGTH, weft_read_at(view, got, LENGTH, 0));
    EXPECT(memcmp(got, content, LENGTH) == 0);
    EXPECT(weft_prefetch(view, 0, LENGTH) >= 0);
    RETURNS(0, weft_release(view, 0, LENGTH));
}

/* What a file does not have is zeros in memory, not what was there before. */
static void absent(const weft_volume *volume)
{
    unsigned char got[200], zeros[200] = {0};
    weft_file *file = make_file(volume, "/absent", 3, 10);
    weft_view *view = whole(file), *ghosts;
    RETURNS(5, weft_write_at(view, "12345", 5, 52, 0));
    memset(got, 0xee, sizeof got);
    int64_t had = weft_read_at(view, got, sizeof got, 0);
    EXPECT(had >= 5 && had < 200);
    EXPECT(memcmp(got + 52, "12345", 5) == 0);
    memset(got + 52, 0, 5);
    EXPECT(memcmp(got, zeros, sizeof got) == 0);

    /* Cells that a view implies and the file does not have. */
    RETURNS(0, weft_view_subfile(file, 1, 1, 2, 2, 1, WEFT_ORDER_DEFAULT, NULL, &ghosts));
    memset(got, 0xee, sizeof got);
    RETURNS(17, weft_read_at(ghosts, got, 100, 0)); /* with the hole before them in their cell */
    int numbers = 0;
    for (int i = 0; i < 100; i++)
        numbers += got[i] != 0;
    EXPECT(numbers == 5 && got[100] == 0xee);
    weft_view_close(ghosts);
    weft_view_close(view);
    RETURNS(0, weft_file_close(file));
}

/* However many runs a request has: one message to each server. */
static void counts(const weft_volume *volume, const weft_view *view)
{
    unsigned char got[1000];
    weft_pattern *byte, *thousand;
    RETURNS(0, weft_pattern_bytes(1, &byte));
    RETURNS(0, weft_pattern_repeat(byte, 4, 1000, &thousand));
    weft_request request = {.size = sizeof request, .pattern = thousand};
    int64_t least = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        /* Something in the background may be counted, too, but not each time. */
        int64_t before = weft_requests_sent(volume);
        RETURNS(1000, weft_read_request(view, &request, got, sizeof got));
        int64_t sent = weft_requests_sent(volume) - before;
        least = sent < least ? sent : least;
    }
    RETURNS(3, least);
    weft_pattern_free(thousand);
    weft_pattern_free(byte);
}

int main(void)
{
    weft_volume *volume = connect_volume();
    weft_file *file = make_file(volume, "/requests", CELLS, BSU);
    weft_view *view = whole(file);
    number_bytes(content, LENGTH, 0);
    RETURNS(LENGTH, weft_write_at(view, content, LENGTH, 0, 0));
    RETURNS(LENGTH, weft_file_size(file));
    views(file);
    patterns(view);
    writes(file, view);
    absent(volume);
    counts(volume, view);
    weft_view_close(view);
    RETURNS(0, weft_file_close(file));
    weft_disconnect(volume);
    return 0;
}
