#include "fuzz/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "fuzz/operators.h"
#include "testing/rounding.h"

namespace diptych::fuzz {

using namespace detail;
namespace {

void define(Tensors& variables, int id, at::Tensor tensor) {
  if (variables.size() <= static_cast<size_t>(id)) variables.resize(id + 1);
  variables[id] = std::move(tensor);
}

at::Tensor numbers_for(const Leaf& leaf, const std::vector<int64_t>& sizes, at::Generator& generator) {
  const auto options = torch::dtype(leaf.dtype);
  if (c10::isIntegralType(leaf.dtype, /*includeBool=*/false)) return torch::randint(-3, 6, sizes, generator, options);
  if (leaf.dtype == at::kBool) return torch::randint(0, 2, sizes, generator, torch::kLong).to(at::kBool);
  if (at::isComplexType(leaf.dtype)) {
    const Leaf part{.dtype = c10::toRealValueType(leaf.dtype)};
    const at::Tensor real = numbers_for(part, sizes, generator);
    return at::complex(real, numbers_for(part, sizes, generator));
  }
  // Sixteenths: sums and products of few of them are exact, whatever their order.
  return torch::randint(-32, 33, sizes, generator, torch::kLong).to(leaf.dtype).div(16);
}

// Conjugates and negatives that nobody has computed.
at::Tensor lazy(const at::Tensor& tensor) { return tensor.is_complex() ? tensor.conj() : at::_neg_view(tensor); }

}  // namespace

const std::map<std::string, Topic>& topics() {
  static const std::map<std::string, Topic> kTopics = {
      {"default-dtypes", Topic::kDefaultDtypes}, {"conjugates", Topic::kConjugates}, {"hooks", Topic::kHooks}};
  return kTopics;
}

void run(const Statement& statement, Tensors& variables) {
  Tensors arguments;
  for (const int id : statement.args) {
    if (static_cast<size_t>(id) >= variables.size() || !variables[id].defined()) {
      throw InvalidProgram("variable " + std::to_string(id) + " is not defined");
    }
    arguments.push_back(variables[id]);
  }
  const at::AutoGradMode mode(!statement.no_grad && c10::GradMode::is_enabled());
  std::optional<DefaultDtypeGuard> guard;
  if (statement.default_dtype) guard.emplace(*statement.default_dtype);
  Tensors results = operator_named(statement.op).run(arguments, statement);
  if (results.size() < statement.results.size()) throw InvalidProgram("fewer results than variables");
  for (size_t i = 0; i < statement.results.size(); ++i) define(variables, statement.results[i], std::move(results[i]));
}

Tensors run_body(const Program& program, const Tensors& arguments, const Tensors& captured) {
  Tensors variables = arguments;
  variables.insert(variables.end(), captured.begin(), captured.end());
  for (const Statement& statement : program.body) run(statement, variables);
  Tensors outputs;
  for (const int id : program.outputs) {
    if (static_cast<size_t>(id) >= variables.size()) throw InvalidProgram("output is not defined");
    outputs.push_back(variables[id]);
  }
  return outputs;
}

namespace {
// Moves floats by at most a unit in their last place.
void shake(at::Tensor& tensor, int way) {
  if (tensor.is_complex()) {
    at::Tensor parts = at::view_as_real(tensor.resolve_conj());
    shake(parts, way);
    tensor.copy_(at::view_as_complex(parts));
  }
  if (!at::isFloatingType(tensor.scalar_type())) return;
  const double unit = testing::unit_of(tensor.scalar_type());
  const at::Tensor places = at::arange(tensor.numel(), at::kDouble).reshape(tensor.sizes());
  tensor.mul_(places.mul(0.7 * way).add(way).cos().mul(unit).add(1).to(tensor.scalar_type()));
}
}  // namespace

at::Tensor make_leaf(const Leaf& leaf, uint64_t number, int64_t three) {
  const torch::NoGradGuard guard;
  at::Generator generator = at::detail::createCPUGenerator(number);
  std::vector<int64_t> sizes = leaf.sizes;
  std::replace(sizes.begin(), sizes.end(), int64_t{3}, three);
  at::Tensor tensor;
  switch (leaf.layout) {
    case Leaf::Layout::kContiguous:
      tensor = numbers_for(leaf, sizes, generator);
      break;
    case Leaf::Layout::kLazy:
      tensor = lazy(numbers_for(leaf, sizes, generator)).detach();
      break;
    case Leaf::Layout::kTransposed:
    case Leaf::Layout::kLazyTransposed: {
      std::reverse(sizes.begin(), sizes.end());
      tensor = numbers_for(leaf, sizes, generator);
      std::vector<int64_t> order(sizes.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(order.size() - 1 - i);
      tensor = tensor.permute(order).detach();
      if (leaf.layout == Leaf::Layout::kLazyTransposed) tensor = lazy(tensor).detach();
      break;
    }
    case Leaf::Layout::kSliced: {
      sizes.push_back(2);
      tensor = numbers_for(leaf, sizes, generator).select(-1, 1).detach();
      break;
    }
  }
  if (leaf.shaken != 0) shake(tensor, leaf.shaken);
  return tensor.set_requires_grad(leaf.requires_grad);
}

int64_t three_in(const Program& program, int call) {
  constexpr std::array<int64_t, 6> kSizes{3, 5, 7, 4, 11, 2};
  if (program.dynamic) return kSizes[static_cast<size_t>(call) % kSizes.size()];
  return program.new_sizes && call + 1 == program.calls ? 5 : 3;
}

Call make_call(const Program& program, const Tensors& captured, int number) {
  Call call;
  for (size_t i = 0; i < program.leaves.size(); ++i) {
    call.leaves.push_back(
        make_leaf(program.leaves[i], program.seed * 31 + number * 977 + i, three_in(program, number)));
  }
  Tensors variables = call.leaves;
  for (const Statement& statement : program.setup) run(statement, variables);
  for (const int id : program.arguments) call.arguments.push_back(id < 0 ? captured.at(-1 - id) : variables.at(id));
  return call;
}

Tensors make_captured(const Program& program) {
  Tensors result;
  for (size_t i = 0; i < program.captured.size(); ++i) {
    result.push_back(make_leaf(program.captured[i], program.seed * 37 + 5000 + i));
  }
  return result;
}

namespace {

using Namer = std::function<std::string(int)>;

// "args", "ints", "0", "i0", "n0"; other braces are text.
bool is_hole(const std::string& hole) {
  if (hole == "args" || hole == "ints") return true;
  return !hole.empty() && std::isdigit(hole.back()) != 0 &&
         (hole.size() == 1 || (hole.size() == 2 && (hole[0] == 'i' || hole[0] == 'n')));
}

std::string expand_text(const Statement& statement, const Namer& name) {
  std::vector<std::string> args;
  for (const int id : statement.args) args.push_back(name(id));
  const std::string form = operator_named(statement.op).text;
  std::string text;
  for (size_t i = 0; i < form.size(); ++i) {
    const size_t end = form[i] == '{' ? form.find('}', i) : std::string::npos;
    const std::string hole = end == std::string::npos ? "" : form.substr(i + 1, end - i - 1);
    if (!is_hole(hole)) {
      text += form[i];
      continue;
    }
    if (hole == "args")
      text += fmt::format("{}", fmt::join(args, ", "));
    else if (hole == "ints")
      text += fmt::format("{{{}}}", fmt::join(statement.ints, ", "));
    else if (hole[0] == 'i')
      text += std::to_string(statement.ints.at(std::stoi(hole.substr(1))));
    else if (hole[0] == 'n')
      text += fmt::format("{}", statement.numbers.at(std::stoi(hole.substr(1))));
    else
      text += args.at(std::stoi(hole));
    i = end;
  }
  return text;
}

std::string line(const Statement& statement, const Namer& name) {
  std::vector<std::string> results;
  for (const int id : statement.results) results.push_back(name(id));
  std::string text = expand_text(statement, name);
  if (results.size() == 1) text = fmt::format("auto {} = {}", results[0], text);
  if (results.size() > 1) text = fmt::format("auto [{}] = {}", fmt::join(results, ", "), text);
  std::string guards = statement.no_grad ? "NoGradGuard g; " : "";
  if (statement.default_dtype)
    guards += fmt::format("DefaultDtypeGuard d({}); ", c10::toString(*statement.default_dtype));
  return guards.empty() ? text + ";\n" : fmt::format("{{ {}{}; }}\n", guards, text);
}

std::string to_string(const Leaf& leaf) {
  static constexpr std::array<const char*, 5> kLayouts = {"", ", transposed", ", sliced", ", lazy",
                                                          ", transposed and lazy"};
  return fmt::format("{}[{}]{}{}", c10::toString(leaf.dtype), fmt::join(leaf.sizes, ","),
                     leaf.requires_grad ? ", requires grad" : "", kLayouts[static_cast<size_t>(leaf.layout)]);
}

std::string to_string(const Loop& loop) {
  static constexpr std::array<const char*, 5> kKinds = {"", "scan", "map", "while_loop", "cond"};
  if (loop.kind == Loop::Kind::kNone) return "";
  const auto name = [](Loop::Kind kind) { return kKinds[static_cast<size_t>(kind)]; };
  std::string text = fmt::format("f is the body of a {}{} of {} steps: {} carries, {} slices, {}", name(loop.kind),
                                 loop.reverse ? " in reverse" : "", loop.length, loop.carries, loop.slices,
                                 loop.clones ? "both cloned first" : "as they are");
  if (loop.inner != Loop::Kind::kNone) text += fmt::format("; in each step a {} of two steps", name(loop.inner));
  return text + "\n";
}

std::string to_string(const DefaultDtype& other) {
  static constexpr std::array<const char*, 3> kScopes = {"in calls", "in calls 1, 3, ...", "in calls and backwards"};
  if (other.dtype == at::kFloat) return "";
  return fmt::format(", default dtype {} {}", c10::toString(other.dtype), kScopes[static_cast<size_t>(other.scope)]);
}

std::string to_string(const Hook& hook) {
  static constexpr std::array<const char*, 3> kTargets = {"outputs", "arguments", "leaves and captured tensors"};
  static constexpr std::array<const char*, 3> kTimes = {"before the call", "after the call", "after the edit"};
  static constexpr std::array<const char*, 7> kKinds = {"register_hook that keeps the gradient",
                                                        "register_hook of g * 3",
                                                        "register_hook of g + 1",
                                                        "register_hook of g * 3, and remove_hook",
                                                        "retain_grad",
                                                        "add_pre_hook of grads * 3 on its AccumulateGrad",
                                                        "add_post_hook on its AccumulateGrad that keeps the gradient"};
  return fmt::format("{}, on number {} of the {}: {}\n", kTimes[static_cast<size_t>(hook.when)], hook.index,
                     kTargets[static_cast<size_t>(hook.target)], kKinds[static_cast<size_t>(hook.kind)]);
}

std::string after_call(const Program& program) {
  static constexpr std::array<const char*, 7> kModes = {
      "no backward",
      "backward",
      "backward twice with retain_graph",
      "backward of each output in turn with retain_graph",
      "autograd::grad of the leaves",
      "autograd::grad with create_graph, and grad of the gradients' squares",
      "backward of each output in turn"};
  static constexpr std::array<const char*, 5> kTangents = {"none", "dense", "expanded", "transposed", "sliced"};
  std::string text;
  if (program.edit.target != Edit::Target::kNone) {
    text += fmt::format("then {}{}[{}].mul_(2)\n", program.edit.no_grad ? "without grad " : "",
                        program.edit.target == Edit::Target::kOutput ? "outputs" : "arguments", program.edit.index);
  }
  for (const Hook& hook : program.hooks) text += to_string(hook);
  std::vector<std::string> tangents;
  for (const Tangent tangent : program.backward.tangents)
    tangents.emplace_back(kTangents[static_cast<size_t>(tangent)]);
  text += fmt::format("then {}", kModes[static_cast<size_t>(program.backward.mode)]);
  if (program.backward.mode != Backward::Mode::kNone) {
    text += fmt::format("; tangents: {}{}", fmt::join(tangents, ", "),
                        program.backward.from_inputs ? "; and of arguments that are no leaves" : "");
  }
  return text + "\n";
}

bool is_used(const Program& program, int leaf) {
  const auto has = [leaf](const std::vector<int>& ids) { return std::find(ids.begin(), ids.end(), leaf) != ids.end(); };
  return has(program.arguments) || std::any_of(program.setup.begin(), program.setup.end(),
                                               [&](const Statement& statement) { return has(statement.args); });
}

}  // namespace

std::string to_string(const Program& program) {
  const int num_arguments = static_cast<int>(program.arguments.size());
  const int num_inputs = num_arguments + static_cast<int>(program.captured.size());
  const Namer outer = [&](int id) {
    if (id < 0) return fmt::format("c{}", -1 - id);
    return fmt::format("{}{}", id < static_cast<int>(program.leaves.size()) ? "leaf" : "s", id);
  };
  const Namer inner = [&](int id) {
    if (id < num_arguments) return fmt::format("a{}", id);
    return id < num_inputs ? fmt::format("c{}", id - num_arguments) : fmt::format("v{}", id);
  };
  std::string text;
  for (size_t i = 0; i < program.leaves.size(); ++i) {
    if (is_used(program, static_cast<int>(i))) text += fmt::format("leaf{}: {}\n", i, to_string(program.leaves[i]));
  }
  for (size_t i = 0; i < program.captured.size(); ++i)
    text += fmt::format("captured c{}: {}\n", i, to_string(program.captured[i]));
  for (const Statement& statement : program.setup) text += line(statement, outer);
  std::vector<std::string> passed;
  std::vector<std::string> parameters;
  std::vector<std::string> returned;
  for (const int id : program.arguments) passed.push_back(outer(id));
  for (int i = 0; i < num_arguments; ++i) parameters.push_back(inner(i));
  for (const int id : program.outputs) returned.push_back(inner(id));
  text += fmt::format("f = [&]({}) {{\n", fmt::join(parameters, ", "));
  for (const Statement& statement : program.body) text += "  " + line(statement, inner);
  text += fmt::format("  return {{{}}};\n}}\n", fmt::join(returned, ", "));
  text += to_string(program.loop);
  std::vector<int64_t> threes;
  for (int call = 0; call < program.calls; ++call) threes.push_back(three_in(program, call));
  text += fmt::format("{}f({}), {} calls, in which sizes 3 are {}, partition {}{}{}, backend {}{}\n",
                      program.called_without_grad ? "without grad " : "", fmt::join(passed, ", "), program.calls,
                      fmt::join(threes, ", "), program.partition, program.dynamic ? ", dynamic" : "",
                      program.captures_backward ? ", backward captured" : "", program.backend,
                      to_string(program.default_dtype));
  return text + after_call(program);
}

}  // namespace diptych::fuzz
