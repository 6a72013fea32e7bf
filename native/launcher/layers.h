/* The workspace as more than one bind: over a template, and with parts of it
 * read-only. */
#ifndef SBX_LAUNCHER_LAYERS_H
#define SBX_LAUNCHER_LAYERS_H

#include "view.h"

/* Mounts the workspace over the template at the mount point. Where the kernel or
 * a file system cannot do that, v->workspace becomes the upper folder alone and
 * v->overlaid stays false. -1 only for what must not fail. */
int sbx_layers_overlay(struct sbx_view* view);

/* Makes the parts that are to be protected read-only, in the mounted workspace,
 * and the folders above them mount points, so that these cannot be moved away
 * with what is in them. */
int sbx_layers_protect(struct sbx_view* view);

#endif
