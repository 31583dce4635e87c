! Fortran programs, by the oldest interface and the newest: the same file, written by views.
!
!     fortran FILE
program fortran
    use mpi_f08
    implicit none
    type(MPI_File) :: file
    type(MPI_Datatype) :: column
    type(MPI_Status) :: status
    character(len=256) :: name
    integer :: rank, processes, code, count, i
    integer, parameter :: rows = 100
    integer :: values(rows), back(rows)
    integer(kind=MPI_OFFSET_KIND) :: place, size

    call MPI_Init(code)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
    call MPI_Comm_size(MPI_COMM_WORLD, processes, code)
    call get_command_argument(1, name)
    call MPI_File_open(MPI_COMM_WORLD, trim(name), ior(MPI_MODE_CREATE, MPI_MODE_RDWR), &
                       MPI_INFO_NULL, file, code)
    call check(code, 'open')
    call MPI_Type_vector(rows, 1, processes, MPI_INTEGER, column, code)
    call MPI_Type_commit(column, code)
    place = 4 * rank
    call MPI_File_set_view(file, place, MPI_INTEGER, column, 'native', MPI_INFO_NULL, code)
    call check(code, 'set the view')
    do i = 1, rows
        values(i) = 1000 * rank + i
    end do
    call MPI_File_write_all(file, values, rows, MPI_INTEGER, status, code)
    call check(code, 'write')
    call MPI_Get_count(status, MPI_INTEGER, count, code)
    if (count /= rows) call wrong('the count of a write')
    place = 0
    call MPI_File_read_at_all(file, place, back, rows, MPI_INTEGER, status, code)
    call check(code, 'read')
    if (any(back /= values)) call wrong('what was read')
    call MPI_File_get_size(file, size, code)
    if (size /= 4 * rows * processes) call wrong('the size')
    call MPI_File_close(file, code)
    call check(code, 'close')
    call MPI_File_open(MPI_COMM_WORLD, 'weft:/no/such/file', MPI_MODE_RDONLY, MPI_INFO_NULL, file, code)
    if (code == MPI_SUCCESS) call wrong('that a file was opened that is not there')
    call old_interface(trim(name), rank, processes, rows)
    if (rank == 0) print '(a)', 'all columns'
    call MPI_Finalize(code)

contains

    subroutine check(code, what)
        integer, intent(in) :: code
        character(len=*), intent(in) :: what
        character(len=MPI_MAX_ERROR_STRING) :: text
        integer :: length, ignored
        if (code == MPI_SUCCESS) return
        call MPI_Error_string(code, text, length, ignored)
        print '(4a)', 'cannot ', what, ': ', text(1:length)
        call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
    end subroutine

    subroutine wrong(what)
        character(len=*), intent(in) :: what
        integer :: ignored
        print '(2a)', 'wrong: ', what
        call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
    end subroutine

end program

! What programs of the last century do.
subroutine old_interface(name, rank, processes, rows)
    implicit none
    include 'mpif.h'
    character(len=*), intent(in) :: name
    integer, intent(in) :: rank, processes, rows
    integer :: file, code, status(MPI_STATUS_SIZE), values(rows), i
    integer(kind=MPI_OFFSET_KIND) :: place
    call MPI_FILE_OPEN(MPI_COMM_WORLD, name, MPI_MODE_RDONLY + MPI_MODE_DELETE_ON_CLOSE, &
                       MPI_INFO_NULL, file, code)
    if (code /= MPI_SUCCESS) call MPI_ABORT(MPI_COMM_WORLD, 1, code)
    place = 0
    call MPI_FILE_READ_AT_ALL(file, place, values, min(rows, processes), MPI_INTEGER, status, code)
    do i = 1, min(rows, processes)
        if (values(i) /= 1000 * (i - 1) + 1) then
            print *, 'wrong: element', i, 'is', values(i), 'on process', rank
            call MPI_ABORT(MPI_COMM_WORLD, 1, code)
        end if
    end do
    call MPI_FILE_CLOSE(file, code)
end subroutine
