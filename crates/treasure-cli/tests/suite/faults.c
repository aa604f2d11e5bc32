/* Faults below the program, loaded before the C library (LD_PRELOAD); built by faults.rs.
 *   FAULT_CLOCK=1   the wall clock jumps: before 1970, far ahead, back
 *   FAULT_CALLS=1   reads and writes take seven bytes at most, and every third is interrupted
 *   FAULT_DIE=N     kill -9 at the N-th change of a file below FAULT_FOLDER; half of a write is a change too
 *   FAULT_ROOM=N    files below FAULT_FOLDER take N bytes, then the disk is full
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* The faults are the program's own, not those of what it starts. */
__attribute__((constructor)) static void alone(void) { unsetenv("LD_PRELOAD"); }

static long setting(const char *name) {
  const char *value = getenv(name);
  return value ? atol(value) : -1;
}

static int below_folder(int fd) {
  const char *folder = getenv("FAULT_FOLDER");
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = folder ? readlink(link, path, sizeof path - 1) : -1;
  if (length < 0) return 0;
  path[length] = 0;
  return strncmp(path, folder, strlen(folder)) == 0;
}

/* Whether this change of a file is the last thing the process does. */
static int last(void) {
  static atomic_long changes;
  long die = setting("FAULT_DIE");
  return die >= 0 && ++changes == die;
}

static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

/* Whether this call is interrupted. */
static int interrupted(void) {
  static atomic_long calls;
  if (setting("FAULT_CALLS") < 0 || ++calls % 3) return 0;
  errno = EINTR;
  return 1;
}

static size_t few(size_t count) { return setting("FAULT_CALLS") >= 0 && count > 7 ? 7 : count; }

ssize_t write(int fd, const void *data, size_t count) {
  static atomic_long written;
  ssize_t (*real)(int, const void *, size_t) = REAL(write);
  if (interrupted()) return -1;
  count = few(count);
  if (below_folder(fd)) {
    if (last()) die();
    if (last()) { real(fd, data, count / 2); die(); }
    long room = setting("FAULT_ROOM");
    if (room >= 0) {
      long left = room - written;
      if (left <= 0 && count) { errno = ENOSPC; return -1; }
      if ((long)count > left) count = left;
      written += count;
    }
  }
  return real(fd, data, count);
}

ssize_t read(int fd, void *data, size_t count) { return interrupted() ? -1 : REAL(read)(fd, data, few(count)); }
ssize_t recv(int fd, void *data, size_t count, int flags) {
  return interrupted() ? -1 : REAL(recv)(fd, data, few(count), flags);
}
ssize_t send(int fd, const void *data, size_t count, int flags) {
  return interrupted() ? -1 : REAL(send)(fd, data, few(count), flags);
}

int fdatasync(int fd) { if (below_folder(fd) && last()) die(); return REAL(fdatasync)(fd); }
int fsync(int fd) { if (below_folder(fd) && last()) die(); return REAL(fsync)(fd); }
int ftruncate64(int fd, off64_t length) { if (below_folder(fd) && last()) die(); return REAL(ftruncate64)(fd, length); }
int rename(const char *from, const char *to) { if (last()) die(); return REAL(rename)(from, to); }
int unlink(const char *path) { if (last()) die(); return REAL(unlink)(path); }
int linkat(int a, const char *from, int b, const char *to, int flags) {
  if (last()) die();
  return REAL(linkat)(a, from, b, to, flags);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static atomic_long looks;
  static const long jumps[] = {0, -3600, -2000000000L, 4000000000L, 86400};
  int result = REAL(clock_gettime)(clock, now);
  if ((clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) && setting("FAULT_CLOCK") >= 0) {
    now->tv_sec += jumps[++looks % 5];
  }
  return result;
}
