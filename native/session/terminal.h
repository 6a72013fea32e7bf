/* The host's end of a command's terminal. */
#ifndef SBX_TERMINAL_H
#define SBX_TERMINAL_H

#include <stdint.h>

/* Columns and rows from 1 to 65535. The command gets SIGWINCH. 0 or a negative
 * errno. */
int sbx_terminal_resize(int master, uint32_t columns, uint32_t rows);

/* To what runs in the foreground; only INT, QUIT and TSTP can go this way. 0 or
 * a negative errno. */
int sbx_terminal_signal(int master, int signo);

#endif
