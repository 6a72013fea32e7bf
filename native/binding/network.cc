#include "network.h"

#include "reader.h"

namespace sbx {

static void on_exposed(void* arg, const sbx_error* error,
                       const sbx_exposed* exposed) {
  auto* operation = static_cast<Operation*>(arg);
  operation->Settle(error, [exposed](Napi::Env env) {
    Napi::Object place = Napi::Object::New(env);
    if (exposed->host) place.Set("host", exposed->host);
    if (exposed->host) place.Set("port", exposed->port);
    if (exposed->url) place.Set("url", exposed->url);
    if (exposed->header) place.Set("header", exposed->header);
    return place;
  });
  delete operation;
}

static void Missing(Napi::Env env, const char* operation) {
  sbx_error error = {};
  sbx_error_set(&error, SBX_E_UNSUPPORTED, 0, operation,
                "This provider has no %s.", operation);
  Throw(env, error);
}

Napi::Value ExposePort(const Napi::CallbackInfo& info, Addon* addon,
                       sbx_sandbox* sandbox) {
  if (!sandbox->provider->expose) {
    Missing(info.Env(), "ports.expose");
    return info.Env().Undefined();
  }
  auto* operation = new Operation(addon, "expose");
  Napi::Value promise = operation->deferred.Promise();
  sandbox->provider->expose(sandbox, Uint32Of(info[0]),
                            on_exposed, operation);
  return promise;
}

static void on_network(void* arg, const sbx_error* error) {
  auto* operation = static_cast<Operation*>(arg);
  operation->Settle(error, [](Napi::Env env) { return env.Undefined(); });
  delete operation;
}

Napi::Value SetNetwork(const Napi::CallbackInfo& info, Addon* addon,
                       sbx_sandbox* sandbox) {
  Napi::Env env = info.Env();
  const sbx_provider* provider = sandbox->provider;
  if (!provider->set_network && !provider->request_network) {
    Missing(env, "setNetworkPolicy");
    return env.Undefined();
  }
  if (!info[0].IsArray()) {
    Napi::TypeError::New(env, "setNetwork wants an array of hosts")
        .ThrowAsJavaScriptException();
    return env.Undefined();
  }
  Names hosts;
  if (!hosts.Read(info[0], "each host")) return env.Undefined();
  const std::vector<const char*>& texts = hosts.pointers;
  if (provider->request_network) {
    auto* operation = new Operation(addon, "setNetwork");
    Napi::Value promise = operation->deferred.Promise();
    provider->request_network(sandbox, texts.data(), texts.size(), on_network,
                              operation);
    return promise;
  }
  sbx_error error = {};
  if (provider->set_network(sandbox, texts.data(), texts.size(), &error)) {
    Throw(env, error);
  }
  return env.Undefined();
}

struct Denied {
  Addon* addon;
  Napi::FunctionReference callback;
  Napi::AsyncContext context;
};

static void on_denied(void* arg, const sbx_denial* denial) {
  auto* denied = static_cast<Denied*>(arg);
  if (denied->addon->closing) return;
  Napi::Env env = denied->addon->env;
  Napi::HandleScope scope(env);
  Napi::Object event = Napi::Object::New(env);
  event.Set("host", denial->host);
  event.Set("port", denial->port);
  event.Set("reason", denial->reason);
  event.Set("last", denial->last);
  CallBack(denied->callback, env.Global(), {event}, denied->context);
}

Denied* WatchDenied(const Napi::CallbackInfo& info, Addon* addon,
                    sbx_sandbox* sandbox) {
  if (!sandbox->provider->watch_network || !info[0].IsFunction()) {
    return nullptr;
  }
  auto* denied = new Denied{addon,
                            Napi::Persistent(info[0].As<Napi::Function>()),
                            Napi::AsyncContext(info.Env(), "networkDenied")};
  sandbox->provider->watch_network(sandbox, on_denied, denied);
  return denied;
}

void FreeDenied(Denied* denied, sbx_sandbox* sandbox) {
  if (!denied) return;
  sandbox->provider->watch_network(sandbox, nullptr, nullptr);
  delete denied;
}

}  // namespace sbx
