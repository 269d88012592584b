// The library's operators as subjects of the generic set. A new one is added here, or wherever it lives, in as few
// lines.
#include "hops/subject.h"

namespace diptych::testing {
namespace {

Tensors slices_at(const Tensors& xs, int64_t index) {
  Tensors slices;
  for (const at::Tensor& x : xs) slices.push_back(x[index]);
  return slices;
}

Subject scan_subject(const std::string& name, const ScanOptions& options = {}) {
  const auto with_length = [=](int64_t length) {
    ScanOptions full = options;
    full.length = length;
    return full;
  };
  return {.name = name,
          .run = [=](const Step& step, const Tensors& init, const Tensors& xs,
                     int64_t length) { return scan(step, init, xs, with_length(length)); },
          .reference =
              [=](const Step& step, const Tensors& init, const Tensors& xs, int64_t length) {
                if (length == 0) return written_out(step, init, xs, length);
                return unrolled_scan(step, init, xs, with_length(length));
              },
          .runs_again = options.max_saved_carries.has_value()};
}

// Each step starts with the first carry, which it captures; what it makes of it is given out.
Subject map_subject() {
  const auto of_slice = [](const Step& step, const Tensors& init) {
    return [&step, &init](const Tensors& slices) {
      const StepResult result = step(init, slices);
      return joined(result.first, result.second);
    };
  };
  return {.name = "map",
          .run = [=](const Step& step, const Tensors& init, const Tensors& xs, int64_t) -> StepResult {
            return {{}, map(of_slice(step, init), xs)};
          },
          .reference =
              [=](const Step& step, const Tensors& init, const Tensors& xs, int64_t length) {
                const auto function = of_slice(step, init);
                const Step without_carry = [&](const Tensors&, const Tensors& slices) {
                  return StepResult({}, function(slices));
                };
                return written_out(without_carry, {}, xs, length);
              },
          .has_carries = false};
}

// The step's number is a carry, and slices are taken by it; nothing is given out on the way.
Subject while_subject(const std::string& name, const WhileOptions& options = {}) {
  return {.name = name,
          .run = [=](const Step& step, const Tensors& init, const Tensors& xs, int64_t length) -> StepResult {
            const auto body = [&](const Tensors& carry) {
              const at::Tensor number = carry.back();
              Tensors slices;
              for (const at::Tensor& x : xs) slices.push_back(x.index_select(0, number.reshape({1})).squeeze(0));
              return joined(step({carry.begin(), carry.end() - 1}, slices).first, {number + 1});
            };
            Tensors last = while_loop([&](const Tensors& carry) { return carry.back() < length; }, body,
                                      joined(init, {torch::zeros({}, torch::kLong)}), options);
            last.pop_back();
            return {last, {}};
          },
          .reference = [](const Step& step, const Tensors& init, const Tensors& xs, int64_t length) -> StepResult {
            Tensors carry = init;
            for (int64_t i = 0; i < length; ++i) carry = step(carry, slices_at(xs, i)).first;
            return {carry, {}};
          },
          .has_outputs = false,
          .runs_again = true,
          .has_unknown_length = true,
          .keeps_draws_in_captures = false};
}

// The other branch: the same with other numbers, so that taking the wrong one shows.
StepResult halved(const Step& step, const Tensors& carry, const Tensors& slices) {
  StepResult result = step(carry, slices);
  for (Tensors* part : {&result.first, &result.second}) {
    for (at::Tensor& tensor : *part) {
      if (tensor.is_floating_point()) tensor = tensor * 0.5;
    }
  }
  return result;
}

// One cond per slice; every third one takes the false branch.
Subject cond_subject() {
  const auto is_chosen = [](int64_t number) { return number % 3 != 1; };
  return {.name = "cond",
          .run = called_per_slice(
              [=](const Step& step, const Tensors& carry, const Tensors& slices, int64_t number) -> StepResult {
                const at::Tensor predicate = torch::full({}, is_chosen(number), torch::kBool);
                return cond(
                    predicate, [&](const Tensors& c, const Tensors& x) { return step(c, x); },
                    [&](const Tensors& c, const Tensors& x) { return halved(step, c, x); }, carry, slices);
              }),
          .reference = called_per_slice(
              [=](const Step& step, const Tensors& carry, const Tensors& slices, int64_t number) -> StepResult {
                return is_chosen(number) ? step(carry, slices) : halved(step, carry, slices);
              }),
          .is_loop = false};
}

// Each step on its own; inside a capture it is a region of the graph.
Subject checkpoint_subject() {
  return {.name = "checkpoint",
          .run = called_per_slice([](const Step& step, const Tensors& carry, const Tensors& slices, int64_t) {
            return checkpoint(step)(carry, slices);
          }),
          .reference = written_out,
          .is_loop = false,
          .captures = false,
          .runs_again = true};
}

// What stacks look like that have no rows.
Tensors empty_stacks(const Step& step, const Tensors& init, const Tensors& xs) {
  const torch::NoGradGuard no_grad;
  Tensors slices;
  for (const at::Tensor& x : xs) slices.push_back(x.new_zeros(x.sizes().slice(1)));
  Tensors stacks;
  for (const at::Tensor& row : step(init, slices).second) stacks.push_back(row.unsqueeze(0).narrow(0, 0, 0).clone());
  return stacks;
}

}  // namespace

StepResult written_out(const Step& step, const Tensors& init, const Tensors& xs, int64_t length) {
  if (length == 0) return {init, empty_stacks(step, init, xs)};
  return unrolled_scan(step, init, xs, {.length = length});
}

LoopFunction called_per_slice(const CallFunction& call) {
  return [=](const Step& step, const Tensors& init, const Tensors& xs, int64_t length) {
    int64_t number = 0;
    const Step numbered = [&](const Tensors& carry, const Tensors& slices) {
      return call(step, carry, slices, number++);
    };
    return written_out(numbered, init, xs, length);
  };
}

const std::vector<Subject>& library_subjects() {
  static const std::vector<Subject> kAll{scan_subject("scan"),
                                         map_subject(),
                                         while_subject("while_loop"),
                                         cond_subject(),
                                         scan_subject("reverse_scan", {.reverse = true}),
                                         scan_subject("unrolled_scan", {.unroll = 2}),
                                         scan_subject("checkpointed_scan", {.max_saved_carries = 2, .segment = 2}),
                                         while_subject("checkpointed_while_loop", {.checkpoint_every = 2}),
                                         checkpoint_subject()};
  return kAll;
}

}  // namespace diptych::testing
