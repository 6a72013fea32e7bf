#include "reader.h"

#include "addon.h"

namespace sbx {

bool ReadText(Napi::Value value, const char* what, std::string* out) {
  if (value.IsString()) {
    *out = TextOf(value);
    return true;
  }
  if (value.IsEmpty() || value.Env().IsExceptionPending()) return false;
  sbx_error error = {};
  sbx_error_set(&error, SBX_E_INVALID_INPUT, 0, "", "%s must be a string", what);
  Throw(value.Env(), error);
  return false;
}

// Not through ArrayBuffer(): Node 22.13 has none for shared memory.
bool ReadBytes(Napi::Value value, const char** bytes, size_t* len) {
  if (!value.IsTypedArray()) return false;
  void* data = nullptr;
  napi_status status = napi_get_typedarray_info(
      value.Env(), value, nullptr, nullptr, &data, nullptr, nullptr);
  *bytes = static_cast<const char*>(data);
  *len = value.As<Napi::TypedArray>().ByteLength();
  return status == napi_ok;
}

std::string TextOf(Napi::Value value) {
  return value.IsString() ? value.As<Napi::String>().Utf8Value() : "";
}

double NumberOf(Napi::Value value, double otherwise) {
  return value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : otherwise;
}

uint32_t Uint32Of(Napi::Value value) {
  return value.IsNumber() ? value.As<Napi::Number>().Uint32Value() : 0;
}

bool IsTrue(Napi::Value value) {
  return value.IsBoolean() && value.As<Napi::Boolean>().Value();
}

bool Names::Read(Napi::Value value, const char* what) {
  if (!value.IsArray()) return true;
  Reader list(value);
  items.resize(list.Length());
  for (uint32_t i = 0; i < items.size(); i++) {
    Napi::Value item = list.At(i);
    if (!list.Ok() || !ReadText(item, what, &items[i])) return false;
  }
  for (const std::string& one : items) pointers.push_back(one.c_str());
  return true;
}

Napi::Value Reader::Take(napi_status status, napi_value value) {
  if (status == napi_ok) return Napi::Value(value_.Env(), value);
  ok_ = false;
  return value_.Env().Undefined();
}

Napi::Value Reader::Get(const char* name) {
  if (!value_.IsObject()) return value_.Env().Undefined();
  napi_value value = nullptr;
  napi_status status =
      napi_get_named_property(value_.Env(), value_, name, &value);
  return Take(status, value);
}

Napi::Value Reader::At(uint32_t index) {
  napi_value value = nullptr;
  napi_status status = napi_get_element(value_.Env(), value_, index, &value);
  return Take(status, value);
}

uint32_t Reader::Length() const {
  return value_.IsArray() ? value_.As<Napi::Array>().Length() : 0;
}

Napi::Value Reader::PropertyNames() {
  napi_value names = nullptr;
  napi_status status = napi_get_property_names(value_.Env(), value_, &names);
  return Take(status, names);
}

}  // namespace sbx
