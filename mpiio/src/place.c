#include "place.h"

#include <errno.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "error.h"
#include "mounts.h"

static const char PREFIX[] = "weft:";

/* "VOLUME:/PATH" or "/PATH" behind the prefix. */
static int parse(const char *name, const char *rest, struct place *place)
{
    const char *path = rest;
    if (rest[0] != '/' || strstr(rest, ":/") != NULL) {
        const char *colon = strstr(rest, ":/");
        if (colon != NULL) {
            size_t length = (size_t)(colon - rest);
            if (length >= sizeof place->volume)
                return error_make(MPI_ERR_BAD_FILE, "the name of the volume in %.80s is too long",
                                  name);
            memcpy(place->volume, rest, length);
            place->volume[length] = '\0';
            path = colon + 1;
        }
    }
    if (path[0] == '\0' || strlen(path) >= sizeof place->path)
        return error_make(MPI_ERR_BAD_FILE, "%.80s names no file: write weft:/PATH, or "
                          "weft:VOLUME:/PATH with a folder or HOST:PORT as VOLUME", name);
    strcpy(place->path, path);
    place->is_weft = 1;
    return MPI_SUCCESS;
}

/* The absolute path of a name without symbolic links; its last part need not exist. */
static int resolve(const char *name, char *path)
{
    if (realpath(name, path) != NULL)
        return 0;
    if (errno != ENOENT || strlen(name) >= PLACE_ROOM)
        return -1;
    char folder_of[PLACE_ROOM], name_of[PLACE_ROOM], folder[PLACE_ROOM];
    strcpy(folder_of, name);
    strcpy(name_of, name);
    if (realpath(dirname(folder_of), folder) == NULL)
        return -1;
    const char *separator = strcmp(folder, "/") == 0 ? "" : "/";
    int length = snprintf(path, PLACE_ROOM, "%s%s%s", folder, separator, basename(name_of));
    return length < PLACE_ROOM ? 0 : -1;
}

/* Whether a name has a prefix that chooses a file system of ROMIO, such as "ufs:". */
static int has_prefix(const char *name)
{
    const char *colon = strchr(name, ':'), *slash = strchr(name, '/');
    return colon != NULL && (slash == NULL || colon < slash);
}

int place_find(const char *name, struct place *place)
{
    struct mount mount;
    char path[PLACE_ROOM];
    memset(place, 0, sizeof *place);
    if (name == NULL)
        return MPI_SUCCESS; /* as of other names that lead nowhere */
    if (strncmp(name, PREFIX, sizeof PREFIX - 1) == 0)
        return parse(name, name + sizeof PREFIX - 1, place);
    if (!mounts_any())
        return MPI_SUCCESS;
    if (resolve(name, path) < 0 && (!has_prefix(name) || resolve(strchr(name, ':') + 1, path) < 0))
        return MPI_SUCCESS; /* the MPI library says what is wrong with it */
    if (!mounts_find(path, &mount))
        return MPI_SUCCESS;
    const char *below = path + (strcmp(mount.point, "/") == 0 ? 0 : strlen(mount.point));
    int length = snprintf(place->path, sizeof place->path, "%s%s",
                          strcmp(mount.root, "/") == 0 ? "" : mount.root,
                          below[0] == '\0' ? "/" : below);
    if (length >= (int)sizeof place->path)
        return error_make(MPI_ERR_BAD_FILE, "the path %.80s is too long", name);
    strcpy(place->volume, mount.source);
    strcpy(place->mounted, mount.point);
    place->is_weft = 1;
    return MPI_SUCCESS;
}

int place_shown(const struct place *place, char shown[PLACE_ROOM])
{
    struct mount mount;
    if (place->mounted[0] == '\0' || !mounts_find(place->mounted, &mount)
        || strcmp(mount.point, place->mounted) != 0)
        return 0;
    size_t root = strcmp(mount.root, "/") == 0 ? 0 : strlen(mount.root);
    const char *point = strcmp(mount.point, "/") == 0 ? "" : mount.point;
    if (strlen(place->path) < root || strncmp(place->path, mount.root, root) != 0)
        return 0;
    return snprintf(shown, PLACE_ROOM, "%s%s", point, place->path + root) < PLACE_ROOM;
}

uint64_t place_inode(const char *shown)
{
    struct stat attributes;
    return lstat(shown, &attributes) == 0 ? attributes.st_ino : 0;
}

static void await(const char *shown, uint64_t inode, int there)
{
    enum { PAUSE_NS = 500000, PAUSES = 2000 };
    const struct timespec pause = {0, PAUSE_NS};
    for (int i = 0; i < PAUSES && (place_inode(shown) == inode) != there; i++)
        nanosleep(&pause, NULL);
}

void place_await(const char *shown, uint64_t inode)
{
    await(shown, inode, 1);
}

void place_await_gone(const char *shown, uint64_t inode)
{
    if (inode != 0)
        await(shown, inode, 0);
}

/* Connections of this process. They live until MPI ends: a program opens many files. */
struct connection {
    struct connection *next;
    weft_volume *volume;
    pid_t process;
    char name[];
};

static struct connection *connections;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int key = MPI_KEYVAL_INVALID;

/* MPI ends: MPI_COMM_SELF loses its attributes first. */
static int disconnect(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    pthread_mutex_lock(&lock);
    while (connections != NULL) {
        struct connection *connection = connections;
        connections = connection->next;
        weft_disconnect(connection->volume);
        free(connection);
    }
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

static void disconnect_at_the_end(void)
{
    if (key != MPI_KEYVAL_INVALID
        || PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, disconnect, &key, NULL) != MPI_SUCCESS)
        return;
    PMPI_Comm_set_attr(MPI_COMM_SELF, key, &connections);
}

static int connect_to(const char *name, weft_volume **volume)
{
    weft_connect_options options = {.size = sizeof options, .name = "mpiio"};
    if (name[0] == '/' || (name[0] != '\0' && strchr(name, ':') == NULL))
        options.folder = name;
    else if (name[0] != '\0') {
        options.address = name;
        options.key_file = getenv("WEFT_KEY_FILE");
        if (options.key_file == NULL)
            return error_make(MPI_ERR_ACCESS, "the volume at %.80s needs its key: set "
                              "WEFT_KEY_FILE to the file that has it", name);
    }
    int status = weft_connect(&options, volume);
    if (status < 0)
        return error_weft(status, "cannot connect to the volume %.80s",
                          name[0] ? name : "of WEFT_VOLUME");
    return MPI_SUCCESS;
}

int place_connect(const struct place *place, weft_volume **volume)
{
    struct mount mount;
    const char *name = place->volume;
    /* On another machine the same mount point may lead to the volume in another way. */
    if (place->mounted[0] != '\0' && mounts_find(place->mounted, &mount))
        name = mount.source;
    int status = MPI_SUCCESS;
    pthread_mutex_lock(&lock);
    struct connection *connection = connections;
    while (connection != NULL
           && (strcmp(connection->name, name) != 0 || connection->process != getpid()))
        connection = connection->next;
    if (connection == NULL) {
        connection = calloc(1, sizeof *connection + strlen(name) + 1);
        if (connection == NULL) {
            status = error_make(MPI_ERR_NO_MEM, "there is no memory for a connection");
        } else if ((status = connect_to(name, &connection->volume)) == MPI_SUCCESS) {
            strcpy(connection->name, name);
            connection->process = getpid();
            connection->next = connections;
            connections = connection;
            disconnect_at_the_end();
        } else {
            free(connection);
        }
    }
    if (status == MPI_SUCCESS)
        *volume = connection->volume;
    pthread_mutex_unlock(&lock);
    return status;
}
