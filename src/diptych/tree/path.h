// The place in a user's value that a visitor has reached: a chain of parts on the call stack that becomes text only on
// request.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace diptych {

/// One step from a value to a part of it. Making one costs a few stores; str() walks the chain and prints
/// "params.blocks.3.attn.weight".
/// Requires: the parent, and the text of a name, outlive the path; so paths live on the stack and can't be copied.
class Path {
 public:
  /// The root of a value without a name; its parts print without a prefix.
  Path() = default;
  /// The root of a value called `name`.
  explicit Path(std::string_view name) : name_(name), kind_(Kind::kName) {}
  /// The field, map key or submodule `name` of `parent`.
  Path(const Path& parent, std::string_view name) : parent_(&parent), name_(name), kind_(Kind::kName) {}
  /// The element or integer key `index` of `parent`.
  Path(const Path& parent, int64_t index) : parent_(&parent), index_(index), kind_(Kind::kIndex) {}
  /// Returns the root that prints as `name` followed by a number: numbered("arg", 0) is "arg0". It is a static function
  /// because a constructor would look like that of a child.
  static Path numbered(std::string_view name, int64_t number) { return Path(name, number, Kind::kNumbered); }
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  /// "params.blocks.3"; empty for a root without a name.
  std::string str() const;

 private:
  enum class Kind : uint8_t { kRoot, kName, kIndex, kNumbered };
  Path(std::string_view name, int64_t index, Kind kind) : name_(name), index_(index), kind_(kind) {}
  void append_to(std::string& text) const;

  const Path* parent_ = nullptr;
  std::string_view name_;
  int64_t index_ = 0;
  Kind kind_ = Kind::kRoot;
};

}  // namespace diptych
