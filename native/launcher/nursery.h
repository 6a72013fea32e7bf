/* A thread of the launcher with fewer rights than its loop: commands are born
 * from it. What is refused to them is refused to this thread, but the loop
 * beside it can still signal them and they cannot signal the loop. */
#ifndef SBX_LAUNCHER_NURSERY_H
#define SBX_LAUNCHER_NURSERY_H

struct sbx_nursery {
  int gate;  /* socket between the two threads */
  int other; /* the thread's end */
  int (*begin)(void* arg);
  void* arg;
};

/* Starts the thread, which runs `begin` first. NULL with errno, also that of a
 * `begin` that returned -1: then the launcher is about to give up. Never
 * freed. */
struct sbx_nursery* sbx_nursery_start(int (*begin)(void* arg), void* arg);

/* Runs `fn` in the thread and waits. Returns its result, with its errno. */
int sbx_nursery_run(struct sbx_nursery* nursery, int (*fn)(void* arg),
                    void* arg);

#endif
