/* Names, attributes, checkpoints, quotas, forks, locks, policies. */
#include "expect.h"

static char seen[4096];

static int note(void *context, const char *name, const weft_attributes *attributes)
{
    EXPECT(context == seen && attributes->size == sizeof *attributes);
    snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s:%u:%" PRIu64 " ", name,
             attributes->kind, attributes->kind == WEFT_KIND_FILE ? attributes->length : 0);
    return strcmp(name, "stop") == 0 ? 42 : 0;
}

static int note_checkpoint(void *context, const char *name, const weft_checkpoint *checkpoint)
{
    *(uint64_t *)context = checkpoint->number;
    return strcmp(name, "first") == 0 ? 0 : 7;
}

static int note_quota(void *context, const char *path, const weft_quota *quota)
{
    if (quota->kind == WEFT_QUOTA_TREE && strcmp(path, "/names") == 0) {
        EXPECT(quota->bytes_max == 1 << 20 && quota->files_max == WEFT_UNBOUNDED);
        ++*(int *)context;
    }
    return 0;
}

static int note_fork(void *context, uint32_t cell, const char *fork, uint64_t size)
{
    if (strcmp(fork, "index") == 0) {
        EXPECT(cell == 1 && size == 4);
        ++*(int *)context;
    }
    return 0;
}

static void names(const weft_volume *volume)
{
    weft_attributes found = {.size = sizeof found};
    char text[64];
    RETURNS(0, weft_mkdir(volume, "/names", 0755));
    FAILS(EEXIST, "/names", weft_mkdir(volume, "/names", 0755));
    weft_file *file = make_file(volume, "/names/file", 2, 16);
    weft_view *view = whole(file);
    RETURNS(5, weft_write_at(view, "hello", 5, 0, 0));
    RETURNS(0, weft_file_stat(file, &found));
    EXPECT(found.length == 5 && found.cells == 2 && found.bsu == 16 && found.mode == 0644);
    weft_view_close(view);
    RETURNS(0, weft_file_close(file));
    RETURNS(0, weft_stat(volume, "/names/file", &found));
    EXPECT(found.kind == WEFT_KIND_FILE && found.length == 5 && found.links == 1);
    RETURNS(0, weft_link(volume, "/names/file", "/names/also"));
    RETURNS(0, weft_symlink(volume, "file", "/names/link"));
    RETURNS(4, weft_readlink(volume, "/names/link", text, sizeof text));
    EXPECT(strcmp(text, "file") == 0);
    RETURNS(4, weft_readlink(volume, "/names/link", text, 3));
    EXPECT(strcmp(text, "fi") == 0);
    RETURNS(0, weft_lstat(volume, "/names/link", &found));
    EXPECT(found.kind == WEFT_KIND_LINK);
    RETURNS(0, weft_stat(volume, "/names/link", &found));
    EXPECT(found.kind == WEFT_KIND_FILE && found.links == 2);
    FAILS(ENOENT, "/names/none", weft_stat(volume, "/names/none", &found));
    RETURNS(0, weft_list(volume, "/names", note, seen));
    EXPECT(strcmp(seen, "also:1:5 file:1:5 link:3:0 ") == 0);
    RETURNS(0, weft_rename(volume, "/names/also", "/names/stop", 0));
    FAILS(EEXIST, "", weft_rename(volume, "/names/file", "/names/stop", WEFT_RENAME_NEW));
    RETURNS(0, weft_rename(volume, "/names/link", "/names/stop", WEFT_RENAME_EXCHANGE));
    RETURNS(0, weft_lstat(volume, "/names/stop", &found));
    EXPECT(found.kind == WEFT_KIND_LINK);
    RETURNS(42, weft_list(volume, "/names", note, seen));
    RETURNS(0, weft_unlink(volume, "/names/stop"));
    FAILS(ENOTEMPTY, "", weft_rmdir(volume, "/names"));
    RETURNS(0, weft_truncate(volume, "/names/file", 3));

    weft_changes changes = {.size = sizeof changes, .mode = 0600, .modified = 1000000007};
    changes.fields = WEFT_SET_MODE | WEFT_SET_MODIFIED;
    RETURNS(0, weft_set_attributes(volume, "/names/file", &changes));
    RETURNS(0, weft_stat(volume, "/names/file", &found));
    EXPECT(found.mode == 0600 && found.modified == 1000000007 && found.length == 3);
}

static void attributes(const weft_volume *volume)
{
    char value[64];
    const char *path = "/names/file";
    RETURNS(0, weft_xattr_set(volume, path, "user.note", "abc", 3, WEFT_XATTR_CREATE));
    FAILS(EEXIST, "", weft_xattr_set(volume, path, "user.note", "x", 1, WEFT_XATTR_CREATE));
    FAILS(ENODATA, "", weft_xattr_set(volume, path, "user.none", "x", 1, WEFT_XATTR_REPLACE));
    RETURNS(3, weft_xattr_get(volume, path, "user.note", value, sizeof value));
    EXPECT(memcmp(value, "abc", 3) == 0);
    RETURNS(3, weft_xattr_get(volume, path, "user.note", NULL, 0));
    RETURNS(10, weft_xattr_list(volume, path, value, sizeof value));
    EXPECT(strcmp(value, "user.note") == 0);
    RETURNS(0, weft_xattr_remove(volume, path, "user.note"));
    FAILS(ENODATA, "", weft_xattr_get(volume, path, "user.note", value, sizeof value));
}

static void checkpoints(const weft_volume *volume)
{
    weft_checkpoint made = {.size = sizeof made};
    weft_file *file = make_file(volume, "/kept", 2, 16);
    weft_view *view = whole(file), *old;
    char got[4] = "";
    uint64_t number = 0;
    RETURNS(3, weft_write_at(view, "one", 3, 0, 0));
    RETURNS(0, weft_checkpoint_make(volume, "/kept", "first", &made));
    EXPECT(made.length == 3);
    RETURNS(3, weft_write_at(view, "two", 3, 0, 0));
    RETURNS(0, weft_checkpoint_list(volume, "/kept", note_checkpoint, &number));
    EXPECT(number == made.number);
    RETURNS(0, weft_view_of_checkpoint(view, number, &old));
    RETURNS(3, weft_read_at(old, got, 3, 0));
    EXPECT(strcmp(got, "one") == 0);
    weft_view_close(old);
    RETURNS(0, weft_roll_back(volume, "/kept", "first"));
    RETURNS(3, weft_read_at(view, got, 3, 0));
    EXPECT(strcmp(got, "one") == 0);
    RETURNS(0, weft_checkpoint_remove(volume, "/kept", "first"));
    FAILS(ENOENT, "first", weft_roll_back(volume, "/kept", "first"));
    weft_view_close(view);
    RETURNS(0, weft_file_close(file));
}

static void quotas(const weft_volume *volume)
{
    int trees = 0;
    RETURNS(0, weft_quota_set(volume, WEFT_QUOTA_TREE, 0, "/names", 1 << 20, WEFT_UNBOUNDED));
    RETURNS(0, weft_quota_list(volume, note_quota, &trees));
    EXPECT(trees == 1);
    FAILS(EDQUOT, "", weft_truncate(volume, "/names/file", 2 << 20));
    RETURNS(0, weft_quota_clear(volume, WEFT_QUOTA_TREE, 0, "/names"));
    RETURNS(0, weft_quota_list(volume, note_quota, &trees));
    EXPECT(trees == 1);
    FAILS(EINVAL, "no kind", weft_quota_clear(volume, 9, 0, NULL));
}

static void forks(const weft_volume *volume)
{
    int forks = 0;
    char got[5] = "";
    weft_view *view;
    weft_file *file = make_file(volume, "/forked", 2, 16);
    RETURNS(0, weft_fork_create(file, 1, "index"));
    RETURNS(0, weft_view_cell(file, 1, "index", &view));
    RETURNS(4, weft_write_at(view, "fork", 4, 0, 0));
    RETURNS(4, weft_read_at(view, got, 4, 0));
    EXPECT(strcmp(got, "fork") == 0);
    RETURNS(0, weft_fork_list(file, note_fork, &forks));
    EXPECT(forks == 1);
    weft_view_close(view);
    RETURNS(0, weft_fork_remove(file, 1, "index"));
    RETURNS(0, weft_fork_list(file, note_fork, &forks));
    EXPECT(forks == 1);
    RETURNS(0, weft_file_close(file));
}

static void locks_and_policies(const weft_volume *volume)
{
    weft_file *file = make_file(volume, "/locked", 2, 16), *copy;
    weft_view *view = whole(file);
    char name[32];
    RETURNS(0, weft_lock(file, 0, 10, WEFT_LOCK_EXCLUSIVE | WEFT_LOCK_WAIT, 1));
    FAILS(EAGAIN, "/locked", weft_lock(file, 5, 1, WEFT_LOCK_SHARED, 2));
    RETURNS(0, weft_lock(file, 10, 0, WEFT_LOCK_SHARED, 2));
    RETURNS(0, weft_unlock(file, 0, 10, 1));
    RETURNS(0, weft_lock(file, 5, 1, WEFT_LOCK_SHARED, 2));
    FAILS(EINVAL, "shared or exclusive", weft_lock(file, 0, 1, 8, 1));

    RETURNS(0, weft_file_policy(file, name, sizeof name));
    EXPECT(strcmp(name, "") == 0);
    RETURNS(0, weft_file_set_policy(file, "session"));
    RETURNS(7, weft_file_policy(file, name, sizeof name));
    EXPECT(strcmp(name, "session") == 0);
    RETURNS(3, weft_write_at(view, "abc", 3, 0, 0));
    RETURNS(0, weft_file_set_policy(file, NULL));
    FAILS(EINVAL, "nonsense", weft_file_set_policy(file, "nonsense"));

    copy = make_file(volume, "/copied", 3, 10);
    RETURNS(3, weft_copy(file, 0, copy, 7, 100));
    RETURNS(10, weft_file_size(copy));
    RETURNS(0, weft_file_extend(copy, 100));
    RETURNS(0, weft_file_extend(copy, 50));
    RETURNS(100, weft_file_size(copy));
    RETURNS(0, weft_file_truncate(copy, 8));
    RETURNS(8, weft_file_size(copy));
    weft_view_close(view);
    RETURNS(0, weft_file_close(copy));
    RETURNS(0, weft_file_close(file));
}

int main(void)
{
    weft_volume *volume = connect_volume();
    names(volume);
    attributes(volume);
    checkpoints(volume);
    quotas(volume);
    forks(volume);
    locks_and_policies(volume);
    RETURNS(0, weft_sync_names(volume));
    weft_disconnect(volume);
    return 0;
}
