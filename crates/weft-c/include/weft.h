/*
 * weft.h - the client of a Weft volume for C and C++
 *
 * Link with -lweft, or ask pkg-config for "weft". docs/interfaces/c.md is the guide.
 *
 * Returns. A function that returns int gives 0, or a negative errno; one that returns int64_t gives
 * a count, or a negative errno. weft_error_message() says why the last call of the thread failed.
 * No function sets errno, prints anything, or ends the process.
 *
 * Handles. What begins with weft_ and is only known by pointer is a handle. The function that makes
 * one stores it through its last argument, and the caller frees it with the function that is named
 * for it. Nothing is stored when the function fails. Handles may be freed in any order: a view keeps
 * its file, a file its volume.
 *
 * Threads. Any thread may use any handle, several at a time, where nothing else is said. After
 * fork() the handles of the parent are refused in the child with -EBADF: see weft_after_fork().
 * A handle is freed while no other thread uses it. Signals do not interrupt a call.
 *
 * Structures. Those with a field `size` must have it set to their sizeof, which tells the library
 * for which version of this header the program was compiled; what is not used is 0.
 *
 * Texts. Paths are bytes, from the root of the volume with or without a leading '/', and end with
 * NUL; all other texts are UTF-8.
 * Offsets and lengths are in bytes. No offset is larger than INT64_MAX.
 */

#ifndef WEFT_H
#define WEFT_H

/* Generated from crates/weft-c by its test header.rs: change that, not this. */

#include <stddef.h>
#include <stdint.h>

// In weft_attributes.kind: a regular file.
#define WEFT_KIND_FILE 1

// In weft_attributes.kind: a directory.
#define WEFT_KIND_DIRECTORY 2

// In weft_attributes.kind: a symbolic link.
#define WEFT_KIND_LINK 3

// In weft_attributes.kind: a device, a socket or a FIFO.
#define WEFT_KIND_OTHER 4

// Bytes of the name of a policy with its NUL, in weft_attributes.
#define WEFT_POLICY_ROOM 64

// In weft_attach_options.flags: the file will be read; so it is if no flag is given. A file that
// is attached for writing can be read, too.
#define WEFT_READ 1

// In weft_attach_options.flags: the file will be written.
#define WEFT_WRITE 2

// In weft_attach_options.flags: create the file if it is not there.
#define WEFT_CREATE 4

// In weft_attach_options.flags, with WEFT_CREATE: fail with -EEXIST if it is there.
#define WEFT_EXCLUSIVE 8

// In weft_attach_options.flags: operations are cautious. Each is atomic, and all happen in one
// order on all servers. Without it each server does its part when it arrives, which is faster.
#define WEFT_CAUTIOUS 16

// In weft_attach_options.flags: fail with -ELOOP if the path ends in a symbolic link.
#define WEFT_NOFOLLOW 32

// In weft_layout.storage: as the directory or the volume says.
#define WEFT_STORAGE_DEFAULT 0

// In weft_layout.storage: chunks are found by their place.
#define WEFT_STORAGE_PLAIN 1

// In weft_layout.storage: chunks are found by their contents, and stored once.
#define WEFT_STORAGE_ADDRESSED 2

// For weft_lock(): a lock that others may share.
#define WEFT_LOCK_SHARED 1

// For weft_lock(): a lock that excludes all others.
#define WEFT_LOCK_EXCLUSIVE 2

// For weft_lock(): wait until the lock can be granted.
#define WEFT_LOCK_WAIT 4

// In weft_group_options.missing: a collective fails for all if a member does not come.
#define WEFT_MISSING_FAIL 0

// In weft_group_options.missing: it is done without members that do not come.
#define WEFT_MISSING_GO_ON 1

// In weft_group_options.overlaps: a collective write is refused if members write the same bytes.
#define WEFT_OVERLAPS_REFUSE 0

// In weft_group_options.overlaps: the bytes of the member with the highest number stay.
#define WEFT_OVERLAPS_MEMBER_ORDER 1

// For weft_rename(): fail with -EEXIST if the new name is there.
#define WEFT_RENAME_NEW 1

// For weft_rename(): exchange both names.
#define WEFT_RENAME_EXCHANGE 2

// In weft_changes.fields: change `mode`.
#define WEFT_SET_MODE 1

// In weft_changes.fields: change `uid`.
#define WEFT_SET_UID 2

// In weft_changes.fields: change `gid`.
#define WEFT_SET_GID 4

// In weft_changes.fields: change `accessed`.
#define WEFT_SET_ACCESSED 8

// In weft_changes.fields: change `modified`.
#define WEFT_SET_MODIFIED 16

// In weft_changes.fields: change the layout that a directory gives to new files.
#define WEFT_SET_LAYOUT 32

// In weft_changes.fields: change the consistency policy.
#define WEFT_SET_POLICY 64

// In weft_changes.accessed and weft_changes.modified: the time of the metadata service.
#define WEFT_TIME_NOW INT64_MIN

// For weft_xattr_set(): fail with -EEXIST if the attribute is there.
#define WEFT_XATTR_CREATE 1

// For weft_xattr_set(): fail with -ENODATA if the attribute is not there.
#define WEFT_XATTR_REPLACE 2

// For quotas: a user.
#define WEFT_QUOTA_USER 1

// For quotas: a group.
#define WEFT_QUOTA_GROUP 2

// For quotas: a directory and what lies below it.
#define WEFT_QUOTA_TREE 3

// For quotas: no bound.
#define WEFT_UNBOUNDED UINT64_MAX

// In weft_request.flags, and for writes: the bytes survive power loss when the call returns, not
// only the death of any process.
#define WEFT_SYNCED 1

// In weft_request.flags, and for weft_write_list(): a write may touch a byte of the file more than
// once; what is named last stays.
#define WEFT_LAST_WINS 2

// For weft_view_subfile(): column by column in a block, blocks by rows.
#define WEFT_ORDER_DEFAULT 0

// For weft_view_subfile(): BSU by BSU across all cells of the subfile.
#define WEFT_ORDER_ROW 1

// For weft_view_subfile(): the bytes of one call lie in memory cell by cell.
#define WEFT_ORDER_COLUMN 2

// An attached file. Any thread may use it; views of it keep it attached.
typedef struct weft_file weft_file;

// A member's place in a group of processes or threads that make collective calls.
//
// All members call collectives of a group in the same order, shared pointers with a group
// included. A collective that fails counts, so that members stay in step. One thread at a time
// uses a member.
typedef struct weft_group weft_group;

// An operation in the background: posted now, tested and waited for later.
//
// Its memory belongs to it until weft_operation_wait() or weft_operation_cancel() has returned.
// One thread at a time tests an operation or waits for it.
typedef struct weft_operation weft_operation;

// Which bytes one call touches, relative to where it begins: contiguous, strided, nested, a
// sequence, or a list, and any of these inside another.
//
// One may be nested 16 levels deep and have 4096 parts; the runs of a list do not count.
//
// Patterns describe bytes of a file and of memory alike. They are values: a function that makes
// one of others copies them, and each is freed by itself. Threads may share one.
typedef struct weft_pattern weft_pattern;

// A pointer into a view that all processes share which name it so.
typedef struct weft_pointer weft_pointer;

// What a program sees of a file: a linear sequence of bytes, with a pointer of its own. Making one
// sends no message.
//
// Any thread may use it. It keeps its file attached until both are closed.
typedef struct weft_view weft_view;

// A connection to a volume, for all threads of a process.
typedef struct weft_volume weft_volume;

// A checkpoint of a file or a tree. Set `size` to sizeof(weft_checkpoint) before it is filled.
typedef struct weft_checkpoint {
    // sizeof(weft_checkpoint).
    size_t size;
    // Its number, for weft_view_of_checkpoint().
    uint64_t number;
    // When it was made, nanoseconds since 1970.
    int64_t made;
    // Bytes of the file in it, or of all files of the tree.
    uint64_t length;
    // Names in the tree; of a file 0.
    uint64_t names;
} weft_checkpoint;

// The layout of a new file. Set `size` to sizeof(weft_layout); what is 0 or NULL is as the
// directory or the volume says.
typedef struct weft_layout {
    // sizeof(weft_layout).
    size_t size;
    // Bytes of a basic striping unit.
    uint64_t bsu;
    // Cells.
    uint32_t cells;
    // Bytes of a chunk, the unit in which servers store it.
    uint32_t chunk;
    // Ids of the servers in order; cell i is on the one with index i modulo their number.
    const uint32_t *servers;
    // How many `servers` there are.
    size_t server_count;
    // A constant WEFT_STORAGE_*.
    uint32_t storage;
    // Only servers with at least so many replicas.
    uint32_t replicas;
} weft_layout;

// How to attach a file. Set `size` to sizeof(weft_attach_options), and what you do not use to 0.
typedef struct weft_attach_options {
    // sizeof(weft_attach_options).
    size_t size;
    // Constants WEFT_READ, WEFT_WRITE and so on, combined with |.
    uint32_t flags;
    // Permission bits of a new file, such as 0644.
    uint32_t mode;
    // Bits that `mode` loses, unless the directory's default ACL decides.
    uint32_t umask;
    // 0.
    uint32_t reserved;
    // Layout of a new file; NULL: as the directory or the volume says.
    const struct weft_layout *layout;
    // Consistency policy of this attachment, such as "session"; NULL: that of the file.
    const char *policy;
} weft_attach_options;

// What a file is. Set `size` to sizeof(weft_attributes) before it is filled. Times are nanoseconds
// since 1970.
typedef struct weft_attributes {
    // sizeof(weft_attributes).
    size_t size;
    // The file's number in the volume, its inode number on a mount.
    uint64_t id;
    // A constant WEFT_KIND_*.
    uint32_t kind;
    // Permission bits.
    uint32_t mode;
    // Owner.
    uint32_t uid;
    // Group.
    uint32_t gid;
    // Names.
    uint32_t links;
    // Cells of a regular file, or what a directory gives to new ones; 0: the volume's.
    uint32_t cells;
    // Bytes of the file in canonical order.
    uint64_t length;
    // Last access.
    int64_t accessed;
    // Last modification.
    int64_t modified;
    // Last change of attributes.
    int64_t changed;
    // Creation.
    int64_t created;
    // Bytes of a basic striping unit.
    uint64_t bsu;
    // Bytes of a chunk.
    uint32_t chunk;
    // Servers.
    uint32_t server_count;
    // WEFT_STORAGE_PLAIN or WEFT_STORAGE_ADDRESSED; 0 for what has no layout.
    uint32_t storage;
    // 0.
    uint32_t reserved;
    // Name of the consistency policy; "": none.
    char policy[WEFT_POLICY_ROOM];
} weft_attributes;

// How a group works. Set `size` to sizeof(weft_group_options), and what you do not use to 0. All
// members say the same.
typedef struct weft_group_options {
    // sizeof(weft_group_options).
    size_t size;
    // Number of the next collective; the one after it has the next number.
    uint64_t sequence;
    // Milliseconds that a server waits after the first member's arrival, at most an hour; 0: 30 s.
    uint32_t wait_ms;
    // A constant WEFT_MISSING_*.
    uint32_t missing;
    // A constant WEFT_OVERLAPS_*.
    uint32_t overlaps;
    // 0.
    uint32_t reserved;
} weft_group_options;

// Which bytes of a view one call moves, and where they lie in memory. Set `size` to
// sizeof(weft_request), and what you do not use to 0.
//
// The bytes of both patterns are numbered in the order in which each names them; byte n of the one
// is byte n of the other. However many bytes and runs there are, a call sends one request to each
// server that holds any of them.
typedef struct weft_request {
    // sizeof(weft_request).
    size_t size;
    // Where the pattern begins in the view, in bytes.
    uint64_t offset;
    // Which bytes of the view; NULL: as many consecutive ones as the buffer has.
    const struct weft_pattern *pattern;
    // Where they lie in memory; NULL: one after the other.
    const struct weft_pattern *memory;
    // Where the pattern in memory begins in the buffer, in bytes: for those that go backwards.
    uint64_t memory_offset;
    // WEFT_SYNCED, WEFT_LAST_WINS, or both; of reads 0.
    uint32_t flags;
    // 0.
    uint32_t reserved;
} weft_request;

// Changes of attributes. Set `size` to sizeof(weft_changes), and what you do not use to 0.
typedef struct weft_changes {
    // sizeof(weft_changes).
    size_t size;
    // What to change: constants WEFT_SET_*, combined with |.
    uint32_t fields;
    // Permission bits.
    uint32_t mode;
    // Owner.
    uint32_t uid;
    // Group.
    uint32_t gid;
    // Last access, nanoseconds since 1970, or WEFT_TIME_NOW.
    int64_t accessed;
    // Last modification, likewise.
    int64_t modified;
    // Layout for new files of a directory.
    const struct weft_layout *layout;
    // Name of a consistency policy; NULL: none from now on.
    const char *policy;
} weft_changes;

// A run of bytes in a pattern.
typedef struct weft_run {
    // Where it begins, in bytes from where the pattern begins; may be negative.
    int64_t displacement;
    // Its bytes.
    uint64_t length;
} weft_run;

// Elements of one dimension of an array: `count` blocks of `block` elements, `stride` apart.
typedef struct weft_slab {
    // The first element, from 0.
    uint64_t start;
    // From the first element of one block to that of the next; at least 1.
    uint64_t stride;
    // Blocks.
    uint64_t count;
    // Elements of each block.
    uint64_t block;
} weft_slab;

// A user, group or tree with what it uses and may use.
typedef struct weft_quota {
    // sizeof(weft_quota).
    size_t size;
    // A constant WEFT_QUOTA_*.
    uint32_t kind;
    // 0.
    uint32_t reserved;
    // User or group; of a tree the directory's id.
    uint64_t id;
    // Bytes of regular files, holes included.
    uint64_t bytes;
    // Files, directories and other inodes.
    uint64_t files;
    // The most bytes, or WEFT_UNBOUNDED.
    uint64_t bytes_max;
    // The most files, or WEFT_UNBOUNDED.
    uint64_t files_max;
} weft_quota;

// One run of a list call: bytes of the view, and memory of their own.
typedef struct weft_io_run {
    // Where it begins in the view, in bytes.
    uint64_t offset;
    // Its memory; not changed by a write.
    void *buffer;
    // Its bytes.
    size_t length;
} weft_io_run;

// How to connect to a volume. Set `size` to sizeof(weft_connect_options), and what you do not use
// to 0.
//
// If neither `folder` nor `address` is given, the environment says which volume it is, as for the
// command `weft`: WEFT_VOLUME names its folder, or WEFT_ADDRESS and WEFT_KEY_FILE its address and
// the file with its key.
typedef struct weft_connect_options {
    // sizeof(weft_connect_options).
    size_t size;
    // Folder of the volume, as made by `weft up` or `weft format`.
    const char *folder;
    // HOST:PORT of the metadata service; needs `key_file`.
    const char *address;
    // File with the volume's key, readable by its owner only.
    const char *key_file;
    // What `weft status` calls this client.
    const char *name;
    // The job or application of this process, if not what WEFT_APPLICATION, Slurm, PBS or LSF say.
    // Operations of several applications on a file that one of them writes are cautious.
    const char *application;
    // Consistency policy of files that have none of their own, such as "posix".
    const char *policy;
    // Nonzero: changes of names are acknowledged before they survive power loss (they survive the
    // death of any process). They do a second later, or after weft_sync_names().
    uint32_t lazy;
    // 0.
    uint32_t reserved;
} weft_connect_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes a checkpoint of a file, or of all that is below a directory: one request, whatever the
// size. Each write to one server is wholly before or wholly after it. Fills *checkpoint unless it
// is NULL.
//
// Returns 0, or a negative errno.
int weft_checkpoint_make(const struct weft_volume *volume,
                         const char *path,
                         const char *name,
                         struct weft_checkpoint *checkpoint);

// Calls `visit` for every checkpoint of a file or directory in the order in which they were made,
// with its name. It stops at the first call that does not return 0, and returns that.
//
// Returns 0, what `visit` returned, or a negative errno. `visit` runs on the calling thread and
// may call this library.
int weft_checkpoint_list(const struct weft_volume *volume,
                         const char *path,
                         int (*visit)(void *context,
                                      const char *name,
                                      const struct weft_checkpoint *checkpoint),
                         void *context);

// Removes a checkpoint of a file or directory. Returns 0, or a negative errno.
int weft_checkpoint_remove(const struct weft_volume *volume, const char *path, const char *name);

// Makes a file, or all that is below a directory, what it is in a checkpoint: one request,
// whatever the size. Other checkpoints stay. Returns 0, or a negative errno.
int weft_roll_back(const struct weft_volume *volume, const char *path, const char *name);

// Opens the same view of a checkpoint of its file, by the checkpoint's number, and stores it in
// *old. It can be read, not written. No message. Returns 0, or a negative errno.
int weft_view_of_checkpoint(const struct weft_view *view, uint64_t number, struct weft_view **old);

// Says why the last call of this thread that failed did so: what was attempted, on what, what went
// wrong, and what can be done about it.
//
// The text is UTF-8 without a line break at its end. It is empty if no call of this thread has
// failed yet. It belongs to the library and is valid until the next call of this thread that
// fails. Successful calls do not change it.
const char *weft_error_message(void);

// Returns the version of the library, such as "0.1.0". The text belongs to the library.
const char *weft_version(void);

// Attaches the file at a path from the volume's root and stores it in *file: one request to the
// metadata service, however deep the path. `given` may be NULL for reading.
//
// Returns 0, or a negative errno, as open(2) would.
int weft_attach(const struct weft_volume *volume,
                const char *path,
                const struct weft_attach_options *given,
                struct weft_file **file);

// Writes a description of an attached file into `buffer`, with which other processes adopt it: so
// a whole job attaches a file by one request. Send it by whatever channel the processes have, such
// as MPI_Bcast.
//
// Returns its length, whether or not it fits into `room` bytes, or a negative errno. The process
// that attached the file closes it last.
int64_t weft_file_hand_over(const struct weft_file *file, void *buffer, size_t room);

// Adopts a file that another process has attached and described, and stores it in *file. No
// message. The volume must be the same one.
//
// Returns 0, or a negative errno: -EINVAL if the bytes describe no file.
int weft_adopt(const struct weft_volume *volume,
               const void *handed,
               size_t length,
               struct weft_file **file);

// Closes a file and frees its handle, also when it fails. NULL is allowed.
//
// What was written was acknowledged by its writes; closing reports the file's size, and writes out
// what a policy has delayed. Returns 0, or a negative errno if some of that failed.
int weft_file_close(struct weft_file *file);

// Waits until everything that was written to a file by this process survives power loss: one
// request to each server that was written to.
//
// Returns 0, or a negative errno. After a failure some of it is lost or may be: a later call that
// succeeds does not make up for it.
int weft_file_sync(const struct weft_file *file);

// Returns the size of a file in bytes, in canonical order, or a negative errno.
int64_t weft_file_size(const struct weft_file *file);

// Makes a file `size` bytes long: what is beyond is gone, what is new is a hole. Returns 0, or a
// negative errno.
int weft_file_truncate(const struct weft_file *file, uint64_t size);

// Makes a file at least `size` bytes long, and never shorter. Returns 0, or a negative errno.
int weft_file_extend(const struct weft_file *file, uint64_t size);

// Fills *attributes with what a file is now. Set its `size` before. Returns 0, or a negative
// errno.
int weft_file_stat(const struct weft_file *file, struct weft_attributes *attributes);

// Writes the name of the policy that a file is used with into `name`, "" if none: `room` - 1 bytes
// of it at most, and a NUL. Returns the length of the whole name, or a negative errno: it was cut
// if that is not below `room`.
int64_t weft_file_policy(const struct weft_file *file, char *name, size_t room);

// Uses a file with another consistency policy from now on; NULL: without one. Local to this
// attachment. Returns 0, or a negative errno: -EINVAL if there is no such policy, or the file
// cannot have it.
int weft_file_set_policy(const struct weft_file *file, const char *policy);

// Copies `length` bytes, as far as `from` reaches, between files of one volume, by the servers
// where they can. Offsets are in canonical order. Returns how many, or a negative errno.
int64_t weft_copy(const struct weft_file *from,
                  uint64_t from_offset,
                  const struct weft_file *to,
                  uint64_t to_offset,
                  uint64_t length);

// Creates an empty fork in a cell of a file; it is no error if it is there. Returns 0, or a
// negative errno.
int weft_fork_create(const struct weft_file *file, uint32_t cell, const char *fork);

// Removes a fork of a cell with its bytes. Returns 0, or a negative errno.
int weft_fork_remove(const struct weft_file *file, uint32_t cell, const char *fork);

// Calls `visit` for every fork of every cell of a file, in ascending order, with its cell, its
// name and its size in bytes. It stops at the first call that does not return 0, and returns that.
//
// Returns 0, what `visit` returned, or a negative errno. `visit` runs on the calling thread and
// may call this library.
int weft_fork_list(const struct weft_file *file, int (*visit)(void *context,
                                                              uint32_t cell,
                                                              const char *fork,
                                                              uint64_t size), void *context);

// Locks `length` bytes of a file from `offset` on, between all clients of the volume; 0 for
// `length`: to the end, whatever it will be. `how` is WEFT_LOCK_SHARED or WEFT_LOCK_EXCLUSIVE,
// with | WEFT_LOCK_WAIT to wait.
//
// `owner` is any number that tells the holders of a process apart. Locks are advice: data can be
// accessed without. Programs on mounts that use fcntl(2) see them.
//
// Returns 0, or a negative errno: -EAGAIN if a lock is in the way, -EDEADLK, -ENOLCK.
int weft_lock(const struct weft_file *file,
              uint64_t offset,
              uint64_t length,
              uint32_t how,
              uint64_t owner);

// Releases what an owner has locked of `length` bytes from `offset` on; it is no error if nothing
// is. Returns 0, or a negative errno.
int weft_unlock(const struct weft_file *file, uint64_t offset, uint64_t length, uint64_t owner);

// Makes member `member` (from 0) of a group of `members` and stores it in *group. No message:
// members agree on the id by whatever channel they have.
//
// `id` is 1 to 64 bytes that no other group uses at the same time, such as the job's id and a
// number. There are at most 1024 members. `given` may be NULL.
//
// Returns 0, or -EINVAL.
int weft_group_create(const char *id,
                      uint32_t members,
                      uint32_t member,
                      const struct weft_group_options *given,
                      struct weft_group **group);

// Frees a group's member. NULL is allowed. Operations that were posted with it go on.
void weft_group_free(struct weft_group *group);

// Reads the bytes of this member's request while the other members read theirs: one request of
// each member to each server, which reads its part of the file once for all.
//
// Stores in *missing, unless it is NULL, how many members it was done without; always 0 with
// WEFT_MISSING_FAIL. Returns how many bytes were moved for this member, or a negative errno: of
// weft_read_request(), or -ETIMEDOUT naming the members that did not come.
int64_t weft_collective_read(const struct weft_view *view,
                             const struct weft_group *group,
                             const struct weft_request *request,
                             void *buffer,
                             size_t length,
                             uint32_t *missing);

// Writes the bytes of this member's request while the other members write theirs: one request of
// each member to each server, which writes its part of the file in the order of the disk.
//
// It returns when the bytes of all members are written: they survive the death of any process, and
// with WEFT_SYNCED power loss. `missing` and what is returned are as of weft_collective_read().
int64_t weft_collective_write(const struct weft_view *view,
                              const struct weft_group *group,
                              const struct weft_request *request,
                              const void *buffer,
                              size_t length,
                              uint32_t *missing);

// Fills *attributes with what a path names; of a symbolic link with what it leads to. Set `size`
// before. Returns 0, or a negative errno, as stat(2) would.
int weft_stat(const struct weft_volume *volume,
              const char *path,
              struct weft_attributes *attributes);

// As weft_stat(), but of a symbolic link itself.
int weft_lstat(const struct weft_volume *volume,
               const char *path,
               struct weft_attributes *attributes);

// Calls `visit` for every name in a directory, in the order of the names' bytes, without "." and
// "..", with what it names. It stops at the first call that does not return 0, and returns that.
// The length of a file that is being written is the one last reported.
//
// Returns 0, what `visit` returned, or a negative errno. `visit` runs on the calling thread and
// may call this library.
int weft_list(const struct weft_volume *volume,
              const char *path,
              int (*visit)(void *context, const char *name, const struct weft_attributes *attributes),
              void *context);

// Makes a directory with these permission bits. Returns 0, or a negative errno, as mkdir(2) would.
int weft_mkdir(const struct weft_volume *volume, const char *path, uint32_t mode);

// Removes an empty directory. Returns 0, or a negative errno, as rmdir(2) would.
int weft_rmdir(const struct weft_volume *volume, const char *path);

// Removes a name of a file. Returns 0, or a negative errno, as unlink(2) would.
int weft_unlink(const struct weft_volume *volume, const char *path);

// Renames a file or directory, atomically; what had the new name is gone. `flags` is 0,
// WEFT_RENAME_NEW or WEFT_RENAME_EXCHANGE. Returns 0, or a negative errno, as rename(2) would.
int weft_rename(const struct weft_volume *volume, const char *from, const char *to, uint32_t flags);

// Gives a file one more name. Returns 0, or a negative errno, as link(2) would.
int weft_link(const struct weft_volume *volume, const char *file, const char *name);

// Makes a symbolic link that leads to `target`. Returns 0, or a negative errno, as symlink(2)
// would.
int weft_symlink(const struct weft_volume *volume, const char *target, const char *path);

// Writes where a symbolic link leads into `target`: `room` - 1 bytes of it at most, and a NUL.
// Returns the length of the whole, or a negative errno: it was cut if that is not below `room`.
int64_t weft_readlink(const struct weft_volume *volume,
                      const char *path,
                      char *target,
                      size_t room);

// Makes the file at a path `length` bytes long. Returns 0, or a negative errno.
int weft_truncate(const struct weft_volume *volume, const char *path, uint64_t length);

// Changes attributes of what a path names. Returns 0, or a negative errno, as chmod(2), chown(2)
// and utimensat(2) would.
int weft_set_attributes(const struct weft_volume *volume,
                        const char *path,
                        const struct weft_changes *changes);

// Writes the value of an extended attribute, such as "user.note", into `value`, if it fits into
// `room` bytes. Returns its length in either case, or a negative errno: -ENODATA if it is not
// there.
int64_t weft_xattr_get(const struct weft_volume *volume,
                       const char *path,
                       const char *name,
                       void *value,
                       size_t room);

// Sets an extended attribute to `length` bytes. `flags` is 0, WEFT_XATTR_CREATE or
// WEFT_XATTR_REPLACE. Returns 0, or a negative errno.
int weft_xattr_set(const struct weft_volume *volume,
                   const char *path,
                   const char *name,
                   const void *value,
                   size_t length,
                   uint32_t flags);

// Removes an extended attribute. Returns 0, or a negative errno: -ENODATA if it is not there.
int weft_xattr_remove(const struct weft_volume *volume, const char *path, const char *name);

// Writes the names of all extended attributes into `names`, each with a NUL behind it, if they fit
// into `room` bytes. Returns their bytes in either case, or a negative errno.
int64_t weft_xattr_list(const struct weft_volume *volume,
                        const char *path,
                        char *names,
                        size_t room);

// Posts weft_read_request() and stores the operation in *operation. Never waits.
//
// Operations in flight are in no order, unless the file was attached with WEFT_CAUTIOUS: a read
// posted after a write of the same bytes may see them or not. Wait in between where it matters.
//
// Returns 0, or -EINVAL if an argument is not legal; all other errors are returned by the wait.
int weft_post_read(const struct weft_view *view,
                   const struct weft_request *request,
                   void *buffer,
                   size_t length,
                   struct weft_operation **operation);

// Posts weft_write_request() and stores the operation in *operation; else as weft_post_read().
//
// The buffer must not be changed until the operation has been waited for.
int weft_post_write(const struct weft_view *view,
                    const struct weft_request *request,
                    const void *buffer,
                    size_t length,
                    struct weft_operation **operation);

// Posts weft_collective_read() and stores the operation in *operation; else as weft_post_read().
// The wait fails if the group goes on without members and some were missing, with -ETIMEDOUT.
int weft_post_collective_read(const struct weft_view *view,
                              const struct weft_group *group,
                              const struct weft_request *request,
                              void *buffer,
                              size_t length,
                              struct weft_operation **operation);

// Posts weft_collective_write() and stores the operation in *operation; else as
// weft_post_collective_read().
int weft_post_collective_write(const struct weft_view *view,
                               const struct weft_group *group,
                               const struct weft_request *request,
                               const void *buffer,
                               size_t length,
                               struct weft_operation **operation);

// Posts weft_file_sync() of a view's file and stores the operation in *operation. It covers the
// writes that had been waited for when it was posted.
int weft_post_sync(const struct weft_view *view, struct weft_operation **operation);

// Returns 1 if an operation has ended, 0 if not, or a negative errno. Never waits.
int weft_operation_test(const struct weft_operation *operation);

// Waits until an operation has ended and frees it.
//
// Returns what the blocking call would have returned. After it the memory is the caller's again.
int64_t weft_operation_wait(struct weft_operation *operation);

// Cancels an operation, waits until neither its memory is used any more nor a server works on it,
// and frees it. NULL is allowed.
//
// A cancelled read may have filled any part of its buffer. Of a cancelled write any part may have
// been written; none is written later.
void weft_operation_cancel(struct weft_operation *operation);

// Returns a file descriptor that becomes readable when an operation has ended, for poll(2) and
// epoll(7), or a negative errno. It belongs to the operation and is closed when that is freed.
int weft_operation_descriptor(const struct weft_operation *operation);

// Waits until one of `count` operations has ended, and stores its index in *index. Frees none. It
// waits `timeout_ms` milliseconds at most; -1: as long as it takes.
//
// Returns 0, -ETIMEDOUT if none has ended in time, or -EINVAL. An operation that is NULL is left
// out.
int weft_wait_any(struct weft_operation *const *operations,
                  size_t count,
                  int timeout_ms,
                  size_t *index);

// Makes a pattern of `length` consecutive bytes and stores it in *pattern.
//
// Returns 0, or -EINVAL if `pattern` is NULL.
int weft_pattern_bytes(uint64_t length, struct weft_pattern **pattern);

// Makes a pattern that repeats `body` `times` times, `stride` bytes from one beginning to the
// next, and stores it in *pattern. A negative stride goes backwards.
//
// A strided request repeats bytes; a nested one repeats a repetition. Returns 0, or -EINVAL.
int weft_pattern_repeat(const struct weft_pattern *body,
                        int64_t stride,
                        uint64_t times,
                        struct weft_pattern **pattern);

// Makes a pattern of `count` patterns one after the other, each displaced by so many bytes from
// where the whole begins, and stores it in *pattern.
//
// Repeated, it is a nested-batched request. Returns 0, or -EINVAL.
int weft_pattern_sequence(size_t count,
                          const int64_t *displacements,
                          const struct weft_pattern *const *members,
                          struct weft_pattern **pattern);

// Makes a pattern of `count` runs, in the order in which they lie in memory, and stores it in
// *pattern. Returns 0, or -EINVAL.
int weft_pattern_list(size_t count, const struct weft_run *runs, struct weft_pattern **pattern);

// Makes the pattern of a part of an array of several dimensions, a hyperslab, and stores it in
// *pattern, and in *offset where it begins in the array's bytes.
//
// `array` is the element's type and the shape, as "f64 1000x500" or "i32 8x8x8 column"; u8 to u64,
// i8 to i64, f16 to f64, and bytes12 for 12 bytes of any meaning. There is one slab for each
// dimension, in the order of the shape.
//
// Returns 0, or -EINVAL if the text is no array or the slabs do not fit it.
int weft_pattern_array(const char *array,
                       size_t dimensions,
                       const struct weft_slab *slabs,
                       uint64_t *offset,
                       struct weft_pattern **pattern);

// Returns how many bytes a pattern touches, counted as often as it touches them, or -EINVAL.
int64_t weft_pattern_length(const struct weft_pattern *pattern);

// Frees a pattern. NULL is allowed.
void weft_pattern_free(struct weft_pattern *pattern);

// Opens the shared pointer of a view's file with this name, 1 to 64 bytes without '/', and stores
// it in *pointer. No message. A server of the file keeps it until it is removed, or the file is.
//
// The view stays usable, and is not needed any more. Returns 0, or a negative errno.
int weft_pointer_open(const struct weft_view *view,
                      const char *name,
                      struct weft_pointer **pointer);

// Frees the handle of a shared pointer, which stays where it is. NULL is allowed.
void weft_pointer_close(struct weft_pointer *pointer);

// Takes the next `bytes` bytes of a view for this caller: no other process gets one of them. With
// a group, members take in the order of their numbers, and all of them call it; NULL: without.
//
// Returns where they begin, or a negative errno. One request.
int64_t weft_pointer_take(const struct weft_pointer *pointer,
                          const struct weft_group *group,
                          uint64_t bytes);

// Takes the next `length` bytes, as weft_pointer_take(), and reads them into `buffer`. Returns as
// weft_read_at().
int64_t weft_pointer_read(const struct weft_pointer *pointer,
                          const struct weft_group *group,
                          void *buffer,
                          size_t length);

// Takes the next `length` bytes, as weft_pointer_take(), and writes them from `buffer`. Returns as
// weft_write_at().
int64_t weft_pointer_write(const struct weft_pointer *pointer,
                           const struct weft_group *group,
                           const void *buffer,
                           size_t length);

// Returns where a shared pointer is, or a negative errno. One request.
int64_t weft_pointer_position(const struct weft_pointer *pointer);

// Moves a shared pointer to byte `offset` for all. Returns 0, or a negative errno. One request.
int weft_pointer_seek(const struct weft_pointer *pointer, uint64_t offset);

// Has the server forget a shared pointer: the next one of this name begins at 0. Returns 0, or a
// negative errno. One request.
int weft_pointer_remove(const struct weft_pointer *pointer);

// Bounds what a user, a group or a tree may use. `kind` is a constant WEFT_QUOTA_*, with `id` the
// user or group, or `path` the directory. Either bound may be WEFT_UNBOUNDED.
//
// Returns 0, or a negative errno: -EPERM unless the caller is root.
int weft_quota_set(const struct weft_volume *volume,
                   uint32_t kind,
                   uint32_t id,
                   const char *path,
                   uint64_t bytes_max,
                   uint64_t files_max);

// Ends the quota of a user, a group or a tree, named as for weft_quota_set(). Returns 0, or a
// negative errno.
int weft_quota_clear(const struct weft_volume *volume,
                     uint32_t kind,
                     uint32_t id,
                     const char *path);

// Calls `visit` for every quota of the volume, with the path of a tree, else "". It stops at the
// first call that does not return 0, and returns that.
//
// Returns 0, what `visit` returned, or a negative errno. `visit` runs on the calling thread and
// may call this library.
int weft_quota_list(const struct weft_volume *volume,
                    int (*visit)(void *context, const char *path, const struct weft_quota *quota),
                    void *context);

// Tells the library that this process is a child of the one that used it before.
//
// A child made by `fork()` need not call this: the library notices by itself. It is for children
// made by other means that copy the memory, such as the system call `clone`. Call it once in the
// child, before anything else of this library, while the child has one thread.
//
// In the child, handles of the parent are refused with -EBADF; freeing them does nothing. Connect
// again there. The parent goes on as before. A program that calls `exec` in the child need not
// call this.
void weft_after_fork(void);

// Opens the view of all bytes of a file in their canonical order and stores it in *view. `fork` is
// NULL for the data.
//
// Returns 0, or a negative errno.
int weft_view_file(const struct weft_file *file, const char *fork, struct weft_view **view);

// Opens the view of one cell, byte by byte, and stores it in *view. Cells are numbered from 0.
//
// Returns 0, or a negative errno: -EINVAL if the file has no such cell.
int weft_view_cell(const struct weft_file *file,
                   uint32_t cell,
                   const char *fork,
                   struct weft_view **view);

// Opens the view of `group` bytes of every `stride`, from byte `offset` of the file on, and stores
// it in *view: a partition of PVFS.
//
// Returns 0, or a negative errno: -EINVAL if groups are empty or overlap.
int weft_view_partition(const struct weft_file *file,
                        uint64_t offset,
                        uint64_t group,
                        uint64_t stride,
                        const char *fork,
                        struct weft_view **view);

// Opens one of Vesta's disjoint subfiles and stores it in *view.
//
// Blocks are `vbs` BSUs high and `hbs` cells wide; `vn` subfiles are interleaved down a cell and
// `hn` across the cells, and `index` is which of them, s + t * hn for the one s-th across and t-th
// down. `order` is WEFT_ORDER_DEFAULT, WEFT_ORDER_ROW or WEFT_ORDER_COLUMN.
//
// Returns 0, or a negative errno: -EINVAL if the parameters are not legal on the file.
int weft_view_subfile(const struct weft_file *file,
                      uint64_t vbs,
                      uint64_t vn,
                      uint64_t hbs,
                      uint64_t hn,
                      uint64_t index,
                      uint32_t order,
                      const char *fork,
                      struct weft_view **view);

// Opens the view that a text names and stores it in *view: "subfile=Vbs,Vn,Hbs,Hn,INDEX",
// "partition=OFFSET,GSIZE,STRIDE" or "cell=I", with "@FORK" behind it for a fork.
//
// Returns 0, or a negative errno: -EINVAL if the text is none or the view does not fit the file.
int weft_view_parse(const struct weft_file *file, const char *text, struct weft_view **view);

// Closes a view. NULL is allowed. Operations that were posted on it go on.
void weft_view_close(struct weft_view *view);

// Returns the size of a view in bytes, or a negative errno. One request to each server.
int64_t weft_view_size(const struct weft_view *view);

// Moves a view's pointer to byte `offset`. No message. Returns 0, or -EINVAL.
int weft_seek(const struct weft_view *view, uint64_t offset);

// Returns where a view's pointer is, or a negative errno.
int64_t weft_position(const struct weft_view *view);

// Reads `length` bytes of a view from byte `offset` on into `buffer`.
//
// Returns how many of them the file has, or a negative errno. What it does not have, at its end
// and where it was never written, is zeros in the buffer. The view's pointer stays.
//
// Holes inside a cell count as had; those beyond the end of a cell do not. So a smaller number
// means that the file ends here, or that it is sparse: weft_view_size() tells which.
int64_t weft_read_at(const struct weft_view *view, void *buffer, size_t length, uint64_t offset);

// Reads at the view's pointer, which moves on by `length` bytes at once, whether or not the read
// succeeds: threads that share a view read different bytes. Else as weft_read_at().
int64_t weft_read(const struct weft_view *view, void *buffer, size_t length);

// Reads the bytes of a request into a buffer of `length` bytes: else as weft_read_at().
//
// Returns how many bytes were moved, or a negative errno: -EINVAL if the request is not legal, two
// of its bytes have one place in memory, or the buffer is too small.
int64_t weft_read_request(const struct weft_view *view,
                          const struct weft_request *request,
                          void *buffer,
                          size_t length);

// Reads `count` runs of a view, each into memory of its own: one request to each server.
//
// Returns how many bytes were moved, or a negative errno.
int64_t weft_read_list(const struct weft_view *view, const struct weft_io_run *runs, size_t count);

// Writes `length` bytes to a view from byte `offset` on. `flags` is 0 or WEFT_SYNCED.
//
// When it returns, the bytes survive the death of any process, and with WEFT_SYNCED power loss;
// weft_file_sync() does the latter for all that was written. The view's pointer stays.
//
// Returns how many bytes were moved, all of them except those of cells that the view implies but
// the file does not have, or a negative errno. After -EHOSTDOWN, when a server was lost, any part
// of the bytes may have been written: the message says so, or that no server was reached.
int64_t weft_write_at(const struct weft_view *view,
                      const void *buffer,
                      size_t length,
                      uint64_t offset,
                      uint32_t flags);

// Writes at the view's pointer, which moves on by `length` bytes at once, whether or not the write
// succeeds. Else as weft_write_at() without flags.
int64_t weft_write(const struct weft_view *view, const void *buffer, size_t length);

// Writes the bytes of a request from a buffer of `length` bytes: else as weft_write_at().
//
// Returns how many bytes were moved, or a negative errno: -EINVAL if the request is not legal,
// touches a byte of the view twice without WEFT_LAST_WINS, or the buffer is too small; nothing is
// written then.
int64_t weft_write_request(const struct weft_view *view,
                           const struct weft_request *request,
                           const void *buffer,
                           size_t length);

// Writes `count` runs of a view, each from memory of its own: one request to each server. `flags`
// is 0, WEFT_SYNCED or WEFT_LAST_WINS; without the latter the runs must not overlap.
//
// Returns how many bytes were moved, or a negative errno.
int64_t weft_write_list(const struct weft_view *view,
                        const struct weft_io_run *runs,
                        size_t count,
                        uint32_t flags);

// Asks the servers to read bytes of a view into their memory, for reads that will follow. Returns
// how many bytes they will read, or a negative errno.
int64_t weft_prefetch(const struct weft_view *view, uint64_t offset, uint64_t length);

// Tells the servers that bytes of a view will not be used soon: they need not stay in memory.
// Returns 0, or a negative errno.
int weft_release(const struct weft_view *view, uint64_t offset, uint64_t length);

// Makes bytes of a view a hole: they read as zeros and take no space. The size stays. Returns 0,
// or a negative errno.
int weft_clear(const struct weft_view *view, uint64_t offset, uint64_t length);

// Connects to a volume and stores the connection in *volume.
//
// A process needs one connection, however many threads it has. Any thread may use it. `given` may
// be NULL. weft_disconnect() ends it.
//
// Returns 0, or a negative errno: -EINVAL if no volume is named or its folder is not one,
// -EHOSTDOWN if the metadata service does not answer.
int weft_connect(const struct weft_connect_options *given, struct weft_volume **volume);

// Ends a connection. NULL is allowed.
//
// What was written is written: nothing is lost. Files, views and operations of the connection stay
// valid until they are closed.
void weft_disconnect(struct weft_volume *volume);

// Waits until all changes of names that this connection has made survive power loss.
//
// Needed only with `lazy` connections. Returns 0, or a negative errno.
int weft_sync_names(const struct weft_volume *volume);

// Returns how many requests this process has sent to all servers of a volume through this
// connection, those of the background included, or a negative errno. For programs that count what
// a call costs.
int64_t weft_requests_sent(const struct weft_volume *volume);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WEFT_H */
