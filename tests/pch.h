// The tests' precompiled header: what nearly all of them read. Torch's modules and optimizers cost each unit a second,
// so that the tests that use them include <torch/nn.h> and <torch/optim.h> themselves.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "diptych/diptych.h"
