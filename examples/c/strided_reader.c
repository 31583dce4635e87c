/*
 * Reads one column of a matrix that is stored by rows: a single call, one request to each server,
 * however many rows there are.
 *
 *     strided_reader /path/in/volume ROWS COLUMNS COLUMN
 *
 * The matrix has elements of type double. Prints the column, a number a line. WEFT_VOLUME names the
 * volume's folder.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

static void fail(const char *what)
{
    fprintf(stderr, "strided_reader: cannot %s: %s\n", what, weft_error_message());
    exit(1);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: strided_reader PATH ROWS COLUMNS COLUMN\n");
        return 2;
    }
    uint64_t rows = strtoull(argv[2], NULL, 10);
    uint64_t columns = strtoull(argv[3], NULL, 10);
    uint64_t column = strtoull(argv[4], NULL, 10);

    weft_volume *volume;
    weft_file *file;
    weft_view *view;
    if (weft_connect(NULL, &volume) < 0)
        fail("connect");
    if (weft_attach(volume, argv[1], NULL, &file) < 0)
        fail("attach the file");
    if (weft_view_file(file, NULL, &view) < 0)
        fail("open a view");

    /* An element, repeated with the distance of a row. */
    weft_pattern *element, *elements;
    if (weft_pattern_bytes(sizeof(double), &element) < 0
        || weft_pattern_repeat(element, (int64_t)(columns * sizeof(double)), rows, &elements) < 0)
        fail("make a pattern");
    weft_request request = {.size = sizeof request, .offset = column * sizeof(double)};
    request.pattern = elements;

    size_t length = rows * sizeof(double);
    double *values = malloc(length);
    if (values == NULL)
        return 1;
    if (weft_read_request(view, &request, values, length) < 0)
        fail("read");
    for (uint64_t row = 0; row < rows; row++)
        printf("%.17g\n", values[row]);

    free(values);
    weft_pattern_free(elements);
    weft_pattern_free(element);
    weft_view_close(view);
    if (weft_file_close(file) < 0)
        fail("close the file");
    weft_disconnect(volume);
    return 0;
}
