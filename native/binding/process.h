// NativeProcess: one command, as js/addon.d.ts describes it.
#ifndef SBX_BINDING_PROCESS_H
#define SBX_BINDING_PROCESS_H

#include <memory>

#include "addon.h"
#include "reader.h"

namespace sbx {

class Process : public Napi::ObjectWrap<Process> {
 public:
  static Napi::Function Define(Napi::Env env);

  // sandbox.spawn(spec, events); an exception is pending if it fails.
  static Napi::Value Spawn(const Napi::CallbackInfo& info,
                           sbx_sandbox* sandbox);

  // sandbox.attach(pid, spec, events); likewise.
  static Napi::Value Attach(const Napi::CallbackInfo& info,
                            sbx_sandbox* sandbox);

  explicit Process(const Napi::CallbackInfo& info);
  ~Process() override;

 private:
  void Listen(const Napi::CallbackInfo& info);
  void Pause(const Napi::CallbackInfo& info);
  Napi::Value Write(const Napi::CallbackInfo& info);
  void CloseStdin(const Napi::CallbackInfo& info);
  Napi::Value End(const Napi::CallbackInfo& info);
  void Signal(const Napi::CallbackInfo& info);
  void Resize(const Napi::CallbackInfo& info);
  Napi::Value Output(const Napi::CallbackInfo& info);
  Napi::Value Dropped(const Napi::CallbackInfo& info);
  void Release(const Napi::CallbackInfo& info);

  // `launch(events, process, error)` is the provider's call.
  template <typename Launch>
  static Napi::Value Begin(Napi::Env env, Reader& spec, Napi::Value listeners,
                           Launch launch);
  void ReadEvents(Reader& events);
  void DropEvents();
  Napi::Value MakeResult(Napi::Env env, const sbx_process_result& result);
  void Emit(Napi::FunctionReference& callback,
            const std::initializer_list<napi_value>& arguments);
  void CloseNative();

  static void on_spawn(void* data, uint32_t pid);
  static void on_bytes(void* data, int stream, const char* bytes, size_t len);
  static void on_text(void* data, int stream, const char* bytes, size_t len);
  static void on_exit(void* data, const sbx_process_result* result);

  Addon* addon_ = nullptr;
  sbx_process* process_ = nullptr;
  bool collect_ = false;
  bool running_ = false;
  std::unique_ptr<Napi::AsyncContext> context_;
  Napi::FunctionReference spawned_;
  Napi::FunctionReference bytes_;
  Napi::FunctionReference text_;
  Napi::FunctionReference exited_;
};

}  // namespace sbx

#endif
