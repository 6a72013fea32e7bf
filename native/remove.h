/* Removal of a whole tree, however hostile, without following a link. */
#ifndef SBX_REMOVE_H
#define SBX_REMOVE_H

/* Removes `name` (one component) below the folder `parent_fd`: a file, a link
 * or a tree of any depth and size. Never follows a link, never enters another
 * mount, holds a bounded number of descriptors and gives itself the owner bits
 * it needs on folders. Goes on after a failure. Blocks; makes plain system
 * calls only.
 *
 * Returns 0, or the first failure as a negative errno: -ENOENT when there was
 * nothing, -EBUSY when a mount lies inside. */
int sbx_remove_tree(int parent_fd, const char* name);

#endif
