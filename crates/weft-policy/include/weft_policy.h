/*
 * weft_policy.h: consistency policies as plug-ins of Weft's clients (CAPFS section 3.6, Figure 6).
 *
 * A plug-in is a shared library with one entry point, weft_policy(), which returns a table: the
 * values of the policy, and callbacks around open, close, read, write and sync. A client looks for
 * the policy NAME in the file NAME.so of its folder of policies. It picks a new or replaced file up
 * at the next open; files that are open keep the library that they were opened with.
 *
 *     cc -std=c99 -shared -fPIC -o NAME.so NAME.c
 *
 * Callbacks
 *   - Every one may be NULL. Those for one file may be called from several threads at once.
 *   - They return 0, or a negative errno. A pre callback that fails, fails the operation, of which
 *     nothing is done; but a file that an open has created stays, and a close closes. What a post
 *     callback returns is the error of an operation that is done. Where the pre callback was
 *     called and did not fail, the post callback is called.
 *   - ENOSYS, and what is no errno of programs, count as EINVAL.
 *   - They must return soon: operations of other files may wait for them. They must not throw,
 *     longjmp, or call Weft but through struct weft_core.
 *   - Pointers that they are given are valid until they return, a handle until post_close.
 *
 * Versions
 *   - Structures begin with their size in bytes as the one who made them knows it. Later clients
 *     only add members at their end; a reader takes members beyond the size as 0. Those of struct
 *     weft_policy_values, which lies within another, do not change.
 *   - A change that does not fit into this raises WEFT_POLICY_VERSION; a client refuses tables of
 *     other versions.
 */
#ifndef WEFT_POLICY_H
#define WEFT_POLICY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_POLICY_VERSION 1u

/* Which names (hashes) of chunks a client keeps: CAPFS's use_hcache and hcache_coherence. */
#define WEFT_NAMES_NONE 0u     /* none: every read goes to the servers */
#define WEFT_NAMES_COHERENT 1u /* the servers tell of changes before they acknowledge them */
#define WEFT_NAMES_OWN 2u      /* those that this open has seen, until the policy drops them */

/* The length of a range that reaches to the end of the file, wherever that is. */
#define WEFT_TO_THE_END UINT64_MAX

/* The values of a policy. Only addressed files have names: opens of others get WEFT_NAMES_NONE. */
struct weft_policy_values {
    uint32_t size;         /* sizeof(struct weft_policy_values) */
    uint32_t in_order;     /* 1: each operation is atomic, and all have one order; 0: CAPFS's force_commit */
    uint32_t names;        /* WEFT_NAMES_... */
    uint32_t until_sync;   /* 1: a sync drops own names */
    uint32_t written_once; /* 1: a file that has bytes is not opened for writing */
    uint32_t reserved;     /* 0 */
    uint64_t believed_ms;  /* own names are believed for so many milliseconds; 0: as long as the open lasts */
    /*
     * CAPFS's delay_commit: a write waits in the client for at most so many milliseconds, 0: not
     * at all. It leaves earlier with a commit, a read through the same open, a sync, a close, an
     * unlock, or when 16 MiB or 4096 separate
     * writes of one open wait. One that waits is lost if the process dies.
     */
    uint64_t delay_ms;
};

/* What is opened. */
struct weft_open {
    uint32_t size;
    uint32_t writable;  /* 1: for writing too */
    uint32_t created;   /* 1: this open created the file */
    uint32_t addressed; /* 1: its chunks have names */
    uint64_t file;      /* the number of the file in its volume */
    uint64_t length;    /* bytes, as known when it was opened */
    uint64_t chunk;     /* bytes of a chunk */
    const char *path;   /* UTF-8 */
};

/* What an operation touches. */
struct weft_range {
    uint32_t size;
    uint32_t canonical; /* 1: it reads or writes the file in canonical order, so that
                           start and end are known; 0: it may touch the whole file */
    uint64_t offset;    /* the first byte, in the order of the open's view */
    uint64_t bytes;     /* how many it touches */
    uint64_t start;     /* canonical bytes start..end hold all of them */
    uint64_t end;
};

/* A chunk of a file: number counts within its cell. */
struct weft_chunk {
    uint64_t number;
    uint32_t cell;
    uint32_t hole;    /* 1: it has no name, and reads as zeros */
    uint8_t name[32]; /* BLAKE3 of its bytes without the zeros at their end */
};

struct weft_core;

/* One callback's call, for its thread only; the first argument of all functions of struct weft_core. */
struct weft_call {
    const struct weft_core *core;
};

/*
 * What a callback can ask of the client. Ranges are canonical bytes of the file of the call. A
 * function returns a negative errno if it fails: -ENOTSUP where the file or its policy has no such
 * names.
 */
struct weft_core {
    uint32_t size;
    uint32_t version;

    /*
     * Names that are kept of the chunks in a range: writes at most *count of them to chunks, sets
     * *count to how many it wrote, and returns how many chunks of the range have no kept name.
     */
    int64_t (*hcache_get)(struct weft_call *call, uint64_t start, uint64_t length,
                          struct weft_chunk *chunks, size_t *count);
    /* Keeps names, which this open believes from now on (WEFT_NAMES_OWN). Reads use them once they
       know the length of the cell, from a fetch or a read. */
    int (*hcache_put)(struct weft_call *call, const struct weft_chunk *chunks, size_t count);
    /* Drops the names of the file, or of a range. */
    int (*hcache_clear)(struct weft_call *call);
    int (*hcache_clear_range)(struct weft_call *call, uint64_t start, uint64_t length);
    /* Drops all names that servers keep coherent, of any file of the volume, and those of this open. */
    int (*hcache_invalidate)(struct weft_call *call);
    /* Asks the servers for the names in a range, after the callback has returned and before the
       operation goes on. A failure is no error: the read that needs the names asks again. */
    int (*hcache_fetch)(struct weft_call *call, uint64_t start, uint64_t length);

    /* The bytes of a chunk that is kept in memory: writes at most size of them to buffer, and returns how many it
       has; -ENOENT if it is not kept. */
    int64_t (*dcache_get)(struct weft_call *call, const uint8_t name[32], void *buffer, size_t size);
    /* Keeps a chunk; -EINVAL if the bytes have another name. */
    int (*dcache_put)(struct weft_call *call, const uint8_t name[32], const void *bytes, size_t size);

    /* Sends the writes of this open that wait, after the callback has returned and before the
       operation goes on. A failure is the operation's. */
    int (*commit)(struct weft_call *call);

    /* The reason of the errno that the callback is about to return, for the error's text. */
    int (*because)(struct weft_call *call, const char *reason);
};

/* A policy. */
struct weft_policy {
    uint32_t size;
    uint32_t version;    /* WEFT_POLICY_VERSION */
    const char *name;    /* as its file without .so: letters, digits, '-', '_'; at most 64 */
    const char *summary; /* what it promises, in a line */
    struct weft_policy_values values;

    /* Before a file is used through an open. May change the values for it, and leaves a handle of
       its own, which all other callbacks of this open get. */
    int (*pre_open)(struct weft_call *call, const struct weft_open *open,
                    struct weft_policy_values *values, void **handle);
    int (*post_open)(struct weft_call *call, void *handle);

    int (*pre_close)(struct weft_call *call, void *handle);
    /* The last call with this handle. Comes also where pre_close did not: after a failed post_open,
       and for opens that end with their process's last use of them. */
    void (*post_close)(void *handle);

    /* bytes: how many were read or written, or a negative errno. */
    int (*pre_read)(struct weft_call *call, void *handle, const struct weft_range *range);
    int (*post_read)(struct weft_call *call, void *handle, const struct weft_range *range, int64_t bytes);

    /* delay_ms is that of the values, and may be changed for this write. */
    int (*pre_write)(struct weft_call *call, void *handle, const struct weft_range *range,
                     uint64_t *delay_ms);
    int (*post_write)(struct weft_call *call, void *handle, const struct weft_range *range, int64_t bytes);

    int (*pre_sync)(struct weft_call *call, void *handle);
    int (*post_sync)(struct weft_call *call, void *handle);
};

/* The entry point. The table must stay as it is. NULL: the plug-in cannot be used here. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct weft_policy *weft_policy(void);

#ifdef __cplusplus
}
#endif

#endif
