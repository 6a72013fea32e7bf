#include "file.h"

#include <cstdlib>
#include <memory>

#include "reader.h"

namespace sbx {

std::string ReadPath(sbx_sandbox* sandbox, int scope, const std::string& text,
                     sbx_error* error, int* rc) {
  static const sbx_place whole = {"/", nullptr};
  std::string out(text.size() + 2, '\0');
  *rc = sbx_path_relative(scope ? &whole : &sandbox->place, text.data(),
                          text.size(), out.data(), out.size(), error);
  if (!*rc) out.resize(out.find('\0'));
  return out;
}

namespace {

// Bytes to write up to this size are copied: an owner who gives the memory away
// meanwhile (postMessage, transfer) would have something else written.
constexpr size_t kKeepLimit = 16 << 20;

// The longest string of V8.
constexpr uint64_t kTextLimit = (1u << 29) - 24;

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
  bool has_to = false;
  std::string data;
  Napi::Reference<Napi::Value> bytes;  // keeps a Uint8Array's memory
  Names extensions;
  Names prune;
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
    napi_value lent = nullptr;
    napi_status status = napi_create_external_buffer(
        env, len, data, [](napi_env, void* bytes, void*) { std::free(bytes); },
        nullptr, &lent);
    if (status == napi_ok) return Napi::Value(env, lent);
    if (status == napi_generic_failure) return Napi::Value();  // they are gone
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
  Deferred deferred(env);
  if (error) {
    deferred.Reject(MakeError(env, *error).Value());
  } else {
    SettleWith(env, deferred, MakeResult(env, call, result));
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

// Anything that is no count is 0.
uint64_t Count(Napi::Value value, uint64_t most) {
  double number = NumberOf(value, 0);
  if (!(number > 0)) return 0;
  return number < static_cast<double>(most) ? static_cast<uint64_t>(number)
                                            : most;
}

void ReadData(FileCall* call, Napi::Value value) {
  const char* bytes = nullptr;
  size_t len = 0;
  if (ReadBytes(value, &bytes, &len)) {
    call->request.data_len = len;
    if (len > kKeepLimit) {
      call->bytes = Napi::Reference<Napi::Value>::New(value, 1);
      call->request.data = bytes;
      return;
    }
    call->data.assign(bytes, len);
  } else if (value.IsString()) {
    call->data = TextOf(value);
  } else {
    return;
  }
  call->request.data = call->data.data();
  call->request.data_len = call->data.size();
}

// False if one is of a wrong type, with an exception pending, or could not be
// read (Reader::Ok).
bool ReadRequestOptions(FileCall* call, Reader& options) {
  sbx_file_request& request = call->request;
  request.flags |= Uint32Of(options.Get("flags"));
  request.mode = static_cast<uint32_t>(Count(options.Get("mode"), 07777));
  request.max_depth = static_cast<uint32_t>(Count(options.Get("maxDepth"), UINT32_MAX));
  request.max_bytes = Count(options.Get("maxBytes"), uint64_t{1} << 53);
  Napi::Value expected = options.Get("expectedMtime");
  if (expected.IsNumber()) {
    request.expected_mtime_ms = expected.As<Napi::Number>().Int64Value();
  }
  call->text = IsTrue(options.Get("text"));
  if (call->text && (!request.max_bytes || request.max_bytes > kTextLimit)) {
    request.max_bytes = kTextLimit;
  }
  ReadData(call, options.Get("data"));
  if (!call->extensions.Read(options.Get("extensions"), "each extension") ||
      !call->prune.Read(options.Get("prune"), "each name to prune")) {
    return false;
  }
  request.extensions = call->extensions.pointers.data();
  request.extensions_len = call->extensions.pointers.size();
  request.prune = call->prune.pointers.data();
  request.prune_len = call->prune.pointers.size();
  return options.Ok();
}

// 0, or a negative code and `error`.
int ReadCall(FileCall* call, const Napi::CallbackInfo& info,
             sbx_sandbox* sandbox, int scope, sbx_error* error) {
  int rc = 0;
  call->request.verb =
      static_cast<sbx_file_verb>(Uint32Of(info[1]));
  call->path = ReadPath(sandbox, scope, call->path, error, &rc);
  if (rc) return rc;
  call->request.path = call->path.c_str();
  if (!call->has_to) return 0;
  call->to = ReadPath(sandbox, scope, call->to, error, &rc);
  call->request.to = call->to.c_str();
  return rc;
}

// What must be of the right type; false if it is not, or could not be read.
bool ReadArguments(FileCall* call, const Napi::CallbackInfo& info) {
  if (!info[0].IsNumber() || !info[1].IsNumber()) {
    Napi::TypeError::New(info.Env(), "scope and verb must be numbers")
        .ThrowAsJavaScriptException();
    return false;
  }
  call->request.flags = SBX_FILE_BARE;
  call->request.expected_mtime_ms = INT64_MIN;
  if (!ReadText(info[2], "path", &call->path)) return false;
  if (!info[3].IsObject()) return true;
  Reader options(info[3]);
  Napi::Value to = options.Get("to");
  call->has_to = !to.IsUndefined();
  return ReadRequestOptions(call, options) &&
         (!call->has_to || ReadText(to, "the second path", &call->to));
}

}  // namespace

Napi::Value RequestFile(const Napi::CallbackInfo& info, sbx_sandbox* sandbox) {
  Napi::Env env = info.Env();
  sbx_error error = {};
  sbx_file_result result = {};
  auto call = std::make_unique<FileCall>();
  if (!ReadArguments(call.get(), info)) return env.Undefined();
  int scope = static_cast<int>(Uint32Of(info[0]));
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
