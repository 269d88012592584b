// The recursion: combine neighbours, scan the half as many results, combine those with the elements between them.
//
// Note [Slices that are cheap to differentiate]
// The gradient of a slice is a tensor of the whole's size, zero outside the slice, and the gradients of several slices
// are summed. Here elements are taken apart by unbind and split_with_sizes where possible, whose gradient is one stack
// or cat, and put together by stack and cat, whose gradients are views. In the forward, everything that is taken apart
// is a view: what autograd saves keeps alive only the level's own elements and prefixes, half as many from level to
// level.
#include "diptych/hops/associative_scan.h"

#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include "diptych/base/check.h"
#include "diptych/graph/tensor_meta.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Describes a tensor's type without strides, since f's arguments may have other strides than its results should have.
std::string type_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  TensorMeta meta = TensorMeta::of(tensor);
  meta.strides = contiguous_strides(meta.sizes);
  return type_string(meta);
}

/// A tensor and the rest of it.
struct Halves {
  at::Tensor first, rest;
};

/// The steps of the recursion for one leaf, along its dimension. "Earlier" and "first" are as the scan goes, so that
/// scanning in reverse costs no flip.
class Sequence {
 public:
  Sequence(int64_t dim, bool reverse) : dim_(dim), reverse_(reverse) {}

  int64_t dim() const { return dim_; }
  int64_t length(const at::Tensor& x) const { return x.size(dim_); }

  /// Takes the first element off. Requires: at least two elements.
  Halves split_first(const at::Tensor& x) const {
    const int64_t rest = length(x) - 1;
    auto parts = reverse_ ? x.split_with_sizes({rest, 1}, dim_) : x.split_with_sizes({1, rest}, dim_);
    return {std::move(parts[reverse_ ? 1 : 0]), std::move(parts[reverse_ ? 0 : 1])};
  }

  /// The first `count` elements.
  at::Tensor head(const at::Tensor& x, int64_t count) const {
    if (count == length(x)) return x;
    return x.narrow(dim_, reverse_ ? length(x) - count : 0, count);
  }

  /// Elements 0, 2, 4, ... and 1, 3, 5, ... Requires: an even length.
  Halves split_pairs(const at::Tensor& x) const {
    auto parts = x.unflatten(dim_, {length(x) / 2, 2}).unbind(dim_ + 1);
    return {std::move(parts[reverse_ ? 1 : 0]), std::move(parts[reverse_ ? 0 : 1])};
  }

  /// Elements 0, 2, 4, ... but for the last one. Requires: an odd length.
  at::Tensor every_other(const at::Tensor& x) const {
    const int64_t begin = reverse_ ? 2 : 0;
    return x.slice(dim_, begin, begin + length(x) - 1, 2);
  }

  at::Tensor join(const at::Tensor& first, const at::Tensor& rest) const {
    return at::cat({reverse_ ? rest : first, reverse_ ? first : rest}, dim_);
  }

  /// The inverse of split_pairs().
  at::Tensor interleave(const at::Tensor& first, const at::Tensor& rest) const {
    const at::Tensor stacked = at::stack({reverse_ ? rest : first, reverse_ ? first : rest}, dim_ + 1);
    auto sizes = first.sizes().vec();
    sizes[dim_] *= 2;
    // Not a view: nobody else sees the stacked tensor, and a result that is its own base is easier on its users.
    return at::_unsafe_view(stacked, sizes);
  }

 private:
  int64_t dim_;
  bool reverse_;
};

/// One leaf at one level: pairs of neighbours, earlier[i] with later[i], and the elements between the pairs, rest[i],
/// which follow the i-th pair's end. `first` is the element that is its own prefix.
struct Level {
  at::Tensor first, earlier, later, rest;
};

Level take_apart(const Sequence& sequence, const at::Tensor& x) {
  if (sequence.length(x) % 2 == 0) {
    Halves pairs = sequence.split_pairs(x);
    if (sequence.length(x) == 2) return {pairs.first, pairs.first, pairs.rest, {}};
    Halves between = sequence.split_first(pairs.first);
    return {std::move(between.first), std::move(pairs.first), std::move(pairs.rest), std::move(between.rest)};
  }
  // An odd number of elements has no pairs to unbind. Only the earlier ones are a slice: a copy of them from the parts
  // would be saved besides the whole.
  Halves whole = sequence.split_first(x);
  Halves pairs = sequence.split_pairs(whole.rest);
  return {std::move(whole.first), sequence.every_other(x), std::move(pairs.first), std::move(pairs.rest)};
}

/// `at_ends` are the prefixes that end with a pair, `between` those that end with an element between pairs.
at::Tensor put_together(const Sequence& sequence, const at::Tensor& first, const at::Tensor& at_ends,
                        const at::Tensor& between) {
  if (!between.defined()) return sequence.join(first, at_ends);
  const bool is_odd = sequence.length(between) == sequence.length(at_ends);
  return is_odd ? sequence.join(first, sequence.interleave(at_ends, between))
                : sequence.interleave(sequence.join(first, between), at_ends);
}

/// Returns 0 for an inference tensor: it has no version, so a change of it can't be detected.
int64_t version_of(const at::Tensor& tensor) { return tensor.is_inference() ? 0 : tensor._version(); }

class Scan {
 public:
  Scan(FlatCombine combine, const std::vector<std::string>& paths, std::vector<Sequence> sequences)
      : combine_(combine), paths_(paths), sequences_(std::move(sequences)) {}

  Tensors run(const Tensors& xs) const {
    if (sequences_[0].length(xs[0]) < 2) return xs;
    Tensors first, earlier, later, rest;
    for (size_t i = 0; i < xs.size(); ++i) {
      Level level = take_apart(sequences_[i], xs[i]);
      first.push_back(std::move(level.first));
      earlier.push_back(std::move(level.earlier));
      later.push_back(std::move(level.later));
      if (level.rest.defined()) rest.push_back(std::move(level.rest));
    }
    const Tensors at_ends = run(call(earlier, later));
    const Tensors between = combine_between(at_ends, rest);
    Tensors ys;
    for (size_t i = 0; i < at_ends.size(); ++i) {
      ys.push_back(put_together(sequences_[i], first[i], at_ends[i], between.empty() ? at::Tensor() : between[i]));
    }
    return ys;
  }

 private:
  Tensors combine_between(const Tensors& at_ends, const Tensors& rest) const {
    if (rest.empty()) return {};
    Tensors before;
    for (size_t i = 0; i < rest.size(); ++i) {
      before.push_back(sequences_[i].head(at_ends[i], sequences_[i].length(rest[i])));
    }
    return call(before, rest);
  }

  Tensors call(const Tensors& earlier, const Tensors& later) const {
    std::vector<int64_t> versions;
    for (size_t i = 0; i < earlier.size(); ++i) {
      versions.push_back(version_of(earlier[i]));
      versions.push_back(version_of(later[i]));
    }
    Tensors results = combine_(earlier, later);
    DIPTYCH_ASSERT(results.size() == earlier.size(), "got {} tensors for {} leaves", results.size(), earlier.size());
    for (size_t i = 0; i < earlier.size(); ++i) {
      DIPTYCH_CHECK(version_of(earlier[i]) == versions[2 * i] && version_of(later[i]) == versions[2 * i + 1],
                    "[associative_scan] f changed its argument '{}' in place, but that is a part of xs or of the "
                    "result; use the operator without the underscore, or change a clone",
                    paths_[i]);
      check_result(i, earlier[i], results[i]);
    }
    return results;
  }

  void check_result(size_t leaf, const at::Tensor& expected, const at::Tensor& got) const {
    const bool same_kind =
        got.defined() && got.scalar_type() == expected.scalar_type() && got.device() == expected.device();
    if (same_kind && got.sizes() == expected.sizes()) return;
    const std::string remedy =
        same_kind || !got.defined()
            ? fmt::format("combine element by element along dim {}, and keep the other dimensions",
                          sequences_[leaf].dim())
            : "convert it in f with to(), or convert that leaf of xs";
    throw_user_error(fmt::format("[associative_scan] f returned '{}' as {}, expected {}, the type that it got; {}",
                                 paths_[leaf], type_of(got), type_of(expected), remedy));
  }

  FlatCombine combine_;
  const std::vector<std::string>& paths_;
  std::vector<Sequence> sequences_;
};

/// The dimension of one leaf, counted from its first. Errors: as associative_scan()'s.
int64_t dim_of(const at::Tensor& leaf, const std::string& path, int64_t dim) {
  DIPTYCH_CHECK(leaf.defined(),
                "[associative_scan] got an undefined tensor as '{}', expected a sequence; pass a defined tensor, or an "
                "absent std::optional",
                path);
  DIPTYCH_CHECK(leaf.layout() == c10::kStrided,
                "[associative_scan] got '{}', a tensor of layout {}, expected a strided one; call to_dense()", path,
                c10::str(leaf.layout()));
  DIPTYCH_CHECK(leaf.dim() > 0,
                "[associative_scan] got '{}' as {}, a scalar, expected a sequence along dim {}; unsqueeze and expand "
                "it, or let f capture it",
                path, type_of(leaf), dim);
  DIPTYCH_CHECK(dim >= -leaf.dim() && dim < leaf.dim(),
                "[associative_scan] got dim {}, which '{}', {}, does not have, expected {} to {}; pass another dim",
                dim, path, type_of(leaf), -leaf.dim(), leaf.dim() - 1);
  return dim < 0 ? dim + leaf.dim() : dim;
}

std::vector<Sequence> sequences_of(const Tensors& xs, const std::vector<std::string>& paths,
                                   const AssociativeScanOptions& options) {
  DIPTYCH_CHECK(!xs.empty(),
                "[associative_scan] got xs without a tensor, expected at least one; put the sequences into xs");
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < xs.size(); ++i) {
    sequences.emplace_back(dim_of(xs[i], paths[i], options.dim), options.reverse);
    DIPTYCH_CHECK(sequences[i].length(xs[i]) == sequences[0].length(xs[0]),
                  "[associative_scan] got '{}' as {}, of length {} along dim {}, expected {}, the length of '{}'; give "
                  "all leaves one length, or let f capture what is not a sequence",
                  paths[i], type_of(xs[i]), sequences[i].length(xs[i]), options.dim, sequences[0].length(xs[0]),
                  paths[0]);
  }
  return sequences;
}

}  // namespace

Tensors associative_scan_flat(FlatCombine combine, const Tensors& xs, const std::vector<std::string>& paths,
                              const AssociativeScanOptions& options) {
  std::vector<Sequence> sequences = sequences_of(xs, paths, options);
  if (sequences[0].length(xs[0]) >= 2) return Scan(combine, paths, std::move(sequences)).run(xs);
  Tensors copies;
  for (const at::Tensor& x : xs) copies.push_back(x.clone(at::MemoryFormat::Contiguous));
  return copies;
}

void throw_combined_structure(const TreeSpec& expected, const TreeSpec& got) {
  throw_user_error(
      fmt::format("[associative_scan] f got and returned different structures: {}; return the structure that it got",
                  first_difference(expected, got).value_or("equal")));
}

}  // namespace diptych::detail
