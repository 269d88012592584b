// Samples of Fourier transforms.
#include <torch/types.h>

#include "samples/families.h"

namespace diptych::test {

Samples layouts_fft() {
  Samples out;
  const std::vector<std::vector<int64_t>> sets = {{2}, {1}, {0}, {1, 2}, {0, 1}, {0, 2}, {2, 0}, {0, 1, 2}};
  for (const auto& shape : std::vector<std::vector<int64_t>>{{2, 4, 6}, {2, 4, 6, 3}, {2, 1, 5}}) {
    for (const Layout& x : nonempty_layouts(f32(shape))) {
      const at::Tensor z = torch::empty_strided(x.tensor.sizes(), x.tensor.strides(), at::kComplexFloat).fill_(1);
      for (const auto& dims : sets) {
        out.push_back(sample("aten._fft_c2c", {z, ints(dims), 0, true}, x.name));
        for (const bool onesided : {false, true}) {
          out.push_back(sample("aten._fft_r2c", {x.tensor, ints(dims), 0, onesided}, x.name));
        }
        const int64_t half = z.size(dims.back()) - 1;  // the real signal is twice as long, or one longer than that
        for (const int64_t last : {2 * half, 2 * half + 1}) {
          if (last > 0) out.push_back(sample("aten._fft_c2r", {z, ints(dims), 0, last}, x.name));
        }
      }
    }
  }
  out.push_back(sample("aten._fft_c2c", {torch::ones({3}, at::kComplexDouble), ints({}), 0, true}, "no dims"));
  out.push_back(sample("aten._fft_r2c", {f64({5}), ints({0}), 0, true}, "f64"));
  return out;
}

}  // namespace diptych::test
