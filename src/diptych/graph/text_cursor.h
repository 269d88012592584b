// The cursor with which the parsers of graphs read a text; its errors name the line and column.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace diptych::detail {

/// Reads a text from front to back. Spaces, line breaks and `// remarks` between tokens mean nothing.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  /// Throws a UserError: "[parse] line 3, column 7: got 'x', expected ...". `at` is a place from position().
  [[noreturn]] void fail(std::string_view expected) const;
  [[noreturn]] void fail_at(size_t at, const std::string& message) const;

  size_t position() const { return at_; }
  void set_position(size_t at) { at_ = at; }
  std::string_view since(size_t start) const { return text_.substr(start, at_ - start); }
  /// The next character after spaces; '\0' at the end.
  char peek();
  bool at_end();
  /// Skips blanks but no line break; returns whether '#' comes next on this line, and takes it.
  bool accept_note();
  /// Skips blanks but no line break; returns whether the line is over.
  bool at_line_end();

  /// Takes `token` if it comes next; a token of letters must not be part of a longer word.
  bool accept(std::string_view token);
  void expect(std::string_view token);
  /// Whether `token` comes next; takes nothing.
  bool sees(std::string_view token);
  /// Takes letters, digits, '_' and '.'; may be empty.
  std::string_view name();
  /// Takes a bare word (see bare_words.h) or a quoted string.
  std::string word_or_string(std::string_view what);
  std::string string();
  int64_t integer();
  /// Takes characters up to one of `stops`, a comma or a line break outside of parentheses; trims blanks.
  std::string_view until(std::string_view stops);

 private:
  void skip();
  char current() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace diptych::detail
