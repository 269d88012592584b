// The scan suite: an RNN of 16 to 4,096 steps, forward and backward, by dp::scan and by a loop in eager.
#include <array>
#include <string>

#include "diptych/diptych.h"
#include "gradient_case.h"
#include "rnn.h"
#include "suites.h"

namespace diptych::bench {
namespace {

constexpr std::array<int64_t, 5> kLengths{16, 64, 256, 1024, 4096};
constexpr int64_t kLongestChecked = 64;

RnnShape shape_of(int64_t length) { return {length, /*batch=*/32, /*hidden=*/256}; }
Model model_of(int64_t length, Fill fill = Fill::kValues) { return rnn(shape_of(length), States::kAll, fill); }

at::Tensor by_scan(const Tensors& params) { return rnn_by_scan(params, params.back(), States::kAll); }
at::Tensor in_eager(const Model& model) { return rnn_in_eager(model.params, model.params.back(), States::kAll); }

/// Makes both graphs of a scan, from the function to programs that are ready to run.
Reply run_capture(int64_t length, int repeat) {
  const Model model = model_of(length, Fill::kUntouched);
  size_t nodes = 0;
  auto times = timed(repeat, [&] {
    const Pair pair = capture_with(
        {.name = "rnn"}, [](const Tensors& params) { return by_scan(params); }, model.params);
    for (const auto* program : {&pair.forward_program, &pair.backward_program}) (*program)->graph();  // makes it
    nodes = pair.forward.nodes().size() + pair.backward.nodes().size();
  });
  return {std::move(times), {{"joint_nodes", nodes}}};
}

/// Counts what the forward keeps for the backward, beside the least that is needed: the states.
Reply run_memory(int64_t length) {
  const Model model = model_of(length, Fill::kUntouched);
  const RnnShape shape = shape_of(length);
  Reply reply;
  reply.facts = predicted({{"states", length * shape.batch * shape.hidden * int64_t{sizeof(float)}}});
  reply.times_ns.push_back(time_ns([&] {
    const Pair pair = capture_with(
        {.name = "rnn"}, [](const Tensors& params) { return by_scan(params); }, model.params);
    reply.facts["new_bytes"] = residual_bytes(pair.split);
  }));
  return reply;
}

GradientCase time_case(int64_t length, GradientCase::Loss loss, bool checked) {
  GradientCase::Parts parts{"scan/time/" + std::to_string(length), [length] { return model_of(length); },
                            std::move(loss)};
  if (checked) parts.eager = in_eager;
  return GradientCase(std::move(parts));
}

}  // namespace

void add_scan_cases(Cases& cases) {
  for (const int64_t length : kLengths) {
    const std::string name = std::to_string(length);
    const auto compiled = aot_function([](const Tensors& params) { return by_scan(params); }, {.name = "rnn"});
    const auto loss = [compiled](const Model& model) { return compiled(model.params); };
    cases["scan/time/" + name] = time_case(length, loss, length <= kLongestChecked);
    cases["scan/capture/" + name] = [length](int repeat) { return run_capture(length, repeat); };
    cases["scan/memory/" + name] = [length](int) { return run_memory(length); };
  }
}

void add_eager_scan_cases(Cases& cases) {
  for (const int64_t length : kLengths) {
    cases["scan/time/" + std::to_string(length)] = time_case(length, in_eager, /*checked=*/false);
  }
}

}  // namespace diptych::bench
