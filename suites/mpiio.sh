#!/bin/bash
# What others wrote on MPI-IO, with nothing but libweft-mpiio before the MPI library, on a mounted volume: programs name files
# below the mount, and the library takes them. Each failure must stand in mpiio.expected with its reason, and each line there
# must still fail.
#
#   WEFT=/path/to/weft MPI=mpich suites/mpiio.sh [romio ior tile hdf5 pnetcdf netcdf h5py netcdf4]
#
#   MPI                     mpich (the default) or openmpi: Debian's mpicc.$MPI and mpirun.$MPI
#   WEFT_INCLUDE, WEFT_LIB  folders with weft.h and libweft.so; beside WEFT and in this tree if you say nothing
#   PROCESSES (4)           of each program
#   BUILDS                  a folder that keeps what was built for the next run
#   VERBOSE                 also names the programs that pass
#   ROMIO_SRC               MPICH's src/mpi/romio/test
#   IOR_SRC                 IOR, with a configure script
#   TILE_SRC                mpi-tile-io
#   HDF5_SRC                HDF5 1.10
#   PNETCDF_SRC             PnetCDF, with a configure script
#   NETCDF_SRC              NetCDF's C library, and HDF5_DIR the HDF5 that it is built on: Debian's if you say nothing
#   H5PY_PYTHON             a python3 with mpi4py and an h5py that was built with the same MPI
#   NETCDF4_PYTHON          likewise with netCDF4
#
# A suite whose source is not given is skipped by name. LIMIT (600) are the seconds of one program. With DIRECTORY instead of
# WEFT the programs run there without the library, which tells whether a failure is their own.

here=$(dirname "$(readlink -f "$0")")
. "$here/lib.sh"
: "${MPI:=mpich}" "${PROCESSES:=4}" "${LIMIT:=600}"
expected=${EXPECTED:-$here/mpiio.expected}
needs "mpicc.$MPI" "mpirun.$MPI" gcc make
: "${WEFT_INCLUDE:=$here/../crates/weft-c/include}" "${WEFT_LIB:=$(dirname "${WEFT:-/}")}" "${HDF5_DIR:=/usr/lib/$(gcc -print-multiarch)/hdf5/$MPI}"
wanted=("$@")
[ $# -gt 0 ] || wanted=(romio ior tile hdf5 pnetcdf netcdf h5py netcdf4)
SERVERS=${SERVERS:-4}
begin
# The library is named without its folder: PnetCDF replaces every "NP" in the command that starts programs.
library=""
if [ -n "$volume" ]; then
    export WEFT_VOLUME=$volume LD_LIBRARY_PATH=$scratch${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    library=libweft-mpiio.so
    "$here/../mpiio/build" --mpicc "mpicc.$MPI" --weft-include "$WEFT_INCLUDE" --weft-lib "$WEFT_LIB" -o "$scratch/$library" ||
        fail "libweft-mpiio does not build"
fi
builds=${BUILDS:-$scratch}
: > "$scratch/failed"
ran=0

# The command that runs a program on $1 processes.
launcher() {
    case $MPI in
        mpich) echo "mpirun.mpich -n $1 ${library:+-env LD_PRELOAD $library}" ;;
        *) echo "mpirun.openmpi --allow-run-as-root --oversubscribe -n $1 ${library:+-x LD_PRELOAD=$library -x WEFT_VOLUME}" ;;
    esac
}

# Sets $build to the folder in which build_$1 has built.
built() {
    build=$builds/$1.$MPI
    [ -f "$build/built" ] && return
    mkdir -p "$build"
    (cd "$build" && "build_$1") > "$scratch/build.log" 2>&1 && touch "$build/built" && return
    say "$1 does not build"
    tail -5 "$scratch/build.log"
    echo "$1 build" >> "$scratch/failed"
    return 1
}

# Runs a command and judges it: `$1` is the suite, `$2` the name in the report, `$3` what its output must have ("" for
# anything). It fails if it says so, or ends badly, or if it is not done in time.
judge() {
    local suite=$1 name=$2 line=$3 before=$SECONDS status
    shift 3
    ran=$((ran + 1))
    (cd "$work" && exec timeout -k 10 "$LIMIT" "$@") > "$scratch/output" 2>&1 < /dev/null
    status=$?
    if [ $status = 0 ] && { [ -z "$line" ] || grep -q -- "$line" "$scratch/output"; }; then
        [ -z "${VERBOSE:-}" ] || say "ok: $suite $name, $((SECONDS - before)) s"
        return
    fi
    echo "$suite $name" >> "$scratch/failed"
    say "$suite $name: status $status"
    grep -v yaksa "$scratch/output" | tail -5
    cp "$scratch/output" "$scratch/$suite.$name.output"
}

# Judges a program that runs on `$3` processes; the other parameters are those of `judge`.
try() {
    local suite=$1 name=$2 processes=$3 line=$4
    shift 4
    # shellcheck disable=SC2046 # a command of several words
    judge "$suite" "$name" "$line" $(launcher "$processes") "$@"
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

build_ior() { "$IOR_SRC/configure" --with-mpiio CC="mpicc.$MPI" MPICC="mpicc.$MPI" && make -j2; }

ior() {
    local io options
    built ior || return
    io=$build/src/ior
    echo "IOR_HINT__MPI__striping_factor=3" > "$scratch/hints"
    # Every option that the MPI-IO back end has, alone and with collective calls, interleaved and one after the other; -W and -R
    # compare what was written and read.
    for options in "" "-c" "-z" "--mpiio.useFileView" "--mpiio.useFileView -c" "--mpiio.useFileView --mpiio.useStridedDatatype" \
        "--mpiio.useFileView --mpiio.useStridedDatatype -c" "--mpiio.preallocate" "--mpiio.showHints" \
        "--mpiio.hintsFileName $scratch/hints --mpiio.showHints" "-F" "-F -c" "-e" "-Y" "-k -C" "-m -i 2"; do
        local check="-w -W -r -R"
        # With strided datatypes IOR writes one segment over and over, and it compares no random accesses.
        [[ "$options" == *Strided* || "$options" == *-z* ]] && check="-w -r"
        local name
        name=${options#--mpiio.hintsFileName "$scratch"/} name=${name// /}
        # shellcheck disable=SC2086 # lists of options; blocks of one transfer have no random order
        [[ "$options" == *-z* ]] || try ior "${name:-plain}" "$PROCESSES" "^read " "$io" -a MPIIO $check -t 4k -b 4k -s 256 -o "$work/ior" $options
        # shellcheck disable=SC2086
        try ior "large$name" "$PROCESSES" "^read " "$io" -a MPIIO $check -t 256k -b 1m -s 4 -o "$work/ior" $options
    done
}

build_tile() { "mpicc.$MPI" -w -D_GNU_SOURCE -DHAVE_GETOPT_LONG "$TILE_SRC/mpi-tile-io.c" -o mpi-tile-io -lm; }

# What the program writes must be what it writes without the library on the local disk.
tile() {
    local options name tiles="--nr_tiles_x 2 --nr_tiles_y 2 --sz_tile_x 100 --sz_tile_y 100 --sz_element 32"
    built tile || return
    # shellcheck disable=SC2086,SC2046
    (library="" && $(launcher 4) "$build/mpi-tile-io" $tiles --write_file --filename "$scratch/tile") > "$scratch/build.log" 2>&1 ||
        { tail -5 "$scratch/build.log"; fail "mpi-tile-io does not run on the local disk"; }
    for options in "--write_file" "--write_file --collective" "--header_bytes 1000 --write_file --collective" "" "--collective" \
        "--overlap_x 8 --overlap_y 8" "--overlap_x 8 --overlap_y 8 --collective"; do
        name=${options// /}
        # shellcheck disable=SC2086
        try tile "tile$name" 4 "Mbytes/sec" "$build/mpi-tile-io" $tiles --filename "$work/tile" $options
        [[ "$options" != --write_file* ]] || judge tile "bytes$name" "" cmp "$work/tile" "$scratch/tile"
    done
}

hdf5_programs="testphdf5 t_mpi t_pread t_shapesame t_filters_parallel t_init_term t_pshutdown t_prestart t_cache t_cache_image t_bigio"
build_hdf5() {
    # shellcheck disable=SC2086 # a list of programs
    CC="mpicc.$MPI" "$HDF5_SRC/configure" --enable-parallel --disable-hl --disable-fortran --disable-cxx --disable-shared \
        --disable-tools --enable-build-mode=production && make -j2 -C src && make -j2 -C test libh5test.la &&
        make -j2 -C testpar $hdf5_programs t_pflush1 t_pflush2
}

hdf5() {
    local name
    built hdf5 || return
    export HDF5_PARAPREFIX=$work
    ln -s "$build/testpar/t_cache_image" "$work/" # which starts itself by that name
    for name in $hdf5_programs; do
        try hdf5 "$name" "$PROCESSES" "" "$build/testpar/$name"
    done
    # The first program ends without closing its file, on purpose; the second reads what was flushed.
    # shellcheck disable=SC2046
    (cd "$work" && timeout "$LIMIT" $(launcher "$PROCESSES") "$build/testpar/t_pflush1") > "$scratch/build.log" 2>&1
    try hdf5 t_pflush2 "$PROCESSES" "" "$build/testpar/t_pflush2"
}

build_pnetcdf() {
    "$PNETCDF_SRC/configure" --with-mpi=/usr --disable-fortran --disable-cxx --enable-subfiling --enable-burst-buffering \
        MPICC="mpicc.$MPI" && make -j2 && make -j2 tests
}

# PnetCDF's own scripts run its programs, here one by one; what they need to know are the launcher and the folder.
pnetcdf() {
    local folder name
    built pnetcdf || return
    for folder in C cdf_format testcases nonblocking burst_buffer header subfile largefile; do
        [ -f "$build/test/$folder/Makefile" ] || continue
        [ "$folder" = largefile ] && [ -z "${LARGE:-}" ] && continue
        # shellcheck disable=SC2016 # make's variables
        for name in $(make -s -C "$build/test/$folder" --eval 'names: ; @echo $(sort $(check_PROGRAMS) $(TESTPROGRAMS))' names); do
            case $folder in C | cdf_format) name="" ;; esac # one script for all
            judge pnetcdf "$folder${name:+.$name}" "" make -C "$build/test/$folder" "ptest$PROCESSES" TESTOUTDIR="$work" \
                TESTMPIRUN="$(launcher NP)" ${name:+"check_PROGRAMS=$name" "TESTPROGRAMS=$name"}
            [ -n "$name" ] || break
        done
    done
}

netcdf_programs="tst_mode tst_mpi_parallel tst_parallel tst_parallel3 tst_parallel4 tst_parallel5 tst_parallel6 tst_nc4perf tst_simplerw_coll_r
    tst_parallel_zlib tst_parallel_compress tst_quantize_par"
build_netcdf() {
    local folder
    "$NETCDF_SRC/configure" CC="mpicc.$MPI" CPPFLAGS="-I$HDF5_DIR/include" LDFLAGS="-L$HDF5_DIR/lib -Wl,-rpath,$HDF5_DIR/lib" \
        --enable-parallel-tests --disable-dap --disable-byterange --disable-nczarr --disable-filter-testing || return
    for folder in include libncxml libdispatch libsrc libsrc4 libhdf5 libncpoco liblib; do
        make -j2 -C $folder || return
    done
    # shellcheck disable=SC2086 # a list of programs
    make -j2 -C nc_test4 $netcdf_programs && make -j2 -C h5_test tst_h_par tst_h_par_compress
}

netcdf() {
    local name
    built netcdf || return
    for name in $netcdf_programs; do
        try netcdf "$name" "$([ "$name" = tst_mode ] && echo 1 || echo "$PROCESSES")" "" "$build/nc_test4/$name"
    done
    for name in tst_h_par tst_h_par_compress; do
        try netcdf "$name" "$PROCESSES" "" "$build/h5_test/$name"
    done
}

h5py() { try h5py hyperslabs "$PROCESSES" "all rows" "$H5PY_PYTHON" "$here/mpiio_h5py.py" "$work/rows.h5"; }
netcdf4() { try netcdf4 variables "$PROCESSES" "all rows" "$NETCDF4_PYTHON" "$here/mpiio_netcdf4.py" "$work/rows.nc"; }

declare -A needed=([romio]=ROMIO_SRC [ior]=IOR_SRC [tile]=TILE_SRC [hdf5]=HDF5_SRC [pnetcdf]=PNETCDF_SRC [netcdf]=NETCDF_SRC
    [h5py]=H5PY_PYTHON [netcdf4]=NETCDF4_PYTHON)
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
