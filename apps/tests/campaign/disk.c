/* A disk that can lose power or fail, for a process that is started with it as LD_PRELOAD.
 *
 * HEARTH_DISK=FOLDER     the folder that lies on this disk
 * HEARTH_SHADOW=FOLDER   gets what is on the platter: inodes/N, the content of a file when it was last
 *                        synced, and folders/N, the entries of a folder when it was last synced
 * HEARTH_FAIL=N:ERRNO    the Nth call that writes, syncs, makes or renames below the folder fails, and all
 *                        later ones; N:ERRNO:once, only the Nth
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long calls;

#define REAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

/* Whether an open file lies below the folder, and its path. */
static int below(int fd, char path[4096]) {
    const char *root = getenv("HEARTH_DISK");
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, 4095);
    if (!root || length <= 0) return 0;
    path[length] = 0;
    return strncmp(path, root, strlen(root)) == 0;
}

/* Whether this call below the folder is to fail; counts it. */
static int counts(void) {
    const char *how = getenv("HEARTH_FAIL");
    long at = 0;
    int code = EIO;
    if (!how) return 0;
    sscanf(how, "%ld:%d", &at, &code);
    pthread_mutex_lock(&lock);
    long call = ++calls;
    pthread_mutex_unlock(&lock);
    int hit = strstr(how, ":once") ? call == at : call >= at;
    if (hit) errno = code;
    return hit;
}

static int fails(int fd) {
    char path[4096];
    return getenv("HEARTH_FAIL") && below(fd, path) && counts();
}

static int fails_at(const char *path) {
    const char *root = getenv("HEARTH_DISK");
    return getenv("HEARTH_FAIL") && root && strncmp(path, root, strlen(root)) == 0 && counts();
}

int rename(const char *from, const char *to) {
    return fails_at(to) ? -1 : REAL(rename)(from, to);
}

int mkdir(const char *path, mode_t mode) {
    return fails_at(path) ? -1 : REAL(mkdir)(path, mode);
}

ssize_t write(int fd, const void *data, size_t size) {
    return fails(fd) ? -1 : REAL(write)(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    return fails(fd) ? -1 : REAL(writev)(fd, parts, count);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    return fails(fd) ? -1 : REAL(pwrite64)(fd, data, size, at);
}

/* Copies what a file holds, or a folder's entries, to the shadow, in one step. */
static void settle(int fd) {
    const char *shadow = getenv("HEARTH_SHADOW");
    char path[4096], target[4608], beside[4640];
    struct stat about;
    if (!shadow || !below(fd, path) || fstat(fd, &about)) return;
    pthread_mutex_lock(&lock);
    snprintf(target, sizeof target, "%s/%s/%lu", shadow, S_ISDIR(about.st_mode) ? "folders" : "inodes", about.st_ino);
    snprintf(beside, sizeof beside, "%s.new", target);
    FILE *out = fopen(beside, "w");
    if (out && S_ISDIR(about.st_mode)) {
        DIR *folder = opendir(path);
        for (struct dirent *entry; folder && (entry = readdir(folder));) {
            struct stat inside;
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
            if (fstatat(dirfd(folder), entry->d_name, &inside, AT_SYMLINK_NOFOLLOW)) continue;
            fprintf(out, "%c %lu %s\n", S_ISDIR(inside.st_mode) ? 'd' : 'f', inside.st_ino, entry->d_name);
        }
        if (folder) closedir(folder);
    } else if (out) {
        int from = open(path, O_RDONLY | O_CLOEXEC);
        char part[65536];
        for (ssize_t got; from >= 0 && (got = read(from, part, sizeof part)) > 0;) fwrite(part, 1, got, out);
        if (from >= 0) close(from);
    }
    if (out) {
        fclose(out);
        rename(beside, target);
    }
    pthread_mutex_unlock(&lock);
}

int fsync(int fd) {
    if (fails(fd)) return -1;
    int done = REAL(fsync)(fd);
    if (!done) settle(fd);
    return done;
}

int fdatasync(int fd) {
    if (fails(fd)) return -1;
    int done = REAL(fdatasync)(fd);
    if (!done) settle(fd);
    return done;
}
