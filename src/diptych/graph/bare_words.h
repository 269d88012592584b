// Which strings code() prints without quotes; print.cpp and parse.cpp must agree on them.
#pragma once
#include <string_view>

namespace diptych::detail {

/// Whether `c` may occur in a bare word. Names of graphs, slots, scopes and passes that contain any other character are
/// quoted.
constexpr bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '/' || c == '[' || c == ']';
}

/// Whether a string prints without quotes. "//" would start a remark.
constexpr bool is_bare_word(std::string_view text) {
  if (text.empty() || text.find("//") != text.npos) return false;
  for (const char c : text) {
    if (!is_word_character(c)) return false;
  }
  return true;
}

/// Whether `text` is a keyword after the '#'; a scope of that name is quoted.
constexpr bool is_provenance_word(std::string_view text) {
  return text == "grad" || text == "forward" || text == "backward" || text == "by" || text == "no_grad" ||
         text == "region" || text == "named" || text == "own_derivative";
}

}  // namespace diptych::detail
