#include "attach.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "error.h"

/* The bits that new files lose; there is no way to ask for them that disturbs no other thread. */
static uint32_t file_mask(void)
{
    unsigned mask = 022;
    char line[256];
    FILE *status = fopen("/proc/self/status", "re");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "Umask: %o", &mask) == 1)
            break;
    if (status != NULL)
        fclose(status);
    return mask;
}

int attach_check_mode(int mode)
{
    const int known = MPI_MODE_RDONLY | MPI_MODE_RDWR | MPI_MODE_WRONLY | MPI_MODE_CREATE
                      | MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE | MPI_MODE_UNIQUE_OPEN
                      | MPI_MODE_SEQUENTIAL | MPI_MODE_APPEND;
    if (mode & ~known)
        return error_make(MPI_ERR_AMODE, "the mode %d has bits that MPI does not know", mode);
    int ways = ((mode & MPI_MODE_RDONLY) != 0) + ((mode & MPI_MODE_WRONLY) != 0)
               + ((mode & MPI_MODE_RDWR) != 0);
    if (ways != 1)
        return error_make(MPI_ERR_AMODE, "a file is opened with one of MPI_MODE_RDONLY, "
                          "MPI_MODE_WRONLY and MPI_MODE_RDWR, not %d", ways);
    if ((mode & MPI_MODE_RDONLY) && (mode & (MPI_MODE_CREATE | MPI_MODE_EXCL)))
        return error_make(MPI_ERR_AMODE, "MPI_MODE_RDONLY excludes MPI_MODE_CREATE and "
                          "MPI_MODE_EXCL");
    if ((mode & MPI_MODE_RDWR) && (mode & MPI_MODE_SEQUENTIAL))
        return error_make(MPI_ERR_AMODE, "MPI_MODE_RDWR excludes MPI_MODE_SEQUENTIAL");
    return MPI_SUCCESS;
}

/* Process 0 attaches the file, and creates it if need be: one request. */
static int attach(struct file *file, const char *path)
{
    weft_attach_options options = {.size = sizeof options, .flags = WEFT_READ, .mode = 0666};
    if (!(file->mode & MPI_MODE_RDONLY))
        options.flags |= WEFT_WRITE;
    if (file->mode & MPI_MODE_CREATE)
        options.flags |= WEFT_CREATE;
    if ((file->mode & MPI_MODE_CREATE) && (file->mode & MPI_MODE_EXCL))
        options.flags |= WEFT_EXCLUSIVE;
    options.umask = file_mask();
    file->hints.layout.size = sizeof file->hints.layout;
    file->hints.layout.servers = file->hints.layout.server_count > 0 ? file->hints.servers : NULL;
    options.layout = &file->hints.layout;
    options.policy = file->hints.policy[0] ? file->hints.policy : NULL;
    int status = weft_attach(file->volume, path, &options, &file->attached);
    if (status < 0)
        return error_weft(status, "cannot open %s", path);
    return MPI_SUCCESS;
}

static void name_group(char *id)
{
    static atomic_ulong opened;
    struct timespec now;
    char host[16] = "";
    gethostname(host, sizeof host - 1);
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(id, WEFT_ID_ROOM, "mpiio-%s-%ld-%llx-%lu", host, (long)getpid(),
             (unsigned long long)now.tv_sec * 1000000000ULL + (unsigned long long)now.tv_nsec,
             atomic_fetch_add(&opened, 1) + 1);
}

/* Attaches the file of a place that is Weft's, and describes it. */
static int attach_place(struct file *file, struct attaching *attaching, struct attached *attached)
{
    const struct place *place = &attached->place;
    int status = attach_check_mode(file->mode);
    if (status == MPI_SUCCESS)
        status = file->hinted;
    if (status == MPI_SUCCESS)
        status = place_connect(place, &file->volume);
    if (status == MPI_SUCCESS)
        status = attach(file, place->path);
    if (status != MPI_SUCCESS)
        return status;
    name_group(attached->id);
    int64_t length = weft_file_hand_over(file->attached, attached->description, DESCRIPTION_ROOM);
    if (length < 0)
        return error_weft(length, "cannot describe %s", place->path);
    if (length > DESCRIPTION_ROOM)
        return error_make(MPI_ERR_IO, "the description of %s has %lld bytes, and only %d have room",
                          place->path, (long long)length, DESCRIPTION_ROOM);
    attaching->length = (int)length;
    /* Only a file that was created may be unknown to a mount. */
    weft_attributes attributes = {.size = sizeof attributes};
    if (place->mounted[0] != '\0' && (file->mode & MPI_MODE_CREATE)
        && weft_file_stat(file->attached, &attributes) == 0)
        attached->inode = attributes.id;
    return MPI_SUCCESS;
}

int attach_first(struct file *file, const char *name, struct attaching *attaching,
                 struct attached *attached)
{
    int status = place_find(name, &attached->place);
    attaching->is_weft = attached->place.is_weft || status != MPI_SUCCESS;
    if (status == MPI_SUCCESS && attaching->is_weft)
        status = attach_place(file, attaching, attached);
    if (status != MPI_SUCCESS && !error_find(status, &attaching->class, attached->why)) {
        attaching->class = MPI_ERR_IO;
        snprintf(attached->why, sizeof attached->why, "process 0 cannot open %.80s", name);
    }
    return status;
}

int attach_adopt(struct file *file, const struct attaching *attaching,
                 const struct attached *attached)
{
    int status = place_connect(&attached->place, &file->volume);
    if (status != MPI_SUCCESS)
        return status;
    int adopted = weft_adopt(file->volume, attached->description, (size_t)attaching->length,
                             &file->attached);
    if (adopted < 0)
        return error_weft(adopted, "cannot open %s", attached->place.path);
    if (file->hints.policy[0]) {
        adopted = weft_file_set_policy(file->attached, file->hints.policy);
        if (adopted < 0)
            return error_weft(adopted, "cannot use the policy %s", file->hints.policy);
    }
    return MPI_SUCCESS;
}
