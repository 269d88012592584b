#include "samples/families.h"

#include "samples/cases.h"

namespace diptych::test {

Samples numbers_pointwise() { return testing::samples_of(testing::pointwise_cases()); }
Samples numbers_activation() { return testing::samples_of(testing::activation_cases()); }
Samples numbers_reduction() { return testing::samples_of(testing::reduction_cases()); }
Samples numbers_moving() { return testing::samples_of(testing::moving_cases()); }
Samples numbers_indexing() { return testing::samples_of(testing::indexing_cases()); }
Samples numbers_complex() { return testing::samples_of(testing::complex_cases()); }
Samples numbers_composite() { return testing::samples_of(testing::composite_cases()); }

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"numbers_pointwise", numbers_pointwise},
      {"numbers_activation", numbers_activation},
      {"numbers_reduction", numbers_reduction},
      {"numbers_moving", numbers_moving},
      {"numbers_indexing", numbers_indexing},
      {"numbers_complex", numbers_complex},
      {"numbers_composite", numbers_composite},
      {"numbers_promotion", numbers_promotion},
      {"calls_algebra", calls_algebra},
      {"calls_attention", calls_attention},
      {"calls_batch_normalization", calls_batch_normalization},
      {"calls_convolution", calls_convolution},
      {"calls_grid_sampling", calls_grid_sampling},
      {"calls_indexing", calls_indexing},
      {"calls_pointwise", calls_pointwise},
      {"calls_pooling", calls_pooling},
      {"calls_product", calls_product},
      {"calls_reduction", calls_reduction},
      {"calls_shape", calls_shape},
      {"calls_special_functions", calls_special_functions},
      {"calls_upsampling", calls_upsampling},
      {"layouts_pointwise", layouts_pointwise},
      {"layouts_activation", layouts_activation},
      {"layouts_embedding", layouts_embedding},
      {"layouts_norm", layouts_norm},
      {"layouts_attention", layouts_attention},
      {"layouts_convolution", layouts_convolution},
      {"layouts_pool", layouts_pool},
      {"layouts_loss", layouts_loss},
      {"layouts_recurrent", layouts_recurrent},
      {"layouts_reduction", layouts_reduction},
      {"layouts_indexing", layouts_indexing},
      {"layouts_random", layouts_random},
      {"layouts_fft", layouts_fft},
      {"layouts_linalg", layouts_linalg},
      {"layouts_spatial", layouts_spatial},
      {"layouts_structured", layouts_structured},
  };
  return all;
}

}  // namespace diptych::test
