/* Lets one allocation of the code under test fail, the countdown-th one while
 * `armed`, which the including file declares before: it says whether that is for
 * one thread or all. Linked with --wrap for the names below. */
#ifndef ALLOC_FAULT_H
#define ALLOC_FAULT_H

#include <stdbool.h>
#include <stddef.h>

static int countdown = -1;
static bool fired;

/* Below zero nothing does. */
static bool fails(void) {
  if (!armed || __atomic_load_n(&countdown, __ATOMIC_RELAXED) < 0) return false;
  if (__atomic_fetch_sub(&countdown, 1, __ATOMIC_RELAXED) != 0) return false;
  __atomic_store_n(&fired, true, __ATOMIC_RELAXED);
  return true;
}

void* __real_malloc(size_t size);
void* __real_calloc(size_t n, size_t size);
void* __real_realloc(void* p, size_t size);
char* __real_strdup(const char* s);
char* __real_strndup(const char* s, size_t n);

void* __wrap_malloc(size_t size) {
  return fails() ? NULL : __real_malloc(size);
}

void* __wrap_calloc(size_t n, size_t size) {
  return fails() ? NULL : __real_calloc(n, size);
}

void* __wrap_realloc(void* p, size_t size) {
  return fails() ? NULL : __real_realloc(p, size);
}

char* __wrap_strdup(const char* s) {
  return fails() ? NULL : __real_strdup(s);
}

char* __wrap_strndup(const char* s, size_t n) {
  return fails() ? NULL : __real_strndup(s, n);
}

#endif
