#include "sandbox.h"

#include <cstring>

#include "file.h"
#include "network.h"
#include "process.h"
#include "reader.h"
#include "watch.h"

namespace sbx {

static void Link(SandboxState* state) {
  Addon* addon = state->addon;
  state->next = addon->sandboxes;
  if (state->next) state->next->previous = &state->next;
  state->previous = &addon->sandboxes;
  addon->sandboxes = state;
}

static void Unlink(SandboxState* state) {
  *state->previous = state->next;
  if (state->next) state->next->previous = state->previous;
}

static void on_closed(void* arg, const sbx_error*) {
  auto* state = static_cast<SandboxState*>(arg);
  Addon* addon = state->addon;
  Unlink(state);
  delete state;
  addon->Finish();
}

SandboxState* Sandbox::Detach(SandboxState* state) {
  if (!state || !state->owner) return nullptr;
  state->owner->state_ = nullptr;
  state->owner = nullptr;
  FreeDenied(state->denied, state->sandbox);
  state->denied = nullptr;
  return state;
}

// Closes without telling anybody; for garbage collection and teardown.
static void CloseQuietly(SandboxState* state) {
  if (!state) return;
  state->sandbox->provider->close(state->sandbox, on_closed, state);
}

void CloseAll(Addon* addon) {
  SandboxState* next = nullptr;
  for (SandboxState* s = addon->sandboxes; s; s = next) {
    next = s->next;  // close may answer at once
    s->sandbox->abandoned = true;
    CloseQuietly(Sandbox::Detach(s));
  }
}

Napi::Function Sandbox::Define(Napi::Env env) {
  return DefineClass(
      env, "NativeSandbox",
      {
          InstanceMethod<&Sandbox::Find>("find"),
          InstanceMethod<&Sandbox::Create>("create"),
          InstanceMethod<&Sandbox::Connect>("connect"),
          InstanceMethod<&Sandbox::Stop>("stop"),
          InstanceMethod<&Sandbox::Resume>("resume"),
          InstanceMethod<&Sandbox::Pause>("pause"),
          InstanceMethod<&Sandbox::Unpause>("unpause"),
          InstanceMethod<&Sandbox::Destroy>("destroy"),
          InstanceMethod<&Sandbox::Close>("close"),
          InstanceMethod<&Sandbox::Touch>("touch"),
          InstanceMethod<&Sandbox::File>("file"),
          InstanceMethod<&Sandbox::Watch>("watch"),
          InstanceMethod<&Sandbox::Snapshot>("snapshot"),
          InstanceMethod<&Sandbox::UseLayer>("useLayer"),
          InstanceMethod<&Sandbox::Spawn>("spawn"),
          InstanceMethod<&Sandbox::List>("list"),
          InstanceMethod<&Sandbox::Attach>("attach"),
          InstanceMethod<&Sandbox::Expose>("expose"),
          InstanceMethod<&Sandbox::Unexpose>("unexpose"),
          InstanceMethod<&Sandbox::SetNetwork>("setNetwork"),
          InstanceMethod<&Sandbox::OnDenied>("onDenied"),
          InstanceMethod<&Sandbox::SetSecret>("setSecret"),
          InstanceAccessor<&Sandbox::Stale>("stale"),
          InstanceMethod<&Sandbox::Place>("place"),
          InstanceMethod<&Sandbox::Facts>("facts"),
          InstanceMethod<&Sandbox::Capabilities>("capabilities"),
          InstanceAccessor<&Sandbox::Epoch>("epoch"),
          InstanceAccessor<&Sandbox::Layers>("layers"),
          InstanceAccessor<&Sandbox::Lists>("lists"),
      });
}

Napi::Value Sandbox::Make(Napi::Env env, sbx_sandbox* sandbox) {
  // Not through an External: its memory would be V8's to free, which it does not
  // always do before the process ends.
  Addon* addon = GetAddon(env);
  addon->opening = sandbox;
  Napi::Value object = addon->sandbox_class.New({});
  if (addon->opening) {  // no object: the environment is on its way out
    addon->opening = nullptr;
    auto* state = new SandboxState{addon, sandbox, nullptr};
    Link(state);
    CloseQuietly(state);
  }
  return object;
}

Sandbox::Sandbox(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<Sandbox>(info) {
  Addon* addon = GetAddon(info.Env());
  if (!addon->opening) {
    Napi::TypeError::New(info.Env(), "NativeSandbox is made by open()")
        .ThrowAsJavaScriptException();
    return;
  }
  state_ = new SandboxState{addon, addon->opening, this};
  addon->opening = nullptr;
  Link(state_);
}

Sandbox::~Sandbox() { CloseQuietly(Detach(state_)); }

bool Sandbox::Usable(Napi::Env env, const char* operation) {
  if (state_) return true;
  sbx_error error = {};
  sbx_error_set(&error, SBX_E_UNAVAILABLE, 0, operation,
                "the sandbox was closed: create a new one");
  Throw(env, error);
  return false;
}

static void on_done(void* arg, const sbx_error* error) {
  auto* operation = static_cast<Operation*>(arg);
  operation->Settle(error, [](Napi::Env env) { return env.Undefined(); });
  delete operation;
}

static void on_found(void* arg, const sbx_error* error, bool found) {
  auto* operation = static_cast<Operation*>(arg);
  operation->Settle(error, [found](Napi::Env env) {
    return Napi::Boolean::New(env, found);
  });
  delete operation;
}

Napi::Value Sandbox::Begin(Verb verb, const char* name) {
  if (!Usable(Env(), name)) return Env().Undefined();
  if (!verb) {
    sbx_error error = {};
    sbx_error_set(&error, SBX_E_UNSUPPORTED, 0, name,
                  "This provider has no %s.", name);
    Throw(Env(), error);
    return Env().Undefined();
  }
  auto* operation = new Operation(state_->addon, name);
  Napi::Value promise = operation->deferred.Promise();
  verb(state_->sandbox, on_done, operation);
  return promise;
}

Napi::Value Sandbox::Find(const Napi::CallbackInfo& info) {
  if (!Usable(info.Env(), "find")) return info.Env().Undefined();
  auto* operation = new Operation(state_->addon, "find");
  Napi::Value promise = operation->deferred.Promise();
  state_->sandbox->provider->find(state_->sandbox, on_found, operation);
  return promise;
}

Napi::Value Sandbox::Create(const Napi::CallbackInfo&) {
  return Begin(state_ ? state_->sandbox->provider->create : nullptr, "create");
}

Napi::Value Sandbox::Connect(const Napi::CallbackInfo&) {
  return Begin(state_ ? state_->sandbox->provider->connect : nullptr, "connect");
}

Napi::Value Sandbox::Stop(const Napi::CallbackInfo&) {
  return Begin(state_ ? state_->sandbox->provider->stop : nullptr, "stop");
}

Napi::Value Sandbox::Resume(const Napi::CallbackInfo&) {
  return Begin(state_ ? state_->sandbox->provider->resume : nullptr, "resume");
}

Napi::Value Sandbox::Pause(const Napi::CallbackInfo&) {
  return Begin(state_ ? state_->sandbox->provider->pause : nullptr, "pause");
}

Napi::Value Sandbox::Unpause(const Napi::CallbackInfo&) {
  return Begin(state_ ? state_->sandbox->provider->unpause : nullptr,
               "unpause");
}

Napi::Value Sandbox::Destroy(const Napi::CallbackInfo&) {
  return Begin(state_ ? state_->sandbox->provider->destroy : nullptr, "destroy");
}

struct CloseOperation {
  Operation* operation;
  SandboxState* state;
};

static void on_close_done(void* arg, const sbx_error* error) {
  auto* close = static_cast<CloseOperation*>(arg);
  on_done(close->operation, error);
  on_closed(close->state, error);
  delete close;
}

Napi::Value Sandbox::Close(const Napi::CallbackInfo& info) {
  if (!Usable(info.Env(), "close")) return info.Env().Undefined();
  auto* operation = new Operation(state_->addon, "close");
  Napi::Value promise = operation->deferred.Promise();
  SandboxState* state = Detach(state_);
  state->sandbox->provider->close(state->sandbox, on_close_done,
                                  new CloseOperation{operation, state});
  return promise;
}

void Sandbox::Touch(const Napi::CallbackInfo&) {
  if (state_ && state_->sandbox->provider->touch) {
    state_->sandbox->provider->touch(state_->sandbox);
  }
}

Napi::Value Sandbox::File(const Napi::CallbackInfo& info) {
  if (!Usable(info.Env(), "file")) return info.Env().Undefined();
  return RequestFile(info, state_->sandbox);
}

Napi::Value Sandbox::Watch(const Napi::CallbackInfo& info) {
  if (!Usable(info.Env(), "files.watch")) return info.Env().Undefined();
  return WatchFolder(info, state_->addon, state_->sandbox);
}

Napi::Value Sandbox::Spawn(const Napi::CallbackInfo& info) {
  if (!Usable(info.Env(), "spawn")) return info.Env().Undefined();
  return Process::Spawn(info, state_->sandbox);
}

static void on_listed(void* arg, const sbx_error* error,
                      const sbx_listed* list, size_t count) {
  auto* operation = static_cast<Operation*>(arg);
  operation->Settle(error, [list, count](Napi::Env env) {
    Napi::Array array = Napi::Array::New(env, count);
    for (size_t i = 0; i < count; i++) {
      Napi::Object one = Napi::Object::New(env);
      one.Set("pid", static_cast<double>(list[i].pid));
      one.Set("command", MakeText(env, list[i].command,
                                  std::strlen(list[i].command)));
      one.Set("startedMs", static_cast<double>(list[i].started_ms));
      one.Set("running", list[i].running);
      one.Set("terminal", list[i].terminal);
      one.Set("stdin", list[i].stdin_pipe);
      one.Set("exitCode", static_cast<double>(list[i].exit_code));
      array.Set(static_cast<uint32_t>(i), one);
    }
    return array;
  });
  delete operation;
}

// Only where `lists` says so.
Napi::Value Sandbox::List(const Napi::CallbackInfo& info) {
  if (!Usable(info.Env(), "processes.list")) return info.Env().Undefined();
  if (!state_->sandbox->provider->list) return Napi::Array::New(info.Env());
  auto* operation = new Operation(state_->addon, "list");
  Napi::Value promise = operation->deferred.Promise();
  state_->sandbox->provider->list(state_->sandbox, on_listed, operation);
  return promise;
}

Napi::Value Sandbox::Attach(const Napi::CallbackInfo& info) {
  if (!Usable(info.Env(), "processes.attach")) return info.Env().Undefined();
  return Process::Attach(info, state_->sandbox);
}

static void on_snapshot(void* arg, const sbx_error* error,
                        const sbx_snapshot* list, size_t count) {
  auto* operation = static_cast<Operation*>(arg);
  operation->Settle(error, [list, count](Napi::Env env) {
    Napi::Array array = Napi::Array::New(env, count);
    for (size_t i = 0; i < count; i++) {
      Napi::Object one = Napi::Object::New(env);
      one.Set("id", list[i].id);
      one.Set("bytes", static_cast<double>(list[i].bytes));
      one.Set("createdMs", static_cast<double>(list[i].created_ms));
      array.Set(static_cast<uint32_t>(i), one);
    }
    return array;
  });
  delete operation;
}

Napi::Value Sandbox::Snapshot(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!Usable(env, "snapshot")) return env.Undefined();
  auto verb = static_cast<sbx_snapshot_verb>(Uint32Of(info[0]));
  std::string store = TextOf(info[1]);
  std::string id = TextOf(info[2]);
  sbx_error error = {};
  auto* operation = new Operation(state_->addon, "snapshot");
  Napi::Value promise = operation->deferred.Promise();
  if (state_->sandbox->provider->snapshot(state_->sandbox, verb, store.c_str(),
                                          id.c_str(), on_snapshot, operation,
                                          &error)) {
    on_snapshot(operation, &error, nullptr, 0);
  }
  return promise;
}

Napi::Value Sandbox::UseLayer(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!Usable(env, "useLayer")) return env.Undefined();
  if (!state_->sandbox->provider->use_layer) {
    return Napi::Boolean::New(env, false);
  }
  std::string path = TextOf(info[0]);
  int rc = state_->sandbox->provider->use_layer(
      state_->sandbox, info[0].IsString() ? path.c_str() : nullptr);
  return Napi::Boolean::New(env, rc == 0);
}

Napi::Value Sandbox::Expose(const Napi::CallbackInfo& info) {
  if (!Usable(info.Env(), "ports.expose")) return info.Env().Undefined();
  return ExposePort(info, state_->addon, state_->sandbox);
}

void Sandbox::Unexpose(const Napi::CallbackInfo& info) {
  if (!state_ || !state_->sandbox->provider->unexpose) return;
  state_->sandbox->provider->unexpose(state_->sandbox, Uint32Of(info[0]));
}

Napi::Value Sandbox::SetNetwork(const Napi::CallbackInfo& info) {
  if (!Usable(info.Env(), "setNetworkPolicy")) return info.Env().Undefined();
  return sbx::SetNetwork(info, state_->addon, state_->sandbox);
}

void Sandbox::OnDenied(const Napi::CallbackInfo& info) {
  if (!Usable(info.Env(), "onDenied")) return;
  FreeDenied(state_->denied, state_->sandbox);
  state_->denied = WatchDenied(info, state_->addon, state_->sandbox);
}

void Sandbox::SetSecret(const Napi::CallbackInfo& info) {
  if (!Usable(info.Env(), "open")) return;
  auto set = state_->sandbox->provider->set_secret;
  std::string secret = TextOf(info[0]);
  sbx_error error = {};
  if (set && set(state_->sandbox, secret.c_str(), &error)) {
    Throw(info.Env(), error);
  }
}

Napi::Value Sandbox::Stale(const Napi::CallbackInfo& info) {
  auto is = state_ ? state_->sandbox->provider->is_stale : nullptr;
  return Napi::Boolean::New(info.Env(), is && is(state_->sandbox));
}

Napi::Value Sandbox::Epoch(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), state_ ? state_->sandbox->epoch : 0);
}

// Whether useLayer can do anything.
Napi::Value Sandbox::Layers(const Napi::CallbackInfo& info) {
  bool can = state_ && state_->sandbox->provider->use_layer;
  return Napi::Boolean::New(info.Env(), can);
}

// Whether commands outlive this host, so that list and attach find them.
Napi::Value Sandbox::Lists(const Napi::CallbackInfo& info) {
  bool can = state_ && state_->sandbox->provider->list;
  return Napi::Boolean::New(info.Env(), can);
}

Napi::Value Sandbox::Place(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!Usable(env, "place")) return env.Undefined();
  const sbx_place& place = state_->sandbox->place;
  Napi::Object object = Napi::Object::New(env);
  object.Set("inside", place.inside ? place.inside : "/");
  object.Set("host", place.host ? Napi::Value(Napi::String::New(env, place.host))
                                : env.Null());
  return object;
}

static void on_fact(void* arg, const char* key, const char* value) {
  static_cast<Napi::Object*>(arg)->Set(key, value);
}

Napi::Value Sandbox::Facts(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!Usable(env, "facts")) return env.Undefined();
  Napi::Object object = Napi::Object::New(env);
  state_->sandbox->provider->facts(state_->sandbox, on_fact, &object);
  return object;
}

Napi::Value Sandbox::Capabilities(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!Usable(env, "capabilities")) return env.Undefined();
  size_t count = 0;
  const sbx_capability* all =
      state_->sandbox->provider->capabilities(state_->sandbox, &count);
  Napi::Array list = Napi::Array::New(env, count);
  for (size_t i = 0; i < count; i++) {
    Napi::Object one = Napi::Object::New(env);
    one.Set("name", all[i].name);
    one.Set("mode", all[i].mode);
    if (all[i].reason) one.Set("reason", all[i].reason);
    list.Set(static_cast<uint32_t>(i), one);
  }
  return list;
}

}  // namespace sbx
