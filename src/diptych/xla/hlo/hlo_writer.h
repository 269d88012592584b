// Writes operations of StableHLO as text, one method per operation: operands in, the result's name and type out.
// Source: the StableHLO specification, openxla.org/stablehlo/spec.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diptych::detail {

/// A value of a StableHLO function: its name ("%7") and type. Sizes in elements.
struct Hlo {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes;

  int64_t dim() const { return static_cast<int64_t>(sizes.size()); }
};

/// Whether StableHLO has tensors of this dtype.
bool has_hlo_type(at::ScalarType dtype);
/// "tensor<2x3xf32>". Errors: UserError for a dtype that StableHLO does not have.
std::string hlo_type(at::ScalarType dtype, at::IntArrayRef sizes);
std::string hlo_type(const Hlo& value);
/// "[0, 1]"
std::string hlo_list(at::IntArrayRef values);

/// The operands' and results' dimensions of a dot_general, by position.
struct DotDimensions {
  std::vector<int64_t> left_batch, right_batch, left_contracted, right_contracted;
};

/// The window of a reduce_window, with an entry for every dimension.
struct ReduceWindow {
  std::vector<int64_t> sizes, stride, dilation;
  std::vector<std::pair<int64_t, int64_t>> padding;  ///< before and after
};

/// The window of a convolution: one entry per spatial dimension.
struct ConvolutionWindow {
  std::vector<int64_t> stride, dilation, input_dilation;
  std::vector<std::pair<int64_t, int64_t>> padding;  ///< before and after; negative crops
  int64_t feature_groups = 1, batch_groups = 1;
};

/// A Fourier transform: forward, or inverse with the quotient by its lengths; of real numbers, the half that tells all.
enum class FourierKind { kForward, kInverse, kFromReal, kInverseToReal };

/// The body of one function, as it is written. Requires: operands are values of this function.
class HloWriter {
 public:
  /// Writes the operations of a region, such as the body of a loop, from its arguments to its results.
  using Body = std::function<std::vector<Hlo>(HloWriter&, std::span<const Hlo>)>;

  const std::string& text() const { return text_; }

  /// A tensor of one number.
  Hlo constant(const at::Scalar& value, at::ScalarType dtype, std::vector<int64_t> sizes = {});
  /// A small integer tensor, such as an index or a mask's table.
  Hlo constant_list(at::IntArrayRef values, at::ScalarType dtype);
  /// The position along dimension `dim`.
  Hlo iota(at::ScalarType dtype, std::vector<int64_t> sizes, int64_t dim);

  /// An elementwise operation by name, as "tanh", "add"; operands have one type, and so has the result.
  Hlo unary(std::string_view operation, const Hlo& x);
  Hlo binary(std::string_view operation, const Hlo& x, const Hlo& y);
  /// An elementwise operation of the CHLO dialect, which XLA expands, as "erf".
  Hlo chlo(std::string_view operation, const Hlo& x);
  /// An operation from complex numbers to real ones: "abs", "real", "imag".
  Hlo complex_part(std::string_view operation, const Hlo& x);
  /// `direction` is EQ, NE, LT, LE, GT or GE.
  Hlo compare(std::string_view direction, const Hlo& x, const Hlo& y);
  Hlo select(const Hlo& condition, const Hlo& x, const Hlo& y);
  /// Converts as ATen does: to a boolean, whether it is not zero; of a complex number, its real part.
  Hlo convert(const Hlo& x, at::ScalarType dtype);

  /// `dims[i]` is the result's dimension that dimension i of `x` becomes.
  Hlo broadcast(const Hlo& x, std::vector<int64_t> sizes, at::IntArrayRef dims);
  /// Broadcasts as ATen does: trailing dimensions match.
  Hlo broadcast_to(const Hlo& x, const std::vector<int64_t>& sizes);
  Hlo reshape(const Hlo& x, std::vector<int64_t> sizes);
  /// Dimension i of the result is dimension `order[i]` of `x`.
  Hlo transpose(const Hlo& x, at::IntArrayRef order);
  Hlo swap_dims(const Hlo& x, int64_t a, int64_t b);
  Hlo reverse(const Hlo& x, at::IntArrayRef dims);
  Hlo slice(const Hlo& x, at::IntArrayRef begin, at::IntArrayRef end, at::IntArrayRef step);
  /// Elements begin, begin + step, ... before `end` along one dimension.
  Hlo slice_along(const Hlo& x, int64_t dim, int64_t begin, int64_t end, int64_t step = 1);
  /// Less than no padding takes elements away.
  Hlo pad(const Hlo& x, const Hlo& value, at::IntArrayRef low, at::IntArrayRef high, at::IntArrayRef interior);
  Hlo concatenate(const std::vector<Hlo>& parts, int64_t dim);
  /// Starts are scalars of one integer dtype, clamped so that the slice lies inside.
  Hlo dynamic_slice(const Hlo& x, const std::vector<Hlo>& starts, at::IntArrayRef sizes);
  Hlo dynamic_update_slice(const Hlo& x, const Hlo& update, const std::vector<Hlo>& starts);

  /// Reduces with an operation of two scalars, as "add", "maximum"; `dims` vanish.
  Hlo reduce(std::string_view operation, const Hlo& x, const Hlo& initial, at::IntArrayRef dims);
  /// Reduces several tensors at once; `body` gets the accumulators, then the elements, and returns new accumulators.
  std::vector<Hlo> reduce(const std::vector<Hlo>& xs, const std::vector<Hlo>& initials, at::IntArrayRef dims,
                          const Body& body);
  Hlo reduce_window(std::string_view operation, const Hlo& x, const Hlo& initial, const ReduceWindow& window);
  /// The result's dimensions are the batch, then what is left of `x`, then of `y`.
  Hlo dot_general(const Hlo& x, const Hlo& y, const DotDimensions& dims, at::ScalarType dtype);
  /// `x`, `kernel` and the result are in the order (batch, feature, spatial...) and (out, in, spatial...).
  Hlo convolution(const Hlo& x, const Hlo& kernel, const ConvolutionWindow& window);
  /// Transforms the last dimensions, one to three: `lengths` are theirs on the real side.
  Hlo fft(FourierKind kind, const Hlo& x, at::IntArrayRef lengths);
  /// Sorts along `dim` by the first tensor; `body` compares two elements of each, in pairs.
  std::vector<Hlo> sort(const std::vector<Hlo>& xs, int64_t dim, const Body& body);
  /// The `count` largest elements along the last dimension, the largest first, and their positions, i32. Floats are
  /// taken in the order of their bits: -NaN first, NaN last.
  std::vector<Hlo> top_k(const Hlo& x, int64_t count);

  /// result[i, ...] = x[indices[i], ...]: rows along dimension `dim` by a tensor of indices of any rank, whose
  /// dimensions take the place of `dim`. Indices are clamped.
  Hlo take(const Hlo& x, const Hlo& indices, int64_t dim);
  /// result[..., rest] = x[coordinates[..., 0], ..., coordinates[..., k - 1], rest]: slices by their coordinates in the
  /// first k dimensions of `x`, or elements where k is its rank. Coordinates are clamped.
  Hlo gather_slices(const Hlo& x, const Hlo& coordinates);
  /// x with the slices of `updates` combined by `operation` ("add", "" replaces) at coordinates in its first k
  /// dimensions; those outside are skipped.
  Hlo scatter_slices(std::string_view operation, const Hlo& x, const Hlo& coordinates, const Hlo& updates);
  /// x with `updates` combined at positions along dimension `dim`; `indices` has one dimension, and those outside are
  /// skipped.
  Hlo scatter_along(std::string_view operation, const Hlo& x, int64_t dim, const Hlo& indices, const Hlo& updates);
  /// The same bits as another dtype; a narrower one adds a last dimension, a wider one takes it away.
  Hlo bitcast(const Hlo& x, at::ScalarType dtype, std::vector<int64_t> sizes);

  /// Fills a tensor of whole numbers with random bits that follow from the state, i64 [2]; returns the bits, then the
  /// state behind them.
  std::vector<Hlo> random_bits(const Hlo& state, at::ScalarType dtype, std::vector<int64_t> sizes);

  /// Runs `body` on the state as long as `condition` says so.
  std::vector<Hlo> while_loop(const std::vector<Hlo>& state, const Body& condition, const Body& body);
  /// Runs the branch whose number `index` (i32, a scalar) is; branches take nothing and return values like `results`.
  std::vector<Hlo> switch_case(const Hlo& index, const std::vector<Hlo>& results, const std::vector<Body>& branches);
  /// The values again, across which the compiler moves nothing.
  std::vector<Hlo> optimization_barrier(const std::vector<Hlo>& values);

  /// Complex numbers of their parts.
  Hlo complex(const Hlo& real, const Hlo& imaginary);

  /// Writes `return` of the function.
  void write_return(const std::vector<Hlo>& values);
  /// Notes the node that the operations that follow belong to, as a location for the plugin's messages.
  void set_location(const std::string& node);
  /// The function's argument of that number.
  static Hlo argument(size_t index, at::ScalarType dtype, std::vector<int64_t> sizes);

 private:
  struct Region {
    std::vector<Hlo> arguments;  ///< their types; names are given when the region is written
    Body body;
  };
  Hlo define(at::ScalarType dtype, std::vector<int64_t> sizes);
  Hlo nothing_to_read(const Hlo& result);
  Hlo padding(const Hlo& x, const Hlo& value, at::IntArrayRef low, at::IntArrayRef high, at::IntArrayRef interior,
              const std::vector<int64_t>& sizes);
  void line(std::string_view text);
  void statement(const Hlo& result, std::string_view text);
  /// Writes any operation in MLIR's generic form; `results` tells types. A name without a dialect is StableHLO's.
  std::vector<Hlo> generic(std::string_view operation, const std::vector<Hlo>& operands,
                           const std::vector<Hlo>& results, std::string_view attributes,
                           const std::vector<Region>& regions = {});
  void write_region(const Region& region, std::string_view opening);
  static Body combine_with(std::string_view operation);

  std::string text_;
  std::string location_;
  size_t next_ = 0;
};

}  // namespace diptych::detail
