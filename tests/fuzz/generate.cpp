#include "fuzz/generate.h"

#include <algorithm>
#include <set>

#include "fuzz/check.h"
#include "fuzz/operators.h"

namespace diptych::fuzz {
namespace {

class Generator {
 public:
  Generator(uint64_t seed, Topic topic) : seed_(seed), choose_(seed), topics_(choose_topics(seed, topic)) {}

  Program generate() {
    for (int attempt = 0;; ++attempt) {
      make();
      if (is_worth_running() || attempt > 100) return program_;
    }
  }

 private:
  // By numbers of their own, so that programs of no topic are what they are without topics.
  static std::set<Topic> choose_topics(uint64_t seed, Topic always) {
    Chooser choose(seed ^ 0x7f4a7c159e3779b9U);
    std::set<Topic> chosen = {Topic::kNone, always};
    for (const auto& entry : topics()) {
      if (choose.chance(0.12)) chosen.insert(entry.second);
    }
    return chosen;
  }

  bool has(Topic topic) const { return topics_.count(topic) != 0; }

  void make() {
    program_ = {};
    program_.seed = seed_;
    make_leaves();
    make_arguments();
    if (has(Topic::kDefaultDtypes)) make_default_dtype();
    make_body();
    make_outputs();
    make_what_follows();
    if (has(Topic::kHooks)) make_hooks();
  }

  Leaf random_leaf() {
    static const std::vector<std::vector<int64_t>> kSizes = {{2, 3}, {2, 3}, {3}, {3, 3}, {2, 1}, {1, 3}, {2, 3, 4},
                                                             {4},    {3, 4}, {},  {1},    {2, 0}, {0},    {2, 2, 3}};
    static const std::vector<at::ScalarType> kTypes = {
        at::kFloat,  at::kFloat,  at::kFloat, at::kFloat,    at::kFloat, at::kFloat, at::kDouble, at::kDouble,
        at::kDouble, at::kDouble, at::kLong,  at::kBFloat16, at::kHalf,  at::kInt,   at::kBool,   at::kLong};
    Leaf leaf{.dtype = choose_.one_of(kTypes), .sizes = choose_.one_of(kSizes)};
    if (has(Topic::kConjugates) && choose_.chance(0.5))
      leaf.dtype = choose_.chance(0.25) ? at::kComplexDouble : at::kComplexFloat;
    leaf.requires_grad = is_differentiable(leaf.dtype) && choose_.chance(0.65);
    if (choose_.chance(0.25)) leaf.layout = choose_.chance(0.5) ? Leaf::Layout::kTransposed : Leaf::Layout::kSliced;
    if (has(Topic::kConjugates) && is_differentiable(leaf.dtype) && choose_.chance(0.25))
      leaf.layout = choose_.chance(0.7) ? Leaf::Layout::kLazy : Leaf::Layout::kLazyTransposed;
    return leaf;
  }

  void make_leaves() {
    for (int64_t i = choose_.below(3); i >= 0; --i) program_.leaves.push_back(random_leaf());
    // Relatives have shapes and dtypes that go together.
    for (auto& leaf : program_.leaves) {
      if (!choose_.chance(0.5)) continue;
      leaf.sizes = program_.leaves[0].sizes;
      leaf.dtype = program_.leaves[0].dtype;
      leaf.requires_grad = leaf.requires_grad && is_differentiable(leaf.dtype);
      if (!is_differentiable(leaf.dtype) && leaf.layout >= Leaf::Layout::kLazy) leaf.layout = Leaf::Layout::kContiguous;
    }
    for (int64_t i = choose_.chance(0.25) ? choose_.below(2) + 1 : 0; i > 0; --i)
      program_.captured.push_back(random_leaf());
  }

  // Adds a random statement that eager runs (or, seldom, one that it refuses). Returns the first variable it defines.
  int add(std::vector<Statement>& statements, Tensors& variables, const std::function<bool(const Operator&)>& wanted) {
    for (int attempt = 0; attempt < 20; ++attempt) {
      const Operator& op = random_operator(wanted);
      Statement statement{.op = op.name};
      choose_.set_variables(variables);
      if (!op.make(choose_, statement)) continue;
      statement.no_grad = no_grad_;
      statement.default_dtype = default_dtype_;
      if (try_statement(op, statement, variables)) {
        statements.push_back(statement);
        return statement.results.empty() ? -1 : statement.results[0];
      }
      if (failed_) {
        statements.push_back(statement);
        return -1;
      }
    }
    return -1;
  }

  const Operator& random_operator(const std::function<bool(const Operator&)>& wanted) {
    const auto is_one = [&](const Operator& op) { return has(op.topic) && wanted(op); };
    int64_t total = 0;
    for (const Operator& op : operators()) total += is_one(op) ? op.weight : 0;
    int64_t left = choose_.below(total);
    for (const Operator& op : operators()) {
      if (!is_one(op)) continue;
      left -= op.weight;
      if (left < 0) return op;
    }
    throw std::logic_error("no operator is wanted");
  }

  bool try_statement(const Operator& op, Statement& statement, Tensors& variables) {
    Tensors arguments;
    for (const int id : statement.args) arguments.push_back(variables[id]);
    if (op.topic == Topic::kHooks && is_captured(statement.args[0])) return false;
    if (op.kind == Kind::kInPlace && !is_well_defined(arguments, writes_one_value(op))) return false;
    try {
      const at::AutoGradMode mode(!statement.no_grad);
      std::optional<DefaultDtypeGuard> guard;
      if (statement.default_dtype) guard.emplace(*statement.default_dtype);
      const Tensors results = op.run(arguments, statement);
      for (const at::Tensor& result : results) {
        if (result.numel() > 400) return false;
        statement.results.push_back(static_cast<int>(variables.size()));
        variables.push_back(result);
      }
      return true;
    } catch (const std::exception&) {
      failed_ = choose_.chance(0.03) && in_body_;  // what the caller does around the function must run
      return false;
    }
  }

  // Each call would register one more hook, of which C++ sees no trace (docs/limits.md).
  bool is_captured(int variable) const {
    return variable >= static_cast<int>(program_.arguments.size()) && variable < static_cast<int>(num_inputs_);
  }

  static bool writes_one_value(const Operator& op) { return op.name == "fill_" || op.name == "zero_"; }

  // Eager does not say what comes of writing to memory that is met twice, unless one value is written all over, or of
  // writing to what is read at another place.
  static bool is_well_defined(const Tensors& arguments, bool is_one_value) {
    const at::Tensor& target = arguments[0];
    if (meets_itself(target) && !is_one_value) return false;
    return std::all_of(arguments.begin() + 1, arguments.end(), [&](const at::Tensor& other) {
      return !other.storage().is_alias_of(target.storage()) ||
             (other.storage_offset() == target.storage_offset() && other.sizes() == target.sizes() &&
              other.strides() == target.strides());
    });
  }

  static bool meets_itself(const at::Tensor& tensor) {
    std::vector<std::pair<int64_t, int64_t>> dims;
    for (int64_t i = 0; i < tensor.dim(); ++i) {
      if (tensor.size(i) > 1) dims.emplace_back(tensor.stride(i), tensor.size(i));
    }
    std::sort(dims.begin(), dims.end());
    int64_t reach = 0;
    for (const auto& [stride, size] : dims) {
      if (stride <= reach) return true;
      reach += stride * (size - 1);
    }
    return false;
  }

  static bool is_view(const Operator& op) { return op.kind == Kind::kView; }

  // A leaf, something computed from one, or a view of either.
  int random_argument(Tensors& variables) {
    const int leaf = static_cast<int>(choose_.below(static_cast<int64_t>(program_.leaves.size())));
    const bool taken =
        std::find(program_.arguments.begin(), program_.arguments.end(), leaf) != program_.arguments.end();
    if (choose_.chance(taken ? 0.06 : 0.4)) return leaf;
    if (choose_.chance(0.14) && variables.size() > program_.leaves.size()) {
      const int view = add(program_.setup, variables, is_view);
      return view < 0 ? leaf : view;
    }
    if (choose_.chance(0.3) && !program_.captured.empty()) return -1;
    Statement statement{.op = choose_.chance(0.2) ? "detach" : "clone",
                        .args = {leaf},
                        .results = {static_cast<int>(variables.size())}};
    const int made = statement.results[0];
    run(statement, variables);
    program_.setup.push_back(statement);
    return made;
  }

  // At times, the memory of a leaf under another owner.
  int random_argument_or_alias(Tensors& variables) {
    const int made = random_argument(variables);
    if (made < 0 || !choose_.chance(0.08) || variables[made].requires_grad() || !variables[made].is_contiguous()) {
      return made;
    }
    Statement statement{.op = "other_owner", .args = {made}, .results = {static_cast<int>(variables.size())}};
    run(statement, variables);
    program_.setup.push_back(statement);
    if (choose_.chance(0.7)) program_.arguments.push_back(made);
    return statement.results[0];
  }

  void make_arguments() {
    Tensors variables;
    for (size_t i = 0; i < program_.leaves.size(); ++i) variables.push_back(make_leaf(program_.leaves[i], i));
    no_grad_ = false;
    failed_ = false;
    in_body_ = false;
    for (int64_t i = choose_.below(4); i >= 0; --i) {
      const bool again = !program_.arguments.empty() && choose_.chance(0.06);
      program_.arguments.push_back(again ? choose_.one_of(program_.arguments) : random_argument_or_alias(variables));
    }
  }

  static at::ScalarType random_default(Chooser& choose) {
    return choose.one_of(std::vector<at::ScalarType>{at::kDouble, at::kDouble, at::kBFloat16, at::kHalf});
  }

  // The caller sets it, or the function does for some of its statements.
  void make_default_dtype() {
    using Scope = DefaultDtype::Scope;
    static const std::vector<Scope> kScopes = {Scope::kCall, Scope::kOddCalls, Scope::kCallAndBackward};
    sets_default_dtype_ = choose_.chance(0.3);
    if (!sets_default_dtype_) program_.default_dtype = {random_default(choose_), choose_.one_of(kScopes)};
  }

  void make_body() {
    const DefaultDtypeGuard guard(
        program_.default_dtype.scope == DefaultDtype::Scope::kOddCalls ? at::kFloat : program_.default_dtype.dtype);
    const Tensors captured = make_captured(program_);
    Tensors variables = make_call(program_, captured, 0).arguments;
    variables.insert(variables.end(), captured.begin(), captured.end());
    num_inputs_ = variables.size();
    torch::manual_seed(seed_);
    in_body_ = true;
    failed_ = false;
    no_grad_ = false;
    for (int64_t left = 1 + choose_.below(choose_.chance(0.3) ? 16 : 8); left > 0 && !failed_; --left) {
      if (choose_.chance(no_grad_ ? 0.5 : 0.06)) no_grad_ = !no_grad_;
      if (sets_default_dtype_ && choose_.chance(0.4))
        default_dtype_ = default_dtype_ ? std::nullopt : std::optional(random_default(choose_));
      const double draw = static_cast<double>(choose_.below(100)) / 100;
      const Kind kind = draw < 0.5 ? Kind::kPlain : draw < 0.78 ? Kind::kView : Kind::kInPlace;
      add(program_.body, variables, [kind](const Operator& op) { return op.kind == kind; });
    }
    num_variables_ = variables.size();
    default_dtype_.reset();
  }

  void make_outputs() {
    for (int64_t i = choose_.below(4); i >= 0; --i) {
      const bool input = choose_.chance(0.12) || num_variables_ == num_inputs_;
      const auto first = static_cast<int64_t>(input ? 0 : num_inputs_);
      const auto end = static_cast<int64_t>(input ? num_inputs_ : num_variables_);
      const int64_t a = first + choose_.below(end - first);
      const int64_t b = first + choose_.below(end - first);
      program_.outputs.push_back(static_cast<int>(std::max(a, b)));
    }
  }

  void make_what_follows() {
    using Mode = Backward::Mode;
    static const std::vector<Mode> kModes = {Mode::kOnce,        Mode::kOnce,        Mode::kOnce,   Mode::kOnce,
                                             Mode::kOnce,        Mode::kTwice,       Mode::kInTurn, Mode::kGrad,
                                             Mode::kSecondOrder, Mode::kSecondOrder, Mode::kNone,   Mode::kInTurnOnce};
    static const std::vector<Tangent> kTangents = {Tangent::kDense, Tangent::kDense,    Tangent::kDense,
                                                   Tangent::kNone,  Tangent::kExpanded, Tangent::kTransposed,
                                                   Tangent::kSliced};
    static const std::vector<std::string> kPartitions = {"default", "default", "min_cut", "memory_budget(0)",
                                                         "memory_budget(0.5)"};
    program_.backward.mode = choose_.one_of(kModes);
    for (size_t i = 0; i < program_.outputs.size(); ++i)
      program_.backward.tangents.push_back(choose_.one_of(kTangents));
    program_.backward.from_inputs = choose_.chance(0.5);
    if (choose_.chance(0.2)) {
      const bool output = choose_.chance(0.6);
      program_.edit.target = output ? Edit::Target::kOutput : Edit::Target::kArgument;
      program_.edit.index = static_cast<int>(
          choose_.below(static_cast<int64_t>(output ? program_.outputs.size() : program_.arguments.size())));
      program_.edit.no_grad = choose_.chance(0.5);
    }
    program_.partition = choose_.one_of(kPartitions);
    program_.calls = choose_.chance(0.3) ? 3 : 2;
    program_.called_without_grad = choose_.chance(0.04);
    program_.new_sizes = choose_.chance(0.3);
    if (program_.new_sizes && !runs(program_.calls - 1)) program_.new_sizes = false;
  }

  void make_hooks() {
    using Target = Hook::Target;
    using When = Hook::When;
    using Kind = Hook::Kind;
    static const std::vector<Target> kTargets = {Target::kOutput, Target::kOutput, Target::kArgument, Target::kLeaf};
    static const std::vector<When> kTimes = {When::kBeforeCall, When::kAfterCall, When::kAfterCall, When::kAfterEdit};
    static const std::vector<Kind> kKinds = {Kind::kWatch, Kind::kWatch,   Kind::kTriple,     Kind::kTriple,
                                             Kind::kShift, Kind::kRemoved, Kind::kRetainGrad, Kind::kRetainGrad};
    static const std::vector<Kind> kKindsOfLeaves = {
        Kind::kWatch, Kind::kTriple, Kind::kShift, Kind::kRemoved, Kind::kBeforeAccumulation, Kind::kAfterAccumulation};
    for (int64_t i = choose_.below(3); i >= 0; --i) {
      Hook hook{.target = choose_.one_of(kTargets), .when = choose_.one_of(kTimes)};
      if (hook.target == Target::kOutput && hook.when == When::kBeforeCall) hook.when = When::kAfterCall;
      hook.kind = choose_.one_of(hook.target == Target::kLeaf ? kKindsOfLeaves : kKinds);
      const size_t count = hook.target == Target::kOutput     ? program_.outputs.size()
                           : hook.target == Target::kArgument ? program_.arguments.size()
                                                              : program_.leaves.size() + program_.captured.size();
      hook.index = static_cast<int>(choose_.below(static_cast<int64_t>(count)));
      program_.hooks.push_back(hook);
    }
  }

  bool runs(int call) const {
    try {
      return observe_eager(program_, call).error.empty();
    } catch (const std::exception&) {
      return false;
    }
  }

  bool is_worth_running() {
    try {
      const auto seen = observe_eager(program_, 0);
      if (!seen.error.empty()) return choose_.chance(0.1);
      return is_tame(seen);
    } catch (const std::exception&) {
      return false;
    }
  }

  uint64_t seed_;
  Chooser choose_;
  std::set<Topic> topics_;
  Program program_;
  bool no_grad_ = false;
  bool sets_default_dtype_ = false;
  std::optional<at::ScalarType> default_dtype_;
  bool failed_ = false;
  bool in_body_ = false;
  size_t num_inputs_ = 0;
  size_t num_variables_ = 0;
};

}  // namespace

Program generate(uint64_t seed, Topic topic) { return Generator(seed, topic).generate(); }

}  // namespace diptych::fuzz
