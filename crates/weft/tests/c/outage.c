/* What a program sees of servers that are stopped under it, and started again. */
#include "expect.h"
#include <time.h>

static void weft(const char *command)
{
    char line[4096];
    snprintf(line, sizeof line, "%s %s %s >/dev/null", getenv("WEFT"), command, getenv("WEFT_VOLUME"));
    EXPECT(system(line) == 0);
}

int main(void)
{
    static unsigned char data[1 << 20], got[1 << 20];
    weft_volume *volume = connect_volume();
    weft_file *file = make_file(volume, "/outage", 3, 4096);
    weft_view *view = whole(file);
    number_bytes(data, sizeof data, 3);
    RETURNS(sizeof data, weft_write_at(view, data, sizeof data, 0, WEFT_SYNCED));

    weft("down");
    time_t begun = time(NULL);
    EXPECT(weft_read_at(view, got, sizeof got, 0) < 0);
    EXPECT(strstr(weft_error_message(), "outage") != NULL);
    EXPECT(weft_write_at(view, data, sizeof data, 0, 0) < 0);
    weft_operation *operation;
    weft_request request = {.size = sizeof request};
    RETURNS(0, weft_post_write(view, &request, data, sizeof data, &operation));
    EXPECT(weft_operation_wait(operation) < 0);
    EXPECT(time(NULL) - begun < 60);

    weft("up");
    RETURNS(sizeof got, weft_read_at(view, got, sizeof got, 0));
    EXPECT(memcmp(got, data, sizeof got) == 0);
    RETURNS(sizeof data, weft_write_at(view, data, sizeof data, 0, 0));
    weft_view_close(view);
    RETURNS(0, weft_file_close(file));
    weft_disconnect(volume);
    return 0;
}
