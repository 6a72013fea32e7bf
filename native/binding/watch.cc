#include "watch.h"

#include "file.h"
#include "reader.h"

namespace sbx {

namespace {

// Freed when it is over and the function that ends it is gone, too.
struct Watch {
  Watch(Addon* addon, sbx_sandbox* sandbox)
      : addon(addon), sandbox(sandbox), context(addon->env, "watch") {}

  Addon* addon;
  sbx_sandbox* sandbox;  // while it goes on
  sbx_watch* native = nullptr;  // likewise
  bool held = false;            // by that function
  Napi::AsyncContext context;
  Napi::FunctionReference ready;
  Napi::FunctionReference changed;
  Napi::FunctionReference ended;
};

void Emit(Watch* watch, Napi::FunctionReference& callback,
          const std::initializer_list<napi_value>& arguments) {
  CallBack(callback, watch->addon->env.Global(), arguments, watch->context);
}

void Finish(Watch* watch) {
  watch->native = nullptr;
  watch->sandbox = nullptr;
  for (auto* one : {&watch->ready, &watch->changed, &watch->ended}) {
    one->Reset();
  }
  watch->addon->Release();
  if (!watch->held) delete watch;
}

void on_ready(void* data) {
  auto* watch = static_cast<Watch*>(data);
  if (watch->addon->closing) return;
  Napi::HandleScope scope(watch->addon->env);
  Emit(watch, watch->ready, {});
}

void on_change(void* data, sbx_change change, const char* name, size_t len) {
  auto* watch = static_cast<Watch*>(data);
  if (watch->addon->closing) return;
  Napi::Env env = watch->addon->env;
  Napi::HandleScope scope(env);
  Emit(watch, watch->changed,
       {Napi::Number::New(env, change), MakeText(env, name, len)});
}

void on_end(void* data, const sbx_error* error) {
  auto* watch = static_cast<Watch*>(data);
  watch->native = nullptr;
  if (!watch->addon->closing) {
    Napi::Env env = watch->addon->env;
    Napi::HandleScope scope(env);
    Emit(watch, watch->ended, {MakeError(env, *error).Value()});
  }
  Finish(watch);
}

void End(const Napi::CallbackInfo& info) {
  auto* watch = static_cast<Watch*>(info.Data());
  if (!watch->native) return;
  watch->sandbox->provider->unwatch(watch->native);
  Finish(watch);
}

void on_collected(Napi::Env, Watch* watch) {
  watch->held = false;
  if (!watch->sandbox) delete watch;
}

bool ReadListeners(Watch* watch, Napi::Value object) {
  Reader events(object);
  const std::pair<const char*, Napi::FunctionReference*> all[] = {
      {"onReady", &watch->ready},
      {"onChange", &watch->changed},
      {"onEnd", &watch->ended}};
  for (const auto& [name, reference] : all) {
    Napi::Value function = events.Get(name);
    if (!function.IsFunction()) {
      Napi::Env env = watch->addon->env;
      if (events.Ok() && !env.IsExceptionPending()) {
        Napi::TypeError::New(env, std::string(name) + " must be a function")
            .ThrowAsJavaScriptException();
      }
      return false;
    }
    *reference = Napi::Persistent(function.As<Napi::Function>());
  }
  return true;
}

Napi::Value Hand(Napi::Env env, Watch* watch) {
  Napi::Function end = Napi::Function::New(env, End, "end", watch);
  if (end.IsEmpty()) return env.Undefined();  // teardown ends it
  watch->held = true;
  end.AddFinalizer(on_collected, watch);
  return end;
}

}  // namespace

Napi::Value WatchFolder(const Napi::CallbackInfo& info, Addon* addon,
                        sbx_sandbox* sandbox) {
  Napi::Env env = info.Env();
  sbx_error error = {};
  std::string text;
  int rc = 0;
  if (!sandbox->provider->watch) {
    sbx_error_set(&error, SBX_E_UNSUPPORTED, 0, "files.watch",
                  "This provider has no files.watch.");
    Throw(env, error);
    return env.Undefined();
  }
  int scope = static_cast<int>(Uint32Of(info[0]));
  if (!ReadText(info[1], "path", &text)) return env.Undefined();
  std::string path = ReadPath(sandbox, scope, text, &error, &rc);
  auto* watch = new Watch(addon, sandbox);
  if (!ReadListeners(watch, info[3])) {
    delete watch;
    return env.Undefined();
  }
  sbx_watch_events events = {watch, on_ready, on_change, on_end};
  if (!rc) {
    rc = sandbox->provider->watch(sandbox, scope, path.c_str(),
                                  IsTrue(info[2]), &events, &watch->native,
                                  &error);
  }
  if (rc) {
    delete watch;
    Throw(env, error);
    return env.Undefined();
  }
  addon->Hold();
  return Hand(env, watch);
}

}  // namespace sbx
