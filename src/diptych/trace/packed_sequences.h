// Sequences of several lengths in one tensor, whose lengths a trace asks for: LibTorch's operators on them read these
// on the host.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <span>
#include <string>
#include <vector>

#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// Note [Packed sequences]
/// A packed sequence is the rows of a batch without its padding, step by step, and a tensor that says how many
/// sequences reach each step. LibTorch's operators read the lengths, or these batch sizes, and take slices. A trace
/// asks for them, lets the operator itself find on row numbers which row goes where, and checks the lengths with it;
/// then rows are gathered or scattered by these constants, which has gradients of any order. The batch sizes are a
/// constant, too, so that whoever reads them asks for nothing that a call could change.

/// Returns what aten::_pack_padded_sequence(input, lengths, batch_first) gives: the rows, and the batch sizes.
/// Errors: as the operator has them.
std::vector<c10::IValue> pack(Recorder& recorder, std::span<const c10::IValue> arguments, const std::string& place);

/// Returns what aten::_pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length) gives: the
/// padded batch, and the lengths. Errors: as the operator has them.
std::vector<c10::IValue> pad(Recorder& recorder, std::span<const c10::IValue> arguments, const std::string& place);

}  // namespace diptych::detail
