// An array of strings as the engine wants it.
#ifndef SBX_BINDING_NAMES_H
#define SBX_BINDING_NAMES_H

#include <string>
#include <vector>

#include "addon.h"

namespace sbx {

struct Names {
  std::vector<std::string> items;
  std::vector<const char*> pointers;  // into items

  // False with an exception pending if an item is no string.
  bool Read(Napi::Value value, const char* what) {
    if (!value.IsArray()) return true;
    auto list = value.As<Napi::Array>();
    items.resize(list.Length());
    for (uint32_t i = 0; i < list.Length(); i++) {
      if (!ReadText(list.Get(i), what, &items[i])) return false;
    }
    for (const std::string& one : items) pointers.push_back(one.c_str());
    return true;
  }
};

}  // namespace sbx

#endif
