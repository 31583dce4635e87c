#include "hints.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

enum { WAIT_SECONDS = 3600 }; /* the longest that libweft allows: programs compute for long */

void hints_begin(struct hints *hints)
{
    memset(hints, 0, sizeof *hints);
    hints->wait_ms = WAIT_SECONDS * 1000;
}

/* Reads a number with a unit of 1024 to some power: "65536", "64K", "64KiB". */
static int read_number(const char *text, uint64_t *number)
{
    static const char units[] = "kmgt";
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return -1;
    errno = 0;
    *number = strtoull(text, &end, 10);
    if (errno == ERANGE)
        return -1;
    const char *unit = *end == '\0' ? NULL : strchr(units, tolower((unsigned char)*end));
    if (unit != NULL && *unit != '\0') {
        int shift = 10 * (int)(unit - units + 1);
        if (*number > UINT64_MAX >> shift)
            return -1;
        *number <<= shift;
        end++;
        if (strcmp(end, "iB") == 0)
            end += 2;
    }
    return *end == '\0' ? 0 : -1;
}

static int read_servers(const char *text, struct hints *hints)
{
    size_t count = 0;
    const char *next = text;
    while (*next != '\0') {
        char *end;
        if (!isdigit((unsigned char)*next) || count == SERVERS_ROOM)
            return -1;
        unsigned long long server = strtoull(next, &end, 10);
        if (server > UINT32_MAX)
            return -1;
        hints->servers[count++] = (uint32_t)server;
        if (*end != '\0' && *end != ',')
            return -1;
        next = *end == ',' ? end + 1 : end;
    }
    hints->layout.server_count = count;
    return count > 0 ? 0 : -1;
}

static int read_text(const char *value, char *into, size_t room)
{
    if (strlen(value) >= room)
        return -1;
    strcpy(into, value);
    return 0;
}

static int read_storage(const char *value, struct hints *hints)
{
    if (strcmp(value, "plain") == 0)
        hints->layout.storage = WEFT_STORAGE_PLAIN;
    else if (strcmp(value, "addressed") == 0)
        hints->layout.storage = WEFT_STORAGE_ADDRESSED;
    else
        return -1;
    return 0;
}

/* Adds a name to those that are ignored. */
static void ignore(const char *key, struct hints *hints)
{
    size_t length = strlen(hints->ignored), more = strlen(key), comma = length > 0;
    if (length + more + 2 > sizeof hints->ignored)
        return;
    for (const char *at = hints->ignored; (at = strstr(at, key)) != NULL; at++)
        if ((at == hints->ignored || at[-1] == ',') && (at[more] == ',' || at[more] == '\0'))
            return;
    memcpy(hints->ignored + length, ",", comma);
    memcpy(hints->ignored + length + comma, key, more + 1);
}

static int read_hint(const char *key, const char *value, struct hints *hints)
{
    uint64_t number = 0;
    if (strcmp(key, "weft_policy") == 0)
        return read_text(value, hints->policy, sizeof hints->policy);
    if (strcmp(key, "weft_fork") == 0)
        return read_text(value, hints->fork, sizeof hints->fork);
    if (strcmp(key, "weft_storage") == 0)
        return read_storage(value, hints);
    if (strcmp(key, "weft_servers") == 0)
        return read_servers(value, hints);
    if (strcmp(key, "weft_ignored") == 0 || strcmp(key, "weft_requests") == 0)
        return 0; /* an MPI_Info that came from MPI_File_get_info() */
    int is_cells = strcmp(key, "striping_factor") == 0, is_bsu = strcmp(key, "striping_unit") == 0;
    int is_chunk = strcmp(key, "weft_chunk") == 0, is_wait = strcmp(key, "weft_wait") == 0;
    int is_replicas = strcmp(key, "weft_replicas") == 0;
    if (!is_cells && !is_bsu && !is_chunk && !is_wait && !is_replicas) {
        ignore(key, hints);
        return 0;
    }
    if (read_number(value, &number) < 0)
        return -1;
    if ((is_cells || is_chunk || is_replicas) && number > UINT32_MAX)
        return -1;
    if (is_wait && (number == 0 || number > WAIT_SECONDS))
        return -1;
    if (is_cells)
        hints->layout.cells = (uint32_t)number;
    else if (is_bsu)
        hints->layout.bsu = number;
    else if (is_chunk)
        hints->layout.chunk = (uint32_t)number;
    else if (is_replicas)
        hints->layout.replicas = (uint32_t)number;
    else
        hints->wait_ms = (uint32_t)number * 1000;
    return 0;
}

int hints_read(MPI_Info info, struct hints *hints)
{
    int count = 0, status = MPI_SUCCESS;
    if (info == MPI_INFO_NULL)
        return MPI_SUCCESS;
    status = PMPI_Info_get_nkeys(info, &count);
    for (int i = 0; status == MPI_SUCCESS && i < count; i++) {
        char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
        int found;
        status = PMPI_Info_get_nthkey(info, i, key);
        if (status == MPI_SUCCESS)
            status = PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
        if (status == MPI_SUCCESS && found && read_hint(key, value, hints) < 0)
            status = error_make(MPI_ERR_INFO_VALUE, "the hint %s=%.80s means nothing to Weft: "
                                "docs/interfaces/mpi-io.md lists what hints may say", key, value);
    }
    return status;
}

static void set_text(MPI_Info info, const char *key, const char *value)
{
    if (value[0] != '\0')
        PMPI_Info_set(info, key, value);
}

static void set_number(MPI_Info info, const char *key, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    PMPI_Info_set(info, key, text);
}

int hints_write(const struct hints *hints, const weft_attributes *attributes, int64_t requests,
                MPI_Info *info)
{
    int status = PMPI_Info_create(info);
    if (status != MPI_SUCCESS)
        return status;
    set_number(*info, "striping_factor", attributes->cells);
    set_number(*info, "striping_unit", attributes->bsu);
    set_number(*info, "weft_chunk", attributes->chunk);
    set_text(*info, "weft_storage",
             attributes->storage == WEFT_STORAGE_ADDRESSED ? "addressed" : "plain");
    set_text(*info, "weft_policy", hints->policy[0] ? hints->policy : attributes->policy);
    set_text(*info, "weft_fork", hints->fork);
    set_number(*info, "weft_wait", hints->wait_ms / 1000);
    set_text(*info, "weft_ignored", hints->ignored);
    set_number(*info, "weft_requests", (uint64_t)requests);
    return MPI_SUCCESS;
}
