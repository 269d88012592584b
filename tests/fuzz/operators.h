// The operators that random programs are made of: tables of rows that know how to be chosen, printed and run.
#pragma once
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "fuzz/program.h"

namespace diptych::fuzz {

using namespace detail;

/// Random choices among the variables that are live where a statement is added.
class Chooser {
 public:
  explicit Chooser(uint64_t seed) : random_(seed) {}

  void set_variables(const Tensors& variables) { variables_ = &variables; }
  const at::Tensor& tensor(int id) const { return (*variables_)[id]; }

  int64_t below(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }
  bool chance(double probability) { return static_cast<double>(random_() >> 11) * 0x1.0p-53 < probability; }
  /// A small scalar that is exact in float32.
  double number();
  template <class T>
  const T& one_of(const std::vector<T>& choices) {
    return choices[below(static_cast<int64_t>(choices.size()))];
  }
  /// A variable for which `fits` holds, recent ones more often; -1 if there is none.
  int variable(const std::function<bool(const at::Tensor&)>& fits);

 private:
  std::mt19937_64 random_;
  const Tensors* variables_ = nullptr;
};

/// What an operator is, as far as a generator of programs cares.
enum class Kind { kPlain, kView, kInPlace };

struct Operator {
  std::string name;
  std::string text;  ///< {0}: argument 0; {args}: all; {i0}: integer 0; {ints}: all; {n0}: number 0
  int weight;        ///< how often it is tried
  Kind kind;
  /// Fills in args, ints and numbers; false if nothing fits.
  std::function<bool(Chooser&, Statement&)> make;
  std::function<Tensors(const Tensors&, const Statement&)> run;
  Topic topic = Topic::kNone;
};

/// Every operator, in a fixed order.
const std::vector<Operator>& operators();
/// Errors: std::out_of_range for a name that there isn't.
const Operator& operator_named(const std::string& name);

namespace detail {
std::vector<Operator> pointwise_operators();
std::vector<Operator> reduction_operators();
std::vector<Operator> structured_operators();
std::vector<Operator> view_operators();
std::vector<Operator> in_place_operators();
std::vector<Operator> complex_operators();
std::vector<Operator> default_dtype_operators();
std::vector<Operator> hook_operators();

using Make = std::function<bool(Chooser&, Statement&)>;
using Fits = std::function<bool(const at::Tensor&)>;

bool is_float(const at::Tensor& tensor);
bool has_complex(const at::Tensor& tensor);
bool is_long(const at::Tensor& tensor);
bool is_bool(const at::Tensor& tensor);
bool is_whole(const at::Tensor& tensor);  ///< of ints, not bools
bool is_number(const at::Tensor& tensor);
bool is_any(const at::Tensor& tensor);
bool has_elements(const at::Tensor& tensor);
bool broadcasts(at::IntArrayRef from, at::IntArrayRef to);  ///< `from` expands to `to`
bool broadcast_together(const at::Tensor& a, const at::Tensor& b);
Fits of_rank(const Fits& fits, int64_t least, int64_t most = 9);

/// Makers: one argument, one with numbers, one with a dimension, two that broadcast, two of which the second
/// broadcasts to the first.
Make one(Fits fits);
Make one_with_numbers(Fits fits, int count);
Make one_with_dim(Fits fits);
Make two(Fits fits);
Make onto_first(Fits fits);
/// A dimension of the tensor, at times counted from the end.
int64_t choose_dim(Chooser& choose, const at::Tensor& tensor);
}  // namespace detail

}  // namespace diptych::fuzz
