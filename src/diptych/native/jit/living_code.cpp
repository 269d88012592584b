#include "diptych/native/jit/living_code.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "diptych/base/check.h"

namespace diptych::detail {
namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<std::string, std::weak_ptr<const MachineCode>> codes;
};

// Never destroyed: code may die after everything here has.
Table& table() {
  static auto* const value = new Table;
  return *value;
}

}  // namespace

LivingCode::LivingCode(std::string key, std::string name, LoadedObject object)
    : key_(std::move(key)), name_(std::move(name)), object_(std::move(object)) {}

LivingCode::~LivingCode() {
  const std::lock_guard lock(table().mutex);
  const auto found = table().codes.find(key_);
  // Another code of this key may have taken the place meanwhile.
  if (found != table().codes.end() && found->second.expired()) table().codes.erase(found);
}

void* LivingCode::address(const std::string& function) const {
  const auto found = object_.functions.find(function);
  DIPTYCH_CHECK(found != object_.functions.end(),
                "[native] got '{}', which is no function of {}; name one that its text defines", function, name_);
  return found->second.address;
}

std::shared_ptr<const MachineCode> LivingCode::find(const std::string& key) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().codes.find(key);
  return found == table().codes.end() ? nullptr : found->second.lock();
}

std::shared_ptr<const MachineCode> LivingCode::publish(std::shared_ptr<LivingCode> code) {
  const std::lock_guard lock(table().mutex);
  auto& place = table().codes[code->key_];
  if (auto other = place.lock()) return other;
  place = code;
  return code;
}

}  // namespace diptych::detail
