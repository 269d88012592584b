// A random program as data: a list of statements over numbered tensors that can be run, printed and taken apart.
#pragma once
#include <c10/core/DefaultDtype.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "diptych/backends/builtin_backends.h"
#include "testing/tensors.h"

namespace diptych::fuzz {

using namespace detail;

using testing::Tensors;

/// What a program may have besides plain tensors. Rows of operators() belong to one, too.
enum class Topic { kNone, kDefaultDtypes, kConjugates, kHooks };
/// The topics by the names that a command line gives them.
const std::map<std::string, Topic>& topics();

/// One operator call. Variables are numbers that never change, so that statements can be dropped.
struct Statement {
  std::string op;  ///< the name of a row of operators()
  std::vector<int> args;
  std::vector<int64_t> ints;  ///< dimensions, sizes, indices
  std::vector<double> numbers;
  std::vector<int> results;                     ///< the variables that it defines; none if it works in place
  bool no_grad = false;                         ///< runs where gradients are not recorded
  std::optional<at::ScalarType> default_dtype;  ///< the function sets it while this runs
};

/// A tensor that the program's caller makes: filled from the call's number, a leaf.
struct Leaf {
  /// The last two are lazy: conj() of a complex tensor, the negative of a real one.
  enum class Layout { kContiguous, kTransposed, kSliced, kLazy, kLazyTransposed };
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes;
  bool requires_grad = false;
  Layout layout = Layout::kContiguous;
  int shaken = 0;  ///< if not zero, its floats are moved in their last place, each number in another way
};

/// How an output's tangent is laid out; kNone leaves it undefined.
enum class Tangent { kNone, kDense, kExpanded, kTransposed, kSliced };

/// What happens after the call.
struct Backward {
  enum class Mode { kNone, kOnce, kTwice, kInTurn, kGrad, kSecondOrder, kInTurnOnce };
  Mode mode = Mode::kOnce;
  std::vector<Tangent> tangents;  ///< per output
  bool from_inputs = false;       ///< non-leaf arguments get tangents too: they may have been changed in place
};

/// How the function runs its body: once, or as that of a higher-order operator. The first arguments are carries; those
/// behind them are made into slices; the body captures the rest.
struct Loop {
  enum class Kind { kNone, kScan, kMap, kWhile, kCond };
  Kind kind = Kind::kNone;
  Kind inner = Kind::kNone;  ///< runs the body for two steps in each step of the outer one
  int carries = 0;           ///< the first outputs are the next carries
  int slices = 0;
  int64_t length = 3;
  bool reverse = false;
  bool clones = true;  ///< the body starts with clones of carries and slices, which it may change
};

/// An in-place edit by the caller between call and backward.
struct Edit {
  enum class Target { kNone, kOutput, kArgument };
  Target target = Target::kNone;
  int index = 0;
  bool no_grad = false;
};

/// The default dtype of the caller, and for how long he sets it.
struct DefaultDtype {
  enum class Scope { kCall, kOddCalls, kCallAndBackward };
  at::ScalarType dtype = at::kFloat;
  Scope scope = Scope::kCall;
};

/// A hook that the caller registers, on what then requires grad.
struct Hook {
  enum class Target { kOutput, kArgument, kLeaf };
  enum class When { kBeforeCall, kAfterCall, kAfterEdit };
  enum class Kind { kWatch, kTriple, kShift, kRemoved, kRetainGrad, kBeforeAccumulation, kAfterAccumulation };
  Target target = Target::kOutput;
  int index = 0;
  When when = When::kAfterCall;
  Kind kind = Kind::kWatch;
};

/// A whole test: how arguments are made, what the function does with them, and what the caller does with the results.
struct Program {
  uint64_t seed = 0;
  std::vector<Leaf> leaves;      ///< caller's variables 0, 1, ...
  std::vector<Statement> setup;  ///< the caller's own, before each call
  std::vector<int> arguments;    ///< caller's variables; those below 0 are captured tensors: -1 is number 0
  std::vector<Leaf> captured;    ///< free variables of the function, kept from call to call
  std::vector<Statement> body;   ///< over arguments 0.., then the captured tensors, then its own
  std::vector<int> outputs;      ///< variables of the body
  Loop loop = {};
  Backward backward;
  Edit edit;
  DefaultDtype default_dtype = {};
  std::vector<Hook> hooks;
  std::string partition = "default";
  int calls = 2;
  bool new_sizes = false;  ///< a last call with every size 3 made 5
  bool dynamic = false;    ///< every call has another size in the place of 3, and is to be served by one capture
  bool captures_backward = false;  ///< it runs as a captured graph of the whole pass
  std::string backend = default_backend();
  bool called_without_grad = false;
};

/// A program that means nothing: it uses a variable that nothing defines. Shrinking makes such ones and drops them.
struct InvalidProgram : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Sets the default dtype, until it is destroyed.
class DefaultDtypeGuard {
 public:
  explicit DefaultDtypeGuard(at::ScalarType dtype) : before_(c10::get_default_dtype()) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype));
  }
  DefaultDtypeGuard(const DefaultDtypeGuard&) = delete;
  DefaultDtypeGuard& operator=(const DefaultDtypeGuard&) = delete;
  ~DefaultDtypeGuard() { c10::set_default_dtype(before_); }

 private:
  caffe2::TypeMeta before_;
};

/// Whether tensors of the dtype can require grad.
inline bool is_differentiable(at::ScalarType dtype) { return at::isFloatingType(dtype) || at::isComplexType(dtype); }

/// Runs one statement on its variables. Errors: InvalidProgram if one is not defined; what the operator throws.
void run(const Statement& statement, Tensors& variables);
/// What the body returns for these arguments.
Tensors run_body(const Program& program, const Tensors& arguments, const Tensors& captured);
/// Makes a leaf's tensor, with sizes 3 made `three`; equal numbers give equal data.
at::Tensor make_leaf(const Leaf& leaf, uint64_t number, int64_t three = 3);
/// What sizes 3 are in a call.
int64_t three_in(const Program& program, int call);
/// Makes what a call's caller has: leaves and arguments.
struct Call {
  Tensors leaves;
  Tensors arguments;
};
Call make_call(const Program& program, const Tensors& captured, int number);
Tensors make_captured(const Program& program);

/// The program as readable text, C++ but for its types.
std::string to_string(const Program& program);

}  // namespace diptych::fuzz
