#include "mounts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char TYPE[] = "fuse.weft";

/* Undoes the kernel's "\040" for a space. */
static void unescape(char *text)
{
    char *to = text;
    for (char *from = text; *from != '\0'; to++) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7'
            && from[3] >= '0' && from[3] <= '7') {
            *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* The fields of a line that matter: "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS ... - TYPE SOURCE". */
struct line {
    char *root, *point, *type, *source;
};

static int split(char *text, struct line *line)
{
    char *rest = text, *field = NULL;
    for (int i = 0; i < 5; i++) {
        field = strsep(&rest, " ");
        if (i == 3)
            line->root = field;
    }
    line->point = field;
    rest = rest == NULL ? NULL : strstr(rest, " - ");
    if (rest == NULL)
        return -1;
    rest += 3;
    line->type = strsep(&rest, " ");
    line->source = strsep(&rest, " \n");
    if (line->source == NULL)
        return -1;
    unescape(line->root);
    unescape(line->point);
    unescape(line->source);
    return 0;
}

static int contains(const char *point, const char *path)
{
    size_t length = strlen(point);
    if (strcmp(point, "/") == 0)
        return 1;
    return strncmp(point, path, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* Calls for each mount in turn; the kernel lists a mount after the one that it covers. */
static int each(int (*visit)(void *context, const struct line *line), void *context)
{
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    char *text = NULL;
    size_t room = 0;
    int stop = 0;
    if (mounts == NULL)
        return 0;
    while (stop == 0 && getline(&text, &room, mounts) >= 0) {
        struct line line;
        if (split(text, &line) == 0)
            stop = visit(context, &line);
    }
    free(text);
    fclose(mounts);
    return stop;
}

static int is_ours(void *context, const struct line *line)
{
    (void)context;
    return strcmp(line->type, TYPE) == 0;
}

int mounts_any(void)
{
    return each(is_ours, NULL);
}

struct search {
    const char *path;
    size_t longest;
    int found;
    struct mount *mount;
};

static int compare(void *context, const struct line *line)
{
    struct search *search = context;
    size_t length = strlen(line->point);
    if (!contains(line->point, search->path) || length < search->longest)
        return 0;
    search->longest = length;
    search->found = strcmp(line->type, TYPE) == 0 && length < MOUNT_ROOM
                    && strlen(line->root) < MOUNT_ROOM && strlen(line->source) < MOUNT_ROOM;
    if (search->found) {
        strcpy(search->mount->point, line->point);
        strcpy(search->mount->root, line->root);
        strcpy(search->mount->source, line->source);
    }
    return 0;
}

int mounts_find(const char *path, struct mount *mount)
{
    struct search search = {path, 0, 0, mount};
    each(compare, &search);
    return search.found;
}
