/*
 * A process that ends in the middle of a job: the others get an error within seconds, and the
 * volume holds nothing of it.
 *
 *     ended FILE REPORT [posted]
 *
 * With `posted` the collective is a nonblocking one.
 *
 * Each process that stays adds "an error on process N after S seconds" to the file REPORT: launchers
 * may lose what processes print after one of them has ended.
 */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "expect.h"

int main(int argc, char **argv)
{
    int rank, processes;
    MPI_File file;
    MPI_Init(&argc, &argv);
    /* MPICH's launcher sends it to the others when a process ends, and it would end them too. */
    signal(SIGUSR1, SIG_IGN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_write_at_all(file, 4 * rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    if (rank == processes - 1) {
        /* MPICH's launcher ends the job when all that have the process's output have ended: a child
         * keeps it open for as long as the others need. */
        if (fork() == 0) {
            sleep(9);
            _exit(0);
        }
        kill(getpid(), SIGKILL);
    }
    double began = MPI_Wtime();
    if (argc > 3) {
        MPI_Request request;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        OK(MPI_File_iwrite_at_all(file, 4 * rank, &rank, 1, MPI_INT, &request));
        FAILS(MPI_ERR_IO, MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        FAILS(MPI_ERR_IO,
              MPI_File_write_at_all(file, 4 * rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    }
    double seconds = MPI_Wtime() - began;
    EXPECT(seconds < 10, "the error came after %.1f s", seconds);
    char line[100];
    int length = snprintf(line, sizeof line, "an error on process %d after %.0f seconds\n", rank,
                          seconds);
    int report = open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0666);
    EXPECT(report >= 0 && write(report, line, (size_t)length) == length, "%s", argv[2]);
    /* MPI itself cannot go on without the process. A launcher may end the job when one process ends
     * without MPI_Finalize(): the others have time for their report. */
    sleep(4);
    _exit(0);
}
