// The words that text and files use for dtypes, layouts, memory formats and slot kinds.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// "f32", or "dtype(12)" for a dtype without a name.
std::string dtype_text(int64_t dtype);
/// "strided", or "layout(7)".
std::string layout_text(int64_t layout);
/// "channels_last", or "memory_format(7)".
std::string memory_format_text(int64_t format);
/// "argument", "free_variable", "output", "mutated", "residual", "tangent", "gradient".
std::string_view slot_kind_name(SlotKind kind);

/// The inverses; empty if the word is unknown.
std::optional<int64_t> dtype_from_text(std::string_view text);
std::optional<int64_t> layout_from_text(std::string_view text);
std::optional<int64_t> memory_format_from_text(std::string_view text);
std::optional<SlotKind> slot_kind_from_name(std::string_view name);

/// "1.5 KiB".
std::string bytes_text(int64_t bytes);

}  // namespace diptych::detail
