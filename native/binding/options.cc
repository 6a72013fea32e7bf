#include "options.h"

#include "reader.h"

namespace sbx {

static int AddList(sbx_options* options, const std::string& name,
                   Napi::Value list) {
  Names names;
  if (!names.Read(list, name.c_str())) return UV_EINVAL;
  int rc = sbx_options_add_item(options, name.c_str(), nullptr, 0);
  for (size_t i = 0; !rc && i < names.items.size(); i++) {
    const std::string& item = names.items[i];
    rc = sbx_options_add_item(options, name.c_str(), item.data(), item.size());
  }
  return rc;
}

static int AddObject(sbx_options* options, const std::string& prefix,
                     Napi::Value object);

static int AddValue(sbx_options* options, const std::string& name,
                    Napi::Value value) {
  if (value.IsUndefined() || value.IsNull() || value.IsFunction()) return 0;
  if (value.IsBoolean()) {
    return sbx_options_add_bool(options, name.c_str(), value.As<Napi::Boolean>());
  }
  if (value.IsNumber()) {
    return sbx_options_add_number(options, name.c_str(),
                                  value.As<Napi::Number>().DoubleValue());
  }
  if (value.IsArray()) return AddList(options, name, value);
  if (value.IsObject()) return AddObject(options, name + ".", value);
  std::string text;
  if (!ReadText(value, name.c_str(), &text)) return UV_EINVAL;
  return sbx_options_add_string(options, name.c_str(), text.data(), text.size());
}

static int AddObject(sbx_options* options, const std::string& prefix,
                     Napi::Value object) {
  Reader reader(object);
  Names names;
  if (!names.Read(reader.PropertyNames(), "an option's name")) return UV_EINVAL;
  int rc = 0;
  for (size_t i = 0; !rc && reader.Ok() && i < names.items.size(); i++) {
    const std::string& name = names.items[i];
    rc = AddValue(options, prefix + name, reader.Get(name));
  }
  return reader.Ok() ? rc : UV_EINVAL;
}

sbx_options* ReadOptions(Napi::Value value) {
  sbx_options* options = nullptr;
  int rc = sbx_options_new(&options);
  if (!rc && value.IsObject()) {
    rc = AddObject(options, "", value);
  }
  if (!rc) return options;
  sbx_options_free(options);
  if (value.Env().IsExceptionPending()) return nullptr;
  sbx_error error = {};
  sbx_error_set(&error, rc == UV_ENOMEM ? SBX_E_INTERNAL : SBX_E_INVALID_INPUT,
                0, "open", "the options could not be read: %s", uv_strerror(rc));
  Throw(value.Env(), error);
  return nullptr;
}

}  // namespace sbx
