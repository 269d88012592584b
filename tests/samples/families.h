// The families of samples, each a function that makes them.
#pragma once
#include "samples/sample.h"

namespace diptych::test {

// Calls with operands in the layouts that kernels tell apart.
Samples layouts_pointwise();
Samples layouts_activation();
Samples layouts_embedding();
Samples layouts_norm();
Samples layouts_attention();
Samples layouts_convolution();
Samples layouts_pool();
Samples layouts_loss();
Samples layouts_recurrent();
Samples layouts_reduction();
Samples layouts_indexing();
Samples layouts_random();
Samples layouts_fft();
Samples layouts_linalg();
Samples layouts_spatial();
Samples layouts_structured();

// Calls with the numbers, sizes and options that rules of lowering tell apart.
Samples calls_algebra();
Samples calls_attention();
Samples calls_batch_normalization();
Samples calls_convolution();
Samples calls_grid_sampling();
Samples calls_indexing();
Samples calls_pointwise();
Samples calls_pooling();
Samples calls_product();
Samples calls_reduction();
Samples calls_shape();
Samples calls_special_functions();
Samples calls_upsampling();

// Rows of cases.h in each dtype, with numbers at which formulas go wrong; and operands of two dtypes.
Samples numbers_pointwise();
Samples numbers_activation();
Samples numbers_reduction();
Samples numbers_moving();
Samples numbers_indexing();
Samples numbers_complex();
Samples numbers_composite();
Samples numbers_promotion();

struct Family {
  std::string name;
  Samples (*samples)();
};
const std::vector<Family>& families();

}  // namespace diptych::test
