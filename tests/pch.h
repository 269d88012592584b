// The tests' precompiled header: what nearly all of them read. Those that use Torch's modules or optimizers have
// pch_modules.h.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "diptych/diptych.h"
