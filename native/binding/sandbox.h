// NativeSandbox: one provider's sandbox object, as js/addon.d.ts describes it.
#ifndef SBX_BINDING_SANDBOX_H
#define SBX_BINDING_SANDBOX_H

#include "addon.h"

namespace sbx {

class Sandbox;
struct Denied;

// May outlive the JavaScript object, and at teardown the other way round. Freed,
// with the provider's object, when `close` has answered.
struct SandboxState {
  Addon* addon;
  sbx_sandbox* sandbox;
  Sandbox* owner;  // until closing begins
  Denied* denied = nullptr;  // until then, too
  SandboxState* next = nullptr;
  SandboxState** previous = nullptr;
};

// Starts closing every sandbox of the environment.
void CloseAll(Addon* addon);

class Sandbox : public Napi::ObjectWrap<Sandbox> {
 public:
  static Napi::Function Define(Napi::Env env);
  static Napi::Value Make(Napi::Env env, sbx_sandbox* sandbox);

  explicit Sandbox(const Napi::CallbackInfo& info);
  ~Sandbox() override;

 private:
  using Verb = void (*)(sbx_sandbox*, sbx_done_cb, void*);

  Napi::Value Find(const Napi::CallbackInfo& info);
  Napi::Value Create(const Napi::CallbackInfo& info);
  Napi::Value Connect(const Napi::CallbackInfo& info);
  Napi::Value Stop(const Napi::CallbackInfo& info);
  Napi::Value Resume(const Napi::CallbackInfo& info);
  Napi::Value Pause(const Napi::CallbackInfo& info);
  Napi::Value Unpause(const Napi::CallbackInfo& info);
  Napi::Value Destroy(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
  Napi::Value File(const Napi::CallbackInfo& info);
  Napi::Value Watch(const Napi::CallbackInfo& info);
  Napi::Value Snapshot(const Napi::CallbackInfo& info);
  Napi::Value UseLayer(const Napi::CallbackInfo& info);
  Napi::Value Spawn(const Napi::CallbackInfo& info);
  Napi::Value List(const Napi::CallbackInfo& info);
  Napi::Value Attach(const Napi::CallbackInfo& info);
  Napi::Value Place(const Napi::CallbackInfo& info);
  Napi::Value Facts(const Napi::CallbackInfo& info);
  Napi::Value Capabilities(const Napi::CallbackInfo& info);
  Napi::Value Expose(const Napi::CallbackInfo& info);
  void Unexpose(const Napi::CallbackInfo& info);
  Napi::Value SetNetwork(const Napi::CallbackInfo& info);
  void OnDenied(const Napi::CallbackInfo& info);
  void SetSecret(const Napi::CallbackInfo& info);
  Napi::Value Stale(const Napi::CallbackInfo& info);
  Napi::Value Epoch(const Napi::CallbackInfo& info);
  Napi::Value Layers(const Napi::CallbackInfo& info);
  Napi::Value Lists(const Napi::CallbackInfo& info);
  void Touch(const Napi::CallbackInfo& info);

  Napi::Value Begin(Verb verb, const char* name);
  bool Usable(Napi::Env env, const char* operation);

  // Begins the end; the object is of no more use. Null if it had begun.
  static SandboxState* Detach(SandboxState* state);
  friend void CloseAll(Addon* addon);

  SandboxState* state_ = nullptr;
};

}  // namespace sbx

#endif
