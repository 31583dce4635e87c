#include "export.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

export_function export_next(const char *name, _Atomic(export_function) *found)
{
    export_function function = atomic_load_explicit(found, memory_order_acquire);
    if (function != NULL)
        return function;
    void *symbol = dlsym(RTLD_NEXT, name);
    if (symbol == NULL) {
        fprintf(stderr, "weft: no MPI library behind libweft-mpiio has %s: build libweft-mpiio with "
                        "the mpicc of the MPI library that the program uses\n", name);
        abort();
    }
    memcpy(&function, &symbol, sizeof function);
    atomic_store_explicit(found, function, memory_order_release);
    return function;
}
