// NativeHttp: the HTTP engine by itself, for the tests of this repository. No
// entry point of the package leads here.
#ifndef SBX_BINDING_EXCHANGE_H
#define SBX_BINDING_EXCHANGE_H

#include <map>

#include "addon.h"

extern "C" {
#include "../http/http.h"
}

namespace sbx {

struct HttpCall;

class Http : public Napi::ObjectWrap<Http> {
 public:
  static Napi::Function Define(Napi::Env env);
  explicit Http(const Napi::CallbackInfo& info);
  ~Http() override;

  void Shut();  // at the end of the environment

 private:
  Napi::Value Open(const Napi::CallbackInfo& info);
  Napi::Value Send(const Napi::CallbackInfo& info);
  void FinishBody(const Napi::CallbackInfo& info);
  void Pause(const Napi::CallbackInfo& info);
  void End(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
  HttpCall* Find(Napi::Value id);
  void DropAll();

  Addon* addon_;
  sbx_http* http_ = nullptr;
  std::map<uint32_t, HttpCall*> calls_;
  uint32_t last_ = 0;
};

void ShutHttps(Addon* addon);

}  // namespace sbx

#endif
