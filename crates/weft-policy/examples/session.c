/*
 * session: an open sees what was closed before it, and nothing that others change meanwhile; what
 * it writes leaves at its close (AFS; CAPFS section 3.6).
 *
 * An addressed file's names are fetched when it is opened, and bytes follow as they are read. A
 * plain file is read from the servers.
 *
 *     cc -std=c99 -shared -fPIC -I../include -o afs.so session.c
 */
#include "weft_policy.h"

/* At most an hour passes between a write and its commit. */
#define HELD_MS (3600u * 1000u)

static int fetch_all(struct weft_call *call, void *handle)
{
    (void)handle;
    call->core->hcache_fetch(call, 0, WEFT_TO_THE_END);
    return 0;
}

static int commit_all(struct weft_call *call, void *handle)
{
    (void)handle;
    return call->core->commit(call);
}

static const struct weft_policy session = {
    .size = sizeof(struct weft_policy),
    .version = WEFT_POLICY_VERSION,
    .name = "afs",
    .summary = "an open sees what was closed before it; its own writes leave at its close",
    .values = {
        .size = sizeof(struct weft_policy_values),
        .names = WEFT_NAMES_OWN,
        .delay_ms = HELD_MS,
    },
    .post_open = fetch_all,
    .pre_close = commit_all,
};

const struct weft_policy *weft_policy(void)
{
    return &session;
}
