#include "file.h"

#include <cstdlib>
#include <memory>
#include <vector>

namespace sbx {

namespace {

// Results up to this size are copied into V8's own memory; a larger one keeps
// the engine's buffer.
constexpr size_t kCopyLimit = 64 * 1024;

// Everything a request points to, alive until it is answered. What is answered
// at once needs no operation, which costs more than a small read.
struct FileCall {
  std::unique_ptr<Operation> operation;
  sbx_file_request request = {};
  bool text = false;
  std::string path;
  std::string to;
  std::string data;
  Napi::Reference<Napi::Value> bytes;  // keeps a Uint8Array's memory
  std::vector<std::string> extensions;
  std::vector<const char*> extension_pointers;
};

Napi::Value MakeStat(Napi::Env env, const sbx_file_stat& stat) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("type", static_cast<double>(stat.type));
  object.Set("size", static_cast<double>(stat.size));
  object.Set("mode", static_cast<double>(stat.mode));
  object.Set("modifiedMs", static_cast<double>(stat.modified_ms));
  object.Set("createdMs", static_cast<double>(stat.created_ms));
  return object;
}

Napi::Value MakeBuffer(Napi::Env env, sbx_file_result* result) {
  char* data = static_cast<char*>(result->data);
  size_t len = result->len;
  result->data = nullptr;
  if (len > kCopyLimit) {
    return Napi::Buffer<char>::NewOrCopy(
        env, data, len, [](Napi::Env, char* bytes) { std::free(bytes); });
  }
  Napi::Value buffer = Napi::Buffer<char>::Copy(env, data ? data : "", len);
  std::free(data);
  return buffer;
}

Napi::Value MakeListing(Napi::Env env, sbx_file_result* result) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("entries", MakeBuffer(env, result));
  object.Set("count", static_cast<double>(result->count));
  object.Set("more", result->more);
  return object;
}

Napi::Value MakeResult(Napi::Env env, const FileCall& call,
                       sbx_file_result* result) {
  switch (call.request.verb) {
    case SBX_FILE_READ:
      if (!call.text) return MakeBuffer(env, result);
      [[fallthrough]];
    case SBX_FILE_REALPATH:
      return MakeText(env, static_cast<char*>(result->data), result->len);
    case SBX_FILE_WRITE:
    case SBX_FILE_STAT:
      return MakeStat(env, result->stat);
    case SBX_FILE_EXISTS:
      return Napi::Boolean::New(env, result->exists);
    case SBX_FILE_CHANGES:
      return MakeBuffer(env, result);
    case SBX_FILE_READDIR:
    case SBX_FILE_WALK:
    case SBX_FILE_GATHER:
      return MakeListing(env, result);
    default:
      return env.Undefined();
  }
}

void on_file(void* arg, const sbx_error* error, sbx_file_result* result) {
  std::unique_ptr<FileCall> call(static_cast<FileCall*>(arg));
  Addon* addon = call->operation->addon;
  if (!addon->closing) {
    Napi::HandleScope scope(addon->env);
    call->operation->Settle(error, [&call, result](Napi::Env env) {
      return MakeResult(env, *call, result);
    });
  }
  if (result) std::free(result->data);
}

Napi::Value Answer(Napi::Env env, const FileCall& call, const sbx_error* error,
                   sbx_file_result* result) {
  auto deferred = Napi::Promise::Deferred::New(env);
  if (error) {
    deferred.Reject(MakeError(env, *error).Value());
  } else {
    deferred.Resolve(MakeResult(env, call, result));
  }
  std::free(result->data);
  return deferred.Promise();
}

Napi::Value Queue(Napi::Env env, std::unique_ptr<FileCall> call,
                  sbx_sandbox* sandbox, int scope) {
  sbx_error error = {};
  sbx_file_result none = {};
  call->operation = std::make_unique<Operation>(GetAddon(env), "file");
  Napi::Value promise = call->operation->deferred.Promise();
  int rc = sandbox->provider->file(sandbox, scope, &call->request, on_file,
                                   call.get());
  if (!rc) {
    call.release();  // on_file's now
    return promise;
  }
  sbx_error_set(&error, rc, 0, "files", "the request could not be queued: %s",
                sbx_code_name(rc));
  return Answer(env, *call, &error, &none);
}

std::string ReadPath(sbx_sandbox* sandbox, int scope, const std::string& text,
                     sbx_error* error, int* rc) {
  static const sbx_place whole = {"/", nullptr};
  std::string out(text.size() + 2, '\0');
  *rc = sbx_path_relative(scope ? &whole : &sandbox->place, text.data(),
                          text.size(), out.data(), out.size(), error);
  if (!*rc) out.resize(out.find('\0'));
  return out;
}

double Number(Napi::Object options, const char* name, double fallback) {
  Napi::Value value = options.Get(name);
  return value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : fallback;
}

void ReadData(FileCall* call, Napi::Value value) {
  if (value.IsTypedArray()) {
    auto array = value.As<Napi::TypedArray>();
    call->bytes = Napi::Reference<Napi::Value>::New(value, 1);
    call->request.data =
        static_cast<char*>(array.ArrayBuffer().Data()) + array.ByteOffset();
    call->request.data_len = array.ByteLength();
    return;
  }
  if (!value.IsString()) return;
  call->data = value.As<Napi::String>().Utf8Value();
  call->request.data = call->data.data();
  call->request.data_len = call->data.size();
}

void ReadExtensions(FileCall* call, Napi::Value value) {
  if (!value.IsArray()) return;
  auto list = value.As<Napi::Array>();
  for (uint32_t i = 0; i < list.Length(); i++) {
    call->extensions.push_back(list.Get(i).ToString());
  }
  for (const std::string& one : call->extensions) {
    call->extension_pointers.push_back(one.c_str());
  }
  call->request.extensions = call->extension_pointers.data();
  call->request.extensions_len = call->extension_pointers.size();
}

void ReadRequestOptions(FileCall* call, Napi::Object options) {
  sbx_file_request& request = call->request;
  request.flags = static_cast<unsigned>(Number(options, "flags", 0));
  request.mode = static_cast<uint32_t>(Number(options, "mode", 0));
  request.max_depth = static_cast<uint32_t>(Number(options, "maxDepth", 0));
  request.max_bytes = static_cast<uint64_t>(Number(options, "maxBytes", 0));
  Napi::Value expected = options.Get("expectedMtime");
  if (expected.IsNumber()) {
    request.expected_mtime_ms = expected.As<Napi::Number>().Int64Value();
  }
  call->text = options.Get("text").ToBoolean();
  ReadData(call, options.Get("data"));
  ReadExtensions(call, options.Get("extensions"));
}

// 0, or a negative code and `error`.
int ReadCall(FileCall* call, const Napi::CallbackInfo& info,
             sbx_sandbox* sandbox, int scope, sbx_error* error) {
  int rc = 0;
  call->request.verb =
      static_cast<sbx_file_verb>(info[1].ToNumber().Int32Value());
  call->request.expected_mtime_ms = INT64_MIN;
  call->path = ReadPath(sandbox, scope, info[2].ToString(), error, &rc);
  if (rc) return rc;
  call->request.path = call->path.c_str();
  if (!info[3].IsObject()) return 0;
  auto options = info[3].As<Napi::Object>();
  ReadRequestOptions(call, options);
  Napi::Value to = options.Get("to");
  if (!to.IsString()) return 0;
  call->to = ReadPath(sandbox, scope, to.ToString(), error, &rc);
  call->request.to = call->to.c_str();
  return rc;
}

}  // namespace

Napi::Value RequestFile(const Napi::CallbackInfo& info, sbx_sandbox* sandbox) {
  Napi::Env env = info.Env();
  sbx_error error = {};
  sbx_file_result result = {};
  auto call = std::make_unique<FileCall>();
  int scope = info[0].ToNumber().Int32Value();
  if (ReadCall(call.get(), info, sandbox, scope, &error)) {
    // A path that leaves is not there, for the one verb that never fails.
    bool exists = call->request.verb == SBX_FILE_EXISTS;
    return Answer(env, *call, exists ? nullptr : &error, &result);
  }
  const sbx_provider* provider = sandbox->provider;
  int rc = 0;
  if (provider->file_try) {
    rc = provider->file_try(sandbox, scope, &call->request, &result, &error);
  }
  if (rc) return Answer(env, *call, rc < 0 ? &error : nullptr, &result);
  return Queue(env, std::move(call), sandbox, scope);
}

}  // namespace sbx
