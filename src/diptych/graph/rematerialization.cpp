#include "diptych/graph/rematerialization.h"

#include <algorithm>
#include <array>

#include "diptych/base/check.h"

namespace diptych {

using namespace detail;
namespace {

constexpr std::array<std::string_view, 3> kDecisions{"auto", "save", "recompute"};

// Takes the part of `text` before the next `separator`, and the separator with it.
std::string_view next_part(std::string_view& text, char separator) {
  const auto end = std::min(text.find(separator), text.size());
  const auto part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

}  // namespace

void RegionMarks::set(size_t depth, Rematerialize decision) {
  DIPTYCH_ASSERT(depth < kMaxDepth, "a mark for region {} of a path, expected less than {}", depth, kMaxDepth);
  bits_ = (bits_ & ~(3U << (2 * depth))) | (static_cast<uint32_t>(decision) << (2 * depth));
}

std::optional<size_t> RegionMarks::deciding_depth() const {
  if (bits_ == 0) return std::nullopt;
  return static_cast<size_t>(__builtin_ctz(bits_)) / 2;
}

Rematerialize RegionMarks::decision() const {
  const auto depth = deciding_depth();
  return depth ? at(*depth) : Rematerialize::kAuto;
}

size_t RegionMarks::depth() const { return bits_ == 0 ? 0 : (31 - static_cast<size_t>(__builtin_clz(bits_))) / 2 + 1; }

std::string RegionMarks::str(size_t depth) const {
  std::string text;
  for (size_t i = 0; i < std::min(depth, kMaxDepth); ++i) {
    text += i > 0 ? "/" : "";
    text += kDecisions.at(static_cast<size_t>(at(i)));
  }
  return text;
}

std::optional<RegionMarks> RegionMarks::parse(std::string_view text) {
  RegionMarks marks;
  for (size_t depth = 0; !text.empty(); ++depth) {
    const auto part = next_part(text, '/');
    const auto* const found = std::find(kDecisions.begin(), kDecisions.end(), part);
    if (depth >= kMaxDepth || found == kDecisions.end()) return std::nullopt;
    marks.set(depth, static_cast<Rematerialize>(found - kDecisions.begin()));
  }
  return marks;
}

size_t detail::region_depth(InternedString path) {
  return path.empty() ? 0 : 1 + static_cast<size_t>(std::count(path.str().begin(), path.str().end(), '/'));
}

InternedString detail::outer_region(InternedString path, size_t depth) {
  if (depth == 0) return {};
  size_t end = 0;
  for (size_t i = 0; i < depth; ++i) {
    end = path.str().find('/', i == 0 ? 0 : end + 1);
    if (end == std::string::npos) return path;
  }
  return InternedString(std::string_view(path.str()).substr(0, end));
}

size_t detail::common_region_depth(InternedString left, InternedString right) {
  if (left == right) return region_depth(left);
  std::string_view a = left.str();
  std::string_view b = right.str();
  size_t depth = 0;
  while (!a.empty() && !b.empty() && next_part(a, '/') == next_part(b, '/')) ++depth;
  return depth;
}

bool detail::has_residual_name(InternedString names, std::string_view name) {
  for (std::string_view rest = names.str(); !rest.empty();) {
    if (next_part(rest, ',') == name) return true;
  }
  return false;
}

}  // namespace diptych
