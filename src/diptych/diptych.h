// Diptych: the forward and backward graphs of functions on LibTorch tensors. This header is all of the public interface
// but for torch::nn modules, which diptych/compile/module.h adds.
#pragma once
#include "diptych/base/error.h"
#include "diptych/base/switches.h"
#include "diptych/compile/aot.h"
#include "diptych/compile/backends.h"
#include "diptych/compile/gradients.h"
#include "diptych/compile/pair.h"
#include "diptych/graph/graph.h"
#include "diptych/graph/html.h"
#include "diptych/graph/parse.h"
#include "diptych/graph/serialize.h"
#include "diptych/graph/verify.h"
#include "diptych/hops/scan.h"
#include "diptych/passes/partition.h"
#include "diptych/trace/scope.h"
#include "diptych/tree/signature.h"
#include "diptych/tree/tree.h"
