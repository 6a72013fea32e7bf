/* Files of a given `directory` that the host runs later, kept from the sandbox. */
#ifndef SBX_LOCAL_PROTECT_H
#define SBX_LOCAL_PROTECT_H

#include "../../native/session/config.h"
#include "../../native/files/files.h"
#include "options.h"

/* Reads `protect`, or takes the default list for a directory. */
int sbx_local_protect_read(const struct sbx_options* o,
                           struct sbx_local_options* out,
                           struct sbx_error* error);

/* One record per path. */
void sbx_local_protect_add(const struct sbx_local_options* o,
                           struct sbx_config* config);

/* The paths that are there, joined by commas, to be freed; NULL if none is. */
char* sbx_local_protect_present(const struct sbx_local_options* o);

/* What of a directory is there in any form, "" for nothing, joined as above; and
 * what came since then, which no mount could keep commands from making. */
char* sbx_local_protect_existing(const struct sbx_local_options* o);
char* sbx_local_protect_created(const struct sbx_local_options* o,
                                const char* before);

/* Whether there is a .git. Where there was none at the start, a new one is the
 * sandbox's own, whichever way it is made: nothing of it is refused by the
 * default list. */
bool sbx_local_protect_repository(const struct sbx_local_options* o);

/* 0, or a refusal of a request that would change a protected path. */
int sbx_local_protect_check(const struct sbx_local_options* o,
                            bool repository,
                            const struct sbx_file_request* request,
                            struct sbx_error* error);

#endif
