// NativeSandbox.file: one file verb from JavaScript arguments to a promise.
#ifndef SBX_BINDING_FILE_H
#define SBX_BINDING_FILE_H

#include "addon.h"

namespace sbx {

// The path as the engine wants it; else *rc is negative and `error` filled.
std::string ReadPath(sbx_sandbox* sandbox, int scope, const std::string& text,
                     sbx_error* error, int* rc);

Napi::Value RequestFile(const Napi::CallbackInfo& info, sbx_sandbox* sandbox);

}  // namespace sbx

#endif
