// Operations of linear algebra and Fourier transforms.
#include <fmt/format.h>

#include <utility>

#include "diptych/backends/xla/hlo_text.h"
#include "diptych/backends/xla/hlo_writer.h"

namespace diptych::detail {

Hlo HloWriter::triangular_solve(const Hlo& a, const Hlo& b, const TriangularSolve& how) {
  const auto attributes =
      fmt::format("left_side = {}, lower = {}, unit_diagonal = {}, transpose_a = #stablehlo<transpose {}>", how.is_left,
                  !how.is_upper, how.has_unit_diagonal, how.transposition);
  return generic("triangular_solve", {a, b}, {b}, attributes)[0];
}

Hlo HloWriter::fft(FourierKind kind, const Hlo& x, at::IntArrayRef lengths) {
  constexpr const char* kNames[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  Hlo result{"", x.dtype, x.sizes};
  if (kind == FourierKind::kFromReal) {
    result.dtype = at::toComplexType(x.dtype);
    result.sizes.back() = lengths.back() / 2 + 1;
  } else if (kind == FourierKind::kInverseToReal) {
    result.dtype = at::toRealValueType(x.dtype);
    result.sizes.back() = lengths.back();
  }
  const auto attributes = fmt::format("fft_type = #stablehlo<fft_type {}>, fft_length = {}",
                                      kNames[static_cast<size_t>(kind)], hlo_array(lengths));
  return generic("fft", {x}, {result}, attributes)[0];
}

}  // namespace diptych::detail
