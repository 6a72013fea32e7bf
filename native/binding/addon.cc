// The module: instance data, teardown and the two module functions.
#include "addon.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "exchange.h"
#include "options.h"
#include "process.h"
#include "reader.h"
#include "sandbox.h"
#include "transport.h"

extern "C" {
#include "../session/setup.h"
#include "../utf8.h"
}

namespace sbx {

void Addon::Hold() {
  if (pending++ == 0 && alive) uv_ref(reinterpret_cast<uv_handle_t*>(alive));
}

void Addon::Release() {
  if (--pending) return;
  if (alive) uv_unref(reinterpret_cast<uv_handle_t*>(alive));
  Finish();
}

static void on_alive_closed(uv_handle_t* handle) {
  auto* addon = static_cast<Addon*>(handle->data);
  delete reinterpret_cast<uv_async_t*>(handle);
  napi_remove_async_cleanup_hook(addon->hook);
}

void Addon::Finish() {
  if (!closing || sandboxes || pending || !alive) return;
  uv_async_t* handle = alive;
  alive = nullptr;
  uv_close(reinterpret_cast<uv_handle_t*>(handle), on_alive_closed);
}

// Only asynchronous hooks work here: handles must be closed on the loop before
// the addon may be unloaded.
static void on_cleanup(napi_async_cleanup_hook_handle, void* arg) {
  auto* addon = static_cast<Addon*>(arg);
  addon->closing = true;
  CloseAll(addon);
  ShutHttps(addon);
  addon->Finish();
}

Addon* GetAddon(Napi::Env env) { return env.GetInstanceData<Addon>(); }

Napi::Error MakeError(Napi::Env env, const sbx_error& error) {
  Napi::Error made = Napi::Error::New(env, error.message);
  Napi::Object object = made.Value();
  object.Set("code", sbx_code_name(error.code));
  object.Set("operation", error.operation ? error.operation : "");
  object.Set("retryable", error.retryable);
  char name[64];
  if (error.sys) {
    object.Set("errno", uv_err_name_r(-error.sys, name, sizeof(name)));
  }
  if (error.step) object.Set("step", sbx_setup_name(error.step));
  if (error.code == SBX_E_STALE) {
    object.Set("number", static_cast<double>(error.number));
  }
  return made;
}

void Throw(Napi::Env env, const sbx_error& error) {
  MakeError(env, error).ThrowAsJavaScriptException();
}

Napi::Value MakeText(Napi::Env env, const char* bytes, size_t len) {
  napi_value value = nullptr;
  napi_status status =
      sbx_utf8_is_ascii(bytes, len)
          ? napi_create_string_latin1(env, bytes, len, &value)
          : napi_create_string_utf8(env, bytes, len, &value);
  if (status == napi_ok) return Napi::Value(env, value);
  if (env.IsExceptionPending()) env.GetAndClearPendingException();
  sbx_error error = {};
  sbx_error_set(&error, SBX_E_UNSUPPORTED, EFBIG, "text",
                "%zu bytes are more than one string of JavaScript holds: read "
                "them as bytes, or a part of them with a command",
                len);
  Throw(env, error);
  return Napi::Value();
}

void CallBack(const Napi::FunctionReference& callback, napi_value receiver,
              const std::initializer_list<napi_value>& arguments,
              napi_async_context context) {
  Napi::Env env = callback.Env();
  callback.MakeCallback(receiver, arguments, context);
  if (!env.IsExceptionPending()) return;
  napi_fatal_exception(env, env.GetAndClearPendingException().Value());
}

Deferred::Deferred(napi_env env) : env_(env) {
  if (napi_create_promise(env, &deferred_, &promise_) == napi_ok) return;
  deferred_ = nullptr;
  promise_ = nullptr;
}

// Fails only where no JavaScript runs any more, so that nothing waits for it.
void Deferred::Resolve(napi_value value) const {
  if (deferred_) napi_resolve_deferred(env_, deferred_, value);
}

void Deferred::Reject(napi_value error) const {
  if (deferred_) napi_reject_deferred(env_, deferred_, error);
}

void SettleWith(Napi::Env env, const Deferred& deferred, Napi::Value value) {
  if (!env.IsExceptionPending()) {
    deferred.Resolve(value);
    return;
  }
  deferred.Reject(env.GetAndClearPendingException().Value());
}

static Napi::Value Open(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  sbx_error error = {};
  std::string name;
  if (!ReadText(info[0], "the provider's name", &name)) return env.Undefined();
  const sbx_provider* provider = sbx_provider_find(name.c_str());
  if (!provider) {
    sbx_error_set(&error, SBX_E_INVALID_INPUT, 0, "open",
                  "there is no provider named \"%s\"", name.c_str());
    Throw(env, error);
    return env.Undefined();
  }
  sbx_options* options = ReadOptions(info[1]);
  if (!options) return env.Undefined();
  if (GetAddon(env)->http_host.ops) {
    sbx_options_set_host(options, &GetAddon(env)->http_host);
  }
  sbx_sandbox* sandbox = nullptr;
  int rc = provider->open(GetAddon(env)->loop, options, &sandbox, &error);
  sbx_options_free(options);
  if (rc) {
    Throw(env, error);
    return env.Undefined();
  }
  return Sandbox::Make(env, sandbox);
}

static Napi::Value Mime(const Napi::CallbackInfo& info) {
  std::string path;
  if (!ReadText(info[0], "path", &path)) return info.Env().Undefined();
  const char* type = sbx_path_mime(path.c_str());
  if (!type) return info.Env().Undefined();
  return Napi::String::New(info.Env(), type);
}

// Node-API 10; weak, for what hosts an older one only.
extern "C" __attribute__((weak)) napi_status node_api_create_property_key_utf8(
    napi_env env, const char* bytes, size_t len, napi_value* result);

// Strings of parts of some bytes, as many as there are pairs of start and end.
// V8 keeps property keys with what lives long: the collector does not copy them.
static Napi::Value Keys(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const char* bytes = nullptr;
  size_t len = 0;
  if (!ReadBytes(info[0], &bytes, &len) || !info[1].IsTypedArray() ||
      info[1].As<Napi::TypedArray>().TypedArrayType() != napi_uint32_array) {
    Napi::TypeError::New(env, "bytes and a Uint32Array are needed")
        .ThrowAsJavaScriptException();
    return env.Undefined();
  }
  auto* make = node_api_create_property_key_utf8
                   ? node_api_create_property_key_utf8
                   : napi_create_string_utf8;
  auto ranges = info[1].As<Napi::Uint32Array>();
  size_t count = ranges.ElementLength() / 2;
  Napi::Array keys = Napi::Array::New(env, count);
  for (size_t i = 0; i < count; i++) {
    uint32_t start = ranges.Data()[2 * i], end = ranges.Data()[2 * i + 1];
    napi_value key = nullptr;
    if (start > end || end > len) {
      Napi::RangeError::New(env, "a range leaves the bytes")
          .ThrowAsJavaScriptException();
      return env.Undefined();
    }
    if (make(env, bytes + start, end - start, &key) != napi_ok ||
        napi_set_element(env, keys, static_cast<uint32_t>(i), key) != napi_ok) {
      return env.Undefined();
    }
  }
  return keys;
}

static Napi::Object Init(Napi::Env env, Napi::Object exports) {
  auto* addon = new Addon(env);
  env.SetInstanceData(addon);
  napi_get_uv_event_loop(env, &addon->loop);
  addon->alive = new uv_async_t;
  addon->alive->data = addon;
  uv_async_init(addon->loop, addon->alive, nullptr);
  uv_unref(reinterpret_cast<uv_handle_t*>(addon->alive));
  napi_add_async_cleanup_hook(env, on_cleanup, addon, &addon->hook);
  addon->sandbox_class = Napi::Persistent(Sandbox::Define(env));
  addon->process_class = Napi::Persistent(Process::Define(env));
  exports.Set("open", Napi::Function::New(env, Open, "open"));
  exports.Set("lend", Napi::Function::New(env, Lend, "lend"));
  exports.Set("Http", Http::Define(env));
  exports.Set("keys", Napi::Function::New(env, Keys, "keys"));
  exports.Set("mime", Napi::Function::New(env, Mime, "mime"));
  return exports;
}

}  // namespace sbx

static Napi::Object InitModule(Napi::Env env, Napi::Object exports) {
  return sbx::Init(env, exports);
}

NODE_API_MODULE(NODE_GYP_MODULE_NAME, InitModule)
