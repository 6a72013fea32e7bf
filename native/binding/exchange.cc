// NativeHttp.open and what an exchange reports.
#include "exchange.h"

#include "reader.h"

namespace sbx {

// One exchange and the function that hears of it.
struct HttpCall {
  HttpCall(Addon* environment, uint32_t number, Napi::Function function)
      : addon(environment),
        id(number),
        listener(Napi::Persistent(function)),
        context(function.Env(), "NativeHttp") {
    addon->Hold();
  }
  ~HttpCall() { addon->Release(); }

  template <typename Make>
  void Tell(const char* event, Make make) {
    Napi::Env env = addon->env;
    if (addon->closing) return;
    Napi::HandleScope scope(env);
    Napi::CallbackScope callback(env, context);
    napi_value args[] = {Napi::String::New(env, event), make(env)};
    napi_value self = env.Undefined(), result = nullptr;
    napi_call_function(env, self, listener.Value(), 2, args, &result);
    if (env.IsExceptionPending()) env.GetAndClearPendingException();
  }

  Addon* addon;  // the NativeHttp may be gone first
  uint32_t id;
  sbx_exchange* exchange = nullptr;
  Napi::FunctionReference listener;
  Napi::AsyncContext context;
};

namespace {

void on_head(void* data, const sbx_http_head* head) {
  static_cast<HttpCall*>(data)->Tell("head", [&](Napi::Env env) {
    Napi::Object made = Napi::Object::New(env);
    Napi::Object headers = Napi::Object::New(env);
    made.Set("status", head->status);
    for (size_t i = 0; i < head->count; i++) {
      headers.Set(head->names[i],
                  MakeText(env, head->values[i], strlen(head->values[i])));
    }
    made.Set("headers", headers);
    return made;
  });
}

void on_bytes(void* data, const char* bytes, size_t len) {
  static_cast<HttpCall*>(data)->Tell("bytes", [&](Napi::Env env) {
    return Napi::Buffer<char>::Copy(env, bytes, len);
  });
}

void on_message(void* data, bool text) {
  static_cast<HttpCall*>(data)->Tell(
      "message", [&](Napi::Env env) { return Napi::Boolean::New(env, text); });
}

void on_drain(void* data) {
  static_cast<HttpCall*>(data)->Tell(
      "drain", [](Napi::Env env) { return env.Undefined(); });
}

void on_end(void* data, const sbx_error* error) {
  static_cast<HttpCall*>(data)->Tell("end", [&](Napi::Env env) -> Napi::Value {
    if (!error) return env.Undefined();
    return MakeError(env, *error).Value();
  });
}

// NULL without a text.
const char* Keep(Napi::Value value, std::string* store) {
  if (!value.IsString()) return nullptr;
  *store = TextOf(value);
  return store->c_str();
}

// The engine may be calling it just now: its memory goes in a later turn.
void Drop(HttpCall* call) {
  sbx_exchange_close(call->exchange);
  auto* later = new uv_idle_t;
  later->data = call;
  uv_idle_init(call->addon->loop, later);
  uv_close(reinterpret_cast<uv_handle_t*>(later), [](uv_handle_t* handle) {
    auto* gone = static_cast<HttpCall*>(handle->data);
    Napi::HandleScope scope(gone->addon->env);
    delete gone;
    delete reinterpret_cast<uv_idle_t*>(handle);
  });
}

void on_shut(void* arg) { static_cast<Addon*>(arg)->Release(); }

void on_closed(void* arg) {
  auto* operation = static_cast<Operation*>(arg);
  operation->Settle(nullptr, [](Napi::Env env) { return env.Undefined(); });
  delete operation;
}

}  // namespace

Napi::Function Http::Define(Napi::Env env) {
  return DefineClass(env, "NativeHttp",
                     {InstanceMethod<&Http::Open>("open"),
                      InstanceMethod<&Http::Send>("send"),
                      InstanceMethod<&Http::FinishBody>("finish"),
                      InstanceMethod<&Http::Pause>("pause"),
                      InstanceMethod<&Http::End>("end"),
                      InstanceMethod<&Http::Close>("close")});
}

Http::Http(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<Http>(info), addon_(GetAddon(info.Env())) {
  Reader options(info[0]);
  std::string ca, proxy;
  sbx_http_settings settings = {};
  settings.ca_file = Keep(options.Get("caFile"), &ca);
  settings.proxy = Keep(options.Get("proxy"), &proxy);
  settings.provider = "HTTP";
  settings.host = addon_->http_host.ops ? &addon_->http_host : nullptr;
  if (options.Ok() && sbx_http_new(addon_->loop, &settings, &http_)) {
    http_ = nullptr;
  }
  addon_->https.insert(this);
}

void Http::DropAll() {
  for (auto& one : calls_) Drop(one.second);
  calls_.clear();
}

// Held first: the last call that goes would end the environment's teardown.
void Http::Shut() {
  if (!http_) return;
  Napi::HandleScope scope(addon_->env);
  addon_->Hold();
  DropAll();
  sbx_http_close(http_, on_shut, addon_);
  http_ = nullptr;
}

Http::~Http() {
  addon_->https.erase(this);
  Shut();
}

void ShutHttps(Addon* addon) {
  for (Http* one : addon->https) one->Shut();
}

HttpCall* Http::Find(Napi::Value id) {
  auto found = calls_.find(Uint32Of(id));
  return found == calls_.end() ? nullptr : found->second;
}

Napi::Value Http::Open(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  Reader options(info[0]);
  std::string method, url;
  Names headers;
  const char* bytes = nullptr;
  size_t len = 0;
  sbx_error error = {};
  sbx_http_request request = {};
  request.method = Keep(options.Get("method"), &method);
  request.url = Keep(options.Get("url"), &url);
  if (!headers.Read(options.Get("headers"), "a header")) return env.Undefined();
  request.headers = headers.pointers.data();
  request.headers_len = headers.pointers.size();
  if (ReadBytes(options.Get("body"), &bytes, &len)) {
    request.body = bytes;
    request.body_len = len;
  }
  request.stream_len = static_cast<int64_t>(NumberOf(options.Get("streamLength"), -1));
  request.flags = Uint32Of(options.Get("flags"));
  request.head_ms = static_cast<uint64_t>(NumberOf(options.Get("headMs"), 0));
  request.idle_ms = static_cast<uint64_t>(NumberOf(options.Get("idleMs"), 0));
  request.max_body = static_cast<uint64_t>(NumberOf(options.Get("maxBody"), 0));
  if (!options.Ok()) return env.Undefined();
  if (!http_ || !request.method || !request.url) {
    sbx_error_set(&error, SBX_E_INVALID_INPUT, 0, "http",
                  "an open NativeHttp, a method and a url are needed");
    Throw(env, error);
    return env.Undefined();
  }
  auto* call = new HttpCall(addon_, ++last_, info[1].As<Napi::Function>());
  sbx_http_events events = {call, on_head, on_bytes, on_message, on_drain,
                            on_end};
  if (sbx_http_open(http_, &request, &events, &call->exchange, &error)) {
    delete call;
    Throw(env, error);
    return env.Undefined();
  }
  calls_[call->id] = call;
  return Napi::Number::New(env, call->id);
}

Napi::Value Http::Send(const Napi::CallbackInfo& info) {
  HttpCall* call = Find(info[0]);
  const char* bytes = nullptr;
  size_t len = 0;
  if (!call || !ReadBytes(info[1], &bytes, &len)) {
    return Napi::Boolean::New(info.Env(), false);
  }
  int rc = sbx_exchange_send(call->exchange, bytes, len, IsTrue(info[2]));
  return Napi::Boolean::New(info.Env(), rc == 0);
}

void Http::FinishBody(const Napi::CallbackInfo& info) {
  HttpCall* call = Find(info[0]);
  if (call) sbx_exchange_finish(call->exchange);
}

void Http::Pause(const Napi::CallbackInfo& info) {
  HttpCall* call = Find(info[0]);
  if (call) sbx_exchange_pause(call->exchange, IsTrue(info[1]));
}

void Http::End(const Napi::CallbackInfo& info) {
  HttpCall* call = Find(info[0]);
  if (!call) return;
  calls_.erase(call->id);
  Drop(call);
}

Napi::Value Http::Close(const Napi::CallbackInfo& info) {
  if (!http_) return info.Env().Undefined();
  auto* operation = new Operation(addon_, "NativeHttp.close");
  Napi::Value promise = operation->deferred.Promise();
  DropAll();
  sbx_http_close(http_, on_closed, operation);
  http_ = nullptr;
  return promise;
}

}  // namespace sbx
