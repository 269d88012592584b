#include "diptych/graph/text_cursor.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>

#include "diptych/base/error.h"
#include "diptych/graph/bare_words.h"
#include "diptych/graph/operand.h"

namespace diptych::detail {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_character(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '.'; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

void TextCursor::fail_at(size_t at, const std::string& message) const {
  const auto before = text_.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const auto line_start = before.rfind('\n');
  const auto column = line_start == before.npos ? at + 1 : at - line_start;
  detail::throw_user_error(fmt::format("[parse] line {}, column {}: {}", line, column, message));
}

void TextCursor::fail(std::string_view expected) const {
  auto got = text_.substr(std::min(at_, text_.size()), 24);
  got = got.substr(0, got.find('\n'));
  const auto shown = at_ >= text_.size() ? std::string("the end of the text")
                     : got.empty()       ? std::string("the end of the line")
                                         : quoted_text(got);
  fail_at(at_, fmt::format("got {}, expected {}", shown, expected));
}

void TextCursor::skip() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

char TextCursor::peek() {
  skip();
  return current();
}

bool TextCursor::at_end() {
  skip();
  return at_ >= text_.size();
}

bool TextCursor::accept_note() {
  while (current() == ' ' || current() == '\t') ++at_;
  if (current() != '#') return false;
  ++at_;
  return true;
}

bool TextCursor::at_line_end() {
  while (current() == ' ' || current() == '\t' || current() == '\r') ++at_;
  return at_ >= text_.size() || current() == '\n' || text_.substr(at_, 2) == "//";
}

bool TextCursor::sees(std::string_view token) {
  skip();
  if (text_.substr(at_, token.size()) != token) return false;
  const size_t end = at_ + token.size();
  return !is_letter(token.back()) || end >= text_.size() || !is_name_character(text_[end]);
}

bool TextCursor::accept(std::string_view token) {
  if (!sees(token)) return false;
  at_ += token.size();
  return true;
}

void TextCursor::expect(std::string_view token) {
  if (!accept(token)) fail(fmt::format("'{}'", token));
}

std::string_view TextCursor::name() {
  skip();
  const size_t start = at_;
  while (is_name_character(current())) ++at_;
  return since(start);
}

std::string TextCursor::word_or_string(std::string_view what) {
  if (peek() == '"') return string();
  const size_t start = at_;
  while (at_ < text_.size() && is_word_character(text_[at_]) && text_.substr(at_, 2) != "//") ++at_;
  if (start == at_) fail(what);
  return std::string(since(start));
}

std::string TextCursor::string() {
  if (peek() != '"') fail("a string in double quotes");
  ++at_;
  std::string result;
  while (current() != '"') {
    if (at_ >= text_.size() || current() == '\n') fail("the closing '\"' of a string");
    char c = text_[at_++];
    if (c == '\\') {
      c = current();
      const bool has_hex = c == 'x' && at_ + 2 < text_.size();
      const int high = has_hex ? hex_digit(text_[at_ + 1]) : -1, low = has_hex ? hex_digit(text_[at_ + 2]) : -1;
      if (high >= 0 && low >= 0) {
        c = static_cast<char>(high * 16 + low);
        at_ += 2;
      } else if (c == 'n' || c == 't') {
        c = c == 'n' ? '\n' : '\t';
      } else if (c != '"' && c != '\\') {
        fail(R"(one of \", \\, \n, \t and \xNN in a string)");
      }
      ++at_;
    }
    result += c;
  }
  ++at_;
  return result;
}

int64_t TextCursor::integer() {
  skip();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error != std::errc()) fail("an integer of 64 bits");
  at_ = end - text_.data();
  return value;
}

std::string_view TextCursor::until(std::string_view stops) {
  skip();
  const size_t start = at_;
  int depth = 0;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n' || (depth == 0 && (c == ',' || stops.find(c) != stops.npos))) break;
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    ++at_;
  }
  auto taken = since(start);
  while (!taken.empty() && (taken.back() == ' ' || taken.back() == '\t' || taken.back() == '\r'))
    taken.remove_suffix(1);
  return taken;
}

}  // namespace diptych::detail
