/* Makes the wall clock of a process wrong: SOAK_CLOCK="SECONDS AFTER" adds so many seconds, from so long after its
 * start on. Clocks that only measure how long something takes stay right, as they do on a machine whose time is set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static int (*real)(clockid_t, struct timespec *);
static long wrong;
static double since;

static void __attribute__((constructor)) begin(void) {
  const char *given = getenv("SOAK_CLOCK");
  char *rest = NULL;
  struct timespec now;
  real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  if (given == NULL || real == NULL) return;
  wrong = strtol(given, &rest, 10);
  real(CLOCK_MONOTONIC, &now);
  since = (double)now.tv_sec + strtod(rest, NULL);
}

static long shift(void) {
  struct timespec now;
  if (wrong == 0 || real(CLOCK_MONOTONIC, &now) != 0) return 0;
  return (double)now.tv_sec >= since ? wrong : 0;
}

int clock_gettime(clockid_t which, struct timespec *told) {
  int failed;
  if (real == NULL) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  failed = real(which, told);
  if (failed == 0 && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) told->tv_sec += shift();
  return failed;
}

int gettimeofday(struct timeval *restrict told, void *restrict zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  told->tv_sec = now.tv_sec;
  told->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *told) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (told != NULL) *told = now.tv_sec;
  return now.tv_sec;
}
