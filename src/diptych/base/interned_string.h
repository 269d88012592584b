// A string that is stored once in the process: equal strings share one address, so copies and comparisons are free.
#pragma once
#include <string>
#include <string_view>

namespace diptych {

/// An immutable string compared by address. A default-constructed one is empty. Threads: safe to make and use on any.
class InternedString {
 public:
  InternedString();
  explicit InternedString(std::string_view text);
  const std::string& str() const { return *text_; }
  bool empty() const { return text_->empty(); }
  bool operator==(const InternedString& other) const { return text_ == other.text_; }

 private:
  const std::string* text_;
};

}  // namespace diptych
