// Reads JavaScript objects into the engine's option bag.
#ifndef SBX_BINDING_OPTIONS_H
#define SBX_BINDING_OPTIONS_H

#include "addon.h"

namespace sbx {

// The caller frees it. nullptr with a JavaScript exception pending.
sbx_options* ReadOptions(Napi::Value value);

}  // namespace sbx

#endif
