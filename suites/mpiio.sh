#!/bin/bash
# What others wrote on MPI-IO, with nothing but libweft-mpiio before the MPI library, on a mounted volume: programs name files
# below the mount, and the library takes them. Each failure must stand in mpiio.expected with its reason, and each line there
# must still fail.
#
#   WEFT=/path/to/weft MPI=mpich suites/mpiio.sh [romio ior tile hdf5 pnetcdf h5py netcdf4]
#
#   MPI                     mpich (the default) or openmpi: Debian's mpicc.$MPI and mpirun.$MPI
#   WEFT_INCLUDE, WEFT_LIB  folders with weft.h and libweft.so; beside WEFT and in this tree if you say nothing
#   PROCESSES (4)           of each program
#   ROMIO_SRC               MPICH's src/mpi/romio/test
#   IOR_SRC                 IOR, with a configure script
#   TILE_SRC                mpi-tile-io
#   HDF5_SRC                HDF5 1.10
#   PNETCDF_SRC             PnetCDF, with a configure script
#   H5PY_PYTHON             a python3 with mpi4py and an h5py that was built with the same MPI
#   NETCDF4_PYTHON          likewise with netCDF4
#
# A suite whose source is not given is skipped by name. LIMIT (600) are the seconds of one program.

here=$(dirname "$(readlink -f "$0")")
. "$here/lib.sh"
: "${MPI:=mpich}" "${PROCESSES:=4}" "${LIMIT:=600}"
expected=${EXPECTED:-$here/mpiio.expected}
[ -n "${DIRECTORY:-}" ] && fail "this suite tests a volume of its own: set WEFT"
needs "mpicc.$MPI" "mpirun.$MPI" gcc make
: "${WEFT_INCLUDE:=$here/../crates/weft-c/include}" "${WEFT_LIB:=$(dirname "${WEFT:-/}")}"
wanted=("$@")
[ $# -gt 0 ] || wanted=(romio ior tile hdf5 pnetcdf h5py netcdf4)
SERVERS=${SERVERS:-4}
begin
export WEFT_VOLUME=$volume
library=$scratch/libweft-mpiio.so
"$here/../mpiio/build" --mpicc "mpicc.$MPI" --weft-include "$WEFT_INCLUDE" --weft-lib "$WEFT_LIB" -o "$library" || fail "libweft-mpiio does not build"
: > "$scratch/failed"
ran=0

# The command that runs a program on $1 processes.
launcher() {
    case $MPI in
        mpich) echo "mpirun.mpich -n $1 -env LD_PRELOAD $library" ;;
        *) echo "mpirun.openmpi --allow-run-as-root --oversubscribe -n $1 -x LD_PRELOAD=$library -x WEFT_VOLUME" ;;
    esac
}

# Runs a program of a suite and judges it: `$1` is the suite, `$2` the name in the report, `$3` how many processes, `$4` what its
# output must have ("" for anything), then the command. It fails if it says so, or ends badly, or if it is not done in time.
try() {
    local suite=$1 name=$2 processes=$3 line=$4 status
    shift 4
    ran=$((ran + 1))
    # shellcheck disable=SC2046 # a command of several words
    (cd "$work" && timeout "$LIMIT" $(launcher "$processes") "$@") > "$scratch/output" 2>&1
    status=$?
    if [ $status = 0 ] && grep -q -- "$line" "$scratch/output"; then
        return
    fi
    echo "$suite $name" >> "$scratch/failed"
    say "$suite $name: status $status"
    grep -v yaksa "$scratch/output" | tail -5
    cp "$scratch/output" "$scratch/$suite.$name.output"
}

romio() {
    local test name processes
    mkdir "$scratch/romio" && cp "$ROMIO_SRC"/* "$scratch/romio"
    for test in "$scratch"/romio/*.c.in; do
        sed -e 's/@F77MPIOINC@//; s/@LL@/lld/; s/@[A-Z0-9_]*@//g' "$test" > "${test%.in}"
    done
    for test in "$scratch"/romio/*.c; do
        name=$(basename "${test%.c}") processes=$PROCESSES
        case $name in
            fstype_prefix | syshints) continue ;; # file systems and hint files of ROMIO itself
            coll_perf | large_array | large_file) [ -n "${LARGE:-}" ] || continue ;; # up to 14 GiB
            noncontig | i_noncontig | noncontig_coll | types_with_zeros | creat_excl | status) processes=2 ;;
        esac
        "mpicc.$MPI" -w -DHAVE_UNISTD_H "$test" -o "${test%.c}" -lm > "$scratch/build.log" 2>&1 ||
            { echo "romio $name" >> "$scratch/failed"; tail -5 "$scratch/build.log"; continue; }
        case $name in
            big_extents) try romio "$name" "$processes" "No Errors" "${test%.c}" "$work/$name" ;;
            perf) try romio "$name" "$processes" "Read bandwidth after" "${test%.c}" -fname "$work/$name" ;;
            external32) try romio "$name" "$processes" "" "${test%.c}" ;;
            *) try romio "$name" "$processes" "No Errors" "${test%.c}" -fname "$work/$name" ;;
        esac
    done
}

ior() {
    local io options
    mkdir "$scratch/ior"
    (cd "$scratch/ior" && "$IOR_SRC/configure" --with-mpiio CC="mpicc.$MPI" MPICC="mpicc.$MPI" && make -j2) > "$scratch/build.log" 2>&1 ||
        { tail -5 "$scratch/build.log"; fail "IOR does not build"; }
    io=$scratch/ior/src/ior
    # Every option that the MPI-IO back end has, alone and with collective calls, interleaved and one after the other; -W and -R
    # compare what was written and read.
    for options in "" "-c" "-z" "--mpiio.useFileView" "--mpiio.useFileView -c" "--mpiio.useFileView --mpiio.useStridedDatatype" \
        "--mpiio.useFileView --mpiio.useStridedDatatype -c" "--mpiio.preallocate" "--mpiio.showHints" "-F" "-F -c" "-e" "-Y" "-k -C" "-m -i 2"; do
        local check="-w -W -r -R"
        # With strided datatypes IOR writes one segment over and over, and it compares no random accesses.
        [[ "$options" == *Strided* || "$options" == *-z* ]] && check="-w -r"
        # shellcheck disable=SC2086 # lists of options; blocks of one transfer have no random order
        [[ "$options" == *-z* ]] || try ior "$(echo "${options:-plain}" | tr -d ' ')" "$PROCESSES" "^read " "$io" -a MPIIO $check -t 4k -b 4k -s 256 -o "$work/ior" $options
        # shellcheck disable=SC2086
        try ior "large$(echo "$options" | tr -d ' ')" "$PROCESSES" "^read " "$io" -a MPIIO $check -t 256k -b 1m -s 4 -o "$work/ior" $options
    done
}

tile() {
    "mpicc.$MPI" -w "$TILE_SRC"/mpi-tile-io.c -o "$scratch/tile" -lm > "$scratch/build.log" 2>&1 ||
        { tail -5 "$scratch/build.log"; fail "mpi-tile-io does not build"; }
    local options
    for options in "--collective" "" "--overlap_x 8 --overlap_y 8" "--collective --write_file"; do
        # shellcheck disable=SC2086
        try tile "tile$(echo "$options" | tr -d ' ')" 4 "" "$scratch/tile" --nr_tiles_x 2 --nr_tiles_y 2 --sz_tile_x 100 --sz_tile_y 100 \
            --sz_element 32 --filename "$work/tile" $options
    done
}

hdf5() {
    local name
    mkdir "$scratch/hdf5"
    (cd "$scratch/hdf5" && CC="mpicc.$MPI" "$HDF5_SRC/configure" --enable-parallel --disable-hl --disable-fortran --disable-cxx \
        --disable-shared --disable-tools --enable-build-mode=production && make -j2 -C src && make -j2 -C test libh5test.la &&
        make -j2 -C testpar testphdf5 t_mpi t_bigio t_cache t_cache_image t_pread t_pshutdown t_prestart t_shapesame t_filters_parallel \
            t_init_term) > "$scratch/build.log" 2>&1 || { tail -5 "$scratch/build.log"; fail "HDF5 does not build"; }
    export HDF5_PARAPREFIX=$work
    for name in testphdf5 t_mpi t_pread t_shapesame t_filters_parallel t_init_term t_pshutdown t_prestart t_cache t_cache_image t_bigio; do
        try hdf5 "$name" "$PROCESSES" "" "$scratch/hdf5/testpar/$name"
    done
}

# PnetCDF's own targets run its tests; what they need to know are the launcher and the folder.
pnetcdf() {
    mkdir "$scratch/pnetcdf"
    (cd "$scratch/pnetcdf" && "$PNETCDF_SRC/configure" --with-mpi=/usr --disable-fortran --disable-cxx MPICC="mpicc.$MPI" && make -j2 &&
        make -j2 tests) > "$scratch/build.log" 2>&1 || { tail -5 "$scratch/build.log"; fail "PnetCDF does not build"; }
    local folder
    for folder in C nf_test testcases nonblocking burst_buffer header subfile largefile adios; do
        [ -f "$scratch/pnetcdf/test/$folder/Makefile" ] || continue
        [ "$folder" = largefile ] && [ -z "${LARGE:-}" ] && continue
        ran=$((ran + 1))
        timeout "$LIMIT" make -k -C "$scratch/pnetcdf/test/$folder" "ptest$PROCESSES" TESTOUTDIR="$work" TESTMPIRUN="$(launcher NP)" \
            > "$scratch/output" 2>&1 && continue
        echo "pnetcdf $folder" >> "$scratch/failed"
        say "pnetcdf $folder"
        grep -E "fail|rror" "$scratch/output" | head -10
        cp "$scratch/output" "$scratch/pnetcdf.$folder.output"
    done
}

h5py() { try h5py hyperslabs "$PROCESSES" "all rows" "$H5PY_PYTHON" "$here/mpiio_h5py.py" "$work/rows.h5"; }
netcdf4() { try netcdf4 variables "$PROCESSES" "all rows" "$NETCDF4_PYTHON" "$here/mpiio_netcdf4.py" "$work/rows.nc"; }

declare -A needed=([romio]=ROMIO_SRC [ior]=IOR_SRC [tile]=TILE_SRC [hdf5]=HDF5_SRC [pnetcdf]=PNETCDF_SRC [h5py]=H5PY_PYTHON [netcdf4]=NETCDF4_PYTHON)
ran_suites=""
for suite in "${wanted[@]}"; do
    source=${needed[$suite]:-}
    [ -n "$source" ] || fail "there is no suite $suite"
    if [ -z "${!source:-}" ]; then
        say "SKIPPED: $suite: set $source"
        continue
    fi
    say "$suite with $MPI"
    ran_suites+=" $suite"
    "$suite"
done

sort -u "$scratch/failed" > "$scratch/failed.sorted"
# Lines are "MPI SUITE NAME # reason"; MPI may be "any".
sed 's/#.*//; s/[[:space:]]*$//; /^$/d' "$expected" | awk -v mpi="$MPI" '$1 == mpi || $1 == "any" { print $2, $3 }' |
    while read -r suite name; do [[ "$ran_suites " == *" $suite "* ]] && echo "$suite $name"; done | sort -u > "$scratch/expected"
new=$(comm -23 "$scratch/failed.sorted" "$scratch/expected")
gone=$(comm -13 "$scratch/failed.sorted" "$scratch/expected")
say "$ran programs, $(wc -l < "$scratch/failed.sorted") failed, $(wc -l < "$scratch/expected") were expected to"
[ -n "${REPORT:-}" ] && cp "$scratch"/*.output "$REPORT" 2> /dev/null
[ -n "$new" ] && printf 'Failed and not expected to:\n%s\n' "$new"
[ -n "$gone" ] && printf 'Expected to fail and did not (remove from %s):\n%s\n' "$expected" "$gone"
[ -z "$new$gone" ]
