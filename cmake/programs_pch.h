// The precompiled header of the examples and the benchmarks: what most of them read. Every file still includes what it
// uses.
#pragma once
#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/types.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "diptych/diptych.h"
