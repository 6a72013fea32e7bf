// Ports and network policy of NativeSandbox.
#ifndef SBX_BINDING_NETWORK_H
#define SBX_BINDING_NETWORK_H

#include "addon.h"

namespace sbx {

// expose(port): Promise<{host, port} | {url, header?}>
Napi::Value ExposePort(const Napi::CallbackInfo& info, Addon* addon,
                       sbx_sandbox* sandbox);

// setNetwork(hosts): throws a NativeError, or answers a promise
Napi::Value SetNetwork(const Napi::CallbackInfo& info, Addon* addon,
                       sbx_sandbox* sandbox);

// onDenied(callback): the receiver, freed with FreeDenied; an older one of the
// same sandbox may be freed after the call.
struct Denied;
Denied* WatchDenied(const Napi::CallbackInfo& info, Addon* addon,
                    sbx_sandbox* sandbox);
void FreeDenied(Denied* denied, sbx_sandbox* sandbox);

}  // namespace sbx

#endif
