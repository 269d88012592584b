#include "diptych/tree/path.h"

namespace diptych {

using namespace detail;

std::string Path::str() const {
  std::string text;
  append_to(text);
  return text;
}

void Path::append_to(std::string& text) const {
  if (parent_ != nullptr) parent_->append_to(text);
  if (kind_ == Kind::kRoot || (kind_ == Kind::kName && name_.empty() && parent_ == nullptr)) return;
  if (!text.empty()) text += '.';
  text += name_;
  if (kind_ != Kind::kName) text += std::to_string(index_);
}

}  // namespace diptych
