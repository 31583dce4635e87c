/*
 * Several processes write a matrix that is stored by rows, each of them its own columns, in one
 * collective call: one request of each process to each server, and the servers write whole rows.
 *
 *     collective_writer /path/in/volume PROCESSES ROWS COLUMNS
 *
 * Element (r, c) becomes r * COLUMNS + c. The processes are children of this program; those of an
 * MPI job would exchange the file's description by MPI_Bcast. WEFT_VOLUME names the volume's folder.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft.h>

static void fail(const char *what)
{
    fprintf(stderr, "collective_writer: cannot %s: %s\n", what, weft_error_message());
    _exit(1);
}

/* Writes the columns of one process. `handed` describes the file that the parent has attached. */
static void write_columns(const char *handed, size_t length, const char *group_id, uint32_t processes,
                          uint32_t process, uint64_t rows, uint64_t columns)
{
    weft_volume *volume;
    weft_file *file;
    weft_view *view;
    weft_group *group;
    if (weft_connect(NULL, &volume) < 0)
        fail("connect");
    if (weft_adopt(volume, handed, length, &file) < 0)
        fail("adopt the file");
    if (weft_view_file(file, NULL, &view) < 0)
        fail("open a view");
    if (weft_group_create(group_id, processes, process, NULL, &group) < 0)
        fail("make a group");

    /* All rows, and of each this process's columns. */
    char array[64];
    snprintf(array, sizeof array, "f64 %" PRIu64 "x%" PRIu64, rows, columns);
    uint64_t share = columns / processes;
    weft_slab slabs[] = {
        {.start = 0, .stride = 1, .count = rows, .block = 1},
        {.start = process * share, .stride = 1, .count = 1, .block = share},
    };
    weft_pattern *pattern;
    weft_request request = {.size = sizeof request, .flags = WEFT_SYNCED};
    if (weft_pattern_array(array, 2, slabs, &request.offset, &pattern) < 0)
        fail("make a pattern");
    request.pattern = pattern;

    double *values = malloc(rows * share * sizeof *values);
    if (values == NULL)
        exit(1);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < share; c++)
            values[r * share + c] = (double)(r * columns + process * share + c);
    if (weft_collective_write(view, group, &request, values, rows * share * sizeof *values, NULL) < 0)
        fail("write");

    free(values);
    weft_pattern_free(pattern);
    weft_group_free(group);
    weft_view_close(view);
    if (weft_file_close(file) < 0)
        fail("close the file");
    weft_disconnect(volume);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: collective_writer PATH PROCESSES ROWS COLUMNS\n");
        return 2;
    }
    uint32_t processes = (uint32_t)strtoul(argv[2], NULL, 10);
    uint64_t rows = strtoull(argv[3], NULL, 10);
    uint64_t columns = strtoull(argv[4], NULL, 10);
    if (processes == 0 || columns % processes != 0) {
        fprintf(stderr, "collective_writer: COLUMNS must be a multiple of PROCESSES\n");
        return 2;
    }

    /* One process attaches the file for all: one request to the metadata service. */
    weft_volume *volume;
    weft_file *file;
    weft_attach_options options = {.size = sizeof options, .mode = 0644};
    options.flags = WEFT_READ | WEFT_WRITE | WEFT_CREATE;
    char handed[4096];
    if (weft_connect(NULL, &volume) < 0)
        fail("connect");
    if (weft_attach(volume, argv[1], &options, &file) < 0)
        fail("attach the file");
    int64_t length = weft_file_hand_over(file, handed, sizeof handed);
    if (length < 0 || length > (int64_t)sizeof handed)
        fail("hand the file over");

    char group_id[64];
    snprintf(group_id, sizeof group_id, "collective_writer-%ld", (long)getpid());
    for (uint32_t process = 0; process < processes; process++) {
        pid_t child = fork();
        if (child < 0) {
            perror("collective_writer: fork");
            return 1;
        }
        if (child == 0) {
            /* The parent's handles are of no use here: the child connects by itself. */
            write_columns(handed, (size_t)length, group_id, processes, process, rows, columns);
            _exit(0);
        }
    }
    int failed = 0;
    for (uint32_t process = 0; process < processes; process++) {
        int status;
        if (wait(&status) < 0 || status != 0)
            failed = 1;
    }
    if (weft_file_close(file) < 0)
        fail("close the file");
    weft_disconnect(volume);
    return failed;
}
