// What Node lends to the HTTP engine where there is no libcurl: js/transport.js
// behind the engine's table.
#ifndef SBX_BINDING_TRANSPORT_H
#define SBX_BINDING_TRANSPORT_H

#include "addon.h"

namespace sbx {

// lend({open, roots}): once, before the first open.
Napi::Value Lend(const Napi::CallbackInfo& info);

}  // namespace sbx

#endif
