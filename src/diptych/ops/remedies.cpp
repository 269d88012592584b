#include "diptych/ops/remedies.h"

#include <algorithm>
#include <iterator>

namespace diptych::detail {
namespace {

struct Remedy {
  std::string_view name;
  std::string_view words;
};

constexpr std::string_view kKeepTheShape =
    "the size of its result is the number of true elements of the mask; keep the shape with where() or masked_fill(), "
    "multiply by the mask, or call it outside the traced function";
constexpr std::string_view kCountOutside =
    "the size of its result depends on values; call it outside the traced function and pass its result";
constexpr std::string_view kKeepInTensors =
    "keep the decision in tensors (where, masking, cond; index_select or gather for an index that is a tensor), or "
    "move "
    "it out of the traced function";
constexpr std::string_view kNoPacking =
    "use a mask instead of a packed sequence, or do what needs a packed one outside";
constexpr Remedy kRemedies[] = {
    {"aten::_ctc_loss", "return the log-probabilities from the traced function, and take the loss of them outside"},
    {"aten::_local_scalar_dense", kKeepInTensors},
    {"aten::_pack_padded_sequence", kNoPacking},
    {"aten::_pad_packed_sequence", kNoPacking},
    {"aten::_unique", kCountOutside},
    {"aten::_unique2", kCountOutside},
    {"aten::argwhere", kKeepTheShape},
    {"aten::bincount", kCountOutside},
    {"aten::gru", kNoPacking},
    {"aten::index", kKeepTheShape},
    {"aten::item", kKeepInTensors},
    {"aten::lstm", kNoPacking},
    {"aten::masked_select", kKeepTheShape},
    {"aten::nonzero", kKeepTheShape},
    {"aten::nonzero_numpy", kKeepTheShape},
    {"aten::one_hot", "compare with the classes: indices.unsqueeze(-1) == arange(number of classes)"},
    {"aten::repeat_interleave", "repeat all elements equally often, by a number, or call it outside"},
    {"aten::rnn_relu", kNoPacking},
    {"aten::rnn_tanh", kNoPacking},
    {"aten::tensor_split", "pass the indices as integers"},
    {"aten::unique_consecutive", kCountOutside},
    {"aten::unique_dim", kCountOutside},
    {"aten::unique_dim_consecutive", kCountOutside},
};

}  // namespace

std::string_view remedy_for_values(std::string_view name) {
  const auto* found = std::find_if(std::begin(kRemedies), std::end(kRemedies),
                                   [&](const Remedy& remedy) { return remedy.name == name; });
  if (found != std::end(kRemedies)) return found->words;
  return "keep the decision in tensors (where, masking, cond), or move it out of the traced function";
}

}  // namespace diptych::detail
