#include "fuzz/shrink.h"

#include <algorithm>

namespace diptych::fuzz {

using namespace detail;
namespace {

using Judge = std::function<bool(const Program&)>;

// Tries a changed copy; keeps it if it still fails.
class Shrinker {
 public:
  Shrinker(Program program, Judge fails) : program_(std::move(program)), fails_(std::move(fails)) {}

  Program run() {
    do {
      progress_ = false;
      drop_outputs();
      drop_statements(&Program::body);
      drop_statements(&Program::setup);
      redirect_arguments();
      drop_arguments();
      simplify();
    } while (progress_);
    return program_;
  }

 private:
  bool attempt(const std::function<void(Program&)>& change) {
    Program changed = program_;
    change(changed);
    if (!fails_(changed)) return false;
    program_ = std::move(changed);
    progress_ = true;
    return true;
  }

  void drop_outputs() {
    for (size_t i = program_.outputs.size(); i-- > 0;) {
      if (program_.outputs.size() == 1) return;
      attempt([i](Program& program) {
        program.outputs.erase(program.outputs.begin() + static_cast<int64_t>(i));
        program.backward.tangents.erase(program.backward.tangents.begin() + static_cast<int64_t>(i));
        if (program.edit.target == Edit::Target::kOutput && program.edit.index > static_cast<int>(i))
          --program.edit.index;
        drop_hooks(program, Hook::Target::kOutput, static_cast<int>(i));
      });
    }
  }

  // Those of what goes go with it.
  static void drop_hooks(Program& program, Hook::Target target, int index) {
    auto& hooks = program.hooks;
    const auto is_of_it = [=](const Hook& hook) { return hook.target == target && hook.index == index; };
    hooks.erase(std::remove_if(hooks.begin(), hooks.end(), is_of_it), hooks.end());
    for (Hook& hook : hooks) hook.index -= hook.target == target && hook.index > index ? 1 : 0;
  }

  static void replace(std::vector<int>& ids, int from, int to) { std::replace(ids.begin(), ids.end(), from, to); }

  // Drops a statement; what it defined becomes one of its arguments, if it is used.
  void drop_statements(std::vector<Statement> Program::*part) {
    const bool is_body = part == &Program::body;
    for (size_t i = (program_.*part).size(); i-- > 0;) {
      const Statement statement = (program_.*part)[i];
      std::vector<int> stand_ins = statement.args;
      stand_ins.push_back(0);
      for (const int stand_in : stand_ins) {
        const bool dropped = attempt([&](Program& program) {
          auto& statements = program.*part;
          statements.erase(statements.begin() + static_cast<int64_t>(i));
          for (const int result : statement.results) {
            for (auto& other : statements) replace(other.args, result, stand_in);
            replace(is_body ? program.outputs : program.arguments, result, stand_in);
          }
        });
        if (dropped) break;
      }
    }
  }

  void redirect_arguments() {
    for (size_t i = 0; i < program_.arguments.size(); ++i) {
      for (int leaf = 0; leaf < static_cast<int>(program_.leaves.size()); ++leaf) {
        if (program_.arguments[i] == leaf) break;
        if (attempt([&](Program& program) { program.arguments[i] = leaf; })) break;
      }
    }
  }

  // The variables of the body above `input` move down by one.
  static void remove_input(Program& program, int input) {
    const auto move = [input](std::vector<int>& ids) {
      for (int& id : ids) {
        if (id == input)
          id = 1 << 20;
        else if (id > input && id < (1 << 20))
          --id;
      }
    };
    for (auto& statement : program.body) {
      move(statement.args);
      move(statement.results);
    }
    move(program.outputs);
  }

  void drop_arguments() {
    for (size_t i = program_.arguments.size(); i-- > 0;) {
      attempt([i](Program& program) {
        program.arguments.erase(program.arguments.begin() + static_cast<int64_t>(i));
        if (program.edit.target == Edit::Target::kArgument && program.edit.index > static_cast<int>(i))
          --program.edit.index;
        drop_hooks(program, Hook::Target::kArgument, static_cast<int>(i));
        remove_input(program, static_cast<int>(i));
      });
    }
    if (program_.captured.empty()) return;
    attempt([](Program& program) {
      program.captured.pop_back();
      drop_hooks(program, Hook::Target::kLeaf, static_cast<int>(program.leaves.size() + program.captured.size()));
      remove_input(program, static_cast<int>(program.arguments.size() + program.captured.size()));
    });
  }

  void simplify() {
    const auto set = [&](auto member, auto value) {
      if (std::invoke(member, program_) != value)
        attempt([&](Program& program) { std::invoke(member, program) = value; });
    };
    set(&Program::partition, std::string("default"));
    set(&Program::new_sizes, false);
    set(&Program::dynamic, false);
    set(&Program::captures_backward, false);
    simplify_loop();
    set(&Program::called_without_grad, false);
    for (int calls = 1; calls < program_.calls; ++calls) {
      if (attempt([calls](Program& program) { program.calls = calls; })) break;
    }
    if (program_.edit.target != Edit::Target::kNone) attempt([](Program& program) { program.edit = {}; });
    for (const auto mode : {Backward::Mode::kNone, Backward::Mode::kOnce}) {
      if (program_.backward.mode == mode) break;
      if (attempt([mode](Program& program) { program.backward.mode = mode; })) break;
    }
    if (program_.backward.from_inputs) attempt([](Program& program) { program.backward.from_inputs = false; });
    for (size_t i = 0; i < program_.backward.tangents.size(); ++i) {
      for (const Tangent tangent : {Tangent::kNone, Tangent::kDense}) {
        if (program_.backward.tangents[i] == tangent) break;
        if (attempt([=](Program& program) { program.backward.tangents[i] = tangent; })) break;
      }
    }
    simplify_leaves(&Program::leaves);
    simplify_leaves(&Program::captured);
    for (size_t i = 0; i < program_.body.size(); ++i) {
      if (program_.body[i].no_grad) attempt([i](Program& program) { program.body[i].no_grad = false; });
      if (program_.body[i].default_dtype) attempt([i](Program& program) { program.body[i].default_dtype.reset(); });
    }
    simplify_topics();
  }

  void simplify_topics() {
    for (size_t i = program_.hooks.size(); i-- > 0;)
      attempt([i](Program& program) { program.hooks.erase(program.hooks.begin() + static_cast<int64_t>(i)); });
    for (size_t i = 0; i < program_.hooks.size(); ++i) {
      for (const auto kind : {Hook::Kind::kWatch, Hook::Kind::kTriple}) {
        if (program_.hooks[i].kind == kind) break;
        if (attempt([=](Program& program) { program.hooks[i].kind = kind; })) break;
      }
    }
    if (program_.default_dtype.dtype == at::kFloat) return;
    if (attempt([](Program& program) { program.default_dtype = {}; })) return;
    if (program_.default_dtype.scope != DefaultDtype::Scope::kCall)
      attempt([](Program& program) { program.default_dtype.scope = DefaultDtype::Scope::kCall; });
    if (program_.default_dtype.dtype != at::kDouble)
      attempt([](Program& program) { program.default_dtype.dtype = at::kDouble; });
  }

  void simplify_loop() {
    const Loop loop = program_.loop;
    if (loop.kind == Loop::Kind::kNone) return;
    if (loop.inner != Loop::Kind::kNone) {
      attempt([](Program& program) { program.loop.inner = Loop::Kind::kNone; });
      attempt([&](Program& program) { std::swap(program.loop.kind, program.loop.inner); }) &&
          attempt([](Program& program) { program.loop.inner = Loop::Kind::kNone; });
    }
    for (int64_t length = 0; length < loop.length; ++length) {
      if (attempt([=](Program& program) { program.loop.length = length; })) break;
    }
    if (loop.reverse) attempt([](Program& program) { program.loop.reverse = false; });
    if (!loop.clones) attempt([](Program& program) { program.loop.clones = true; });
    for (int i = 0; i < loop.carries && i < static_cast<int>(program_.outputs.size()); ++i) {
      if (program_.outputs[i] != i) attempt([i](Program& program) { program.outputs[i] = i; });
    }
    if (loop.slices > 0) attempt([](Program& program) { --program.loop.slices; });
  }

  void simplify_leaves(std::vector<Leaf> Program::*part) {
    for (size_t i = 0; i < (program_.*part).size(); ++i) {
      const Leaf leaf = (program_.*part)[i];
      if (leaf.requires_grad) attempt([=](Program& program) { (program.*part)[i].requires_grad = false; });
      if (leaf.layout != Leaf::Layout::kContiguous)
        attempt([=](Program& program) { (program.*part)[i].layout = Leaf::Layout::kContiguous; });
      if (leaf.dtype == at::kDouble) attempt([=](Program& program) { (program.*part)[i].dtype = at::kFloat; });
      if (leaf.dtype == at::kComplexDouble)
        attempt([=](Program& program) { (program.*part)[i].dtype = at::kComplexFloat; });
      if (leaf.dtype == at::kComplexFloat) attempt([=](Program& program) { (program.*part)[i].dtype = at::kFloat; });
    }
  }

  Program program_;
  Judge fails_;
  bool progress_ = false;
};

}  // namespace

Program shrink(Program program, const Verdict& verdict, const std::function<Verdict(const Program&)>& judge) {
  return Shrinker(std::move(program),
                  [&](const Program& candidate) {
                    const Verdict got = judge(candidate);
                    return got.outcome == verdict.outcome && got.key == verdict.key;
                  })
      .run();
}

}  // namespace diptych::fuzz
