/* Operations in the background, groups, shared pointers, threads, signals, forks. */
#include "expect.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20, THREADS = 4, ROUNDS = 50 };

static weft_volume *volume;
static volatile sig_atomic_t alarms;

static void sleep_us(long microseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
}

static void operations(const weft_view *view)
{
    unsigned char *data = malloc(4 * MIB), *got = malloc(4 * MIB);
    weft_operation *posted[4];
    weft_request request = {.size = sizeof request};
    number_bytes(data, 4 * MIB, 5);
    for (int i = 0; i < 4; i++) {
        request.offset = (uint64_t)i * MIB;
        RETURNS(0, weft_post_write(view, &request, data + i * MIB, MIB, &posted[i]));
    }
    for (int left = 4; left > 0; left--) {
        size_t index;
        RETURNS(0, weft_wait_any(posted, 4, -1, &index));
        RETURNS(1, weft_operation_test(posted[index]));
        RETURNS(MIB, weft_operation_wait(posted[index]));
        posted[index] = NULL;
    }
    FAILS(EINVAL, "no operation", weft_wait_any(posted, 4, -1, NULL));
    RETURNS(0, weft_post_sync(view, &posted[0]));
    RETURNS(0, weft_operation_wait(posted[0]));

    /* A descriptor, asked for before the end and after it. */
    for (int late = 0; late < 2; late++) {
        request.offset = 0;
        memset(got, 0, 4 * MIB);
        RETURNS(0, weft_post_read(view, &request, got, 4 * MIB, &posted[0]));
        while (late && weft_operation_test(posted[0]) == 0)
            sleep_us(1000);
        struct pollfd descriptor = {.fd = weft_operation_descriptor(posted[0]), .events = POLLIN};
        EXPECT(descriptor.fd >= 0 && weft_operation_descriptor(posted[0]) == descriptor.fd);
        EXPECT(poll(&descriptor, 1, 20000) == 1);
        RETURNS(1, weft_operation_test(posted[0]));
        RETURNS(4 * MIB, weft_operation_wait(posted[0]));
        EXPECT(memcmp(got, data, 4 * MIB) == 0);
    }

    /* After a cancel the memory is ours. */
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char *own = malloc(4 * MIB);
        RETURNS(0, weft_post_read(view, &request, own, 4 * MIB, &posted[0]));
        if (i % 2)
            EXPECT(weft_operation_descriptor(posted[0]) >= 0);
        if (i % 5 == 0)
            sleep_us(100);
        weft_operation_cancel(posted[0]);
        free(own);
        RETURNS(0, weft_post_write(view, &request, data, 4 * MIB, &posted[0]));
        weft_operation_cancel(posted[0]);
    }
    weft_operation_cancel(NULL);

    /* What is wrong with a request is told by the wait; what cannot be posted, at once. */
    request.offset = INT64_MAX;
    RETURNS(0, weft_post_read(view, &request, got, 10, &posted[0]));
    FAILS(EFBIG, "", weft_operation_wait(posted[0]));
    request.offset = 0;
    FAILS(EINVAL, "place", weft_post_read(view, &request, got, 10, NULL));
    FAILS(EINVAL, "buffer is NULL", weft_post_read(view, &request, NULL, 10, &posted[0]));
    FAILS(EINVAL, "view is NULL", weft_post_read(NULL, &request, got, 10, &posted[0]));
    FAILS(EINVAL, "operation is NULL", weft_operation_wait(NULL));
    free(data);
    free(got);
}

struct member {
    const weft_view *view;
    uint32_t number;
};

static void *collective(void *argument)
{
    const struct member *member = argument;
    unsigned char mine[1024], got[1024];
    weft_group *group;
    weft_pattern *record, *records;
    weft_group_options options = {.size = sizeof options, .wait_ms = 20000};
    RETURNS(0, weft_group_create("operations-test", THREADS, member->number, &options, &group));
    RETURNS(0, weft_pattern_bytes(16, &record));
    RETURNS(0, weft_pattern_repeat(record, 16 * THREADS, 64, &records));
    weft_request request = {.size = sizeof request, .pattern = records};
    request.offset = 16 * member->number;
    number_bytes(mine, sizeof mine, 100 * member->number);
    uint32_t missing = 99;
    RETURNS(1024, weft_collective_write(member->view, group, &request, mine, 1024, &missing));
    EXPECT(missing == 0);
    memset(got, 0, sizeof got);
    RETURNS(1024, weft_collective_read(member->view, group, &request, got, 1024, NULL));
    EXPECT(memcmp(got, mine, 1024) == 0);
    weft_operation *posted;
    memset(got, 0, sizeof got);
    RETURNS(0, weft_post_collective_write(member->view, group, &request, mine, 1024, &posted));
    RETURNS(1024, weft_operation_wait(posted));
    RETURNS(0, weft_post_collective_read(member->view, group, &request, got, 1024, &posted));
    RETURNS(1024, weft_operation_wait(posted));
    EXPECT(memcmp(got, mine, 1024) == 0);

    /* Shares of a common pointer, in the order of the members. */
    weft_pointer *pointer;
    RETURNS(0, weft_pointer_open(member->view, "log", &pointer));
    RETURNS(10 * member->number, weft_pointer_take(pointer, group, 10));
    weft_pointer_close(pointer);
    weft_pattern_free(records);
    weft_pattern_free(record);
    weft_group_free(group);
    return NULL;
}

static void groups(const weft_view *view)
{
    pthread_t threads[THREADS];
    struct member members[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        members[i] = (struct member){view, i};
        EXPECT(pthread_create(&threads[i], NULL, collective, &members[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);

    weft_pointer *pointer;
    char got[4] = "";
    RETURNS(0, weft_pointer_open(view, "log", &pointer));
    RETURNS(10 * THREADS, weft_pointer_position(pointer));
    RETURNS(0, weft_pointer_seek(pointer, 8));
    RETURNS(3, weft_pointer_write(pointer, NULL, "abc", 3));
    RETURNS(0, weft_pointer_seek(pointer, 8));
    RETURNS(3, weft_pointer_read(pointer, NULL, got, 3));
    EXPECT(strcmp(got, "abc") == 0);
    RETURNS(0, weft_pointer_remove(pointer));
    RETURNS(0, weft_pointer_position(pointer));
    weft_pointer_close(pointer);

    /* A member that waits for others in vain is told which. */
    weft_group *group;
    weft_group_options options = {.size = sizeof options, .wait_ms = 200};
    weft_request request = {.size = sizeof request};
    RETURNS(0, weft_group_create("operations-lone", 2, 0, &options, &group));
    EXPECT(weft_collective_read(view, group, &request, got, 3, NULL) < 0);
    EXPECT(strstr(weft_error_message(), "member 1") != NULL);
    weft_group_free(group);
    FAILS(EINVAL, "1 to 64 bytes", weft_group_create("", 1, 0, NULL, &group));
    FAILS(EINVAL, "no member 2", weft_group_create("x", 2, 2, NULL, &group));
    FAILS(EINVAL, "1 to 1024", weft_group_create("x", 1025, 2, NULL, &group));
    FAILS(EINVAL, "too long", weft_group_create("x", 2, 0, &(weft_group_options){.size = sizeof options, .wait_ms = 3600001}, &group));

    /* A collective that is refused counts: the member stays in step. */
    RETURNS(0, weft_group_create("operations-step", 1, 0, NULL, &group));
    FAILS(EINVAL, "sizeof(weft_request)", weft_collective_read(view, group, &(weft_request){.size = 0}, got, 3, NULL));
    weft_group_free(group);
    FAILS(EINVAL, "missing", weft_group_create("x", 2, 0, &(weft_group_options){.size = sizeof options, .missing = 7}, &group));
}

static void *many_reads(void *argument)
{
    unsigned char got[4096];
    for (int i = 0; i < ROUNDS; i++)
        RETURNS(4096, weft_read_at(argument, got, 4096, (uint64_t)i * 4096));
    return NULL;
}

static void on_alarm(int signal)
{
    (void)signal;
    alarms++;
}

/* Threads share a view while signals come. */
static void threads_and_signals(weft_view *view)
{
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = on_alarm};
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {.it_interval = {.tv_usec = 500}, .it_value = {.tv_usec = 500}};
    EXPECT(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, many_reads, view) == 0);
    many_reads(view);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    while (alarms == 0)
        sleep_us(1000);
    EXPECT(setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_usec = 0}}, NULL) == 0);
}

static void forks(const weft_view *view)
{
    unsigned char got[16];
    pid_t child = fork();
    if (child == 0) {
        alarm(30); /* a hang ends the test */
        FAILS(EBADF, "before a fork", weft_read_at(view, got, 16, 0));
        weft_disconnect(volume); /* does nothing */
        weft_volume *own = connect_volume();
        weft_file *file;
        RETURNS(0, weft_attach(own, "/operations", NULL, &file));
        weft_view *again = whole(file);
        RETURNS(16, weft_read_at(again, got, 16, 0));
        weft_view_close(again);
        RETURNS(0, weft_file_close(file));
        weft_disconnect(own);
        _exit(0);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    RETURNS(16, weft_read_at(view, got, 16, 0));
}

/* What no call can use is refused and says so. */
static void bad_input(void)
{
    weft_volume *other = NULL;
    weft_file *file = NULL;
    weft_attributes found = {.size = 3};
    struct {
        weft_attach_options known;
        uint64_t newer;
    } future = {.known = {.size = sizeof future}, .newer = 0};
    FAILS(EINVAL, "not by both", weft_connect(&(weft_connect_options){.size = sizeof(weft_connect_options), .folder = "/a", .address = "b:1"}, &other));
    FAILS(EINVAL, "sizeof(weft_connect_options)", weft_connect(&(weft_connect_options){.size = 0}, &other));
    EXPECT(weft_connect(&(weft_connect_options){.size = sizeof(weft_connect_options), .folder = "/nowhere"}, &other) < 0);
    EXPECT(strstr(weft_error_message(), "/nowhere is not the folder of a volume") != NULL);
    FAILS(EINVAL, "volume is NULL", weft_attach(NULL, "/x", NULL, &file));
    FAILS(EINVAL, "path is NULL", weft_attach(volume, NULL, NULL, &file));
    FAILS(ENOENT, "/x", weft_attach(volume, "/x", NULL, &file));
    FAILS(EINVAL, "sizeof(weft_attributes)", weft_stat(volume, "/", &found));
    RETURNS(0, weft_attach(volume, "/operations", &future.known, &file));
    RETURNS(0, weft_file_close(file));
    future.newer = 1;
    FAILS(E2BIG, "older than the program", weft_attach(volume, "/operations", &future.known, &file));
    FAILS(EINVAL, "do not describe", weft_adopt(volume, "rubbish", 7, &file));
    FAILS(EINVAL, "must be 0", weft_connect(&(weft_connect_options){.size = sizeof(weft_connect_options), .reserved = 1}, &other));
    EXPECT(file != NULL && other == NULL);
    weft_view_close(NULL);
    RETURNS(0, weft_file_close(NULL));
    EXPECT(strcmp(weft_version(), "") != 0);
}

/* What a view that may not write refuses, and where its pointer can be. */
static void bounds(const weft_view *view)
{
    weft_file *file;
    weft_view *reader;
    char got[8];
    RETURNS(0, weft_attach(volume, "/operations", NULL, &file));
    FAILS(EBADF, "reading only", weft_file_truncate(file, 5));
    RETURNS(0, weft_view_file(file, NULL, &reader));
    EXPECT(weft_write_at(reader, "x", 1, 0, 0) < 0);
    weft_view_close(reader);
    RETURNS(0, weft_file_close(file));
    FAILS(EINVAL, "past the largest", weft_seek(view, (uint64_t)INT64_MAX + 1));
    RETURNS(0, weft_seek(view, INT64_MAX - 2));
    for (int i = 0; i < 3; i++)
        EXPECT(weft_read(view, got, 8) <= 0);
    RETURNS(INT64_MAX, weft_position(view));
    weft_request request = {.size = sizeof request, .flags = WEFT_SYNCED};
    FAILS(EINVAL, "no meaning", weft_read_request(view, &request, got, 8));
    weft_pattern *pattern, *next;
    RETURNS(0, weft_pattern_bytes(1, &pattern));
    int depth = 0, made = 0;
    for (; made == 0; depth++) {
        made = weft_pattern_repeat(pattern, 1, 1, &next);
        if (made == 0) {
            weft_pattern_free(pattern);
            pattern = next;
        }
    }
    EXPECT(made == -EINVAL && depth < 100);
    weft_pattern_free(pattern);
}

int main(void)
{
    EXPECT(strcmp(weft_error_message(), "") == 0);
    errno = 42;
    volume = connect_volume();
    EXPECT(errno == 42);
    weft_file *file = make_file(volume, "/operations", 4, 65536);
    weft_view *view = whole(file);
    operations(view);
    groups(view);
    threads_and_signals(view);
    forks(view);
    bounds(view);
    bad_input();
    weft_view_close(view);
    RETURNS(0, weft_file_close(file));
    weft_disconnect(volume);
    return 0;
}
