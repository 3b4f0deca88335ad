/* Preloaded into a node: beside each file of its database there is what a disk would have after a power loss.
 *
 * What is written is remembered, and copied to FILE.disk when it is synced, not before: the kernel owes nothing that
 * was not synced. Directories are taken for synced at once. Only files whose path begins with POWERLOSS_DATABASE count.
 * With POWERLOSS_COMMIT=N the power goes in the middle of the Nth sync of the write-ahead log, with
 * POWERLOSS_CHECKPOINT=N in the middle of the Nth sync of the database itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 16
#define DESCRIPTORS 4096
#define SHARED_MEMORY "-shm"
#define SHADOW ".disk"

struct range { off_t begin; off_t end; };
struct file { char path[PATH_MAX]; int shadow; struct range *dirty; size_t count, room; };

static struct file files[FILES];
static struct { short file; dev_t device; ino_t inode; } known[DESCRIPTORS];
/* file: 0: not looked at, -1: not ours, else its place + 1. Not every close of a descriptor passes by here. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && !strcmp(text + length - tail, end);
}

static int file_of(int fd) {
    const char *database = getenv("POWERLOSS_DATABASE");
    char link[64], path[PATH_MAX];
    if (!database || fd < 0 || fd >= DESCRIPTORS) return -1;
    struct stat about;
    if (fstat(fd, &about)) return -1;
    if (known[fd].file && known[fd].device == about.st_dev && known[fd].inode == about.st_ino)
        return known[fd].file - (known[fd].file > 0);
    known[fd].file = -1, known[fd].device = about.st_dev, known[fd].inode = about.st_ino;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return -1;
    path[length] = 0;
    if (strncmp(path, database, strlen(database)) || ends_with(path, SHARED_MEMORY) || ends_with(path, SHADOW)) return -1;
    const char *suffix = path + strlen(database);
    if (*suffix && strcmp(suffix, "-wal") && strcmp(suffix, "-journal")) return -1;
    for (int i = 0; i < FILES; i++) {
        if (!files[i].path[0]) {
            strcpy(files[i].path, path);
            strcat(path, SHADOW);
            files[i].shadow = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        } else if (strcmp(files[i].path, path)) {
            continue;
        }
        known[fd].file = i + 1;
        return i;
    }
    abort();
}

static void wrote(int fd, off_t begin, ssize_t size) {
    int i;
    if (size <= 0) return;
    pthread_mutex_lock(&lock);
    if ((i = file_of(fd)) >= 0) {
        struct file *file = &files[i];
        if (file->count == file->room) {
            file->room = 2 * file->room + 64;
            file->dirty = realloc(file->dirty, file->room * sizeof *file->dirty);
        }
        file->dirty[file->count++] = (struct range){begin, begin + size};
    }
    pthread_mutex_unlock(&lock);
}

static size_t until_the_power_goes(struct file *file) {
    static int syncs[2];
    int is_log = ends_with(file->path, "-wal");
    const char *fatal = getenv(is_log ? "POWERLOSS_COMMIT" : "POWERLOSS_CHECKPOINT");
    return fatal && ++syncs[is_log] == atoi(fatal) ? file->count / 2 : (size_t)-1;
}

static int synced(int fd) {
    static char buffer[1 << 16];
    int i;
    pthread_mutex_lock(&lock);
    if ((i = file_of(fd)) >= 0) {
        struct file *file = &files[i];
        struct stat about;
        size_t last = file->count ? until_the_power_goes(file) : (size_t)-1;
        for (size_t n = 0; n < file->count; n++) {
            if (n >= last) kill(getpid(), SIGKILL);
            for (off_t at = file->dirty[n].begin; at < file->dirty[n].end;) {
                size_t left = file->dirty[n].end - at;
                ssize_t size = pread(fd, buffer, left < sizeof buffer ? left : sizeof buffer, at);
                if (size <= 0) break;
                REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
                if (real(file->shadow, buffer, size, at) != size) abort();
                at += size;
            }
        }
        file->count = 0;
        REAL(int, "ftruncate64", int, off64_t);
        if (fstat(fd, &about) || real(file->shadow, about.st_size)) abort();
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    ssize_t done = real(fd, data, size, at);
    wrote(fd, at, done);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    ssize_t done = real(fd, data, size);
    if (done > 0 && fd > 2) wrote(fd, lseek(fd, 0, SEEK_CUR) - done, done);
    return done;
}

int fsync(int fd) { return synced(fd); }

int fdatasync(int fd) { return synced(fd); }

int close(int fd) {
    REAL(int, "close", int);
    pthread_mutex_lock(&lock);
    if (fd >= 0 && fd < DESCRIPTORS) known[fd].file = 0;
    pthread_mutex_unlock(&lock);
    return real(fd);
}

int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    const char *database = getenv("POWERLOSS_DATABASE");
    char shadow[PATH_MAX + 8];
    if (database && !strncmp(path, database, strlen(database))) {
        snprintf(shadow, sizeof shadow, "%s%s", path, SHADOW);
        real(shadow);
        pthread_mutex_lock(&lock);
        for (int i = 0; i < FILES; i++)
            if (!strcmp(files[i].path, path)) {
                files[i].path[0] = '/', files[i].path[1] = 0; /* its descriptors, if any, write to nothing that lasts */
                files[i].count = 0;
            }
        pthread_mutex_unlock(&lock);
    }
    return real(path);
}
