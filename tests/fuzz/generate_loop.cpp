// Making random programs into bodies of loops and branches.
#include <algorithm>
#include <set>

#include "fuzz/check.h"
#include "fuzz/generate.h"
#include "fuzz/operators.h"

namespace diptych::fuzz {
namespace {

class LoopGenerator {
 public:
  LoopGenerator(uint64_t seed, Topic topic) : seed_(seed), topic_(topic), choose_(seed ^ 0x9e3779b97f4a7c15U) {}

  Program generate() {
    for (uint64_t attempt = 0;; ++attempt) {
      program_ = fuzz::generate(seed_ * 1009 + attempt, topic_);
      if ((make() && is_worth_running()) || attempt > 200) return program_;
    }
  }

 private:
  bool make() {
    static const std::vector<Loop::Kind> kKinds = {Loop::Kind::kScan, Loop::Kind::kScan,  Loop::Kind::kScan,
                                                   Loop::Kind::kMap,  Loop::Kind::kWhile, Loop::Kind::kCond,
                                                   Loop::Kind::kCond};
    static const std::vector<Loop::Kind> kInner = {Loop::Kind::kNone, Loop::Kind::kNone,  Loop::Kind::kNone,
                                                   Loop::Kind::kNone, Loop::Kind::kNone,  Loop::Kind::kScan,
                                                   Loop::Kind::kMap,  Loop::Kind::kWhile, Loop::Kind::kCond};
    static const std::vector<int64_t> kLengths = {0, 1, 2, 2, 3, 3, 4};
    Loop& loop = program_.loop;
    loop.kind = choose_.one_of(kKinds);
    loop.inner = choose_.one_of(kInner);
    loop.length = choose_.one_of(kLengths);
    loop.reverse = loop.kind == Loop::Kind::kScan && choose_.chance(0.3);
    loop.clones = choose_.chance(0.8);
    const auto count = static_cast<int64_t>(program_.arguments.size());
    loop.carries = static_cast<int>(choose_.below(std::min<int64_t>(count, 2) + 1));
    loop.slices = static_cast<int>(choose_.below(std::min<int64_t>(count - loop.carries, 2) + 1));
    if (loop.inner == Loop::Kind::kWhile && loop.carries == 0) loop.inner = Loop::Kind::kNone;
    program_.calls = 2;
    make_hooks_linear();
    const auto is_apart = [this](const Statement& one) { return is_another_case(one) || hooks_the_outside(one); };
    return std::none_of(program_.body.begin(), program_.body.end(), is_apart) && choose_outputs();
  }

  // What a body hands out differently: a leaf that it makes, whose gradient nobody can ask for, and a sample's
  // gradient, which eager has as zeros. What it retains belongs to a step. A body in a capture takes a lazy tensor for
  // a computed one, which only a copy tells apart that is made of a lazy one alone,
  // and a carry in one layout, which view_as_complex() may refuse.
  static bool is_another_case(const Statement& statement) {
    static const std::set<std::string> kOthers = {"full_leaf",   "leaf_made_inside", "uniform_",    "bernoulli",
                                                  "retain_grad", "resolve_conj",     "resolve_neg", "view_as_complex"};
    return kOthers.count(statement.op) != 0;
  }

  // A hook on what the body is not given belongs to the trace and not to a step: what C++ does besides operators is
  // done when it is captured (docs/limits.md).
  bool hooks_the_outside(const Statement& statement) const {
    const bool is_hook = operator_named(statement.op).topic == Topic::kHooks;
    const int given = program_.loop.clones ? program_.loop.carries + program_.loop.slices : 0;
    const auto end = static_cast<int>(program_.arguments.size() + program_.captured.size());
    return is_hook && statement.args[0] >= given && statement.args[0] < end;
  }

  // An operator gives zeros where steps leave a gradient out, and a hook must make nothing of zeros.
  void make_hooks_linear() {
    for (Hook& hook : program_.hooks) {
      if (hook.kind == Hook::Kind::kShift) hook.kind = Hook::Kind::kTriple;
    }
    for (Statement& statement : program_.body) {
      if (statement.op == "hook_shift") statement.op = "hook_triple";
    }
  }

  // The next carries are variables like the carries, late ones rather; the rest of the outputs stays.
  bool choose_outputs() {
    Tensors variables;
    try {
      const Tensors captured = make_captured(program_);
      variables = make_call(program_, captured, 0).arguments;
      variables.insert(variables.end(), captured.begin(), captured.end());
      for (const Statement& statement : program_.body) run(statement, variables);
    } catch (const std::exception&) {
      return false;
    }
    choose_.set_variables(variables);
    std::vector<int> outputs;
    for (int i = 0; i < program_.loop.carries; ++i) {
      const at::Tensor carry = variables[i];
      outputs.push_back(choose_.variable([&](const at::Tensor& other) {
        return other.sizes() == carry.sizes() && other.scalar_type() == carry.scalar_type();
      }));
    }
    outputs.insert(outputs.end(), program_.outputs.begin(), program_.outputs.end());
    program_.backward.tangents.insert(program_.backward.tangents.begin(), program_.loop.carries, Tangent::kDense);
    program_.outputs = std::move(outputs);
    return true;
  }

  bool is_worth_running() {
    try {
      const auto seen = observe_eager(program_, 0);
      if (!seen.error.empty()) return choose_.chance(0.05);
      if (program_.new_sizes && !observe_eager(program_, program_.calls - 1).error.empty()) program_.new_sizes = false;
      return !seen.outputs.empty() && is_tame(seen);
    } catch (const std::exception&) {
      return false;
    }
  }

  uint64_t seed_;
  Topic topic_;
  Chooser choose_;
  Program program_;
};

}  // namespace

Program generate_loop(uint64_t seed, Topic topic) { return LoopGenerator(seed, topic).generate(); }

}  // namespace diptych::fuzz
