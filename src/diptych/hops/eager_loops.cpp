#include "diptych/hops/eager_loops.h"

#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/TensorWrapper.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "diptych/autodiff/batched_tangents.h"
#include "diptych/base/check.h"
#include "diptych/hops/loop_body.h"
#include "diptych/hops/strides.h"
#include "diptych/hops/transformed_call.h"
#include "diptych/hops/truth.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

// A wrapper's own version says nothing.
int64_t version_in_loop(const at::Tensor& tensor) {
  if (const auto* batched = at::functorch::maybeGetBatchedImpl(tensor)) return version_in_loop(batched->value());
  if (const auto* wrapper = at::functorch::maybeGetTensorWrapper(tensor)) return version_in_loop(wrapper->value());
  return !tensor.defined() || tensor.is_inference() ? 0 : static_cast<int64_t>(tensor._version());
}

bool shares_wrapped_memory(const at::Tensor& a, const at::Tensor& b) {
  const auto inside = [](at::Tensor tensor) {
    while (true) {
      if (const auto* batched = at::functorch::maybeGetBatchedImpl(tensor)) {
        tensor = at::Tensor(batched->value());
      } else if (const auto* wrapper = at::functorch::maybeGetTensorWrapper(tensor)) {
        tensor = at::Tensor(wrapper->value());
      } else {
        return tensor;
      }
    }
  };
  const at::Tensor x = inside(a), y = inside(b);
  return x.has_storage() && y.has_storage() && x.storage().is_alias_of(y.storage());
}

std::vector<int64_t> versions_in_loop(const Tensors& tensors) {
  std::vector<int64_t> versions;
  for (const at::Tensor& tensor : tensors) versions.push_back(version_in_loop(tensor));
  return versions;
}

// Calls a user's function and checks that it leaves its arguments unchanged. `what`: which function it is.
FlatResult call_purely(const char* who, const char* what, const FlatFunction& function, const Tensors& arguments,
                       const TreeSpec& spec) {
  const std::vector<int64_t> versions = versions_in_loop(arguments);
  FlatResult result = function(arguments);
  for (size_t i = 0; i < arguments.size(); ++i) {
    DIPTYCH_CHECK(version_in_loop(arguments[i]) == versions[i],
                  "[{}] {} changes its argument '{}' in place; use an out-of-place operator, or clone it first", who,
                  what, spec.tensor_path(i));
  }
  return result;
}

// Takes the next carries off the front of a step's results.
Tensors take_carries(const char* who, const Flattened& init, FlatResult& result) {
  const auto end = result.tensors.begin() + static_cast<int64_t>(init.tensors.size());
  Tensors carries(result.tensors.begin(), end);
  for (size_t i = 0; i < carries.size(); ++i) {
    check_carry(who, init.spec.tensor_path(i), logical_meta(init.tensors[i]), logical_meta(carries[i]));
  }
  result.tensors.erase(result.tensors.begin(), end);
  return carries;
}

// Copies each carry that shares memory with a given tensor or an earlier carry: the caller alone owns a loop's results.
void own_carries(Tensors& carries, Tensors given) {
  for (at::Tensor& carry : carries) {
    const bool is_given = std::any_of(given.begin(), given.end(), [&](const at::Tensor& tensor) {
      return tensor.is_same(carry) ||
             (tensor.has_storage() && carry.has_storage() && tensor.storage().is_alias_of(carry.storage()));
    });
    if (is_given) carry = eager_operators().clone(carry);
    given.push_back(carry);
  }
}

Tensors clones_of(Tensors tensors) {
  for (at::Tensor& tensor : tensors) tensor = eager_operators().clone(tensor);
  return tensors;
}

Tensors slices_at(const Flattened& xs, int64_t index) {
  Tensors slices;
  for (const at::Tensor& leaf : xs.tensors) {
    slices.push_back(leaf.size(0) > 0 ? eager_operators().select(leaf, index)
                                      : at::zeros(leaf.sizes().slice(1), leaf.options()));
  }
  return slices;
}

/// What the steps of a scan returned to be stacked.
struct Rows {
  std::vector<Tensors> rows;
  std::vector<std::vector<std::optional<int64_t>>> versions;  ///< of those that are carries, too

  void add(Tensors row, const Tensors& carries) {
    std::vector<std::optional<int64_t>> found;
    for (const at::Tensor& tensor : row) {
      const auto shares = [&](const at::Tensor& carry) { return shares_wrapped_memory(tensor, carry); };
      const bool is_carried = std::any_of(carries.begin(), carries.end(), shares);
      found.push_back(is_carried ? std::optional(version_in_loop(tensor)) : std::nullopt);
    }
    versions.push_back(std::move(found));
    rows.push_back(std::move(row));
  }
  // A step may change its carry. An output that shares memory with one would show what a later step did, which is not
  // what a capture returns: see Note [Arguments that bodies change].
  void check_unchanged(const std::vector<std::string>& paths, size_t num_carries) const {
    for (size_t k = 0; k < rows.size(); ++k) {
      const std::vector<int64_t> now = versions_in_loop(rows[k]);
      for (size_t i = 0; i < now.size(); ++i) {
        DIPTYCH_CHECK(!versions[k][i] || now[i] == *versions[k][i],
                      "[scan] the body changes a carry in place that it has returned as '{}', too; return clone() of "
                      "one of them",
                      paths[num_carries + i]);
      }
    }
  }
  Tensors stacks() const {
    Tensors stacks;
    for (size_t i = 0; i < rows.at(0).size(); ++i) {
      Tensors column;
      for (const Tensors& row : rows) column.push_back(row[i]);
      stacks.push_back(eager_operators().stack(column));
    }
    return stacks;
  }
};

}  // namespace

Tensors scan_in_eager(const FlatFunction& step, const Flattened& init, const Flattened& xs, int64_t length,
                      bool reverse) {
  Tensors carries = init.tensors;
  Rows rows;
  std::vector<std::string> paths;
  // Without steps, one step on zeros shows what the stacks would hold.
  for (int64_t k = 0; k < std::max<int64_t>(length, 1); ++k) {
    Tensors given = length > 0 ? carries : clones_of(carries);
    for (at::Tensor& slice : slices_at(xs, reverse ? length - 1 - k : k)) given.push_back(std::move(slice));
    FlatResult result = step(given);
    Tensors next = take_carries("scan", init, result);
    if (length > 0) carries = std::move(next);
    paths = std::move(result.paths);
    rows.add(std::move(result.tensors), carries);
  }
  rows.check_unchanged(paths, init.tensors.size());
  if (reverse) std::reverse(rows.rows.begin(), rows.rows.end());
  Tensors given = init.tensors;
  given.insert(given.end(), xs.tensors.begin(), xs.tensors.end());
  own_carries(carries, std::move(given));
  for (at::Tensor& stack : rows.stacks()) {
    carries.push_back(length > 0 ? std::move(stack) : stack.detach().slice(0, 0, 0).clone());
  }
  return carries;
}

void check_condition(const TensorMeta& truth) {
  DIPTYCH_CHECK(truth.numel() == 1,
                "[while_loop] the condition returns {}, expected one element; compare, or reduce with any() or all()",
                type_string(contiguous(truth)));
}

Tensors while_loop_in_eager(const FlatFunction& condition, const FlatFunction& step, const Flattened& init) {
  Tensors carries = init.tensors;
  // A trace that reaches this loop is given up, and conditions have no values in it, so no step runs.
  while (Recorder::current() == nullptr) {
    const at::Tensor truth = call_purely("while_loop", "the condition", condition, carries, init.spec).tensors.at(0);
    check_condition(logical_meta(truth));
    if (!truth_of(truth).item().toBool()) break;
    FlatResult result = step(carries);
    carries = take_carries("while_loop", init, result);
  }
  own_carries(carries, init.tensors);
  return carries;
}

Tensors cond_in_eager(const at::Tensor& predicate, const FlatFunction& if_true, const FlatFunction& if_false,
                      const Flattened& arguments) {
  // A trace that is given up runs both functions: it may yet meet more, and it gets the structure of both results.
  if (!differs_within_a_batch(predicate) && Recorder::current() == nullptr) {
    return (truth_of(predicate).item().toBool() ? if_true : if_false)(arguments.tensors).tensors;
  }
  const auto run = [&](const FlatFunction& function, const char* what) {
    return Recorder::current() == nullptr ? call_purely("cond", what, function, arguments.tensors, arguments.spec)
                                          : function(arguments.tensors);
  };
  FlatResult yes = run(if_true, "the true function"), no = run(if_false, "the false function");
  const auto metas = [](const Tensors& tensors) {
    std::vector<TensorMeta> found;
    for (const at::Tensor& tensor : tensors) found.push_back(logical_meta(tensor));
    return found;
  };
  check_branches_agree(metas(yes.tensors), metas(no.tensors), yes.paths);
  for (size_t i = 0; i < yes.tensors.size(); ++i) {
    yes.tensors[i] = at::where(truth_of(predicate).reshape({}), yes.tensors[i], no.tensors[i]);
  }
  return std::move(yes.tensors);
}

}  // namespace diptych::detail
