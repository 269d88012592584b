#include "fuzz/loops.h"

#include <algorithm>

#include "diptych/diptych.h"

namespace diptych::fuzz {
namespace {

using StepResult = std::pair<Tensors, Tensors>;
using Step = std::function<StepResult(const Tensors& carries, const Tensors& slices)>;

/// A loop without what runs it.
struct Operands {
  Tensors carries;
  Tensors xs;
  int64_t length;
  bool reverse;
};

Tensors joined(Tensors first, const Tensors& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Tensors joined(const StepResult& result) { return joined(result.first, result.second); }

// One slice unlike the other.
at::Tensor variation(const at::Tensor& tensor, int64_t index) {
  if (is_differentiable(tensor.scalar_type())) return tensor * (1 - 0.25 * static_cast<double>(index));
  return tensor.scalar_type() == at::kBool ? tensor.logical_xor(torch::tensor(index % 2 == 1)) : tensor + index;
}

at::Tensor slices_of(const at::Tensor& tensor, int64_t length) {
  Tensors rows;
  for (int64_t i = 0; i < std::max<int64_t>(length, 1); ++i) rows.push_back(variation(tensor, i));
  return at::stack(rows).narrow(0, 0, length);
}

Tensors slices_at(const Tensors& xs, int64_t index) {
  Tensors slices;
  for (const at::Tensor& x : xs) slices.push_back(x[index]);
  return slices;
}

at::Tensor predicate(const Operands& operands) {
  for (const at::Tensor& tensor : joined(operands.carries, operands.xs)) {
    if (tensor.is_floating_point()) return tensor.detach().sum() > 0.25;
  }
  return torch::full({}, true, torch::kBool);
}

// The other branch: what it returns is told from the first one's.
Tensors halved(Tensors results) {
  for (at::Tensor& tensor : results) tensor = is_differentiable(tensor.scalar_type()) ? tensor * 0.5 : tensor.clone();
  return results;
}

// The outputs are stacked as they are when a step returns them. The carries are the tensors themselves: a later step
// changes what it gets, which may be init. A loop's results are the caller's own.
StepResult with_own_outputs(StepResult result) {
  for (at::Tensor& tensor : result.second) tensor = tensor.clone();
  return result;
}

StepResult written_out_scan(const Step& step, const Operands& operands) {
  StepResult found{operands.carries, {}};
  std::vector<Tensors> rows(operands.length);
  for (int64_t i = 0; i < operands.length; ++i) {
    const int64_t at = operands.reverse ? operands.length - 1 - i : i;
    std::tie(found.first, rows[at]) = with_own_outputs(step(found.first, slices_at(operands.xs, at)));
  }
  for (size_t k = 0; !rows.empty() && k < rows[0].size(); ++k) {
    Tensors column;
    for (const Tensors& row : rows) column.push_back(row[k]);
    found.second.push_back(at::stack(column));
  }
  for (at::Tensor& carry : found.first) carry = carry.clone();
  return found;
}

Step with_no_carry(const Step& step, const Tensors& carries) {
  return [&](const Tensors&, const Tensors& slices) { return StepResult({}, joined(step(carries, slices))); };
}

StepResult written_out(Loop::Kind kind, const Step& step, const Operands& operands) {
  switch (kind) {
    case Loop::Kind::kMap:
      return written_out_scan(with_no_carry(step, operands.carries), {{}, operands.xs, operands.length, false});
    case Loop::Kind::kWhile:
      return {written_out_scan(step, {operands.carries, operands.xs, operands.length, false}).first, {}};
    case Loop::Kind::kCond: {
      const bool is_true = predicate(operands).item<bool>();  // of the operands as they are given
      const StepResult result = step(operands.carries, slices_at(operands.xs, 0));
      if (is_true) return result;
      return {halved(result.first), halved(result.second)};
    }
    default:
      return written_out_scan(step, operands);
  }
}

Tensors run_while(const Step& step, const Operands& operands) {
  const auto body = [&](const Tensors& carry) {
    const at::Tensor number = carry.back();
    Tensors slices;
    for (const at::Tensor& x : operands.xs) slices.push_back(x.index_select(0, number.reshape({1})).squeeze(0));
    return joined(step({carry.begin(), carry.end() - 1}, slices).first, {number + 1});
  };
  Tensors last = while_loop([&](const Tensors& carry) { return carry.back() < operands.length; }, body,
                            joined(operands.carries, {torch::zeros({}, torch::kLong)}));
  last.pop_back();
  return last;
}

StepResult by_operator(Loop::Kind kind, const Step& step, const Operands& operands) {
  switch (kind) {
    case Loop::Kind::kMap:
      return {{}, map([&](const Tensors& x) { return joined(step(operands.carries, x)); }, operands.xs)};
    case Loop::Kind::kWhile:
      return {run_while(step, operands), {}};
    case Loop::Kind::kCond:
      return cond(
          predicate(operands), step,
          [&](const Tensors& c, const Tensors& x) {
            const StepResult result = step(c, x);
            return StepResult(halved(result.first), halved(result.second));
          },
          operands.carries, slices_at(operands.xs, 0));
    default:
      return scan(step, operands.carries, operands.xs, {.reverse = operands.reverse, .length = operands.length});
  }
}

StepResult run(Loop::Kind kind, Way way, const Step& step, const Operands& operands) {
  return way == Way::kByOperator ? by_operator(kind, step, operands) : written_out(kind, step, operands);
}

// Carries of one step and of the next must be alike; the operators say so at length, the loop written out does not.
StepResult checked(Tensors outputs, const Tensors& carries) {
  if (outputs.size() < carries.size()) throw InvalidProgram("fewer outputs than carries");
  for (size_t i = 0; i < carries.size(); ++i) {
    if (outputs[i].sizes() != carries[i].sizes() || outputs[i].scalar_type() != carries[i].scalar_type()) {
      throw InvalidProgram("a carry changes its sizes or dtype");
    }
  }
  const auto end = outputs.begin() + static_cast<int64_t>(carries.size());
  return {Tensors(outputs.begin(), end), Tensors(end, outputs.end())};
}

// An operator's results share memory with nothing, and a hook on one of them sees nothing of another's gradient.
Tensors owned(Tensors results) {
  for (at::Tensor& result : results) result = result.clone(at::MemoryFormat::Contiguous);
  return results;
}

// A loop in each step: what a map gives for a carry is its last row.
StepResult run_inner(Loop::Kind kind, Way way, const Step& step, const Tensors& carries, const Tensors& slices) {
  Operands operands{carries, {}, 2, false};
  for (const at::Tensor& slice : slices) operands.xs.push_back(slices_of(slice, 2));
  StepResult found = run(kind, way, step, operands);
  if (kind != Loop::Kind::kMap) return found;
  for (size_t i = 0; i < carries.size(); ++i) found.first.push_back(found.second.at(i)[1]);
  found.second.erase(found.second.begin(), found.second.begin() + static_cast<int64_t>(carries.size()));
  return found;
}

void check_form(const Loop& loop, const Tensors& arguments) {
  const auto needs_slices = [](Loop::Kind kind) { return kind == Loop::Kind::kMap; };
  if (static_cast<size_t>(loop.carries + loop.slices) > arguments.size()) throw InvalidProgram("too few arguments");
  if (loop.slices == 0 && (needs_slices(loop.kind) || needs_slices(loop.inner))) throw InvalidProgram("no slices");
  if (loop.kind == Loop::Kind::kWhile && loop.carries == 0) throw InvalidProgram("no carries");
}

}  // namespace

Tensors run_function(const Program& program, const Tensors& arguments, const Tensors& captured, Way way) {
  const Loop& loop = program.loop;
  if (loop.kind == Loop::Kind::kNone) return run_body(program, arguments, captured);
  check_form(loop, arguments);
  const auto slices_begin = arguments.begin() + loop.carries;
  const auto rest = slices_begin + loop.slices;
  const Step innermost = [&](const Tensors& carries, const Tensors& slices) {
    Tensors given = joined(carries, slices);
    for (at::Tensor& tensor : given) tensor = loop.clones ? tensor.clone() : tensor;
    given.insert(given.end(), rest, arguments.end());
    return checked(run_body(program, given, captured), carries);
  };
  const Step step = [&](const Tensors& carries, const Tensors& slices) {
    if (loop.inner == Loop::Kind::kNone) return innermost(carries, slices);
    return run_inner(loop.inner, way, innermost, carries, slices);
  };
  Operands operands{Tensors(arguments.begin(), slices_begin), {}, std::max<int64_t>(loop.length, 1), loop.reverse};
  if (loop.kind == Loop::Kind::kScan || loop.kind == Loop::Kind::kWhile) operands.length = loop.length;
  for (auto slice = slices_begin; slice != rest; ++slice) operands.xs.push_back(slices_of(*slice, operands.length));
  Tensors results = joined(run(loop.kind, way, step, operands));
  if (loop.length == 0) results.resize(loop.carries);  // the loop written out does not know its outputs' sizes
  for (at::Tensor& result : results) result = result.resolve_conj().resolve_neg().contiguous();
  if (way == Way::kWrittenOut) results = owned(std::move(results));
  return results;
}

}  // namespace diptych::fuzz
