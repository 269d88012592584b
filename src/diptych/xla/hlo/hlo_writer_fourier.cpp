// Fourier transforms.
#include <fmt/format.h>

#include "diptych/xla/hlo/hlo_text.h"
#include "diptych/xla/hlo/hlo_writer.h"

namespace diptych::detail {

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
