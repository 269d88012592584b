// The tests' precompiled header: all of torch's C++ front end, which the library itself never includes.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
