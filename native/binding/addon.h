// What the classes of the binding share: the state of one Node environment
// and the settling of one promise.
#ifndef SBX_BINDING_ADDON_H
#define SBX_BINDING_ADDON_H

#include <napi.h>
#include <uv.h>

#include <set>
#include <string>

extern "C" {
#include "../../providers/provider.h"
#include "../http/http.h"
#include "../http/transport.h"
}

namespace sbx {

struct SandboxState;
class Http;

// Instance data of one environment (the main thread or a worker). The cleanup
// hook closes every sandbox before the environment goes away.
struct Addon {
  explicit Addon(napi_env env) : env(env) {}

  Napi::Env env;
  uv_loop_t* loop = nullptr;
  Napi::FunctionReference sandbox_class;
  Napi::FunctionReference process_class;
  napi_async_cleanup_hook_handle hook = nullptr;
  uv_async_t* alive = nullptr;  // referenced while anything is pending
  size_t pending = 0;
  sbx_sandbox* opening = nullptr;  // handed to the next NativeSandbox
  SandboxState* sandboxes = nullptr;  // every one that is not freed yet
  Napi::ObjectReference http_lender;  // js/transport.js
  sbx_http_host http_host = {};       // the engine's view of it
  sbx_http_pool http_pool = {};       // the clients of cloud sandboxes
  std::string http_roots;
  std::set<Http*> https;
  bool closing = false;               // no JavaScript may run any more

  void Hold();     // keeps Node's loop alive
  void Release();  // the opposite, once per Hold
  void Finish();   // the end of teardown, once nothing is left
};

Addon* GetAddon(Napi::Env env);

Napi::Error MakeError(Napi::Env env, const sbx_error& error);
void Throw(Napi::Env env, const sbx_error& error);

// Text of any bytes; broken UTF-8 becomes U+FFFD. Empty, with an exception
// pending, where V8 has no string of that length.
Napi::Value MakeText(Napi::Env env, const char* bytes, size_t len);

// Calls back from the loop. What is thrown becomes an uncaughtException, as for
// every emitter of Node; the shim guards its users' callbacks.
void CallBack(const Napi::FunctionReference& callback, napi_value receiver,
              const std::initializer_list<napi_value>& arguments,
              napi_async_context context);

// A promise to settle. Not Napi::Promise::Deferred: where a worker is being
// terminated no promise can be made, and that one then gives a handle it has not
// set.
class Deferred {
 public:
  explicit Deferred(napi_env env);
  Napi::Value Promise() const { return Napi::Value(env_, promise_); }
  void Resolve(napi_value value) const;
  void Reject(napi_value error) const;

 private:
  napi_env env_;
  napi_deferred deferred_ = nullptr;
  napi_value promise_ = nullptr;  // in the scope it was made in
};

// Resolves, or rejects with what was thrown while the value was made.
void SettleWith(Napi::Env env, const Deferred& deferred, Napi::Value value);

// A promise, the async context it was made in, and the loop kept alive for it.
class Operation {
 public:
  Operation(Addon* addon, const char* name)
      : addon(addon),
        deferred(addon->env),
        context_(addon->env, name) {
    addon->Hold();
  }
  ~Operation() { addon->Release(); }

  // `make` builds the value; it runs only where JavaScript may still run.
  template <typename Make>
  void Settle(const sbx_error* error, Make make) {
    if (addon->closing) return;
    Napi::HandleScope scope(addon->env);
    Napi::CallbackScope callback(addon->env, context_);
    if (error) {
      deferred.Reject(MakeError(addon->env, *error).Value());
    } else {
      SettleWith(addon->env, deferred, make(addon->env));
    }
  }

  Addon* const addon;
  Deferred deferred;

 private:
  Napi::AsyncContext context_;
};

}  // namespace sbx

#endif
