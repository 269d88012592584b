#include "hops/generic_set.h"

namespace diptych::testing {

using namespace detail;
namespace {

StepResult split_and(const LoopFunction& run, const Case& loop, const Tensors& inputs) {
  const auto slices_begin = inputs.begin() + static_cast<int64_t>(loop.num_carries);
  const auto captured_begin = slices_begin + static_cast<int64_t>(loop.num_slices);
  const Tensors captured(captured_begin, inputs.end());
  const Step step = [&](const Tensors& carry, const Tensors& slices) { return loop.step(carry, slices, captured); };
  return run(step, Tensors(inputs.begin(), slices_begin), Tensors(slices_begin, captured_begin), loop.length);
}

Tensors contiguous(Tensors tensors) {
  for (at::Tensor& tensor : tensors) tensor = tensor.contiguous();
  return tensors;
}

bool share(const at::Tensor& a, const at::Tensor& b) { return a.storage().is_alias_of(b.storage()); }

// An operator's results share memory with nothing.
Tensors owned(Tensors results, const Tensors& operands) {
  for (size_t i = 0; i < results.size(); ++i) {
    const auto is_shared = [&](const at::Tensor& other) { return share(results[i], other); };
    const bool copies = results[i].is_view() || !results[i].is_contiguous() ||
                        std::any_of(operands.begin(), operands.end(), is_shared) ||
                        std::any_of(results.begin(), results.begin() + static_cast<int64_t>(i), is_shared);
    if (copies) results[i] = results[i].clone(at::MemoryFormat::Contiguous);
  }
  return results;
}

struct Gradients {
  Tensors outputs;
  Tensors tangents;  // of the outputs that require grad
  Tensors of_inputs;
};

Gradients gradients_in_eager(const Function& function, const Tensors& inputs) {
  Gradients found;
  found.outputs = function(inputs);
  Tensors roots, wanted;
  for (const at::Tensor& output : found.outputs) {
    if (!output.requires_grad()) continue;
    roots.push_back(output);
    found.tangents.push_back(output.detach().to(torch::kFloat64).mul(1.7).add(0.3).cos().to(output.scalar_type()));
  }
  for (const at::Tensor& input : inputs) {
    if (input.requires_grad()) wanted.push_back(input);
  }
  if (roots.empty() || wanted.empty()) return found;
  const Tensors gradients = torch::autograd::grad(roots, wanted, found.tangents, {}, false, /*allow_unused=*/true);
  size_t next = 0;
  for (const at::Tensor& input : inputs) {
    found.of_inputs.push_back(input.requires_grad() ? gradients[next++] : at::Tensor());
  }
  return found;
}

// Values alone, and gradients where eager has some.
void expect_values_as(const Subject& subject, const Case& loop) {
  const auto gradients = [&](const Function& function) {
    const Tensors inputs = loop.inputs();
    Tensors found = function(inputs);
    for (const at::Tensor& output : Tensors(found)) {
      if (output.requires_grad()) output.square().sum().backward({}, /*retain_graph=*/true);
    }
    for (const at::Tensor& input : inputs) {
      found.push_back(input.grad().defined() ? input.grad() : at::zeros_like(input));
    }
    return found;
  };
  const Tensors expected = gradients(loop.written_out_for(subject));
  const Tensors got = gradients(callers()[1].wrap(loop.run_by(subject)));
  EXPECT_TRUE(same_tensors(got, expected, within(loop.tolerance)));
}

Tensors first(const Tensors& tensors, size_t count) {
  return {tensors.begin(), tensors.begin() + static_cast<int64_t>(count)};
}

// The bare graphs, without autograd.
void expect_pair_as(const Subject& subject, const Case& loop) {
  torch::manual_seed(11);
  const Gradients expected = gradients_in_eager(loop.written_out_for(subject), loop.inputs());
  const Pair pair = capture(loop.run_by(subject), loop.inputs());
  torch::manual_seed(11);
  const auto forward = pair.forward_call(loop.inputs());
  ASSERT_GE(forward.outputs.size(), expected.outputs.size());  // new values of buffers come last
  EXPECT_TRUE(same_tensors(first(forward.outputs, expected.outputs.size()), expected.outputs, within(loop.tolerance)));
  if (expected.of_inputs.empty()) return;
  const Tensors got = pair.backward_call(forward.residuals, expected.tangents);
  ASSERT_GE(got.size(), expected.of_inputs.size());
  EXPECT_TRUE(same_tensors(first(got, expected.of_inputs.size()), expected.of_inputs, within(loop.tolerance)))
      << "gradients";
}

}  // namespace

Function Case::run_by(const Subject& subject) const {
  return [loop = *this, run = subject.run, captures = subject.captures](const Tensors& inputs) {
    Tensors results = joined(split_and(run, loop, inputs));
    if (!captures) results = owned(std::move(results), inputs);
    return loop.any_layout ? contiguous(std::move(results)) : results;
  };
}

Function Case::written_out_for(const Subject& subject) const {
  return [loop = *this, run = subject.reference](const Tensors& inputs) {
    return owned(joined(split_and(run, loop, inputs)), inputs);
  };
}

void expect_as_loop(const Subject& subject, const Case& loop) {
  const Inputs inputs{loop.leaves, loop.derive};
  const Function expected = loop.written_out_for(subject);
  ASSERT_FALSE(expected(loop.inputs()).empty()) << "the check says nothing about this operator";
  {
    SCOPED_TRACE("in eager");
    expect_alike(inputs, expected, loop.run_by(subject), {.tolerance = loop.tolerance, .calls = 1});
  }
  if (loop.depends_on_length && subject.has_unknown_length) return expect_values_as(subject, loop);
  {
    SCOPED_TRACE("in an aot_function");
    expect_compiled_as(inputs, expected, loop.run_by(subject), {.tolerance = loop.tolerance});
  }
  if (!loop.in_pair) return;
  SCOPED_TRACE("in a captured pair");
  expect_pair_as(subject, loop);
}

Case cell(int64_t length) {
  return {.leaves =
              [=] {
                return Tensors{leaf64({2, 3}), leaf64({length, 2, 3}, 0.3), leaf64({3, 3}, 0.7), leaf64({3, 3}, 1.1)};
              },
          .step = [](const Tensors& carry, const Tensors& slices, const Tensors& captured) -> StepResult {
            const at::Tensor h = torch::tanh(slices[0].mm(captured[0]) + carry[0].mm(captured[1]));
            return {{h}, {h * 2}};
          },
          .length = length};
}

const std::vector<Caller>& callers() {
  static const std::vector<Caller> kBoth{{"in eager", [](const Function& function) { return function; }},
                                         {"in an aot_function", [](const Function& function) -> Function {
                                            return [compiled = aot_function(function)](const Tensors& inputs) {
                                              return compiled(inputs);
                                            };
                                          }}};
  return kBoth;
}

namespace {

class GenericTest : public ::testing::Test {
 public:
  GenericTest(const Subject& subject, const Check& check) : subject_(subject), check_(check) {}
  void TestBody() override { check_.run(subject_); }

 private:
  const Subject& subject_;
  const Check& check_;
};

bool fits(const Subject& subject, const Check& check) {
  return (subject.has_carries || !check.needs_carries) && (subject.has_outputs || !check.needs_outputs) &&
         (subject.has_buffers || !check.needs_buffers) && (subject.is_loop || !check.needs_loop) &&
         (subject.captures || !check.needs_capture);
}

}  // namespace

bool add_generic_set(const Subject& subject, const std::source_location caller) {
  const auto* const kept = new Subject(subject);  // tests run when this has returned
  for (const auto* checks : {&value_checks(), &operand_checks(), &gradient_checks(), &effect_checks(), &random_checks(),
                             &nesting_checks()}) {
    for (const Check& check : *checks) {
      if (!fits(*kept, check)) continue;
      ::testing::RegisterTest(kept->name.c_str(), check.name.c_str(), nullptr, nullptr, caller.file_name(),
                              static_cast<int>(caller.line()),
                              [kept, &check] { return new GenericTest(*kept, check); });
    }
  }
  return true;
}

}  // namespace diptych::testing
