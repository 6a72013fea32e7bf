#include "process.h"

#include <cmath>

namespace sbx {

namespace {

constexpr size_t kDefaultRetain = 1 << 20;
constexpr uint64_t kDefaultGrace = 2000;

uint64_t Milliseconds(Napi::Value value, uint64_t fallback) {
  double ms = NumberOf(value, static_cast<double>(fallback));
  if (!(ms > 0)) return 0;
  return ms > 9e15 ? 0 : static_cast<uint64_t>(std::ceil(ms));
}

size_t Retain(Napi::Value value) {
  double bytes = NumberOf(value, kDefaultRetain);
  if (!(bytes > 0)) return 0;
  if (bytes > static_cast<double>(SBX_RETAIN_MAX)) return SBX_RETAIN_MAX;
  return static_cast<size_t>(bytes);
}

int Stream(Napi::Value value) {
  return Uint32Of(value) ? SBX_STDERR : SBX_STDOUT;
}

struct WriteCall {
  explicit WriteCall(Addon* addon) : operation(addon, "write") {}
  Operation operation;
};

// What a status of sbx_write_cb means; the last stands for any other.
struct WriteFailure {
  int status;
  int code;
  const char* words;
};

constexpr WriteFailure kWriteFailures[] = {
    {UV_ECONNRESET, SBX_E_UNAVAILABLE,
     "the connection broke while input was on its way: whether the process got "
     "it is not known"},
    {SBX_E_AUTHENTICATION, SBX_E_AUTHENTICATION,
     "the sandbox refuses the token that input comes with (401): start the "
     "sandbox again"},
    {SBX_E_PERMISSION, SBX_E_PERMISSION,
     "the sandbox does not let input in (403): check the rights of the key's "
     "account"},
    {SBX_E_NOT_FOUND, SBX_E_NOT_FOUND,
     "the sandbox has no such process any more: processes.list() names those "
     "there are"},
    {UV_EPIPE, SBX_E_CONFLICT,
     "the process reads no more input: its end of the pipe is closed"},
};

void FailWrite(Operation* operation, int status) {
  const WriteFailure* failure = kWriteFailures;
  while (failure->status != status && failure->status != UV_EPIPE) failure++;
  bool is_errno = status < 0 && status != failure->code;
  sbx_error error = {};
  sbx_error_set(&error, failure->code, is_errno ? -status : 0,
                "processes.write", "%s", failure->words);
  operation->Settle(&error, [](Napi::Env env) { return env.Undefined(); });
}

void on_written(void* arg, int status) {
  auto* call = static_cast<WriteCall*>(arg);
  if (status) {
    FailWrite(&call->operation, status);
  } else {
    call->operation.Settle(nullptr,
                           [](Napi::Env env) { return env.Undefined(); });
  }
  delete call;
}

}  // namespace

Napi::Function Process::Define(Napi::Env env) {
  return DefineClass(env, "NativeProcess",
                     {
                         InstanceMethod<&Process::Listen>("listen"),
                         InstanceMethod<&Process::Pause>("pause"),
                         InstanceMethod<&Process::Write>("write"),
                         InstanceMethod<&Process::CloseStdin>("closeStdin"),
                         InstanceMethod<&Process::End>("end"),
                         InstanceMethod<&Process::Signal>("signal"),
                         InstanceMethod<&Process::Resize>("resize"),
                         InstanceMethod<&Process::Output>("output"),
                         InstanceMethod<&Process::Dropped>("dropped"),
                         InstanceMethod<&Process::Release>("release"),
                     });
}

Process::Process(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<Process>(info), addon_(GetAddon(info.Env())) {}

Process::~Process() { CloseNative(); }

void Process::CloseNative() {
  if (!process_) return;
  sbx_process* process = process_;
  process_ = nullptr;
  sbx_process_close(process);
  if (!running_) return;
  running_ = false;
  addon_->Release();
}

static void Adopt(Napi::FunctionReference* reference, Napi::Value value) {
  if (value.IsFunction()) {
    *reference = Napi::Persistent(value.As<Napi::Function>());
  }
}

void Process::ReadEvents(Reader& events) {
  Adopt(&spawned_, events.Get("onSpawn"));
  Adopt(&bytes_, events.Get("onBytes"));
  Adopt(&text_, events.Get("onText"));
  Adopt(&exited_, events.Get("onExit"));
}

// The callbacks often hold the object that holds them: no collector sees that.
void Process::DropEvents() {
  for (auto* reference : {&spawned_, &bytes_, &text_, &exited_}) {
    reference->Reset();
  }
  context_.reset();
}

// What a spec says beyond the command itself.
static sbx_process_spec ReadSpec(Reader& spec) {
  sbx_process_spec native = {};
  native.stdin_pipe = IsTrue(spec.Get("stdin"));
  native.timeout_ms = Milliseconds(spec.Get("timeout"), 0);
  native.grace_ms = Milliseconds(spec.Get("grace"), kDefaultGrace);
  native.retain = Retain(spec.Get("retain"));
  native.columns = Uint32Of(spec.Get("columns"));
  native.rows = Uint32Of(spec.Get("rows"));
  native.background = IsTrue(spec.Get("background"));
  return native;
}

template <typename Launch>
Napi::Value Process::Begin(Napi::Env env, Reader& spec, Napi::Value listeners,
                           Launch launch) {
  Napi::Object object = GetAddon(env)->process_class.New({});
  Process* self = object.IsEmpty() ? nullptr : Unwrap(object);
  if (!self) return env.Undefined();  // the environment is on its way out
  Reader events(listeners);
  self->ReadEvents(events);
  unsigned masks[] = {Uint32Of(spec.Get("listenStdout")),
                      Uint32Of(spec.Get("listenStderr"))};
  self->collect_ = IsTrue(spec.Get("collect"));
  if (!spec.Ok() || !events.Ok()) {
    self->DropEvents();
    return env.Undefined();
  }
  self->context_ = std::make_unique<Napi::AsyncContext>(env, "process");
  sbx_process_events native = {self, on_spawn, on_bytes, on_text, on_exit};
  sbx_error error = {};
  if (launch(&native, &self->process_, &error)) {
    self->process_ = nullptr;
    self->DropEvents();
    Throw(env, error);
    return env.Undefined();
  }
  self->running_ = true;
  self->addon_->Hold();
  self->Ref();  // until on_exit
  sbx_process_listen(self->process_, SBX_STDOUT, masks[0]);
  sbx_process_listen(self->process_, SBX_STDERR, masks[1]);
  return object;
}

Napi::Value Process::Spawn(const Napi::CallbackInfo& info,
                           sbx_sandbox* sandbox) {
  Napi::Env env = info.Env();
  Reader spec(info[0]);
  Names argv;
  Names variables;
  std::string cwd;
  if (!argv.Read(spec.Get("argv"), "each argument") ||
      !variables.Read(spec.Get("env"), "each variable") ||
      !ReadText(spec.Get("cwd"), "cwd", &cwd)) {
    return env.Undefined();
  }
  sbx_process_spec native = ReadSpec(spec);
  native.argv = argv.pointers.data();
  native.argc = argv.pointers.size();
  native.env = variables.pointers.data();
  native.envc = variables.pointers.size();
  native.cwd = cwd.c_str();
  return Begin(env, spec, info[1],
               [&](const sbx_process_events* events, sbx_process** process,
                   sbx_error* error) {
                 return sandbox->provider->spawn(sandbox, &native, events,
                                                 process, error);
               });
}

Napi::Value Process::Attach(const Napi::CallbackInfo& info,
                            sbx_sandbox* sandbox) {
  Napi::Env env = info.Env();
  sbx_error error = {};
  if (!sandbox->provider->attach) {
    sbx_error_set(&error, SBX_E_UNSUPPORTED, 0, "processes.attach",
                  "This provider has no commands that outlive their host.");
    Throw(env, error);
    return env.Undefined();
  }
  uint32_t pid = Uint32Of(info[0]);
  Reader spec(info[1]);
  sbx_process_spec native = ReadSpec(spec);
  return Begin(env, spec, info[2],
               [&](const sbx_process_events* events, sbx_process** process,
                   sbx_error* problem) {
                 return sandbox->provider->attach(sandbox, pid, &native, events,
                                                  process, problem);
               });
}

void Process::Emit(Napi::FunctionReference& callback,
                   const std::initializer_list<napi_value>& arguments) {
  if (callback.IsEmpty()) return;
  CallBack(callback, Value(), arguments, *context_);
}

void Process::on_spawn(void* data, uint32_t pid) {
  auto* self = static_cast<Process*>(data);
  if (self->addon_->closing || self->spawned_.IsEmpty()) return;
  Napi::Env env = self->addon_->env;
  Napi::HandleScope scope(env);
  self->Emit(self->spawned_, {Napi::Number::New(env, pid)});
}

void Process::on_bytes(void* data, int stream, const char* bytes, size_t len) {
  auto* self = static_cast<Process*>(data);
  if (self->addon_->closing || self->bytes_.IsEmpty()) return;
  Napi::Env env = self->addon_->env;
  Napi::HandleScope scope(env);
  self->Emit(self->bytes_, {Napi::Number::New(env, stream),
                            Napi::Buffer<char>::Copy(env, bytes, len)});
}

void Process::on_text(void* data, int stream, const char* bytes, size_t len) {
  auto* self = static_cast<Process*>(data);
  if (self->addon_->closing || self->text_.IsEmpty()) return;
  Napi::Env env = self->addon_->env;
  Napi::HandleScope scope(env);
  self->Emit(self->text_,
             {Napi::Number::New(env, stream), MakeText(env, bytes, len)});
}

Napi::Value Process::MakeResult(Napi::Env env,
                                const sbx_process_result& result) {
  static const char* const text[] = {"stdout", "stderr"};
  static const char* const dropped[] = {"stdoutDropped", "stderrDropped"};
  Napi::Object object = Napi::Object::New(env);
  object.Set("exitCode", static_cast<double>(result.exit_code));
  object.Set("signal", static_cast<double>(result.signal));
  object.Set("killed", result.killed);
  object.Set("timedOut", result.timed_out);
  object.Set("durationMs", result.duration_ms);
  object.Set("userUs", static_cast<double>(result.user_us));
  object.Set("systemUs", static_cast<double>(result.system_us));
  object.Set("maxRssBytes", static_cast<double>(result.max_rss_bytes));
  if (result.reason) object.Set("reason", result.reason);
  if (result.error) {
    Napi::Object error = MakeError(env, *result.error).Value();
    if (result.ran) error.Set("ran", true);
    object.Set("error", error);
  }
  for (int stream = 0; stream < 2; stream++) {
    sbx_retained kept = {};
    sbx_process_retained(process_, stream, &kept);
    object.Set(dropped[stream], static_cast<double>(kept.dropped));
    if (collect_) object.Set(text[stream], MakeText(env, kept.bytes, kept.len));
  }
  return object;
}

void Process::on_exit(void* data, const sbx_process_result* result) {
  auto* self = static_cast<Process*>(data);
  self->running_ = false;
  self->addon_->Release();
  if (self->addon_->closing) return;
  Napi::Env env = self->addon_->env;
  Napi::HandleScope scope(env);
  Napi::Value value = self->MakeResult(env, *result);
  if (self->collect_) self->CloseNative();
  self->Emit(self->exited_, {value});
  self->DropEvents();
  self->Unref();
}

void Process::Listen(const Napi::CallbackInfo& info) {
  if (process_) sbx_process_listen(process_, Stream(info[0]), Uint32Of(info[1]));
}

void Process::Pause(const Napi::CallbackInfo& info) {
  if (process_) {
    sbx_process_pause(process_, Stream(info[0]), IsTrue(info[1]));
  }
}

Napi::Value Process::Write(const Napi::CallbackInfo& info) {
  std::string text;
  const char* bytes = nullptr;
  size_t len = 0;
  if (!ReadBytes(info[0], &bytes, &len)) {
    if (!ReadText(info[0], "input", &text)) return info.Env().Undefined();
    bytes = text.data();
    len = text.size();
  }
  auto* call = new WriteCall(addon_);
  Napi::Value promise = call->operation.deferred.Promise();
  int rc = process_ ? sbx_process_write(process_, bytes, len, on_written, call)
                    : UV_EPIPE;
  if (rc) {
    FailWrite(&call->operation, rc);
    delete call;
  }
  return promise;
}

void Process::CloseStdin(const Napi::CallbackInfo&) {
  if (process_) sbx_process_close_stdin(process_);
}

Napi::Value Process::End(const Napi::CallbackInfo& info) {
  bool ended =
      process_ && running_ &&
      sbx_process_end(process_, Milliseconds(info[0], 0)) == 0;
  return Napi::Boolean::New(info.Env(), ended);
}

void Process::Signal(const Napi::CallbackInfo& info) {
  if (!process_ || !info[0].IsNumber()) return;
  sbx_process_signal(process_, static_cast<int>(Uint32Of(info[0])));
}

void Process::Resize(const Napi::CallbackInfo& info) {
  if (process_) {
    sbx_process_resize(process_, Uint32Of(info[0]), Uint32Of(info[1]));
  }
}

Napi::Value Process::Output(const Napi::CallbackInfo& info) {
  if (!process_) return Napi::String::New(info.Env(), "");
  sbx_retained kept = {};
  sbx_process_retained(process_, Stream(info[0]), &kept);
  return MakeText(info.Env(), kept.bytes, kept.len);
}

Napi::Value Process::Dropped(const Napi::CallbackInfo& info) {
  sbx_retained kept = {};
  if (process_) sbx_process_retained(process_, Stream(info[0]), &kept);
  return Napi::Number::New(info.Env(), static_cast<double>(kept.dropped));
}

void Process::Release(const Napi::CallbackInfo&) {
  if (!running_) CloseNative();
}

}  // namespace sbx
