/* File handles on a mount.
 *
 *   handles name PATH           prints the handle of a file in hexadecimal digits
 *   handles open MOUNT HANDLE   opens the handle and prints the file, or a directory's entries
 *   handles up MOUNT HANDLE     opens the directory above, through ".."
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 128 };

struct named {
    struct file_handle handle;
    unsigned char bytes[ROOM];
};

static int failed(const char *what)
{
    printf("%s: %s\n", what, strerror(errno));
    return 1;
}

static int name(const char *path)
{
    struct named named = {.handle = {.handle_bytes = ROOM}};
    int mount;
    if (name_to_handle_at(AT_FDCWD, path, &named.handle, &mount, 0) != 0)
        return failed(path);
    printf("%08x", (unsigned)named.handle.handle_type);
    for (unsigned i = 0; i < named.handle.handle_bytes; i++)
        printf("%02x", named.handle.f_handle[i]);
    printf("\n");
    return 0;
}

static int open_handle(const char *mount, const char *digits)
{
    struct named named = {.handle = {.handle_bytes = 0}};
    unsigned value;
    if (sscanf(digits, "%8x", &value) != 1)
        return failed("handle");
    named.handle.handle_type = (int)value;
    for (digits += 8; sscanf(digits, "%2x", &value) == 1; digits += 2)
        named.handle.f_handle[named.handle.handle_bytes++] = (unsigned char)value;
    int top = open(mount, O_RDONLY | O_DIRECTORY);
    return top < 0 ? -1 : open_by_handle_at(top, &named.handle, O_RDONLY);
}

static int print(int file)
{
    struct stat stat;
    if (fstat(file, &stat) != 0)
        return failed("stat");
    if (S_ISDIR(stat.st_mode)) {
        DIR *directory = fdopendir(file);
        for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
            if (entry->d_name[0] != '.')
                printf("%s\n", entry->d_name);
        return 0;
    }
    char bytes[4096];
    ssize_t length;
    while ((length = read(file, bytes, sizeof bytes)) > 0)
        fwrite(bytes, 1, (size_t)length, stdout);
    return length < 0 ? failed("read") : 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "name") == 0)
        return name(argv[2]);
    if (argc != 4)
        return 2;
    int file = open_handle(argv[2], argv[3]);
    if (file < 0)
        return failed("open");
    if (strcmp(argv[1], "up") == 0) {
        int above = openat(file, "..", O_RDONLY | O_DIRECTORY);
        return above < 0 ? failed("..") : print(above);
    }
    return print(file);
}
