// The tensors that a pair is run on, by name, in a file beside the pair's own: parameters, and whatever else a training
// run needs to go on.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diptych/pair/pair.h"

namespace diptych {

/// Tensors by name, as safetensors files hold them.
using NamedTensors = std::map<std::string, at::Tensor>;

/// Writes `tensors` to `path`.safetensors and then the pair to `path`, each whole or not at all.
/// Errors: UserError as save() of a pair and save_tensors(); a pair that no file can hold is refused before either file
/// is touched.
void save_with_tensors(const Pair& pair, const NamedTensors& tensors, const std::string& path);

/// Reads what save_with_tensors() wrote, or diptych.save() of Python. Errors: UserError as load_pair() and
/// load_tensors().
std::pair<Pair, NamedTensors> load_with_tensors(const std::string& path);

/// Returns the tensors that one argument of a pair is made of, in the order of their slots. For the argument "params",
/// the slot "params.block.weight" takes the tensor called `prefix` + "block.weight"; an argument that is a tensor
/// itself takes the one called `prefix` + its own name. Names without the prefix are ignored, so that one file may hold
/// parameters under "params." and an optimizer's state under another prefix.
/// Ensures: each tensor fits its slot. Handles are shared: training them in place changes the tensors in `tensors`.
/// Errors: UserError names a tensor that is missing, one of another dtype or other sizes, one with the prefix that no
/// slot takes, or an argument that the pair doesn't have.
std::vector<at::Tensor> tensors_of_argument(const Signature& signature, std::string_view argument,
                                            const NamedTensors& tensors, std::string_view prefix = "");

}  // namespace diptych
