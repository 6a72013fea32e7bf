// sandbox.watch(): what happens in a folder.
#ifndef SBX_BINDING_WATCH_H
#define SBX_BINDING_WATCH_H

#include "addon.h"

namespace sbx {

// (scope, path, recursive, events); a function that ends it. An exception is
// pending if it fails.
Napi::Value WatchFolder(const Napi::CallbackInfo& info, Addon* addon,
                        sbx_sandbox* sandbox);

}  // namespace sbx

#endif
