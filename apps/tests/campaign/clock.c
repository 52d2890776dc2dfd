/* A clock that jumps, for a process that is started with it as LD_PRELOAD: each time that the time of day
 * is read, it is another one, years ahead, years ago, or before 1970. The steady clock goes on as it does. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static atomic_ulong reads;

static long jumped(long now) {
    static const long by[] = {0, 315360000, -631152000, 86400, -3600, 1};
    unsigned long read = atomic_fetch_add(&reads, 1);
    if (read % 7 == 6) return read % 2 ? 5 : -86400;
    return now + by[read % 7];
}

int clock_gettime(clockid_t id, struct timespec *at) {
    int failed = (int) syscall(SYS_clock_gettime, id, at);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec = jumped(at->tv_sec);
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    (void) zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
