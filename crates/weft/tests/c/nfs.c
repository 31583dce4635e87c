/* A client of NFS at work on an export: nfs URL-OF-THE-EXPORT
 *
 * Makes, lists, reads, copies, renames and removes, and prints what went wrong.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <nfsc/libnfs.h>

static struct nfs_context *nfs;

static void must(const char *what, int returned)
{
    if (returned < 0) {
        printf("%s: %s\n", what, nfs_get_error(nfs));
        exit(1);
    }
}

static void check(const char *what, int holds)
{
    if (!holds) {
        printf("wrong: %s\n", what);
        exit(1);
    }
}

static void write_file(const char *path, const char *bytes, uint64_t length)
{
    struct nfsfh *file;
    must(path, nfs_creat(nfs, path, 0644, &file));
    for (uint64_t at = 0; at < length;) {
        uint64_t part = length - at < 65536 ? length - at : 65536;
        int wrote = nfs_pwrite(nfs, file, at, part, bytes + at);
        must("write", wrote);
        at += (uint64_t)wrote;
    }
    must("sync", nfs_fsync(nfs, file));
    must("close", nfs_close(nfs, file));
}

static uint64_t read_file(const char *path, char *bytes, uint64_t length)
{
    struct nfsfh *file;
    uint64_t at = 0;
    must(path, nfs_open(nfs, path, O_RDONLY, &file));
    for (int got = 1; got > 0 && at < length; at += (uint64_t)got) {
        uint64_t part = length - at < 65536 ? length - at : 65536;
        got = nfs_pread(nfs, file, at, part, bytes + at);
        must("read", got);
    }
    must("close", nfs_close(nfs, file));
    return at;
}

static int listed(const char *directory, const char *name)
{
    struct nfsdir *names;
    int found = 0;
    must(directory, nfs_opendir(nfs, directory, &names));
    for (struct nfsdirent *entry; (entry = nfs_readdir(nfs, names)) != NULL;)
        found += strcmp(entry->name, name) == 0;
    nfs_closedir(nfs, names);
    return found;
}

int main(int argc, char **argv)
{
    enum { LENGTH = 3000000, MANY = 3000 };
    char name[256], path[512], *sent = malloc(LENGTH), *got = malloc(LENGTH);
    struct nfs_stat_64 stat;
    if (argc != 2 || (nfs = nfs_init_context()) == NULL)
        return 2;
    struct nfs_url *url = nfs_parse_url_dir(nfs, argv[1]);
    check("the URL", url != NULL);
    must("mount", nfs_mount(nfs, url->server, url->path));

    /* Bytes there and back, a copy, and a file that the mount made beyond 4 GiB. */
    for (int i = 0; i < LENGTH; i++)
        sent[i] = (char)(i * 7 + i / 251);
    must("mkdir", nfs_mkdir(nfs, "/new"));
    write_file("/new/file", sent, LENGTH);
    check("all bytes", read_file("/new/file", got, LENGTH) == LENGTH && memcmp(sent, got, LENGTH) == 0);
    write_file("/new/copy", got, LENGTH);
    must("stat", nfs_stat64(nfs, "/sparse", &stat));
    check("the size of a large file", stat.nfs_size == (5ULL << 30) + 4);
    struct nfsfh *sparse;
    must("open", nfs_open(nfs, "/sparse", O_RDONLY, &sparse));
    must("read", nfs_pread(nfs, sparse, 5ULL << 30, 4, got));
    check("bytes behind 4 GiB", memcmp(got, "end\n", 4) == 0);
    must("close", nfs_close(nfs, sparse));

    /* Names of 255 bytes, and more of them than one answer holds. */
    memset(name, 'n', 255);
    name[255] = 0;
    must("mkdir", nfs_mkdir(nfs, "/many"));
    for (int i = 0; i < MANY; i++) {
        struct nfsfh *file;
        memcpy(name, (char[]){(char)('a' + i % 26), (char)('a' + i / 26 % 26), (char)('a' + i / 676)}, 3);
        snprintf(path, sizeof path, "/many/%s", name);
        must("create", nfs_creat(nfs, path, 0600, &file));
        must("close", nfs_close(nfs, file));
    }
    struct nfsdir *names;
    int count = 0;
    must("list", nfs_opendir(nfs, "/many", &names));
    for (struct nfsdirent *entry; (entry = nfs_readdir(nfs, names)) != NULL;)
        count += strlen(entry->name) == 255;
    nfs_closedir(nfs, names);
    check("the number of names", count == MANY);

    /* Renames, removals, attributes. */
    must("rename", nfs_rename(nfs, "/new/file", "/new/renamed"));
    check("the new name", listed("/new", "renamed") && !listed("/new", "file"));
    must("rename", nfs_rename(nfs, "/new/renamed", "/new/copy"));
    must("chmod", nfs_chmod(nfs, "/new/copy", 0640));
    must("stat", nfs_stat64(nfs, "/new/copy", &stat));
    check("mode and size", (stat.nfs_mode & 0777) == 0640 && stat.nfs_size == LENGTH);
    must("truncate", nfs_truncate(nfs, "/new/copy", 1000));
    check("the length", read_file("/new/copy", got, LENGTH) == 1000 && memcmp(sent, got, 1000) == 0);
    must("link", nfs_symlink(nfs, "copy", "/new/link"));
    must("unlink", nfs_unlink(nfs, "/new/copy"));
    check("a removed file", nfs_stat64(nfs, "/new/copy", &stat) == -ENOENT);
    must("unlink", nfs_unlink(nfs, "/new/link"));
    must("rmdir", nfs_rmdir(nfs, "/new"));
    printf("all calls of NFS did what they should\n");
    nfs_destroy_url(url);
    nfs_destroy_context(nfs);
    free(sent);
    free(got);
    return 0;
}
