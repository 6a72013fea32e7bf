/* The launcher program that the addon carries. */
#ifndef SBX_LAUNCHER_H
#define SBX_LAUNCHER_H

/* A descriptor of the program, sealed against change and close-on-exec, to be
 * executed as /proc/self/fd/N. One per OS process, made at the first call and
 * kept until the process ends. Negative errno when it could not be made. */
int sbx_launcher_fd(void);

#endif
