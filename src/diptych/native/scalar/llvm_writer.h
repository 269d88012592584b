// Writing LLVM IR as text: names, types, instructions and blocks of one function at a time.
#pragma once
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>

#include "diptych/native/scalar/code_target.h"

namespace diptych::detail {

/// The name of a value in LLVM's text, and whether it is a vector of so many lanes or a scalar (0).
struct Code {
  std::string name;
  int lanes = 0;
};

/// "float", "<8 x float>". In registers a bool is an i1 and a bf16 an i16, which is all that happens to it.
std::string llvm_type(at::ScalarType dtype, int lanes);
/// The same in memory, where a bool is a byte.
std::string llvm_memory_type(at::ScalarType dtype, int lanes);
std::string llvm_type(std::string_view element, int lanes);

/// Collects the text of one module, function by function.
class LlvmWriter {
 public:
  explicit LlvmWriter(const CodeTarget& target) : target_(target) {}
  /// The machine that the module is for.
  const CodeTarget& target() const { return target_; }

  /// Begins a function: `header` is what follows "define", up to the brace.
  void begin_function(const std::string& header);
  void end_function();
  /// A fresh name for a value.
  std::string fresh() { return fmt::format("%v{}", next_++); }
  /// A fresh name for a block, without the percent sign.
  std::string fresh_block(std::string_view what) { return fmt::format("{}{}", what, next_++); }

  /// Writes an instruction that has no result.
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    body_ += "  " + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  /// Writes an instruction and returns the name of its result.
  template <class... Args>
  std::string value(fmt::format_string<Args...> format, Args&&... args) {
    std::string name = fresh();
    body_ += "  " + name + " = " + fmt::format(format, std::forward<Args>(args)...) + "\n";
    return name;
  }
  void block(const std::string& name);
  /// A place in memory for a variable, made once when the function is entered; passes turn it into registers.
  std::string variable(const std::string& type);
  /// A function of the process: "declare" is put before `signature` once.
  void declare(const std::string& signature) { declarations_.insert(signature); }

  /// The lane's number, from 0, in each lane: "<i64 0, i64 1>".
  static std::string lane_numbers(std::string_view type, int lanes);
  /// The vector with one scalar in all lanes.
  std::string splat(const std::string& type, const std::string& scalar, int lanes);
  /// Lanes [first, first + count) of a vector of `lanes`.
  std::string lanes_of(const std::string& element, const std::string& vector, int lanes, int first, int count);
  /// Of a vector of pairs, `count` of them, the first or second number of each.
  std::string halves_of_pairs(const std::string& element, const std::string& vector, int count, int which);
  /// The pairs of the lanes of two vectors.
  std::string pairs_of(const std::string& element, const std::string& first, const std::string& second, int lanes);
  /// Two vectors of the same length, one after the other.
  std::string joined(const std::string& element, const std::string& low, const std::string& high, int lanes);

  /// The whole module.
  std::string text() const;

 private:
  CodeTarget target_;
  std::string functions_, header_, entry_, body_, block_;
  std::set<std::string> declarations_;
  int64_t next_ = 0;
};

}  // namespace diptych::detail
