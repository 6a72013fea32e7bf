// Arguments and options of JavaScript's as the engine wants them. Any read of a
// property may fail in a worker that is being terminated, with no exception to
// tell of it, and node-addon-api ends the process over the value that it then
// gives: its Get() and To...() are not for this folder.
#ifndef SBX_BINDING_READER_H
#define SBX_BINDING_READER_H

#include <napi.h>

#include <string>
#include <vector>

namespace sbx {

// The value must be a string; otherwise false, with invalid_input pending.
bool ReadText(Napi::Value value, const char* what, std::string* out);

// The bytes of a Uint8Array or another view, also of shared memory.
bool ReadBytes(Napi::Value value, const char** bytes, size_t* len);

// Empty unless it is a string.
std::string TextOf(Napi::Value value);

// `otherwise` unless it is a number.
double NumberOf(Napi::Value value, double otherwise);
uint32_t Uint32Of(Napi::Value value);

bool IsTrue(Napi::Value value);

// An array of strings.
struct Names {
  std::vector<std::string> items;
  std::vector<const char*> pointers;  // into items

  // True without one, too. False if an item is no string, with invalid_input
  // pending, or could not be read.
  bool Read(Napi::Value value, const char* what);
};

// Reads an object's properties, or an array's; undefined for each that cannot be
// read or if it is no object.
class Reader {
 public:
  explicit Reader(Napi::Value value) : value_(value) {}

  Napi::Value Get(const char* name);
  Napi::Value Get(const std::string& name) { return Get(name.c_str()); }
  Napi::Value At(uint32_t index);
  uint32_t Length() const;
  Napi::Value PropertyNames();  // an array

  // Every read so far succeeded. Without that no call may begin, for it would do
  // something else than what was asked; an exception may be pending.
  bool Ok() const { return ok_; }

 private:
  Napi::Value Take(napi_status status, napi_value value);

  Napi::Value value_;
  bool ok_ = true;
};

}  // namespace sbx

#endif
