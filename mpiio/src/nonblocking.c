#include "nonblocking.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "status.h"

/* A transfer and the request that stands for it. */
struct pending {
    struct pending *next; /* those that Open MPI's progress looks at */
    struct transfer *transfer;
    MPI_Request request;
    uint64_t moved;
    int code;
    int ended;
};

typedef int poll_function(void *state, MPI_Status *status);
typedef int wait_function(int count, void **states, double timeout, MPI_Status *status);
typedef int start_function(MPI_Grequest_query_function *query, MPI_Grequest_free_function *release,
                           MPI_Grequest_cancel_function *cancel, poll_function *poll,
                           wait_function *wait, void *state, MPI_Request *request);
typedef int register_function(int (*progress)(void));

static start_function *mpich_start;
static register_function *open_mpi_register;
static pthread_once_t found = PTHREAD_ONCE_INIT;

static void find(void)
{
#ifdef OPEN_MPI
    void *symbol = dlsym(RTLD_DEFAULT, "opal_progress_register");
    memcpy(&open_mpi_register, &symbol, sizeof symbol);
#else
    void *symbol = dlsym(RTLD_DEFAULT, "PMPIX_Grequest_start");
    memcpy(&mpich_start, &symbol, sizeof symbol);
#endif
}

int nonblocking_has_progress(void)
{
    pthread_once(&found, find);
    return mpich_start != NULL || open_mpi_register != NULL;
}

static int query(void *state, MPI_Status *status)
{
    struct pending *pending = state;
    status_set(status, pending->moved);
    if (pending->code != MPI_SUCCESS && status != MPI_STATUS_IGNORE)
        status->MPI_ERROR = pending->code;
    return pending->code;
}

/* The program frees the request, perhaps before its bytes have moved. */
static int release(void *state)
{
    struct pending *pending = state;
    if (pending->transfer != NULL) {
        MPI_File handle = transfer_file(pending->transfer)->handle;
        int code = transfer_wait(pending->transfer, &pending->moved);
        if (code != MPI_SUCCESS)
            error_raise(handle, code);
    }
    free(pending);
    return MPI_SUCCESS;
}

/* What has begun is not stopped. */
static int cancel(void *state, int complete)
{
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

/* Ends a pending transfer whose bytes have moved. */
static void complete(struct pending *pending)
{
    MPI_File handle = transfer_file(pending->transfer)->handle;
    pending->code = transfer_wait(pending->transfer, &pending->moved);
    pending->transfer = NULL;
    pending->ended = 1;
    if (pending->code != MPI_SUCCESS)
        error_raise(handle, pending->code);
    PMPI_Grequest_complete(pending->request);
}

/* MPICH asks whenever it makes progress. */
static int poll(void *state, MPI_Status *status)
{
    struct pending *pending = state;
    (void)status;
    if (pending->ended)
        return MPI_SUCCESS;
    if (transfer_test(pending->transfer))
        complete(pending);
    else
        sched_yield();
    return MPI_SUCCESS;
}

/* MPICH waits for some requests, and asks again if they have not ended. */
static int wait(int count, void **states, double timeout, MPI_Status *status)
{
    (void)timeout, (void)status;
    for (int i = 0; i < count; i++) {
        struct pending *pending = states[i];
        int flag;
        if (pending->ended)
            continue;
        if (transfer_pause(pending->transfer, 1))
            complete(pending);
        else
            PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    }
    return MPI_SUCCESS;
}

/* What Open MPI's progress looks at. It calls from any thread that waits, also within calls of the
 * program that complete a transfer: one at a time looks, and it holds no lock while it completes. */
static struct pending *first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_flag looking = ATOMIC_FLAG_INIT;

static struct pending *take_ended(void)
{
    struct pending *taken = NULL;
    pthread_mutex_lock(&lock);
    for (struct pending **at = &first; *at != NULL && taken == NULL; at = &(*at)->next)
        if (transfer_test((*at)->transfer)) {
            taken = *at;
            *at = taken->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    return taken;
}

static int progress(void)
{
    int events = 0;
    struct pending *pending;
    if (atomic_flag_test_and_set(&looking))
        return 0;
    while ((pending = take_ended()) != NULL) {
        complete(pending);
        events++;
    }
    atomic_flag_clear(&looking);
    return events;
}

static void register_progress(void)
{
    open_mpi_register(progress);
}

static int start_in_open_mpi(struct pending *pending)
{
    static pthread_once_t registered = PTHREAD_ONCE_INIT;
    int status = PMPI_Grequest_start(query, release, cancel, pending, &pending->request);
    if (status != MPI_SUCCESS)
        return status;
    pthread_once(&registered, register_progress);
    pthread_mutex_lock(&lock);
    pending->next = first;
    first = pending;
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

static int start_in_place(struct pending *pending)
{
    int status = PMPI_Grequest_start(query, release, cancel, pending, &pending->request);
    if (status == MPI_SUCCESS)
        complete(pending);
    return status;
}

int nonblocking_start(const struct access *access, MPI_Request *request)
{
    struct access given = *access;
    struct pending *pending = calloc(1, sizeof *pending);
    int in_place = access->file->completes_in_place || !nonblocking_has_progress();
    if (pending == NULL)
        return error_make(MPI_ERR_NO_MEM, "there is no memory for a nonblocking access");
    if (in_place)
        given.how &= ~TRANSFER_COLLECTIVE;
    int status = transfer_post(&given, &pending->transfer);
    if (status != MPI_SUCCESS) {
        free(pending);
        return status;
    }
    if (in_place)
        status = start_in_place(pending);
    else if (mpich_start != NULL)
        status = mpich_start(query, release, cancel, poll, wait, pending, &pending->request);
    else
        status = start_in_open_mpi(pending);
    if (status != MPI_SUCCESS) {
        transfer_wait(pending->transfer, &pending->moved);
        free(pending);
        return status;
    }
    *request = pending->request;
    return MPI_SUCCESS;
}
