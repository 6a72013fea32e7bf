// The engine's transport table over an object of JavaScript. The engine calls
// from any stack, so calls to JavaScript wait for a turn of the loop of their
// own; what JavaScript reports goes to the engine at once.
#include "transport.h"

#include <cstring>
#include <vector>

#include "reader.h"

namespace sbx {

namespace {

enum Event { kOpen = 1, kLine, kBytes, kPull, kDone };

struct Carry;

struct Transport {
  Addon* addon;
  Napi::ObjectReference object;
  Napi::AsyncContext context;
  uv_timer_t kick;
  std::vector<Carry*> todo;
  void (*on_closed)(void* arg) = nullptr;
  void* arg = nullptr;

  Transport(Addon* a, Napi::Object made)
      : addon(a),
        object(Napi::Persistent(made)),
        context(a->env, "sandbox-sdk-native:http") {}
};

// Lives until the engine has ended it and JavaScript let the function go that
// reports to it.
struct Carry {
  Transport* transport;
  sbx_transfer_spec* spec;
  sbx_transfer_events events;
  Napi::ObjectReference object;
  unsigned refs = 1;
  bool queued = false, started = false, ended = false;
  bool paused = false, told_paused = false, woken = false;
};

void Unref(Carry* x) {
  if (--x->refs == 0) delete x;
}

void Queue(Carry* x) {
  Transport* t = x->transport;
  if (x->queued) return;
  x->queued = true;
  x->refs++;
  t->todo.push_back(x);
  uv_timer_start(&t->kick, t->kick.timer_cb, 0, 0);
}

// ---- from JavaScript ----

void ReportLine(Carry* x, Napi::Value value) {
  std::string line = TextOf(value);
  x->events.on_line(x->events.data, line.data(), line.size());
}

// 2: not taken, for it is paused: to be given again. 1: taken, but no more now.
double ReportBytes(Carry* x, Napi::Value value) {
  const char* bytes;
  size_t len;
  if (!x->paused && ReadBytes(value, &bytes, &len)) {
    x->events.on_bytes(x->events.data, bytes, len);
    x->told_paused = x->paused;
    return x->paused ? 1 : 0;
  }
  x->told_paused = true;
  return 2;
}

double Pull(Carry* x, Napi::Value value) {
  const char* bytes;
  size_t len;
  if (!ReadBytes(value, &bytes, &len)) return 0;
  return static_cast<double>(
      x->events.on_pull(x->events.data, const_cast<char*>(bytes), len));
}

void ReportDone(Carry* x, const Napi::CallbackInfo& info) {
  if (info.Length() < 5) {
    x->events.on_done(x->events.data, nullptr);
    return;
  }
  std::string text = TextOf(info[4]);
  sbx_failure failure = {};
  failure.kind =
      static_cast<sbx_failure_kind>(Uint32Of(info[1]));
  failure.sys = static_cast<int>(Uint32Of(info[2]));
  failure.sent = IsTrue(info[3]);
  failure.text = text.c_str();
  x->events.on_done(x->events.data, &failure);
}

Napi::Value Emit(const Napi::CallbackInfo& info) {
  auto* x = static_cast<Carry*>(info.Data());
  double result = 0;
  if (x->ended || x->transport->addon->closing) {
    return Napi::Number::New(info.Env(), 0);
  }
  x->refs++;
  switch (Uint32Of(info[0])) {
    case kOpen: x->events.on_open(x->events.data); break;
    case kLine: ReportLine(x, info[1]); break;
    case kBytes: result = ReportBytes(x, info[1]); break;
    case kPull: result = Pull(x, info[1]); break;
    case kDone: ReportDone(x, info); break;
  }
  Unref(x);
  return Napi::Number::New(info.Env(), result);
}

// ---- to JavaScript ----

// Setting what cannot be set, in a worker that ends, is of no account.
void Set(napi_env env, napi_value object, const char* name, napi_value value) {
  if (value) napi_set_named_property(env, object, name, value);
}

napi_value Text(napi_env env, const char* text) {
  napi_value value = nullptr;
  if (napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value)) {
    return nullptr;
  }
  return value;
}

napi_value MakeHeaders(Napi::Env env, const sbx_transfer_spec* spec) {
  napi_value headers = nullptr;
  if (napi_create_array_with_length(env, spec->headers_len, &headers)) {
    return nullptr;
  }
  for (size_t i = 0; i < spec->headers_len; i++) {
    napi_value line = Text(env, spec->headers[i]);
    if (line) napi_set_element(env, headers, static_cast<uint32_t>(i), line);
  }
  return headers;
}

napi_value MakeBody(Napi::Env env, const sbx_transfer_spec* spec) {
  napi_value body = nullptr;
  if (napi_create_buffer_copy(env, spec->body_len, spec->body, nullptr,
                              &body)) {
    return nullptr;
  }
  return body;
}

napi_value MakeSpec(Napi::Env env, const sbx_transfer_spec* spec) {
  napi_value made = Napi::Object::New(env);
  Set(env, made, "method", Text(env, spec->method));
  Set(env, made, "url", Text(env, spec->url));
  Set(env, made, "headers", MakeHeaders(env, spec));
  Set(env, made, "body", MakeBody(env, spec));
  Set(env, made, "stream", Napi::Boolean::New(env, spec->stream));
  Set(env, made, "streamLength",
      Napi::Number::New(env, static_cast<double>(spec->stream_len)));
  Set(env, made, "decode", Napi::Boolean::New(env, spec->decode));
  Set(env, made, "tunnel", Napi::Boolean::New(env, spec->tunnel));
  if (spec->proxy) Set(env, made, "proxy", Text(env, spec->proxy));
  Set(env, made, "connectMs",
      Napi::Number::New(env, static_cast<double>(spec->connect_ms)));
  return made;
}

Napi::Value MakeEmit(Napi::Env env, Carry* x) {
  Napi::Function emit = Napi::Function::New(env, Emit, "emit", x);
  if (emit.IsEmpty()) return env.Undefined();
  x->refs++;
  emit.AddFinalizer([](Napi::Env, Carry* carry) { Unref(carry); }, x);
  return emit;
}

// NULL where a worker is being terminated: then nothing of JavaScript answers,
// and node-addon-api would end the process over it.
napi_value Call(Napi::Env env, const Napi::ObjectReference& object,
                const char* name, std::initializer_list<napi_value> args) {
  napi_value target = object.Value(), method = nullptr, result = nullptr;
  if (!target || napi_get_named_property(env, target, name, &method)) {
    return nullptr;
  }
  napi_status status = napi_call_function(env, target, method, args.size(),
                                          args.begin(), &result);
  return status == napi_ok ? result : nullptr;
}

void Start(Napi::Env env, Carry* x) {
  napi_value made = Call(env, x->transport->object, "start",
                         {MakeSpec(env, x->spec), MakeEmit(env, x)});
  x->started = true;
  if (made) x->object = Napi::Persistent(Napi::Object(env, made));
}

void End(Napi::Env env, Carry* x) {
  if (x->object.IsEmpty()) return;
  Call(env, x->object, "end", {});
  x->object.Reset();
}

void WorkOn(Napi::Env env, Carry* x) {
  if (!x->ended && !x->started) Start(env, x);
  if (x->ended) {
    End(env, x);
    return;
  }
  if (x->object.IsEmpty()) return;
  if (x->paused != x->told_paused) {
    x->told_paused = x->paused;
    Call(env, x->object, "pause", {Napi::Boolean::New(env, x->paused)});
  }
  if (x->woken && !x->ended && !x->object.IsEmpty()) {
    x->woken = false;
    Call(env, x->object, "wake", {});
  }
}

void Work(Transport* t) {
  std::vector<Carry*> list;
  list.swap(t->todo);
  Napi::Env env = t->addon->env;
  for (Carry* x : list) {
    x->queued = false;
    if (!t->addon->closing) {
      Napi::HandleScope scope(env);
      Napi::CallbackScope callback(env, t->context);
      WorkOn(env, x);
      // Ours never throws; a broken global might. The deadline ends it then.
      if (env.IsExceptionPending()) env.GetAndClearPendingException();
    }
    Unref(x);
  }
}

void on_kick(uv_timer_t* timer) { Work(static_cast<Transport*>(timer->data)); }

// ---- the table ----

Transport* TransportOf(sbx_transport* t) {
  return reinterpret_cast<Transport*>(t);
}

Carry* CarryOf(sbx_transfer* x) { return reinterpret_cast<Carry*>(x); }

int Open(void* lender, const sbx_transport_config* config, sbx_transport** out,
         sbx_error* error) {
  auto* addon = static_cast<Addon*>(lender);
  Napi::Env env = addon->env;
  Napi::HandleScope scope(env);
  Napi::Value file = config->ca_file ? Napi::String::New(env, config->ca_file)
                                     : env.Undefined();
  Napi::Value pem =
      config->ca_len
          ? Napi::Value(Napi::String::New(
                env, static_cast<const char*>(config->ca_pem), config->ca_len))
          : env.Undefined();
  napi_value made = Call(env, addon->http_lender, "open", {file, pem});
  if (!made) {
    std::string text;
    if (env.IsExceptionPending()) {
      Napi::Error thrown = env.GetAndClearPendingException();
      text = TextOf(Reader(thrown.Value()).Get("message"));
    }
    if (text.empty()) text = "this thread is about to end";
    return sbx_error_set(error, SBX_E_UNAVAILABLE, 0, "http",
                         "Node's own HTTP cannot be set up: %s", text.c_str());
  }
  auto* t = new Transport(addon, Napi::Object(env, made));
  uv_timer_init(config->loop, &t->kick);
  uv_unref(reinterpret_cast<uv_handle_t*>(&t->kick));
  t->kick.data = t;
  t->kick.timer_cb = on_kick;
  *out = reinterpret_cast<sbx_transport*>(t);
  return 0;
}

void on_kick_closed(uv_handle_t* handle) {
  auto* t = static_cast<Transport*>(handle->data);
  void (*cb)(void* arg) = t->on_closed;
  void* arg = t->arg;
  {
    Napi::HandleScope scope(t->addon->env);
    for (Carry* x : t->todo) Unref(x);  // ended while the last was told
    delete t;
  }
  if (cb) cb(arg);
}

// Transfers that were ended just now are told so first.
void on_close(uv_timer_t* timer) {
  auto* t = static_cast<Transport*>(timer->data);
  Napi::Env env = t->addon->env;
  Work(t);
  if (!t->addon->closing) {
    Napi::HandleScope scope(env);
    Napi::CallbackScope callback(env, t->context);
    Call(env, t->object, "close", {});
    if (env.IsExceptionPending()) env.GetAndClearPendingException();
  }
  uv_close(reinterpret_cast<uv_handle_t*>(timer), on_kick_closed);
}

// Stays referenced: the loop must not end before the memory is gone.
void Close(sbx_transport* transport, void (*cb)(void* arg), void* arg) {
  Transport* t = TransportOf(transport);
  t->on_closed = cb;
  t->arg = arg;
  uv_ref(reinterpret_cast<uv_handle_t*>(&t->kick));
  uv_timer_start(&t->kick, on_close, 0, 0);
}

int StartTransfer(sbx_transport* transport, sbx_transfer_spec* spec,
                  const sbx_transfer_events* events, sbx_transfer** out) {
  auto* x = new Carry();
  x->transport = TransportOf(transport);
  x->spec = sbx__spec_ref(spec);
  x->events = *events;
  Queue(x);
  *out = reinterpret_cast<sbx_transfer*>(x);
  return 0;
}

void Pause(sbx_transfer* transfer, bool paused) {
  Carry* x = CarryOf(transfer);
  x->paused = paused;
  Queue(x);
}

void Wake(sbx_transfer* transfer) {
  Carry* x = CarryOf(transfer);
  x->woken = true;
  Queue(x);
}

void EndTransfer(sbx_transfer* transfer) {
  Carry* x = CarryOf(transfer);
  x->ended = true;
  sbx__spec_unref(x->spec);
  x->spec = nullptr;
  if (x->started) Queue(x);
  Unref(x);
}

const sbx_transport_ops kOps = {
    "host", Open, Close, StartTransfer, Pause, Wake, EndTransfer,
};

const char* Roots(void* lender, size_t* len) {
  auto* addon = static_cast<Addon*>(lender);
  Napi::Env env = addon->env;
  Napi::HandleScope scope(env);
  napi_value text = Call(env, addon->http_lender, "roots", {});
  if (env.IsExceptionPending()) env.GetAndClearPendingException();
  if (!text) return nullptr;
  addon->http_roots = TextOf(Napi::Value(env, text));
  *len = addon->http_roots.size();
  return addon->http_roots.c_str();
}

}  // namespace

Napi::Value Lend(const Napi::CallbackInfo& info) {
  Addon* addon = GetAddon(info.Env());
  addon->http_lender = Napi::Persistent(info[0].As<Napi::Object>());
  addon->http_host = {&kOps, addon, Roots, &addon->http_pool};
  return info.Env().Undefined();
}

}  // namespace sbx
