// An array of strings as the engine wants it.
#ifndef SBX_BINDING_NAMES_H
#define SBX_BINDING_NAMES_H

#include <napi.h>

#include <string>
#include <vector>

namespace sbx {

struct Names {
  std::vector<std::string> items;
  std::vector<const char*> pointers;  // into items

  void Read(Napi::Value value) {
    if (!value.IsArray()) return;
    auto list = value.As<Napi::Array>();
    items.reserve(list.Length());
    for (uint32_t i = 0; i < list.Length(); i++) {
      items.push_back(list.Get(i).ToString());
    }
    for (const std::string& one : items) pointers.push_back(one.c_str());
  }
};

}  // namespace sbx

#endif
