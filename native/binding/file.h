// NativeSandbox.file: one file verb from JavaScript arguments to a promise.
#ifndef SBX_BINDING_FILE_H
#define SBX_BINDING_FILE_H

#include "addon.h"

namespace sbx {

Napi::Value RequestFile(const Napi::CallbackInfo& info, sbx_sandbox* sandbox);

}  // namespace sbx

#endif
