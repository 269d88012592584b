#include "diptych/graph/names.h"

#include <fmt/format.h>
#include <array>
#include <charconv>

#include "diptych/base/error.h"

namespace diptych::detail {
namespace {

struct Name {
  int64_t number;
  std::string_view name;
};
constexpr Name name_of(at::Layout layout, std::string_view name) { return {static_cast<int64_t>(layout), name}; }
constexpr Name name_of(at::MemoryFormat format, std::string_view name) { return {static_cast<int64_t>(format), name}; }
constexpr std::array<Name, 8> kLayouts{{
    name_of(at::kStrided, "strided"),
    name_of(at::kSparse, "sparse_coo"),
    name_of(at::kSparseCsr, "sparse_csr"),
    name_of(at::kSparseCsc, "sparse_csc"),
    name_of(at::kSparseBsr, "sparse_bsr"),
    name_of(at::kSparseBsc, "sparse_bsc"),
    name_of(at::kMkldnn, "mkldnn"),
    name_of(at::kJagged, "jagged"),
}};
constexpr std::array<Name, 4> kMemoryFormats{{
    name_of(at::MemoryFormat::Contiguous, "contiguous_format"),
    name_of(at::MemoryFormat::Preserve, "preserve_format"),
    name_of(at::MemoryFormat::ChannelsLast, "channels_last"),
    name_of(at::MemoryFormat::ChannelsLast3d, "channels_last_3d"),
}};
constexpr std::array<std::string_view, 7> kSlotKinds{"argument", "free_variable", "output",  "mutated",
                                                     "residual", "tangent",       "gradient"};

template <size_t kCount>
std::string text_of(const std::array<Name, kCount>& names, int64_t number, std::string_view fallback) {
  for (const auto& entry : names) {
    if (entry.number == number) return std::string(entry.name);
  }
  return fmt::format("{}({})", fallback, number);
}

// Reads "fallback(12)".
std::optional<int64_t> number_in(std::string_view text, std::string_view fallback) {
  if (text.size() < fallback.size() + 3 || !text.starts_with(fallback) || text[fallback.size()] != '(' ||
      text.back() != ')') {
    return std::nullopt;
  }
  text = text.substr(fallback.size() + 1, text.size() - fallback.size() - 2);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

template <size_t kCount>
std::optional<int64_t> number_of(const std::array<Name, kCount>& names, std::string_view text,
                                 std::string_view fallback) {
  for (const auto& entry : names) {
    if (entry.name == text) return entry.number;
  }
  return number_in(text, fallback);
}

}  // namespace

std::string dtype_text(int64_t dtype) {
  if (dtype >= 0 && dtype < static_cast<int64_t>(at::ScalarType::NumOptions)) {
    const auto name = find_dtype_name(static_cast<at::ScalarType>(dtype));
    if (!name.empty()) return std::string(name);
  }
  return fmt::format("dtype({})", dtype);
}
std::string layout_text(int64_t layout) { return text_of(kLayouts, layout, "layout"); }
std::string memory_format_text(int64_t format) { return text_of(kMemoryFormats, format, "memory_format"); }
std::string_view slot_kind_name(SlotKind kind) { return kSlotKinds[static_cast<size_t>(kind)]; }

std::optional<int64_t> dtype_from_text(std::string_view text) {
  if (const auto dtype = find_dtype(text)) return static_cast<int64_t>(*dtype);
  return number_in(text, "dtype");
}
std::optional<int64_t> layout_from_text(std::string_view text) { return number_of(kLayouts, text, "layout"); }
std::optional<int64_t> memory_format_from_text(std::string_view text) {
  return number_of(kMemoryFormats, text, "memory_format");
}
std::optional<SlotKind> slot_kind_from_name(std::string_view name) {
  for (size_t i = 0; i < kSlotKinds.size(); ++i) {
    if (kSlotKinds[i] == name) return static_cast<SlotKind>(i);
  }
  return std::nullopt;
}

std::string bytes_text(int64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto amount = static_cast<double>(bytes);
  size_t unit = 0;
  while (amount >= 1024 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

}  // namespace diptych::detail
